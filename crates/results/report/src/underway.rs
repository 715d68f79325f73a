//! A run while it is measured, as a document: how far it is, what it shows so far, what disturbs it.

use pgassay_analysis::stats::Estimate;
use pgassay_analysis::underway::{Pause, PointSoFar, Seen, SoFar, StageSoFar};

use super::document::{
    Axis, Block, Cell, Chart, Column, Depth, Document, Dot, Fact, Interval, Scale, Section, Series,
    Table, Tile, Value,
};
use super::{Report, number};

/// A share of the CPU time from which on other work is told of.
const DISTURBS: f64 = 0.05;
/// The newest trials by which that is judged.
const NEWEST: usize = 5;

impl Report for SoFar<'_> {
    fn document(&self) -> Document {
        let mut glance: Vec<Block> = Vec::new();
        if let Some((stage, point)) = self.newest() {
            glance.extend(by_clients(stage).map(|chart| Block::Chart(Box::new(chart))));
            glance.extend(narrowing(stage, point).map(|chart| Block::Chart(Box::new(chart))));
        }
        let mut sections: Vec<Section> = vec![Section {
            id: "so-far",
            title: "So far",
            depth: Depth::Titled,
            blocks: self.stages.iter().map(|s| Block::Table(table(s))).collect(),
        }];
        if let Some(chart) = disturbance(self.recent) {
            sections.push(Section {
                id: "disturbance",
                title: "What disturbs it",
                depth: Depth::Evidence,
                blocks: vec![Block::Chart(Box::new(chart))],
            });
        }
        sections.push(Section {
            id: "run",
            title: "The run",
            depth: Depth::Evidence,
            blocks: vec![Block::Facts(facts(self))],
        });
        Document {
            title: format!("Measuring: {}", work(self)),
            provenance: format!(
                "{}, begun {} by pgassay {}",
                self.run.id, self.run.started, self.run.pgassay_version
            ),
            alarms: alarm(self).into_iter().collect(),
            tiles: tiles(self),
            glance,
            headline: paused(self.pause)
                .into_iter()
                .chain([progress(self)])
                .collect(),
            sections,
            ..Document::default()
        }
    }
}

/// What is measured, on which servers.
fn work(run: &SoFar) -> String {
    let loads = run
        .run
        .experiment
        .stages
        .iter()
        .filter(|s| s.id.is_promised());
    let mut loads: Vec<&str> = loads.map(|s| s.plan.workload.name.as_str()).collect();
    loads.dedup();
    let arms = run.run.experiment.arms.iter();
    let arms: Vec<&str> = arms.map(|arm| arm.target.as_str()).collect();
    format!("{} on {}", loads.join(", "), arms.join(" and "))
}

/// Whether it waits, in a sentence.
fn paused(pause: &Pause) -> Option<String> {
    match pause {
        Pause::No => None,
        Pause::Asked => Some("It pauses when its trial is over.".to_owned()),
        Pause::Since {
            at,
            at_most_seconds,
        } => Some(format!(
            "Paused since {at}: nothing is measured, and it goes on by itself after {} at most.",
            number::duration(*at_most_seconds as f64)
        )),
    }
}

/// How far it is, in a sentence.
fn progress(run: &SoFar) -> String {
    let (done, planned) = run.trials;
    let cut = match run.cut_short {
        0 => String::new(),
        n => format!("; {n} ended before their time and do not count"),
    };
    match planned {
        0 => format!("{} trials measured{cut}.", number::count(done as u64)),
        _ if done >= planned => format!(
            "All {} planned trials are measured{cut}.",
            number::count(planned as u64)
        ),
        _ => format!(
            "{} of {} trials measured{cut}; about {} of load left.",
            number::count(done as u64),
            number::count(planned as u64),
            number::duration(run.left_seconds.ceil())
        ),
    }
}

/// The newest trial, and the estimate at its point.
fn tiles(run: &SoFar) -> Vec<Tile> {
    let Some((stage, point)) = run.newest() else {
        return Vec::new();
    };
    let unit = stage.stage.id.work().rate;
    let at = clients(stage, point);
    let newest = run.last.map(|(_, rate)| Tile {
        evidence: None,
        name: "newest trial".to_owned(),
        value: single(rate),
        unit,
        remark: at.clone(),
    });
    let estimate = Tile {
        evidence: None,
        name: "estimate there".to_owned(),
        value: point.rate.clone(),
        unit,
        remark: number::counted(point.trials.len() as u64, "trial"),
    };
    let share = |name: &str, of: fn(&Seen) -> Option<f64>| {
        Some(Tile {
            evidence: None,
            name: name.to_owned(),
            value: single(100.0 * newest_share(run.recent, of)?),
            unit: "%",
            remark: "of the CPU time".to_owned(),
        })
    };
    let tiles = [
        newest,
        Some(estimate),
        share("other work", |seen| seen.others),
        share("taken by the hypervisor", |seen| seen.steal),
    ];
    tiles.into_iter().flatten().collect()
}

