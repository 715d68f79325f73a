#!/bin/bash
# Executes the shell of the CI templates in deploy/ci on a fresh Debian 13: the steps are read out of the YAML
# and run as the services run them, with the wheel of dist/ in place of PyPI's.
#
#   scripts/try-ci.sh
#
# BUILDS=yes adds GitLab's comparison of a merge request against its base, which builds PostgreSQL twice.
#
# Needs root, debootstrap, Python with PyYAML, and the packages in DIST (dist/). Prints a line for each step and
# ends with 1 if one failed. What is not executed is said at the end.
set -euo pipefail
project=$(cd "$(dirname "$0")/.." && pwd)
. "$project/scripts/fresh.sh"
root=$fresh/run-ci
log=$fresh/ci.log
fresh_root trixie "$root"
mkdir -p "$root/srv"/{dist,ci,workspace}
cp "${DIST:-$project/dist}"/pgassay-*_"$(uname -m)"*.whl "$root/srv/dist/"
cp "$project"/crates/foundation/inspect/tests/fixtures/a64-gcc-{outline,llsc}.so "$root/srv/workspace/"
cp "$root/srv/workspace/a64-gcc-outline.so" "$root/srv/workspace/with a space.so"
steps=$project/scripts/ci-steps.py
export GITHUB_WORKSPACE=/srv/workspace
"$steps" action >"$root/srv/ci/action"
for job in inspect assay compare; do
    "$steps" gitlab $job >"$root/srv/ci/gitlab-$job"
    "$steps" github $job >"$root/srv/ci/github-$job"
done

cat >"$root/srv/steps" <<'STEPS'
set -u
failed=0
cd /srv/workspace
export GITHUB_STEP_SUMMARY=/srv/summary GITHUB_OUTPUT=/srv/output
says() { # name, expected, found, file to show
    if [ "$2" = "$3" ]; then printf 'ok    %-44s exit code %s\n' "$1" "$3"; else
        printf 'FAIL  %-44s exit code %s, not %s\n' "$1" "$3" "$2"
        tail -n 12 "$4" | sed 's/^/      /'
        failed=1
    fi
}
# The action: its step's exit code, pgassay's own as output, and something in the summary.
action() { # name, step's exit code, pgassay's, arguments, accept
    local code=0
    : >"$GITHUB_STEP_SUMMARY"
    : >"$GITHUB_OUTPUT"
    ARGUMENTS=$4 ACCEPT=${5:-0} VERSION='' bash --noprofile --norc -eo pipefail /srv/ci/action >/srv/said 2>&1 || code=$?
    says "$1" "$2" "$code" /srv/said
    [ -z "$3" ] || grep -qx "exit-code=$3" "$GITHUB_OUTPUT" || {
        echo "FAIL  output: $(cat "$GITHUB_OUTPUT"), not exit-code=$3"
        failed=1
    }
    [ -z "$3" ] || [ "$3" = 2 ] || [ -s "$GITHUB_STEP_SUMMARY" ] || { echo "FAIL  nothing in the summary"; failed=1; }
}
gitlab() { # name, expected exit code, script
    local code=0
    (cd /srv/workspace && env -u GITHUB_OUTPUT CI_PROJECT_DIR=/srv/workspace bash "$3") >/srv/said 2>&1 || code=$?
    says "$1" "$2" "$code" /srv/said
}

