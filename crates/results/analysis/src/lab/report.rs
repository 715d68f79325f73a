//! What became of a lab: the form that every format renders, `pgassay/lab/1`.

use pgassay_model::run::RunState;
use pgassay_model::stage::StageId;
use serde::{Deserialize, Serialize};

use super::evidence::{Evidence, Part, Shown};
use super::judge::{Checked, Outcome, judge, percent, wilson};
use super::legs::Leg;
use super::plan::{Clients, Figure, LabPlan, Named, Source};
use crate::host::HostSummary;
use crate::observed::WaitAnalysis;
use crate::quality::Quality;
use crate::stats::Estimate;

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/lab/1";

/// Functions that are shown of an arm, and wait events.
const MOST_FUNCTIONS: usize = 8;
const MOST_WAITS: usize = 4;

/// A lab and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lab {
    /// [`SCHEMA`].
    pub schema: String,
    /// The lab's name.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// What is asked.
    pub question: String,
    /// What the sources left open.
    pub open_question: Option<String>,
    /// What can be told of that here, and what not.
    pub bounds: Option<String>,
    /// Where the published figures come from.
    pub sources: Vec<Source>,
    /// The published figures.
    pub figures: Vec<Figure>,
    /// The machine that it was measured on.
    pub host: HostSummary,
    /// What became of each statement.
    pub statements: Vec<Checked>,
    /// What was measured.
    pub stages: Vec<StageShown>,
    /// What was left out so that it fits into this machine and its time.
    pub left_out: Vec<String>,
    /// How it went.
    pub conduct: Conduct,
}

/// When and how a lab was run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Conduct {
    /// Name of its directory.
    pub id: String,
    /// `built in`, or the plan's file.
    pub plan: String,
    /// Start, UTC, RFC 3339.
    pub started: String,
    /// Version of pgassay that measured.
    pub pgassay_version: String,
    /// Seconds over all calls, where it is known.
    pub seconds: Option<f64>,
    /// Every stage was measured, or found to be impossible here.
    pub complete: bool,
}

/// A part of a stage, as measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StageShown {
    /// The stage's id.
    pub stage: String,
    /// Which combination of its axes; empty where it has none.
    pub part: String,
    /// The workload.
    pub workload: String,
    /// Who gives the load, many of them: `clients`, `sessions`, `threads`.
    #[serde(default = "clients")]
    pub who: String,
    /// The unit of [`PointShown::per_second`]: `tps`, `operations/s`, `queries/s`.
    #[serde(default = "tps")]
    pub unit: String,
    /// The arms.
    pub arms: Vec<ArmShown>,
    /// What measures the same by itself.
    pub command: Vec<String>,
    /// The directory of the recorded run, where one was made.
    pub run: Option<String>,
    /// How that stands.
    pub state: Option<RunState>,
    /// How far it can be trusted.
    pub quality: Option<Quality>,
    /// Why nothing was measured.
    pub missing: Option<String>,
}

/// An arm within a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArmShown {
    /// Its name in the plan.
    pub name: String,
    /// What it was, such as `PostgreSQL 15.18 (temp:15)`.
    pub server: Option<String>,
    /// Throughput at each client count.
    pub throughput: Vec<PointShown>,
    /// What took its time at the most clients, where something looked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<Busy>,
}

/// What took the time of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Busy {
    /// At how many clients.
    pub clients: u32,
    /// The functions with the most CPU samples in themselves, in per cent of all.
    pub functions: Vec<BusyShare>,
    /// The wait events with the most client sessions, in per cent of the active ones.
    pub waits: Vec<BusyShare>,
}

/// A function or a wait event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BusyShare {
    /// Its name.
    pub name: String,
    /// The program or library of a function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// In per cent, with its interval.
    pub percent: Estimate,
}

/// Throughput at a client count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PointShown {
    /// Clients, or sessions.
    pub clients: u32,
    /// What they got done a second.
    pub per_second: Estimate,
}

