//! What the server's own counters of tables and indexes show of a run.

use crate::detect::common::hits::{Part, weighty};
use crate::detect::common::horizon;
use crate::detect::common::horizon::{Cause, FEW_DEAD, OLD, ORPHANED, began};
use crate::detect::{Detector, is_off, run, tenths};
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Basis, Confidence, Observation, Severity};
use pgassay_evidence::observed::statements::StatementTime;
use pgassay_model::observed::growth::{Grown, GrowthRecord, HoldsHorizon};

pub const DETECTORS: &[Detector] = &[
    run("autovacuum-behind", behind),
    run("horizon-held", held),
    run("swollen-table", swollen),
];
/// Blocks that a look-up by index takes, its row included, on a sound table.
const SOUND: f64 = 8.0;
/// Blocks that writing a row takes, its indexes included, at most.
const OF_A_WRITE: f64 = 12.0;
/// What both take as a rule: an index of three levels and the row's page; a place for the row and the way to it.
const OF_A_SCAN: f64 = 4.0;
const USUALLY_WRITTEN: f64 = 6.0;
/// Pages up to which a table is so small that one after the other of its rows is on the same.
const TINY: f64 = 2.0;
/// Rows on a page of a table that was never vacuumed, so that nobody counted: long ones.
const ON_A_PAGE: f64 = 10.0;
/// The part of the blocks beyond what is sound, from which on it is worth a finding.
const EXCESS: f64 = 0.5;

/// A table whose scans look at many more blocks than their rows are on.
struct Met<'a> {
    table: &'a Grown,
    /// Blocks for each scan of it.
    a_scan: f64,
    /// Live rows that each scan found.
    rows: f64,
    /// The part of its blocks that a sound table would not have needed: at least, and as a rule.
    excess: f64,
    usually: f64,
    /// The share of the sessions' time in statements that name it.
    share: f64,
    /// Their share of the server's CPU time.
    cpu_share: f64,
    statement: Option<&'a StatementTime>,
}

/// The part of a table's dead rows that something must hold to be why they are there.
const MOSTLY: f64 = 0.5;

/// Seconds between a vacuum and the analyze that goes with it, at most.
const TOGETHER: f64 = 60.0;

/// Seconds since a vacuum that left a table's dead rows where they are: it was analysed right after, and hardly a
/// row has changed since.
fn left_by_vacuum(table: &Grown) -> Option<f64> {
    let (vacuum, analyze) = (
        table.stands("since_vacuum")?,
        table.stands("since_analyze")?,
    );
    let changed = table.stands("n_mod_since_analyze")?;
    let left = vacuum - analyze <= TOGETHER && changed <= MOSTLY * table.stands("n_dead_tup")?;
    left.then_some(vacuum)
}

/// The setting that keeps the rows of so many transactions, up to 15.
const DEFERS: &str = "vacuum_defer_cleanup_age";

/// The transactions whose dead rows the setting keeps, where those of this table are among them.
fn deferred(run: &RunEvidence, table: &Grown) -> Option<f64> {
    let kept: f64 = run.setting(DEFERS)?.parse().ok()?;
    if kept <= 0.0 {
        return None;
    }
    let longer = run.observed?.growth.as_ref()?.horizon.first();
    let longest = longer.is_none_or(|held| held.transactions <= kept);
    let many = kept >= OLD && kept * of_each(run, table) >= MOSTLY * table.stands("n_dead_tup")?;
    (longest && (many || left_by_vacuum(table).is_some())).then_some(kept)
}

/// Rows of a table that die in a transaction.
fn of_each(run: &RunEvidence, table: &Grown) -> f64 {
    let done = run.observed.and_then(|observed| {
        let rate = observed.counters.as_ref()?.database_rate("xact_commit")?;
        Some(rate * observed.growth_seconds()?)
    });
    let died = table.by("n_tup_upd") + table.by("n_tup_del");
    // Those that write nothing have no number, and are counted in vain.
    done.map_or(died.min(1.0), |done| died / done.max(1.0))
}

