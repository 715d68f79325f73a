"""Where attacks happen: one scratch directory, commands under bounds, and what counts as lost."""

import ctypes
import os
import random
import re
import resource
import shlex
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent

# What docs and --help promise; 70 is a fault of the program and never allowed here.
CODES = frozenset((0, 1, 2, 3, 4, 5, 6, 130))
PGBENCH_CODES = frozenset((0, 1, 2, 130))

PANIC = re.compile(rb"panicked at|RUST_BACKTRACE|stack backtrace|memory allocation of|has overflowed its stack")

MIB = 1 << 20
KEEP_OUTPUT = 4 * MIB
LOSSES_IN_FULL = 25


def free_of_controls(data, but=b"\n\t"):
    """The first character that a terminal would obey, or None."""
    text = data.decode("utf-8", "replace")
    allowed = but.decode()
    for at, char in enumerate(text):
        code = ord(char)
        if char in allowed:
            continue
        if code < 32 or 127 <= code < 160 or code in range(0x202A, 0x202F) or code in range(0x2066, 0x206A):
            return f"U+{code:04X} after {text[max(0, at - 30):at]!r}"
    return None


class Result:
    """What one command did."""

    def __init__(self, argv, code, by_signal, seconds, peak, out, err, late, fat):
        self.argv, self.code, self.by_signal = argv, code, by_signal
        self.seconds, self.peak, self.out, self.err = seconds, peak, out, err
        self.late, self.fat = late, fat

    def said(self):
        return self.err.decode("utf-8", "replace")


class Lab:
    """The scratch directory, the program, and the processes that are ours."""

    def __init__(self, program, scratch, seed, isolated, count):
        self.program, self.scratch, self.seed = str(program), Path(scratch), seed
        self.isolated, self.count = isolated, count
        self.root = os.geteuid() == 0
        self.servers = set()
        for name in ("home", "tmp", "runs", "cluster", "work", "lost"):
            (self.scratch / name).mkdir(exist_ok=True)
        os.chmod(self.scratch, 0o755)
        for name in ("cluster", "work"):
            os.chmod(self.scratch / name, 0o755)
        os.chmod(self.scratch / "tmp", 0o1777)
        # Processes whose parent has died become ours, so that none is missed.
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
        self.account = self.unprivileged()
        self.bin = self.find_server()

    @staticmethod
    def unprivileged():
        import pwd
        for name in ("postgres", "nobody"):
            try:
                return pwd.getpwnam(name)
            except KeyError:
                pass
        return None

    @staticmethod
    def find_server():
        found = [p.parent for p in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
        found += [p.parent for d in ("/usr/pgsql-*", "/usr/local/pgsql*") for p in Path("/").glob(d[1:] + "/bin/postgres")]
        if not found:
            raise SystemExit("attack: no PostgreSQL server found; scripts/bootstrap.sh attack installs one")
        number = lambda p: [int(n) for n in re.findall(r"\d+", str(p))] or [0]
        return max(found, key=number)

    def environment(self, more=None):
        base = {
            "PATH": f"{self.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.scratch / "home"),
            "TMPDIR": str(self.scratch / "tmp"),
            "PGASSAY_RUNS": str(self.scratch / "runs"),
            "LANG": "C.UTF-8",
        }
        for name, value in (more or {}).items():
            if value is None:
                base.pop(name, None)
            else:
                base[name] = value
        return base

    def as_servers_user(self):
        """What stands before a command that root gives away."""
        if not self.root:
            return []
        return ["setpriv", f"--reuid={self.account.pw_uid}", f"--regid={self.account.pw_gid}", "--clear-groups"]

    def give(self, path):
        if self.root:
            os.chown(path, self.account.pw_uid, self.account.pw_gid)

    @staticmethod
    def patience():
        """By how much waiting takes longer here than on an idle machine."""
        return min(8.0, max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)))

    # --- processes ---------------------------------------------------------

    @staticmethod
    def tree():
        """pid -> (parent, name, state) of all that can be seen."""
        seen = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    text = Path("/proc", entry, "stat").read_text(errors="replace")
                except OSError:
                    continue
                name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
                seen[int(entry)] = (int(rest[1]), name, rest[0])
        return seen

    def strays(self):
        """Our descendants that belong to no server of ours."""
        tree, me, found = self.tree(), os.getpid(), []
        for pid, (_, name, state) in tree.items():
            at, steps = pid, 0
            while at in tree and at != me and at not in self.servers and steps < 100:
                at, steps = tree[at][0], steps + 1
            if at == me and pid != me:
                if state == "Z":
                    try:
                        os.waitpid(pid, os.WNOHANG)
                    except ChildProcessError:
                        pass
                else:
                    found.append((pid, name))
        return found

    def strays_after(self, grace=6.0):
        """Those that are still there after a while; they are ended."""
        end = time.monotonic() + grace * self.patience()
        while (left := self.strays()) and time.monotonic() < end:
            time.sleep(0.1)
        for pid, _ in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return left

    def run(self, argv, *, env=None, cwd=None, stdin=None, stdout=None, stderr=None, timeout=30.0, peak_mib=512,
            act=None, servers=False):
        """Runs a command to its end, or ends it where it exceeds a bound.

        `act(process, elapsed)` is called every few milliseconds. `servers`: it launches servers, so
        that only its own memory counts.
        """
        argv = [os.fspath(word) for word in argv]
        out, err = (open(self.scratch / "tmp" / name, "w+b") for name in ("out", "err"))
        began = time.monotonic()
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL if stdin is None else stdin, stdout=stdout or out, stderr=stderr or err,
            env=self.environment(env), cwd=cwd or self.scratch / "work", start_new_session=True)
        late = fat = False
        peak, pause = 0, 0.001
        timeout *= self.patience()
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            elapsed = time.monotonic() - began
            if pid:
                break
            peak = max(peak, self.peak_of(process.pid))
            fat = peak > peak_mib * MIB
            if fat or elapsed > timeout:
                late = not fat
                os.killpg(process.pid, signal.SIGKILL)
                _, status, usage = os.wait4(process.pid, 0)
                break
            if act:
                act(process, elapsed)
            time.sleep(pause)
            pause = min(pause * 1.3, 0.02)
        process.returncode = status
        # The kernel counts what we held when we forked as the child's, too.
        if not servers and usage.ru_maxrss > resource.getrusage(resource.RUSAGE_SELF).ru_maxrss:
            peak = max(peak, usage.ru_maxrss * 1024)
            fat = fat or peak > peak_mib * MIB
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read(KEEP_OUTPUT))
            file.close()
        by_signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        return Result(argv, code, by_signal, elapsed, peak, texts[0], texts[1], late, fat)

    @staticmethod
    def peak_of(pid):
        try:
            with open(f"/proc/{pid}/status", "rb") as file:
                found = re.search(rb"VmHWM:\s+(\d+)", file.read())
            return int(found.group(1)) * 1024 if found else 0
        except OSError:
            return 0


