#!/usr/bin/env python3
"""A fleet made of recorded facts, with planted findings and planted odd hosts, read by pgassay fleet.

    bench/fleet.py PROGRAM DIR [HOSTS] [SEED]

writes HOSTS (1000) files of collected facts to DIR, varied from those in crates/results/analysis/tests/check/recorded
and from FILEs named in $FACTS, among files that are no host's. Each planted finding, odd value, older
collection and bad file has to be found, with its hosts, and nothing else. Prints wall time and the most
resident memory. Ends with 1 if anything differs.
"""

import json
import os
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

RECORDED = Path(__file__).parent.parent / "crates/results/analysis/tests/check/recorded"

# Entries of the catalogue that the recorded servers pass, and the settings that make them findings.
FINDINGS = {
    "fsync-off": ("fsync", "off"),
    "autovacuum-off": ("autovacuum", "off"),
    "full-page-writes-off": ("full_page_writes", "off"),
}
# Traits, and how few hosts of a kind get them.
ODD_SETTINGS = [("random_page_cost", "1.37"), ("vacuum_cost_limit", "417"), ("deadlock_timeout", "1777")]
ODD_TEXTS = [
    ("kernel", "/proc/sys/kernel/osrelease", "5.4.0-17-planted"),
    ("vm.swappiness", "/proc/sys/vm/swappiness", "93"),
    ("clock source", "/sys/devices/system/clocksource/clocksource0/current_clocksource", "planted_clock"),
]


def base_facts():
    files = sorted(RECORDED.glob("*.json")) + [Path(f) for f in os.environ.get("FACTS", "").split()]
    return [json.loads(file.read_text()) for file in files]


def setting(facts, name, value):
    rows = json.loads(facts["server"]["settings"]["text"])
    for row in rows:
        if row["name"] == name:
            row["setting"], row["source"] = value, "configuration file"
    facts["server"]["settings"]["text"] = json.dumps(rows)


def text(facts, source, value):
    facts["host"][source] = {"text": value}


