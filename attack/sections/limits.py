"""Few files, little memory, no threads, small stacks and files; a thousand clients."""

import os
import shutil
from pathlib import Path

from common import SHORT, left_behind, scratch
from postgres import Server

LIMITS = ([f"--nofile={n}" for n in (4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 64)]
          + [f"--as={n << 20}" for n in (20, 50, 100, 200, 500, 1000)]
          + [f"--stack={n << 10}" for n in (64, 256, 1024)] + [f"--fsize={n}" for n in (0, 100, 10_000, 100_000)]
          + [f"--memlock={n}" for n in (0, 4096)] + ["--cpu=1", "--core=0", "--rss=1000000", "--data=10000000"])

# Memory that can't be had ends a Rust program by SIGABRT, the limits of CPU time and file size by
# their own signals; what must not be is a panic or something left behind.
ALLOWED = (6, 24, 25, 9)


def pids_group(name, limit):
    """A control group that holds so many processes, or None where we may not make one."""
    for base, file in (("/sys/fs/cgroup/pids", "pids.max"), ("/sys/fs/cgroup", "pids.max")):
        group = Path(base, name)
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / file).write_text(str(limit))
            return group
        except OSError:
            group.rmdir()
    return None


def run(section):
    lab, work = section.lab, section.work
    elf, empty = lab.bin / "postgres", work / "empty"
    empty.mkdir()
    with Server(lab, work / "server", settings={"max_connections": 1100}) as server:
        script = work / "s.sql"
        script.write_text("SELECT 1;\n")
        commands = (["inspect", elf, elf, "--json"], ["check", server.target()], ["check", "--host"],
                    ["run", script, server.target(), "--load", *SHORT], ["pgbench", "-n", "-c", "4", "-j", "2", "-t", "10", "-f", script,
                                                                         server.target()],
                    ["report", "last"], ["check", "temp", *scratch(lab)])
        for limit in section.through(LIMITS):
            for words in commands:
                memory = limit.startswith(("--as", "--stack", "--data"))
                section.try_(*words, before=["prlimit", limit, "--"], timeout=60, servers=True,
                             signals=ALLOWED + ((11,) if "stack" in limit else ()),
                             codes=frozenset((0, 1, 2, 3, 4, 5, 6, 130, 127)) if memory else None)
                if server.schema_left():
                    section.lose(f"the schema was left under {limit}", " ".join(map(str, words)))
                    server.psql("DROP SCHEMA pgassay CASCADE")
        left_behind(section, "small limits")
        for shutting in (1, 2, 3, 4, 6, 8, 12, 20):
            group = pids_group(f"pgassay-attack-{os.getpid()}-{shutting}", shutting) if lab.root else None
            if group is None:
                section.note("no control group for processes: its part skipped")
                break
            way = ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$@"', "sh"]
            for words in commands:
                section.try_(*words, before=way, timeout=60, servers=True)
            left_behind(section, f"pids.max {shutting}")
            group.rmdir()
        for clients in section.through((200, 1000)):
            section.try_("pgbench", "-n", "-S", "-i", "-q", server.target(), timeout=60)
            section.try_("pgbench", "-n", "-f", script, "-c", str(clients), "-T", "1", server.target(), timeout=90, peak_mib=256)
            section.try_("run", script, server.target(), "--load", "--clients", str(clients // 2 - 60), "--time", "1", "--trials", "1",
                         "--scale", "1", timeout=90, peak_mib=512, codes={0, 3, 4})
        section.try_("run", script, server.target(), "--load", "--clients", "100000", "--time", "1", "--trials", "1", timeout=60,
                     codes={2, 3, 4})
    shutil.rmtree(empty)
