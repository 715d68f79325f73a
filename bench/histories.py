#!/usr/bin/env python3
"""Searches random histories of PostgreSQL's own source for slowdowns that were planted in them.

    bench/histories.py PGASSAY PLACE [COUNT]     40 by default

Each history is a branch of 12 to 48 commits on Debian's PostgreSQL 15 that change nothing (comments, new
functions, documents), with one of these among them: a slowdown by 5, 3 or 1 per cent of the instructions of a
select-only transaction; slowdowns by 5 and 3 per cent; one by 5 per cent and a speed-up by 3; one by 5 per cent
beside or within a stretch that can't be built. `pgassay bisect --by instructions` searches each. A history is a
function of its number. What has been searched is kept in PLACE, so that the same command goes on after an
interruption; the table is printed from it. Needs git, valgrind, gcc, make, and PLACE readable by the user that
builds (postgres for root).
"""

import json
import os
import pathlib
import random
import statistics
import subprocess
import sys

KINDS = ["5 %", "3 %", "1 %", "5 % and 3 %", "5 %, 3 % back", "5 %, unbuildable"]
# Executed once for a select-only transaction of prepared statements.
SITES = [
    ("src/backend/executor/execMain.c", "standard_ExecutorStart"),
    ("src/backend/executor/execMain.c", "standard_ExecutorRun"),
    ("src/backend/executor/execMain.c", "standard_ExecutorEnd"),
    ("src/backend/tcop/pquery.c", "PortalStart"),
    ("src/backend/tcop/pquery.c", "PortalRun"),
    ("src/backend/tcop/postgres.c", "exec_bind_message"),
    ("src/backend/tcop/postgres.c", "exec_execute_message"),
    ("src/backend/access/transam/xact.c", "StartTransaction"),
    ("src/backend/access/transam/xact.c", "CommitTransaction"),
    ("src/backend/storage/ipc/procarray.c", "ProcArrayEndTransaction"),
]
# Six instructions a turn, of about 40,000 of a transaction.
TURNS = {5: 333, 3: 200, 1: 67}


def run(*words, check=True, **how):
    return subprocess.run(words, check=check, text=True, stdout=subprocess.PIPE, **how)


