#!/usr/bin/env python3
"""Searches forty settings of which two matter, as two real configurations differ.

    bench/settings.py PGASSAY RUNS [COUNT]      1 search by default; RUNS is where they are kept

For each search two of MATTER are drawn, and thirty-eight of NEUTRAL: settings that a select by primary key does not
meet. `pgassay bisect A.conf B.conf` has thirty minutes. Prints what was drawn, what was found with its effect, the
minutes, and the blocks. A search is a function of its number.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import time

# Each makes every select slower by itself: planned anew each time; written to the log; by its slower access path.
MATTER = {
    "plan_cache_mode": ("auto", "force_custom_plan"),
    "log_min_duration_statement": ("-1", "0"),
    "enable_indexscan": ("on", "off"),
    "log_executor_stats": ("off", "on"),
}
NEUTRAL = {
    "archive_timeout": ("0", "600"), "autovacuum_naptime": ("1min", "5min"), "autovacuum_vacuum_cost_limit": ("-1", "2000"),
    "autovacuum_max_workers": ("3", "6"), "bgwriter_delay": ("200ms", "500ms"), "bgwriter_lru_maxpages": ("100", "400"),
    "checkpoint_timeout": ("5min", "15min"), "checkpoint_completion_target": ("0.9", "0.7"), "commit_siblings": ("5", "10"),
    "cursor_tuple_fraction": ("0.1", "0.2"), "deadlock_timeout": ("1s", "3s"), "default_statistics_target": ("100", "200"),
    "effective_cache_size": ("4GB", "6GB"), "from_collapse_limit": ("8", "12"), "geqo_threshold": ("12", "16"),
    "gin_pending_list_limit": ("4MB", "8MB"), "hash_mem_multiplier": ("1", "2"), "idle_in_transaction_session_timeout": ("0", "1h"),
    "jit_above_cost": ("100000", "500000"), "join_collapse_limit": ("8", "12"), "lock_timeout": ("0", "1h"),
    "log_autovacuum_min_duration": ("10min", "0"), "log_checkpoints": ("on", "off"), "log_lock_waits": ("off", "on"),
    "log_temp_files": ("-1", "0"), "maintenance_work_mem": ("64MB", "256MB"), "max_locks_per_transaction": ("64", "128"),
    "max_parallel_workers": ("8", "4"), "max_prepared_transactions": ("0", "10"), "max_replication_slots": ("10", "4"),
    "max_wal_senders": ("10", "4"), "max_wal_size": ("1GB", "4GB"), "min_wal_size": ("80MB", "512MB"),
    "max_worker_processes": ("8", "12"), "parallel_setup_cost": ("1000", "500"), "random_page_cost": ("4", "1.1"),
    "temp_buffers": ("8MB", "16MB"), "temp_file_limit": ("-1", "10GB"), "vacuum_cost_limit": ("200", "1000"),
    "wal_keep_size": ("0", "64MB"), "wal_writer_delay": ("200ms", "500ms"), "work_mem": ("4MB", "32MB"),
}


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    pgassay, place = os.path.realpath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
    count = int(sys.argv[3]) if len(sys.argv) == 4 else 1
    place.mkdir(parents=True, exist_ok=True)
    wrong = 0
    print("| search | the two | found, with its effect | minutes | blocks | load average |")
    print("|---|---|---|---|---|---|")
    for number in range(count):
        draw = random.Random(number)
        two = sorted(draw.sample(sorted(MATTER), 2))
        names = two + draw.sample(sorted(NEUTRAL), 38)
        draw.shuffle(names)
        for side, file in enumerate(("A.conf", "B.conf")):
            values = {**NEUTRAL, **MATTER}
            (place / file).write_text("".join(f"{name} = '{values[name][side]}'\n" for name in names))
        began, load = time.time(), os.getloadavg()[0]
        ended = subprocess.run(
            [pgassay, "bisect", str(place / "A.conf"), str(place / "B.conf"), "--minutes", "30", "--seed", str(number),
             "--scale", "2", "--runs", str(place / "runs"), "--json"],
            stdout=subprocess.PIPE, stderr=open(place / f"{number}.log", "w"), text=True)
        (place / f"{number}.json").write_text(ended.stdout)
        document = json.loads(ended.stdout)
        causes = {document["differences"][at]["name"]: cause["cause"]["effect"]["estimate"]
                  for cause in document["causes"] for at in cause["differences"]}
        found = ", ".join(f"{name} {100 * effect:+.1f} %" for name, effect in sorted(causes.items()))
        found = found or document["conclusion"]["outcome"]
        right = sorted(causes) == two
        wrong += not right
        print(f"| {number} | {', '.join(two)} | {found}{'' if right else ' (WRONG)'} | {(time.time() - began) / 60:.1f} | "
              f"{len(document['blocks'])} | {load:.1f} to {os.getloadavg()[0]:.1f} |", flush=True)
    sys.exit(f"{wrong} of {count} not right" if wrong else 0)


if __name__ == "__main__":
    main()