/// A value without an interval.
pub(super) fn single(value: f64) -> Estimate {
    Estimate {
        estimate: value,
        low: value,
        high: value,
        level: 0.0,
        n: 1,
        warnings: Vec::new(),
    }
}

/// The median of a share over the newest trials.
fn newest_share(recent: &[Seen], of: impl Fn(&Seen) -> Option<f64>) -> Option<f64> {
    let mut shares: Vec<f64> = recent.iter().rev().filter_map(of).take(NEWEST).collect();
    shares.sort_by(f64::total_cmp);
    shares.get(shares.len() / 2).copied()
}

/// Says that it is disturbed now.
fn alarm(run: &SoFar) -> Option<String> {
    let others = newest_share(run.recent, |seen| seen.others).filter(|share| *share >= DISTURBS);
    let steal = newest_share(run.recent, |seen| seen.steal).filter(|share| *share >= DISTURBS);
    let others = others.map(|share| {
        format!(
            "other work takes {} of this machine's CPU time",
            number::percent_of_one(share)
        )
    });
    let steal = steal.map(|share| {
        format!(
            "the hypervisor gives {} of it to other guests",
            number::percent_of_one(share)
        )
    });
    let all: Vec<String> = others.into_iter().chain(steal).collect();
    (!all.is_empty()).then(|| {
        let said = all.join("; ");
        let mut letters = said.chars();
        let first = letters.next().map(|c| c.to_uppercase().to_string());
        format!(
            "{}{}. Meanwhile the figures are those of a machine with fewer free CPUs: stop it, or measure again when it has ended.",
            first.unwrap_or_default(),
            letters.as_str()
        )
    })
}

fn clients(stage: &StageSoFar, point: &PointSoFar) -> String {
    let who = stage.stage.id.work().who;
    let variant = match stage.stage.plan.points.iter().any(|p| p.variant > 0) {
        true => format!(", variant {}", point.point.variant + 1),
        false => String::new(),
    };
    format!("{}{variant}", number::counted(point.point.clients, who))
}

/// Throughput over clients, where there is a course to draw.
fn by_clients(stage: &StageSoFar) -> Option<Chart> {
    let work = stage.stage.id.work();
    if stage
        .stage
        .plan
        .points
        .iter()
        .any(|point| point.variant > 0)
    {
        return None;
    }
    let mut ticks: Vec<u32> = stage
        .arms
        .iter()
        .flat_map(|(_, points)| points.iter().map(|p| p.point.clients))
        .collect();
    ticks.sort_unstable();
    ticks.dedup();
    if ticks.len() < 2 {
        return None;
    }
    let series: Vec<Series> = stage
        .arms
        .iter()
        .enumerate()
        .map(|(look, (label, points))| Series {
            evidence: None,
            label: match stage.arms.len() {
                1 => "so far, with its interval".to_owned(),
                _ => (*label).to_owned(),
            },
            look,
            lane: (look, stage.arms.len()),
            estimates: points
                .iter()
                .map(|p| {
                    interval(
                        f64::from(p.point.clients),
                        &p.rate,
                        &clients(stage, p),
                        work.rate,
                    )
                })
                .collect(),
            dots: points.iter().flat_map(|p| dots(p)).collect(),
        })
        .collect();
    Some(Chart {
        id: "live-throughput".to_owned(),
        title: format!("Throughput over {}s, so far", work.who),
        alternative: spoken(&series),
        caption: "Bars are intervals; small marks are single trials.".to_owned(),
        x: Axis {
            label: format!("{}s, logarithmic", work.who),
            scale: Scale::Log,
            ticks: ticks.into_iter().map(f64::from).collect(),
        },
        y: Axis {
            label: format!("{} per second", work.units),
            scale: Scale::FromZero,
            ticks: vec![],
        },
        series,
        guides: vec![],
    })
}

/// The newest trials of a point as dots.
fn dots(point: &PointSoFar) -> Vec<Dot> {
    const MOST: usize = 40;
    let from = point.trials.len().saturating_sub(MOST);
    let shown = &point.trials[from..];
    let middle = (shown.len() as f64 - 1.0) / 2.0;
    let dot = |(at, rate): (usize, &f64)| Dot {
        x: f64::from(point.point.clients),
        y: *rate,
        offset: if middle > 0.0 {
            (at as f64 - middle) / middle
        } else {
            0.0
        },
        tip: format!("trial {}: {}", from + at + 1, number::single(*rate)),
    };
    shown.iter().enumerate().map(dot).collect()
}

