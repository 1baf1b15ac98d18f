package main

import (
	"context"
	"flag"
	"fmt"

	leases "github.com/leasehold-go/leasehold/pglock"
)

func sqlGroup() group {
	g := group{
		name:    "sql",
		summary: "Prints the statements of leases and fences, for writers in other languages.",
		notes: `They are the statements that the library sends. docs/other-languages.md has the rules, and programs.

` + exitNotes,
	}
	for _, s := range printable() {
		g.members = append(g.members, s.command())
	}
	return g
}

// printable is what can be printed, in the order of a term.
func printable() []statement {
	name := parameter{name: "name"}
	holder := parameter{name: "holder"}
	token := parameter{name: "token", psql: ":'lease_token'"}
	ttl := parameter{name: "ttl"}
	gate := parameter{name: "gate", gate: true}
	return []statement{
		{
			name:       "acquire",
			summary:    "Begins a term, or says why not.",
			text:       ofLease("acquire"),
			parameters: []parameter{name, holder, ttl, gate, {name: "label"}, {name: "metadata"}},
			psqlEnd:    `\gset lease_`,
		},
		// No variables in psql: there is no row if another has entered it at the same moment, and that is no error.
		{name: "enter", summary: "Enters this cluster, after acquire said unentered.", text: ofLease("enter")},
		{
			name:    "renew",
			summary: "Moves the expiry of leases that are held.",
			text:    ofLease("renew"),
			parameters: []parameter{
				{name: "names", psql: "ARRAY[:'name']"},
				{name: "holders", psql: "ARRAY[:'holder']"},
				{name: "tokens", psql: "ARRAY[:'lease_token']"},
				ttl,
			},
			psqlEnd: `\gset lease_`,
		},
		{
			name:       "release",
			summary:    "Ends a term.",
			text:       ofLease("release"),
			parameters: []parameter{name, holder, token},
			psqlEnd:    `\gset lease_`,
		},
		{
			name:       "inspect",
			summary:    "Shows what the rows of names say.",
			text:       ofLease("inspect"),
			parameters: []parameter{{name: "names", psql: "ARRAY[:'name']"}},
		},
		{name: "raise", summary: "Refuses all that was granted, after what nothing can detect; for an operator.", text: ofLease("raise")},
		{name: "identify", summary: "Shows what server this is.", text: ofLease("identify")},
		{name: "blocker", summary: "Shows who is in the gate of a name.", text: ofLease("blocker"), parameters: []parameter{gate}},
		{name: "gate", summary: "Computes the key of a name's gate.", text: gateStatement, parameters: []parameter{name}},
		{
			name:       "advance",
			summary:    "Passes a fence in the writer's transaction, and raises it.",
			text:       ofFence(advanceHeader, fenceAdvance),
			parameters: []parameter{name, token},
			psqlEnd:    `\gset fence_`,
		},
		{
			name:       "advance-strict",
			summary:    "Passes a fence of the run's own, once a token.",
			text:       ofFence(strictHeader, fenceStrict),
			parameters: []parameter{name, token},
			psqlEnd:    `\gset fence_`,
		},
		{
			name:       "share",
			summary:    "Passes a fence beside other transactions of the holder.",
			text:       ofFence(shareHeader, fenceShare),
			parameters: []parameter{name, token},
			psqlEnd:    `\gset fence_` + sharePsql,
		},
		{name: "read", summary: "Shows a fence; never a check.", text: ofFence(readHeader, fenceRead), parameters: []parameter{name}},
		{name: "create", summary: "Makes a fence that no grant raises.", text: ofFence(createHeader, fenceCreate), parameters: []parameter{name}},
	}
}

// ofLease is a statement of package pglock.
func ofLease(name string) func(schema string, plain bool) (string, error) {
	return func(schema string, plain bool) (string, error) { return leases.Statement(name, schema, plain) }
}

func (s statement) command() command {
	return command{
		name:    s.name,
		summary: s.summary,
		notes:   formNotes,
		setup: func(flags *flag.FlagSet) action {
			var schema string
			schemaFlag(flags, &schema)
			psql := flags.Bool("psql", false, "for psql: parameters are variables, and the row goes to variables")
			python := flags.Bool("python", false, "for psycopg and psycopg2: parameters are %(name)s, and there are no comments")
			plain := flags.Bool("plain", false, "for a server that does not tell which cluster it is")
			return func(_ context.Context, env environment) error {
				if *psql && *python {
					return &usageError{reason: "-psql and -python are two forms: give one"}
				}
				// One check of the schema for all, whatever their package makes of it.
				if _, err := leases.Statement("inspect", schema, false); err != nil {
					return err
				}
				text, err := s.text(schema, *plain)
				if err != nil {
					return err
				}
				switch {
				case *psql:
					text = s.forPsql(text, schema)
				case *python:
					text = s.forPython(text)
				}
				_, err = fmt.Fprint(env.stdout, text)
				return err
			}
		},
	}
}
