//! What one run measured, scenario by scenario, each in one figure: the same list out of every kind of load.

use pgassay_model::query_cost::Way;
use pgassay_model::stage::StageId;
use serde::{Deserialize, Serialize};

use crate::analysis::{Analysis, StageAnalysis};
use crate::compare::Compare;
use crate::lab::Shown;
use crate::lab::evidence::{Part, rounds};
use crate::measured::PointAnalysis;
use crate::metrics::{SERVER_CPU, THROUGHPUT};
use crate::pgio::PgioPoint;
use crate::primitives::PrimitivePoint;
use crate::quality::{Grade, Quality};
use crate::stats::Direction::{self, HigherIsBetter, LowerIsBetter};
use crate::stats::{Estimate, summarize_positive};

/// What part of a machine a scenario asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// One client over the wire: one core, and the kernel's network path.
    OneClient,
    /// One session inside the server: one core alone.
    OneSession,
    /// As many clients as give the most, reading.
    ManyClients,
    /// The same with writes: log and device too.
    Writes,
    /// Locks and other shared cache lines under many sessions.
    SharedLines,
    /// Blocks in memory, many sessions.
    Memory,
    /// Blocks from the device.
    Storage,
}

impl Family {
    /// Every family, in the order of reports.
    pub const ALL: [Self; 7] = [
        Self::OneClient,
        Self::OneSession,
        Self::ManyClients,
        Self::Writes,
        Self::SharedLines,
        Self::Memory,
        Self::Storage,
    ];

    /// In few words, after "with" or "at".
    pub fn words(self) -> &'static str {
        match self {
            Self::OneClient => "with one client",
            Self::OneSession => "in one session inside the server",
            Self::ManyClients => "with many clients that read",
            Self::Writes => "with many clients that write",
            Self::SharedLines => "at locks and other shared cache lines",
            Self::Memory => "reading blocks in memory (PGIO)",
            Self::Storage => "reading blocks from the device",
        }
    }

    /// Whether it uses all cores, so that a core's share of it means something.
    pub fn takes_all_cores(self) -> bool {
        matches!(
            self,
            Self::ManyClients | Self::Writes | Self::SharedLines | Self::Memory
        )
    }

    /// Whether the clock of the cores bears on it first.
    pub fn follows_the_clock(self) -> bool {
        self != Self::Storage
    }
}

/// One scenario of one run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    pub(super) family: Family,
    /// Its name, the same in every run.
    pub(super) name: String,
    /// The unit of its values.
    pub(super) unit: &'static str,
    pub(super) better: Direction,
    pub(super) value: Estimate,
    /// Clients or sessions; none where there is no choice.
    pub(super) sessions: Option<u32>,
    /// The value of each trial; empty where only the estimate is recorded.
    pub(super) trials: Vec<f64>,
    /// What must be equal for two of them to answer one question: what it is, and its value.
    pub(super) question: Vec<(&'static str, String)>,
    /// Why it tells of something else than the server, if it does.
    pub(super) limited: Option<&'static str>,
    /// What disturbed its run too much for a judgement, if that was so.
    pub(super) disturbed: Option<String>,
}

/// Everything that a run measured of its first server.
pub(super) fn seen(run: &Analysis) -> Vec<Seen> {
    let mut all = figures(run);
    mark_disturbed(run, &mut all);
    all
}

/// Where a run is graded as poor, what it measured is shown, and not judged.
fn mark_disturbed(run: &Analysis, all: &mut [Seen]) {
    let quality = run.quality.as_ref();
    let why = quality.filter(|quality| quality.grade == Grade::Poor);
    let why = why.map(Quality::why);
    for seen in all {
        seen.disturbed.clone_from(&why);
    }
}

fn figures(run: &Analysis) -> Vec<Seen> {
    let mut all = Vec::new();
    for stage in &run.stages {
        wire(run, stage, &mut all);
    }
    primitives(run, &mut all);
    loops(run, &mut all);
    pgio(run, &mut all);
    storage(run, &mut all);
    all
}

/// Settings by which a write is safe or not: other values are another question.
const DURABILITY: &[&str] = &["fsync", "synchronous_commit", "full_page_writes"];

