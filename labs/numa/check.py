#!/usr/bin/env python3
"""Holds what pgassay was asked for in the guest against what the guest's kernel recorded.

	labs/numa/check.py target/numa/guests/numa/lab

Prints a table with a row for each server; ends with 1 if one is not where it was asked to
be, or a command ended otherwise than it should.
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

lab = Path(sys.argv[1])
REFUSED = {"no-node", "no-cpus", "node-cpus", "off-cpus"}
# Compared with themselves for moments: no verdict is an honest end.
ENDS = {"policies": {0, 1, 5}, "places": {0, 1, 5}}


def cpus(text):
    """0-3,6 as a set."""
    found = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def short(numbers):
    return ",".join(map(str, sorted(numbers)))


nodes, cores = {}, {}
for line in (lab / "topology").read_text().splitlines():
    where, _, value = line.partition(":")
    if found := re.fullmatch(r"node/node(\d+)/cpulist", where):
        nodes[int(found[1])] = cpus(value)
    elif found := re.fullmatch(r"cpu/cpu(\d+)/topology/thread_siblings_list", where):
        cores[int(found[1])] = frozenset(cpus(value))
everywhere = set(cores)
firsts = {min(core) for core in cores.values()}


class Server:
    """What the kernel said of one: by the directory of its data."""

    def __init__(self):
        self.allowed = set()
        self.ran = set()
        self.policies = set()
        # Pages of shared memory by node, the most that a process had of them.
        self.pages = {}
        # Bytes by node, as PostgreSQL asked the kernel.
        self.bytes = {}


def watched(file):
    """The servers by data directory."""
    servers = defaultdict(Server)
    for sample in re.split(r"^== \d+$", file.read_text(errors="replace"), flags=re.M)[1:]:
        home, allowed, last = {}, {}, {}
        maps = defaultdict(list)
        titles = {}
        for line in sample.splitlines():
            if found := re.match(r"/proc/(\d+)/stat:\d+ \(postgres\) (.*)", line):
                rest = found[2].split()
                last[found[1]] = int(rest[36])
            elif found := re.match(r"/proc/(\d+)/status:Cpus_allowed_list:\s*(\S+)", line):
                allowed[found[1]] = cpus(found[2])
            elif found := re.match(r"/proc/(\d+)/numa_maps:\w+ (\S+) (.*)", line):
                maps[found[1]].append((found[2], found[3]))
            elif found := re.search(r"/proc/(\d+)/cwd -> (\S+)", line):
                home[found[1]] = found[2]
            elif found := re.match(r"/proc/(\d+)/cmdline:(.*)", line):
                titles[found[1]] = found[2]
            elif found := re.match(r"## (\S+) (\S+) (\d+)", line):
                servers[found[1]].bytes[found[2]] = int(found[3])
        for pid, data in home.items():
            # What initdb runs, and what is asked before the start.
            if re.search(r" --(boot|single|check)\b| -C ", titles.get(pid, "")):
                continue
            server = servers[data]
            if pid in allowed:
                server.allowed.add(frozenset(allowed[pid]))
            client = "SELECT" in titles.get(pid, "") or "idle" in titles.get(pid, "")
            if client and pid in last:
                server.ran.add(last[pid])
            for policy, rest in maps.get(pid, []):
                server.policies.add(policy)
                there = {int(n): int(p) for n, p in re.findall(r"\bN(\d+)=(\d+)", rest)}
                if sum(there.values()) > sum(server.pages.values()):
                    server.pages = there
    return servers


def wrong(values, server, most):
    """What of a server is not as its values say."""
    kept = next(iter(server.allowed)) if len(server.allowed) == 1 else None
    if kept is None:
        yield f"its processes have {len(server.allowed)} different sets of CPUs"
        return
    if not server.ran <= kept:
        yield f"ran on {short(server.ran - kept)}"
    expected = set(most)
    numa = values.get("numa")
    if numa and numa.isdigit():
        expected &= nodes[int(numa)]
        far = {n: p for n, p in server.pages.items() if n != int(numa)}
        if far or not server.pages:
            yield f"pages elsewhere: {far}" if far else "no page seen"
        if any(b and n != numa for n, b in server.bytes.items()):
            yield f"bytes elsewhere: {server.bytes}"
        if not any(p.startswith(f"bind:{numa}") for p in server.policies):
            yield f"policy {server.policies}"
    elif numa == "interleave":
        if not any(p.startswith("interleave:0-1") for p in server.policies):
            yield f"policy {server.policies}"
        each = [server.pages.get(node, 0) for node in nodes]
        if min(each) < 0.9 * max(each) or not max(each):
            yield f"not in turn: {each}"
    if values.get("smt") in ("off", "only-first"):
        expected &= firsts
    if count := int(values.get("cpus", 0)):
        if not kept <= expected or len(kept) != count:
            yield f"CPUs {short(kept)}, not {count} of {short(expected)}"
        met = {cores[cpu] for cpu in kept}
        possible = {cores[cpu] for cpu in expected}
        wanted = -(-count // 2) if values.get("smt") == "on" else min(count, len(possible))
        if len(met) != wanted:
            yield f"on {len(met)} cores, not {wanted}"
    elif kept != expected:
        yield f"CPUs {short(kept)}, not {short(expected)}"


bad = 0
rows = []
commands = sorted((lab / "commands").iterdir()) if (lab / "commands").is_dir() else []
if not commands:
    sys.exit("the guest ran no command; its console log says why")
for at in commands:
    name = at.name
    ended = int((at / "exit").read_text()) if (at / "exit").exists() else None
    if name in REFUSED:
        said = (at / "stderr").read_text().strip().replace("\n", " ")
        fine = ended == 2 and not list(at.glob("runs/*/run.json"))
        bad += not fine
        print(f"{name}: exit {ended}{'' if fine else ', not 2'}: {said}")
        continue
    if ended not in ENDS.get(name, {0}):
        bad += 1
        print(f"{name}: exit {ended}: {(at / 'stderr').read_text()[-600:]}")
    servers = watched(at / "watched") if (at / "watched").exists() else {}
    threads = at / "watched.threads"
    seen = threads.read_text().splitlines() if threads.exists() else []
    load = {frozenset(cpus(line.split()[-1])) for line in seen if line.split()[1:]}
    for header in sorted(at.rglob("run.json")):
        run = json.loads(header.read_text())
        experiment = run.get("experiment", run)
        for index, arm in enumerate(experiment["arms"]):
            facts = header.parent / "facts" / f"server-{index}.json"
            settings = json.loads(json.loads(facts.read_text())["settings"]["text"]) if facts.exists() else []
            data = next((s["setting"] for s in settings if s["name"] == "data_directory"), None)
            values = {v["axis"]: v["value"] for v in arm.get("axes", [])}
            server = servers.get(data)
            if server is None:
                rows.append((name, arm["label"], "", "", "", "", "", "not watched"))
                bad += 1
                continue
            most = everywhere
            # A's like is where the first place is.
            if arm["label"] == "A again" and name == "places":
                values = {"numa": "0"}
            if name == "policies":
                values = {"A": {"bind": "0"}, "B": {"numa": "interleave"}}.get(arm["label"], {})
            if name == "pinned":
                most = everywhere - {6, 7}
            faults = list(wrong(values, server, most))
            if values.get("bind") and server.pages.keys() != {int(values["bind"])}:
                faults.append(f"pages {server.pages}")
            # The threads of the load; that which leads them stays free.
            loads = {"smt": {"off": firsts}, "pinned": {"off": {6}, "on": {6, 7}}}.get(name, {})
            if (wanted := loads.get(values.get("smt"))) and frozenset(wanted) not in load:
                faults.append(f"no thread of the load on {short(wanted)}")
            bad += bool(faults)
            rows.append((
                name, arm["label"],
                " / ".join(short(a) for a in server.allowed), short(server.ran),
                " ".join(sorted(server.policies)),
                " ".join(f"N{n}={p}" for n, p in sorted(server.pages.items())),
                " ".join(f"N{n}={b >> 20}MB" for n, b in sorted(server.bytes.items())),
                " / ".join(sorted(short(t) for t in load)),
                "; ".join(faults) or "as asked",
            ))
heads = ("command", "server", "may run on", "sessions ran on", "policy", "pages", "PostgreSQL", "load on", "")
rows = [heads, *[row + ("",) * (len(heads) - len(row)) for row in rows]]
widths = [max(len(row[i]) for row in rows) for i in range(len(heads))]
for row in rows:
    print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
print(f"{bad} not as asked" if bad else "all as asked")
sys.exit(1 if bad else 0)
