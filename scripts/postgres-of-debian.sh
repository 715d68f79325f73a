#!/bin/bash
# A PostgreSQL of another Debian release, with headers, unpacked so that it runs
# on this machine without installation: to test the extension with other major
# versions, and to compare versions manually.
#
#	scripts/postgres-of-debian.sh 13|17|18|19
#
# prints the path of its pg_config.  Packages are fetched by apt with private
# directories, from this machine's mirror; 19 is the release candidate in
# experimental.  If the release's C library is newer than this machine's, the
# programs are patched to use it.  The server is otherwise as Debian built it,
# stripped.
set -euo pipefail
major=${1:?usage: postgres-of-debian.sh 13|17|18|19}
case $major in
13) suites="bullseye" ;;
15) suites="bookworm" ;;
17) suites="trixie" ;;
18) suites="sid" ;;
19) suites="experimental sid" ;;
*) echo "postgres-of-debian.sh: no known Debian release has PostgreSQL $major" >&2; exit 2 ;;
esac
place=${PGASSAY_DEBIAN_DIR:-/var/tmp/pgassay-$(id -u)/postgres-of-debian}
root=$place/$major
config=$root/usr/lib/postgresql/$major/bin/pg_config
if [ -x "$config" ]; then echo "$config"; exit 0; fi

mirror=$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | grep '/debian/\?$' | sort -u | head -1)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -n "$mirror" ] && [ -f "$keyring" ] ||
	{ echo "postgres-of-debian.sh: no Debian mirror in apt's sources; add one to /etc/apt/sources.list" >&2; exit 3; }
mkdir -p "$place"
chmod 755 "$place"
work=$(mktemp -d "$place/unpacking.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs" "$work/tree"
: >"$work/status"
for suite in $suites; do echo "deb [signed-by=$keyring] $mirror $suite main"; done >"$work/sources.list"
options=(-o "Dir::State::Lists=$work/lists" -o "Dir::State::status=$work/status"
	-o "Dir::Cache=$work/cache" -o "Dir::Etc::SourceList=$work/sources.list"
	-o Dir::Etc::SourceParts=/dev/null -o APT::Sandbox::User=root)
apt-get -qq "${options[@]}" update >&2

# The server's libraries, recursively.
declare -A wanted=()
add() {
	local package
	for package in $(apt-cache "${options[@]}" depends --no-suggests --no-recommends "$1" |
		awk '/^ *\|?(Pre)?Depends:/ { print $NF }' | grep '^lib'); do
		case $package in *perl* | *-dev) continue ;; esac
		if [ -z "${wanted[$package]:-}" ]; then
			wanted[$package]=1
			add "$package"
		fi
	done
}
for package in "postgresql-$major" "postgresql-client-$major" "postgresql-server-dev-$major"; do wanted[$package]=1; done
add "postgresql-$major"
add "postgresql-client-$major"
ours=$(dpkg-query -W -f '${Version}' libc6)
theirs=$(apt-cache "${options[@]}" show libc6 | sed -n 's/^Version: //p' | head -1)
own_libc=1
if dpkg --compare-versions "$theirs" le "$ours"; then
	own_libc=""
	unset 'wanted[libc6]' 'wanted[libgcc-s1]' 'wanted[libstdc++6]'
fi
# The client library comes from the newest release in the list.
target=()
if [ "${suites%% *}" = experimental ]; then target=(-t experimental); fi
(cd "$work/debs" && apt-get -qq "${options[@]}" "${target[@]}" download "${!wanted[@]}" >&2)
# patchelf changes a program's loader; from this machine's own release.
(cd "$work" && apt-get -qq -o APT::Sandbox::User=root download patchelf >&2 && dpkg-deb -x patchelf_*.deb "$work/tool")
for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$work/tree"; done

libraries=$(find "$work/tree" -name 'libpq.so.5' -printf '%h\n' | head -1)
libraries=$root${libraries#"$work/tree"}
loader=$(find "$work/tree" -name 'ld-linux-*.so.*' -o -name 'ld64.so.*' | head -1)
for program in "$work/tree/usr/lib/postgresql/$major/bin"/* "$work/tree/usr/lib/postgresql/$major/lib"/*.so; do
	head -c 4 "$program" | grep -q ELF || continue
	change=(--force-rpath --set-rpath "$libraries")
	case $program in
	*/bin/*) [ -z "$own_libc" ] || change+=(--set-interpreter "$root${loader#"$work/tree"}") ;;
	esac
	"$work/tool/usr/bin/patchelf" "${change[@]}" "$program"
done
# Up to 18, Debian's pg_config prints the paths where its files would be installed.
bin=$work/tree/usr/lib/postgresql/$major/bin
mv "$bin/pg_config" "$bin/pg_config.debian"
cat >"$bin/pg_config" <<EOF
#!/bin/sh
"$root/usr/lib/postgresql/$major/bin/pg_config.debian" "\$@" | sed 's,^/usr,$root/usr,; s,= /usr,= $root/usr,'
EOF
chmod 755 "$bin/pg_config"
chmod -R a+rX "$work/tree"
rm -rf "${root:?}"
mv "$work/tree" "$root"
"$root/usr/lib/postgresql/$major/bin/postgres" --version >&2
echo "$config"