/// Transactions that something which was there before keeps the rows of, below which it may have begun a moment ago.
const KEPT: f64 = 100.0;

/// Whether most of a table's dead rows are older than its last vacuum, as fast as rows die now. (Its counters may be told late:
/// a session's come after the vacuum that it sends.)
fn died_before(run: &RunEvidence, table: &Grown) -> bool {
    let seconds = run.observed.and_then(|observed| observed.growth_seconds());
    let died = table.by("n_tup_upd") + table.by("n_tup_del");
    let since = seconds
        .zip(table.stands("since_vacuum"))
        .map(|(seconds, vacuum)| died / seconds * vacuum);
    let dead = table.stands("n_dead_tup").unwrap_or(0.0);
    since.is_some_and(|since| since <= MOSTLY * dead)
}

/// What keeps a table's dead rows from being removed: as many of them as died in the transactions since, or those
/// that a vacuum left while it was there.
fn holder<'a>(run: &RunEvidence<'a>, table: &Grown) -> Option<&'a HoldsHorizon> {
    let observed = run.observed?;
    let dead = table.stands("n_dead_tup")?;
    let counters = observed.counters.as_ref();
    let of_each = of_each(run, table);
    let left = left_by_vacuum(table);
    let mut held = observed.growth.as_ref()?.horizon.iter();
    held.find(|held| {
        let since = held.transactions * of_each;
        let old = held.transactions >= OLD && since >= MOSTLY * dead;
        // One that is prepared waits milliseconds for its second half, unless nobody is left to send that.
        let before = counters.map_or(ORPHANED, |c| c.seconds.max(ORPHANED));
        let orphaned = held.kind == "prepared transaction" && held.seconds >= Some(before);
        let under_it = left.is_some_and(|vacuum| match held.seconds {
            Some(seconds) => seconds >= vacuum,
            None => held.from_before && held.transactions >= 1.0,
        });
        // A slot that nobody reads holds all that died since it was left, however few transactions these were.
        let left_behind =
            held.kind == "replication slot" && held.state == "inactive" && held.from_before;
        let kept = held.from_before && held.transactions >= KEPT && died_before(run, table);
        !held.catalogs_only && (old || orphaned || under_it || left_behind || kept)
    })
}

fn behind(evidence: &Evidence) -> Option<Observation> {
    let (seen, worst) = dead_rows_met(evidence)?;
    // No vacuum removes what is held.
    let run = evidence.run?;
    if holder(&run, worst).is_some() || deferred(&run, worst).is_some() {
        return None;
    }
    let parameters = hampering(&evidence.run?, &worst.name);
    if let Some(seen) = without(seen.clone(), worst, &parameters) {
        return Some(seen);
    }
    let seen = seen.sql(format!("VACUUM (ANALYZE, VERBOSE) {};", worst.name));
    Some(
        with_rewrite(seen, worst)
            .advice(
                "see that autovacuum comes often enough: ALTER TABLE … SET (autovacuum_vacuum_scale_factor = \
                 0, autovacuum_vacuum_threshold = 1000)",
            )
            .advice(
                "if VACUUM says that dead rows cannot be removed yet, something old holds them: see \
                 pgassay check --explain horizon-held",
            ),
    )
}

/// With the rewriting of a table that is read whole: a vacuum frees the room of its dead rows and keeps the pages.
fn with_rewrite(seen: Observation, table: &Grown) -> Observation {
    let stands = |figure: &str| table.stands(figure).unwrap_or(0.0);
    let whole = table.by("seq_tup_read") >= MOSTLY * table.rows_read();
    let empty = stands("n_dead_tup") >= stands("n_live_tup") && stands("relpages") >= FEW_PAGES;
    if !(whole && empty) {
        return seen;
    }
    seen.sql(format!(
        "VACUUM (FULL, ANALYZE) {};   -- once, in the place of VACUUM: that keeps the {:.0} pages, which are read whole; it \
         locks the table until it is rewritten, which pg_repack does beside its readers and writers",
        table.name,
        stands("relpages")
    ))
}

