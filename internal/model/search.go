package model

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

//go:embed lease.pml
var source []byte

// A Search is one question to the checker.
type Search struct {
	Name string
	// Flags are the bounds, as -DNAME=value; lease.pml has the defaults.
	Flags []string
	// Bug is built into the model, and Goal is a state that an assertion forbids: lease.pml numbers them. Without either the
	// model is verified, and the verdict has the goals that were reached.
	Bug, Goal int
	// Depth bounds the length of a run in the checker's steps, of which one here has about ten. A verification that meets it
	// is incomplete; a search for a bug need not be complete.
	Depth int
	// Bits is set for a search that keeps no states but a hash of two to the Bits bits: larger bounds, and no proof.
	Bits int
	// Limit ends the checker by itself, in whole minutes.
	Limit time.Duration
}

// Programs says which program of those needed is not there, or nothing.
func Programs() (missing string) {
	for _, name := range []string{"spin", "gcc"} { // Spin itself calls gcc as its preprocessor.
		if _, err := exec.LookPath(name); err != nil {
			return name
		}
	}
	return ""
}

// verifies tells a verification from a search for something wrong.
func (s Search) verifies() bool { return s.Bug == 0 && s.Goal == 0 }

// flags are all that the model is preprocessed with.
func (s Search) flags() []string {
	flags := s.Flags
	if s.verifies() {
		return append([]string{"-DREACH"}, flags...)
	}
	return append([]string{"-DBUG=" + strconv.Itoa(s.Bug), "-DGOAL=" + strconv.Itoa(s.Goal)}, flags...)
}

// Run translates the model, compiles it and searches, in a folder that is empty. An error says that there is no verdict.
func (s Search) Run(ctx context.Context, dir string) (Verdict, error) {
	if err := os.WriteFile(filepath.Join(dir, "lease.pml"), source, 0o600); err != nil {
		return Verdict{}, err
	}
	// Spin says "Error" and may exit with 0.
	out, err := command(ctx, dir, "spin", append(append([]string{"-a"}, s.flags()...), "lease.pml")...)
	if err != nil || len(out) > 0 {
		return Verdict{}, fmt.Errorf("spin -a of %s: %w\n%s", s.Name, err, out)
	}
	// -O1 for a long search, nothing for one that ends at once: compiling would take longer than searching.
	build := []string{"-w", "-O1", "-DSAFETY", "-DVECTORSZ=2048", "-DMEMLIM=6000", "-o", "pan", "pan.c"}
	switch {
	case !s.verifies():
		build = append([]string{"-DCOLLAPSE", "-O0"}, build[2:]...)
	case s.Bits > 0:
		build = append([]string{"-DBITSTATE"}, build...)
	default:
		build = append([]string{"-DCOLLAPSE"}, build...)
	}
	if out, err := command(ctx, dir, "gcc", build...); err != nil {
		return Verdict{}, fmt.Errorf("gcc of %s: %w\n%s", s.Name, err, out)
	}
	run := []string{"-m" + strconv.Itoa(s.Depth), "-w22", "-Q" + strconv.Itoa(max(1, int(s.Limit/time.Minute)))}
	if s.Bits > 0 {
		run[1] = "-w" + strconv.Itoa(s.Bits)
	}
	started := time.Now()
	out, err = command(ctx, dir, "./pan", run...)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return Verdict{}, fmt.Errorf("pan of %s: %w", s.Name, err)
	}
	v, err := parse(string(out))
	if err != nil {
		return v, fmt.Errorf("pan of %s: %w\n%s", s.Name, err, tail(out))
	}
	v.Took = time.Since(started)
	return v, nil
}

// Story replays the trail that Run has left in the folder, one line a step.
func (s Search) Story(ctx context.Context, dir string) (string, error) {
	out, err := command(ctx, dir, "spin", append(append([]string{"-t"}, s.flags()...), "lease.pml")...)
	return string(out), err
}

func command(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.WaitDelay = 5 * time.Second
	return cmd.CombinedOutput()
}

func tail(out []byte) []byte { return out[max(0, len(out)-2000):] }