class Repository:
    def __init__(self, place):
        self.dir = place / "postgresql"
        if not (self.dir / ".git").is_dir():
            self.fetch(place)

    def git(self, *words):
        identity = ["-c", "user.name=histories", "-c", "user.email=histories@localhost", "-c", "gc.auto=0"]
        # The same history has the same commits whenever it is made.
        when = dict.fromkeys(["GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"], "2000-01-01T00:00:00Z")
        return run("git", "-C", str(self.dir), *identity, *words, env={**os.environ, **when}).stdout.strip()

    def fetch(self, place):
        tarball = next(iter(sorted(place.glob("postgresql-15_*.orig.tar.*"))), None)
        if tarball is None:
            # With private lists, as bench/builds.sh does it.
            root = place / "apt"
            (root / "lists/partial").mkdir(parents=True, exist_ok=True)
            (root / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
            targets = run("apt-get", "indextargets", "--format", "$(REPO_URI)").stdout.split()
            mirror = sorted(uri for uri in set(targets) if uri.rstrip("/").endswith("/debian"))[0]
            (root / "sources.list").write_text(
                f"deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} bookworm main\n")
            apt = ["apt-get", "-qq", "-o", f"Dir::State::Lists={root}/lists", "-o", f"Dir::Cache={root}/cache",
                   "-o", f"Dir::Etc::SourceList={root}/sources.list", "-o", "Dir::Etc::SourceParts=/dev/null"]
            run(*apt, "update")
            run(*apt, "source", "--download-only", "--tar-only", "postgresql-15", cwd=place)
            tarball = sorted(place.glob("postgresql-15_*.orig.tar.*"))[0]
        self.dir.mkdir(exist_ok=True)
        run("tar", "-xf", str(tarball), "-C", str(self.dir), "--strip-components=1")
        self.git("init", "--quiet", "-b", "base")
        self.git("add", "--all", "--force", ".")
        self.git("commit", "--quiet", "-m", "PostgreSQL as released")

    def edit(self, path, change):
        file = self.dir / path
        file.write_text(change(file.read_text(errors="surrogateescape")), errors="surrogateescape")
        self.git("add", path)

    def commit(self, subject):
        self.git("commit", "--quiet", "--no-verify", "-m", subject)
        return self.git("rev-parse", "HEAD")


def slower(name, turns):
    """Has a function run an empty loop."""
    mark = f"\t{{ volatile int turns; for (turns = 0; turns < {turns}; turns++) ; }}\n"

    def change(text):
        at = text.index(f"\n{name}(")
        brace = text.index("\n{\n", at) + 3
        return text[:brace] + mark + text[brace:]

    return change, lambda text: text.replace(mark, "", 1)


def neutral(random, repository, files, number):
    """A change that makes no difference: a comment, a function that nobody calls, a document."""
    kind = random.choice(["comment", "comment", "function", "function", "document"])
    path = random.choice(files) if kind != "document" else "README"
    text = {
        "comment": f"\n/* note {number} */\n",
        "function": f"\nextern int unused_{number}(int x);\nint\nunused_{number}(int x)\n"
                    f"{{\n\treturn x * {number} + 1;\n}}\n",
        "document": f"\nnote {number}\n",
    }[kind]
    repository.edit(path, lambda old: old + text)
    return repository.commit(f"{kind} in {path}")


def make(repository, number):
    """Makes a history: its good and bad commit, all commits, and the planted ones."""
    draw = random.Random(number)
    kind = KINDS[number % len(KINDS)]
    length = int(12 * (48 / 12) ** draw.random())
    branch = f"history-{number}"
    repository.git("checkout", "--quiet", "--force", "-B", branch, "base")
    files = repository.git("ls-files", "src/backend/*/*.c").split()
    files = [f for f in files if (repository.dir / f.replace(".c", ".o")).suffix == ".o"
             and not any(part in f for part in ("/port/", "/jit/", "/snowball/", "/bootstrap/", "/parser/scan",
                                                "/parser/gram", "/regex/reg", "/po/", "guc-file", "repl_", "syncrep_",
                                                "jsonpath_"))]
    sites = draw.sample(SITES, 2)
    first, second = draw.sample(range(1, length + 1), 2)
    plants, broken = {}, set()
    by = {"5 %": 5, "3 %": 3, "1 %": 1}.get(kind, 5)
    plants[first] = (sites[0][0], slower(sites[0][1], TURNS[by])[0])
    if kind == "5 % and 3 %":
        plants[second] = (sites[1][0], slower(sites[1][1], TURNS[3])[0])
    if kind == "5 %, 3 % back":
        there, back = slower(sites[1][1], TURNS[3])
        repository.edit(sites[1][0], there)
        repository.commit("what is taken back later")
        plants[second] = (sites[1][0], back)
    if kind == "5 %, unbuildable":
        long = draw.randint(2, 2 + length // 4)
        begin = max(1, draw.randint(first - long, first))
        broken = set(range(begin, min(begin + long, length)))
    good = repository.git("rev-parse", "HEAD")
    commits, planted = [], []
    error = "\n#error not yet\n"
    for step in range(1, length + 1):
        if step in broken and step - 1 not in broken:
            repository.edit("src/backend/utils/misc/rls.c", lambda text: text + error)
        if step not in broken and step - 1 in broken:
            repository.edit("src/backend/utils/misc/rls.c", lambda text: text.replace(error, ""))
        if step in plants:
            path, change = plants[step]
            repository.edit(path, change)
            commits.append(repository.commit(f"change {path}"))
            planted.append(step)
        else:
            commits.append(neutral(draw, repository, files, 1000 * number + step))
    repository.git("checkout", "--quiet", "--force", "base")
    return kind, good, commits, planted, broken


def load():
    return os.getloadavg()[0]


def search(pgassay, place, repository, number):
    results = place / "results"
    results.mkdir(exist_ok=True)
    file = results / f"{number}.json"
    if file.is_file():
        return json.loads(file.read_text())
    kind, good, commits, planted, broken = make(repository, number)
    runs = place / "runs" / str(number)
    common = ["--runs", str(runs), "--json", "--minutes", "120"]
    begun = load()
    if runs.is_dir() and any(runs.iterdir()):
        line = [pgassay, "bisect", "--resume", "last", *common]
    else:
        line = [pgassay, "bisect", "--good", good, "--bad", commits[-1], str(repository.dir), "--by", "instructions",
                "--seed", str(number), *common]
    log = open(place / f"{number}.log", "a")
    ended = run(*line, check=False, stderr=log)
    if ended.returncode not in (0, 1, 5):
        sys.exit(f"history {number}: exit code {ended.returncode}; see {log.name}")
    document = json.loads(ended.stdout)
    main = document["searches"][0]
    causes = [(c["first"], c["last"], c["effect"]["estimate"]) for c in main["conclusion"]["causes"]]
    unbuildable = {int(position) for position in main["unbuildable"]}

    def names(cause, step):
        between = set(range(cause[0], cause[1]))
        return cause[0] <= step <= cause[1] and between <= unbuildable
    found = main["conclusion"]["outcome"] == "found"
    right = found and len(causes) == len(planted) and all(map(names, causes, planted))
    result = {
        "number": number, "kind": kind, "steps": len(commits), "planted": planted, "causes": causes,
        "outcome": main["conclusion"]["outcome"], "probability": main["conclusion"]["probability"], "right": right,
        "builds": main["builds"], "seconds": main["seconds"], "forecast": main["forecast"],
        "load": [begun, load()],
    }
    file.write_text(json.dumps(result) + "\n")
    trees = repository.git("rev-parse", *[f"{commit}^{{tree}}" for commit in [good, *commits]]).split()
    listed = json.loads(run(pgassay, "build", "--list", "--json").stdout)["builds"]
    mine = {f"tree-{tree[:12]}-bisect" for tree in trees} & {build["name"] for build in listed}
    if mine:
        run(pgassay, "build", *[word for name in sorted(mine) for word in ("--remove", name)])
    return result


def table(results):
    rows = [("planted", "histories", "right", "said at 95 %", "of these right", "builds", "minutes", "within factor 2")]
    for kind in [*KINDS, "all"]:
        of = [r for r in results if kind in (r["kind"], "all")]
        if not of:
            continue
        sure = [r for r in of if r["outcome"] == "found" and r["probability"] >= 0.95]
        foretold = [r for r in of if r["forecast"]]
        close = [r for r in foretold if 0.5 <= r["seconds"] / r["forecast"]["seconds"] <= 2]
        median = statistics.median
        rows.append((kind, len(of), sum(r["right"] for r in of), len(sure), sum(r["right"] for r in sure),
                     f"{median(r['builds'] for r in of):.0f} of {median(r['steps'] for r in of) + 1:.0f}",
                     f"{median(r['seconds'] for r in of) / 60:.1f}", f"{len(close)} of {len(foretold)}"))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    loads = [at for r in results for at in r["load"]]
    print(f"\nload average of one minute: median {statistics.median(loads):.1f}, {min(loads):.1f} to {max(loads):.1f}")
    for r in results:
        if not r["right"]:
            print(f"history {r['number']} ({r['kind']}): planted at {r['planted']}, {r['outcome']}: {r['causes']}")


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    pgassay, place = os.path.realpath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    count = int(sys.argv[3]) if len(sys.argv) == 4 else 40
    place.mkdir(parents=True, exist_ok=True)
    repository = Repository(place)
    results = []
    for number in range(count):
        results.append(search(pgassay, place, repository, number))
        last = results[-1]
        print(f"{number}: {last['kind']}, {last['steps']} commits, {last['builds']} builds, "
              f"{last['seconds']:.0f} s, {'right' if last['right'] else 'WRONG'}", file=sys.stderr, flush=True)
    table(results)


if __name__ == "__main__":
    main()
