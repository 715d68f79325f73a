"""Outputs to devices, FIFOs, links, full and closed places."""

import os
import pty
import shutil
import stat
import subprocess
import threading

from common import recorded
from postgres import Server

ROOT = False


def run(section):
    lab, work = section.lab, section.work
    with Server(lab, work / "server") as server:
        good = recorded(section, server)[0]
    runs = ("--runs", good.parent)
    commands = {
        "collect": lambda path: ["collect", "--host", "--output", path],
        "check": lambda path: ["check", "--host", "--html", path],
        "report": lambda path: ["report", good, "--format", "html", "--output", path, *runs],
        "diagnose": lambda path: ["diagnose", good, "--format", "html", "--output", path, *runs],
        "history": lambda path: ["history", good, good, "--format", "html", "--output", path, *runs],
    }
    for name, words in commands.items():
        place = work / name
        place.mkdir()
        file, near, link, away = (place / x for x in ("notes.html", "notes.tmp", "link", "elsewhere"))
        near.write_text("precious")
        section.try_(*words(file), timeout=60, also=lambda _: [] if near.exists() and near.read_text() == "precious" else ["notes.tmp was changed"])
        away.write_text("old")
        link.symlink_to(away)
        section.try_(*words(link), timeout=60, also=lambda _: [] if link.is_symlink() and away.exists() and away.read_text() != "old" else
                     ["the link was replaced or not followed"])
        dangling = place / "dangling"
        dangling.symlink_to(place / "not/there")
        section.try_(*words(dangling), timeout=60, also=lambda _: [] if dangling.is_symlink() else ["the link was replaced"])
        loop = place / "loop"
        loop.symlink_to(loop)
        section.try_(*words(loop), timeout=60, codes={2, 3})
        for path in (place, place / "not/there/at/all", "", "/proc/self/nothing", "/proc/1/mem"):
            section.try_(*words(path), timeout=60, codes={2, 3, 4})
        fifo = place / "fifo"
        os.mkfifo(fifo)
        got = []
        reader = threading.Thread(target=lambda: got.append(open(fifo, "rb").read()), daemon=True)
        reader.start()
        section.try_(*words(fifo), timeout=60, also=lambda _: [] if stat.S_ISFIFO(fifo.lstat().st_mode) else ["the FIFO was replaced"])
        reader.join(5)
        if not got or not got[0]:
            section.lose(f"{name}: the FIFO's reader got nothing")
        if lab.root:
            for minor, device in ((3, "null"), (7, "full")):
                copy = place / device
                os.mknod(copy, stat.S_IFCHR | 0o666, os.makedev(1, minor))
                section.try_(*words(copy), timeout=60, codes={0} if device == "null" else {2, 3, 4},
                             also=lambda _: [] if stat.S_ISCHR(copy.lstat().st_mode) else ["the device was replaced"])
            image = place / "block"
            os.mknod(image, stat.S_IFBLK | 0o600, os.makedev(7, 199))
            section.try_(*words(image), timeout=60, codes={2, 3, 4},
                         also=lambda _: [] if stat.S_ISBLK(image.lstat().st_mode) else ["the device was replaced"])
        section.try_(*words("/dev/stdout"), timeout=60, also=lambda _: [] if os.path.exists("/dev/stdout") and
                     not stat.S_ISREG(os.lstat("/dev/stdout").st_mode) else ["/dev/stdout is a regular file"])
        strangers = [p.name for p in place.iterdir() if p.name not in
                     {"notes.html", "notes.tmp", "link", "elsewhere", "dangling", "loop", "fifo", "null", "full", "block"}]
        if strangers:
            section.lose(f"{name} left files: {strangers}")
    # What is printed goes nowhere.
    printed = (["report", good, *runs], ["report", good, "--json", *runs], ["check", "--host"], ["check", "--list"],
               ["inspect", lab.bin / "postgres", "--json", "--addresses"], ["runs", "list", *runs], ["targets"],
               ["completions", "bash"], ["man"], ["--help"], ["fit", good, *runs], ["diagnose", good, *runs])
    for words in printed:
        with open("/dev/full", "wb") as full:
            section.try_(*words, stdout=full, timeout=60, codes={2, 3, 4})
            section.try_(*words, stdout=full, stderr=full, timeout=60, mute=True)
        reading, writing = os.pipe()
        os.close(reading)
        section.try_(*words, stdout=writing, timeout=60, codes={0, 1})
        section.try_(*words, stdout=writing, stderr=writing, timeout=60, mute=True)
        os.close(writing)
        section.try_(*words, before=["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh"], timeout=60, mute=True)
        master, slave = pty.openpty()
        os.close(master)
        section.try_(*words, stdout=slave, stderr=slave, stdin=slave, timeout=60, mute=True)
        os.close(slave)
    if shutil.which("script"):
        done = subprocess.run([lab.program, "completions", "nothing"], capture_output=True, env=lab.environment())
        section.survived() if done.returncode == 2 else section.lose("completions of no shell")
