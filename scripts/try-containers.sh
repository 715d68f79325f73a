#!/bin/bash
# Builds the images of deploy/ with buildah from the packages in dist/, and runs pgassay in them: the small one
# inspects a library, the one with PostgreSQL assays its own server. The base is a fresh Debian 13, so that no
# image registry is needed.
#
#   scripts/try-containers.sh
#
# Needs root, debootstrap, buildah, and the packages in DIST (dist/). Prints a line for each step and ends with 1
# if one failed.
set -euo pipefail
project=$(cd "$(dirname "$0")/.." && pwd)
. "$project/scripts/fresh.sh"
command -v buildah >/dev/null || { echo "try-containers.sh: buildah is missing (Debian: apt-get install buildah)" >&2; exit 3; }
dist=${DIST:-$project/dist}
root=$fresh/run-base
work=$(mktemp -d "${TMPDIR:-/var/tmp}/pgassay-containers-XXXXXX")
log=$fresh/containers.log
finish() { [ -n "${KEEP:-}" ] || rm -rf --one-file-system "$work" "$root"; }
trap finish EXIT
mkdir -p "$fresh"
: >"$log"
# chroot needs no rights that a machine in a container lacks, vfs no file system of its own.
export BUILDAH_ISOLATION=chroot
images() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
failed=0
step() { # name, command
    local name=$1 begun=$SECONDS
    shift
    if "$@" >"$work/said" 2>&1; then
        printf 'ok    %-44s %4d s\n' "$name" $((SECONDS - begun))
    else
        printf 'FAIL  %-44s exit code %s\n' "$name" $?
        tail -n 12 "$work/said" | sed 's/^/      /'
        failed=1
    fi
    { echo "== $name"; cat "$work/said"; } >>"$log"
}

fresh_root trixie "$root"
# Behind an intercepting proxy apt has to know its authority before any package is installed.
if [ -d "$root/usr/local/share/ca-certificates" ]; then
    inside sh -c 'apt-get -q update && apt-get -q -y install --no-install-recommends ca-certificates' >>"$log" 2>&1
fi
tar -C "$root" --one-file-system -cf "$work/base.tar" .
base() {
    local container
    container=$(images from scratch)
    images add "$container" "$work/base.tar" /
    images commit --rm "$container" localhost/debian
}
step "a base of Debian 13" base
step "build deploy/Containerfile" images build -f "$project/deploy/Containerfile" -t pgassay "$dist"
step "build deploy/Containerfile.postgres" images build --build-arg BASE=localhost/debian \
    -f "$project/deploy/Containerfile.postgres" -t pgassay-postgres "$dist"

mkdir "$work/shared"
cp "$project/crates/foundation/inspect/tests/fixtures/a64-gcc-outline.so" "$work/shared/"
small=$(images from pgassay)
in_small() { images run -v "$work/shared:/shared" "$small" -- /usr/bin/pgassay "$@"; }
step "pgassay: --version" in_small --version
step "pgassay: inspect" in_small inspect /shared/a64-gcc-outline.so --require lse-or-outline
# 3: there is no PostgreSQL in it.
lacks() { local code=0; in_small doctor || code=$?; [ $code = 3 ]; }
step "pgassay: doctor says what there is not" lacks
large=$(images from pgassay-postgres)
in_large() { images run "$large" -- /usr/bin/pgassay "$@"; }
step "pgassay-postgres: doctor" in_large doctor
step "pgassay-postgres: assay --quick" in_large assay --quick
step "pgassay-postgres: the run is kept" in_large runs
for image in pgassay pgassay-postgres localhost/debian; do
    printf '      %-40s %s\n' "size of $image" "$(images images --format '{{.Size}}' "$image")"
done
exit $failed
