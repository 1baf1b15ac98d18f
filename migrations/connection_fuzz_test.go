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
		{4, "u", "Zq7xK9", "h/db?sslmode=disable"}, {5, "u", "Zq7xK9", `h/db?sslmode=disable"`}, {6, "u", "Zq7xK9", "h.example.com/db?sslmode=disable"}, {7, "u", "Zq7xK9", "h/db?sslmode=disable"},
		{8, "u", "Zq7xK9", "h.example.com/db?a=b"}, {9, "u", "Zq7xK9", "h/db?sslmode=disable"}, {10, "u", "Zq7xK9", "h/db?sslmode=disable'"}, {11, "u", "Zq7xK9", "h/db"},
		{12, "u", "Zq7xK9", "h/db?sslmode=disable"}, {13, "u", "Zq7xK9", "h.example.com/db?sslmode=disable"}, {0, "u", "Zq7xK9", "h/db?a:b=c"},
		{2, "", "Zq7xK9", "host=h"}, {2, "app\\", "Zq7xK9", "host=h"}, {2, "'app", "Zq7'xK9", "host=h"},
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
		if int(form)%forms >= 4 && !strings.HasPrefix(text, "postgresql://") { // A user may start with a slash.
			require.Error(t, err, "%q is no URL to pgx", text)
		}
		if err == nil {
			for key := range conns.(*dedicated).config.RuntimeParams {
				require.Regexp(t, `^\w[\w.]*$`, key, "%q", text)
			}
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

// misspelt are beginnings of URLs that pgx takes for the name of a parameter.
var misspelt = []string{
	" postgres://", `"postgres://`, "jdbc:postgresql://", "Postgres://", "postgres+x://", "postgresql:/", "'postgres://", "postgre://", "\tpostgresql://", "psql postgres://",
}

var forms = 4 + len(misspelt)

// connectionString is written as people do: by hand without escaping, rightly, as keywords, quoted or not, and with a wrong beginning.
func connectionString(form uint8, user, password, tail string) string {
	switch which := int(form) % forms; which {
	case 0:
		return "postgres://" + user + ":" + password + "@" + tail
	case 1:
		return "postgresql://" + neturl.UserPassword(user, password).String() + "@" + tail
	case 2:
		return "user=" + user + " password=" + password + " " + tail
	case 3:
		return "user=app password='" + password + "' " + tail
	default:
		return misspelt[which-4] + user + ":" + password + "@" + tail
	}
}

// TestURL_NoParameterIsCalledLikeAURL: nothing is sent to the server of the variables, and nothing of the string is shown.
func TestURL_NoParameterIsCalledLikeAURL(t *testing.T) {
	t.Parallel()
	texts := []string{"//u:Zq7xK9@h/db?sslmode=disable", "u:Zq7xK9@h/db?sslmode=disable", "postgres://h/db?a%3Ab=Zq7xK9", "host=h -Zq7xK9=1", "host=h 7Zq7xK9=1", "host=h user= password=Zq7xK9", "user=a dbname= password=Zq7xK9", "host= password=Zq7xK9"}
	for _, beginning := range misspelt {
		texts = append(texts, beginning+"u:Zq7xK9@h.example.com/db?sslmode=disable", beginning+"u:Zq7xK9@h/db?sslmode=disable&a=b", beginning+"u:Zq7xK9@h/db")
	}
	for _, text := range texts {
		for _, err := range []error{
			Up(t.Context(), URL(text), Options{}),
			Down(t.Context(), URL(text), Options{}),
		} {
			require.ErrorIs(t, err, errURL, text)
			require.NotContains(t, err.Error(), "Zq7")
			require.NotContains(t, err.Error(), "xK9")
		}
	}
	for _, text := range []string{
		"", "host=h options='-c a.b=c://d'", "postgres://h/db?a.b=c&pool_max_conns=3&application_name=a://b", " host = h  dbname = x ", "host=/tmp search_path=a,b", "postgresql:///db?host=/tmp",
	} {
		_, err := URL(text).open()
		require.NoError(t, err, text)
	}
}
