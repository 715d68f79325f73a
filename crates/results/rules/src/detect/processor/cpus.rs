//! The CPUs: whether they are all busy while sessions wait for one, and what takes them.

use crate::detect::common::hits::weighty;
use crate::detect::common::{counts, nodes, wait_shares};
use crate::detect::{Detector, facts, run, tenths};
use crate::evidence::{Evidence, OTHERS, RunEvidence};
use crate::fact_view::{FactView, Moment};
use crate::finding::{Basis, Confidence, FULL, Judged, NotJudged, Observation, Severity, passed};
use pgassay_evidence::metrics;
use pgassay_evidence::observed::statements::StatementTime;
use pgassay_evidence::profile::Summary;
use pgassay_model::observed::plans::{Node, NodeType, Plan};

pub const DETECTORS: &[Detector] = &[
    run(SATURATED, saturated),
    facts(SATURATED, saturated_now),
    run("cpu-others", taken),
    facts("cpu-others", taken_now),
];

/// The entry of full CPUs.
pub const SATURATED: &str = "cpu-saturated";

/// The share of the sessions' time that waits for a CPU, from which on it is worth a finding.
const NOTABLE: f64 = 0.1;
/// The same where the machine's CPUs are not full.
const MUCH: f64 = 0.25;
/// The server's part of what is busy below which it hardly uses the CPUs.
const LITTLE: f64 = 0.1;
/// Shows who the others are.
const LIST: &str = "ps -eo pcpu,pid,args --sort=-pcpu | head   # what runs beside the server";
/// Sessions that wait for a CPU while fewer are busy are kept from the others. Above it, short transactions leave
/// gaps: a CPU is idle while the session that it is to run is being woken. Seen on two virtual CPUs that nobody
/// else used: 0.82 to 0.86 with 2.5 sessions waiting.
const CONFINED: f64 = 0.75;
/// What CPUs mean that are nearly full, and those of which some are idle.
const NEARLY: &str = "Sessions that could go on wait for a CPU most of the time: one becomes idle for the moments in \
                      which the session that it is to run is woken. Throughput is near what the CPUs can do.";
const FEWER: &str = "Sessions that could go on wait although a CPU is idle on average: either they may not run on all \
                     of them (CPU affinity, a control group's cpuset), or they become ready at the same moment.";
/// Functions and libraries that the evidence names.
const NAMED: usize = 5;

/// Who fills the CPUs.
enum By {
    Server,
    Others,
}

