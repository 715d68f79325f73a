"""Full disks under run directories, clusters and reports; going on after room is made."""

import os
import subprocess

from common import SHORT, left_behind, recorded, scratch
from postgres import Server

ROOT = True


def run(section):
    lab, rng, work = section.lab, section.random, section.work
    if not lab.isolated:
        section.note("skipped: needs namespaces")
        return
    small = work / "small"
    small.mkdir()
    with Server(lab, work / "server") as server:
        good = recorded(section, server)[0]
        sizes = [4, 8, 16, 32, 64, 128, 256, 512] + [rng.randrange(8, 600) for _ in range(6)]
        for kib in section.through(sizes):
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=755", "none", small], check=True)
            try:
                result = section.try_("run", "tpcb-like", server.target(), "--load", *SHORT, "--observe", "all", "--runs", small,
                                      timeout=90, also=lambda _: ["the schema was left"] if server.schema_left() else [])
                section.try_("report", "last", "--runs", small, timeout=30)
                section.try_("runs", "list", "--runs", small, timeout=30)
                if result.code == 4:
                    subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
                    section.try_("run", "--resume", "last", "--load", "--runs", small, timeout=90)
                    section.try_("report", "last", "--runs", small, timeout=30)
            finally:
                subprocess.run(["umount", "-l", small], check=True)
        for kib in section.through((4, 12, 40, 100, 300)):
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k,mode=755", "none", small], check=True)
            try:
                page = small / "page"
                for words in (["report", good, "--format", "html", "--output", page], ["collect", server.target(), "--output", page],
                              ["check", server.target(), "--html", page], ["diagnose", good, "--format", "html", "--output", page]):
                    page.write_text("old")
                    def also(result):
                        text = page.read_bytes()
                        whole = text == b"old" or text.rstrip().endswith((b"</html>", b"}"))
                        return ["a cut report stays"] if not whole else ["exit code 0, and nothing was written"] if (
                            result.code == 0 and text == b"old") else []
                    section.try_(*words, timeout=60, also=also)
                    if strangers := [p.name for p in small.iterdir() if p != page]:
                        section.lose(f"left on a full disk: {strangers}")
                        break
            finally:
                subprocess.run(["umount", "-l", small], check=True)
    image = work / "image"
    for mib in section.through((8, 30, 60, 120)):
        with open(image, "wb") as out:
            out.truncate(mib << 20)
        made = subprocess.run(f"mkfs.ext4 -q {image} && mount -o loop {image} {small}", shell=True, capture_output=True)
        if made.returncode:
            section.note("no loop mounts: its part skipped")
            break
        try:
            os.chmod(small, 0o755)
            section.try_("run", "tpcb-like", "temp", "--time", "1", "--warmup", "0", "--trials", "1", "--scale", "5", "--clients", "2",
                         "--scratch", small, timeout=120, servers=True)
            left = [str(p) for p in small.glob("pgassay-*/clusters/*")]
            if left:
                section.lose(f"left on a full disk: {left}", f"scratch of {mib} MiB")
        finally:
            subprocess.run(["umount", "-l", small], check=True)
    left_behind(section, "full disks")
