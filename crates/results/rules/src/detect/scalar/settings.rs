//! Settings of the server and of the kernel that are found by their value alone: one row each.

use crate::detect::shown;
use crate::detect::wal::standby_state::instead_of_waiting;
use crate::fact_view::FactView;
use crate::finding::{
    Confidence, Judged, NotJudged, Observation, Severity, StepKind, not_applicable, passed,
};
use Bad::{AtLeast, Below, Is, IsNot};
use Confidence::{High as Sure, Low as Possible, Medium as Likely};
use Severity::{High, Low, Medium};
use What::{Kernel, Setting};
use pgassay_evidence::server::LONG_COMMIT_DELAY_US;

/// A value that is as it should not be. Rows of one entry are judged together.
struct Row {
    entry: &'static str,
    what: What,
    bad: Bad,
    severity: Severity,
    confidence: Confidence,
    /// What that value does, after the name and the value.
    says: &'static str,
    fix: Fix,
}

/// Where the value is read.
enum What {
    /// A setting of the server.
    Setting(&'static str),
    /// A file of the kernel.
    Kernel(&'static str),
}

/// Which values are bad.
enum Bad {
    Is(&'static [&'static str]),
    IsNot(&'static [&'static str]),
    Below(f64),
    AtLeast(f64),
}

/// What is done about it.
enum Fix {
    /// Back to its default, wherever it was set.
    Reset,
    /// Another value, wherever it was set.
    Set(&'static str),
    Sql(&'static str),
    Shell(&'static str),
}

const fn row(
    entry: &'static str,
    what: What,
    bad: Bad,
    (severity, confidence): (Severity, Confidence),
    says: &'static str,
    fix: Fix,
) -> Row {
    Row {
        entry,
        what,
        bad,
        severity,
        confidence,
        says,
        fix,
    }
}

/// A setting of developers, with its harmless values.
const fn developer(
    name: &'static str,
    harmless: &'static [&'static str],
    severity: Severity,
) -> Row {
    let weight = (severity, Sure);
    row(
        "developer-settings",
        Setting(name),
        IsNot(harmless),
        weight,
        "",
        Fix::Reset,
    )
}

/// A setting that writes a line for every statement.
const fn logs(
    name: &'static str,
    values: &'static [&'static str],
    severity: Severity,
    fix: Fix,
) -> Row {
    let weight = (severity, Sure);
    row(
        "statement-logging",
        Setting(name),
        Is(values),
        weight,
        "",
        fix,
    )
}

/// Applications may rely on the stricter level for their results.
const WITHOUT_ISOLATION: Fix = Fix::Sql(
    "ALTER SYSTEM RESET default_transaction_isolation; SELECT pg_reload_conf();   -- only where no application relies on it; \
     those that do ask for it themselves (BEGIN ISOLATION LEVEL …)",
);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("assertions", Setting("debug_assertions"), Is(&["on"]), (High, Sure),
        "the server checks itself at every step",
        Fix::Shell("pgassay build SOURCE --variant plain   # or any build configured without --enable-cassert")),
    row("fsync-off", Setting("fsync"), Is(&["off"]), (High, Sure),
        "a crash can corrupt the data, and write figures are not those of a durable server",
        Fix::Sql("ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();   -- then sync the disks once")),
    row("full-page-writes-off", Setting("full_page_writes"), Is(&["off"]), (High, Sure),
        "a crash can leave torn pages", Fix::Set("on")),
    row("synchronous-commit-off", Setting("synchronous_commit"), Is(&["off"]), (Low, Sure),
        "the last commits are lost in a crash, and write figures leave the device out", Fix::Reset),
    row("commit-delay", Setting("commit_delay"), AtLeast(LONG_COMMIT_DELAY_US), (Medium, Likely),
        "commits sleep for that many microseconds if commit_siblings other transactions are open",
        Fix::Reset),
    row("checkpoint-spread", Setting("checkpoint_completion_target"), Below(0.7), (Low, Possible),
        "a checkpoint writes in a burst", Fix::Set("0.9")),
    row("checkpoint-spread", Setting("checkpoint_timeout"), Below(180.0), (Low, Possible),
        "checkpoints are minutes apart at most, and each makes pages go whole into the WAL",
        Fix::Set("15min")),
    row("autovacuum-off", Setting("autovacuum"), Is(&["off"]), (Medium, Sure), "nothing cleans up", Fix::Reset),
    row("autovacuum-off", Setting("track_counts"), Is(&["off"]), (Medium, Sure),
        "autovacuum needs these counts", Fix::Reset),
    row("plan-cache-mode", Setting("plan_cache_mode"), Is(&["force_custom_plan"]), (Medium, Likely),
        "prepared statements are planned at each execution", Fix::Reset),
    row("default-isolation", Setting("default_transaction_isolation"), Is(&["serializable"]), (High, Likely),
        "every transaction takes predicate locks, and those that conflict fail with SQLSTATE 40001", WITHOUT_ISOLATION),
    row("default-isolation", Setting("default_transaction_isolation"), Is(&["repeatable read"]), (Low, Likely),
        "transactions that change the same row as another fail with SQLSTATE 40001", WITHOUT_ISOLATION),
    row("direct-io", Setting("debug_io_direct"), IsNot(&[""]), (Medium, Sure),
        "reads go past the page cache", Fix::Sql("ALTER SYSTEM RESET debug_io_direct;   -- then restart")),
    row("zone-reclaim", Kernel("/proc/sys/vm/zone_reclaim_mode"), IsNot(&["0"]), (Medium, Sure),
        "a full node drops its cache", Fix::Shell("sysctl -w vm.zone_reclaim_mode=0")),
    row("overcommit", Kernel("/proc/sys/vm/overcommit_memory"), Is(&["1"]), (Low, Sure),
        "every allocation is granted",
        Fix::Shell("grep -E 'CommitLimit|Committed_AS' /proc/meminfo   # with vm.overcommit_memory=2 allocations and forks fail beyond \
                    the first; where vm.overcommit_ratio leaves room: sysctl -w vm.overcommit_memory=2")),
    logs("log_statement", &["all"], Medium, Fix::Set("ddl")),
    logs("log_statement", &["mod"], Low, Fix::Set("ddl")),
    // From debug2 on there are lines for each statement and transaction.
    logs("log_min_messages", &["debug", "debug2", "debug3", "debug4", "debug5"], High, Fix::Reset),
    logs("log_min_duration_statement", &["0"], Medium, Fix::Set("250ms")),
    logs("log_duration", &["on"], Medium, Fix::Reset),
    logs("log_statement_stats", &["on"], Medium, Fix::Reset),
    logs("log_parser_stats", &["on"], Medium, Fix::Reset),
    logs("log_planner_stats", &["on"], Medium, Fix::Reset),
    logs("log_executor_stats", &["on"], Medium, Fix::Reset),
    developer("debug_discard_caches", &["0"], High),
    developer("debug_invalidate_system_caches_always", &["0"], High),
    developer("debug_parallel_query", &["off"], High),
    developer("force_parallel_mode", &["off"], High),
    developer("ignore_system_indexes", &["off"], High),
    developer("jit_debugging_support", &["off"], Medium),
    developer("jit_profiling_support", &["off"], Medium),
    developer("trace_sort", &["off"], Medium),
    developer("zero_damaged_pages", &["off"], Medium),
    developer("post_auth_delay", &["0"], High),
    developer("pre_auth_delay", &["0"], High),
    developer("trace_notify", &["off"], Medium),
    developer("jit_dump_bitcode", &["off"], Medium),
    developer("enable_indexscan", &["on"], Medium),
    developer("enable_seqscan", &["on"], Medium),
    developer("enable_hashjoin", &["on"], Medium),
    developer("enable_nestloop", &["on"], Medium),
    developer("enable_bitmapscan", &["on"], Medium),
    developer("enable_sort", &["on"], Medium),
    developer("enable_indexonlyscan", &["on"], Medium),
    developer("enable_mergejoin", &["on"], Medium),
    developer("enable_hashagg", &["on"], Medium),
    developer("enable_material", &["on"], Medium),
    developer("enable_memoize", &["on"], Medium),
    developer("enable_partition_pruning", &["on"], Medium),
    developer("constraint_exclusion", &["partition", "on"], Medium),
];

