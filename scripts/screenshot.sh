#!/bin/sh
# Screenshots of an HTML report, taken by a headless Chromium (package `chromium`).
#
#   scripts/screenshot.sh REPORT.html OUT-DIR [NAME]
#
# writes NAME-light.png, NAME-dark.png and NAME-phone.png (360 px wide); with
# PRINT=1 in the environment also NAME-print.pdf and its pages. HEIGHT and
# PHONE_HEIGHT set how much of the page is shown; CROP=WIDTHxHEIGHT+LEFT+TOP
# crops the light and the dark picture. The README's pictures:
#
#   pgassay report last --format html --output report.html
#   scripts/screenshot.sh report.html docs/img report
#   HEIGHT=1250 CROP=900x565+90+605 scripts/screenshot.sh target/page-size/report.html docs/img page-sizes
set -eu

if [ $# -lt 2 ]; then
    sed -n '2,14s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
report=$(realpath "$1")
out=$2
name=${3:-report}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo "Chromium not found; on Debian: apt-get install chromium" >&2
    exit 3
}
mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT INT TERM

# takes one screenshot with a fresh profile: chrome PAGE FLAG…
chrome() {
    page=$1
    shift
    rm -rf "$scratch/profile"
    "$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
        --disable-background-networking --disable-component-update --disable-sync \
        --hide-scrollbars --user-data-dir="$scratch/profile" "$@" "file://$page" 2>/dev/null
}

height=${HEIGHT:-1500}
chrome "$report" --window-size=1100,"$height" --screenshot="$out/$name-light.png"
chrome "$report" --window-size=1100,"$height" --blink-settings=preferredColorScheme=0 \
    --screenshot="$out/$name-dark.png"

if [ -n "${CROP:-}" ]; then
    IFS='x+' read -r width high left top <<PART
$CROP
PART
    for look in light dark; do
        mv "$out/$name-$look.png" "$scratch/whole.png"
        printf '<!doctype html><body style="margin:-%spx 0 0 -%spx;overflow:hidden"><img src="whole.png">' \
            "$top" "$left" >"$scratch/part.html"
        chrome "$scratch/part.html" --allow-file-access-from-files --window-size="$width","$high" \
            --screenshot="$out/$name-$look.png"
    done
fi

# a window is at least 500 px wide, so an iframe of 360 px contains the page
height=${PHONE_HEIGHT:-1500}
frame="$scratch/phone.html"
printf '<!doctype html><body style="margin:0"><iframe src="file://%s" style="border:0;width:360px;height:%spx"></iframe>' \
    "$report" "$height" >"$frame"
chrome "$frame" --allow-file-access-from-files --window-size=500,"$height" \
    --screenshot="$out/$name-phone.png"

if [ -n "${PRINT:-}" ]; then
    chrome "$report" --no-pdf-header-footer --print-to-pdf="$out/$name-print.pdf"
    if command -v pdftoppm >/dev/null; then
        pdftoppm -r 60 -png "$out/$name-print.pdf" "$out/$name-print"
    fi
fi

# warn about pictures that are too large for the repository
find "$out" -name "$name-*.png" -size +300k -exec echo "more than 300 KB:" {} \; >&2
ls -l "$out/$name"-*
