//! Latency percentiles over clients.

use pgassay_analysis::Analysis;
use pgassay_analysis::analysis::StageAnalysis;
use pgassay_analysis::measured::{PointAnalysis, StageArm};
use pgassay_analysis::metrics::{self, MetricId};

use super::metric_table::series;
use super::{client_ticks, has_course, points, thinned_at_points};
use crate::document::{Axis, Block, Chart, Depth, Notes, Scale, Section, Series};
use crate::number;

const PERCENTILES: [(&str, MetricId); 4] = [
    ("p50 (median)", metrics::P50),
    ("p90", metrics::P90),
    ("p99", metrics::P99),
    ("p99.9", metrics::P99_9),
];

/// The percentiles whose single trials are drawn: those of all would hide each other.
const WITH_TRIALS: [MetricId; 2] = [metrics::P50, metrics::P99];

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
    let lines: Vec<Series> = PERCENTILES
        .iter()
        .enumerate()
        .map(|(look, (label, metric))| {
            let what = |p: &PointAnalysis| format!("{label} at {} clients", p.point.clients);
            let mut line = series(arm, (label, "µs"), *metric, what);
            if !WITH_TRIALS.contains(metric) {
                line.dots.clear();
            }
            Series { look, ..line }
        })
        .collect();
    let spoken: Vec<String> = lines
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
            "Logarithmic scale. Small marks are single trials (of the median and \
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
        series: lines,
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
