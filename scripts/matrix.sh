#!/bin/bash
# The matrix: provokes known bottlenecks on real servers on this machine, runs
# pgassay, and compares its findings with what was provoked.
#
#   scripts/matrix.sh PGASSAY [CASE…]
#
# A case is a file in scripts/matrix/. It is sourced in its own shell and sets
#
#   about      the situation, in one line
#   expects    the IDs that must be found, and no others of those that the matrix
#              watches (every ID that any case expects); empty: none of them
#   kind       check (default): findings of `pgassay check`;
#              diagnose: findings of `pgassay diagnose`
#
# and defines `provoke`, which writes its observations to $facts (a file of `pgassay
# collect`) or, for other kinds, prints the IDs found. If the situation is unavailable
# here, `needs` prints the reason and fails; the case is then skipped.
# `undo` runs at the end, also after a failure.
#
# Needs root for kernel settings (huge pages, control groups), and an idle machine
# only for cases that say so.
set -uo pipefail
project=$(cd "$(dirname "$0")/.." && pwd)
pgassay=$(realpath "${1:?missing argument: the pgassay program}")
shift
cases=("$@")
if [ ${#cases[@]} = 0 ]; then
    for file in "$project"/scripts/matrix/*.sh; do
        name=$(basename "$file" .sh)
        [ "$name" = lib ] || cases+=("$name")
    done
fi
work=$(mktemp -d /var/tmp/pgassay-matrix.XXXXXX)
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT

expected() ( # case, kind: the IDs, if the case is of that kind
    kind=check expects='' about=''
    # shellcheck disable=SC1090
    . "$project/scripts/matrix/$1.sh"
    [ "$kind" = "$2" ] && printf '%s\n' $expects
)
for kind in check diagnose; do
    for name in "${cases[@]}"; do expected "$name" $kind; done | sort -u >"$work/watched-$kind"
done

one() ( # case: writes $work/CASE.found, or $work/CASE.skipped with the reason
    name=$1 kind=check expects='' about=''
    export facts=$work/$name.json
    undo() { :; }
    needs() { :; }
    # shellcheck disable=SC1091
    . "$project/scripts/matrix/lib.sh"
    # shellcheck disable=SC1090
    . "$project/scripts/matrix/$name.sh"
    echo "$kind" >"$work/$name.kind"
    printf '%s\n' $expects | sed '/^$/d' | sort -u >"$work/$name.expected"
    echo "$about" >"$work/$name.about"
    if ! needs >"$work/$name.skipped" 2>&1; then return; fi
    rm -f "$work/$name.skipped"
    trap 'undo; stop_server' EXIT
    if ! provoke >"$work/$name.out" 2>"$work/$name.err"; then
        tail -3 "$work/$name.err" >"$work/$name.skipped"
        return
    fi
    if [ "$kind" = check ]; then
        while read -r rule; do
            "$pgassay" check "$facts" --only "$rule" --fail-on info >/dev/null 2>&1
            [ $? = 1 ] && echo "$rule"
        done <"$work/watched-check" >"$work/$name.found"
    else
        grep -Fxf "$work/watched-$kind" "$work/$name.out" | sort -u >"$work/$name.found"
    fi
)

found=0 missed=0 false_alarms=0 silent=0 skipped=0
printf '%-26s %-9s %s\n' situation result 'what was found'
for name in "${cases[@]}"; do
    one "$name"
    if [ -e "$work/$name.skipped" ]; then
        skipped=$((skipped + 1))
        printf '%-26s %-9s %s\n' "$name" skipped "$(tr '\n' ' ' <"$work/$name.skipped" | tail -c 200)"
        continue
    fi
    kind=$(cat "$work/$name.kind")
    sort -u -o "$work/$name.found" "$work/$name.found"
    hit=$(comm -12 "$work/$name.expected" "$work/$name.found" | wc -l)
    miss=$(comm -23 "$work/$name.expected" "$work/$name.found")
    extra=$(comm -13 "$work/$name.expected" "$work/$name.found")
    watched=$(wc -l <"$work/watched-$kind")
    misses=$(printf '%s' "$miss" | grep -c . || true)
    extras=$(printf '%s' "$extra" | grep -c . || true)
    found=$((found + hit)) missed=$((missed + misses)) false_alarms=$((false_alarms + extras))
    silent=$((silent + watched - hit - misses - extras))
    result=ok
    [ -n "$extra" ] && result='false +'
    [ -n "$miss" ] && result=missed
    printf '%-26s %-9s %s%s%s\n' "$name" "$result" "$(tr '\n' ' ' <"$work/$name.found")" \
        "${miss:+ missed: $(echo $miss)}" "${extra:+ false positive: $(echo $extra)}"
done

share() { # part, whole
    if [ "$2" = 0 ]; then echo 'none'; else awk "BEGIN { printf \"%.0f %%\", 100 * $1 / $2 }"; fi
}
echo
echo "true positives: $found; false negatives: $missed; false positives: $false_alarms; true negatives: $silent; skipped: $skipped"
echo "precision: $(share $found $((found + false_alarms))); recall: $(share $found $((found + missed)))"
[ $missed = 0 ] && [ $false_alarms = 0 ]
