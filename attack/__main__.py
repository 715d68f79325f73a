"""The attack on pgassay; see README.md beside this file."""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True

from lab import Lab, PROJECT, Section  # noqa: E402
from sections import SECTIONS  # noqa: E402

INSIDE = "PGASSAY_ATTACK_SCRATCH"


def arguments():
    parser = argparse.ArgumentParser(prog="attack", description="Attacks pgassay, and says what did not survive.")
    parser.add_argument("--program", type=Path, default=PROJECT / "target/release/pgassay")
    parser.add_argument("--minutes", type=float, default=50, help="for all sections together (%(default)s)")
    parser.add_argument("--section", action="append", default=[], metavar="NAME", help="only this one (repeatable)")
    parser.add_argument("--count", type=int, default=0, metavar="N", help="at most so many attempts in a section")
    parser.add_argument("--seed", type=int, default=None, help="of all that is random (drawn and printed)")
    parser.add_argument("--scratch", type=Path, default=Path("/var/tmp"), help="where the scratch directory is made (%(default)s)")
    parser.add_argument("--as-root-too", action="store_true",
                        help="as root: also attacks by another user, who plants files in /opt and /tmp")
    parser.add_argument("--list", action="store_true", help="the sections")
    args = parser.parse_args()
    unknown = [name for name in args.section if name not in SECTIONS]
    if unknown:
        parser.error(f"no section {', '.join(unknown)}; --list names them")
    return args


def enter(scratch):
    """As root: goes on in mount and process namespaces of its own, in which /tmp, /var/tmp and /opt
    are directories of the scratch directory. Nothing that we plant or leave is seen outside, and all
    processes end with us."""
    inside = scratch / "var-tmp" / scratch.name
    inside.mkdir(parents=True)
    for name, mode in (("var-tmp", 0o1777), ("tmp-of-all", 0o1777), ("opt", 0o755)):
        (scratch / name).mkdir(exist_ok=True)
        os.chmod(scratch / name, mode)
    mounts = (f"mount --bind {scratch} {inside} && mount --bind {scratch}/tmp-of-all /tmp && mount --bind {scratch}/opt /opt"
              f" && mount --rbind {scratch}/var-tmp /var/tmp")
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
               "sh", "-c", mounts + ' && exec "$@"', "sh", sys.executable, *sys.orig_argv[1:]]
    child = subprocess.Popen(command, env={**os.environ, INSIDE: f"/var/tmp/{scratch.name}"})
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return child.wait()


def clean(scratch):
    """Removes it, but for what a loss needs."""
    lost = scratch / "lost"
    kept = lost.is_dir() and any(lost.iterdir())
    for entry in scratch.iterdir():
        if entry != lost or not kept:
            shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    if not kept:
        scratch.rmdir()
    return kept


def attack(args, scratch, isolated):
    lab = Lab(args.program.resolve(), scratch, args.seed, isolated, args.count)
    wanted = [name for name in SECTIONS if not args.section or name in args.section]
    rows, began = [], time.monotonic()
    end = began + args.minutes * 60
    for at, name in enumerate(wanted):
        module, weight = SECTIONS[name]
        if lab.root and getattr(module, "PLANTS", False) and not args.as_root_too:
            rows.append((name, 0, 0, 0, "skipped: needs --as-root-too"))
            continue
        if not lab.root and getattr(module, "ROOT", False):
            rows.append((name, 0, 0, 0, "skipped: needs root"))
            continue
        share = weight / sum(SECTIONS[later][1] for later in wanted[at:])
        section = Section(lab, name, max(5.0, (end - time.monotonic()) * share))
        start = time.monotonic()
        try:
            module.run(section)
        except Exception as error:  # a section that can't go on is no reason to drop the others
            import traceback
            section.lose(f"the section itself failed: {error!r}", traceback.format_exc())
        left = lab.strays_after()
        if left:
            section.lose(f"processes left behind: {sorted({name for _, name in left})}")
        section.notes += [f"{count} x {kind}" for kind, count in section.kinds.items()]
        rows.append((name, section.attempts, section.attempts - section.lost, section.lost, "; ".join(section.notes)))
        print(f"{name}: {section.attempts} attempts, {section.lost} lost, {time.monotonic() - start:.0f} s", flush=True)
    print(f"\nseed {args.seed}, {(time.monotonic() - began) / 60:.0f} min, {lab.program}\n")
    print(f"{'section':<18}{'attempts':>9}{'survived':>9}{'lost':>6}")
    for name, attempts, survived, lost, notes in rows:
        print(f"{name:<18}{attempts:>9,}{survived:>9,}{lost:>6}  {notes[:300]}".rstrip())
    total = [sum(row[column] for row in rows) for column in (1, 2, 3)]
    print(f"{'all':<18}{total[0]:>9,}{total[1]:>9,}{total[2]:>6}")
    return 1 if total[2] else 0


def main():
    # In the background a shell has us ignore Ctrl-C, and the program would keep it so.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    args = arguments()
    if args.list:
        for name, (module, _) in SECTIONS.items():
            print(f"{name:<18}{(module.__doc__ or '').strip().splitlines()[0]}")
        return 0
    if not os.access(args.program, os.X_OK):
        print(f"attack: {args.program} is no program; make build makes it", file=sys.stderr)
        return 2
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1 << 32)
        sys.orig_argv += ["--seed", str(args.seed)]
    if INSIDE in os.environ:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        return attack(args, Path(os.environ.pop(INSIDE)), True)
    scratch = Path(tempfile.mkdtemp(prefix="pgassay-attack-", dir=args.scratch))
    os.chmod(scratch, 0o755)
    try:
        if os.geteuid() == 0 and args.scratch == Path("/var/tmp"):
            return enter(scratch)
        if os.geteuid() == 0:
            raise SystemExit("attack: as root the scratch directory is below /var/tmp")
        return attack(args, scratch, False)
    finally:
        if clean(scratch):
            print(f"what the losses need is kept in {scratch}/lost")


if __name__ == "__main__":
    sys.exit(main())
