"""A standby: nothing is written there, also while it is promoted or replays against us."""

import os
import time

from common import SHORT
from postgres import Server


def run(section):
    lab, work = section.lab, section.work
    with Server(lab, work / "primary") as primary:
        primary.psql("CREATE TABLE t AS SELECT g FROM generate_series(1, 1000) g")
        with Server(lab, work / "standby", standby_of=primary, settings={"max_standby_streaming_delay": "'100ms'"}) as standby:
            target = standby.target()
            commands = (["check", target], ["collect", target, "--output", work / "facts"], ["inspect", target], ["assay", target, "--quick"],
                        ["assay", target, "--load", "--quick"], ["run", "select-only", target, "--load", *SHORT],
                        ["run", "pgio", target, "--load", "--time", "1"], ["check", primary.target()],
                        ["compare", primary.target(), target, "--load", "--pairs", "2", "--slice", "0.2", "--scale", "1"],
                        ["run", "tpcb-like", primary.target(), "--load", *SHORT])
            for words in section.through(commands):
                section.try_(*words, timeout=120, codes={3} if "--load" in words and target in words else None,
                             also=lambda _: ["the schema was left"] if primary.schema_left() else [])
            promoted = []

            def promote(process, elapsed):
                if elapsed > 0.05 and not promoted:
                    promoted.append(1)
                    standby.psql("SELECT pg_promote(false)", check=False)
            section.try_("run", "tpcb-like", target, "--load", *SHORT, act=promote, timeout=60,
                         also=lambda result: ["the schema was left"] if result.code == 0 and standby.schema_left() else [])
            if not promoted:  # It was refused sooner than that.
                standby.psql("SELECT pg_promote(false)", check=False)
            for _ in range(100):
                if standby.ask("SELECT pg_is_in_recovery()", check=False) == "f":
                    break
                time.sleep(0.3)
            section.try_("run", "tpcb-like", target, "--load", *SHORT, timeout=60, codes={0},
                         also=lambda _: ["the schema was left"] if standby.schema_left() else [])
