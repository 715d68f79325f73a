"""Passwords in the process list, in messages and in what is written."""

import os
import re
import signal
import socket
import threading
import time
from pathlib import Path

from common import SHORT, left_behind, scratch
from postgres import Server

SECRET = "Geh3imW0rt"

SPELLINGS = ("postgres://u:{s}@127.0.0.1:{p}/d", "postgresql://u:{s}@127.0.0.1:{p}/d?sslmode=disable",
             "host=127.0.0.1 port={p} user=u dbname=d password={s}", "password='{s}' host=127.0.0.1 port={p} user=u",
             "postgres://127.0.0.1:{p}/d?user=u&password={s}", "host=127.0.0.1 port={p} user=u password = {s}",
             "postgresql://u:{s}@127.0.0.1:{p},127.0.0.1:{p}/d")

COMMANDS = (["check", "{t}"], ["collect", "{t}"], ["inspect", "{t}"], ["assay", "{t}"], ["assay", "{t}", "--load"],
            ["run", "select-only", "{t}", "--load"], ["compare", "{t}", "{t}", "--load"], ["compare", "temp", "{t}", "--load"],
            ["run", "query-loop", "{t}"], ["pgbench", "{t}"], ["pgbench", "-d", "{t}"], ["pgbench", "-d{t}"],
            ["pgbench", "--dbname={t}"], ["pgbench", "-i", "{t}"], ["run", "pgio", "{t}", "--load"], ["check", "--json", "--", "{t}"],
            ["diagnose", "{t}"], ["report", "{t}"], ["runs", "show", "{t}"], ["fit", "{t}"], ["history", "{t}"], ["build", "{t}"])

MISTAKES = ("postgress://u:{s}@h/d", "postgresql:/u:{s}@h/d", "u:{s}@h", "postgres:u:{s}@h", "Postgres://u:{s}@h", "pg://u:{s}@h:1/d",
            "postgres://u:{s}@h:port/d", "postgres://u:{s}@h:99999/d", "postgres://u:{s}@[::1/d", "postgres://u:{s}@h/d?x=y",
            "postgres://u:{s}@h/d?sslmode=what", "host=h password={s} x=y", "host=h password='{s}", "host=h password={s} port=x",
            "host=h password={s} sslmode=no", "host=h password={s} =", "host=h,password={s}", "password={s}", "password={s} password",
            "postgres://u:{s}%@h/d", "postgres://u:{s}%zz@h/d", "postgres://u:{s}@", "postgres://:{s}@h", "postgres://u:{s}@h:1:2/d",
            "host=/nonexistent password={s}", "service=nothing password={s}", "postgres://u:{s}@/d?host=/nonexistent",
            "hostaddr=300.1.1.1 password={s}", "host=h passwd={s}", "postgres//u:{s}@h/d", "https://u:{s}@h/d", "jdbc:postgresql://u:{s}@h/d")


def seen_in(pid):
    for name in ("cmdline", "comm"):
        try:
            if SECRET.encode() in Path("/proc", str(pid), name).read_bytes():
                return True
        except OSError:
            pass
    return False


def has_begun(pid):
    """Whether the program watches for SIGINT, which it does right after it has hidden passwords."""
    try:
        caught = re.search(r"SigCgt:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return False
    return caught is not None and int(caught.group(1), 16) >> (signal.SIGINT - 1) & 1 == 1


def run(section):
    lab, work = section.lab, section.work
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    port = listener.getsockname()[1]
    held = []

    def accept():
        try:
            while True:
                held.append(listener.accept())
        except OSError:
            pass
    threading.Thread(target=accept, daemon=True).start()
    for command in section.through(COMMANDS):
        for spelling in SPELLINGS:
            if not section.more():
                break
            target = spelling.format(s=SECRET, p=port)
            shown, asked = [], []
            # The system shows a program's arguments before its first instruction.
            def look(process, elapsed):
                if not shown and has_begun(process.pid):
                    for pid, (parent, _, _) in ([(process.pid, (0, 0, 0))] + [x for x in lab.tree().items() if x[1][0] == process.pid]):
                        if seen_in(pid):
                            shown.append(pid)
                # One signal: a second would end it before it has cleaned up.
                if not asked and has_begun(process.pid) and elapsed > (2.5 if "temp" in command else 0.5):
                    asked.append(elapsed)
                    os.kill(process.pid, signal.SIGINT)
            words = [word.format(t=target) for word in command]
            section.try_(*words, *(scratch(lab) if "temp" in command else ()), act=look, timeout=20, secrets=[SECRET], servers=True,
                         codes=None, also=lambda _: ["the password is in the process list"] if shown else [])
    left_behind(section, "interrupted comparisons")
    for mistake in section.through(MISTAKES):
        target = mistake.format(s=SECRET)
        for command in COMMANDS:
            if not section.more() or "temp" in command:
                continue
            section.try_(*(word.format(t=target) for word in command), secrets=[SECRET], timeout=20, env={"PGCONNECT_TIMEOUT": "2"},
                         act=lambda process, elapsed: os.kill(process.pid, 2) if elapsed > 4 else None)
    hba = "local all boss trust\nlocal all all scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256\n"
    with Server(lab, work / "server", hba=hba) as server:
        server.psql(f"CREATE ROLE u LOGIN SUPERUSER PASSWORD '{SECRET}'")
        target = f"postgres://u:{SECRET}@127.0.0.1:{server.port}/postgres"
        runs, passfile = work / "runs", work / "pgpass"
        passfile.write_text(f"*:*:*:*:{SECRET}\n")
        passfile.chmod(0o600)
        env = {"PGPASSWORD": SECRET}
        for words in (["run", "tpcb-like", target, "--load", *SHORT, "--observe", "all"], ["check", target], ["check", target, "--json", "--all"],
                      ["collect", target, "--output", work / "facts"], ["report", "last", "--json"], ["report", "last", "--format", "html"],
                      ["diagnose", "last"], ["runs", "show", "last"], ["check", server.tcp(user="u")], ["inspect", target],
                      ["check", target.replace(SECRET, SECRET + "x")], ["check", target.replace("/postgres", "/nothing")],
                      ["pgbench", "-n", "-S", "-t", "1", target], ["run", "--repeat", "last", "--load"]):
            section.try_(*words, "--runs", runs, secrets=[SECRET], env=env, timeout=60) if words[0] != "pgbench" else \
                section.try_(*words, secrets=[SECRET], env=env, timeout=60)
        section.try_("check", server.tcp(user="u"), secrets=[SECRET], env={"PGPASSFILE": str(passfile)}, codes={0}, timeout=60)
    for path in [*runs.rglob("*"), work / "facts", *(lab.scratch / "home").rglob("*")]:
        if path.is_file():
            section.survived() if SECRET.encode() not in path.read_bytes() else section.lose(f"the password is in {path.name}", keep=[path])
    listener.close()
