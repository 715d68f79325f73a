#!/bin/busybox sh
# In the guest: pgassay over the axes, watched by watch.sh. Each command has a directory with
# what it said, its exit code, its runs and what the kernel said meanwhile.
bin=$1
# ONLY: the names of the commands to run.
# Long enough that the load is seen under way.
short="--time 4 --warmup 0 --trials 2 --observe none --scale 1"

# What the kernel says about the machine.
(cd /sys/devices/system && busybox grep -H . node/node*/cpulist node/node*/distance cpu/cpu*/topology/thread_siblings_list) >/lab/topology
(cd /sys/devices/system && busybox grep -H . cpu/cpu*/topology/core_id cpu/cpu*/topology/physical_package_id) >/lab/ids
numactl --hardware >/lab/hardware 2>&1

# one NAME WORDS...
one() {
	case " ${ONLY:-$1} " in *" $1 "*) ;; *) return ;; esac
	at=/lab/commands/$1
	shift
	busybox mkdir -p "$at"
	echo "$*" >"$at/command"
	busybox sh /lab/watch.sh "$at/watched" &
	watch=$!
	pgassay --runs "$at/runs" "$@" >"$at/stdout" 2>"$at/stderr"
	echo $? >"$at/exit"
	kill $watch 2>/dev/null
	wait $watch 2>/dev/null
	echo "guest: exit $(busybox cat "$at/exit") of pgassay $*"
}

one numa run select-only "$bin" --numa 0,1,local,interleave --clients 4 $short
one smt run select-only "$bin" --smt on,off,only-first --clients 4 $short
one huge run select-only "$bin" --numa 0,1 --set huge_pages=on --set shared_buffers=256MB --clients 2 $short
one cpus run select-only "$bin" --cpus 1..4 --clients 4 $short
one crossed run select-only "$bin" --numa 0,1 --smt on,only-first --cpus 2 --clients 2 $short
one pinned run select-only "$bin" --smt on,off --pin=6,7 --clients 2 $short
one policies compare "$bin" "$bin" --wrap-a "numactl --membind=0" --wrap-b "numactl --interleave=all" \
	--scale 1 --clients 2 --pairs 2 --noise-pairs 2 --slice 0.5 --warmup 0
one places compare "$bin" "$bin" --set-b work_mem=8MB --numa 0,1 --scale 1 --clients 2 --pairs 2 --noise-pairs 2 --slice 0.5 --warmup 0
one lab lab /lab/plan.toml --minutes 1
# What this machine does not have.
one no-node run select-only "$bin" --numa 2 $short
one no-cpus run select-only "$bin" --cpus 9 $short
one node-cpus run select-only "$bin" --numa 1 --cpus 5 $short
one off-cpus run select-only "$bin" --smt off --cpus 5 $short