def complaints(result, codes=CODES, secrets=(), signals=(), mute=False):
    """What about a command's end breaks a promise."""
    wrong = []
    if result.late:
        wrong.append(f"still running after {result.seconds:.0f} s")
    elif result.fat:
        wrong.append(f"took {result.peak / MIB:.0f} MiB of memory")
    elif result.by_signal is not None and result.by_signal not in signals:
        wrong.append(f"ended by signal {signal.Signals(result.by_signal).name}")
    elif result.code is not None and result.code not in codes:
        wrong.append(f"exit code {result.code}")
    elif result.code in (2, 3) and not result.err.strip() and not mute:
        wrong.append(f"exit code {result.code} without a message")
    # Where memory may end, Rust says so and aborts; that is no panic.
    ended = result.by_signal == signal.SIGABRT and signal.SIGABRT in signals and b"memory allocation of" in result.err
    if not (ended and b"panicked at" not in result.err) and (PANIC.search(result.err) or PANIC.search(result.out)):
        wrong.append("panic text")
    for secret in secrets:
        if secret.encode() in result.out or secret.encode() in result.err:
            wrong.append(f"the password {secret!r} is shown")
    return wrong


class Section:
    """One section's tally."""

    def __init__(self, lab, name, seconds):
        self.lab, self.name = lab, name
        self.random = random.Random(f"{lab.seed}/{name}")
        self.deadline = time.monotonic() + seconds
        self.attempts = self.lost = 0
        self.kinds = {}
        self.notes = []
        self.work = lab.scratch / "work" / name
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir(parents=True)
        os.chmod(self.work, 0o755)

    def more(self):
        """Whether there is time and leave for another attempt."""
        if self.lab.count and self.attempts >= self.lab.count:
            return False
        return time.monotonic() < self.deadline

    def through(self, items):
        """The items one after the other while there is time; says how many were left out."""
        items = list(items)
        for at, item in enumerate(items):
            if not self.more():
                self.note(f"{len(items) - at} of {len(items)} left out for want of time")
                return
            yield item

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def survived(self):
        self.attempts += 1

    def lose(self, what, repeat="", keep=(), result=None):
        """Counts a loss, says it with its command, keeps the files that it needs."""
        self.attempts += 1
        self.lost += 1
        kind = re.sub(r"\d+", "N", what)
        self.kinds[kind] = self.kinds.get(kind, 0) + 1
        if self.lost > LOSSES_IN_FULL:
            return
        place = self.lab.scratch / "lost" / f"{self.name}-{self.lost}"
        place.mkdir()
        for path in keep:
            path, copy = Path(path), place / Path(path).name
            try:
                if stat.S_ISREG(path.lstat().st_mode):
                    subprocess.run(["cp", "--sparse=always", path, copy], check=False)
                elif path.is_dir():
                    shutil.copytree(path, copy, symlinks=True, ignore_dangling_symlinks=True)
                else:
                    continue
            except (OSError, shutil.Error):
                continue
            repeat = repeat.replace(str(path), str(copy))
        if result is not None:
            (place / "stdout").write_bytes(result.out)
            (place / "stderr").write_bytes(result.err)
        (place / "command").write_text(f"{what}\n{repeat}\n", errors="surrogateescape")
        print(f"  LOST {self.name}: {what}\n    {repeat}", flush=True)
        if result is not None and result.err.strip():
            print(f"    said: {result.said().strip()[-400:]!r}", flush=True)

    def judge(self, result, *, codes=CODES, secrets=(), signals=(), keep=(), also=(), env=None, mute=False):
        """Counts an attempt; `also` are complaints that the caller found; `mute`: nobody hears it."""
        wrong = complaints(result, codes, secrets, signals, mute) + [text for text in also if text]
        if not wrong:
            self.survived()
            return True
        words = [f"{name}={shlex.quote(value)}" for name, value in (env or {}).items() if value is not None]
        self.lose("; ".join(wrong), " ".join(words + [shlex.join(result.argv)]), keep, result)
        return False

    def try_(self, *words, before=(), codes=None, secrets=(), signals=(), keep=(), also=None, env=None, mute=False,
             **bounds):
        """Runs the program with these words and judges the end."""
        argv = [*before, self.lab.program, *words]
        if codes is None:
            codes = PGBENCH_CODES if "pgbench" in words[:1] else CODES
        result = self.lab.run(argv, env=env, **bounds)
        further = (also(result) or []) if also else []
        self.judge(result, codes=codes, secrets=secrets, signals=signals, keep=keep, also=further, env=env, mute=mute)
        return result
