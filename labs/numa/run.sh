#!/bin/bash
# The axes --numa, --smt and --cpus on an emulated machine that has what they choose from:
# x86-64 with two memory nodes, two sockets of two cores, and two threads a core.
#
#	labs/numa/run.sh
#
# Debian 13's kernel is booted by qemu-system with a small initramfs and a disk with
# PostgreSQL 18 of Debian unstable, numactl and pgassay. In the guest pgassay runs and
# compares over the axes, while labs/numa/watch.sh records what the guest's kernel says:
# on which CPUs each process may run and ran, and on which nodes the servers' shared
# memory lies. The results are copied to target/numa/guests/, and labs/numa/check.py
# holds them against what was asked for. Placement, not times: the nodes of an emulated
# machine are equally far.
#
# PROGRAM: the pgassay that runs in the guest (target/release/pgassay). NICE: of the emulator
# (10). GUEST_SECONDS: the longest that the guest may take (3000). ONLY: which of the
# commands in labs/numa/commands.sh to run, by their names ("numa smt").
#
# Needs qemu-system-x86, kmod, cpio, xz-utils, e2fsprogs and python3. This script installs
# none of them.
set -euo pipefail
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
out=$project/target/numa
architecture=amd64
work=$out/$architecture
major=18
suite=sid
flavour=cloud-amd64
console=ttyS0
GUEST_SECONDS=${GUEST_SECONDS:-3000}

. "$project/labs/guest.sh"
need qemu-system-x86_64 python3
program=${PROGRAM:-$project/target/release/pgassay}
[ -x "$program" ] || { echo "build pgassay first: make build" >&2; exit 3; }

emulate="qemu-system-x86_64 -M q35 -accel tcg,thread=multi -cpu max,vendor=GenuineIntel -m 4G -smp 8,sockets=2,cores=2,threads=2
	-object memory-backend-ram,id=m0,size=2G -numa node,nodeid=0,cpus=0-3,memdev=m0
	-object memory-backend-ram,id=m1,size=2G -numa node,nodeid=1,cpus=4-7,memdev=m1
	-numa dist,src=0,dst=1,val=21"

mkdir -p "$work"
userland "postgresql-$major" numactl
suite=trixie kernel "$flavour"
cp "$program" "$work/root/usr/bin/pgassay"
cp "$project"/labs/numa/{watch.sh,commands.sh,plan.toml} "$work/root/lab/"
guest_script <<GUEST
ONLY="${ONLY:-}" PATH=\$PATH:/usr/lib/postgresql/$major/bin busybox sh /lab/commands.sh /usr/lib/postgresql/$major/bin
GUEST
boot_one "$flavour" numa
python3 "$project/labs/numa/check.py" "$out/guests/numa/lab"
