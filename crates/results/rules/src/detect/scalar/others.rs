//! Whatever else takes a tenth of the time: a finding by its own name, known to a rule or not.
//!
//! Waits are shares of the budget, libraries and functions shares of CPU samples. What a rule has
//! found already is left to it.

use crate::detect::Kind;
use crate::detect::common::hits::Named;
use crate::detect::common::{nodes, wait_shares, waiting};
use crate::detect::links::of_class;
use crate::detect::scalar::waits;
use crate::detect::scalar::{costly_computation, setting_felt};
use crate::detect::tenths;
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Basis, Confidence, Finding, Observation, Severity};
use crate::wait_events;
use pgassay_evidence::observed::budget::Wait;
use pgassay_evidence::profile::Summary;
use pgassay_evidence::profile::class::Class;

/// From this share on anything is named.
const NOTABLE: f64 = 0.1;

/// The entry of waits.
const WAIT: &str = "wait-event";
/// The entry of time off the CPU at no event.
const UNNAMED: &str = "off-cpu-unexplained";
/// The entries of CPU time.
const LIBRARY: &str = "cpu-library";
const FUNCTION: &str = "cpu-function";
const CLASS: &str = "cpu-class";

/// The entries that are found here alone, by the kind of evidence.
pub const ENTRIES: &[(&str, Kind)] = &[
    (WAIT, Kind::Waits),
    (UNNAMED, Kind::Waits),
    (LIBRARY, Kind::Samples),
    (FUNCTION, Kind::Samples),
    (CLASS, Kind::Samples),
    (nodes::NODE, Kind::Run),
    (setting_felt::FELT, Kind::Run),
    (costly_computation::ENTRY, Kind::Samples),
];

/// All of them; `found` is what rules have found.
pub fn look(evidence: &Evidence, findings: &[Finding]) -> Vec<Named> {
    let mut named = Vec::new();
    let found: Vec<&str> = findings.iter().map(|f| f.id.as_str()).collect();
    let found = found.as_slice();
    if let Some(run) = &evidence.run {
        named.extend(waits(evidence, run, found));
        // Commits that sleep do so at no wait event.
        if !found.contains(&"commit-delay") {
            named.extend(unnamed(run));
        }
    }
    named.extend(setting_felt::look(evidence));
    named.extend(nodes::look(evidence, findings));
    if let Some(profile) = evidence.profile {
        named.extend(costly_computation::look(profile, evidence.run.as_ref()));
        named.extend(libraries(profile));
        named.extend(classes(profile, findings));
        named.extend(functions(profile, findings));
    }
    named
}

fn waits(evidence: &Evidence, run: &RunEvidence, found: &[&str]) -> Vec<Named> {
    let Some(off) = run.budget().and_then(|budget| budget.off.as_ref()) else {
        return Vec::new();
    };
    let known = |wait: &&Wait| !waits::is_covered(&wait.kind, &wait.event, found);
    let waits = off.waits.iter().filter(known);
    waits
        .filter_map(|wait| at_wait(evidence, run, wait))
        .collect()
}

fn at_wait(evidence: &Evidence, run: &RunEvidence, wait: &Wait) -> Option<Named> {
    let budget = run.budget()?;
    let share = budget.share(wait.sessions);
    let sampled = run.waits()?;
    let sightings = sampled.share(|e| e.kind == wait.kind && e.event == wait.event);
    if share < NOTABLE || !sampled.shows(sightings, 0.0) {
        return None;
    }
    let name = wait.name();
    let meaning = wait_events::meaning(&wait.kind, &wait.event);
    let saw = match meaning {
        Some(meaning) => format!(
            "Sessions wait {} ({name}): {} of their time in transactions.",
            meaning.what,
            tenths(share)
        ),
        None => format!(
            "Sessions wait at {name}: {} of their time in transactions.",
            tenths(share)
        ),
    };
    // A rule that knows the event has looked at it, and found less than it takes for trouble.
    let severity = match waits::entry_of(&wait.kind, &wait.event) {
        Some(_) => Severity::Low,
        None => Severity::Medium,
    };
    let at = |kind: &str, event: &str| kind == wait.kind && event == wait.event;
    let mut seen = waiting::waiting(evidence, run, (share, saw), at)
        .severity(severity)
        .confidence(Confidence::Medium)
        .seen(format!(
            "{:.2} sessions on average, between {:.2} and {:.2}, with {}",
            wait.sessions,
            wait.least,
            wait.most,
            run.clients()
        ))
        .all_seen(wait_shares::who(run, at));
    if let Some(meaning) = meaning {
        seen = seen.symptom_of(meaning.symptom_of);
    }
    if let Some(setting) = wait_events::setting(&wait.kind, &wait.event) {
        seen = by_setting(evidence, run, setting, seen);
    }
    if let Some(entry) = waits::entry_of(&wait.kind, &wait.event) {
        seen = seen.shell(format!(
            "pgassay check --explain {entry}   # what is known of such waits"
        ));
    }
    if wait.kind == "Lock" {
        seen = seen.all_seen(locked(run, &wait.event));
        seen = seen.sql(
            "SELECT pid, pg_blocking_pids(pid), wait_event, query FROM pg_stat_activity \
             WHERE wait_event_type = 'Lock'   -- while it happens: who waits for whom",
        );
    }
    Some(Named {
        entry: WAIT,
        subject: Some(name.clone()),
        title: format!("Waits at {name}"),
        seen,
    })
}

