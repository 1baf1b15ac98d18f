// Package repo holds the tests about the repository itself: the public API against its golden files, the
// direction of imports, doc comments, what README and the other documents claim, the headers of SQL files, and
// words that belong in no file. It has no code for users.
//
// The checks are functions over text, so that each is first shown to find a planted mistake and then run on the
// project's files; a check that looks at nothing fails.
package repo
