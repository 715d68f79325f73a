"""kill -9, TERM, INT and HUP at random moments of every command that launches a server."""

import os
import signal
import subprocess
import time
from pathlib import Path

from common import SHORT, clusters, scratch


def block_devices():
    """What scattered reads change on the host, by device."""
    return {p: p.read_text() for p in Path("/sys/block").glob("*/queue/read_ahead_kb")}


def run(section):
    lab, rng, work = section.lab, section.random, section.work
    runs = work / "runs"
    few = ("--scale", "1", "--clients", "1,2", "--time", "0.5", "--trials", "3", "--threads", "1")
    commands = [["check", "temp"], ["collect", "temp"], ["assay", "temp", "--quick", "--observe", "all"],
                ["run", "tpcb-like", "temp", *few, "--observe", "all"], ["compare", "temp", "temp", "--minutes", "1", "--scale", "1"],
                ["run", "pgio", "temp", "--time", "1"], ["run", "query-loop", "temp", "--time", "0.3", "--trials", "2"]]
    if os.geteuid() == 0:
        commands.append(["run", "scattered-read", "temp", "--size", "64MB", "--read-ahead", "16", "--time", "0.5"])
    settings = block_devices()
    others = (["runs", "list", "--runs", runs], ["report", "last", "--runs", runs], ["report", "last", "--json", "--runs", runs])
    while section.more():
        words, number = rng.choice(commands), rng.choice((9, 9, 9, signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        after = rng.choice((rng.random() * 2, rng.random() * 8, rng.random() * 20))
        sent = []

        def act(process, elapsed):
            if elapsed > after and not sent:
                sent.append(elapsed)
                os.kill(process.pid, number)
        beside = None
        if rng.random() < 0.25:
            # A second one at the same time, whose cluster nobody may sweep.
            beside = subprocess.Popen([lab.program, "run", "select-only", "temp", *SHORT, *map(str, scratch(lab)), "--runs", str(work / "beside")],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=lab.environment(), cwd=work)
            lab.servers.add(beside.pid)
        result = section.try_(*words, *scratch(lab), "--runs", runs, act=act, timeout=60, servers=True, signals=(9,),
                              also=lambda result: [f"ended only {result.seconds - sent[0]:.0f} s after signal {number}"]
                              if sent and result.seconds - sent[0] > 15 * lab.patience() else [])
        if beside:
            _, said = beside.communicate(timeout=120)
            lab.servers.discard(beside.pid)
            section.survived() if beside.returncode in (0, 4) else section.lose(
                f"a second one beside it ended with {beside.returncode}: {said.decode(errors='replace')[-300:]}", " ".join(words))
        strays = lab.strays_after()
        if strays:
            section.lose(f"signal {number} after {after:.1f} s: processes left: {sorted({n for _, n in strays})}", " ".join(words), result=result)
        if result.by_signal != 9 and clusters(lab):
            section.lose(f"signal {number} after {after:.1f} s: directories left {[str(p) for p in clusters(lab)]}", " ".join(words),
                         result=result)
        if result.by_signal == 9:
            section.try_("check", "temp", *scratch(lab), timeout=60, servers=True, codes={0, 4},
                         also=lambda _: [f"after kill -9 of {' '.join(words[:2])} at {after:.1f} s and another run is left: "
                                         f"{sorted(str(p) for p in clusters(lab))}"] if clusters(lab) else [])
            if block_devices() != settings:
                section.lose("kill -9 and another run leave read_ahead_kb changed", " ".join(words))
        for path, value in settings.items():
            if path.exists() and path.read_text() != value:
                path.write_text(value)
        if runs.is_dir() and any(runs.iterdir()):
            for command in others:
                section.try_(*command, timeout=30)
            newest = max(runs.iterdir(), key=lambda p: p.name)
            if words[0] in ("run", "assay") and rng.random() < 0.3:
                section.try_(words[0], "--resume", newest, *scratch(lab), "--runs", runs, timeout=120, servers=True)
    # Every directory of a run can be listed and removed.
    if runs.is_dir():
        for path in sorted(runs.iterdir()):
            section.try_("runs", "remove", path.name, "--runs", runs,
                         also=lambda _: ["a run's directory can't be removed"] if path.exists() else [])
