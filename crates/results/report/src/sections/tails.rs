//! Latency in detail: far percentiles by script and statement, their curve, and latency over time.

use pgassay_analysis::Analysis;
use pgassay_analysis::analysis::StageAnalysis;
use pgassay_analysis::latency::{LatencyDetail, Percentiles, ROWS_PER_DECADE, ScriptLatency};
use pgassay_analysis::measured::{PointAnalysis, StageArm};

use super::metric_table::{largest, time_unit};
use super::{place, points};
use crate::document::{
    Axis, Block, Cell, Chart, Column, Depth, HeatColumn, HeatMap, Interval, Notes, Scale, Section,
    Series, Table,
};
use crate::number;

/// Curves in one picture: more can't be told apart.
const MOST_CURVES: usize = 4;
/// Heat maps of one report.
const MOST_MAPS: usize = 2;

/// The percentiles, their curve, and a picture over time of the smallest and the largest point.
pub fn section(analysis: &Analysis, _: &mut Notes) -> Option<Section> {
    let load = analysis.main();
    let detailed = detailed(load);
    if detailed.is_empty() {
        return None;
    }
    let mut blocks = vec![Block::Table(percentiles(&detailed))];
    blocks.extend(by_script(load, &detailed).map(Block::Table));
    blocks.push(Block::Chart(Box::new(curves(&detailed))));
    for map in mapped(&detailed).filter_map(heat_map) {
        blocks.push(Block::HeatMap(Box::new(map)));
    }
    Some(Section {
        id: "tails",
        title: "Latency in detail",
        depth: Depth::Evidence,
        blocks,
    })
}

fn detailed(load: &StageAnalysis) -> Vec<Detailed<'_>> {
    let points = points(load).into_iter();
    let detailed = points.filter_map(|(arm, point)| {
        Some(Detailed {
            name: place(load, arm, point.point.clients),
            id: format!("{}-{}", position(load, arm), point.point.clients),
            point,
            detail: point.detail.as_ref()?,
        })
    });
    detailed.collect()
}

/// Those that have a heat map.
fn mapped<'d, 'a>(detailed: &'d [Detailed<'a>]) -> impl Iterator<Item = &'d Detailed<'a>> {
    let over_time = detailed.iter().rev();
    let over_time = over_time.filter(|d| d.detail.over_time.len() > 1);
    over_time.take(MOST_MAPS)
}

/// The name of a point's heat map in a page, where it has one; a comparison has none.
pub fn map_of(analysis: &Analysis, load: &StageAnalysis, point: &PointAnalysis) -> Option<String> {
    if analysis.run.command == "compare" || !std::ptr::eq(analysis.main(), load) {
        return None;
    }
    let detailed = detailed(load);
    let of = mapped(&detailed).find(|d| std::ptr::eq(d.point, point))?;
    Some(format!("figure-heat-{}", of.id))
}

/// A point with its histograms' content.
struct Detailed<'a> {
    name: String,
    id: String,
    point: &'a PointAnalysis,
    detail: &'a LatencyDetail,
}

fn position(load: &StageAnalysis, arm: &StageArm) -> usize {
    let same = |a: &StageArm| std::ptr::eq(a, arm);
    load.arms.iter().position(same).unwrap_or(0)
}

const FIGURES: [(&str, u8); 7] = [
    ("transactions", 4),
    ("p50", 0),
    ("p90", 3),
    ("p99", 0),
    ("p99.9", 2),
    ("p99.99", 1),
    ("max", 0),
];

/// A row before its columns have units: its name, how many there are, and times in microseconds.
struct Row(String, u64, [Option<f64>; 6]);

fn row(name: impl Into<String>, p: &Percentiles) -> Row {
    let times = [p.p50, p.p90, p.p99, p.p99_9, p.p99_99, p.max];
    Row(name.into(), p.count, times)
}

