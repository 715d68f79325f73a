"""A wall clock that steps by hours and days, or stands in another century."""

import os
import shutil
import struct
import subprocess
import time

from common import SHORT, left_behind, scratch
from lab import PROJECT
from postgres import Server

AT = (0, 3600, -3600, 86_400, -86_400 * 365, 2**31 - time.time(), 2**32 - time.time(), 9_223_372_036 - time.time() - 100,
      -time.time() + 5, -time.time() - 86_400 * 365, 86_400 * 365 * 7_900, 86_400 * 365 * 9_000, -2**40, 2**45)


def run(section):
    lab, work = section.lab, section.work
    compiler, source = shutil.which("cc"), next(PROJECT.glob("crates/**/tests/**/stepped.c"))
    if compiler is None:
        section.note("skipped: no C compiler")
        return
    library, steps = work / "stepped.so", work / "steps"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    library.chmod(0o755)
    steps.write_bytes(struct.pack("<q", 0))
    steps.chmod(0o644)
    env = {"LD_PRELOAD": str(library), "STEPPED_CLOCK": str(steps)}
    runs = ("--runs", work / "runs")

    def step(seconds):
        with open(steps, "r+b") as file:
            file.write(struct.pack("<q", int(seconds)))

    with Server(lab, work / "server") as server:
        for offset in section.through(AT):
            step(offset)
            for words in (["run", "select-only", server.target(), "--load", *SHORT, *runs], ["report", "last", *runs],
                          ["report", "last", "--format", "html", *runs], ["runs", "list", *runs], ["check", server.target()],
                          ["history", work / "runs", *runs], ["collect", "--host"]):
                section.try_(*words, env=env, timeout=60)
        for offset in section.through((3600, -3600, 86_400, -86_400)):
            step(0)
            stepped = []

            def act(process, elapsed):
                if elapsed > 1.5 and not stepped:
                    stepped.append(1)
                    step(offset)
            section.try_("run", "select-only", "temp", "--time", "1", "--trials", "3", "--scale", "1", "--clients", "1", *scratch(lab), *runs,
                         env=env, act=act, timeout=90, servers=True)
    left_behind(section, "a stepping clock")
