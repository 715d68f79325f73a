//! A profile in figures: by class, by function, by lock.

use std::collections::BTreeMap;

use pgassay_readings::profile::{Profile, UNKNOWN, Unit};
use serde::{Deserialize, Serialize};

use super::class::{self, CLASSES, Class};
use super::lock::{self, Lock};
use super::within::{self, Work};
use pgassay_stats::share::{TOO_FEW, at_least};

/// Functions that are listed at most.
const LISTED: usize = 40;

/// A profile in figures; shares are of all samples of the server, 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// Samples, where they were counted and not given in per cent.
    pub samples: Option<u64>,
    /// The share of all samples that the text accounts for: a listing may end early.
    pub accounted_share: f64,
    /// Of all samples of the machine, those of CPUs that had nothing to run.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub idle_share: f64,
    /// Other programs on the machine, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<ProgramShare>,
    /// Whether the samples carry callers.
    pub call_chains: bool,
    /// Samples in functions that nothing names.
    pub unnamed_share: f64,
    /// The classes that have samples, the largest first.
    pub classes: Vec<ClassShare>,
    /// Programs and libraries by the samples in them, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectShare>,
    /// The hottest functions, the hottest first.
    pub functions: Vec<FunctionShare>,
    /// What the lock functions were called for, the largest first.
    pub locks: Vec<LockShare>,
    /// What samples were spent within, the largest first; a sample may be within several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub within: Vec<WithinShare>,
    /// What was left out or not understood.
    pub remarks: Vec<String>,
}

/// The share of a program that is not the server's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramShare {
    /// Its name, as the kernel keeps it.
    pub program: String,
    /// Of all samples of the machine.
    pub share: f64,
}

/// Whether a share need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_nothing(share: &f64) -> bool {
    *share == 0.0
}

/// The share of a class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClassShare {
    /// The class.
    pub class: Class,
    /// Of all samples.
    pub share: f64,
}

/// The share of some work with all that it calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WithinShare {
    /// The work.
    pub work: Work,
    /// Of all samples.
    pub share: f64,
}

/// The share of a program or library.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ObjectShare {
    /// `postgres`, `libc.so.6`, `[kernel]`.
    pub object: String,
    /// Samples in its functions themselves, of all.
    pub share: f64,
}

/// The share of a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionShare {
    /// Its name.
    pub symbol: String,
    /// Program or library.
    pub object: String,
    /// What it was called for in most of its samples.
    pub class: Class,
    /// Samples in the function itself, of all.
    pub own_share: f64,
    /// Samples in it or in what it called, of all.
    pub total_share: f64,
}

/// The share of a lock function for one lock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LockShare {
    /// The lock function.
    pub function: String,
    /// The lock.
    pub lock: Lock,
    /// Of all samples.
    pub share: f64,
    /// Callers with their shares, the largest first.
    pub callers: Vec<(String, f64)>,
}

