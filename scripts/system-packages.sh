#!/bin/bash
# Writes a .deb and an .rpm of a tree bin/, share/ with dpkg-deb and rpmbuild, for any processor.
#
#   scripts/system-packages.sh TREE PROCESSOR LIBC OUTPUT-DIRECTORY
#
#   LIBC    static, or the oldest glibc that the program runs with (2.17)
#
# The same tree and SOURCE_DATE_EPOCH give the same files.
set -euo pipefail
tree=$(readlink -f "$1") processor=$2 libc=$3 output=$(readlink -f "$4")
cd "$(dirname "$0")/.."
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version *= *"\(.*\)"/\1/p' Cargo.toml)
# 0.2.0-rc.1 comes before 0.2.0.
upstream=${version/-/\~}
summary="Performance laboratory for PostgreSQL"
text="Measures PostgreSQL on a real server: what its locks were compiled to, how fast
it is and how it scales, what limits it, and whether one build, setting or
version is really faster than another. Every figure carries its interval."
: "${SOURCE_DATE_EPOCH:?}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# --- .deb ----------------------------------------------------------------------
case $processor in
x86_64) debian=amd64 ;;
aarch64) debian=arm64 ;;
ppc64le) debian=ppc64el ;;
*) echo "system-packages.sh: unknown processor: $processor" >&2; exit 2 ;;
esac
deb=$work/deb doc=$work/deb/usr/share/doc/pgassay
mkdir -p "$deb/DEBIAN" "$doc"
cp -R "$tree/bin" "$tree/share" "$deb/usr/"
mv "$deb/usr/share/zsh/site-functions" "$deb/usr/share/zsh/vendor-completions"
gzip -9 -n "$deb/usr/share/man/man1/pgassay.1" "$doc/LICENSES-OF-CRATES"
gzip -9 -n <CHANGELOG.md >"$doc/NEWS.gz"
{
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n'
    printf 'Upstream-Name: pgassay\n\nFiles: *\nCopyright: 2026 The pgassay authors\n'
    printf 'License: Apache-2.0 or MIT\n'
    printf ' The program contains crates under the licences in LICENSES-OF-CRATES.gz, and the\n'
    printf ' source of an extension of PostgreSQL under the PostgreSQL licence.\n .\n'
    printf ' Apache-2.0: /usr/share/common-licenses/Apache-2.0. MIT:\n .\n'
    sed 's/^$/./; s/^/ /' LICENSE-MIT
    printf ' .\n The extension:\n .\n'
    sed 's/^$/./; s/^/ /' ext/LICENSE
} >"$doc/copyright"
{
    printf 'Package: pgassay\nVersion: %s-1\nArchitecture: %s\n' "$upstream" "$debian"
    printf 'Maintainer: The pgassay authors\n'
    printf 'Installed-Size: %s\n' "$(du -k --apparent-size -s "$deb/usr" | cut -f1)"
    [ "$libc" = static ] || printf 'Depends: libc6 (>= %s)\n' "$libc"
    printf 'Recommends: postgresql\nSuggests: gcc, postgresql-server-dev-all, linux-perf\n'
    printf 'Section: database\nPriority: optional\nDescription: %s\n' "$summary"
    # shellcheck disable=SC2001 # each line
    sed 's/^/ /' <<<"$text"
} >"$deb/DEBIAN/control"
(cd "$deb" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$deb/DEBIAN/md5sums"
chmod -R u+rwX,go+rX,go-w "$deb"
find "$deb" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zxz --build "$deb" "$output/pgassay_${upstream}-1_$debian.deb" >/dev/null

# --- .rpm ----------------------------------------------------------------------
# Nothing is compiled, and the program is stripped: none of the usual steps after %install.
cat >"$work/pgassay.spec" <<SPEC
Name: pgassay
Version: $upstream
Release: 1
Summary: $summary
License: (Apache-2.0 OR MIT) AND PostgreSQL
AutoReqProv: no
$([ "$libc" = static ] || echo "Requires: glibc >= $libc")
Recommends: postgresql-server
Suggests: gcc
Suggests: postgresql-server-devel
Suggests: perf
%define debug_package %{nil}
%define __os_install_post %{nil}

%description
$text

%install
mkdir -p %{buildroot}/usr %{buildroot}/usr/share/licenses/pgassay
cp -R $tree/bin $tree/share %{buildroot}/usr/
gzip -9 -n %{buildroot}/usr/share/man/man1/pgassay.1
mv %{buildroot}/usr/share/doc/pgassay/LICENSES-OF-CRATES %{buildroot}/usr/share/licenses/pgassay/
rmdir %{buildroot}/usr/share/doc/pgassay %{buildroot}/usr/share/doc
cp $PWD/LICENSE-APACHE $PWD/LICENSE-MIT %{buildroot}/usr/share/licenses/pgassay/
cp $PWD/ext/LICENSE %{buildroot}/usr/share/licenses/pgassay/LICENSE-EXTENSION
chmod -R u+rwX,go+rX,go-w %{buildroot}

%files
/usr/bin/pgassay
/usr/share/man/man1/pgassay.1.gz
/usr/share/bash-completion/completions/pgassay
/usr/share/zsh/site-functions/_pgassay
/usr/share/fish/vendor_completions.d/pgassay.fish
%dir /usr/share/licenses/pgassay
%license /usr/share/licenses/pgassay/*
SPEC
rpmbuild --quiet -bb --target "$processor-linux" --define "_topdir $work/rpm" \
    --define '_buildhost localhost' --define 'use_source_date_epoch_as_buildtime 1' \
    --define 'clamp_mtime_to_source_date_epoch 1' --define '_build_id_links none' \
    --define '_binary_payload w9.gzdio' "$work/pgassay.spec"
mv "$work/rpm/RPMS/$processor"/*.rpm "$output/"
