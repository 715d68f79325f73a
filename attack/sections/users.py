"""Another user's planted servers, repositories, directories and locks."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from common import SHORT, scratch

PLANTS = True
ROOT = True


def run(section):
    import pwd
    lab, work = section.lab, section.work
    if not lab.isolated:
        section.note("skipped: needs namespaces")
        return
    other = pwd.getpwnam("nobody")

    def theirs(*paths):
        for path in paths:
            os.lchown(path, other.pw_uid, other.pw_gid)

    mark = work / "ran-as"
    mark.touch()
    mark.chmod(0o666)
    script = f"#!/bin/sh\nid -u >>{mark}\nprintf 'postgres (PostgreSQL) 19.1\\n'\n"
    sleeper = "#!/bin/sh\nsleep 300\n"
    for place in ("/opt/evil/bin", "/opt/vendor/pgsql/bin"):
        for body in (script, sleeper):
            for owner_of_file in (True, False):
                shutil.rmtree("/opt/evil", ignore_errors=True)
                shutil.rmtree("/opt/vendor", ignore_errors=True)
                os.makedirs(place)
                for name in ("postgres", "initdb", "pg_config", "pg_ctl", "psql"):
                    path = Path(place, name)
                    path.write_text(body)
                    path.chmod(0o755)
                    if owner_of_file:
                        theirs(path)
                theirs(place, Path(place).parent)
                mark.write_text("")
                for words in (["targets"], ["targets", "--json"], ["inspect", "temp"]):
                    section.try_(*words, timeout=40, also=lambda _: [f"ran it as {mark.read_text().split()}"] if mark.read_text() else [])
    shutil.rmtree("/opt/evil", ignore_errors=True)
    shutil.rmtree("/opt/vendor", ignore_errors=True)
    # A repository above the source whose monitor is a program.
    hostile = work / "atk"
    source = hostile / "src"
    source.mkdir(parents=True)
    env = {**lab.environment(), "HOME": str(work)}
    subprocess.run(["git", "init", "-q", hostile], env=env, check=False)
    hook = hostile / "hook.sh"
    hook.write_text(f"#!/bin/sh\nid -u >>{mark}\n")
    hook.chmod(0o755)
    if (hostile / ".git/config").exists():
        with open(hostile / ".git/config", "a") as config:
            config.write(f"[core]\n\tfsmonitor = {hook}\n\thooksPath = {hostile}\n\tpager = {hook}\n\tsshCommand = {hook}\n"
                         f"[diff]\n\texternal = {hook}\n[filter \"x\"]\n\tclean = {hook}\n")
        theirs(hostile, *hostile.rglob("*"))
        os.chown(source, 0, 0)
        (source / "configure").write_text("#!/bin/sh\nexit 1\n")
        (source / "configure").chmod(0o755)
        mark.write_text("")
        for path in (source, hostile):
            section.try_("build", path, timeout=60, also=lambda _: [f"git's hook ran as {mark.read_text().split()}"] if mark.read_text() else [])
    else:
        section.note("no git: its part skipped")
    # A scratch directory, a lock and perf's directories that are already another user's.
    base = work / "shared"
    base.mkdir()
    base.chmod(0o1777)
    planted = base / f"pgassay-{os.geteuid()}"
    for kind in ("directory", "link", "file", "open directory"):
        if kind in ("directory", "open directory"):
            planted.mkdir()
        elif kind == "link":
            planted.symlink_to("/etc")
        else:
            planted.write_text("")
        theirs(planted)
        if kind == "open directory":
            os.chown(planted, 0, 0)
            planted.chmod(0o777)
        section.try_("check", "temp", "--scratch", base, codes={0, 2, 3} if kind == "open directory" else {2, 3}, timeout=60, servers=True)
        shutil.rmtree(planted) if planted.is_dir() and not planted.is_symlink() else planted.unlink()
    victim = work / "victim"
    victim.write_text("precious")
    victim.chmod(0o600)
    perf = work / "bin/perf"
    perf.parent.mkdir()
    perf.write_text('#!/bin/sh\nwhile [ $# -gt 0 ]; do [ "$1" = --output ] && echo overwritten >"$2"; shift; done\n')
    perf.chmod(0o755)
    def plant(process, elapsed):
        for n in range(4):
            for tmp in ("/tmp", str(lab.scratch / "tmp")):
                place = Path(tmp, f"pgassay-perf-{process.pid}-{n}")
                try:
                    place.mkdir()
                except OSError:
                    continue
                for name in ("perf.data", "said"):
                    (place / name).symlink_to(victim)
                theirs(place)
    section.try_("run", "select-only", "temp", *SHORT, *scratch(lab), "--observe", "all", timeout=60, servers=True, act=plant,
                 env={"PATH": f"{perf.parent}:{lab.environment()['PATH']}"},
                 also=lambda _: [] if victim.read_text() == "precious" else ["another user's link led a write to root's file"])
    for tmp in ("/tmp", str(lab.scratch / "tmp")):
        for place in Path(tmp).glob("pgassay-perf-*"):
            shutil.rmtree(place)
    # Somebody holds what says that a measurement is under way.
    for name in ("pgassay-measuring.lock", f"pgassay-measuring-{os.geteuid()}.lock", "pgassay-measuring.0.lock"):
        path = Path("/var/tmp", name)
        path.unlink(missing_ok=True)
        path.touch()
        theirs(path)
        with open(path) as held:
            fcntl.flock(held, fcntl.LOCK_SH)
            section.try_("run", "select-only", "temp", *SHORT, *scratch(lab), timeout=90, servers=True,
                         also=lambda result: ["another user's lock was believed"] if b"another pgassay measures" in result.err else [])
        path.unlink(missing_ok=True)