/// Columns and cells, each column in one unit.
fn laid_out(names: &str, rows: &[Row]) -> (Vec<Column>, Vec<Vec<Cell>>) {
    let units: Vec<(f64, &str)> = (0..6)
        .map(|i| time_unit("µs", largest(rows.iter().filter_map(|row| row.2[i]))))
        .collect();
    let mut columns = vec![Column::words(names, 0)];
    columns.extend(FIGURES.iter().enumerate().map(|(i, (name, rank))| {
        let unit = if i == 0 { "" } else { units[i - 1].1 };
        Column::figures(name, unit, *rank)
    }));
    let cells = rows.iter().map(|Row(name, count, times)| {
        let mut cells = vec![Cell::plain(name), Cell::plain(number::count(*count))];
        let times = times.iter().zip(&units);
        cells.extend(times.map(|(time, (factor, _))| {
            Cell::plain_or_missing(time.map(|time| number::single(time * factor)))
        }));
        cells
    });
    let cells = cells.collect();
    (columns, cells)
}

fn percentiles(detailed: &[Detailed]) -> Table {
    let mut rows = Vec::new();
    for d in detailed {
        rows.push(row(&d.name, &d.detail.all));
        let apart = [
            ("from the actual start", &d.detail.from_actual_start),
            ("first on a connection", &d.detail.first),
            ("connecting, part of the latency", &d.detail.connect),
        ];
        for (what, found) in apart {
            if let Some(p) = found {
                rows.push(row(format!("{}: {what}", d.name), p));
            }
        }
    }
    let (columns, rows) = laid_out("where", &rows);
    Table {
        caption:
            "Percentiles of all transactions of all trials together, from the intended start. \
                  Those with fewer than five transactions beyond them are left out; the first \
                  transaction of each new connection is counted apart."
                .to_owned(),
        columns,
        rows,
        folded: false,
        marks: vec![],
    }
}

/// By script and by statement, where they were told apart.
fn by_script(load: &StageAnalysis, detailed: &[Detailed]) -> Option<Table> {
    let mut rows = Vec::new();
    for d in detailed {
        for (at, script) in d.detail.scripts.iter().enumerate() {
            rows.push(row(format!("{}: {}", d.name, script.name), &script.latency));
            for statement in &script.statements {
                let text = statement_text(load, at, script, statement.command);
                rows.push(row(format!("… {text}"), &statement.latency));
            }
        }
    }
    let (columns, rows) = laid_out("script", &rows);
    (!rows.is_empty()).then(|| Table {
        caption: "Percentiles by script, and by its commands where they were measured.".to_owned(),
        columns,
        rows,
        folded: false,
        marks: vec![],
    })
}

/// The n-th command of a script as it was recorded; of runs of before that, by the lines of its text.
fn statement_text(load: &StageAnalysis, at: usize, script: &ScriptLatency, command: u32) -> String {
    let workload = &load.plan.workload;
    let recorded = workload.commands.get(at);
    let recorded = recorded.and_then(|commands| commands.get(command as usize));
    let lines: Vec<&str> = match recorded {
        Some(_) => Vec::new(),
        None => workload
            .scripts
            .get(at)
            .map_or("", |plan| plan.text.as_str())
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with("--"))
            .collect(),
    };
    // One command to a line, as nearly all scripts are written; else only its number is certain.
    let last = script.statements.last().map_or(0, |s| s.command as usize);
    let by_line = || lines.get(command as usize).filter(|_| lines.len() > last);
    match recorded.map(String::as_str).or_else(|| by_line().copied()) {
        Some(line) => {
            let short: String = line.chars().take(60).collect();
            format!("{}: {short}", command + 1)
        }
        None => format!("command {}", command + 1),
    }
}

