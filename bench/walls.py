#!/usr/bin/python3
"""Holds what `pgassay walls` says against what this machine does.

    bench/walls.py PGASSAY [LOOP...]

The times of a transfer are measured between all pairs of CPUs, the lines of each loop are recorded, and
what the lines and the processors allow, and what the replay with time says, is written down before
anything is measured.  Then the loops run at 1, 2, 4 ... sessions, up to twice as many as CPUs.  A machine
has no more owners of a line than CPUs, so one prediction stands for all counts of sessions from that number on.

Where two CPUs are one core, both together do less than two: how much less is measured first, by a loop in PL/pgSQL
that shares no line, and the CPU time of an operation is prolonged by it.

LOOP is one as `pgassay lines -w` takes it, or select-only.  Prints the table and writes it, with what was
predicted and measured, to walls.json in the current directory.
"""

import json
import os
import subprocess
import sys
import tempfile

LOOPS = ["spinlock", "lwlock:shared", "buffer-hit:hot-block", "buffer-hit:uniform", "query-loop", "select-only"]
# What shares no line with other sessions for most of its time.
ALONE = "plpgsql-loop"
TRIALS = os.environ.get("TRIALS", "12")


def asked(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(f"walls.py: {' '.join(words)}: {done.stderr.decode()}")
    return json.loads(done.stdout)


def predicted(program, loop, places, slower):
    """By sessions.  `slower` is by how much the CPU time of an operation is longer at so many sessions."""
    operations = {"query-loop": "20", "select-only": "5"}.get(loop, "100")
    found = asked(program, "walls", "-w", loop, "-n", operations, "--seed", "1", "--map", places, "--json",
                  "--at", ",".join(map(str, slower)), "--slower", ",".join(f"{n}:{by:.3f}" for n, by in slower.items()))
    said = {}
    for bound in found["bounds"]:
        line = bound["lines"][0] if bound["lines"] else None
        processors = bound["processors_tps"]
        said[bound["sessions"]] = {
            "cpu_us": found["cpu_us"],
            "line": line,
            "processors_allow": processors,
            # At the ends of their intervals: what holds, and what would if each access moved the line.
            "at_most": min(line["at_most_tps"]["high"] if line else processors, processors),
            "if_each_access": min(line["tps"]["estimate"] if line else processors, processors),
            "timed": bound["timed"],
        }
    return said


def measured(program, primitive, runs, sessions):
    """By variant and sessions."""
    clients = ",".join(str(n) for n in sessions)
    words = [program, "run", primitive, "--clients", clients, "--runs", runs, "--json"]
    if primitive == "select-only":
        document = asked(*words, "--trials", "3", "--time", "1", "--observe", "none")
        points = document["stages"][0]["arms"][0]["points"]
        return {"": {point["point"]["clients"]: point["throughput_tps"] for point in points}}
    if primitive == ALONE:
        words += ["--sql", "SELECT sum(g) FROM generate_series(1, 5000) g"]
    document = asked(*words, "--trials", TRIALS)
    return {
        one["variant"].replace(" ", "-"): {point["sessions"]: point["operations_per_second"] for point in one["points"]}
        for one in document["primitives"] if not one["idle"]
    }


def between(said):
    if not said["timed"]:
        return "nothing"
    tps = said["timed"]["tps"]
    return f"{tps['estimate']:.3g} [{tps['low']:.3g}..{tps['high']:.3g}]"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program, loops = sys.argv[1], sys.argv[2:] or LOOPS
    cpus = len(os.sched_getaffinity(0))
    sessions = [1]
    while sessions[-1] < 2 * max(cpus, 8):
        sessions.append(sessions[-1] * 2)
    done = {"cpus": cpus}

    def kept(**more):
        done.update(more)
        with open("walls.json", "w", encoding="utf-8") as file:
            json.dump(done, file, indent=1)

    with tempfile.TemporaryDirectory(prefix="pgassay-walls-") as runs:
        places = os.path.join(runs, "map.json")
        times = asked(program, "core-to-core", "--json")
        with open(places, "w", encoding="utf-8") as file:
            json.dump(times, file)
        print(f"{times['cpu']}, {cpus} CPUs, load {os.getloadavg()[0]:.1f}; a transfer: "
              f"{ {d['between']: d['median_ns'] for d in times['distances']} } ns", flush=True)
        alone = measured(program, ALONE, runs, [n for n in sessions if n <= cpus])["own-statement"]
        slower = {n: max(1.0, n * alone[1]["estimate"] / of["estimate"]) for n, of in alone.items()}
        print("CPU time that an operation without shared lines takes longer:",
              {n: round(by, 2) for n, by in slower.items()}, flush=True)
        known = {loop: predicted(program, loop, places, slower) for loop in loops}
        kept(times=times, slower=slower, predicted=known)
        for loop in loops:
            for n, said in known[loop].items():
                if not said["timed"]:
                    print(f"{loop}: at {n} sessions at most {said['at_most']:.3g}; shorter than a line takes: nothing predicted")
                    continue
                line = said["line"]
                of = f"{line['name']}: {line['visits']['estimate']:.2f} visits" if line else "no line"
                waits = ", ".join(f"{wait['share']:.0%} {wait['name']}" for wait in said["timed"]["waits"][:2])
                print(f"{loop}: predicted at {n} sessions {between(said)} a second, at most "
                      f"{said['at_most']:.3g} (processors {said['processors_allow']:.3g}; {of}; waits: {waits})", flush=True)
        results, of_primitive = {}, {}
        for loop in loops:
            primitive, _, variant = loop.partition(":")
            if primitive not in of_primitive:
                of_primitive[primitive] = measured(program, primitive, runs, sessions)
            results[loop] = of_primitive[primitive][variant]
            kept(measured=results)
            for n, found in results[loop].items():
                said = known[loop][min(n, max(known[loop]))]
                off = f"{said['timed']['tps']['estimate'] / found['estimate']:5.2f}" if said["timed"] else ""
                print(f"{loop:22} {n:3} sessions  {found['estimate']:10.3g} [{found['low']:.3g}..{found['high']:.3g}]"
                      f"  predicted {between(said)}: {off}"
                      f"  of the bound {found['estimate'] / said['at_most']:5.2f}", flush=True)


if __name__ == "__main__":
    main()
