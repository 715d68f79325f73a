//! The metrics of what processor and kernel count of the server's processes (`--observe pmu`).

use super::Values::Measured;
use super::{Metric, MetricId};
use crate::top_down::top_down;
use pgassay_stats::Direction::{HigherIsBetter, LowerIsBetter};

/// An event for each transaction.
macro_rules! per_transaction {
    ($name:ident, $id:literal, $heading:literal, $event:literal, $what:literal) => {
        #[doc = $what]
        pub const $name: MetricId = MetricId(&Metric {
            id: $id,
            heading: $heading,
            unit: "1/tx",
            better: LowerIsBetter,
            explanation: $what,
            values: Measured,
            of: |t| t.events_per_transaction($event),
        });
    };
}

/// An event for each of another.
macro_rules! ratio {
    ($name:ident, $id:literal, $heading:literal, $unit:literal, $better:ident, $of:literal, $to:literal, $what:literal) => {
        #[doc = $what]
        pub const $name: MetricId = MetricId(&Metric {
            id: $id,
            heading: $heading,
            unit: $unit,
            better: $better,
            explanation: $what,
            values: Measured,
            of: |t| t.events_ratio($of, $to),
        });
    };
}

/// A share of the processor's slots.
macro_rules! slots {
    ($name:ident, $id:literal, $heading:literal, $better:ident, $part:ident, $what:literal) => {
        #[doc = $what]
        pub const $name: MetricId = MetricId(&Metric {
            id: $id,
            heading: $heading,
            unit: "share",
            better: $better,
            explanation: $what,
            values: Measured,
            of: |t| Some(top_down(t.events.as_ref()?)?.$part),
        });
    };
}

ratio!(
    IPC,
    "ipc",
    "instructions a cycle",
    "",
    HigherIsBetter,
    "core/instructions",
    "core/cycles",
    "Instructions that the server's processes executed in a cycle of the processor."
);
per_transaction!(
    CYCLES,
    "cycles",
    "cycles",
    "core/cycles",
    "Cycles of the processor in the server's processes per transaction."
);
per_transaction!(
    INSTRUCTIONS,
    "instructions",
    "instructions",
    "core/instructions",
    "Instructions that the server's processes executed per transaction."
);
/// Share of the server's instructions that the kernel executed for it.
pub const KERNEL_INSTRUCTIONS: MetricId = MetricId(&Metric {
    id: "kernel-instructions",
    heading: "instructions in the kernel",
    unit: "share",
    better: LowerIsBetter,
    explanation: "Share of the server's instructions that the kernel executed for it.",
    values: Measured,
    of: |t| {
        let events = t.events.as_ref()?;
        // Without the kernel's part both are the same.
        events
            .events
            .get("core/instructions")
            .filter(|all| all.kernel)?;
        Some((1.0 - events.ratio("user/instructions", "core/instructions")?).clamp(0.0, 1.0))
    },
});
per_transaction!(
    BRANCH_MISSES,
    "branch-misses",
    "branch misses",
    "core/branch-misses",
    "Branches that the processor predicted wrongly, per transaction."
);
ratio!(
    BRANCH_MISS_SHARE,
    "branch-miss-share",
    "branches missed",
    "share",
    LowerIsBetter,
    "core/branch-misses",
    "core/branches",
    "Share of the branches that the processor predicted wrongly."
);
per_transaction!(
    L1I_MISSES,
    "l1i-misses",
    "L1I misses",
    "fetch/L1-icache-load-misses",
    "Misses of the first-level instruction cache per transaction."
);
per_transaction!(
    ITLB_MISSES,
    "itlb-misses",
    "iTLB misses",
    "fetch/iTLB-load-misses",
    "Misses of the instruction TLB per transaction."
);
per_transaction!(
    LLC_MISSES,
    "llc-misses",
    "LLC misses",
    "cache/LLC-load-misses",
    "Loads that the last-level cache missed, per transaction."
);
per_transaction!(
    CACHE_MISSES,
    "cache-misses",
    "cache misses",
    "general/cache-misses",
    "The kernel's general event cache-misses per transaction; of which cache differs by processor."
);
ratio!(
    STALLED_FRONTEND,
    "stalled-frontend",
    "stalled: no instructions",
    "share",
    LowerIsBetter,
    "stalls/stalled-cycles-frontend",
    "stalls/cycles",
    "Share of cycles in which the processor's front end delivered no instructions."
);
ratio!(
    STALLED_BACKEND,
    "stalled-backend",
    "stalled: no resources",
    "share",
    LowerIsBetter,
    "stalls/stalled-cycles-backend",
    "stalls/cycles",
    "Share of cycles in which the processor's back end took no instructions, such as when it waits for memory."
);
slots!(
    RETIRING,
    "retiring",
    "retiring",
    HigherIsBetter,
    retiring,
    "Share of the processor's slots whose instructions were completed (top-down)."
);
slots!(
    BAD_SPECULATION,
    "bad-speculation",
    "bad speculation",
    LowerIsBetter,
    bad_speculation,
    "Share of the processor's slots lost to wrong predictions (top-down)."
);
slots!(
    FRONTEND_BOUND,
    "frontend-bound",
    "front end",
    LowerIsBetter,
    frontend,
    "Share of the processor's slots for which the front end delivered no instruction (top-down)."
);
slots!(
    BACKEND_BOUND,
    "backend-bound",
    "back end",
    LowerIsBetter,
    backend,
    "Share of the processor's slots that waited for the back end, such as for memory (top-down)."
);
/// Time on a CPU per transaction, by the kernel's event.
pub const TASK_CLOCK: MetricId = MetricId(&Metric {
    id: "task-clock",
    heading: "task clock",
    unit: "µs/tx",
    better: LowerIsBetter,
    explanation: "Time on a CPU of the server's processes per transaction, by the kernel's event task-clock.",
    values: Measured,
    of: |t| Some(t.events_per_transaction("software/task-clock")? / 1000.0),
});
per_transaction!(
    PAGE_FAULTS,
    "page-faults",
    "page faults",
    "software/page-faults",
    "Page faults of the server's processes per transaction."
);
per_transaction!(
    CONTEXT_SWITCHES,
    "context-switches",
    "context switches",
    "software/context-switches",
    "Context switches of the server's processes per transaction."
);
per_transaction!(
    CPU_MIGRATIONS,
    "cpu-migrations",
    "migrations",
    "software/cpu-migrations",
    "Times per transaction that a process of the server went on on another CPU."
);

/// All of them.
pub const ALL: &[MetricId] = &[
    IPC,
    CYCLES,
    INSTRUCTIONS,
    KERNEL_INSTRUCTIONS,
    BRANCH_MISSES,
    BRANCH_MISS_SHARE,
    L1I_MISSES,
    ITLB_MISSES,
    LLC_MISSES,
    CACHE_MISSES,
    STALLED_FRONTEND,
    STALLED_BACKEND,
    RETIRING,
    BAD_SPECULATION,
    FRONTEND_BOUND,
    BACKEND_BOUND,
    TASK_CLOCK,
    PAGE_FAULTS,
    CONTEXT_SWITCHES,
    CPU_MIGRATIONS,
];
