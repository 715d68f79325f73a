"""Damaged facts to check, damaged perf texts to diagnose."""

from lab import PROJECT
from mutate import damage_json, damage_text
from postgres import Server


def run(section):
    lab, rng, work = section.lab, section.random, section.work
    with Server(lab, work / "server") as server:
        facts = work / "good.json"
        section.try_("collect", server.target(), "--output", facts, timeout=60)
    originals = [facts.read_bytes()]
    originals += [p.read_bytes() for p in sorted((PROJECT / "crates/results/analysis/tests/check/recorded").glob("*.json"))]
    profiles = [p.read_bytes() for p in sorted((PROJECT / "crates/results/analysis/tests/profiles").glob("*.txt"))]
    profiles.append(b"postgres 1 1.0: 10 cycles:\n\tffff LWLockAcquire+0x10 (/usr/bin/postgres)\n\tffff main+0x1 (/usr/bin/postgres)\n\n"
                    * 40)
    profiles.append(b"postgres;main;LWLockAcquire 40\npostgres;main;s_lock 7\n" * 20)
    file, page = work / "facts.json", work / "page.html"
    while section.more():
        if rng.random() < 0.6:
            file.write_bytes(damage_json(rng, rng.choice(originals)))
            way = rng.choice(((), ("--json",), ("--html", page), ("--all",), ("--fail-on", "low")))
            section.try_("check", file, *way, keep=[file])
        else:
            text = work / "perf.txt"
            text.write_bytes(damage_text(rng, rng.choice(profiles)))
            way = rng.choice(("text", "html", "json", "markdown", "csv"))
            section.try_("diagnose", "--perf", text, "--server-version", rng.choice(("15", "9.6", "19", "x", "99999999999")),
                         "--format", way, keep=[text])
