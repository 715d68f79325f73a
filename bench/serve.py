#!/usr/bin/python3
"""What `pgassay serve` costs over many runs.

    bench/serve.py PROGRAM RUN [COUNT [SECONDS]]

RUN is the directory of a small real run.  COUNT directories (10,000) are made from it in a temporary directory:
other names, dates, workloads, settings and throughputs; what is the same is linked.  Printed: the time of the first
list when nothing was ever read, of lists and searches later (median and range of 20), the time until all is read,
the first list of a second server that finds what the first has kept, resident memory, and the CPU time of SECONDS
(60) in which nobody asks.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path


def make(run, to, count):
    header = json.loads((run / "run.json").read_text())
    trials = [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]
    draw = random.Random(1)
    for number in range(count):
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(1_700_000_000 + 3600 * number))
        workload = draw.choice(["select-only", "tpcb-like", "simple-update"])
        name = f"{moment}-{workload}-{number % 10_000:04}"
        own = to / name
        own.mkdir()
        for entry in run.iterdir():
            if entry.name in ("events.jsonl", "end.json", "lock"):
                os.link(entry, own / entry.name)
        (own / "facts").mkdir()
        for entry in (run / "facts").iterdir():
            os.link(entry, own / "facts" / entry.name)
        header["id"] = name
        header["started"] = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(1_700_000_000 + 3600 * number))
        for stage in header["experiment"]["stages"]:
            stage["workload"]["name"] = workload
        header["experiment"]["arms"][0]["settings"] = [["work_mem", f"{draw.randint(1, 64)}MB"]]
        (own / "run.json").write_text(json.dumps(header))
        factor = draw.uniform(0.8, 1.2)
        with open(own / "trials.jsonl", "w") as lines:
            for trial in trials:
                lines.write(json.dumps(trial | {"transactions": int(trial["transactions"] * factor)}) + "\n")


class Server:
    def __init__(self, program, runs, cache):
        environment = os.environ | {"XDG_CACHE_HOME": str(cache)}
        self.process = subprocess.Popen(
            [program, "serve", str(runs), "--quiet"], stdout=subprocess.PIPE, text=True, env=environment
        )
        address = self.process.stdout.readline().strip()
        self.base = address.rstrip("/")

    def get(self, path):
        """Seconds, and what came."""
        begun = time.monotonic()
        content = urllib.request.urlopen(self.base + path).read().decode()
        return time.monotonic() - begun, content

    def unread(self):
        found = re.search(r'data-unread="(\d+)"', self.get("/?part=rows")[1])
        return int(found[1]) if found else 0

    def memory(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return {name: int(re.search(rf"{name}:\s+(\d+)", status)[1]) // 1024 for name in ("VmRSS", "VmHWM")}

    def cpu(self):
        """Nanoseconds on a CPU, of all threads that live."""
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


def told(name, seconds):
    ordered = sorted(seconds)
    middle = ordered[len(ordered) // 2]
    print(f"{name}: {1000 * middle:.0f} ms ({1000 * ordered[0]:.0f} to {1000 * ordered[-1]:.0f}, n = {len(ordered)})")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, run = os.path.realpath(sys.argv[1]), Path(sys.argv[2]).resolve()
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
    seconds = float(sys.argv[4]) if len(sys.argv) > 4 else 60
    # Links need one file system.
    home = Path(tempfile.mkdtemp(prefix="pgassay-bench-serve-", dir=run.parent))
    try:
        runs, cache = home / "runs", home / "cache"
        runs.mkdir()
        make(run, runs, count)
        server = Server(program, runs, cache)
        print(f"runs: {count}")
        told("first list, nothing read before", [server.get("/")[0]])
        begun = time.monotonic()
        while unread := server.unread():
            print(f"  {unread} not read yet after {time.monotonic() - begun:.0f} s", flush=True)
            time.sleep(5)
        print(f"all read after {time.monotonic() - begun:.0f} s")
        told("list", [server.get("/")[0] for _ in range(20)])
        told("search", [server.get("/?q=tpcb+work_mem%3D17MB")[0] for _ in range(20)])
        told("last page", [server.get(f"/?from={count - 100}")[0] for _ in range(20)])
        memory = server.memory()
        print(f"resident: {memory['VmRSS']} MiB, at most {memory['VmHWM']} MiB")
        time.sleep(5)
        before, begun = server.cpu(), time.monotonic()
        time.sleep(seconds)
        used, passed = server.cpu() - before, time.monotonic() - begun
        share = used / 1e9 / passed / os.cpu_count()
        print(f"nobody asks: {used / 1e6:.1f} ms of CPU in {passed:.0f} s, {100 * share:.4f} % of {os.cpu_count()} CPUs")
        server.end()
        server = Server(program, runs, cache)
        told("first list of a second server", [server.get("/")[0]])
        server.end()
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
