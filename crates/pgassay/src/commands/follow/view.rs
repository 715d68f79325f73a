//! What the terminal shows of a run that is measured, as lines for its size.

use pgassay_analysis::underway::{Pause, PointSoFar, SoFar};
use pgassay_report::{Report, number};

/// Heights of a course's columns.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of the picture of an interval.
const PICTURE: usize = 24;

/// For how much room, and whether with colours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub columns: usize,
    pub rows: usize,
    pub colour: bool,
}

/// A line, by what it is worth where there is little room: the least goes last.
struct Line {
    worth: u8,
    text: String,
    /// How it is set: bold, or a colour (ECMA-48, SGR).
    set: &'static str,
}

const PLAIN: &str = "";
const BOLD: &str = "1";
const SOFT: &str = "2";
const ALARM: &str = "33";

/// What can be typed.
pub(super) fn keys(pause: &Pause) -> &'static str {
    match pause {
        Pause::No => "p pause   q leave",
        Pause::Asked => "p do not pause   q leave",
        Pause::Since { .. } => "p go on   q leave",
    }
}

/// The lines that fit, the keys last.
pub(super) fn lines(run: &SoFar, keys: &str, room: Room) -> Vec<String> {
    let mut all = Vec::new();
    let mut line = |worth, set, text: String| all.push(Line { worth, text, set });
    let document = run.document();
    line(1, BOLD, document.title.clone());
    for sentence in &document.headline {
        let set = match run.pause {
            Pause::No => PLAIN,
            _ if sentence.starts_with("Paused") || sentence.starts_with("It pauses") => ALARM,
            _ => PLAIN,
        };
        line(0, set, sentence.clone());
    }
    line(2, PLAIN, bar(run.trials, room.columns));
    if let Some(now) = run.within.now() {
        let passed = match now.takes_seconds {
            Some(takes) => format!("{:.0} of {takes:.0} s", now.passed_seconds),
            None => String::new(),
        };
        let text = format!(
            "trial {} of {}: {}  {passed}",
            now.done + 1,
            now.all,
            now.name
        );
        line(3, PLAIN, text.trim_end().to_owned());
    }
    for text in seconds(run, room.columns) {
        line(4, PLAIN, text);
    }
    for alarm in &document.alarms {
        line(2, ALARM, alarm.clone());
    }
    for (at, text) in points(run, room.columns).into_iter().enumerate() {
        line(if at == 0 { 5 } else { 6 }, PLAIN, text);
    }
    if let Some(text) = narrowing(run) {
        line(5, SOFT, text);
    }
    all.push(Line {
        worth: 0,
        text: keys.to_owned(),
        set: SOFT,
    });
    while all.len() > room.rows.max(1) {
        let least = all.iter().map(|line| line.worth).max().unwrap_or(0);
        let at = all.iter().rposition(|line| line.worth == least);
        // Of equal worth, the keys go last.
        let at = match at {
            Some(at) if least == 0 && at + 1 == all.len() && at > 0 => at - 1,
            other => other.unwrap_or(0),
        };
        all.remove(at);
    }
    all.iter().map(|line| set(line, room)).collect()
}

/// A line in at most so many columns, made safe for a terminal.
fn set(line: &Line, room: Room) -> String {
    let safe = pgassay_text::line(&line.text);
    let mut text: String = safe.chars().take(room.columns).collect();
    if safe.chars().count() > room.columns && room.columns > 1 {
        text.pop();
        text.push('…');
    }
    match room.colour && !line.set.is_empty() {
        true => format!("\x1b[{}m{text}\x1b[0m", line.set),
        false => text,
    }
}

/// How far the run is, over the whole width.
fn bar((done, planned): (usize, usize), columns: usize) -> String {
    let inner = columns.saturating_sub(2).min(60);
    let full = match planned {
        0 => 0,
        planned => inner * done.min(planned) / planned,
    };
    format!("[{}{}]", "=".repeat(full), " ".repeat(inner - full))
}

