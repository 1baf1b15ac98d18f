package migrations

import (
	"context"
	"errors"
	"fmt"
	"net"
	neturl "net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// FuzzConnectionString: no part of a password is in an error, whether a string is not understood, understood otherwise than meant
// because the password was not escaped, or leads to nobody who listens. Nothing is connected to here.
func FuzzConnectionString(f *testing.F) {
	for _, seed := range []struct {
		form     uint8
		user     string
		password string
		tail     string
	}{
		{0, "app", "Zq7xK9", "db.invalid/x"}, {0, "app", "Zq7/xK9", "db.invalid/x"}, {0, "app", "55/Zq7xK9", "h/x"}, {0, "app", "55/Zq7=xK9", "h/x"}, {0, "app", "55?Zq7=xK9", "h/x"},
		{0, "app", "55#Zq7xK9", "h/x"}, {0, "app", "Zq7%zzxK9", "h/x"}, {0, "app", "Zq7@xK9", "h/x"}, {0, "app", "55/Zq7?xK9", "h/x?a=b"}, {0, "a/b", "Zq7xK9", "h"}, {0, "", "Zq7xK9", "h"},
		{1, "app", "Zq7 @:/?#%&xK9", "h/x"}, {2, "app", "Zq7xK9", "host=h"}, {2, "app", "Zq7'xK9", "host=h"}, {2, "app", `Zq7\xK9`, "host=h"}, {2, "app", "Zq7 xK9", "host=h"},
		{3, "app", "Zq7'xK9", "host=h"}, {3, "app", `Zq7\xK9`, "port=x"}, {3, "app", "Zq7=xK9", "sslmode=maybe"}, {0, "app", "55/Zq7xK9", "[::1]:5/x"}, {0, "app", "Zq7xK9", "h:port/x"},
		{0, "app", "Zq7xK9", "h/x?sslmode=maybe"}, {0, "app", "Zq7[xK9", "h"}, {0, "app", "Zq7\nxK9", "h"}, {0, "app", "/var/Zq7xK9", "h"}, {0, "app", "55/x?Zq7=xK9", "h/y"},
	} {
		f.Add(seed.form, seed.user, seed.password, seed.tail)
	}
	f.Fuzz(func(t *testing.T, form uint8, user, password, tail string) {
		password = marked(password)
		if strings.Contains(user+tail, "Zq7") || strings.Contains(user+tail, "xK9") {
			return
		}
		text := connectionString(form, user, password, tail)
		db := URL(text)
		conns, err := db.open()
		if err == nil {
			d := conns.(*dedicated)
			d.config.LookupFunc = func(_ context.Context, host string) ([]string, error) {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			d.config.DialFunc = func(_ context.Context, network, address string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("%s: %w", address, errors.New("nobody listens"))}
			}
			err = d.use(t.Context(), func(*pgconn.PgConn) error { return nil })
			d.close()
		}
		require.Error(t, err)
		require.NotContains(t, err.Error(), "Zq7", "%q", text)
		require.NotContains(t, err.Error(), "xK9", "%q", text)
	})
}

// marked is a password whose beginning and end, or more, are found again wherever they come to stand.
func marked(password string) string {
	if !strings.Contains(password, "Zq7") {
		password = "Zq7" + password
	}
	if !strings.Contains(password, "xK9") {
		password += "xK9"
	}
	return password
}

// connectionString is written as people do: by hand without escaping, rightly, and as keywords, quoted or not.
func connectionString(form uint8, user, password, tail string) string {
	switch form % 4 {
	case 0:
		return "postgres://" + user + ":" + password + "@" + tail
	case 1:
		return "postgresql://" + neturl.UserPassword(user, password).String() + "@" + tail
	case 2:
		return "user=" + user + " password=" + password + " " + tail
	}
	return "user=app password='" + password + "' " + tail
}