/// Where it is a setting that has sessions wait: its value, and how it comes back to what the server comes with.
fn by_setting(
    evidence: &Evidence,
    run: &RunEvidence,
    name: &str,
    seen: Observation,
) -> Observation {
    let Some(value) = run.setting(name) else {
        return seen;
    };
    let source = evidence.value_and_source(name).map(|(_, source)| source);
    let seen = seen.seen(format!("{name} = {value}"));
    match source {
        None | Some("default" | "override") => seen,
        Some(_) => seen.sql(format!(
            "ALTER SYSTEM RESET {name}; SELECT pg_reload_conf();"
        )),
    }
}

/// What is locked that sessions wait for at this event, that of most of them first.
fn locked(run: &RunEvidence, event: &str) -> Option<String> {
    let holders = &run.observed?.blockers.as_ref()?.holders;
    let mut objects: Vec<&str> = holders
        .iter()
        .filter(|h| h.awaited == event && !h.object.is_empty())
        .map(|h| h.object.as_str())
        .collect();
    objects.dedup();
    objects.truncate(3);
    (!objects.is_empty()).then(|| format!("what is locked: {}", objects.join(", ")))
}

fn unnamed(run: &RunEvidence) -> Option<Named> {
    let budget = run.budget()?;
    let sessions = budget.off.as_ref()?.unnamed;
    let share = budget.share(sessions);
    if share < NOTABLE || !run.waits()?.shows(share, 0.0) {
        return None;
    }
    let saw = format!(
        "Sessions in a statement were off the CPU at no wait event: {} of their time in transactions.",
        tenths(share)
    );
    let seen = Observation::measured(Basis::WaitTime, Some(share), saw)
        .confidence(Confidence::Medium)
        .seen(format!(
            "{sessions:.2} sessions on average, with {}",
            run.clients()
        ))
        .symptom_of(
            "page faults that read from disk, memory pressure, or a wait that this version of the \
             server or an extension does not name",
        );
    Some(Named {
        entry: UNNAMED,
        subject: None,
        title: "Off the CPU at no wait event".to_owned(),
        seen,
    })
}

/// Libraries beyond the server, the kernel and the C library: each was loaded for something.
fn libraries(profile: &Summary) -> Vec<Named> {
    let beyond = |object: &str| {
        const ALWAYS: &[&str] = &[
            "postgres",
            "libc",
            "libm",
            "ld-",
            "ld-linux",
            "[vdso]",
            "linux-vdso",
        ];
        // Compiled expressions have a rule of their own.
        const JIT: &[&str] = &["llvmjit", "libLLVM", "libllvm"];
        let is = |name: &&str| {
            object == *name
                || object.starts_with(&format!("{name}.so"))
                || object.starts_with(&format!("{name}-"))
        };
        !(object == pgassay_model::observed::stacks::KERNEL
            || object.is_empty()
            || object.starts_with('[')
            || ALWAYS.iter().any(is)
            || JIT.iter().any(|name| object.starts_with(name)))
    };
    let objects = profile.objects.iter().filter(|o| beyond(&o.object));
    objects
        .filter(|o| o.share >= NOTABLE && profile.shows(o.share, 0.0))
        .map(|o| {
            let of = profile.functions.iter().filter(|f| f.object == o.object);
            let seen = Observation::of_samples(
                o.share,
                format!(
                    "{} of the server's CPU time is spent in {}.",
                    tenths(o.share),
                    o.object
                ),
            )
            .all_seen(
                of.take(3)
                    .map(|f| format!("{}: {} of the samples", f.symbol, tenths(f.own_share))),
            );
            Named {
                entry: LIBRARY,
                subject: Some(o.object.clone()),
                title: format!("CPU time in {}", o.object),
                seen,
            }
        })
        .collect()
}

/// Whether a rule says what a function's time goes to.
fn is_told(symbol: &str, findings: &[Finding]) -> bool {
    let mut rules = findings.iter().filter(|f| f.id != "cpu-saturated");
    rules.any(|f| f.subjects.functions.contains(symbol))
}

