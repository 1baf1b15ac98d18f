package faultnet

import "sync"

// modeSwitch holds the present mode and tells those who wait that it has changed.
type modeSwitch struct {
	mu      sync.Mutex
	mode    Mode
	changed chan struct{} // closed at the next change
}

func newSwitch() *modeSwitch { return &modeSwitch{changed: make(chan struct{})} }

func (s *modeSwitch) set(mode Mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = mode
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *modeSwitch) get() (Mode, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mode, s.changed
}

// until waits until the mode satisfies yes; false means that ended came first.
func (s *modeSwitch) until(ended <-chan struct{}, yes func(Mode) bool) bool {
	for {
		select {
		case <-ended: // it counts even if the answer would be yes
			return false
		default:
		}
		mode, changed := s.get()
		if yes(mode) {
			return true
		}
		select {
		case <-changed:
		case <-ended:
			return false
		}
	}
}
