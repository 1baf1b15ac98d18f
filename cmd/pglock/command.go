package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// environment is what a command has of the process. Results go to stdout, the rest to stderr.
type environment struct {
	stdout, stderr io.Writer
	getenv         func(string) string
}

// member is a command or a group of commands.
type member interface {
	title() (name, summary string)
	// invoke runs with the words after the name; path is the words up to and with it.
	invoke(ctx context.Context, env environment, path []string, args []string) error
	help(w io.Writer, path []string)
}

// command is one thing to do.
type command struct {
	name    string
	summary string // one sentence
	notes   string // more, for its own help; may be empty

	// setup declares the flags and returns what to do once they are parsed.
	setup func(flags *flag.FlagSet) action
}

type action func(ctx context.Context, env environment) error

func (c command) title() (name, summary string) { return c.name, c.summary }

func (c command) invoke(ctx context.Context, env environment, path []string, args []string) error {
	flags := flag.NewFlagSet(strings.Join(path, " "), flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	action := c.setup(flags)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		c.help(env.stdout, path)
		return nil
	case err != nil:
		return &usageError{path: path, reason: flagFault(err)}
	case flags.NArg() > 0:
		return &usageError{path: path, reason: fmt.Sprintf("takes no argument, and got %s; flags come with a dash", shown(flags.Arg(0)))}
	}
	err := action(ctx, env)
	var usage *usageError
	if errors.As(err, &usage) {
		usage.path = path
	}
	return err
}

// flagFault is the flag package's message without a value: the value may be a connection string.
func flagFault(err error) string {
	text := err.Error()
	if before, after, ok := strings.Cut(text, " for flag "); ok && strings.HasPrefix(before, "invalid value ") {
		return "invalid value for flag " + after
	}
	if before, after, ok := strings.Cut(text, ": "); ok {
		return before + ": " + shown(strings.TrimLeft(after, "-"))
	}
	return text
}

// shown repeats a word of the command line, unless it may be a connection string.
func shown(word string) string {
	if strings.ContainsAny(word, ":=@/") {
		return "something that is not shown"
	}
	return strconv.Quote(word)
}

func (c command) help(w io.Writer, path []string) {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	c.setup(flags)
	fmt.Fprintf(w, "%s\n\nUsage: %s [flags]\n", c.summary, strings.Join(path, " "))
	if c.notes != "" {
		fmt.Fprintf(w, "\n%s", c.notes)
	}
	fmt.Fprint(w, "\nFlags:\n")
	flags.SetOutput(w)
	flags.PrintDefaults()
	if flags.Lookup("database") != nil {
		fmt.Fprintf(w, "\n%s", databaseNotes)
	}
	fmt.Fprintf(w, "\n%s", exitNotes)
}

// group is commands under one name.
type group struct {
	name    string
	summary string
	members []member
	notes   string
}

func (g group) title() (name, summary string) { return g.name, g.summary }

func (g group) invoke(ctx context.Context, env environment, path []string, args []string) error {
	if len(args) == 0 {
		return &usageError{path: path, reason: "no command given; one of: " + g.names()}
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return g.helpOn(env.stdout, path, args[1:])
	}
	if m := g.find(args[0]); m != nil {
		return m.invoke(ctx, env, append(path, args[0]), args[1:])
	}
	return &usageError{path: path, reason: fmt.Sprintf("unknown command %s; one of: %s", shown(args[0]), g.names())}
}

// helpOn shows the help of the command that the words name.
func (g group) helpOn(w io.Writer, path []string, words []string) error {
	if len(words) == 0 {
		g.help(w, path)
		return nil
	}
	m := g.find(words[0])
	path = append(path, words[0])
	inner, ok := m.(group)
	switch {
	case m == nil:
		return &usageError{path: path[:len(path)-1], reason: fmt.Sprintf("no help on %s; one of: %s", shown(words[0]), g.names())}
	case ok:
		return inner.helpOn(w, path, words[1:])
	}
	m.help(w, path)
	return nil
}

func (g group) help(w io.Writer, path []string) {
	name := strings.Join(path, " ")
	fmt.Fprintf(w, "%s\n\nUsage: %s <command> [flags]\n\nCommands:\n", g.summary, name)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, m := range g.members {
		name, summary := m.title()
		fmt.Fprintf(table, "  %s\t%s\n", name, summary)
	}
	fmt.Fprint(table, "  help\tTells about a command.\n")
	_ = table.Flush() // the writer's errors do not matter in help
	if g.notes != "" {
		fmt.Fprintf(w, "\n%s", g.notes)
	}
	fmt.Fprintf(w, "\n\"%s help <command>\" tells more.\n", name)
}

func (g group) find(name string) member {
	for _, m := range g.members {
		if title, _ := m.title(); title == name {
			return m
		}
	}
	return nil
}

func (g group) names() string {
	var names []string
	for _, m := range g.members {
		name, _ := m.title()
		names = append(names, name)
	}
	return strings.Join(append(names, "help"), ", ")
}
