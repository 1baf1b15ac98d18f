// Package rolling tests two versions of the library side by side on one schema, as during a rolling upgrade: processes of the
// previous version and of the present one hold, wait for, take over and hand on the same leases, before and after the
// present version's migrations.
//
// LEASEHOLD_PREVIOUS names the previous version, a commit or a tag. Default: the newest tag of the history. Where there is none,
// both are the present version, which tests no more than the test.
package rolling
