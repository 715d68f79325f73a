//! Every pair drawn: where they lie, and in which order they came.

use pgassay_analysis::compare::Compare;
use pgassay_analysis::compare::model::{Pair, PointResult};
use pgassay_analysis::compare::signed;

use super::{others, place};
use crate::document::{Axis, Block, Chart, Depth, Dot, Guide, Interval, Scale, Section, Series};

/// Charts of single points that a page shows at most.
const MOST_COURSES: usize = 6;
/// Pairs of one chart beyond which only every second, third … is drawn.
const MOST_DOTS: usize = 1500;
/// Pairs further out than so many of their spreads stand at the edge, so that one
/// interrupted slice does not press all others together.
const FARTHEST: f64 = 4.0;

/// The pairs of each point, and their course.
pub fn section(compare: &Compare) -> Option<Section> {
    if compare.results.iter().all(|r| r.pairs.is_empty()) {
        return None;
    }
    let mut blocks = vec![Block::Chart(Box::new(spread(compare)))];
    for result in compare.results.iter().take(MOST_COURSES) {
        blocks.push(Block::Chart(Box::new(course(compare, result))));
    }
    Some(Section {
        id: "pairs",
        title: "Every pair",
        depth: Depth::Evidence,
        blocks,
    })
}

/// How far out a chart of these points goes, in percent.
fn farthest<'a>(results: impl Iterator<Item = &'a PointResult>) -> f64 {
    let spreads = results.flat_map(|r| {
        let noise = r.noise_floor().map(|floor| floor.pair_spread);
        let shift = (r.compared.ratio.estimate - 1.0).abs() / FARTHEST;
        [r.compared.spread.map(|s| s + shift), noise]
    });
    let widest = spreads
        .flatten()
        .filter(|s| s.is_finite())
        .fold(0.0, f64::max);
    (100.0 * FARTHEST * widest).max(2.0)
}

/// The ratio of each pair that shows the metric, with its number.
fn ratios<'a>(compare: &Compare, pairs: &'a [Pair]) -> Vec<(usize, &'a Pair, f64)> {
    let numbered = (1..).zip(pairs);
    numbered
        .filter_map(|(n, pair)| Some((n, pair, pair.ratio(compare.metric)?)))
        .collect()
}

fn difference(ratio: f64, farthest: f64) -> f64 {
    (100.0 * (ratio - 1.0)).clamp(-farthest, farthest)
}

/// All points side by side: the pairs, the interval, and the noise beside them.
fn spread(compare: &Compare) -> Chart {
    let lanes = 1 + others(&compare.analysis);
    let far = farthest(compare.results.iter());
    let mut series: Vec<Series> = Vec::new();
    let noise = compare.results.iter().filter(|r| r.arm == 1);
    series.push(Series {
        evidence: None,
        label: "A vs. A (noise)".to_owned(),
        look: 0,
        lane: (0, lanes),
        estimates: noise.clone().filter_map(noise_interval).collect(),
        dots: noise
            .flat_map(|r| dots(compare, r, &r.noise, far))
            .collect(),
    });
    for arm in 1..lanes {
        let of_arm = || compare.results.iter().filter(|r| r.arm == arm as u32);
        let Some(first) = of_arm().next() else {
            continue;
        };
        series.push(Series {
            evidence: None,
            label: format!("{} against A", first.label),
            look: arm,
            lane: (arm, lanes),
            estimates: of_arm().map(|r| interval(compare, r)).collect(),
            dots: of_arm()
                .flat_map(|r| dots(compare, r, &r.pairs, far))
                .collect(),
        });
    }
    let mut ticks: Vec<f64> = compare
        .results
        .iter()
        .map(|r| f64::from(r.clients))
        .collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let ends = (
        ticks.first().copied().unwrap_or(1.0),
        ticks.last().copied().unwrap_or(1.0),
    );
    let delta = compare
        .results
        .first()
        .map_or(0.0, |r| r.compared.rule.delta);
    let spoken: Vec<String> = compare
        .results
        .iter()
        .map(|r| interval(compare, r).tip)
        .collect();
    Chart {
        id: "pairs".to_owned(),
        title: "Difference of each pair, and of all".to_owned(),
        alternative: format!(
            "Difference of {} from A, in percent. {}.",
            compare.metric.heading,
            spoken.join("; ")
        ),
        caption: format!(
            "Small marks are pairs, left to right in the order in which they were measured; the bar \
             is the interval of the estimate. Beside them stand pairs of two equal servers: what \
             this machine calls different by itself. The dashed lines are no difference and \
             ±{} %, the difference that was said to matter. Pairs further out than {far:.0} % stand \
             at the edge.",
            100.0 * delta
        ),
        x: Axis {
            label: format!("{}s", compare.analysis.main().id.work().who),
            scale: Scale::Log,
            ticks,
        },
        y: Axis {
            label: "difference from A, %".to_owned(),
            scale: Scale::Linear,
            ticks: vec![],
        },
        series,
        guides: [0.0, 100.0 * delta, -100.0 * delta]
            .into_iter()
            .enumerate()
            .filter(|(i, y)| *i == 0 || *y != 0.0)
            .map(|(i, y)| Guide {
                // Lines of one look have one entry in the legend.
                label: match i {
                    0 if delta > 0.0 => format!("no difference, and ±{} %", 100.0 * delta),
                    0 => "no difference".to_owned(),
                    _ => String::new(),
                },
                points: if ends.0 == ends.1 {
                    vec![(ends.0 / 1.9, y), (ends.1 * 1.9, y)]
                } else {
                    vec![(ends.0, y), (ends.1, y)]
                },
                in_range: true,
            })
            .collect(),
    }
}