/// Functions that rules ask for by what they call: little of their time is their own, so
/// that they may stand far down.
const ALWAYS: &[&str] = &[
    "BasicOpenFilePerm",
    "CheckDeadLock",
    "ClientCheckTimeoutHandler",
    "DeadLockCheck",
    "EmitErrorReport",
    "ExplainPrintJITSummary",
    "ExplainPrintPlan",
    "ExplainPrintTriggers",
    "ExplainQueryParameters",
    "ExplainQueryText",
    "FlushLocalBuffer",
    "GetLocalVictimBuffer",
    "GetOldSnapshotThresholdTimestamp",
    "GetSnapshotData",
    "InstrStartNode",
    "InstrStopNode",
    "IssuePendingWritebacks",
    "LocalBufferAlloc",
    "LocalToUtf",
    "KnownAssignedXidsGetAndSetXmin",
    "LruDelete",
    "MaintainOldSnapshotTimeMapping",
    "PathNameOpenFilePerm",
    "ScheduleBufferTagForWriteback",
    "SubTransGetParent",
    "SubTransGetTopmostTransaction",
    "TestForOldSnapshot_impl",
    "TransactionIdLimitedForOldSnapshots",
    "TransactionTreeSetCommitTsData",
    "UtfToLocal",
    "XLogCompressBackupBlock",
    "XLogFileInit",
    "XLogFileInitInternal",
    "XLogInsert",
    "XLogInsertRecord",
    "XLogRecordAssemble",
    "byteaout",
    "do_filp_open",
    "do_sys_openat2",
    "dsm_impl_mmap",
    "dsm_impl_posix_resize",
    "entry_dealloc",
    "errfinish",
    "format_node_dump",
    "gc_qtexts",
    "llvm_compile_module",
    "llvm_get_function",
    "need_gc_qtexts",
    "outNode",
    "perform_default_encoding_conversion",
    "pg_any_to_server",
    "pg_do_encoding_conversion",
    "pg_server_to_any",
    "pglz_compress",
    "pgss_ExecutorEnd",
    "pgss_ExecutorStart",
    "pgss_store",
    "pgstat_bestart",
    "pgstat_build_snapshot",
    "pgstat_end_function_usage",
    "pgstat_fetch_stat_beentry",
    "pgstat_get_backend_current_activity",
    "pgstat_init_function_usage",
    "pgstat_prep_snapshot",
    "pgstat_read_current_status",
    "pgstat_report_activity",
    "pq_check_connection",
    "pretty_format_node_dump",
    "qtext_load_file",
    "qtext_store",
];

impl Summary {
    /// The share of a class; 0 where it has no sample.
    pub fn class(&self, class: Class) -> f64 {
        let found = self.classes.iter().find(|c| c.class == class);
        found.map_or(0.0, |c| c.share)
    }

    /// The share of samples within some work; none where nothing shows callers, or no sample is.
    pub fn within(&self, work: Work) -> Option<f64> {
        let found = self.within.iter().find(|w| w.work == work);
        found.map(|w| w.share)
    }

    /// Whether the samples speak for at least this much of everything, seen as this share of
    /// them: by the lower bound of the share, and ten samples show nothing. A listing that does
    /// not tell its samples is taken as it is.
    pub fn shows(&self, share: f64, least: f64) -> bool {
        match self.samples {
            None => share >= least,
            Some(n) => share * n as f64 > TOO_FEW && at_least(share, n) >= least,
        }
    }

    /// A function by name, where it is among those listed.
    pub fn function(&self, symbol: &str) -> Option<&FunctionShare> {
        self.functions.iter().find(|f| f.symbol == symbol)
    }

    /// The share of samples in lock functions for a lock, and the callers.
    pub fn lock(&self, lock: Lock) -> f64 {
        let of = self.locks.iter().filter(|l| l.lock == lock);
        of.map(|l| l.share).sum()
    }
}