/// The last second, and the course of those before.
fn seconds(run: &SoFar, columns: usize) -> Vec<String> {
    let Some((_, last)) = run.within.seconds().last() else {
        return Vec::new();
    };
    let unit = run.within.unit();
    let latency = last.latency_ms.map_or_else(String::new, |(mean, p99)| {
        format!(
            ", latency {} ms, p99 {} ms",
            number::single(mean),
            number::single(p99)
        )
    });
    let failed = match last.failed {
        0 => String::new(),
        n => format!(", {n} failed"),
    };
    let now = format!(
        "now     {} {unit}{latency}{failed}",
        number::single(last.rate)
    );
    let percent = |share: Option<f64>| {
        share.map_or_else(
            || "not seen".to_owned(),
            |share| format!("{:.0} %", 100.0 * share),
        )
    };
    let others = format!(
        "others  {} of the CPU time, hypervisor {}",
        percent(last.disturbed.others),
        percent(last.disturbed.steal)
    );
    let rates = run.within.seconds().map(|(_, second)| second.rate);
    let rates: Vec<f64> = rates.collect();
    let room = columns.saturating_sub(now.chars().count() + 2).min(60);
    let course = if room >= 8 {
        course(&rates, room)
    } else {
        String::new()
    };
    vec![format!("{now}  {course}").trim_end().to_owned(), others]
}