/// Percentile against latency, as HDR histograms are drawn: the far end is spread out.
fn curves(detailed: &[Detailed]) -> Chart {
    let mut series: Vec<Series> = Vec::new();
    let mut add = |label: String, curve: &[(f64, f64)]| {
        let look = series.len();
        if curve.is_empty() || look == MOST_CURVES {
            return;
        }
        series.push(Series {
            evidence: None,
            estimates: curve
                .iter()
                .map(|(n, us)| Interval {
                    x: *n,
                    y: *us,
                    low: f64::NAN,
                    high: f64::NAN,
                    tip: format!(
                        "{label}: one in {} takes {} µs or longer",
                        number::short(*n),
                        number::single(*us)
                    ),
                })
                .collect(),
            label,
            look,
            lane: (0, 1),
            dots: vec![],
        });
    };
    let ends = detailed.iter().filter_map(|d| d.detail.curve.last());
    let longest = ends.map(|(n, _)| *n).fold(100.0, f64::max);
    let step = detailed.len().div_ceil(MOST_CURVES).max(1);
    // The largest is always among them.
    for d in detailed.iter().rev().step_by(step) {
        add(d.name.clone(), &d.detail.curve);
        add(
            format!("{}, from the actual start", d.name),
            &d.detail.curve_from_actual_start,
        );
    }
    let spoken: Vec<String> = detailed
        .iter()
        .filter_map(|d| {
            let (n, us) = d.detail.curve.last()?;
            Some(format!(
                "at {} one transaction in {} takes {} µs or longer",
                d.name,
                number::short(*n),
                number::single(*us)
            ))
        })
        .collect();
    Chart {
        id: "tails-curve".to_owned(),
        title: "How slow the slowest are".to_owned(),
        alternative: format!(
            "Latency in microseconds of the slowest transaction in so many. {}.",
            spoken.join("; ")
        ),
        caption: "x = 100 is p99, x = 10,000 is p99.99. Both axes logarithmic. Where starts were intended by a rate, the \
                  second curve counts from the actual start: what lies between the two is waiting \
                  that a client which only measures its own requests does not see."
            .to_owned(),
        x: Axis {
            label: "the slowest one in so many transactions".to_owned(),
            scale: Scale::Log,
            ticks: (1..=12)
                .map(|power| 10_f64.powi(power))
                .take_while(|tick| *tick <= longest)
                .collect(),
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

fn heat_map(d: &Detailed) -> Option<HeatMap> {
    let rows = d.detail.over_time.iter().flat_map(|m| &m.rows);
    let low = rows.clone().map(|r| r.0).min()?;
    let high = rows.map(|r| r.0).max()? + 1;
    let edge = |row: i32| 10_f64.powf(f64::from(row) / ROWS_PER_DECADE);
    let mut begin = 0.0;
    let mut last = None;
    let mut seconds = 0.0;
    let columns = d
        .detail
        .over_time
        .iter()
        .map(|moment| {
            let new_trial = last
                .replace(moment.trial)
                .is_some_and(|t| t != moment.trial);
            begin += seconds;
            seconds = moment.length;
            HeatColumn {
                begin,
                length: moment.length,
                new_trial,
                p50: moment.p50,
                p99: moment.p99,
                max: moment.max,
                cells: moment
                    .rows
                    .iter()
                    .map(|(row, count)| (row.abs_diff(low) as usize, *count))
                    .collect(),
                tip: match (moment.p50, moment.max) {
                    (Some(p50), Some(max)) => format!(
                        "trial {}, {} s: half within {} µs, the longest {} µs",
                        moment.trial + 1,
                        number::short(moment.start),
                        number::single(p50),
                        number::single(max)
                    ),
                    _ => format!(
                        "trial {}, {} s: no transaction ended",
                        moment.trial + 1,
                        number::short(moment.start)
                    ),
                },
            }
        })
        .collect();
    let trials = d.point.trials.len();
    Some(HeatMap {
        id: format!("heat-{}", d.id),
        title: format!("Latency over time, {}", d.name),
        alternative: format!(
            "Every transaction of {trials} trials by when it ended and how long it took. Half took \
             at most {} µs, the longest {} µs.",
            d.detail.all.p50.map_or_else(|| "?".to_owned(), number::single),
            d.detail.all.max.map_or_else(|| "?".to_owned(), number::single),
        ),
        caption: "Each column is a stretch of time, darker where more of its transactions took that \
                  long; the lines are its median, 99th percentile and longest. Trials lie end to end \
                  in the order in which they ran, between faint upright lines."
            .to_owned(),
        low: edge(low),
        high: edge(high),
        rows: high.abs_diff(low) as usize,
        columns,
    })
}
