#!/usr/bin/env python3
"""Kills a part of a measurement on another machine at a random moment, again and again, and looks what is
left ten seconds later: processes, directories, and the trials that were finished before.

    bench/far-kills.py [--program target/debug/pgassay] [--kills 100] [--seed 1] [--agents]
                       [--place 'exec:sh -c '"'"'"$@"; exit $?'"'"' carrier' | ssh://HOST]
                       [--sshd] [--with '--from here --listen 127.0.0.1']

With --agents the command and its server are here, and the load comes from two machines at that place:
killed are the command, an agent, both agents, and with ssh:// a carrier (the streams of a plain one stand without it).
The files of a server whose command is killed stay until the next run sweeps them.

The far side has to be this machine (a plain command, or an sshd here, whose sessions have
XDG_CACHE_HOME in a directory that --cache names; --sshd starts such a one). A kill counts as clean if within ten seconds no process
of the far side runs, no directory of its session and no cluster lies around, and at least those trials
are here that were finished a second before.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

CARRIED = "exec:sh -c '\"$@\"; exit $?' carrier"
PARTS = ["near", "carrier", "agent", "command", "agent and command", "all but the tidier"]
AGENTS = ["near", "agent", "both agents"]


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def far_processes(cache):
    """Processes whose program is the copy on the far side."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            exe = os.readlink(f"/proc/{entry}/exe")
        except OSError:
            continue
        if exe.startswith(str(cache)):
            found[int(entry)] = command_line(entry)
    return found


def servers(scratch):
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            if os.readlink(f"/proc/{entry}/cwd").startswith(str(scratch)):
                found.append(int(entry))
        except OSError:
            continue
    return found


def part_of(processes, part):
    if part == "agents":
        return sorted(pid for pid, line in processes.items() if line.endswith(" far"))
    # The eldest: a child of it is the same program until it executes another.
    ends, holds = (" far", "") if part == "agent" else ("", " run ")
    return sorted(pid for pid, line in processes.items() if line.endswith(ends) and holds in line)[:1]


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except OSError:
            pass
    return found


def trials(directory):
    """Whole lines of trials of all runs below a directory."""
    count = 0
    for file in pathlib.Path(directory).glob("*/trials.jsonl"):
        for line in file.read_bytes().split(b"\n")[:-1]:
            json.loads(line)
            count += 1
    return count


def sessions():
    return {path for path in pathlib.Path("/var/tmp").glob("pgassay-far-*")}


def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def sshd(base, cache):
    """An sshd of this user on a free port, and the command that stands for ssh."""
    place = base / "sshd"
    place.mkdir(mode=0o700)
    for key in ["host", "user"]:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / key)], check=True)
    if os.geteuid() == 0:
        # Where it gives up its rights; a package of a distribution makes it when the service starts.
        os.makedirs("/run/sshd", exist_ok=True)
    for _ in range(10):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        (place / "sshd_config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {place}/host\nAuthorizedKeysFile {place}/user.pub\n"
            "PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
            f"SetEnv XDG_CACHE_HOME={cache}\n")
        (place / "ssh_config").write_text(
            f"Host there\n HostName 127.0.0.1\n Port {port}\n IdentityFile {place}/user\n"
            f" UserKnownHostsFile {place}/known\n StrictHostKeyChecking accept-new\n BatchMode yes\n")
        log = place / "log"
        process = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", str(place / "sshd_config")],
                                   stderr=log.open("w"))
        # It ends where somebody else has the port by now.
        while process.poll() is None:
            if "Server listening on" in log.read_text():
                return process, f"ssh -F {place}/ssh_config"
            time.sleep(0.05)
    raise SystemExit(f"no sshd: {log.read_text()}")


