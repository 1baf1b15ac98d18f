//go:build unix

package fencedhttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"github.com/leasehold-go/leasehold/fencing"
)

// A File remembers the highest token of one lease in a file, for a service whose store has no transactions to put a check in.
//
// It is right as long as one process writes to that store, and through this File only: requests come one after the other, and
// the file is on the disk before a handler writes. A second process cannot open it.
//
// It is safe for concurrent use.
type File struct {
	name, path string
	lock       *os.File
	highest    chan fencing.Token // one place: who has taken it has the turn
}

// state is what the file says.
type state struct {
	Name  string        `json:"name"`
	Token fencing.Token `json:"token,string"`
}

// CreateFile makes the file, below every token. Once: a file that is made anew lets stale tokens pass.
func CreateFile(path, name string) error {
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("fencedhttp: create %s: %w", path, fs.ErrExist)
	}
	return store(path, state{Name: name})
}

// OpenFile reads the file. One that is missing, or was made for another lease, is an error.
func OpenFile(path, name string) (*File, error) {
	// Beside the file, because that one is replaced.
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	f := &File{name: name, path: path, lock: lock, highest: make(chan fencing.Token, 1)}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("fencedhttp: %s is in use by another process: %w", path, err), f.Close())
	}
	var s state
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil && s.Name != name {
		err = fmt.Errorf("fencedhttp: %s is for the lease %q, not %q", path, s.Name, name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	f.highest <- s.Token
	return f, nil
}

// Close lets another process open the file. End the server first.
func (f *File) Close() error { return f.lock.Close() }

// Fence passes a request on if its token is not below the highest seen. A new one is on the disk before next runs, so a crash in
// between loses nothing: the holder sends its request again, with an equal token.
func (f *File) Fence(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, refused := tokenOf(r, f.name)
		if refused != nil {
			refused.write(w)
			return
		}
		var highest fencing.Token
		select {
		case highest = <-f.highest:
		case <-r.Context().Done():
			unknown().write(w)
			return
		}
		// Until next has written, so that a lower token is not still writing when a higher one has passed.
		defer func() { f.highest <- highest }()
		if token < highest {
			stale(highest).write(w)
			return
		}
		if token > highest {
			if err := store(f.path, state{f.name, token}); err != nil {
				log.Printf("fencedhttp: %v", err)
				unknown().write(w)
				return
			}
			highest = token
		}
		next.ServeHTTP(w, r)
	})
}

// store replaces the file: after a crash it is the one before or the new one, whole.
func store(path string, s state) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	_, err = next.Write(text)
	err = errors.Join(err, next.Sync(), next.Close())
	if err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	// The new name is in the folder, which has to reach the disk too.
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
