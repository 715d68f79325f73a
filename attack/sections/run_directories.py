"""Damaged run directories to report, fit, diagnose, runs, history and compare."""

import os
import shutil

from common import recorded
from mutate import damage_json
from postgres import Server

FORMATS = ("text", "html", "json", "markdown", "csv")


def spoil(rng, run):
    """One or two files of a run damaged, replaced or gone."""
    for _ in range(rng.choice((1, 1, 2))):
        files = sorted(p for p in run.rglob("*") if p.is_file() and not p.is_symlink())
        if not files:
            return
        file, what = rng.choice(files), rng.randrange(20)
        if what < 15:
            file.write_bytes(damage_json(rng, file.read_bytes()))
            continue
        file.unlink()
        if what == 15:
            os.mkfifo(file)
        elif what == 16:
            file.mkdir()
        elif what == 17:
            file.symlink_to(rng.choice(("/dev/zero", file.name, "/proc/self/mem", "/dev/null")))
        elif what == 18:
            with open(file, "wb") as out:
                out.truncate(1 << 33)


def run(section):
    lab, rng, runs = section.lab, section.random, section.work / "runs"
    with Server(lab, section.work / "server") as server:
        originals = recorded(section, server)
    runs.mkdir()
    good = runs / "good"
    shutil.copytree(originals[0], good)
    again = runs / "good2"
    shutil.copytree(originals[1], again)
    bad = runs / "bad"
    while section.more():
        shutil.rmtree(bad, ignore_errors=True)
        shutil.copytree(rng.choice(originals), bad)
        spoil(rng, bad)
        words = rng.choice((
            ["report", bad, "--format", rng.choice(FORMATS)], ["report", bad, "--format", rng.choice(FORMATS)],
            ["report", bad, good], ["fit", bad, *rng.choice(((), ("--json",)))],
            ["diagnose", bad, "--format", rng.choice(FORMATS)], ["diagnose", good, "--against", bad], ["runs", "list"],
            ["runs", "list", "--json"], ["runs", "show", bad], ["history", runs, "--format", rng.choice(FORMATS)],
            ["compare", "--recorded", good, bad, *rng.choice(((), ("--json",)))], ["compare", "--pool", bad, bad],
            ["compare", "--pool", good, bad], ["run", "--resume", bad], ["compare", "--resume", bad], ["check", bad]))
        section.try_(*words, "--runs", runs, keep=[bad], timeout=20)
    # `runs remove` removes runs, and nothing that only looks a little like one.
    for contents in ("{}", "", '{"schema": "pgassay/run/1"}', "[]"):
        other = section.work / "other"
        (other / "sub").mkdir(parents=True)
        (other / "run.json").write_text(contents)
        (other / "sub/precious").write_text("precious")
        section.try_("runs", "remove", other, "--runs", runs,
                     also=lambda _: None if (other / "sub/precious").exists() else ["a foreign file was removed"])
        shutil.rmtree(other, ignore_errors=True)
