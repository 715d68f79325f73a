//! Plans under other settings that the planner takes to be much cheaper.

use std::collections::BTreeMap;

use crate::detect::common::hits::{Hit, Left, Part, joined, with_plans};
use crate::detect::common::scans::read_by_scans;
use crate::detect::{Detector, run};
use crate::evidence::{Evidence, RunEvidence};
use crate::finding::{Confidence, Observation, StepKind};
use pgassay_evidence::observed::statements::StatementTime;
use pgassay_model::observed::plans::{Alternative, DISABLE_COST, Node, NodeType, Plan};

pub const DETECTORS: &[Detector] = &[
    run("plan-by-settings", |evidence| {
        cheaper(evidence, |setting| setting != MEMORY && setting != COMPILES)
    }),
    run("jit-small-queries", |evidence| {
        cheaper(evidence, |setting| setting == COMPILES)
    }),
];

/// The part of a plan's cost below which another is clearly cheaper.
const CLEARLY: f64 = 2.0 / 3.0;
/// The same for the time of one plan, compiled or not.
const UNCOMPILED: f64 = 0.8;
/// A plan that costs less is not worth another.
const CHEAP: f64 = 100.0;
/// The setting that bounds the memory of a node: what spills is a finding of its own.
const MEMORY: &str = "work_mem";
/// The setting that leaves out partitions which hold nothing that is asked for.
const PRUNES: &str = "enable_partition_pruning";
/// The setting that has expressions compiled.
const COMPILES: &str = "jit";

/// The statements that have a cheaper plan under one of these settings.
fn cheaper(evidence: &Evidence, of: fn(&str) -> bool) -> Option<Observation> {
    let run = evidence.run?;
    let hits = with_plans(&run, |statement, plan| {
        let others = plan.alternatives.iter().filter(|a| of(&a.setting));
        let hits = others.filter_map(|other| {
            let hit = hit(evidence, &run, statement, plan, other)?;
            Some((hit, other.times_ms.is_some()))
        });
        let mut hits: Vec<(Hit, bool)> = hits.collect();
        // One that is surer before one that promises more.
        let left = |hit: &Hit| hit.left.as_ref().map_or(1.0, |left| left.of_part);
        hits.sort_by(|(a, _), (b, _)| {
            let surer = b.confidence.cmp(&a.confidence);
            surer.then(left(a).total_cmp(&left(b)))
        });
        let mut hits = hits.into_iter();
        let (mut first, _) = hits.next()?;
        // Others that were executed are faster each by itself: none of them is as it should be.
        for (other, _) in hits.filter(|(_, timed)| *timed) {
            first
                .evidence
                .push(other.saw.trim_end_matches('.').to_owned());
            first.steps.extend(other.steps);
        }
        Some(first)
    });
    // Statements may each have a setting of their own.
    let steps: Vec<_> = hits.iter().flat_map(|hit| hit.steps.clone()).collect();
    let mut seen = joined(&run, hits)?;
    for (kind, text) in steps {
        if seen.remedy.iter().any(|step| step.text == text) {
            continue;
        }
        seen = seen.step(kind, text);
    }
    Some(seen)
}

fn hit<'s>(
    evidence: &Evidence,
    run: &RunEvidence,
    statement: &'s StatementTime,
    plan: &Plan,
    other: &Alternative,
) -> Option<Hit<'s>> {
    let (from, to) = (
        plan.root.cost % DISABLE_COST,
        other.root.cost % DISABLE_COST,
    );
    let ratio = to / from.max(f64::MIN_POSITIVE);
    if let Some(times) = other.times_ms {
        return timed(evidence, run, statement, plan, other, times);
    }
    if from < CHEAP || ratio > CLEARLY {
        return None;
    }
    let Alternative { setting, value, .. } = other;
    let (gone, instead) = differences(&plan.root, &other.root);
    let mut seen = Vec::new();
    if !gone.is_empty() && !instead.is_empty() {
        seen.push(format!(
            "in the place of {}: {}",
            gone.join(", "),
            instead.join(", ")
        ));
    }
    seen.push("costs are the planner's estimates, not times".to_owned());
    // Whole reads that the other plan does not have, and that were counted.
    let mut whole = gone.iter().filter_map(|node| {
        node.strip_prefix(NodeType::SeqScan.as_str())?
            .strip_prefix(" on ")
    });
    let counted = whole.any(|table| {
        let rows = plan.relations.get(table).and_then(|facts| facts.rows);
        let read = read_by_scans(run, table);
        read.zip(rows)
            .is_some_and(|((_, each), rows)| each >= 0.3 * rows)
    });
    let confidence = match counted {
        true => Confidence::High,
        false => Confidence::Medium,
    };
    Some(Hit {
        statement,
        part: Part::of_work(evidence, statement, 1.0),
        left: Left::new(
            ratio,
            format!(
                "the planner's cost, {from:.0} with {setting} = {value} and {to:.0} with {}",
                other.tried
            ),
        ),
        saw: format!(
            "{setting} = {value} is likely to make a plan dear: it costs {from:.0} by the planner's estimate, and {to:.0} with {setting} = {}.",
            other.tried
        ),
        confidence,
        evidence: seen,
        steps: vec![set(other)],
    })
}

/// The processes that execute a plan at the same time.
fn processes(root: &Node) -> f64 {
    let all = root.all().into_iter();
    let of_gather = all.filter(|(_, node)| node.gathers());
    let loops = |node: &Node| node.work.map_or(1.0, |work| work.loops.max(1.0));
    of_gather
        .filter_map(|(_, node)| Some(loops(node.nodes.first()?) / loops(node)))
        .fold(1.0, f64::max)
}