fn wire(run: &Analysis, stage: &StageAnalysis, all: &mut Vec<Seen>) {
    if stage.id == StageId::Ceiling {
        return;
    }
    let Some(arm) = stage.arms.first() else {
        return;
    };
    let workload = &stage.plan.workload;
    let question = question_of(run, stage, 0);
    let mut push = |family, name: String, point: &PointAnalysis, metric, better, unit| {
        let Some(value) = point.estimate(metric) else {
            return;
        };
        let bound = point.warnings.iter().any(|w| w.id == "client-bound");
        all.push(Seen {
            family,
            name,
            unit,
            better,
            value: value.clone(),
            sessions: Some(point.point.clients),
            trials: point.values(metric).collect(),
            question: question.clone(),
            limited: bound.then_some("the client was its limit, not the server"),
            disturbed: None,
        });
    };
    let name = &workload.name;
    if let Some(one) = arm.points.iter().find(|point| point.point.clients == 1) {
        let (family, label) = (Family::OneClient, format!("{name}, 1 client"));
        push(family, label, one, THROUGHPUT, HigherIsBetter, "tps");
        let label = format!("{name}, 1 client: server CPU");
        push(
            Family::OneClient,
            label,
            one,
            SERVER_CPU,
            LowerIsBetter,
            "µs/tx",
        );
    }
    let rate = |point: &&PointAnalysis| point.throughput_tps.estimate;
    let many = arm.points.iter().filter(|point| point.point.clients > 1);
    let most = many.max_by(|a, b| rate(a).total_cmp(&rate(b)));
    if let Some(most) = most {
        let family = match workload.writes {
            true => Family::Writes,
            false => Family::ManyClients,
        };
        let label = format!("{name}, most");
        push(family, label, most, THROUGHPUT, HigherIsBetter, "tps");
    }
}

/// What must be equal for loads over the wire of two servers to answer one question.
fn question_of(run: &Analysis, stage: &StageAnalysis, arm: usize) -> Vec<(&'static str, String)> {
    let workload = &stage.plan.workload;
    let mut question = vec![
        ("scale", workload.scale.to_string()),
        ("protocol", workload.protocol.clone()),
    ];
    let texts = workload.scripts.iter().map(|script| script.text.trim());
    let texts: Vec<&str> = texts.collect();
    question.push(("scripts", texts.join("\n")));
    if workload.writes {
        let server = run.arms.get(arm).and_then(|arm| arm.server.as_ref());
        let settings = server.map_or(&[][..], |server| &server.settings);
        for name in DURABILITY {
            if let Some(setting) = settings.iter().find(|setting| setting.name == *name) {
                question.push((name, setting.value.clone()));
            }
        }
    }
    question
}

/// Everything that a part of a lab measured, of each of its arms: `reads, without: select-only, most`. What is
/// counted or read out of executables is of no machine, and not among it.
pub(super) fn seen_in_lab(part: &Part, name: &str) -> Vec<Seen> {
    let mut all = Vec::new();
    for (index, arm) in part.arms.iter().enumerate() {
        let of_arm = match &part.shown {
            Shown::Compared(compare) => {
                let mut all = compared(compare, index);
                mark_disturbed(&compare.analysis, &mut all);
                all
            }
            Shown::Run(run) if index == 0 => seen(run),
            _ => Vec::new(),
        };
        all.extend(of_arm.into_iter().map(|seen| Seen {
            name: format!("{name}, {arm}: {}", seen.name),
            ..seen
        }));
    }
    all
}

/// What one arm of a comparison did, over its rounds.
fn compared(compare: &Compare, arm: usize) -> Vec<Seen> {
    let stage = compare.analysis.main();
    let work = stage.id.work();
    let workload = &stage.plan.workload;
    let (one, many) = match stage.id {
        StageId::Primitives | StageId::Kernels => (Family::OneSession, Family::SharedLines),
        StageId::Pgio => (Family::Memory, Family::Memory),
        StageId::ScatteredRead => (Family::Storage, Family::Storage),
        _ if workload.writes => (Family::OneClient, Family::Writes),
        _ => (Family::OneClient, Family::ManyClients),
    };
    let points = |metric| {
        let mut counts: Vec<u32> = compare.results.iter().map(|r| r.clients).collect();
        counts.sort_unstable();
        counts.dedup();
        let at = move |clients: u32| {
            let values = rounds(compare, arm, clients, metric).into_values();
            let values: Vec<f64> = values.collect();
            Some((clients, summarize_positive(&values)?, values))
        };
        counts.into_iter().filter_map(at).collect::<Vec<_>>()
    };
    let bound = |clients: u32| {
        let points = stage.arms.get(arm).map_or(&[][..], |arm| &arm.points);
        let mut points = points.iter().filter(|point| point.point.clients == clients);
        points.any(|point| point.warnings.iter().any(|w| w.id == "client-bound"))
    };
    let seen =
        |(clients, value, trials): (u32, Estimate, Vec<f64>), family, name, unit, better| Seen {
            family,
            name,
            unit,
            better,
            value,
            sessions: Some(clients),
            trials,
            question: question_of(&compare.analysis, stage, arm),
            limited: bound(clients).then_some("the client was its limit, not the server"),
            disturbed: None,
        };
    let name = &workload.name;
    let rates = points(THROUGHPUT);
    let most = rates.iter().filter(|(clients, ..)| *clients > 1);
    let most = most
        .max_by(|a, b| a.1.estimate.total_cmp(&b.1.estimate))
        .cloned();
    let alone = rates.into_iter().find(|(clients, ..)| *clients == 1);
    let cpu = points(SERVER_CPU);
    let cpu = cpu.into_iter().find(|(clients, ..)| *clients == 1);
    let who = work.who;
    let alone = alone.map(|at| {
        seen(
            at,
            one,
            format!("{name}, 1 {who}"),
            work.rate,
            HigherIsBetter,
        )
    });
    let cpu = cpu.filter(|_| stage.id == StageId::Load).map(|at| {
        let name = format!("{name}, 1 {who}: server CPU");
        seen(at, one, name, "µs/tx", LowerIsBetter)
    });
    let most = most.map(|at| seen(at, many, format!("{name}, most"), work.rate, HigherIsBetter));
    alone.into_iter().chain(cpu).chain(most).collect()
}

