// Package fencedhttp is a small net/http middleware for a service that is written to by holders of leases: it refuses a
// request whose token is below the highest that it has seen, and remembers that one durably.
//
// [Postgres] keeps the highest token in the service's own database, through package fencing, and checks it in the
// transaction of the handler's writes. [File] is for a service whose store has no transactions.
//
// A request names its lease and its token in two headers:
//
//	Lease-Name: invoice-job      percent-encoded, as a part of a URL's path
//	Lease-Token: 42              decimal; a string in JSON, because a double cannot hold all of them
//
// Which lease a route is under is the service's decision: with another name a stale client could pass another fence.
//
//	428 Precondition Required   a header is missing
//	400 Bad Request             a header is garbled, or names another lease than the route's
//	412 Precondition Failed     stale: final, stop
//	503 Service Unavailable     not checked, or not known whether it was done: send it again with the same token
//
// 412 rather than 409: the token is a condition in the header of the request, and it was false (RFC 9110, 15.5.13). A 409
// asks the client to resolve the conflict and to send the request again, which is what a stale holder must not do. 428 is its
// counterpart for a condition that is required and missing (RFC 6585, 3).
package fencedhttp
