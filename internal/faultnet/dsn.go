package faultnet

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// targetOf is the address, as [Listen] takes it, of the server that a DSN names: the first one if there are several.
func targetOf(dsn string) (string, error) {
	config, err := pgconn.ParseConfig(dsn)
	if err != nil {
		return "", err
	}
	_, address := pgconn.NetworkAddress(config.Host, config.Port)
	return address, nil
}

// through is dsn with another address ("host:port"). Both forms of a DSN are understood.
func through(dsn, address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(dsn, "postgres://") && !strings.HasPrefix(dsn, "postgresql://") {
		// Of two settings of one name the last one counts.
		return fmt.Sprintf("%s host=%s port=%s", dsn, host, port), nil
	}
	u, err := url.Parse(dsn)
	if err != nil {
		// Not err: it quotes the DSN, password and all.
		return "", fmt.Errorf("the DSN is not a URL")
	}
	query := u.Query()
	for _, name := range []string{"host", "hostaddr", "port"} {
		query.Del(name)
	}
	u.Host, u.RawQuery = address, query.Encode()
	return u.String(), nil
}
