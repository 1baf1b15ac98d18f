#!/usr/bin/env bash
# The cost of a grant and a release against the floor, in one interleaved run: for each number of clients, in turn,
#   floor    pgbench with bench/floor.sql, the least that can do the job
#   sql      pgbench with the statements of this library
#   library  the library itself, the same statements from Go
# and at the end the medians, and their ratios to the floor. Needs pgbench and psql in PATH, and a database whose tables
# may be made in schema public:
#
#   DATABASE_URL=postgres://… bench/floor.sh [rounds] [seconds]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
: "${DATABASE_URL:?set it to a database that may be filled}"
rounds=${1:-7} seconds=${2:-3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

go run ./cmd/pglock migrate up >/dev/null
go test -c -o "$work/bench" ./pglock

# The statements as pgbench takes them: no comments, its variables for ours. The keys of the gate differ by client.
render() {
	sed -e '/^ *--/d' -e 's/{schema}/public/g' -e 's/\$1::text/(:name)::text/g' -e 's/\$2::text::uuid/md5((:holder)::text)::uuid/g' \
		-e 's/\$3::bigint/(:three)::bigint/g' -e 's/\$4::bigint/(:name)::bigint/g' -e "s/\\\$5::text/'bench'/g" \
		-e "s/\\\$6::text/'{}'::text/g" "$1"
}
{
	printf '%s\n' '\set name 2000000 + :client_id' '\set holder random(1, 2000000000)' '\set three 60000000'
	render pglock/sql/acquire.sql
	printf '%s\n' '\set three 0'
	render pglock/sql/release.sql
} >"$work/sql.sql"
psql -Xq "$DATABASE_URL" -f <(sed -e '/^ *--/d' -e 's/{schema}/public/g' pglock/sql/enter.sql) >/dev/null

tps() { # script clients
	pgbench -n -M prepared -T "$seconds" -c "$2" -j 2 -f "$1" "$DATABASE_URL" 2>&1 | awk '/^tps/ { print $3 }'
}
library() { # clients
	LEASEHOLD_TEST_DSN=$DATABASE_URL "$work/bench" -test.run '^$' -test.bench "^BenchmarkCycle\$/^clients=$1\$" \
		-test.benchtime "${seconds}s" | awk '/^BenchmarkCycle/ { for (i = 1; i < NF; i++) if ($(i + 1) == "per-s") print $i }'
}
for round in $(seq "$rounds"); do
	for clients in 1 8 32; do
		echo "$clients floor $(tps bench/floor.sql "$clients")"
		echo "$clients sql $(tps "$work/sql.sql" "$clients")"
		echo "$clients library $(library "$clients")"
	done
	echo "round $round of $rounds" >&2
done >"$work/results"

median() { awk -v c="$1" -v w="$2" '$1 == c && $2 == w { print $3 }' "$work/results" | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
printf '%-8s %10s %10s %10s %12s %12s\n' clients floor/s sql/s library/s sql/floor library/floor
for clients in 1 8 32; do
	floor=$(median "$clients" floor) sql=$(median "$clients" sql) lib=$(median "$clients" library)
	awk -v c="$clients" -v f="$floor" -v s="$sql" -v l="$lib" \
		'BEGIN { printf "%-8d %10.0f %10.0f %10.0f %12.2f %12.2f\n", c, f, s, l, s / f, l / f }'
done