/// Storage parameters of a table that keep vacuum from its work, with their values.
fn hampering<'a>(run: &RunEvidence<'a>, table: &str) -> Vec<(&'a str, &'a str)> {
    let plans = weighty(run).filter_map(|s| s.plan.as_ref());
    let mut facts = plans.filter_map(|plan| plan.relations.get(table));
    let Some(facts) = facts.next() else {
        return Vec::new();
    };
    let options = facts.options.iter();
    let options = options.map(|(name, value)| (name.as_str(), value.as_str()));
    options
        .filter(|(name, value)| {
            matches!(*name, "vacuum_index_cleanup" | "autovacuum_enabled") && is_off(value)
        })
        .collect()
}

/// The same where storage parameters of the table keep vacuum from its work; none where none do.
fn without(seen: Observation, worst: &Grown, parameters: &[(&str, &str)]) -> Option<Observation> {
    let (name, value) = parameters.first()?;
    let table = &worst.name;
    let all: Vec<&str> = parameters.iter().map(|(name, _)| *name).collect();
    let cleanup = all.contains(&"vacuum_index_cleanup");
    let why = match cleanup {
        true => {
            "vacuum frees its rows and leaves their entries in the indexes, which scans go through"
        }
        false => "autovacuum does not come to it",
    };
    let options = if cleanup {
        "INDEX_CLEANUP ON, ANALYZE"
    } else {
        "ANALYZE"
    };
    let seen = seen
        .leading(format!("{table} has {name} = {value}: {why}."))
        .sql(format!("ALTER TABLE {table} RESET ({});", all.join(", ")))
        .sql(format!("VACUUM ({options}) {table};"));
    let seen = with_rewrite(seen, worst);
    Some(match cleanup {
        true => seen.advice("REINDEX INDEX CONCURRENTLY where an index stays large; vacuum_index_cleanup is for one emergency, not for good"),
        false => seen,
    })
}

fn held(evidence: &Evidence) -> Option<Observation> {
    let (seen, worst) = dead_rows_met(evidence)?;
    let run = evidence.run?;
    if let Some(kept) = deferred(&run, worst) {
        return Some(by_setting(seen, kept, &worst.name));
    }
    let found = holder(&run, worst)?;
    let all = &run.observed?.growth.as_ref()?.horizon;
    let cause = horizon::cause(all, found);
    let mut seen = seen.leading(format!(
        "{}: {} since.",
        cause.keeps(&format!("the dead rows of {}", worst.name)),
        began(found.transactions)
    ));
    if let Some(vacuum) = left_by_vacuum(worst) {
        seen = seen.seen(format!("the last VACUUM, {vacuum:.0} s ago, left them"));
    }
    if let Cause::Proven(held) = &cause
        && held.kind == "session"
        && !held.statement.is_empty()
    {
        let last = match held.state.as_str() {
            "active" => "it executes",
            _ => "its last statement",
        };
        seen = seen.seen(format!("it is {}; {last}: {}", held.state, held.statement));
    }
    let seen = cause.end(seen, &format!("VACUUM {}", worst.name));
    let seen = with_rewrite(seen, worst);
    if found.kind != "session" {
        return Some(seen);
    }
    let seen = seen.advice(
        "commit as soon as the rows are read; take long reports to a standby or a copy, or read them with READ \
         COMMITTED in short transactions; idle_in_transaction_session_timeout and, from 17 on, transaction_timeout \
         end what was forgotten",
    );
    Some(seen)
}

/// A finding of dead rows that the setting keeps.
fn by_setting(seen: Observation, kept: f64, table: &str) -> Observation {
    seen.leading(format!(
        "{DEFERS} = {kept:.0} keeps the dead rows of {table}: no VACUUM removes what died in the last {kept:.0} \
         transactions."
    ))
    .sql(format!(
        "ALTER SYSTEM RESET {DEFERS}; SELECT pg_reload_conf();   -- also where the configuration file has it"
    ))
    .sql(format!(
        "VACUUM (ANALYZE, VERBOSE) {table};   -- FULL, at a quiet time, if it stays large"
    ))
    .advice(
        "if it was set against cancelled queries on a standby: hot_standby_feedback = on or a larger \
         max_standby_streaming_delay there. 16 has the setting no more",
    )
}

