#!/bin/sh
# Pictures of an HTML report, made by a headless Chromium (package `chromium`).
#
#   scripts/screenshot.sh REPORT.html OUT-DIR [NAME]
#
# writes NAME-light.png, NAME-dark.png, NAME-phone.png (360 px) and NAME-print.pdf
# (and its pages as PNG where pdftoppm is there). The README's pictures come from
#
#   pgassay report last --format html --output report.html
#   scripts/screenshot.sh report.html docs/img report
set -eu

if [ $# -lt 2 ]; then
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
report=$(realpath "$1")
out=$2
name=${3:-report}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
    echo "no Chromium found; on Debian: apt-get install chromium" >&2
    exit 3
}
mkdir -p "$out"
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT INT TERM

chrome() {
    "$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
        --disable-background-networking --disable-component-update --disable-sync \
        --hide-scrollbars --user-data-dir="$profile" "$@" "file://$report" 2>/dev/null
}

# HEIGHT is what the first page of a reader's screen shows, and some more
chrome --window-size=1100,"${HEIGHT:-1500}" --screenshot="$out/$name-light.png"
chrome --window-size=1100,"${HEIGHT:-1500}" --force-dark-mode \
    --blink-settings=preferredColorScheme=0 --screenshot="$out/$name-dark.png"
# Chromium's own window is never narrower than 500 px: a frame of 360 px holds the page
frame="$profile/phone.html"
printf '<!doctype html><body style="margin:0"><iframe src="file://%s" style="border:0;width:360px;height:%spx"></iframe>' \
    "$report" "${PHONE_HEIGHT:-1800}" >"$frame"
"$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
    --disable-background-networking --disable-component-update --disable-sync \
    --hide-scrollbars --allow-file-access-from-files --user-data-dir="$profile" \
    --window-size=500,"${PHONE_HEIGHT:-1800}" --screenshot="$out/$name-phone.png" \
    "file://$frame" 2>/dev/null
chrome --no-pdf-header-footer --print-to-pdf="$out/$name-print.pdf"
if command -v pdftoppm >/dev/null; then
    pdftoppm -r 60 -png "$out/$name-print.pdf" "$out/$name-print"
fi
ls -l "$out"
