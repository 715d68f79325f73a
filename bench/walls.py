#!/usr/bin/python3
"""Holds the bounds of `pgassay walls` against what this machine does.

    bench/walls.py PGASSAY [LOOP...]

The times of a transfer are measured between all pairs of CPUs, the lines of each loop are recorded, and
what the lines and the processors allow on all CPUs is written down before anything is measured:
"predicted" in the table.  Then the loops run at 2 to 16 sessions.  A machine has no more owners of a
line than CPUs, so one prediction stands for all counts of sessions from that number on.

LOOP is one as `pgassay lines -w` takes it.  Prints the table and writes it, with what was predicted and
measured, to walls.json in the current directory.
"""

import json
import os
import subprocess
import sys
import tempfile

LOOPS = ["spinlock", "lwlock:shared", "buffer-hit:hot-block", "buffer-hit:uniform", "query-loop"]
SESSIONS = [1, 2, 4, 8, 16]
TRIALS = "12"


def asked(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(f"walls.py: {' '.join(words)}: {done.stderr.decode()}")
    return json.loads(done.stdout)


def predicted(program, loop, places, cpus):
    operations = "40" if loop == "query-loop" else "200"
    found = asked(program, "walls", "-w", loop, "-n", operations, "--seed", "1", "--map", places, "--at", f"1,{cpus}", "--json")
    bound = found["bounds"][-1]
    line = bound["lines"][0] if bound["lines"] else None
    processors = bound["processors_tps"]
    # At the ends of their intervals: what holds, and what would if each access moved the line.
    return {
        "line": line,
        "processors_allow": processors,
        "at_most": min(line["at_most_tps"]["high"] if line else processors, processors),
        "if_each_access": min(line["tps"]["estimate"] if line else processors, processors),
    }


def measured(program, loop, runs):
    primitive, _, variant = loop.partition(":")
    clients = ",".join(str(n) for n in SESSIONS)
    document = asked(program, "run", primitive, "--clients", clients, "--trials", TRIALS, "--runs", runs, "--json")
    of = [p for p in document["primitives"] if p["variant"].replace(" ", "-") == variant and not p["idle"]]
    return {point["sessions"]: point["operations_per_second"] for point in of[0]["points"]}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program, loops = sys.argv[1], sys.argv[2:] or LOOPS
    cpus = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="pgassay-walls-") as runs:
        places = os.path.join(runs, "map.json")
        times = asked(program, "core-to-core", "--json")
        with open(places, "w", encoding="utf-8") as file:
            json.dump(times, file)
        known = {loop: predicted(program, loop, places, cpus) for loop in loops}
        with open("walls.json", "w", encoding="utf-8") as file:
            json.dump({"cpus": cpus, "times": times, "predicted": known}, file, indent=1)
        print(f"{times['cpu']}, {cpus} CPUs, load {os.getloadavg()[0]:.1f}; a transfer: {[d['median_ns'] for d in times['distances']]} ns")
        for loop in loops:
            said = known[loop]
            line = said["line"]
            of = f"{line['name']}: {line['visits']['estimate']:.2f} visits, {line['owned']['estimate']:.2f} accesses" if line else "no line"
            print(f"{loop}: predicted at most {said['at_most']:.3g} a second on {cpus} CPUs"
                  f" (processors {said['processors_allow']:.3g}; {of})", flush=True)
        results = {}
        for loop in loops:
            results[loop] = measured(program, loop, runs)
            most = known[loop]["at_most"]
            for sessions, found in results[loop].items():
                if sessions >= cpus:
                    print(f"{loop:22} {sessions:3} sessions  {found['estimate']:10.3g} [{found['low']:.3g}..{found['high']:.3g}]"
                          f"  of the bound {found['estimate'] / most:5.2f}", flush=True)
    with open("walls.json", "w", encoding="utf-8") as file:
        json.dump({"cpus": cpus, "times": times, "predicted": known, "measured": results}, file, indent=1)


if __name__ == "__main__":
    main()
