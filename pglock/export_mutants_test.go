package pglock

import "strings"

// Alter replaces a part of one of the client's statements, after Check. It is false if the text is not there.
func Alter(c *Client, statement, from, to string) bool {
	s := *c.quick.Load()
	text := map[string]*string{"acquire": &s.acquire, "release": &s.release, "renew": &s.renew}[statement]
	if !strings.Contains(*text, from) {
		return false
	}
	*text = strings.ReplaceAll(*text, from, to)
	c.quick.Store(&s)
	return true
}
