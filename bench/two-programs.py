#!/usr/bin/env python3
"""CPU of two builds of pgassay as they are released: the load's client, and inspect.

    bench/two-programs.py NEW OLD [PAIRS]       paths of two programs; 9 pairs

Both run `pgbench -n -S -M prepared` against one throw-away server (read-only, scale 5,
Unix socket) with 1, 8 and 64 clients, and `inspect` of that server's executable; in random
order within each pair.  Prints the ratio NEW / OLD of CPU time (user + system of the whole
process, as the kernel counted it) and of its user part, as median [min..max] over the pairs.
BIN is the server's bin directory.
"""

import glob
import os
import pwd
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

LOADS = [(1, 40_000), (8, 8_000), (64, 1_000)]  # clients, transactions of each


def cpu_seconds(command):
    """User and system CPU seconds of a command; it must succeed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"two-programs.py: {' '.join(command)} ended with {process.returncode}")
    return usage.ru_utime, usage.ru_stime


def ratios(programs, arguments, pairs):
    """The text `total 0.99 [0.95..1.02], user 1.00 [0.97..1.03]` of NEW / OLD."""
    total, user = [], []
    for _ in range(pairs):
        cost = {}
        for program in random.sample(programs, len(programs)):
            cost[program] = cpu_seconds([program, *arguments])
        new, old = (cost[program] for program in programs)
        total.append(sum(new) / sum(old))
        user.append(new[0] / old[0])
    return ", ".join(
        f"{name} {statistics.median(of):.2f} [{min(of):.2f}..{max(of):.2f}]"
        for name, of in (("CPU", total), ("user", user))
    )


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    programs = [os.path.abspath(path) for path in sys.argv[1:3]]
    if programs[0] == programs[1]:
        sys.exit("two-programs.py: the two programs must be different files")
    pairs = int(sys.argv[3]) if len(sys.argv) == 4 else 9
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
    server = os.environ.get("BIN") or (found or sys.exit("two-programs.py: no PostgreSQL: set BIN"))[-1]

    # Sockets' paths have at most 107 bytes.
    sockets = tempfile.mkdtemp(prefix="pga-", dir="/tmp")
    work = tempfile.mkdtemp(prefix="pgassay-bench.", dir="/var/tmp")
    account = []
    if os.getuid() == 0:
        owner = pwd.getpwnam("postgres")
        for directory in (sockets, work):
            os.chown(directory, owner.pw_uid, owner.pw_gid)
        account = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]

    def as_server(program, *arguments):
        command = [*account, f"{server}/{program}", "-D", f"{work}/data", *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=work)

    try:
        as_server("initdb", "-A", "trust", "-N", "-U", "postgres")
        settings = f"-k {sockets} -c listen_addresses= -c max_connections=200 -c autovacuum=off"
        as_server("pg_ctl", "-w", "-l", f"{work}/log", "-o", settings, "start")
        target = f"host={sockets} user=postgres dbname=postgres"
        cpu_seconds([programs[0], "pgbench", "-i", "-q", "-s", "5", target])
        for clients, transactions in LOADS:
            load = ["-n", "-S", "-M", "prepared", "-c", str(clients), "-t", str(transactions)]
            print(f"{clients} clients: {ratios(programs, ['pgbench', *load, target], pairs)}", flush=True)
        print(f"inspect: {ratios(programs, ['inspect', f'{server}/postgres'], pairs)}")
    finally:
        stop = [*account, f"{server}/pg_ctl", "-D", f"{work}/data", "-m", "immediate", "stop"]
        subprocess.run(stop, capture_output=True, cwd="/")
        for directory in (sockets, work):
            shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