/// What the values of an entry have in common, before their list.
const LEADS: &[(&str, &str)] = &[
    ("statement-logging", "Logged for every statement: "),
    ("developer-settings", "Set for all sessions: "),
];

/// What was measured of an entry's values.
type Measured = fn(&FactView) -> Option<String>;

/// Entries of which something was.
const MEASURED: &[(&str, Measured)] = &[("statement-logging", |facts| {
    let rate = facts.log_rate().ok().filter(|rate| *rate >= 1.0)?;
    Some(format!(
        "the server's log grew by {} a second",
        shown(rate as u64)
    ))
})];

/// Why an entry's values are fine, or no question, on this server.
type Excuse = fn(&FactView) -> Result<Option<String>, NotJudged>;

/// Entries with an excuse.
const EXCUSES: &[(&str, Excuse)] =
    &[
        ("full-page-writes-off", |facts| {
            let zfs = facts
                .text("mountinfo of the data")
                .is_ok_and(|line| line.contains(" - zfs "));
            let excused = zfs && !facts.on("full_page_writes")?;
            Ok(excused
                .then(|| "full_page_writes = off, on ZFS, which writes whole records".to_owned()))
        }),
        ("zone-reclaim", |facts| {
            match facts.of_host("the number of NUMA nodes", |h| h.numa_nodes)? {
                0 | 1 => not_applicable("the machine has one NUMA node"),
                _ => Ok(None),
            }
        }),
        ("overcommit", |facts| {
            match facts.of_host("a container", |h| h.container.clone()) {
                Ok(container) => {
                    not_applicable(format!("in a container ({container}) the host decides"))
                }
                Err(_) => Ok(None),
            }
        }),
    ];

