package pgserver

import "os"

// Options of [Start]. The zero value is ready to use.
type Options struct {
	// Settings are lines of postgresql.conf. They go to a server that Start makes; a server that was found by a DSN
	// keeps its own.
	Settings map[string]string

	// Private asks for a server that nobody else uses and that may be stopped and killed: no DSN from the environment
	// is taken.
	Private bool

	// Durable leaves fsync on. Default: off, which survives the death of any process but not of the machine.
	Durable bool

	// Environment are variables of the server's processes ("LD_PRELOAD=…"), beside the few that it has. Only a server that
	// Start makes from programs on the machine, or downloaded ones, has them.
	Environment []string

	// WAL is an empty folder, which the server's account may write, for pg_wal. It stays the caller's. Default: inside the
	// data folder. As for Environment.
	WAL string

	// WALSegment is the size of a WAL file in MB: a power of two from 1 to 1024. Default: 16. As for Environment.
	WALSegment int

	// Progress is told what is waited for when Start may take longer than a moment. Default: nobody is.
	Progress func(message string)
}

func (o Options) progress(message string) {
	if o.Progress != nil {
		o.Progress(message)
	}
}

// settings are ours, overridden by the caller's.
func (o Options) settings() map[string]string {
	settings := map[string]string{
		// Tests run in parallel, each with pools of its own.
		"max_connections": "300",
		"timezone":        "UTC",
		"log_timezone":    "UTC",
	}
	if !o.Durable {
		settings["fsync"] = "off"
	}
	for name, value := range o.Settings {
		settings[name] = value
	}
	return settings
}

// Names of the environment variables that Start reads.
const (
	envTestDSN     = "LEASEHOLD_TEST_DSN"
	envDatabaseURL = "DATABASE_URL"
	envBinaries    = "LEASEHOLD_PG_BIN"
	envSource      = "LEASEHOLD_TEST_SOURCE"
)

// source kinds, the values of LEASEHOLD_TEST_SOURCE.
const (
	kindDSN      = "dsn"
	kindBinaries = "binaries"
	kindDocker   = "docker"
	kindDownload = "download"
)

// wanted says whether a kind of source may be used: all may, unless LEASEHOLD_TEST_SOURCE names one. CI uses it to
// show that each of them is enough.
func wanted(kind string) bool {
	only := os.Getenv(envSource)
	return only == "" || only == kind
}