/// Reduces a profile to figures.
pub fn summarise(profile: &Profile) -> Summary {
    // A listing's shares are of all samples already, however early it ends.
    let whole = profile.whole();
    let machine = match profile.unit {
        Unit::Samples => profile.machine(),
        Unit::Percent => profile.machine().max(100.0),
    };
    let call_chains = profile.has_call_chains();
    let mut classes: BTreeMap<Class, f64> = BTreeMap::new();
    let mut functions: BTreeMap<(&str, &str), Sums> = BTreeMap::new();
    let mut locks: BTreeMap<(&str, Lock), BTreeMap<&str, f64>> = BTreeMap::new();
    let mut objects: BTreeMap<&str, f64> = BTreeMap::new();
    let mut within: BTreeMap<Work, f64> = BTreeMap::new();
    let mut unnamed = 0.0;
    for (chain, weight) in profile.stacks() {
        let class = class::of(&chain);
        *classes.entry(class).or_default() += weight;
        // A function that begins some work has hardly any time of its own.
        for work in within::of(&chain).into_iter().filter(|_| call_chains) {
            *within.entry(work).or_default() += weight;
        }
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for frame in &chain {
            let key = (frame.symbol.as_str(), frame.object.as_str());
            // A function that calls itself counts once.
            if !seen.contains(&key) {
                functions.entry(key).or_default().total += weight;
                seen.push(key);
            }
        }
        if let Some(frame) = chain.last() {
            *objects.entry(&frame.object).or_default() += weight;
            let sums = functions.entry((&frame.symbol, &frame.object)).or_default();
            sums.own += weight;
            *sums.classes.entry(class).or_default() += weight;
            if frame.symbol == UNKNOWN {
                unnamed += weight;
            }
        }
        if let Some(taken) = lock::of(&chain) {
            let callers = locks.entry((taken.function, taken.lock)).or_default();
            *callers.entry(taken.caller.unwrap_or("")).or_default() += weight;
        }
    }
    for (frame, weight) in profile.inclusive() {
        let weight = weight.min(whole);
        let sums = functions.entry((&frame.symbol, &frame.object)).or_default();
        sums.total = sums.total.max(weight);
        // The outermost of several functions of one kind of work has the largest share.
        for work in within::of_function(frame) {
            let known = within.entry(work).or_default();
            *known = known.max(weight);
        }
    }
    let mut classes: Vec<ClassShare> = classes
        .into_iter()
        .map(|(class, weight)| ClassShare {
            class,
            share: weight / whole,
        })
        .collect();
    let place = |c: &ClassShare| CLASSES.iter().position(|of| *of == c.class);
    classes.sort_by(|a, b| b.share.total_cmp(&a.share).then(place(a).cmp(&place(b))));
    let mut objects: Vec<ObjectShare> = objects
        .into_iter()
        .map(|(object, weight)| ObjectShare {
            object: object.to_owned(),
            share: weight / whole,
        })
        .collect();
    objects.sort_by(|a, b| b.share.total_cmp(&a.share));
    objects.truncate(LISTED);
    let mut functions: Vec<FunctionShare> = functions
        .into_iter()
        .filter(|((symbol, _), sums)| sums.own > 0.0 || ALWAYS.contains(symbol))
        .map(|((symbol, object), sums)| FunctionShare {
            symbol: symbol.to_owned(),
            object: object.to_owned(),
            class: sums.most().unwrap_or(Class::Other),
            own_share: sums.own / whole,
            total_share: sums.total / whole,
        })
        .collect();
    functions.sort_by(|a, b| b.own_share.total_cmp(&a.own_share));
    let beyond = functions.split_off(LISTED.min(functions.len()));
    functions.extend(
        beyond
            .into_iter()
            .filter(|f| ALWAYS.contains(&f.symbol.as_str())),
    );
    let mut locks: Vec<LockShare> = locks
        .into_iter()
        .map(|((function, lock), callers)| {
            let mut callers: Vec<(String, f64)> = callers
                .into_iter()
                .map(|(name, weight)| (name.to_owned(), weight / whole))
                .collect();
            callers.sort_by(|a, b| b.1.total_cmp(&a.1));
            let share = callers.iter().map(|(_, share)| share).sum();
            callers.retain(|(name, _)| !name.is_empty());
            callers.truncate(8);
            LockShare {
                function: function.to_owned(),
                lock,
                share,
                callers,
            }
        })
        .collect();
    locks.sort_by(|a, b| b.share.total_cmp(&a.share));
    let mut within: Vec<WithinShare> = within
        .into_iter()
        .map(|(work, weight)| WithinShare {
            work,
            share: weight / whole,
        })
        .collect();
    within.sort_by(|a, b| b.share.total_cmp(&a.share));
    Summary {
        samples: (profile.unit == Unit::Samples).then_some(profile.total.round() as u64),
        accounted_share: (profile.total / whole).min(1.0),
        idle_share: profile.idle / machine,
        others: profile
            .others
            .iter()
            .take(LISTED)
            .map(|(program, weight)| ProgramShare {
                program: program.clone(),
                share: weight / machine,
            })
            .collect(),
        call_chains,
        unnamed_share: unnamed / whole,
        classes,
        objects,
        functions,
        locks,
        within,
        remarks: profile.remarks.clone(),
    }
}

#[derive(Default)]
struct Sums {
    own: f64,
    total: f64,
    classes: BTreeMap<Class, f64>,
}