/// The entries that have rows, each once.
pub fn entries() -> impl Iterator<Item = &'static str> {
    ROWS.chunk_by(|a, b| a.entry == b.entry)
        .map(|rows| rows[0].entry)
}

/// What the rows of an entry say; none if it has none.
pub fn judge(entry: &str, facts: &FactView) -> Option<Judged> {
    let rows = ROWS.chunk_by(|a, b| a.entry == b.entry);
    let rows = rows.into_iter().find(|rows| rows[0].entry == entry)?;
    Some(of_rows(rows, facts))
}

fn of_rows(rows: &[Row], facts: &FactView) -> Judged {
    for (entry, excuse) in EXCUSES {
        if *entry == rows[0].entry
            && let Some(fine) = excuse(facts)?
        {
            return passed(fine);
        }
    }
    let mut fine: Vec<String> = Vec::new();
    let mut unread: Option<NotJudged> = None;
    let mut bad: Vec<(String, &Row)> = Vec::new();
    for row in rows {
        match row.read(facts) {
            Ok(value) if row.bad.has(&value) => bad.push((row.words(&value, facts), row)),
            Ok(value) => fine.push(format!("{} = {value}", row.name())),
            // A version without the setting has no such value either.
            Err(NotJudged::NotApplicable(why)) => {
                unread.get_or_insert(NotJudged::NotApplicable(why));
            }
            Err(unseen) => return Err(unseen),
        }
    }
    let weight = bad.iter().map(|(_, r)| (r.severity, r.confidence)).max();
    let Some((severity, confidence)) = weight else {
        fine.dedup();
        return match (unread, fine.len()) {
            (Some(why), 0) => Err(why),
            (_, 0..=3) => passed(fine.join(", ")),
            (_, n) => passed(format!("{n} settings are as they should be")),
        };
    };
    let measured = MEASURED.iter().filter(|(entry, _)| *entry == rows[0].entry);
    let measured = measured.filter_map(|(_, measure)| measure(facts));
    let words = bad.iter().map(|(words, _)| words.clone());
    let words: Vec<String> = words.chain(measured).collect();
    let lead = LEADS.iter().find(|(entry, _)| *entry == rows[0].entry);
    let lead = lead.map_or("", |(_, lead)| lead);
    let saw = format!("{lead}{}.", words.join("; "));
    let mut found = Observation::new(severity, confidence, saw);
    if rows[0].entry == "synchronous-commit-off"
        && let Some(found) = instead_of_waiting(facts, found.clone())
    {
        return found.found();
    }
    for (_, row) in bad {
        let (kind, text) = match row.fix {
            Fix::Reset => (StepKind::Sql, altered(&format!("RESET {}", row.name()))),
            Fix::Set(value) => (
                StepKind::Sql,
                altered(&format!("SET {} = '{value}'", row.name())),
            ),
            Fix::Sql(text) => (StepKind::Sql, text.to_owned()),
            Fix::Shell(text) => (StepKind::Shell, text.to_owned()),
        };
        found = found.step(kind, text);
    }
    found.found()
}

/// The statement that changes a setting; `origin` fits it to where the setting comes from.
fn altered(how: &str) -> String {
    format!("ALTER SYSTEM {how}; SELECT pg_reload_conf();")
}

impl Row {
    fn name(&self) -> &'static str {
        match self.what {
            Setting(name) | Kernel(name) => name,
        }
    }

    fn read(&self, facts: &FactView) -> Result<String, NotJudged> {
        match self.what {
            Setting(name) => facts.value(name).map(|value| value.trim().to_owned()),
            Kernel(path) => facts.text(path).map(str::to_owned),
        }
    }

    /// `fsync = off: a crash can corrupt the data`.
    fn words(&self, value: &str, facts: &FactView) -> String {
        let place = match self.what {
            Setting(name) => facts.set_where(name),
            Kernel(_) => "",
        };
        match self.says {
            "" => format!("{} = {value}{place}", self.name()),
            says => format!("{} = {value}{place}: {says}", self.name()),
        }
    }
}

impl Bad {
    fn has(&self, value: &str) -> bool {
        let number = value.parse::<f64>();
        match self {
            Is(values) => values.contains(&value),
            IsNot(values) => !values.contains(&value),
            Below(limit) => number.is_ok_and(|n| n < *limit),
            AtLeast(limit) => number.is_ok_and(|n| n >= *limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_an_entry_stand_together() {
        let mut entries: Vec<&str> = entries().collect();
        let groups = entries.len();
        entries.sort_unstable();
        entries.dedup();
        assert_eq!(entries.len(), groups, "an entry's rows are apart");
    }

    #[test]
    fn excuses_and_leads_are_for_entries_with_rows() {
        let excused = EXCUSES.iter().map(|(entry, _)| entry);
        for entry in excused.chain(LEADS.iter().map(|(entry, _)| entry)) {
            assert!(entries().any(|e| e == *entry), "{entry}");
        }
    }
}