def made(rng, base, name, when):
    """One host of its base's kind: what differs by nature differs, all else is as recorded."""
    facts = json.loads(json.dumps(base))
    facts["collected"] = when
    facts["target"] = f"host=/var/run/postgresql dbname={name}"
    facts["origin"] = {"kind": "running"}
    text(facts, "identity of the machine", f"{rng.getrandbits(128):032x}")
    text(facts, "/proc/uptime", f"{rng.uniform(1e3, 1e7):.2f} {rng.uniform(1e3, 1e7):.2f}")
    text(facts, "/proc/loadavg", f"{rng.uniform(0, 9):.2f} 0.50 0.40 1/300 {rng.randrange(9999)}")
    setting(facts, "data_directory", f"/srv/{name}")
    setting(facts, "cluster_name", name)
    # In two values of many hosts each: nobody's is odd.
    setting(facts, "work_mem", rng.choice(["4096", "65536"]))
    return facts


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, place = sys.argv[1], Path(sys.argv[2])
    hosts = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    rng = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
    place.mkdir(parents=True)
    bases = base_facts()
    names = [f"{rng.choice(['eu', 'us', 'ap'])}-db{n:04}" for n in range(hosts)]
    of = {name: n % len(bases) for n, name in enumerate(names)}
    kinds = {n: [name for name in names if of[name] == n] for n in range(len(bases))}

    # A finding on a tenth of each kind would be an odd value, too: planted on a fifth it divides.
    findings = {id: set() for id in FINDINGS}
    for id in FINDINGS:
        for kind in kinds.values():
            findings[id] |= set(rng.sample(kind, max(1, len(kind) // 5)))
    odd = {}
    for trait, _ in ODD_SETTINGS + [(trait, value) for trait, _, value in ODD_TEXTS]:
        kind = kinds[rng.randrange(len(bases))]
        odd[trait] = set(rng.sample(kind, max(1, len(kind) // 50)))

    written = 0
    for n, name in enumerate(names):
        facts = made(rng, bases[of[name]], name, f"2026-11-{1 + n % 20:02}T03:00:00.000Z")
        for id, (option, value) in FINDINGS.items():
            if name in findings[id]:
                setting(facts, option, value)
        for option, value in ODD_SETTINGS:
            if name in odd[option]:
                setting(facts, option, value)
        for trait, source, value in ODD_TEXTS:
            if name in odd[trait]:
                text(facts, source, value)
        if n % 10:  # as collect writes them; the others as programs that order keys
            facts = {"schema": facts.pop("schema"), **facts}
        document = json.dumps(facts, indent=2)
        written += len(document)
        (place / f"{name}.json").write_text(document)
        if n < 9:  # an older collection of the same host, under another name
            facts["collected"] = "2026-10-01T03:00:00.000Z"
            setting(facts, "fsync", "off")
            (place / "older").mkdir(exist_ok=True)
            (place / "older" / f"once-{n}.json").write_text(json.dumps(facts))
    left_out = bad_files(place, names)

    begin = time.monotonic()
    run = subprocess.run([program, "fleet", str(place), "--json"], capture_output=True)
    seconds = time.monotonic() - begin
    rss = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    wrong = []

    def expect(what, seen, wanted):
        if seen != wanted:
            wrong.append(f"{what}: {seen!r}, not {wanted!r}")

    expect("exit code", run.returncode, 4)
    if not run.stdout:
        sys.exit(run.stderr.decode())
    if b"\x1b" in run.stdout or b"\x1b" in run.stderr:
        wrong.append("an escape reached the terminal")
    fleet = json.loads(run.stdout)
    expect("hosts", len(fleet["hosts"]), hosts)
    expect("superseded", len(fleet["superseded"]), min(9, hosts))
    expect("left out", dict(fleet["left_out_counts"]), left_out)
    found = {finding["id"]: set(finding["on"]) for finding in fleet["findings"]}
    for id, on in findings.items():
        expect(id, found.get(id), on)
    seen = {}
    for kind in fleet["kinds"]:
        for value in kind["odd"]:
            seen.setdefault(value["name"], set()).update(value["on"])
    # What goes with a planted value is the value's.
    expect("odd values", seen, odd)
    planted = sum(map(len, findings.values())), sum(map(len, odd.values()))
    print(
        f"{hosts} hosts of {len(bases)} recorded ones, {written / 1e6:.0f} MB: {seconds:.2f} s, {rss:.0f} MB resident"
    )
    print(
        f"planted and found: {planted[0]} findings, {planted[1]} odd values, {min(9, hosts)} older collections,"
        f" {sum(left_out.values())} files of others"
    )
    for line in wrong:
        print("WRONG", line[:2000])
    sys.exit(bool(wrong))


def bad_files(place, names):
    """Files of others, and how many there are of each kind."""
    whole = (place / f"{names[1]}.json").read_text()
    for n, share in enumerate([0.001, 0.3, 0.999]):
        (place / f"cut-{n}.json").write_text(whole[: int(len(whole) * share)])
    (place / "empty.json").write_text("")
    (place / "garbage.json").write_bytes(os.urandom(4096))
    for n in range(2):
        newer = whole.replace("pgassay/facts/1", "pgassay/facts/9")
        (place / f"newer-{n}.json").write_text(newer)
    (place / "README.md").write_text("hello")
    (place / "other.json").write_text('{"schema": "pgassay/check/1"}')
    (place / "deep.json").write_text("[" * 200_000)
    (place / "\x1b[31m\n..\u202ejson.json").write_text(whole[:5000])
    (place / "link.json").symlink_to(place / f"{names[0]}.json")
    (place / "away").symlink_to("/etc")
    os.mkfifo(place / "fifo.json")
    with (place / "huge.json").open("w") as huge:
        huge.write(whole[:300])
        huge.truncate(200 << 20)
    (place / "packed.json.gz").write_bytes(b"\x1f\x8b")
    return {"foreign": 2, "damaged": 7, "newer": 2, "no-file": 3, "too-large": 1, "unreadable": 1}


main()
