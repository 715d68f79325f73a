#!/usr/bin/env bash
# Holds the disk under the temporary directory to a rate by a control group, runs a load whose reads come from it within
# that group, and shows what is said of the limit, which nobody named.
#
#   bench/volume-limit.sh [MB A SECOND [PROGRAM]]      20 and target/release/pgassay by default; root only
#
# Linux, admin-guide/cgroup-v2.rst (io.max) and admin-guide/cgroup-v1/blkio-controller.rst (blkio.throttle).
set -euo pipefail
cd "$(dirname "$0")/.."
megabytes=${1:-20} program=${2:-target/release/pgassay}
[ "$(id -u)" = 0 ] || { echo "volume-limit.sh: only root may make control groups" >&2; exit 2; }
work=$(mktemp -d "${TMPDIR:-/tmp}/volume-limit.XXXXXX")

# The whole disk under the work directory, as control groups name it.
device=$(stat -c '%Hd:%Ld' "$work")
if [ -e "/sys/dev/block/$device/partition" ]; then
	device=$(cat "/sys/dev/block/$device/../dev")
fi
[ -e "/sys/dev/block/$device" ] || { echo "volume-limit.sh: $work is on no disk that is seen here" >&2; exit 3; }

name=pgassay-volume-limit-$$
if [ -e /sys/fs/cgroup/blkio/cgroup.procs ]; then
	group=/sys/fs/cgroup/blkio/$name
	mkdir "$group"
	echo "$device $((megabytes * 1000000))" >"$group/blkio.throttle.read_bps_device"
else
	group=/sys/fs/cgroup/$name
	echo +io >/sys/fs/cgroup/cgroup.subtree_control
	mkdir "$group"
	echo "$device rbps=$((megabytes * 1000000))" >"$group/io.max"
fi
finish() {
	rmdir "$group" || true
	rm -rf "$work"
}
trap finish EXIT

echo "disk $device held to $megabytes MB a second by $group"
# What runs in the group ends before the group is removed.
(
	echo "$BASHPID" >"$group/cgroup.procs"
	exec "$program" run scattered-read --runs "$work/runs" --size 128MB --only sequential,bitmap --trials 3 --json
) >"$work/report.json"
python3 - "$work/report.json" "$megabytes" <<'PYTHON'
import json, sys
run, megabytes = json.load(open(sys.argv[1])), int(sys.argv[2])
limits = run["scattered_read"]["storage"]["volume"]
print("found:", json.dumps(limits))
for way in run["scattered_read"]["variants"]:
    cold, sectors = way.get("cold"), way.get("device_sectors")
    if cold and sectors:
        rate = sectors["estimate"] * 512 / (cold["execution_ms"]["estimate"] / 1e3)
        print(f"  {way['title']}: {rate / 1e6:.1f} MB a second")
said = [w["text"] for w in run["warnings"] if w["id"].startswith("volume-")]
print(*said, sep="\n")
ok = limits and limits["bytes_per_second"] == megabytes * 1000000 and any("control group" in text for text in said)
sys.exit(0 if ok else 1)
PYTHON