/// Of the tables that are picked the one whose needless blocks cost most.
fn worst<'a>(run: &RunEvidence<'a>, pick: impl Fn(&Grown) -> bool) -> Option<Met<'a>> {
    let growth = run.observed?.growth.as_ref()?;
    let tables = growth.tables.iter().filter(|table| pick(table));
    let met = tables.filter_map(|table| met(run, growth, table));
    met.max_by(|a, b| (a.share * a.excess).total_cmp(&(b.share * b.excess)))
}

/// More dead rows than a table should have.
fn has_dead_rows(table: &Grown) -> bool {
    let dead = table.stands("n_dead_tup").unwrap_or(0.0);
    let live = table.stands("n_live_tup").unwrap_or(0.0);
    dead >= FEW_DEAD && dead >= 0.2 * live
}

/// Pages of a table below which it does not matter how full they are.
const FEW_PAGES: f64 = 100.0;
/// The part of its pages that the last vacuum must have left without dead rows.
const CLEAN: f64 = 0.9;

/// Whether the last vacuum left hardly any rows on a table's pages: fewer than one on each, where the largest rows that
/// a table keeps within its pages, a fourth of a page, would be three. (`relpages`, `reltuples` and `relallvisible` are
/// of the same vacuum.)
pub fn is_swollen(table: &Grown) -> bool {
    let pages = table.stands("relpages").unwrap_or(0.0);
    let rows = table.stands("reltuples").unwrap_or(f64::MAX);
    let visible = table.stands("relallvisible").unwrap_or(0.0);
    pages >= FEW_PAGES && (0.0..pages).contains(&rows) && visible >= CLEAN * pages
}

/// A table that was large once, and whose scans go through all the pages that it had then.
fn swollen(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let worst = worst(&run, is_swollen)?;
    let table = worst.table;
    let pages = table.stands("relpages").unwrap_or(0.0);
    let rows = table.stands("reltuples").unwrap_or(0.0);
    let saw = format!(
        "{} has {rows:.0} rows on {pages:.0} pages, which are mostly empty: each scan looks at {:.0} blocks for \
         {:.1} rows.",
        table.name, worst.a_scan, worst.rows
    );
    Some(
        worst
            .seen(evidence, &run, saw)
            .sql(format!(
                "VACUUM (FULL, ANALYZE) {};   -- locks it until it is rewritten; pg_repack rewrites it beside its readers \
                 and writers, and so does REPACK CONCURRENTLY from 19 on",
                table.name
            ))
            .advice(
                "VACUUM without FULL frees only pages at the end of a table; where it fills and empties again and again, \
                 take partitions and drop them, or TRUNCATE",
            ),
    )
}

/// The table whose dead rows cost most, and what was seen of that; without steps.
fn dead_rows_met<'a>(evidence: &Evidence<'a>) -> Option<(Observation, &'a Grown)> {
    let run = evidence.run?;
    let worst = worst(&run, |table| has_dead_rows(table) && !is_swollen(table))?;
    let table = worst.table;
    let (dead, live) = (
        table.stands("n_dead_tup").unwrap_or(0.0),
        table.stands("n_live_tup").unwrap_or(0.0),
    );
    // Statistics of a table that was filled a moment ago may know of none.
    let beside = match live >= worst.rows {
        true => format!("stand beside {live:.0} live ones"),
        false => "are in the way".to_owned(),
    };
    let saw = format!(
        "Scans of {} look at {:.0} blocks for each {:.1} rows that they find: {dead:.0} dead rows {beside}.",
        table.name, worst.a_scan, worst.rows
    );
    Some((worst.seen(evidence, &run, saw), table))
}