def one(args, number, part, rng, base):
    runs, scratch = base / f"runs-{number}", base / f"scratch-{number}"
    runs.mkdir()
    scratch.mkdir(mode=0o755)
    before = sessions()
    environment = dict(os.environ, PGASSAY_RUNS=str(runs))
    if not args.cache_given:
        environment["XDG_CACHE_HOME"] = str(args.cache)
    if args.agents:
        words = ["temp", "--from", f"{args.place},{args.place}", "-c", "4"]
    else:
        separator = "/" if args.place.startswith("ssh://") else " // "
        words = [f"{args.place}{separator}temp", "-c", "1"]
    near = subprocess.Popen(
        [args.program, "run", "select-only", *words, "-T", "0.1", "--warmup", "0", "--trials", "2000", "-s", "1",
         "--scratch", str(scratch), *shlex.split(args.words)],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    wait = rng.uniform(0.1, args.longest)
    time.sleep(max(wait - 1, 0))
    if args.agents:
        finished = trials(runs)
    else:
        finished = sum(trials(s / "runs") for s in sessions() - before if (s / "runs").is_dir())
    time.sleep(min(wait, 1))
    processes = far_processes(args.cache / "pgassay/far")
    if part == "near":
        victims = [near.pid]
    elif part == "carrier" and args.agents:
        # The command has its server, and a helper or two, as children, too.
        victims = [pid for pid in children(near.pid) if command_line(pid).startswith("ssh ")]
        victims = rng.sample(victims, min(1, len(victims)))
    elif part == "carrier":
        victims = children(near.pid)
    elif part == "agent" and args.agents:
        victims = part_of(processes, "agents")
        victims = rng.sample(victims, min(1, len(victims)))
    elif part == "both agents":
        victims = part_of(processes, "agents")
    elif part == "agent and command":
        victims = part_of(processes, "agent") + part_of(processes, "command")
    elif part == "all but the tidier":
        victims = [near.pid] + children(near.pid) + part_of(processes, "agent")
    else:
        victims = part_of(processes, part)
    phase = "measuring" if trials(runs) else ("setting up" if processes else "connecting")
    if not victims:
        # It is not there yet: the near side is killed instead.
        victims, part = [near.pid], "near"
    kill(victims)
    killed = time.monotonic()
    left = None
    while time.monotonic() - killed < 10:
        ours = far_processes(args.cache / "pgassay/far")
        lying = set() if args.agents else sessions() - before
        clusters = list(scratch.glob("pgassay-*/clusters/*"))
        if args.agents and part == "near":
            clusters = []
        left = [*(f"process {line}" for line in ours.values()), *(f"server {pid}" for pid in servers(scratch)),
                *map(str, lying), *map(str, clusters)]
        if not left and near.poll() is not None:
            break
        time.sleep(0.02)
    seconds = time.monotonic() - killed
    ended = near.poll()
    if ended is None:
        left.append("the near side")
        near.kill()
    said = near.stderr.read().decode(errors="replace")
    near.wait()
    here = trials(runs)
    problems = list(left)
    if here < finished:
        problems.append(f"{finished} trials were finished, {here} are here")
    if "panicked" in said:
        problems.append(said)
    if not (args.keep and problems):
        shutil.rmtree(runs, ignore_errors=True)
        shutil.rmtree(scratch, ignore_errors=True)
    return part, phase, seconds, here, ended, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="target/debug/pgassay")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--place", default=CARRIED)
    parser.add_argument("--cache", type=pathlib.Path, help="XDG_CACHE_HOME of the sessions of an sshd here")
    parser.add_argument("--sshd", action="store_true", help="at ssh://there, an sshd that is started here")
    parser.add_argument("--agents", action="store_true", help="the load comes from there, the server is here")
    parser.add_argument("--with", dest="words", default="", help="further words of the command")
    parser.add_argument("--part", choices=PARTS + ["both agents"], help="kill this only")
    parser.add_argument("--keep", action="store_true", help="leave what a kill that was not clean left")
    parser.add_argument("--longest", type=float, default=9, help="seconds until the latest kill")
    args = parser.parse_args()
    args.cache_given = args.cache is not None
    base = pathlib.Path(tempfile.mkdtemp(prefix="far-kills-", dir="/var/tmp"))
    base.chmod(0o755)
    args.cache = args.cache or base / "cache"
    server = None
    if args.sshd:
        server, os.environ["PGASSAY_SSH"] = sshd(base, args.cache)
        args.place = "ssh://there"
    rng = random.Random(args.seed)
    table = collections.defaultdict(list)
    bad = 0
    print(f"{args.kills} kills at {args.place}, seed {args.seed}")
    try:
        # The copy is made before the first.
        separator = "/" if args.place.startswith("ssh://") else " // "
        environment = dict(os.environ) if args.cache_given else dict(os.environ, XDG_CACHE_HOME=str(args.cache))
        subprocess.run([args.program, "targets", "--on", args.place], env=environment, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for number in range(args.kills):
            parts = PARTS
            if args.agents:
                parts = AGENTS + ["carrier"] * args.place.startswith("ssh://")
            part = args.part or parts[number % len(parts)]
            part, phase, seconds, here, ended, problems = one(args, number, part, rng, base)
            table[part, phase].append((seconds, here, ended, not problems))
            if problems:
                bad += 1
                print(f"kill {number} ({part}, {phase}): {'; '.join(problems)}", file=sys.stderr)
    finally:
        if server:
            server.terminate()
            server.wait()
        if not (args.keep and bad):
            shutil.rmtree(base, ignore_errors=True)
    print(f"{'killed':<22}{'while':<12}{'kills':>6}{'clean':>6}{'all gone after':>20}{'trials kept':>14}  exit codes")
    for (part, phase), rows in sorted(table.items()):
        times = sorted(row[0] for row in rows)
        kept = [row[1] for row in rows]
        codes = sorted({str(row[2]) for row in rows})
        print(f"{part:<22}{phase:<12}{len(rows):>6}{sum(row[3] for row in rows):>6}"
              f"{f'{times[len(times) // 2]:.1f}, at most {times[-1]:.1f} s':>20}"
              f"{f'{min(kept)} to {max(kept)}':>14}  {' '.join(codes)}")
    print(f"{args.kills - bad} of {args.kills} clean")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