fn saturated(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let cpus = f64::from(run.host.cpus?);
    let busy = run.point.estimate(metrics::MACHINE_CPUS)?.estimate;
    let full = busy >= FULL * cpus;
    // Where the server is not seen, these are not its CPUs.
    let others = run.other_cpus()?;
    let theirs = busy >= CONFINED * cpus && mostly_others(run.server_cpus(), others);
    if run.held_back().is_some() || theirs {
        return None;
    }
    let of_others = if others >= OTHERS * cpus {
        let than = if run.is_own_load() {
            "the server"
        } else {
            "the server and the load's client"
        };
        format!(", {others:.2} of them with other programs than {than}")
    } else {
        String::new()
    };
    let seen = match run.budget() {
        Some(budget) => {
            let waiting = budget.share(budget.ready);
            if waiting < if full { NOTABLE } else { MUCH } {
                return None;
            }
            let confined = busy < CONFINED * cpus;
            if confined && in_bursts(&run) {
                return None;
            }
            let saw = if !confined {
                let saturated = if full {
                    "saturated"
                } else {
                    "nearly saturated"
                };
                format!(
                    "The CPUs are {saturated}: {busy:.2} of {cpus:.0} are busy{of_others}, and \
                     sessions spend {} of their time in transactions waiting for one.",
                    tenths(waiting)
                )
            } else {
                format!(
                    "Sessions spend {} of their time in transactions waiting for a CPU, although only \
                     {busy:.2} of {cpus:.0} are busy{of_others}: they may be confined to fewer.",
                    tenths(waiting)
                )
            };
            // With a CPU for each of them, that time would be gone; with less to do, more than that.
            let gain = run.of_cycle(waiting);
            let seen = Observation::measured(Basis::MachineTime, Some(gain), saw)
                .covers(waiting)
                .open();
            let seen = match (full, confined) {
                (true, _) => seen,
                (false, false) => seen.means(NEARLY),
                (false, true) => seen.means(FEWER).confidence(Confidence::Medium),
            };
            let seen = seen.seen(format!(
                "of {:.2} sessions {:.2} ran on a CPU and {:.2} waited for one",
                budget.sessions, budget.on_cpu, budget.ready
            ));
            if !confined {
                seen
            } else {
                seen.advice(
                    "look for what confines the server: the affinity of its processes (taskset -cp), \
                     and cpuset.cpus of its control group",
                )
            }
        }
        None if busy >= 0.95 * cpus => {
            let saw =
                format!("The CPUs are saturated: {busy:.2} of {cpus:.0} are busy{of_others}.");
            Observation::measured(Basis::MachineTime, None, saw).confidence(Confidence::Medium)
        }
        None => return None,
    };
    let seen = seen
        .of_other_programs(!of_others.is_empty())
        .seen(takers(&run, others))
        .all_seen(statements(&run));
    Some(match evidence.profile {
        Some(profile) => seen.all_seen(spent(profile)),
        None => seen.seen("no CPU samples, which would name what takes them (--observe perf)"),
    })
}

/// Whether sessions are let go together, so that they wait for a CPU while there is none too few on average: those
/// that queue for a lock of any kind, and for the log, which one of them flushes for all.
fn in_bursts(run: &RunEvidence) -> bool {
    let queued = |kind: &str, event: &str| {
        kind == "Lock"
            || kind.starts_with("LWLock")
            || wait_shares::is_of(kind, event, wait_shares::WAL_FLUSH)
    };
    run.wait_share(queued).unwrap_or(0.0) >= NOTABLE
}

/// Whether it is other programs above all that keep CPUs busy.
fn mostly_others(server: f64, others: f64) -> bool {
    others > server
}

/// CPUs that are full with the work of other programs.
fn taken(evidence: &Evidence) -> Option<Observation> {
    let run = evidence.run?;
    let cpus = f64::from(run.host.cpus?);
    let busy = run.point.estimate(metrics::MACHINE_CPUS)?.estimate;
    let (server, others) = (run.server_cpus(), run.other_cpus()?);
    // Short statements leave gaps: CPUs that others have need not be full all the time.
    let full = busy >= FULL * cpus;
    let least = if full { NOTABLE } else { MUCH };
    let budget = run.budget();
    let waiting = budget.map(|budget| budget.share(budget.ready));
    let waits = waiting.map_or(full, |waiting| waiting >= least);
    let nearly = busy >= CONFINED * cpus;
    if !(nearly && waits && mostly_others(server, others)) || run.held_back().is_some() {
        return None;
    }
    let waits = waiting.map_or_else(String::new, |waiting| {
        format!(
            " Sessions spend {} of their time in transactions waiting for one.",
            tenths(waiting)
        )
    });
    let saw = format!(
        "Other programs keep {others:.2} of {cpus:.0} CPUs busy, the server {server:.2}.{waits}"
    );
    // Without them, the time that sessions wait would be gone, as far as the CPUs go for what is left.
    let room = 1.0 - (busy - others) / cpus;
    let gain = waiting.map(|waiting| run.of_cycle(waiting).min(room.clamp(0.0, 1.0)));
    let seen = Observation::measured(Basis::MachineTime, gain, saw)
        .shell(LIST)
        .advice(
            "move them to another machine or another time, or have them give way: nice, CPUWeight= of their unit; and see that the server's own control \
             group weighs enough (cpu.weight, cpu.shares; requests.cpu in Kubernetes): pgassay check --explain cpu-weight",
        );
    let seen = match waiting {
        Some(waiting) => seen.covers(waiting),
        None => seen.confidence(Confidence::Medium),
    };
    Some(seen.of_other_programs(true).seen(takers(&run, others)))
}

