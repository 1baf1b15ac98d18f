#!/usr/bin/env bash
# newer.sh DIR: puts a PgBouncer of a newer Debian into DIR and prints the folder to have in front of PATH:
#
#   PATH=$(internal/poolers/newer.sh /var/tmp/pgbouncer-trixie):$PATH go test ./internal/poolers
#
# It brings the C library that it was built for. Nothing is installed on the machine. Needs apt and Debian's keyring.
#
# SUITE is the Debian to take it from (default: trixie, which has 1.24.1). DEBIAN_MIRROR is where from (default: the one that apt uses).
set -Eeuo pipefail
[ $# = 1 ] || { echo "usage: newer.sh DIR" >&2; exit 2; }
suite=${SUITE:-trixie}
mkdir -p "$1"
dir=$(cd "$1" && pwd)
chmod 755 "$dir"
wrapper=$dir/bin/pgbouncer
if [ ! -x "$wrapper" ]; then
	state=$(mktemp -d)
	trap 'rm -rf "$state"' EXIT
	mkdir -p "$state"/{lists,cache/archives}/partial
	: >"$state/status"
	mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | head -n 1)}
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$state/list"
	apt=(apt-get -q -y -o "Dir::State=$state" -o "Dir::State::lists=$state/lists" -o "Dir::State::status=$state/status"
		-o "Dir::Cache=$state/cache" -o "Dir::Etc::sourcelist=$state/list" -o Dir::Etc::sourceparts=/dev/null
		-o APT::Sandbox::User=root -o Acquire::Retries=3)
	# With no package installed, apt fetches the libraries too, and more than is needed.
	{ "${apt[@]}" update && "${apt[@]}" install --download-only --no-install-recommends pgbouncer; } >&2
	mkdir -p "$dir/root" "$dir/bin"
	for package in pgbouncer libc6 libcares2 libevent-2.1 libssl3 libpam0g libaudit1 libcap-ng0 libsystemd0 libcap2_ zlib1g libgcc-s1 \
		libzstd1 libcrypt1; do
		for file in "$state/cache/archives/$package"*.deb; do
			[ -e "$file" ] && dpkg -x "$file" "$dir/root"
		done
	done
	loader=$(find "$dir/root/usr/lib" -name 'ld-linux-*.so.*' | head -n 1)
	cat >"$wrapper.new" <<-END
		#!/bin/sh
		exec '$loader' --library-path '$(dirname "$loader")' '$dir/root/usr/sbin/pgbouncer' "\$@"
	END
	chmod 755 "$wrapper.new"
	mv "$wrapper.new" "$wrapper"
fi
"$wrapper" --version >&2
echo "$dir/bin"