# --- GitLab: apt, pipx, and all else that the image does not have --------------------
gitlab "gitlab: inspect, with its installation" 0 /srv/ci/gitlab-inspect
[ -s inspect.html ] || { echo "FAIL  no inspect.html"; failed=1; }
gitlab "gitlab: assay" 0 /srv/ci/gitlab-assay
ls runs/*/report.html >/dev/null || { echo "FAIL  no run to keep"; failed=1; }

if [ -n "${BUILDS:-}" ]; then
    # A repository of PostgreSQL, and a merge request that gives away time at each statement.
    # Mirrors of the security archive may lack sources.
    sed -n '1s/^deb /deb-src /p' /etc/apt/sources.list >/etc/apt/sources.list.d/sources.list
    apt-get -q update >/dev/null
    apt-get -q -y install --no-install-recommends dpkg-dev git >/dev/null
    # Without Debian's patches, which fix the places that it is installed in.
    (cd /srv && apt-get -q source --download-only --only-source postgresql-17 >/dev/null 2>&1 &&
        dpkg-source --skip-patches --no-check -x postgresql-17_*.dsc merge >/dev/null)
    cd /srv/merge
    git init -q . && git add -A -f . && git -c user.name=a -c user.email=a@b commit -q -m base
    sed -i '/^PortalRun(Portal portal/,/^{/s/^{/{\n\tfor (volatile int lost = 0; lost < 20000; lost++)\n\t\t;/' \
        src/backend/tcop/pquery.c
    git diff --stat
    git -c user.name=a -c user.email=a@b commit -q -a -m slower
    CI_MERGE_REQUEST_DIFF_BASE_SHA=$(git rev-parse HEAD~1) CI_COMMIT_SHA=$(git rev-parse HEAD)
    export CI_MERGE_REQUEST_DIFF_BASE_SHA CI_COMMIT_SHA
    code=0
    (CI_PROJECT_DIR=/srv/merge bash /srv/ci/gitlab-compare) >/srv/said 2>&1 || code=$?
    says "gitlab: compare, the merge request is slower" 1 "$code" /srv/said
    grep -i slower /srv/said | head -n 2 | sed 's/^/      /'
    [ -s compare.html ] || { echo "FAIL  no compare.html"; failed=1; }
    cd /srv/workspace
fi

# --- GitHub's runner has pipx; the action installs pgassay with it ------------------
pipx uninstall pgassay >/dev/null
export PATH=/root/.local/bin:$PATH
unset PIPX_BIN_DIR
action "github: a package without pgassay, installed" 0 0 'inspect a64-gcc-outline.so --require lse-or-outline --format markdown'
action "github: what is required is not there" 1 1 'inspect a64-gcc-llsc.so --require lse-or-outline --format markdown'
action "github: … accepted" 0 1 'inspect a64-gcc-llsc.so --require lse-or-outline --format markdown' '0 1'
action "github: a name with a space" 0 0 'inspect "with a space.so" --format markdown'
action "github: the shell is not understood" 2 2 'inspect $(touch /srv/never) ; true'
[ ! -e /srv/never ] || { echo "FAIL  a command in arguments was run"; failed=1; }
template() { # job: its arguments and what it accepts
    mapfile -t with <"/srv/ci/github-$1"
}
# The template's own step fetches Ubuntu's package; here it is Debian's.
mv postgresql-17_*_arm64.deb package.deb
template inspect
action "github: inspect as in the template" 0 0 "${with[0]}" "${with[1]}"
template assay
action "github: assay as in the template" 0 0 "${with[0]}" "${with[1]}"
# Counted instructions are the same on any machine. Other targets than two builds, which take 20 minutes.
template compare
count="${with[0]/build:base-plain build:head-plain/temp temp} --by emulated-instructions"
count=${count/--minutes 10/--minutes 5}
action "github: compare, equal" 0 0 "$count" "${with[1]}"
grep -qi 'verdict\|no difference\|equivalent\|same' "$GITHUB_STEP_SUMMARY" || { echo "FAIL  no verdict in the summary"; failed=1; }
head -n 4 "$GITHUB_STEP_SUMMARY" | sed 's/^/      /'
action "github: compare, the head is slower" 1 1 "$count --set-b plan_cache_mode=force_custom_plan" "${with[1]}"
head -n 4 "$GITHUB_STEP_SUMMARY" | sed 's/^/      /'
[ -n "${BUILDS:-}" ] || echo "not executed: pgassay build of a pull request's base and head (BUILDS=yes does that)"
echo "not executed: what GitHub and GitLab do themselves: checkout, artifacts, the order of jobs"
exit $failed
STEPS
cat >"$root/srv/before" <<'STEPS'
export DEBIAN_FRONTEND=noninteractive
apt-get -q update && apt-get -q -y install --no-install-recommends ca-certificates valgrind
STEPS
inside HOME=/root bash /srv/before >"$log" 2>&1 || { tail -n 20 "$log" >&2; exit 1; }
result=0
inside HOME=/root PIP_FIND_LINKS=/srv/dist PIP_CERT="${PIP_CERT:-}" BUILDS="${BUILDS:-}" bash /srv/steps 2>&1 | tee -a "$log" || result=1
[ -n "${KEEP:-}" ] || rm -rf --one-file-system "$root"
exit $result
