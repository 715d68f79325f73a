//! What is seen before a word is read: how good the measurement is, and the figures that most
//! readers came for.

use pgassay_analysis::bottlenecks::SeenBy;
use pgassay_analysis::causes::finding_of;
use pgassay_analysis::measured::PointAnalysis;
use pgassay_analysis::quality::Grade;
use pgassay_analysis::stats::Estimate;
use pgassay_analysis::{Analysis, metrics};
use pgassay_model::server::Origin;

use super::{budget, diagnosis, evidence, findings, legible, peak, results};
use crate::document::{Badge, Block, FindingBlock, Rating, Tile};
use crate::number;

/// Findings that the first screen names.
const FIRST: usize = 3;

/// How far the run was disturbed.
pub fn badges(analysis: &Analysis) -> Vec<Badge> {
    let badge = analysis.quality.as_ref().map(|quality| Badge {
        subject: "measurement",
        judgement: quality.grade.name().to_owned(),
        rating: match quality.grade {
            Grade::Good => Rating::Good,
            Grade::Fair => Rating::Fair,
            Grade::Poor => Rating::Bad,
        },
        why: quality.why(),
    });
    badge.into_iter().collect()
}

/// The peak of each load, and what a transaction of the first costs there.
pub fn tiles(analysis: &Analysis) -> Vec<Tile> {
    let Some(peak) = peak(analysis) else {
        return Vec::new();
    };
    let (load, at) = (&analysis.main().plan.workload.name, clients(peak));
    let mut tiles = Vec::new();
    for load in std::iter::once(analysis.main()).chain(analysis.further_loads()) {
        let of = load.arms.first();
        let peak = of.and_then(|arm| Some((arm, arm.peak()?)));
        tiles.extend(peak.map(|(arm, peak)| Tile {
            evidence: Some(evidence::of(load, arm, peak.point.clients)),
            ..rate(&load.plan.workload.name, peak)
        }));
    }
    let main = tiles.first().and_then(|tile: &Tile| tile.evidence.clone());
    for (name, metric) in [
        ("p99 latency", metrics::P99),
        ("server CPU per transaction", metrics::SERVER_CPU),
    ] {
        tiles.extend(peak.estimate(metric).map(|value| Tile {
            evidence: main.clone(),
            ..time(format!("{load}, {name}"), value, &at)
        }));
    }
    tiles
}

/// The pictures of the first screen: throughput over clients, and where the sessions' time goes.
pub fn pictures(analysis: &Analysis) -> Vec<Block> {
    let throughput = results::chart(analysis.main());
    let budget = budget::overview(analysis);
    let budget = budget.map(|bars| Block::Bars(Box::new(bars)));
    let throughput = throughput.map(|chart| Block::Chart(Box::new(chart)));
    throughput.into_iter().chain(budget).collect()
}

/// What limits the server most, with its share of the sessions' time; empty where no load was put on
/// it.
pub fn limit(analysis: &Analysis) -> String {
    if peak(analysis).is_none() {
        return String::new();
    }
    let causes = analysis.causes.iter();
    let mut measured = causes.filter(|cause| cause.seen_by != SeenBy::Audit);
    let worst = measured.find_map(|cause| Some((cause, finding_of(analysis, cause)?)));
    match (worst, &analysis.main().diagnosis) {
        (Some((cause, finding)), _) => {
            let of_load = cause.workload.as_deref().unwrap_or_default();
            let several = analysis.further_loads().next().is_some();
            let said = diagnosis::in_short(finding);
            match several {
                true => format!("Under {of_load}: {said}"),
                false => said,
            }
        }
        (None, Some(diagnosis)) => diagnosis::none_known(diagnosis),
        (None, None) => undiagnosed(analysis),
    }
}

/// Why it is not known what limits the server.
fn undiagnosed(analysis: &Analysis) -> String {
    let Some(observed) = analysis
        .main()
        .arms
        .first()
        .and_then(|a| a.observed.as_ref())
    else {
        return "Not observed: no observer ran with the load.".to_owned();
    };
    match observed.unavailable.first() {
        Some(missing) => format!(
            "Not observed: {}: {}.",
            missing.observer,
            missing.why.trim_end_matches('.')
        ),
        None => "Not known: what was observed was not diagnosed.".to_owned(),
    }
}

/// The findings that are expected to cost most, and how many there are beyond these.
pub fn first_steps(analysis: &Analysis) -> (Vec<FindingBlock>, usize) {
    let mut blocks = findings::of_causes(analysis);
    let further = blocks.len().saturating_sub(FIRST);
    blocks.truncate(FIRST);
    (blocks, further)
}

/// Whose settings an audit's findings are about, where they are nobody's: a server that was launched
/// without `--set` has those that pgassay chose.
pub fn of_steps(analysis: &Analysis, steps: &[FindingBlock]) -> &'static str {
    let by_audit = |block: &FindingBlock| !block.finding.basis.is_measured();
    let [arm] = analysis.arms.as_slice() else {
        return "";
    };
    let server = arm.server.as_ref();
    let launched = server.is_some_and(|server| server.origin != Origin::Running);
    match launched && arm.settings.is_empty() && steps.iter().any(by_audit) {
        true => "The server was launched for this run: its settings are pgassay's, not yours.",
        false => "",
    }
}

/// `, 2 CPUs (AMD EPYC)`: as much of the machine as belongs into a title; may be empty.
pub fn machine(analysis: &Analysis) -> String {
    let processors = analysis.host.processors();
    processors.map_or_else(String::new, |processors| format!(", {processors}"))
}

/// Throughput at the peak; where its trials lie at several levels, the highest of them.
fn rate(workload: &str, peak: &PointAnalysis) -> Tile {
    let mut tile = Tile {
        name: format!("{workload}, peak"),
        value: peak.throughput_tps.clone(),
        unit: "tps",
        remark: clients(peak),
        evidence: None,
    };
    if let Some(levels) = &peak.levels
        && let Some(highest) = levels.levels.last()
    {
        tile.value = highest.estimate.clone();
        tile.remark = format!("{}, at levels of {}", tile.remark, levels.in_words());
    }
    tile
}

fn time(name: String, us: &Estimate, at: &str) -> Tile {
    let (value, unit) = legible(us);
    Tile {
        name,
        value,
        unit,
        remark: at.to_owned(),
        evidence: None,
    }
}

fn clients(point: &PointAnalysis) -> String {
    number::counted(point.point.clients, "client")
}
