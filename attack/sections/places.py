"""HOME, umask, locale, odd paths and users without rights."""

import os
import shutil
import stat

from common import SHORT, left_behind, scratch


def run(section):
    lab, work = section.lab, section.work
    program = work / "pgassay"
    shutil.copy(lab.program, program)
    for mask in section.through(("027", "077", "022", "000", "777")):
        runs = work / f"runs-{mask}"
        way = ["sh", "-c", f'umask {mask}; exec "$@"', "sh"]
        codes = {0, 4} if mask != "777" else None
        section.try_("run", "select-only", "temp", *SHORT, "--runs", runs, *scratch(lab), before=way, codes=codes, servers=True,
                     timeout=120, also=lambda _: [f"{p} can be written by others" for p in runs.rglob("*")
                                                  if p.lstat().st_mode & stat.S_IWOTH and not p.is_symlink() and mask != "000"][:1])
        section.try_("check", "temp", *scratch(lab), before=way, codes={0} if mask != "777" else None, servers=True, timeout=120)
        left_behind(section, f"umask {mask}")
        for path in (lab.scratch / "cluster").glob("pgassay-*"):
            shutil.rmtree(path, ignore_errors=True)
    homes = {"unset": None, "empty": "", "file": str(program), "relative": "a/b", "nothing": "/nonexistent", "null": "/dev/null",
             "proc": "/proc", "long": "/" + "h" * 4000, "odd": str(work / "a b\n\x1b[31m'\"")}
    for name, home in section.through(homes.items()):
        env = {"HOME": home, "PGASSAY_RUNS": None, "XDG_STATE_HOME": None}
        for words in (["runs", "list"], ["check", "--host"], ["report", "last"], ["targets"]):
            section.try_(*words, env=env, timeout=60)
    for variable in section.through(("TMPDIR", "PGASSAY_RUNS", "XDG_CACHE_HOME", "XDG_STATE_HOME", "PATH", "COLUMNS", "LANG", "LC_ALL",
                                     "TERM", "PGSERVICEFILE", "PGPASSFILE", "PGPORT", "PGSSLMODE", "PGOPTIONS", "PG_CONFIG", "TZ")):
        for value in ("", "/nonexistent", "\x1b[31m", "-1", "99999999999999999999", "/dev/zero", "a\udcffb", "x" * 100_000):
            for words in (["check", "--host"], ["check", "host=/nonexistent connect_timeout=2"], ["runs"]):
                section.try_(*words, env={variable: value}, timeout=60)
    for name in section.through(("a b", "a'b", 'a"b', "a\nb", "a\\b", "-rf", "$(touch x)", "é", "\udcff", "x" * 90, "%s", "a=b", "#")):
        place = work / "odd" / name
        os.makedirs(place, exist_ok=True)
        os.chmod(place, 0o755)
        section.try_("run", "select-only", "temp", *SHORT, "--runs", place / "runs", "--scratch", place, servers=True, timeout=120)
        if left := [str(p) for p in place.glob("pgassay-*/clusters/*")]:
            section.lose(f"left behind: {left}")
        section.try_("report", "last", "--runs", place / "runs")
    if lab.root:
        way = lab.as_servers_user()
        own = work / "own"
        own.mkdir()
        lab.give(own)
        env = {"HOME": str(own), "PGASSAY_RUNS": str(own / "runs"), "TMPDIR": "/tmp"}
        for words in (["check", "--host"], ["check", "temp", "--scratch", own], ["targets"], ["inspect", "1"], ["inspect", "temp"],
                      ["run", "select-only", "temp", *SHORT, "--scratch", own], ["report", "last"], ["collect", "--host"],
                      ["run", "select-only", "temp", *SHORT, "--scratch", work], ["runs", "list", "--runs", "/root"]):
            section.try_(*words, before=[*way], env=env, timeout=120, servers=True)
        closed = work / "closed"
        closed.mkdir(mode=0o700)
        for words in (["report", "last", "--runs", closed], ["run", "select-only", "temp", *SHORT, "--runs", closed, "--scratch", own]):
            section.try_(*words, before=way, env=env, timeout=120, servers=True, codes={2, 3})
    left_behind(section, "odd places")