/// Kinds of work that no rule found too much of. What the server is there for, executing
/// statements, is none of them.
fn classes(profile: &Summary, findings: &[Finding]) -> Vec<Named> {
    let found = |id: &&str| findings.iter().any(|f| f.id == **id);
    let ruled = |class: Class| match (class, of_class(class)) {
        (Class::Executor | Class::Other, _) => true,
        (_, Some(entries)) => entries.iter().any(found),
        (class, None) => {
            let mut functions = profile.functions.iter().filter(|f| f.class == class);
            let hottest = functions.next();
            // One function that is nearly all of it stands for itself.
            hottest.is_some_and(|f| {
                is_told(&f.symbol, findings) || f.own_share >= 0.8 * profile.class(class)
            })
        }
    };
    let classes = profile.classes.iter().filter(|c| !ruled(c.class));
    classes
        .filter(|c| c.share >= NOTABLE && profile.shows(c.share, 0.0))
        .map(|c| Named {
            entry: CLASS,
            subject: Some(c.class.title().replace([' ', ':'], "-").replace("--", "-")),
            title: format!("CPU time: {}", c.class.title()),
            seen: Observation::of_samples(
                c.share,
                format!(
                    "{} of the server's CPU time is spent on: {}.",
                    tenths(c.share),
                    c.class.title()
                ),
            )
            .severity(Severity::Info)
            .all_seen(
                profile
                    .functions
                    .iter()
                    .filter(|f| f.class == c.class)
                    .take(3)
                    .map(|f| format!("{}: {} of the samples", f.symbol, tenths(f.own_share))),
            ),
        })
        .collect()
}

/// Single functions, the kernel's among them.
fn functions(profile: &Summary, findings: &[Finding]) -> Vec<Named> {
    let functions = profile.functions.iter();
    functions
        .filter(|f| f.own_share >= NOTABLE && profile.shows(f.own_share, 0.0))
        .filter(|f| f.symbol != pgassay_readings::profile::UNKNOWN && !is_told(&f.symbol, findings))
        .map(|f| Named {
            entry: FUNCTION,
            subject: Some(f.symbol.clone()),
            title: format!("CPU time in {}", f.symbol),
            seen: Observation::of_samples(
                f.own_share,
                format!(
                    "{} of the server's CPU time is spent in {} ({}).",
                    tenths(f.own_share),
                    f.symbol,
                    f.object
                ),
            )
            .severity(Severity::Info)
            .seen(format!("it was called for: {}", f.class.title())),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::tests::made::{QUIET, Seen, found_in_samples, looked_at, one};
    use crate::find;
    use crate::finding::Circumstances;

    /// A fifth of the samples is in memory allocation: in several functions, or nearly all in one, which is reported itself.
    #[test]
    fn work_spread_over_functions_is_reported_by_class() {
        let found = |listing: &'static str| found_in_samples(listing, &[]);
        let spread = found(
            "70.00% postgres [.] ExecScan\n9.00% postgres [.] AllocSetAlloc\n6.00% postgres [.] palloc0\n5.00% postgres [.] AllocSetFree\n",
        );
        let memory = one(&spread, "cpu-class/memory");
        assert_eq!(memory.severity, Severity::Info);
        assert!(memory.saw.starts_with("20.0 % of the server's CPU time"));
        assert_eq!(memory.evidence[0], "AllocSetAlloc: 9.0 % of the samples");
        let has = |found: &[Finding], id: &str| found.iter().any(|f| f.id.starts_with(id));
        // Executing statements is what a server is there for.
        assert!(!has(&spread, "cpu-class/executor"));
        let single = found(
            "70.00% postgres [.] ExecScan\n18.00% postgres [.] AllocSetAlloc\n1.00% postgres [.] palloc0\n1.00% postgres [.] AllocSetFree\n",
        );
        assert!(has(&single, "cpu-function/AllocSetAlloc"));
        assert!(!has(&single, "cpu-class"));
    }

    /// A tenth and more of the samples are in functions whose names are words of any sentence.
    #[test]
    fn a_function_is_a_rules_by_its_name_and_not_by_a_word_of_its_text() {
        const LISTING: &str = "\
50.00% libc.so.6 [.] read
20.00% libc.so.6 [.] send
30.00% postgres [.] ExecScan
";
        let finding = |symbols: &[&'static str]| {
            let seen = Observation::of_samples(0.4, "Blocks are read, and rows are sent: hash.")
                .seen("40 blocks read per transaction, 20 sent")
                .of_functions(symbols.iter().copied());
            let entry = find("shared-buffers-small").unwrap();
            Finding::new(entry, seen, Circumstances::default())
        };
        let named = |findings: &[Finding]| -> Vec<String> {
            let seen = Seen {
                listing: LISTING,
                ..QUIET
            };
            looked_at(
                &seen,
                |_| {},
                |evidence| {
                    let named = functions(evidence.profile.unwrap(), findings).into_iter();
                    named.filter_map(|named| named.subject).collect()
                },
            )
        };
        assert_eq!(named(&[finding(&[])]), ["read", "ExecScan", "send"]);
        assert_eq!(named(&[finding(&["read"])]), ["ExecScan", "send"]);
        assert_eq!(named(&[finding(&["rea", "sender"])]).len(), 3);
    }
}
