//! What is recorded of primitives: the plan, and one line a trial.

use pgassay_inspect::Binary;
use serde::{Deserialize, Serialize};

use crate::point::Point;

/// What is called inside the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PrimitivesPlan {
    /// The primitives, each in one or several variants, which the points number.
    pub variants: Vec<Variant>,
    /// What was asked for beyond the usual, as the engine writes it down.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub knobs: serde_json::Value,
    /// How the functions were compiled; none where each of several servers has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiled: Option<Compiled>,
}

impl PrimitivesPlan {
    /// Every variant at every session count.
    pub fn points(&self, sessions: &[u32]) -> Vec<Point> {
        points(&self.variants, sessions)
    }

    /// Variants with the same sessions beside them have the same number, the fewest first.
    pub(crate) fn groups(&self) -> Vec<u32> {
        let mut companies: Vec<Company> = self.variants.iter().map(|v| v.company).collect();
        companies.sort_unstable();
        companies.dedup();
        let group = |variant: &Variant| {
            let place = companies.iter().position(|known| *known == variant.company);
            place.unwrap_or(0) as u32
        };
        self.variants.iter().map(group).collect()
    }
}

fn points(variants: &[Variant], sessions: &[u32]) -> Vec<Point> {
    (0..variants.len() as u32)
        .flat_map(|variant| {
            sessions.iter().map(move |&clients| Point {
                clients,
                threads: clients,
                variant,
            })
        })
        .collect()
}

/// What threads of pgassay's own do to memory that they share, without a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelsPlan {
    /// The forms, which the points number.
    pub variants: Vec<Variant>,
    /// The CPUs that threads are kept on, in turn; empty if they are free.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
    /// Turns of private arithmetic after each operation.
    #[serde(default)]
    pub think: u32,
    /// What is counted under emulators, where it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulated: Option<EmulatedPlan>,
}

/// What is counted of kernels under emulators: no time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EmulatedPlan {
    /// The processors.
    pub processors: Vec<String>,
    /// The forms, `FAMILY` or `FAMILY:NAME`; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forms: Vec<String>,
}

impl EmulatedPlan {
    /// Whether a form is among them.
    pub fn has(&self, form: &str) -> bool {
        let family = form.split(':').next();
        let is = |wanted: &String| wanted == form || Some(wanted.as_str()) == family;
        self.forms.is_empty() || self.forms.iter().any(is)
    }
}

impl KernelsPlan {
    /// Every form at every thread count.
    pub fn points(&self, threads: &[u32]) -> Vec<Point> {
        points(&self.variants, threads)
    }
}

/// How the functions inside the server were compiled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compiled {
    /// Path of the library.
    pub library: String,
    /// The compiler's own words.
    pub compiler: String,
    /// Its flags.
    pub flags: Vec<String>,
    /// In what this differs from how the server was compiled; the inlined
    /// primitives are then similar code, not the server's own.
    pub deviations: Vec<String>,
    /// What inspect sees in the library; none in runs recorded before it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary: Option<Binary>,
}

/// One primitive in one way of using it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Variant {
    /// The workload's name: `lwlock`.
    pub primitive: String,
    /// Which way: `exclusive`; empty where there is one.
    pub variant: String,
    /// Sessions beside those that measure.
    #[serde(flatten)]
    pub company: Company,
    /// What an operation is, one sentence.
    pub operation: String,
}

/// Sessions that are connected beside those that measure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Company {
    /// They do nothing.
    #[serde(default)]
    pub idle: u32,
    /// They do nothing in a transaction that has a number.
    #[serde(default)]
    pub idle_in_transaction: u32,
    /// They commit one transaction after the other.
    #[serde(default)]
    pub committing: u32,
}

impl Company {
    /// All of them together.
    pub fn sessions(self) -> u32 {
        self.idle
            .saturating_add(self.idle_in_transaction)
            .saturating_add(self.committing)
    }
}

impl Variant {
    /// `lwlock, exclusive`.
    pub fn title(&self) -> String {
        let mut title = self.primitive.clone();
        if !self.variant.is_empty() {
            title.push_str(", ");
            title.push_str(&self.variant);
        }
        for (sessions, what) in [
            (self.company.idle, "idle"),
            (self.company.idle_in_transaction, "idle in transaction"),
            (self.company.committing, "committing"),
        ] {
            if sessions > 0 {
                title.push_str(&format!(", {sessions} {what}"));
            }
        }
        title
    }
}

/// What only a trial inside the server tells.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InServerTrial {
    /// What each session did, by its slot.
    pub sessions: Vec<SessionOutcome>,
    /// What the sessions were seen waiting for; empty where nobody looked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<WaitSeen>,
    /// Transactions that the committing sessions beside it committed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commits: Option<u64>,
}

impl InServerTrial {
    /// From the release of all sessions to the end of the last, in nanoseconds.
    pub fn window_ns(&self) -> u64 {
        let ends = self.sessions.iter().map(|s| s.late_ns + s.elapsed_ns);
        ends.max().unwrap_or(0)
    }

    /// Operations of all sessions.
    pub fn operations(&self) -> u64 {
        self.sessions.iter().map(|s| s.operations).sum()
    }

    /// CPU time of all sessions, in nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.sessions.iter().map(|s| s.cpu_ns).sum()
    }
}

/// How often sessions were seen in one wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitSeen {
    /// `LWLock:pgassay` as pg_stat_activity names it; empty: no wait.
    pub event: String,
    /// Sessions times looks.
    pub seen: u64,
}

/// What one call returned: the columns of the SQL type `outcome`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionOutcome {
    /// Operations done.
    pub operations: u64,
    /// From this session's start to its end.
    pub elapsed_ns: u64,
    /// CPU time of its process in that time.
    pub cpu_ns: u64,
    /// It started this much after all were released.
    pub late_ns: u64,
    /// Operations (atomics: attempts) that met another session.
    pub contended: Option<u64>,
    /// Sleeps in the spinlock's back-off.
    pub delays: Option<u64>,
    /// Snapshots, or buffer numbers, found as they were.
    pub reused: Option<u64>,
    /// The session's own count of shared buffer hits.
    pub blocks_hit: u64,
    /// Blocks that had to be read.
    pub blocks_read: u64,
    /// WAL written, in bytes.
    pub wal_bytes: u64,
    /// Times it waited.
    pub voluntary_switches: u64,
    /// Times the CPU was taken from it.
    pub involuntary_switches: u64,
    /// Operations done in each tenth of the time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over_time: Vec<u64>,
}
