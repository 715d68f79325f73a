"""What several sections ask of the program."""

import os
import shutil
from pathlib import Path

SHORT = ("--time", "0.2", "--warmup", "0", "--trials", "2", "--scale", "1", "--clients", "1,2", "--threads", "1")


def scratch(lab):
    return ("--scratch", lab.scratch / "cluster")


def clusters(lab):
    """Directories of launched clusters and of their sockets that are still there."""
    left = list((lab.scratch / "cluster").glob("pgassay-*/clusters/*"))
    left += Path("/var/tmp").glob(f"pgassay-{os.geteuid()}/clusters/*") if lab.isolated else []
    left += [p for p in Path("/tmp").glob("pga-*")] if lab.isolated else []
    left += [p for base in ("/tmp", lab.scratch / "tmp") for p in Path(base).glob("pgassay-*")] if lab.isolated else []
    return [p for p in left if p.name != "lock"]


def left_behind(section, what):
    """Counts as a loss what is left although it should not be, and removes it."""
    lab = section.lab
    strays, places = lab.strays_after(), clusters(lab)
    for path in places:
        shutil.rmtree(path, ignore_errors=True)
    if strays or places:
        section.lose(f"left behind: processes {sorted({n for _, n in strays})}, {[str(p) for p in places]}", what)
        return True
    return False


def recorded(section, server):
    """Run directories to attack: a run under load and a comparison, made on a server of ours."""
    lab, runs = section.lab, section.work / "originals"
    words = ["run", "tpcb-like", server.target(), "--load", *SHORT, "--seed", "1", "--runs", runs, "--observe", "all"]
    compare = ["compare", server.target(), server.target(), "--load", "--pairs", "3", "--noise-pairs", "2", "--slice", "0.2",
               "--warmup", "0", "--scale", "1", "--clients", "1", "--seed", "1", "--runs", runs]
    for argv in (words, words, compare):
        result = section.try_(*argv, timeout=120)
        if result.code in (2, 3, 70) or result.code is None:
            raise RuntimeError(f"no run to attack: {result.said()}")
    return sorted(p for p in runs.iterdir() if (p / "run.json").exists())
