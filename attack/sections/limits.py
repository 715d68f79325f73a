"""Few files, little memory, no threads, small stacks and files; thousands of clients."""

import os
import shutil
import time
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


def group(name, controller, limit):
    """A control group with this limit on "pids" or "memory", or None where we may not make one."""
    file = {"pids": "pids.max", "memory": "memory.limit_in_bytes"}[controller]
    for base, file in ((f"/sys/fs/cgroup/{controller}", file), ("/sys/fs/cgroup", f"{controller}.max")):
        place = Path(base, name)
        try:
            place.mkdir()
        except OSError:
            continue
        try:
            (place / file).write_text(str(limit))
            return place
        except OSError:
            place.rmdir()
    return None


def remove(place):
    """Once its last process is gone."""
    for _ in range(100):
        try:
            place.rmdir()
            return
        except OSError:
            time.sleep(0.1)


def run(section):
    lab, work = section.lab, section.work
    elf, empty = lab.bin / "postgres", work / "empty"
    empty.mkdir()
    with Server(lab, work / "server", settings={"max_connections": 2600}) as server:
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
        for controller, sizes in (("pids", (1, 2, 3, 4, 6, 8, 12, 20)), ("memory", [n << 20 for n in (4, 8, 16, 32, 64, 128, 256)])):
            for size in section.through(sizes):
                place = group(f"pgassay-attack-{os.getpid()}-{size}", controller, size) if lab.root else None
                if place is None:
                    section.note(f"no control group for {controller}: its part skipped")
                    break
                way = ["sh", "-c", f'echo $$ >{place}/cgroup.procs && exec "$@"', "sh"]
                for words in commands:
                    # The kernel ends whom it chooses of those who share too little memory.
                    section.try_(*words, before=way, timeout=60, servers=True, signals=(9,) if controller == "memory" else ())
                if controller == "memory":
                    lab.strays_after()
                    section.try_("run", script, server.target(), "--load", *SHORT, timeout=60, codes={0},
                                 also=lambda _: ["the schema was left"] if server.schema_left() else [])
                    section.try_("check", "temp", *scratch(lab), timeout=60, servers=True)
                left_behind(section, f"{controller}.max {size}")
                remove(place)
        many = ["prlimit", "--nofile=10000", "--"]
        for clients in section.through((200, 1000, 2500)):
            section.try_("pgbench", "-n", "-S", "-i", "-q", server.target(), timeout=60)
            section.try_("pgbench", "-n", "-f", script, "-c", str(clients), "-T", "1", server.target(), before=many, timeout=90, peak_mib=256)
            section.try_("run", script, server.target(), "--load", "--clients", str(clients // 2 - 60), "--time", "1", "--trials", "1",
                         "--scale", "1", before=many, timeout=90, peak_mib=512, codes={0, 3, 4})
        section.try_("run", script, server.target(), "--load", "--clients", "100000", "--time", "1", "--trials", "1", timeout=60,
                     codes={2, 3, 4})
    shutil.rmtree(empty)