/// The CPUs that a plan has when it is executed alone. Where the load has a session for each, sessions with workers have no
/// more of them than without.
fn cpus_alone(run: &RunEvidence, root: &Node) -> f64 {
    let cpus = run.host.cpus.map_or(1.0, f64::from);
    match f64::from(run.point.point.clients) >= cpus {
        true => processes(root).min(cpus),
        false => 1.0,
    }
}

/// A plan that was executed, too: with another value of a setting it is faster.
fn timed<'s>(
    evidence: &Evidence,
    run: &RunEvidence,
    statement: &'s StatementTime,
    plan: &Plan,
    other: &Alternative,
    (own, others): (f64, f64),
) -> Option<Hit<'s>> {
    let Alternative { setting, value, .. } = other;
    let (cpus, cpus_then) = (cpus_alone(run, &plan.root), cpus_alone(run, &other.root));
    let ratio = others * cpus_then / (own * cpus).max(f64::MIN_POSITIVE);
    let faster = match setting == COMPILES {
        true => UNCOMPILED,
        false => CLEARLY,
    };
    if ratio > faster {
        return None;
    }
    let (gone, instead) = differences(&plan.root, &other.root);
    let mut seen = Vec::new();
    if !gone.is_empty() && !instead.is_empty() {
        let (gone, instead) = (gone.join(", "), instead.join(", "));
        seen.push(format!("in the place of {gone}: {instead}"));
    }
    let with = match other.is_default {
        true => "its default",
        false => other.tried.as_str(),
    };
    let on = |cpus: f64| match cpus > 1.0 {
        true => format!(" on {cpus:.0} CPUs"),
        false => String::new(),
    };
    let times = format!(
        "{own:.2} ms{} with {setting} = {value}, {others:.2} ms{} with {with}",
        on(cpus),
        on(cpus_then)
    );
    if setting == "random_page_cost" {
        seen.push(
            "the default of 4 is meant for disks that turn; on SSDs, and for data in memory, a page anywhere costs little \
             more than the next one"
                .to_owned(),
        );
    }
    let saw = match setting == COMPILES {
        true => {
            seen.clear();
            format!(
                "Compiling the expressions of a statement takes longer than it saves: executed, it took {times}."
            )
        }
        false => format!(
            "{setting} = {value} has the planner choose a plan that is slower: executed, it took {times}."
        ),
    };
    Some(Hit {
        statement,
        part: match setting == PRUNES {
            // What is left out is not planned either.
            true => Part::of_text(evidence, statement),
            false => Part::of_work(evidence, statement, 1.0),
        },
        left: Left::new(ratio, format!("an execution of each plan: {times}")),
        saw,
        confidence: Confidence::High,
        evidence: seen,
        steps: vec![set(other)],
    })
}

/// What gives the other plan: the value that the server comes with, or another for all. More orders of joins take longer
/// to plan, too: those are for who sends the statement.
fn set(other: &Alternative) -> (StepKind, String) {
    let Alternative { setting, tried, .. } = other;
    let of_joins = setting.ends_with("_collapse_limit") || setting.starts_with("geqo");
    let text = if other.is_default {
        format!("ALTER SYSTEM RESET {setting}; SELECT pg_reload_conf();")
    } else if of_joins {
        format!(
            "SET {setting} = {tried};   -- in the sessions that send it, for good by ALTER ROLE"
        )
    } else {
        format!("ALTER SYSTEM SET {setting} = {tried}; SELECT pg_reload_conf();")
    };
    (StepKind::Sql, text)
}

/// Nodes that are named on either side.
const NAMED: usize = 3;

/// The nodes of a plan that the other does not have, and those that it has instead.
fn differences(from: &Node, to: &Node) -> (Vec<String>, Vec<String>) {
    let (from, to) = (nodes(from), nodes(to));
    let beyond = |these: &BTreeMap<String, (u32, f64)>, those: &BTreeMap<String, (u32, f64)>| {
        let known = |name: &String| those.get(name).map_or(0, |(count, _)| *count);
        let more = these
            .iter()
            .filter(|(name, (count, _))| *count > known(name));
        let mut more: Vec<(&String, f64)> = more.map(|(name, (_, cost))| (name, *cost)).collect();
        more.sort_by(|a, b| b.1.total_cmp(&a.1));
        let named = more.into_iter().take(NAMED);
        named.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    (beyond(&from, &to), beyond(&to, &from))
}

/// The nodes of a plan in words, how often each is there and what it costs; scans before joins.
fn nodes(root: &Node) -> BTreeMap<String, (u32, f64)> {
    let mut named: BTreeMap<String, (u32, f64)> = BTreeMap::new();
    for (_, node) in root.all() {
        // What hands on, or is a part of the scan above it.
        if matches!(
            node.kind,
            NodeType::Hash | NodeType::Materialize | NodeType::BitmapIndexScan
        ) {
            continue;
        }
        let mut name = node.kind.to_string();
        if let Some(relation) = &node.relation {
            name = format!("{name} on {relation}");
        }
        let entry = named.entry(name).or_default();
        entry.0 += 1;
        let scans = f64::from(u8::from(node.relation.is_some()));
        entry.1 = entry.1.max(node.cost % DISABLE_COST + scans * DISABLE_COST);
    }
    named
}

#[cfg(test)]
#[path = "alternatives/tests.rs"]
mod tests;
