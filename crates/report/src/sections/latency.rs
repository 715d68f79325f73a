//! Latency percentiles over clients.

use pgassay_analysis::Analysis;
use pgassay_analysis::analysis::{LatencyEstimates, StageAnalysis, StageArm, TrialAnalysis};
use pgassay_analysis::stats::Estimate;

use super::{client_ticks, dots, has_course, interval, points, thinned_at_points};
use crate::document::{Axis, Block, Chart, Depth, Notes, Scale, Section, Series};
use crate::number;

/// One percentile: its name, where it stands in a point, and in a trial where trials keep it.
type Percentile = (
    &'static str,
    fn(&LatencyEstimates) -> &Estimate,
    fn(&TrialAnalysis) -> Option<f64>,
);

const PERCENTILES: [Percentile; 4] = [
    ("p50 (median)", |l| &l.p50, |t| Some(t.p50_us)),
    ("p90", |l| &l.p90, |_| None),
    ("p99", |l| &l.p99, |t| Some(t.p99_us)),
    ("p99.9", |l| &l.p99_9, |_| None),
];

/// A chart for each server, and what the tails rest on.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let load = analysis.main();
    if points(load).is_empty() {
        return None;
    }
    let arms = load.arms.iter().enumerate();
    let mut blocks: Vec<Block> = arms
        .filter(|(_, arm)| has_course(arm))
        .map(|(i, arm)| Block::Chart(Box::new(chart(load, i, arm))))
        .collect();
    blocks.push(Block::Text(rests_on(load)));
    Some(Section {
        id: "latency",
        title: "Latency",
        depth: Depth::Evidence,
        blocks,
    })
}

fn chart(load: &StageAnalysis, index: usize, arm: &StageArm) -> Chart {
    let series: Vec<Series> = PERCENTILES
        .iter()
        .enumerate()
        .map(|(look, (label, estimate, trial))| Series {
            label: (*label).to_owned(),
            look,
            lane: (0, 1),
            estimates: arm
                .points
                .iter()
                .map(|p| {
                    let x = f64::from(p.point.clients);
                    let what = format!("{label} at {} clients", p.point.clients);
                    interval(x, estimate(&p.latency_us), &what, "µs")
                })
                .collect(),
            dots: arm
                .points
                .iter()
                .flat_map(|p| dots(p, trial, "µs"))
                .collect(),
        })
        .collect();
    let spoken: Vec<String> = series
        .iter()
        .flat_map(|s| s.estimates.iter().map(|e| e.tip.clone()))
        .collect();
    let title = match load.arms.len() {
        1 => "Latency percentiles over clients".to_owned(),
        _ => format!("Latency percentiles over clients: {}", arm.label),
    };
    Chart {
        id: format!("latency-{index}"),
        title,
        alternative: format!(
            "Latency percentiles in microseconds against the number of clients, on a logarithmic \
             axis. {}.",
            spoken.join("; ")
        ),
        caption: format!(
            "Each step up the axis multiplies. Small marks are single trials (of the median and \
             p99).{}",
            thinned_at_points(load)
        ),
        x: Axis {
            label: "clients".to_owned(),
            scale: Scale::Log,
            ticks: client_ticks(load),
        },
        y: Axis {
            label: "latency".to_owned(),
            scale: Scale::Duration,
            ticks: vec![],
        },
        series,
        guides: vec![],
    }
}

/// How many transactions lie beyond the last percentile, and the longest of all.
fn rests_on(load: &StageAnalysis) -> String {
    let all = points(load);
    let fewest = all.iter().map(|(_, p)| p.latency_us.count).min();
    let longest = all
        .iter()
        .max_by(|a, b| a.1.latency_us.max.total_cmp(&b.1.latency_us.max));
    let mut text = String::from(
        "Latency runs from the moment at which a transaction was due to its last reply byte.",
    );
    if let Some(fewest) = fewest {
        text.push_str(&format!(
            " The percentiles of the thinnest point are read from {} transactions, {} of them \
             beyond its p99.9.",
            number::count(fewest),
            number::count(fewest / 1000)
        ));
    }
    if let Some((_, point)) = longest {
        text.push_str(&format!(
            " The longest single transaction took {} ms, at {} clients.",
            number::single(point.latency_us.max / 1000.0),
            number::count(u64::from(point.point.clients))
        ));
    }
    text
}