fn primitives(run: &Analysis, all: &mut Vec<Seen>) {
    for primitive in &run.primitives {
        let variant = &primitive.variant;
        let mut name = variant.primitive.clone();
        if !variant.variant.is_empty() {
            name += &format!(":{}", variant.variant);
        }
        let one = primitive.points.iter().find(|point| point.sessions == 1);
        let most = primitive.points.iter().filter(|point| point.sessions > 1);
        let most = most.max_by(|a, b| {
            let rate = |p: &&PrimitivePoint| p.operations_per_second.estimate;
            rate(a).total_cmp(&rate(b))
        });
        let both = [(Family::OneSession, one), (Family::SharedLines, most)];
        for (family, point) in both.into_iter().filter_map(|(f, p)| Some((f, p?))) {
            let label = match family {
                Family::OneSession => format!("{name}, 1 session"),
                _ => format!("{name}, most"),
            };
            all.push(Seen {
                family,
                name: label,
                unit: "operations/s",
                better: HigherIsBetter,
                value: point.operations_per_second.clone(),
                sessions: Some(point.sessions),
                trials: point.trials.clone(),
                question: vec![
                    ("operation", variant.operation.clone()),
                    ("sessions beside it", format!("{:?}", variant.company)),
                ],
                limited: None,
                disturbed: None,
            });
        }
    }
}

fn loops(run: &Analysis, all: &mut Vec<Seen>) {
    for way in run.query_cost.iter().flat_map(|cost| &cost.ways) {
        let family = match way.way {
            Way::QueryLoop | Way::PlpgsqlLoop => Family::OneSession,
            _ => Family::OneClient,
        };
        all.push(Seen {
            family,
            name: format!("{}: server CPU", way.way.title()),
            unit: "µs/query",
            better: LowerIsBetter,
            value: way.cpu_us_per_query.clone(),
            sessions: Some(1),
            trials: Vec::new(),
            question: Vec::new(),
            limited: None,
            disturbed: None,
        });
    }
}

fn pgio(run: &Analysis, all: &mut Vec<Seen>) {
    let Some(pgio) = &run.pgio else {
        return;
    };
    let rate = |p: &&PgioPoint| p.logical_reads_per_second.estimate;
    let most = pgio
        .points
        .iter()
        .max_by(|a, b| rate(a).total_cmp(&rate(b)));
    let Some(point) = most else {
        return;
    };
    all.push(Seen {
        family: Family::Memory,
        name: "PGIO logical reads, most".to_owned(),
        unit: "blocks/s",
        better: HigherIsBetter,
        value: point.logical_reads_per_second.clone(),
        sessions: Some(point.sessions),
        trials: point.trials.clone(),
        question: vec![
            ("tables", pgio.plan.tables.to_string()),
            ("rows", pgio.plan.rows.to_string()),
            ("work unit", pgio.plan.work_unit.to_string()),
            ("updates", format!("{} %", pgio.plan.update_pct)),
            ("shared_buffers", pgio.plan.shared_buffers.clone()),
        ],
        limited: None,
        disturbed: None,
    });
}

fn storage(run: &Analysis, all: &mut Vec<Seen>) {
    let Some(reads) = &run.scattered_read else {
        return;
    };
    for variant in &reads.variants {
        let Some(cold) = &variant.cold else {
            continue;
        };
        all.push(Seen {
            family: Family::Storage,
            name: format!("scattered reads, {}", variant.title),
            unit: "ms",
            better: LowerIsBetter,
            value: cold.execution_ms.clone(),
            sessions: None,
            trials: Vec::new(),
            question: vec![
                ("blocks read", variant.blocks_read.to_string()),
                ("plan", variant.scan.clone()),
            ],
            limited: None,
            disturbed: None,
        });
    }
}
