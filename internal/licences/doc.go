// Package licences holds the licences of what the module is built and tested with to a short list, so that a module under terms that
// its users could not accept does not come in unseen.
package licences