impl Sums {
    fn most(&self) -> Option<Class> {
        let classes = self.classes.iter();
        classes.max_by(|a, b| a.1.total_cmp(b.1)).map(|(c, _)| *c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_samples_show_nothing() {
        let of = |samples| Summary {
            samples,
            ..summarise(&Profile::parse("    30.00%  postgres  postgres  [.] s_lock\n").unwrap())
        };
        for n in [10, 11, 100] {
            assert!(!of(Some(n)).shows(10.0 / n as f64, 0.05), "10 of {n}");
        }
        assert!(of(Some(100)).shows(0.12, 0.05));
        assert!(!of(Some(100)).shows(0.12, 0.1));
        assert!(of(None).shows(0.1, 0.1));
    }

    #[test]
    fn shares_are_of_all_samples() {
        let text = "    30.00%  postgres  postgres  [.] s_lock\n            |\n            ---s_lock\n               |\n               |--20.00%--PinBuffer\n                --10.00%--UnpinBuffer\n    10.00%  postgres  postgres  [.] GetSnapshotData\n";
        let summary = summarise(&Profile::parse(text).unwrap());
        assert!((summary.class(Class::Spinlock) - 0.3).abs() < 1e-9);
        assert!((summary.lock(Lock::BufferHeader) - 0.3).abs() < 1e-9);
        assert_eq!(summary.locks[0].callers[0].0, "PinBuffer");
        assert!((summary.accounted_share - 0.4).abs() < 1e-9);
        assert_eq!(summary.samples, None);
        assert_eq!(summary.functions[0].symbol, "s_lock");
        assert!(summary.call_chains);
    }

    #[test]
    fn other_programs_and_idle_cpus_have_no_part_in_the_server_s_shares() {
        let text = "    70.00%  swapper  [kernel.kallsyms]  [k] intel_idle\n    12.00%  postgres  postgres  [.] s_lock\n     6.00%  postgres  postgres  [.] GetSnapshotData\n     4.00%  java  libjvm.so  [.] copy\n";
        let summary = summarise(&Profile::parse(text).unwrap());
        let near = |share: f64, expected: f64| (share - expected).abs() < 1e-9;
        assert!(near(summary.class(Class::Spinlock), 12.0 / 18.0));
        assert!(near(summary.idle_share, 0.7));
        assert_eq!(summary.others[0].program, "java");
        assert!(near(summary.others[0].share, 0.04));
        assert!(near(summary.accounted_share, 1.0));
        // Of a listing that shows half of the machine, the other half is divided alike.
        let text = text.replace("70.00%", "28.00%");
        let summary = summarise(&Profile::parse(&text).unwrap());
        assert!(near(summary.class(Class::Spinlock), 12.0 / 36.0));
        assert!(near(summary.accounted_share, 0.5));
    }

    #[test]
    fn a_column_with_what_functions_called_shows_what_samples_were_spent_within() {
        let text = "    60.00%     0.50%  postgres  postgres  [.] SubTransGetTopmostTransaction\n    55.00%     1.00%  postgres  postgres  [.] SubTransGetParent\n    30.00%    30.00%  postgres  postgres  [.] LWLockAttemptLock\n";
        let summary = summarise(&Profile::parse(text).unwrap());
        assert_eq!(summary.within(Work::Subtransactions), Some(0.6));
        assert_eq!(
            summary
                .function("SubTransGetTopmostTransaction")
                .unwrap()
                .total_share,
            0.6
        );
        assert_eq!(summary.within(Work::Planning), None);
    }

    #[test]
    fn without_callers_nobody_knows_what_samples_were_spent_within() {
        let flat = "    20.00%  postgres  postgres  [.] raw_parser\n    80.00%  postgres  postgres  [.] ExecScan\n";
        let summary = summarise(&Profile::parse(flat).unwrap());
        assert!(!summary.call_chains);
        assert_eq!(summary.within(Work::Parsing), None);
        let chains = "    20.00%  postgres  postgres  [.] palloc\n            |\n            ---raw_parser\n               palloc\n";
        let summary = summarise(&Profile::parse(chains).unwrap());
        assert!(summary.call_chains);
        assert!(
            summary
                .within(Work::Parsing)
                .is_some_and(|share| (share - 0.2).abs() < 1e-9)
        );
    }
}
