#!/bin/bash
# PostgreSQL's own tests of pgbench (src/bin/pgbench/t), run on `pgassay pgbench`.
#
#	scripts/pgbench-tests.sh [--real] PROGRAM [VERSION...]
#
# VERSION: 13, 15, 17, 18 (all if none is given). The sources come from Debian's
# source packages, fetched and verified by apt in private directories; the servers
# are those installed, or Debian's, unpacked (scripts/postgres-of-debian.sh).
# With --real the pgbench of each version runs its own tests, for reference.
#
# Prints the number of checks passed and failed by version, and each failed check.
# docs/pgbench.md explains the failures listed in scripts/pgbench-tests.expected;
# any other makes this script fail.
set -euo pipefail
cd "$(dirname "$0")/.."
real=no
if [ "${1:-}" = --real ]; then real=yes; shift; fi
program=$(readlink -f "${1:?usage: pgbench-tests.sh [--real] PROGRAM [VERSION...]}")
shift
versions=("$@")
[ $# -gt 0 ] || versions=(13 15 17 18)
expected=$PWD/scripts/pgbench-tests.expected
place=${PGASSAY_PGBENCH_TESTS_DIR:-/var/tmp/pgassay-$(id -u)/pgbench-tests}
mkdir -p "$place"
chmod 755 "$place"

for tool in apt-get dpkg-deb perl tar; do
	command -v "$tool" >/dev/null || { echo "pgbench-tests.sh: $tool is missing; this needs a Debian or Ubuntu" >&2; exit 3; }
done

# --- what the tests need -----------------------------------------------------
suite_of() {
	case $1 in
	13) echo bullseye ;;
	15) echo bookworm ;;
	17) echo trixie ;;
	18) echo sid ;;
	*) echo "pgbench-tests.sh: no known Debian release has PostgreSQL $1" >&2; exit 2 ;;
	esac
}

# Fetches a version's tests into $place/VERSION.
fetch_tests() { # version
	local suite work mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	[ ! -d "$place/$1/src/bin/pgbench/t" ] || return 0
	suite=$(suite_of "$1")
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | grep '/debian/\?$' | sort -u | head -1)
	[ -n "$mirror" ] && [ -f "$keyring" ] ||
		{ echo "pgbench-tests.sh: no Debian mirror in apt's sources; add one to /etc/apt/sources.list" >&2; exit 3; }
	work=$(mktemp -d "$place/fetching.XXXXXX")
	mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/source" "$work/tree"
	echo "deb-src [signed-by=$keyring] $mirror $suite main" >"$work/sources.list"
	local options=(-qq -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache"
		-o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
		-o APT::Sandbox::User=root)
	apt-get "${options[@]}" update >&2
	(cd "$work/source" && apt-get "${options[@]}" source --download-only "postgresql-$1") >&2
	tar -xf "$work"/source/*.orig.tar.* -C "$work/tree" --strip-components=1 --wildcards \
		'*/src/bin/pgbench/t' '*/src/test/perl'
	rm -rf "${place:?}/$1"
	mv "$work/tree" "$place/$1"
	rm -rf "$work"
}

# Perl's IPC::Run, and IO::Pty, which it needs: installed, or unpacked into $place/perl.
fetch_perl() {
	[ ! -d "$place/perl/usr" ] && ! perl -MIPC::Run -e 1 2>/dev/null || return 0
	local work package
	work=$(mktemp -d "$place/fetching.XXXXXX")
	(cd "$work" && apt-get -qq -o APT::Sandbox::User=root download libipc-run-perl libio-pty-perl) >&2
	for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/tree"; done
	rm -rf "$place/perl"
	mv "$work/tree" "$place/perl"
	rm -rf "$work"
}

# The directory with a version's server, initdb and psql.
bin_of() {
	local config
	if [ -x "/usr/lib/postgresql/$1/bin/initdb" ]; then
		echo "/usr/lib/postgresql/$1/bin"
	else
		config=$(scripts/postgres-of-debian.sh "$1")
		dirname "$config"
	fi
}

# --- the run -----------------------------------------------------------------
work=$(mktemp -d "$place/run.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir "$work/bin"
# The server, and with it the tests, may not run as root, who alone may see the program.
cp "$program" "$work/bin/pgassay"
printf '#!/bin/sh\nexec "%s" pgbench "$@"\n' "$work/bin/pgassay" >"$work/bin/pgbench"
chmod 755 "$work/bin/pgassay" "$work/bin/pgbench"
as_user=()
if [ "$(id -u)" = 0 ]; then
	user=nobody
	! id -u postgres >/dev/null 2>&1 || user=postgres
	as_user=(runuser -u "$user" --)
fi

fetch_perl
unexplained=0
for version in "${versions[@]}"; do
	fetch_tests "$version"
	bin=$(bin_of "$version")
	path=$bin:/usr/bin:/bin
	[ $real = yes ] || path=$work/bin:$path
	libraries=$place/perl/usr/share/perl5:$place/$version/src/test/perl
	for directory in "$place"/perl/usr/lib/*/perl5/*; do
		[ ! -d "$directory" ] || libraries=$directory:$libraries
	done
	for file in 001_pgbench_with_server 002_pgbench_no_server; do
		here=$work/$version-$file
		mkdir "$here"
		[ ${#as_user[@]} = 0 ] || chown "$user" "$here"
		status=0
		# Of pg_regress only the configuration of authentication on Windows would be needed.
		(cd "$here" && "${as_user[@]}" env -i HOME="$here" USER="${user:-$(id -un)}" LANG=C.UTF-8 \
			PATH="$path" PERL5LIB="$libraries" PG_REGRESS=/bin/true with_icu=no PGPORT=65432 \
			TESTDIR="$here" TESTDATADIR="$here/tmp_check" TESTLOGDIR="$here/tmp_check/log" \
			perl "$place/$version/src/bin/pgbench/t/$file.pl" >"$here/out" 2>"$here/err") || status=$?
		passed=$(grep -c '^ok ' "$here/out" || true)
		# What PostgreSQL itself expects to fail is marked TODO.
		failed=$(grep '^not ok ' "$here/out" | grep -vc '# TODO' || true)
		planned=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$here/out")
		echo "$version $file: $passed passed, $failed failed"
		if [ -z "$planned" ]; then
			echo "  did not come to its end (status $status):"
			tail -n 5 "$here/err" | sed 's/^/  /'
			unexplained=$((unexplained + 1))
		fi
		while IFS= read -r check; do
			explained=" (docs/pgbench.md)"
			if ! grep -qxF "$version $check" "$expected"; then
				explained=
				unexplained=$((unexplained + 1))
			fi
			echo "  failed: $check$explained"
		done < <(sed -n '/# TODO/d; s/^not ok [0-9]* - //p' "$here/out")
	done
done
[ "$unexplained" = 0 ] || { echo "$unexplained failures that docs/pgbench.md does not explain" >&2; exit 1; }
