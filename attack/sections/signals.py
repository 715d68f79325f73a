"""INT, TERM, HUP once and twice, STOP and CONT, nohup; servers killed, frozen, without data."""

import os
import shutil
import signal
import socket
import time
from pathlib import Path

from common import SHORT, clusters, left_behind, scratch
from postgres import Server


def once(number, after, count=1, gap=0.2):
    """Sends a signal after a while, `count` times."""
    sent = []

    def act(process, elapsed):
        if len(sent) < count and elapsed > after + gap * len(sent):
            sent.append(elapsed)
            os.kill(process.pid, number)
    act.sent = sent
    return act


def run(section):
    lab, rng, work = section.lab, section.random, section.work
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    silent = f"host=127.0.0.1 port={listener.getsockname()[1]} user=u dbname=d"
    fifo = work / "fifo"
    (work / "runs/odd").mkdir(parents=True)
    os.mkfifo(work / "runs/odd/run.json")
    os.mkfifo(fifo)
    long = ["run", "select-only", "temp", "--time", "2", "--trials", "8", "--scale", "1", "--clients", "2", *scratch(lab)]
    with Server(lab, work / "server") as server:
        guest = ["run", "tpcb-like", server.target(), "--load", "--time", "2", "--trials", "8", "--scale", "2", "--clients", "2"]
        waiting = (["check", silent], ["assay", silent], ["inspect", silent], ["pgbench", silent], ["collect", silent],
                   ["runs", "list", "--runs", work / "runs"], ["report", work / "runs/odd"], ["check", fifo], ["diagnose", "--perf", fifo],
                   ["inspect", fifo], ["run", "--file", fifo, "temp"], ["assay", "temp", *scratch(lab)], long, guest,
                   ["compare", "temp", "temp", "--minutes", "1", *scratch(lab)], ["run", "pgio", "temp", *scratch(lab)])
        for words in section.through(waiting):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                act = once(number, rng.choice((0.3, 0.8, 2.0, 4.0)))
                section.try_(*words, act=act, timeout=40, servers=True,
                             also=lambda result: [f"ended only {result.seconds - act.sent[0]:.0f} s after {number.name}"]
                             if act.sent and result.seconds - act.sent[0] > 12 * lab.patience() else [])
                if server.schema_left():
                    section.lose(f"the schema was left by {number.name}", " ".join(map(str, words)))
                    server.psql("DROP SCHEMA pgassay CASCADE")
            left_behind(section, " ".join(map(str, words)))
        for words in section.through((long, guest, ["pgbench", "-n", "-S", "-T", "20", server.target()])):
            section.try_(*words, act=once(signal.SIGINT, 2.5, count=2, gap=rng.random() * 0.3), timeout=40, servers=True, signals=(2,))
            section.try_("run", "select-only", server.target(), "--load", *SHORT, timeout=60, codes={0},
                         also=lambda _: ["the schema was left"] if server.schema_left() else [])
            act = once(signal.SIGSTOP, 2.0)
            def stop_and_go(process, elapsed):
                act(process, elapsed)
                if elapsed > 4:
                    os.kill(process.pid, signal.SIGCONT)
                if elapsed > 6:
                    once(signal.SIGINT, 0)(process, elapsed)
            section.try_(*words, act=stop_and_go, timeout=60, servers=True, signals=(2,))
    listener.close()
    # Ignored by who started us: it goes on to its end.
    for number, name in ((signal.SIGHUP, "HUP"), (signal.SIGINT, "INT")):
        way = ["sh", "-c", f"trap '' {name}; exec \"$@\"", "sh"]
        section.try_("run", "select-only", "temp", *SHORT, *scratch(lab), before=way, act=once(number, 2.5), timeout=60, servers=True,
                     codes={0})
    # The server that was launched is killed, frozen, or loses its files.
    def strike(how):
        struck = []

        def act(process, elapsed):
            if elapsed < 4 or struck:
                return
            for place in clusters(lab):
                pidfile = place / "data/postmaster.pid"
                if not pidfile.exists():
                    continue
                struck.append(place)
                pid = int(pidfile.read_text().split()[0])
                if how == "killed":
                    os.kill(pid, signal.SIGKILL)
                elif how == "frozen":
                    for child, (parent, _, _) in lab.tree().items():
                        if pid in (child, parent):
                            os.kill(child, signal.SIGSTOP)
                elif how == "without files":
                    shutil.rmtree(place / "data/base", ignore_errors=True)
                else:
                    shutil.rmtree(place, ignore_errors=True)
        return act
    for how in section.through(("killed", "frozen", "without files", "without anything")):
        section.try_(*long, act=strike(how), timeout=120, servers=True, codes={0, 3, 4})
        left_behind(section, f"the server {how}")
