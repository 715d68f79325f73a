//! The last minute of a measurement, second by second, as the head of a document.

use pgassay_analysis::within::Within;
use pgassay_model::live::Second;

use super::document::{Axis, Block, Chart, Document, Interval, Scale, Series, Tile};
use super::underway::{single, spoken};
use super::{Report, number};

impl Report for Within {
    fn document(&self) -> Document {
        let charts = [throughput(self), disturbance(self)];
        let charts = charts.into_iter().flatten();
        Document {
            title: "The last minute".to_owned(),
            tiles: tiles(self),
            glance: charts.map(|chart| Block::Chart(Box::new(chart))).collect(),
            headline: running(self).into_iter().collect(),
            ..Document::default()
        }
    }
}

/// What runs, in a sentence.
fn running(within: &Within) -> Option<String> {
    let now = within.now()?;
    let passed = number::duration(now.passed_seconds.round());
    Some(match now.takes_seconds {
        Some(takes) => format!(
            "Trial {} of {}: {}, {passed} measured; it takes {}.",
            now.done + 1,
            now.all,
            now.name,
            number::duration(takes)
        ),
        None => format!("Trial {} of {}: {}.", now.done + 1, now.all, now.name),
    })
}

fn tiles(within: &Within) -> Vec<Tile> {
    let Some((name, second)) = within.seconds().last() else {
        return Vec::new();
    };
    let tile = |title: &str, value: f64, unit: &'static str, remark: &str| Tile {
        evidence: None,
        name: title.to_owned(),
        value: single(value),
        unit,
        remark: remark.to_owned(),
    };
    let unit = match within.unit() {
        "tps" => "tps",
        _ => "per second",
    };
    let mut tiles = vec![tile("now", second.rate, unit, name)];
    if let Some((mean, p99)) = second.latency_ms {
        let remark = format!("mean {} ms", number::single(mean));
        tiles.push(tile("p99 now", p99, "ms", &remark));
    }
    let share =
        |title: &str, share: Option<f64>| Some(tile(title, 100.0 * share?, "%", "of the CPU time"));
    tiles.extend(share("other work now", second.disturbed.others));
    tiles.extend(share("taken by the hypervisor now", second.disturbed.steal));
    if second.failed > 0 {
        tiles.push(tile("failed now", second.failed as f64, "", "transactions"));
    }
    tiles
}

/// A course over the last seconds; none of fewer than two.
fn course(
    within: &Within,
    label: &str,
    look: usize,
    of: impl Fn(&Second) -> Option<f64>,
    unit: &str,
) -> Option<Series> {
    let last = within.seconds().len() as f64 - 1.0;
    let points: Vec<Interval> = within
        .seconds()
        .enumerate()
        .filter_map(|(at, (name, second))| {
            let value = of(second)?;
            let ago = last - at as f64;
            Some(Interval {
                x: -ago,
                y: value,
                low: f64::NAN,
                high: f64::NAN,
                tip: format!("{ago:.0} s ago, {name}: {} {unit}", number::single(value)),
            })
        })
        .collect();
    (points.len() > 1).then(|| Series {
        evidence: None,
        label: label.to_owned(),
        look,
        lane: (0, 1),
        estimates: points,
        dots: vec![],
    })
}

fn throughput(within: &Within) -> Option<Chart> {
    let unit = within.unit();
    let series = vec![course(within, "throughput", 0, |s| Some(s.rate), unit)?];
    Some(Chart {
        id: "live-seconds".to_owned(),
        title: "Throughput, second by second".to_owned(),
        alternative: spoken(&series),
        caption: "Trials run at different numbers of clients: steps between them are no noise."
            .to_owned(),
        x: ago(),
        y: Axis {
            label: unit.to_owned(),
            scale: Scale::FromZero,
            ticks: vec![],
        },
        series,
        guides: vec![],
    })
}

fn disturbance(within: &Within) -> Option<Chart> {
    let share = |of: Option<f64>| of.map(|share| 100.0 * share);
    let all = [
        course(within, "other work", 1, |s| share(s.disturbed.others), "%"),
        course(
            within,
            "taken by the hypervisor",
            3,
            |s| share(s.disturbed.steal),
            "%",
        ),
    ];
    let series: Vec<Series> = all.into_iter().flatten().collect();
    (!series.is_empty()).then(|| Chart {
        id: "live-disturbance-seconds".to_owned(),
        title: "CPU time that others take now".to_owned(),
        alternative: spoken(&series),
        caption: "Of all CPU time of the machine.".to_owned(),
        x: ago(),
        y: Axis {
            label: "% of the CPU time".to_owned(),
            scale: Scale::FromZero,
            ticks: vec![],
        },
        series,
        guides: vec![],
    })
}

fn ago() -> Axis {
    Axis {
        label: "measured seconds ago".to_owned(),
        scale: Scale::Linear,
        ticks: vec![],
    }
}
