"""System calls refused, file systems read-only or noexec, no /proc: what can't be had is named."""

import json
import sys
from pathlib import Path

from common import SHORT, left_behind, scratch
from lab import PROJECT

FORBID = PROJECT / "attack/forbid.py"
# One client of each; a second of everything would add nothing.
LOAD = ("run", "select-only", "temp", *SHORT, "--observe", "all")
INSIDE = ("run", "spinlock", "temp", "--time", "0.2", "--trials", "1", "--clients", "1")
LINES = ("lines", "temp", "-n", "1")


def run(section):
    lab = section.lab
    here = ["--runs", section.work / "runs", *scratch(lab)]

    def says(*words):
        """A complaint unless the command's words have these."""
        def also(result):
            said = (result.out + result.err).decode(errors="replace")
            text = " ".join(said.split())
            return [f"does not say {word!r}" for word in words if word not in text]
        return also

    def judged(**states):
        """A complaint unless the doctor finds these parts in one of these states."""
        def also(result):
            try:
                found = {part["id"]: part["state"] for part in json.loads(result.out)["findings"]}
            except (ValueError, KeyError) as error:
                return [f"no document: {error}"]
            return [f"{part} is said to be {found.get(part)}" for part, good in states.items() if found.get(part) not in good]
        return also

    lacking = ("limited", "optional", "unknown", "broken")
    for error in section.through(("EPERM", "ENOSYS")):
        def before(call):
            return [sys.executable, FORBID, error, call]
        section.try_("doctor", "--json", before=before("perf_event_open,ptrace,io_uring_setup"), codes={0}, timeout=60,
                     also=judged(perf=lacking, ptrace=lacking, io_uring=lacking))
        section.try_(*LOAD, *here, before=before("perf_event_open,io_uring_setup"), codes={0, 4}, servers=True, timeout=120,
                     also=says("CPU samples: none were taken", "perf_event_open"))
        section.try_(*LINES, before=before("ptrace"), codes={3}, servers=True, timeout=120, also=says("help:", "ptrace"))
        left_behind(section, f"calls refused with {error}")
    if not lab.isolated:
        section.note("mounts skipped: they need namespaces")
        return

    def mounted(steps):
        """Runs the command in a mount namespace in which these steps were taken."""
        return ["unshare", "--mount", "sh", "-c", f'{steps} && exec "$@"', "sh"]

    home = section.work / "home"
    home.mkdir()
    still = mounted(f"mount --bind {home} {home} && mount -o remount,bind,ro {home}")
    own = {"HOME": str(home), "PGASSAY_RUNS": None, "XDG_STATE_HOME": None, "XDG_CACHE_HOME": None}
    for words, codes, wanted in (
            # What is broken is in the document, not on standard error.
            (("doctor", "--json"), {3}, judged(runs=("broken",))),
            (("inspect", "temp"), {0}, says("PostgreSQL")),
            (("check", "temp"), {0}, says("checks passed")),
            (("run", "select-only", "temp", *SHORT), {2}, says("Read-only file system", "--runs")),
            (("run", "select-only", "temp", *SHORT, "--runs", section.work / "runs"), {0, 4}, says("tps")),
            (("runs",), {0}, says("no run is recorded"))):
        more = scratch(lab) if "temp" in words and words[0] != "inspect" else ()
        section.try_(*words, *more, env=own, before=still, codes=codes, servers=True, timeout=120, also=wanted, mute=words[0] == "doctor")
    left_behind(section, "a HOME that is read-only")

    # The program and its run directory stay where they are; only what it may put its files into is noexec.
    place = section.work / "noexec"
    place.mkdir()
    place.chmod(0o1777)
    noexec = mounted(f"mount -t tmpfs -o noexec,mode=1777 none /tmp && mount --bind {place} {place} && mount -o remount,bind,noexec {place}")
    there = ["--runs", section.work / "runs", "--scratch", place]
    section.try_(*LOAD, *there, before=noexec, codes={0, 4}, servers=True, timeout=120, also=says("tps"))
    section.try_(*INSIDE, *there, before=noexec, codes={3}, servers=True, timeout=180, also=says("noexec", "--scratch"))
    if left := [str(path) for path in place.glob("pgassay-*/clusters/*")]:
        section.lose(f"left behind: {left}", "noexec")

    # With what the server needs of it: nothing.
    bare = mounted("mount -t tmpfs none /proc")
    for words, codes, wanted in (
            (("doctor", "--json"), {0}, judged(proc=("limited",))),
            (("inspect", lab.bin / "postgres"), {0}, says("PostgreSQL")),
            (("check", "temp", *scratch(lab)), {0, 4}, says("not evaluated")),
            ((*LOAD, *here), {0, 4}, says("What could not be seen", "/proc/")),
            ((*INSIDE, *here), {0, 4}, says("spinlock")),
            ((*LINES, *scratch(lab)), {3}, says("/proc"))):
        section.try_(*words, before=bare, codes=codes, servers=True, timeout=180, also=wanted)
    left_behind(section, "no /proc")
    if Path("/sys/kernel").exists():
        section.try_(*LOAD, *here, before=mounted("mount -t tmpfs none /sys"), codes={0, 4}, servers=True, timeout=120, also=says("tps"))