/// How the estimate of the point that was measured last became what it is; none of one trial.
fn narrowing(stage: &StageSoFar, point: &PointSoFar) -> Option<Chart> {
    let work = stage.stage.id.work();
    let at = clients(stage, point);
    let steps = point.narrowing();
    if steps.len() < 2 {
        return None;
    }
    let what = |n: usize| format!("{at}, after {}", number::counted(n as u64, "trial"));
    let estimates = steps
        .iter()
        .map(|e| interval(e.n as f64, e, &what(e.n), work.rate));
    let series = vec![Series {
        evidence: None,
        label: format!("{at}, with its interval"),
        look: 0,
        lane: (0, 1),
        estimates: estimates.collect(),
        dots: vec![],
    }];
    Some(Chart {
        id: "live-narrowing".to_owned(),
        title: "The estimate, trial by trial".to_owned(),
        alternative: spoken(&series),
        caption: "The interval narrows with each trial of this point.".to_owned(),
        x: Axis {
            label: "trials".to_owned(),
            scale: Scale::Linear,
            ticks: vec![],
        },
        y: Axis {
            label: format!("{} per second", work.units),
            scale: Scale::Linear,
            ticks: vec![],
        },
        series,
        guides: vec![],
    })
}

/// What other work took in the newest trials.
fn disturbance(recent: &[Seen]) -> Option<Chart> {
    let series = |label: &str, look: usize, of: fn(&Seen) -> Option<f64>| {
        let points: Vec<Interval> = recent
            .iter()
            .filter_map(|seen| {
                let share = 100.0 * of(seen)?;
                Some(Interval {
                    x: seen.trial as f64,
                    y: share,
                    low: f64::NAN,
                    high: f64::NAN,
                    tip: format!("trial {}: {} % {label}", seen.trial, number::single(share)),
                })
            })
            .collect();
        (!points.is_empty()).then(|| Series {
            evidence: None,
            label: label.to_owned(),
            look,
            lane: (0, 1),
            estimates: points,
            dots: vec![],
        })
    };
    let all = [
        series("other work", 1, |seen| seen.others),
        series("taken by the hypervisor", 3, |seen| seen.steal),
    ];
    let series: Vec<Series> = all.into_iter().flatten().collect();
    (!series.is_empty()).then(|| Chart {
        id: "live-disturbance".to_owned(),
        title: "CPU time that others took".to_owned(),
        alternative: spoken(&series),
        caption: "Of all CPU time of the machine, in the newest trials.".to_owned(),
        x: Axis {
            label: "trial".to_owned(),
            scale: Scale::Linear,
            ticks: vec![],
        },
        y: Axis {
            label: "% of the CPU time".to_owned(),
            scale: Scale::FromZero,
            ticks: vec![],
        },
        series,
        guides: vec![],
    })
}

fn interval(x: f64, estimate: &Estimate, what: &str, unit: &str) -> Interval {
    let shown = number::shown(estimate);
    let (low, high, spread) = match shown.interval {
        Some(interval) => (estimate.low, estimate.high, format!(" ({})", interval.ends)),
        None => (f64::NAN, f64::NAN, String::new()),
    };
    Interval {
        x,
        y: estimate.estimate,
        low,
        high,
        tip: format!("{what}: {}{spread} {unit}", shown.value),
    }
}

/// A chart in words: its newest estimates.
pub(super) fn spoken(series: &[Series]) -> String {
    const MOST: usize = 12;
    let tips = series
        .iter()
        .flat_map(|s| s.estimates.iter().rev().take(MOST));
    let tips: Vec<&str> = tips.map(|e| e.tip.as_str()).collect();
    format!("{}.", tips.join("; "))
}

fn table(stage: &StageSoFar) -> Table {
    let work = stage.stage.id.work();
    let several = stage.arms.len() > 1;
    let mut columns = vec![Column::words("at", 0)];
    if several {
        columns.push(Column::words("server", 0));
    }
    columns.push(Column::figures("throughput", work.rate, 0));
    columns.push(Column::figures("interval", "±%", 1));
    columns.push(Column::figures("trials", "", 0));
    let points = stage
        .arms
        .iter()
        .flat_map(|(label, points)| points.iter().map(move |p| (label, p)));
    let rows = points.map(|(label, point)| {
        let mut row = vec![Cell::plain(clients(stage, point))];
        if several {
            row.push(Cell::plain(*label));
        }
        let half = 100.0 * point.rate.half_width() / point.rate.estimate;
        row.push(Cell {
            value: Value::Estimate(point.rate.clone()),
            marks: vec![],
        });
        row.push(match point.rate.n > 1 && half.is_finite() {
            true => Cell::plain(number::single(half)),
            false => Cell::plain(number::NONE),
        });
        let planned = stage.stage.plan.trials;
        row.push(Cell::plain(format!("{} of {planned}", point.trials.len())));
        row
    });
    Table {
        caption: format!("{} so far.", stage.stage.plan.workload.name),
        columns,
        rows: rows.collect(),
        folded: false,
        marks: vec![],
    }
}

fn facts(run: &SoFar) -> Vec<Fact> {
    let arms = run.run.experiment.arms.iter();
    let settings = arms.map(|arm| {
        let set = arm
            .settings
            .iter()
            .map(|(name, value)| format!("{name}={value}"));
        let set: Vec<String> = set.collect();
        Fact::new(format!("server {}", arm.label), &arm.target).remark(set.join(", "))
    });
    let mut facts = vec![
        Fact::new("command", run.run.command_line.join(" ")),
        Fact::new("started", &run.run.started),
    ];
    facts.extend(settings);
    facts
}