/// What is known of a part beside what it showed.
#[derive(Debug, Clone, Default)]
pub struct Made {
    /// What measures the same by itself.
    pub command: Vec<String>,
    /// Directory of the recorded run.
    pub run: Option<String>,
}

impl Lab {
    /// Holds a plan against what was measured; `made` has one entry a part of the evidence.
    pub fn conclude(
        plan: &LabPlan,
        evidence: &Evidence,
        made: &[Made],
        left_out: Vec<String>,
        conduct: Conduct,
    ) -> Self {
        let parts = evidence.parts.iter().zip(made);
        Self {
            schema: SCHEMA.to_owned(),
            name: plan.name.clone(),
            title: plan.title.clone(),
            question: plan.question.clone(),
            open_question: plan.open_question.clone(),
            bounds: plan.bounds.clone(),
            sources: plan.sources.clone(),
            figures: plan.figures.clone(),
            host: evidence.host.clone(),
            statements: judge(plan, evidence),
            stages: parts.map(|(part, made)| stage(plan, part, made)).collect(),
            left_out,
            conduct,
        }
    }

    /// Statements with an outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        let of = self.statements.iter().filter(|s| s.outcome == outcome);
        of.count()
    }
}

fn stage(plan: &LabPlan, part: &Part, made: &Made) -> StageShown {
    let analysis = part.analysis();
    let server = |index: usize| {
        let arm = analysis?.arms.get(index)?;
        Some(arm.target.clone())
    };
    let arms = part.arms.iter().enumerate().map(|(index, name)| ArmShown {
        name: name.clone(),
        server: server(index),
        throughput: part
            .course(index)
            .into_iter()
            .map(|(clients, per_second)| PointShown {
                clients,
                per_second,
            })
            .collect(),
        busy: busy(part, name),
    });
    let workload = plan.stage(&part.stage).map(|stage| stage.workload.clone());
    let work = analysis
        .map_or(StageId::Load, |analysis| analysis.main().id)
        .work();
    StageShown {
        stage: part.stage.clone(),
        part: Leg::words(&part.leg),
        workload: workload.unwrap_or_default(),
        who: format!("{}s", work.who),
        unit: work.rate.to_owned(),
        arms: arms.collect(),
        command: made.command.clone(),
        run: made.run.clone(),
        state: analysis.map(|analysis| analysis.run.state),
        quality: analysis.and_then(|analysis| analysis.quality.clone()),
        missing: match &part.shown {
            Shown::Missing(why) => Some(why.clone()),
            _ => None,
        },
    }
}

/// What took the time of an arm at the most clients.
fn busy(part: &Part, arm: &str) -> Option<Busy> {
    let (_, point) = part.observed(arm, Clients::Named(Named::Most)).ok()?;
    let functions = point.profile.iter().flat_map(|profile| {
        let samples = profile.samples.unwrap_or(0);
        let hottest = profile.functions.iter().take(MOST_FUNCTIONS);
        hottest.map(move |function| BusyShare {
            name: function.symbol.clone(),
            object: Some(function.object.clone()),
            percent: percent(wilson(function.own_share, samples)),
        })
    });
    let busy = Busy {
        clients: point.clients,
        functions: functions.collect(),
        waits: point.waits.as_ref().map_or_else(Vec::new, waits),
    };
    (!busy.functions.is_empty() || !busy.waits.is_empty()).then_some(busy)
}

fn waits(seen: &WaitAnalysis) -> Vec<BusyShare> {
    let mut events: Vec<_> = seen.events.iter().collect();
    events.sort_by(|a, b| b.sessions.total_cmp(&a.sessions));
    let most = events.into_iter().take(MOST_WAITS);
    let share = |name: &str| seen.share(|event| event.name() == name).min(1.0);
    most.map(|event| BusyShare {
        name: event.name(),
        object: None,
        percent: percent(wilson(share(&event.name()), seen.samples)),
    })
    .collect()
}

fn clients() -> String {
    format!("{}s", StageId::Load.work().who)
}

fn tps() -> String {
    StageId::Load.work().rate.to_owned()
}