fn dots(compare: &Compare, result: &PointResult, pairs: &[Pair], far: f64) -> Vec<Dot> {
    let (x, count) = (f64::from(result.clients), pairs.len());
    let step = count.div_ceil(MOST_DOTS / 4).max(1);
    let drawn = ratios(compare, pairs).into_iter().step_by(step);
    drawn
        .map(|(n, _, ratio)| Dot {
            x,
            y: difference(ratio, far),
            offset: match count {
                0 | 1 => 0.0,
                _ => 2.0 * (n - 1) as f64 / (count - 1) as f64 - 1.0,
            },
            tip: format!("pair {n}: {}", signed(ratio)),
        })
        .collect()
}

fn interval(compare: &Compare, result: &PointResult) -> Interval {
    let ratio = &result.compared.ratio;
    let percent = |v: f64| 100.0 * (v - 1.0);
    Interval {
        x: f64::from(result.clients),
        y: percent(ratio.estimate),
        low: percent(ratio.low),
        high: percent(ratio.high),
        tip: format!(
            "{}: {} ({} to {})",
            place(compare, result),
            signed(ratio.estimate),
            signed(ratio.low),
            signed(ratio.high)
        ),
    }
}

fn noise_interval(result: &PointResult) -> Option<Interval> {
    let ratio = &result.noise_floor()?.ratio;
    let percent = |v: f64| 100.0 * (v - 1.0);
    Some(Interval {
        x: f64::from(result.clients),
        y: percent(ratio.estimate),
        low: percent(ratio.low),
        high: percent(ratio.high),
        tip: format!(
            "equal servers: {} to {}",
            signed(ratio.low),
            signed(ratio.high)
        ),
    })
}

/// One point's pairs in the order in which they were measured.
fn course(compare: &Compare, result: &PointResult) -> Chart {
    let at = place(compare, result);
    let shift = result.noise.len();
    let far = farthest(std::iter::once(result));
    let step = (shift + result.pairs.len()).div_ceil(MOST_DOTS).max(1);
    let points = |pairs: &[Pair], from: usize, what: &str| -> Vec<Dot> {
        let drawn = ratios(compare, pairs).into_iter().step_by(step);
        drawn
            .map(|(n, pair, ratio)| Dot {
                x: (from + n) as f64,
                y: difference(ratio, far),
                offset: 0.0,
                tip: format!(
                    "{what} {n}, launch {}, {} first: {}",
                    pair.launch + 1,
                    if pair.a_first { "A" } else { "B" },
                    signed(ratio)
                ),
            })
            .collect()
    };
    let last = (shift + result.pairs.len()).max(2) as f64;
    let ratio = &result.compared.ratio;
    let percent = |v: f64| 100.0 * (v - 1.0);
    let first = (shift + 1) as f64;
    let line = |y: f64| vec![(first, y), (last, y)];
    let finite = |y: f64| y.is_finite() && y.abs() <= far;
    let mut guides = vec![Guide {
        label: "no difference".to_owned(),
        points: vec![(1.0, 0.0), (last, 0.0)],
        in_range: true,
    }];
    for value in [ratio.low, ratio.high] {
        if finite(percent(value)) {
            "no difference, and the interval's ends".clone_into(&mut guides[0].label);
            guides.push(Guide {
                label: String::new(),
                points: line(percent(value)),
                in_range: true,
            });
        }
    }
    Chart {
        id: format!("course-{}-{}", result.arm, result.clients),
        title: format!("The pairs in their order, {at}"),
        alternative: format!(
            "Difference of {} pairs in the order of measurement; the estimate is {}.",
            result.pairs.len(),
            signed(ratio.estimate)
        ),
        caption:
            "First the pairs of equal servers, then those of the arms. A slope or a step here \
                  is the machine; it meets both arms of a pair alike."
                .to_owned(),
        x: Axis {
            label: "pair, in the order of measurement".to_owned(),
            scale: Scale::Linear,
            ticks: vec![],
        },
        y: Axis {
            label: "difference from A, %".to_owned(),
            scale: Scale::Linear,
            ticks: vec![],
        },
        series: vec![
            Series {
                evidence: None,
                label: "A vs. A (noise)".to_owned(),
                look: 0,
                lane: (0, 1),
                estimates: vec![],
                dots: points(&result.noise, 0, "noise pair"),
            },
            Series {
                evidence: None,
                label: format!("{} against A", result.label),
                look: result.arm as usize,
                lane: (0, 1),
                estimates: vec![],
                dots: points(&result.pairs, shift, "pair"),
            },
        ],
        guides,
    }
}