impl Met<'_> {
    /// A finding of it; without steps.
    fn seen(&self, evidence: &Evidence, run: &RunEvidence, saw: String) -> Observation {
        let share = self.share * self.excess;
        // What each statement takes around its scans stays.
        let spared = self.statement.map_or(self.usually, |statement| {
            Part::of_work(evidence, statement, self.usually).time
        });
        let seen = Observation::measured(Basis::Statements, Some(self.share), saw)
            .of_cpu(self.cpu_share)
            .covers(share)
            .expects(
                spared,
                "the blocks that scans of a sound table would not look at",
            )
            .severity(if share >= 0.3 {
                Severity::High
            } else {
                Severity::Medium
            })
            .confidence(Confidence::High)
            .seen(format!(
                "{} of {} goes to statements that name it",
                tenths(self.share),
                run.whole()
            ));
        seen.of_relations([self.table.name.as_str()])
            .most_in(self.statement)
    }
}

fn met<'a>(run: &RunEvidence<'a>, growth: &GrowthRecord, table: &'a Grown) -> Option<Met<'a>> {
    let scans = table.scans();
    if scans < 1.0 {
        return None;
    }
    let of = growth
        .indexes
        .iter()
        .filter(|i| i.of.as_deref() == Some(&table.name));
    // The view of tables counts the blocks of its indexes, too; that of indexes may be cut. What nobody scans
    // is only written, and a dead row does not make that dearer.
    let blocks_of = |index: &Grown| index.by("idx_blks_hit") + index.by("idx_blks_read");
    let (scanned, written_only): (Vec<&Grown>, Vec<&Grown>) =
        of.partition(|index| index.by("idx_scan") > 0.0);
    let of_scanned: f64 = scanned.into_iter().map(blocks_of).sum();
    let of_others: f64 = written_only.into_iter().map(blocks_of).sum();
    let counted = table.by("idx_blks_hit") + table.by("idx_blks_read");
    let heap = table.by("heap_blks_hit") + table.by("heap_blks_read");
    let blocks = heap + (counted - of_others).max(of_scanned);
    let written = table.by("n_tup_ins") + table.by("n_tup_upd") + table.by("n_tup_del");
    let found = table.rows_read();
    // A scan of the whole table finds as many rows on a page as lie there, dead ones included.
    let stands = |figure: &str| table.stands(figure).unwrap_or(0.0);
    let lie = (stands("n_live_tup") + stands("n_dead_tup")) / stands("relpages").max(1.0);
    let a_page = if stands("relpages") > 0.0 {
        lie.max(1.0)
    } else {
        1.0
    };
    let pages = table.by("idx_tup_fetch") + table.by("seq_tup_read") / a_page;
    let beyond = |sound: f64| (1.0 - sound / blocks).max(0.0);
    let excess = beyond(SOUND * scans + pages + OF_A_WRITE * written);
    // The rows of a table that fits on a page or two are looked up there once.
    let full = if stands("relpages") > 0.0 {
        a_page
    } else {
        ON_A_PAGE
    };
    let dense = (stands("n_live_tup") / full).max(1.0);
    let of_rows = match dense <= TINY {
        true => pages.min(dense * scans),
        false => pages,
    };
    let usually = beyond(OF_A_SCAN * scans + of_rows + USUALLY_WRITTEN * written);
    if excess < EXCESS {
        return None;
    }
    let statements = run.observed?.statements.as_ref()?;
    let bare = table
        .name
        .rsplit_once('.')
        .map_or(table.name.as_str(), |(_, name)| name);
    let names: Vec<&StatementTime> = statements
        .statements
        .iter()
        .filter(|s| names(&s.text, bare.trim_matches('"')))
        .collect();
    let share: f64 = names.iter().map(|s| s.share).sum();
    let cpu_share: f64 = names.iter().map(|s| s.cpu_share).sum();
    (share >= 0.1).then(|| Met {
        table,
        a_scan: blocks / scans,
        rows: found / scans,
        excess,
        usually,
        share: share.min(1.0),
        cpu_share: cpu_share.min(1.0),
        statement: names.first().copied(),
    })
}

/// Whether a statement's text has a word.
fn names(text: &str, word: &str) -> bool {
    let of_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = text.split(|c| !of_word(c));
    words.any(|w| w.eq_ignore_ascii_case(word))
}

#[cfg(test)]
#[path = "objects/tests.rs"]
mod tests;
