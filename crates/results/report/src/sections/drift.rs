//! Did the machine stay the same from the first trial to the last?

use pgassay_analysis::Analysis;
use pgassay_analysis::analysis::StageAnalysis;
use pgassay_analysis::measured::StageArm;

use super::{place, points, thinned, thinning};
use crate::document::{Axis, Block, Chart, Depth, Dot, Guide, Notes, Scale, Section, Series};
use crate::number;

/// More trials of a server than this are thinned out, evenly.
const MOST_DOTS: usize = 1200;

/// Every trial against its own point's estimate, in the order of the schedule.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let load = analysis.main();
    let trials: usize = points(load).iter().map(|(_, p)| p.trials.len()).sum();
    if trials < 2 {
        return None;
    }
    Some(Section {
        id: "drift",
        title: "Steadiness",
        depth: Depth::Evidence,
        blocks: vec![Block::Chart(Box::new(chart(load)))],
    })
}

fn chart(load: &StageAnalysis) -> Chart {
    let trials = |arm: &StageArm| arm.points.iter().map(|p| p.trials.len()).sum();
    let most: usize = load.arms.iter().map(trials).max().unwrap_or(0);
    let arms = load.arms.iter().enumerate();
    let series: Vec<Series> = arms
        .map(|(look, arm)| Series {
            evidence: None,
            label: match load.arms.len() {
                1 => "one trial".to_owned(),
                _ => format!("one trial of {}", arm.label),
            },
            look,
            lane: (0, 1),
            estimates: vec![],
            dots: deviations(load, arm),
        })
        .collect();
    let dots = || series.iter().flat_map(|s| &s.dots);
    let last = dots().map(|d| d.x).fold(1.0, f64::max);
    let lowest = dots().map(|d| d.y).fold(0.0, f64::min);
    let highest = dots().map(|d| d.y).fold(0.0, f64::max);
    let alternative = format!(
        "Throughput of {} trials in schedule order, each as its difference from the estimate at \
         its own client count. They lie between {} % and {} %.",
        dots().count(),
        number::signed(lowest, 1),
        number::signed(highest, 1)
    );
    Chart {
        id: "drift".to_owned(),
        title:
            "Each trial against the estimate at its client count, in the order in which they ran"
                .to_owned(),
        alternative,
        caption: format!(
            "Points were visited in random order, so a slope or a step here is the machine \
             changing, not the number of clients.{}",
            thinned(most, MOST_DOTS)
        ),
        x: Axis {
            label: "trial, in the order of the schedule".to_owned(),
            scale: Scale::Linear,
            ticks: vec![],
        },
        y: Axis {
            label: "difference, %".to_owned(),
            scale: Scale::Linear,
            ticks: vec![],
        },
        series,
        guides: vec![Guide {
            label: "the estimate".to_owned(),
            points: vec![(1.0, 0.0), (last, 0.0)],
            in_range: true,
        }],
    }
}

fn deviations(load: &StageAnalysis, arm: &StageArm) -> Vec<Dot> {
    let mut dots: Vec<Dot> = arm
        .points
        .iter()
        .flat_map(|p| {
            let at = place(load, arm, p.point.clients);
            let estimate = p.throughput_tps.estimate;
            p.trials.iter().map(move |t| {
                let y = (t.throughput_tps / estimate - 1.0) * 100.0;
                Dot {
                    x: f64::from(t.index) + 1.0,
                    y,
                    offset: 0.0,
                    tip: format!("trial {}, {at}: {} %", t.index + 1, number::signed(y, 1)),
                }
            })
        })
        .filter(|d| d.y.is_finite())
        .collect();
    dots.sort_by(|a, b| a.x.total_cmp(&b.x));
    let step = thinning(dots.len(), MOST_DOTS);
    dots.into_iter().step_by(step).collect()
}
