#!/bin/bash
# pgassay over a real Slurm: the server and its load in a job, the load alone in jobs, a batch script of pgassay
# deploy, and a job that is cancelled in the middle.
#
#   scripts/test-slurm.sh PROGRAM        as root; needs slurmctld, slurmd, srun and munged
#
# One controller and one node, both this machine, on ports of their own; everything lies in one directory and goes
# at the end.
set -euo pipefail
program=$(realpath "$1")
[ "$(id -u)" = 0 ] || { echo "test-slurm.sh: Slurm's daemons are started as root" >&2; exit 3; }
PATH=$PATH:/usr/sbin
for tool in slurmctld slurmd srun sbatch munged; do
    command -v $tool >/dev/null || {
        echo "test-slurm.sh: $tool is missing (Debian: apt-get install slurmctld slurmd slurm-client munge)" >&2
        exit 3
    }
done

place=$(mktemp -d /var/tmp/pgassay-slurm-XXXXXX)
chmod 755 "$place"
host=$(hostname -s)
pids=()
finish() {
    # Jobs first: what they started ends with them.
    scancel --user root 2>/dev/null || true
    sleep 1
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
    rm -rf "$place"
}
trap finish EXIT

mkdir -m 700 "$place/munge"
dd if=/dev/urandom of="$place/munge/key" bs=1024 count=1 status=none
chmod 400 "$place/munge/key"
munged --foreground --force --key-file="$place/munge/key" --socket="$place/munge.socket" --pid-file="$place/munge/pid" \
    --log-file="$place/munge/log" --seed-file="$place/munge/seed" 2>"$place/munge/said" &
pids+=($!)
mkdir "$place/state" "$place/spool"
cat >"$place/slurm.conf" <<CONF
ClusterName=pgassay
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=36817
SlurmdPort=36818
AuthType=auth/munge
AuthInfo=socket=$place/munge.socket
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
StateSaveLocation=$place/state
SlurmdSpoolDir=$place/spool
SlurmctldPidFile=$place/slurmctld.pid
SlurmdPidFile=$place/slurmd.pid
SlurmctldLogFile=$place/slurmctld.log
SlurmdLogFile=$place/slurmd.log
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES State=UP OverSubscribe=FORCE:8
CONF
# The machine may have fewer CPUs: the jobs share them.
echo "SlurmdParameters=config_overrides" >>"$place/slurm.conf"
export SLURM_CONF=$place/slurm.conf
waits_for() { # seconds, what, command
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || {
            echo "test-slurm.sh: no $what" >&2
            tail -n 20 "$place"/*.log "$place/munge/said" >&2
            exit 1
        }
        sleep 0.3
    done
}
waits_for 20 "munge" test -S "$place/munge.socket"
slurmctld -D 2>/dev/null &
pids+=($!)
slurmd -D -N "$host" 2>/dev/null &
pids+=($!)
idle() { [ "$(sinfo --noheader --format=%T)" = idle ]; }
waits_for 60 "node that is idle" idle

export XDG_CACHE_HOME=$place/cache
short=(--clients 2 --trials 6 --time 0.2 --warmup 0 --scale 1 --quiet)
failed() { echo "test-slurm.sh: $*" >&2; exit 1; }

echo "the server and its load in a job"
"$program" run select-only "exec:srun --unbuffered --ntasks=1 --overlap // temp" "${short[@]}" --runs "$place/runs" --json >"$place/job.json"
grep -q '"state": *"complete"' "$place/job.json" || failed "the run in a job is not complete"

echo "the load in two jobs, the server outside"
"$program" run select-only temp --listen 127.0.0.1 --from 'exec:srun --unbuffered --ntasks=1,exec:srun --unbuffered --ntasks=1' "${short[@]}" \
    --runs "$place/runs" --json >"$place/two.json"
grep -q '"state": *"complete"' "$place/two.json" || failed "the run with load from two jobs is not complete"

echo "a job that is cancelled: named, and nothing runs on"
"$program" run select-only 'exec:srun --unbuffered --ntasks=1 --job-name=doomed // temp' --clients 2 --trials 60 --time 1 --warmup 0 --scale 1 --quiet \
    --runs "$place/lost" >/dev/null 2>"$place/lost.err" &
measuring=$!
trials() { [ "$(cat "$place"/lost/*/trials.jsonl 2>/dev/null | wc -l)" -ge 2 ]; }
waits_for 90 "second trial" trials
scancel --name=doomed
code=0
wait $measuring || code=$?
[ $code = 4 ] || { cat "$place/lost.err" >&2; failed "the exit code is $code, not 4"; }
[ "$(cat "$place"/lost/*/trials.jsonl | wc -l)" -ge 2 ] || failed "finished trials were lost"
gone() { ! pgrep -f "^$place/cache|pgassay-far-" >/dev/null; }
waits_for 15 "end of what ran in the job" gone

echo "the batch script of pgassay deploy"
"$program" deploy slurm --nodes 1 --time 00:10:00 --program "$program" -- run select-only temp "${short[@]}" >"$place/pgassay.sbatch"
mkdir "$place/submitted"
(cd "$place/submitted" && sbatch --wait ../pgassay.sbatch >"$place/sbatch.out") || {
    cat "$place"/submitted/* >&2 || true
    failed "the batch script failed"
}
find "$place/submitted" -name run.json | grep -q . || failed "the batch script left no run"
ls "$place/submitted"
echo "Slurm $(srun --version | cut -d' ' -f2): all of it works"