/// Whose work fills the CPUs of a running server that waits for them, and what was seen.
fn full_now(seen: &FactView) -> Result<(Option<By>, String), NotJudged> {
    let Moment {
        busy: share,
        server,
        ready,
        ..
    } = seen.moment()?;
    let cpus = f64::from(seen.cpus()?);
    let busy = share * cpus;
    let saw = format!(
        "{busy:.2} of {cpus:.0} CPUs were busy over a second, {server:.2} of them with this server, and \
         {ready:.2} of its processes waited for one"
    );
    // Full CPUs matter to a server that uses them and waits for them.
    let matters = share >= FULL && server >= LITTLE * busy && ready >= 0.5 * server;
    let by = if mostly_others(server, (busy - server).max(0.0)) {
        By::Others
    } else {
        By::Server
    };
    Ok((matters.then_some(by), saw))
}

/// A running server beside other programs that take the CPUs.
fn taken_now(seen: &FactView) -> Judged {
    match full_now(seen)? {
        (Some(By::Others), saw) => {
            let saw = format!("Other programs keep the CPUs busy: {saw}.");
            Observation::new(Severity::High, Confidence::High, saw)
                .shell(LIST)
                .found()
        }
        (_, saw) => passed(saw),
    }
}

/// A running server under its own application's load.
fn saturated_now(seen: &FactView) -> Judged {
    match full_now(seen)? {
        (Some(By::Server), saw) => {
            let saw = format!("The CPUs are saturated: {saw}.");
            Observation::new(Severity::High, Confidence::High, saw).found()
        }
        (_, saw) => passed(saw),
    }
}

/// Who keeps the CPUs busy.
fn takers(run: &RunEvidence, others: f64) -> String {
    let server = run.server_cpus();
    let client = run
        .point
        .estimate(metrics::CLIENT_CPUS)
        .map_or(0.0, |c| c.estimate);
    if run.is_own_load() {
        return format!("the server keeps {server:.2} CPUs busy, other programs {others:.2}");
    }
    format!(
        "the server keeps {server:.2} CPUs busy, the load's client {client:.2}, other programs {others:.2}"
    )
}

/// Statements that are named with what they take.
const STATEMENTS: usize = 3;
/// The share of the sessions' CPU time from which on one is.
const MUCH_CPU: f64 = 0.1;

/// The statements that the sessions' CPU time goes to, and the busiest nodes of their plans.
fn statements(run: &RunEvidence) -> Vec<String> {
    let mut those: Vec<&StatementTime> = weighty(run).filter(|s| s.cpu_share >= MUCH_CPU).collect();
    those.sort_by(|a, b| b.cpu_share.total_cmp(&a.cpu_share));
    let named = those.into_iter().take(STATEMENTS);
    let elsewhere = run.elsewhere();
    let whose = match elsewhere {
        Some(_) => "the load's sessions'",
        None => "the sessions'",
    };
    let others = elsewhere.map(|others| {
        format!(
            "{} of all execution time goes to statements of other sessions than the load's (pg_stat_statements): most of it to \
             that with the query_id {}, {:.0} calls of {:.1} ms",
            tenths(others.share),
            others.query_id,
            others.calls,
            others.execution_ms
        )
    });
    let own = named.flat_map(|statement| {
        let goes = format!(
            "{} of {whose} CPU time goes to: {}",
            tenths(statement.cpu_share.min(1.0)),
            statement.named()
        );
        let plan = statement.plan.as_ref();
        let rows = plan.and_then(|plan| {
            let usual = !counts::changed_nothing(run, statement, plan);
            let executed = usual.then(|| nodes::busiest(plan)).flatten();
            executed.or_else(|| busiest(run, statement, plan))
        });
        std::iter::once(goes).chain(rows)
    });
    others.into_iter().chain(own).collect()
}

