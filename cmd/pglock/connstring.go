package main

import (
	"net/url"
	"regexp"
	"strings"
)

// isURL reports whether pgx reads a connection string as a URL. It reads all others as keyword=value pairs.
func isURL(connString string) bool {
	return strings.HasPrefix(connString, "postgres://") || strings.HasPrefix(connString, "postgresql://")
}

// isMisread reports whether a connection string is read otherwise than meant: a URL with something before its scheme, or with another
// scheme, is to pgx a parameter with a strange name for a server that is named elsewhere, and the server's answer shows that name.
func isMisread(connString string) bool {
	if key, _, _ := strings.Cut(connString, "="); !isURL(connString) && strings.Contains(key, ":/") {
		return true
	}
	settings := settingsOf(connString)
	for key := range settings {
		if !plainKey.MatchString(key) {
			return true
		}
	}
	for _, key := range []string{"host", "database", "dbname", "user"} {
		if swallowed.MatchString(settings[key]) {
			return true
		}
	}
	return false
}

// swallowed finds the next pair in the value of one that was left empty: user= password=secret has a user "password=secret".
var swallowed = regexp.MustCompile(`^(host|port|dbname|database|user|password|service|sslmode)=`)

var plainKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

// namesDatabase reports whether a connection string says itself where to go, or at least as whom. What was written with variables
// that are not set, such as postgres://$USER:$PASSWORD@$HOST/$NAME, does not.
func namesDatabase(connString string) bool {
	settings := settingsOf(connString)
	for _, key := range []string{"database", "dbname", "user", "service"} {
		if strings.TrimSpace(settings[key]) != "" {
			return true
		}
	}
	return strings.Trim(settings["host"], ", \t\r\n") != ""
}

// settingsOf is what a connection string itself sets, without variables and files. Of one that pgx refuses it is a part.
func settingsOf(connString string) map[string]string {
	settings := map[string]string{}
	if !isURL(connString) {
		for _, pair := range pairs.FindAllStringSubmatch(connString, -1) {
			settings[pair[1]] = strings.Trim(pair[2], "'")
		}
		return settings
	}
	_, rest, _ := strings.Cut(connString, "://")
	if i := strings.IndexAny(rest, "@/"); i >= 0 && rest[i] == '@' {
		user, _, _ := strings.Cut(rest[:i], ":")
		settings["user"] = unescaped(user)
		rest = rest[i+1:]
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, _ := strings.Cut(rest, "/")
	settings["database"] = unescaped(path)
	hosts := strings.Split(authority, ",")
	for i, host := range hosts {
		if !strings.HasPrefix(host, "[") {
			hosts[i], _, _ = strings.Cut(host, ":")
		}
	}
	settings["host"] = unescaped(strings.Join(hosts, ","))
	for _, part := range strings.Split(query, "&") {
		if key, value, ok := strings.Cut(part, "="); ok {
			settings[unescaped(key)] = unescaped(value)
		}
	}
	return settings
}

// pairs finds one keyword=value pair after the other, the value in quotes or not.
var pairs = regexp.MustCompile(`(?s)[\s\v]*([^=]*?)[\s\v]*=[\s\v]*('(?:[^'\\]|\\.)*'|(?:[^\s\v'\\]|\\.)(?:[^\s\v\\]|\\.)*)?`)

// unescaped is the text itself if its escapes are wrong: pgx refuses that.
func unescaped(text string) string {
	plain, err := url.PathUnescape(text)
	if err != nil {
		plain = text
	}
	return strings.TrimSpace(plain)
}