/// The newest values as columns, the highest being the largest.
fn course(values: &[f64], room: usize) -> String {
    let shown = &values[values.len().saturating_sub(room)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let height = |value: &f64| match most > 0.0 {
        true => ((value / most * 8.0).ceil() as usize).clamp(1, 8) - 1,
        false => 0,
    };
    shown.iter().map(|value| HEIGHTS[height(value)]).collect()
}

/// What each point shows so far, with its interval as figures and as a picture.
fn points(run: &SoFar, columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for stage in &run.stages {
        let work = stage.stage.id.work();
        let ends = stage.arms.iter().flat_map(|(_, points)| points);
        let (low, high) = ends.fold((f64::MAX, f64::MIN), |(low, high), p| {
            (low.min(p.rate.low), high.max(p.rate.high))
        });
        let several = stage.arms.len() > 1;
        lines.push(format!(
            "{} so far, {}",
            stage.stage.plan.workload.name, work.rate
        ));
        let planned = stage.stage.plan.trials;
        for (label, points) in &stage.arms {
            for point in points {
                let shown = number::shown(&point.rate);
                let at = match several {
                    true => format!(
                        "{label}, {}",
                        number::counted(point.point.clients, work.who)
                    ),
                    false => number::counted(point.point.clients, work.who),
                };
                let half = 100.0 * point.rate.half_width() / point.rate.estimate;
                let spread = match point.rate.n > 1 && half.is_finite() {
                    true => format!("±{half:.1} %"),
                    false => String::new(),
                };
                let figures = format!(
                    "{at:<14} {:>10} {spread:>9}  {:>7}",
                    shown.value,
                    format!("{}/{planned}", point.trials.len())
                );
                let fits = figures.chars().count() + PICTURE + 3 <= columns;
                lines.push(match fits {
                    true => format!("{figures}  {}", picture(point, low, high)),
                    false => figures,
                });
            }
        }
    }
    lines
}

/// An interval on the scale of its stage.
fn picture(point: &PointSoFar, low: f64, high: f64) -> String {
    let place = |value: f64| {
        let share = (value - low) / (high - low);
        match share.is_finite() {
            true => (share.clamp(0.0, 1.0) * (PICTURE - 1) as f64).round() as usize,
            false => PICTURE / 2,
        }
    };
    let (from, at, to) = (
        place(point.rate.low),
        place(point.rate.estimate),
        place(point.rate.high),
    );
    let mark = |column| match column {
        column if column == at => '●',
        column if (from..=to).contains(&column) => '─',
        _ => ' ',
    };
    let marks: String = (0..PICTURE).map(mark).collect();
    marks.trim_end().to_owned()
}

/// How the interval of the point that was measured last became what it is.
fn narrowing(run: &SoFar) -> Option<String> {
    const MOST: usize = 8;
    let (stage, point) = run.newest()?;
    let steps = point.narrowing();
    let steps: Vec<String> = steps
        .iter()
        .filter(|e| e.n > 1 && e.estimate > 0.0)
        .map(|e| format!("{:.1}", 100.0 * e.half_width() / e.estimate))
        .collect();
    if steps.len() < 2 {
        return None;
    }
    let who = stage.stage.id.work().who;
    Some(format!(
        "{} narrows: ±{} %",
        number::counted(point.point.clients, who),
        steps[steps.len().saturating_sub(MOST)..].join(" → ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_analysis::underway::Underway;
    use pgassay_model::Plan;
    use pgassay_model::live::{Disturbed, Moment, Second};
    use pgassay_model::plan::{Arm, Experiment, Stage};
    use pgassay_model::point::{Point, Slice};
    use pgassay_model::run::{Event, EventKind, RunHeader};
    use pgassay_model::stage::StageId;
    use pgassay_model::trial::Trial;
    use pgassay_model::workload::WorkloadPlan;

    fn underway(target: &str) -> Underway {
        let point = |clients| Point {
            clients,
            threads: 1,
            variant: 0,
        };
        let plan = Plan {
            workload: WorkloadPlan {
                name: "select-only".to_owned(),
                ..WorkloadPlan::default()
            },
            points: vec![point(1), point(4)],
            trials: 4,
            window_ms: 5000,
            ..Plan::default()
        };
        let arm = Arm {
            target: target.to_owned(),
            ..Arm::default()
        };
        let mut underway = Underway::new(RunHeader {
            experiment: Experiment::single(vec![arm], Stage::wire(StageId::Load, plan)),
            ..RunHeader::default()
        });
        for (round, transactions) in [1000u64, 1100, 1050].into_iter().enumerate() {
            for point in 0..2 {
                underway.add(&Trial {
                    slice: Slice {
                        index: round as u32 * 2 + point,
                        round: round as u32,
                        point,
                        arm: 0,
                    },
                    window_ns: 1_000_000_000,
                    transactions: transactions * u64::from(1 + point),
                    ..Trial::default()
                });
            }
        }
        for rate in [2000.0, 2400.0, 1000.0] {
            underway.told(Moment {
                name: "4 clients".to_owned(),
                unit: "tps".to_owned(),
                done: 6,
                all: 8,
                takes_seconds: Some(5.0),
                passed_seconds: 3.0,
                second: Some(Second {
                    rate,
                    latency_ms: Some((0.5, 1.25)),
                    failed: 0,
                    disturbed: Disturbed {
                        others: Some(0.07),
                        steal: None,
                    },
                }),
            });
        }
        underway
    }

    fn room(columns: usize, rows: usize) -> Room {
        Room {
            columns,
            rows,
            colour: false,
        }
    }

    #[test]
    fn a_whole_terminal_shows_all() {
        let underway = underway("temp");
        let lines = lines(&underway.so_far(), "p pause   q leave", room(100, 30));
        let text = lines.join("\n");
        let [rate, mean, p99] = [1000.0, 0.5, 1.25].map(number::single);
        let now = format!("now     {rate} tps, latency {mean} ms, p99 {p99} ms  ▇█▄");
        for part in [
            "Measuring: select-only on temp",
            "6 of 8 trials measured",
            "[=============================================               ]",
            "trial 7 of 8: 4 clients  3 of 5 s",
            &now,
            "others  7 % of the CPU time, hypervisor not seen",
            "4 clients       ",
            "●",
            "4 clients narrows: ±",
            "p pause   q leave",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn every_size_is_kept_and_what_counts_most_stays() {
        let mut underway = underway("\u{1b}[2J evil \u{202e}target");
        underway.happened(&Event {
            at: "2026-11-23T05:00:00Z".to_owned(),
            what: EventKind::Paused {
                at_most_seconds: 3600,
            },
        });
        for columns in [1, 2, 8, 20, 40, 79, 200] {
            for rows in [1, 2, 3, 5, 8, 24, 60] {
                let room = Room {
                    colour: rows % 2 == 0,
                    ..room(columns, rows)
                };
                let lines = lines(&underway.so_far(), "p go on   q leave", room);
                assert!(lines.len() <= rows, "{columns} x {rows}: {lines:?}");
                for line in &lines {
                    let plain = ["\u{1b}[1m", "\u{1b}[2m", "\u{1b}[33m", "\u{1b}[0m"];
                    let plain = plain.iter().fold(line.clone(), |l, set| l.replace(set, ""));
                    assert!(
                        plain.chars().count() <= columns,
                        "{columns} x {rows}: {line:?}"
                    );
                    assert!(!plain.contains(['\u{1b}', '\u{202e}']), "{line:?}");
                }
                let keys =
                    lines
                        .last()
                        .unwrap()
                        .contains(if columns > 8 { "p go on" } else { "p" });
                assert!(keys, "{columns} x {rows}: {lines:?}");
                if columns >= 40 && rows >= 3 {
                    assert!(
                        lines.iter().any(|l| l.contains("Paused since")),
                        "{lines:?}"
                    );
                }
            }
        }
    }
}