/// Nodes of a plan that are named, and rows below which none is.
const NODES: usize = 3;
const FEW_ROWS: f64 = 100.0;

/// The nodes of a plan that read most rows for each call, as counted; where none is counted, those that have most rows
/// as the planner expects.
fn busiest(run: &RunEvidence, statement: &StatementTime, plan: &Plan) -> Option<String> {
    let all = || plan.root.all().into_iter().map(|(_, node)| node);
    let counted: Vec<(f64, &Node)> = all()
        .filter_map(|node| Some((counts::read_a_call(run, statement, plan, node)?, node)))
        .collect();
    let (mut nodes, how) = match counted.is_empty() {
        false => (counted, "rows of each call, as counted"),
        true => {
            let rows = |node: &Node| {
                let filtered = node.kind == NodeType::SeqScan && node.filter().is_some();
                let facts = node.relation.as_ref().and_then(|t| plan.relations.get(t));
                let read = facts.and_then(|facts| facts.rows).filter(|_| filtered);
                read.unwrap_or(node.rows) * plan.root.times(node).unwrap_or(1.0)
            };
            // What only hands on has the rows of what is below it.
            let passes = |node: &Node| {
                matches!(
                    node.kind,
                    NodeType::Hash | NodeType::Materialize | NodeType::Gather
                )
            };
            let own = all().filter(|node| !passes(node));
            let expected = own.map(|node| (rows(node), node)).collect();
            (expected, "rows as the planner expects")
        }
    };
    nodes.retain(|(rows, _)| *rows >= FEW_ROWS);
    nodes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let named: Vec<String> = nodes
        .into_iter()
        .take(NODES)
        .map(|(rows, node)| match &node.relation {
            Some(relation) => format!("{} on {relation} {rows:.0}", node.kind),
            None => format!("{} {rows:.0}", node.kind),
        })
        .collect();
    (!named.is_empty()).then(|| format!("its plan's busiest nodes, {how}: {}", named.join(", ")))
}

/// Whether what fills the CPUs is work of the server's own, so that full CPUs are what a cause shows itself by that
/// takes their time. Who else takes them is no cause of the server's, and one that is confined has another.
pub fn filled_by_own_work(evidence: &Evidence) -> bool {
    let others = evidence.run.and_then(|run| {
        let busy = run.point.estimate(metrics::MACHINE_CPUS)?.estimate;
        let cpus = f64::from(run.host.cpus?);
        Some(run.other_cpus()? >= 0.5 * busy || busy < CONFINED * cpus)
    });
    !others.unwrap_or(false)
}

/// What the server's CPU time goes to.
fn spent(profile: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    let listed = |what: &str, items: Vec<String>| format!("{what}: {}", items.join(", "));
    let objects = profile.objects.iter().filter(|o| o.share >= 0.01);
    let objects: Vec<String> = objects
        .take(NAMED)
        .map(|o| format!("{} {}", o.object, tenths(o.share)))
        .collect();
    if !objects.is_empty() {
        lines.push(listed("CPU samples by program and library", objects));
    }
    let classes = profile.classes.iter().filter(|c| c.share >= 0.01);
    let classes: Vec<String> = classes
        .take(NAMED)
        .map(|c| format!("{} {}", c.class.title(), tenths(c.share)))
        .collect();
    if !classes.is_empty() {
        lines.push(listed("by what they were spent on", classes));
    }
    let functions = profile.functions.iter().filter(|f| f.own_share >= 0.01);
    let functions: Vec<String> = functions
        .take(NAMED)
        .map(|f| format!("{} {}", f.symbol, tenths(f.own_share)))
        .collect();
    if !functions.is_empty() {
        lines.push(listed("by function", functions));
    }
    lines
}
