//! Reports of a history: the runs in their order, their levels, their changes.

use pgassay_analysis::history::{RunHistory, Series as Followed};
use pgassay_text::cell;

use super::csv::figure;
use super::document::{
    Axis, Block, Cell, Chart, Column, Depth, Document, Interval, Notes, Scale, Section, Series,
    Table,
};
use super::{Report, Rows, number};

impl Report for RunHistory {
    fn document(&self) -> Document {
        document(self)
    }

    /// One row a run and figure.
    fn rows(&self) -> Option<Rows> {
        let mut rows = Rows::new([
            "run", "started", "load", "metric", "clients", "estimate", "low", "high", "level",
        ]);
        for series in &self.series {
            for (index, (run, value)) in self.runs.iter().zip(&series.values).enumerate() {
                let Some(value) = value else { continue };
                let level = series.history.levels.iter().position(|l| index <= l.last);
                rows.push(vec![
                    cell(&run.run),
                    cell(&run.started),
                    cell(series.load.as_deref().unwrap_or_default()),
                    cell(series.metric.id),
                    series.clients.to_string(),
                    figure(Some(value.estimate)),
                    figure(Some(value.low)),
                    figure(Some(value.high)),
                    level.map_or_else(String::new, |l| (l + 1).to_string()),
                ]);
            }
        }
        Some(rows)
    }
}

fn document(history: &RunHistory) -> Document {
    let mut notes = Notes::default();
    notes.marks(&history.warnings, "");
    let mut sections = vec![changes(history, &mut notes)];
    sections.push(Section {
        id: "course",
        title: "The course",
        depth: Depth::Evidence,
        blocks: history
            .series
            .iter()
            .map(|s| Block::Chart(Box::new(chart(history, s))))
            .collect(),
    });
    sections.push(runs(history));
    Document {
        title: format!("History of {}", history.work),
        provenance: format!(
            "{} runs, followed by pgassay {}",
            history.runs.len(),
            env!("CARGO_PKG_VERSION")
        ),
        alarms: Vec::new(),
        headline: history.headline.clone(),
        sections,
        notes: notes.into_notes(),
        ..Document::default()
    }
}

fn name(series: &Followed) -> String {
    let load = series.load.as_ref();
    let load = load.map_or_else(String::new, |load| format!("{load}: "));
    let clients = number::counted(series.clients, "client");
    format!("{load}{}, {clients}", series.metric.label())
}

/// The load in an id.
fn of_load(series: &Followed) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let load = series.load.iter().flat_map(|load| load.chars());
    let load: String = load.map(word).collect();
    if load.is_empty() {
        load
    } else {
        format!("-{load}")
    }
}

/// One row a level.
fn changes(history: &RunHistory, notes: &mut Notes) -> Section {
    let mut rows = Vec::new();
    for series in &history.series {
        for (i, level) in series.history.levels.iter().enumerate() {
            let change = i.checked_sub(1).and_then(|i| series.history.changes.get(i));
            let run = |index: usize| history.runs.get(index).map_or("?", |r| r.run.as_str());
            let marks = notes.marks(&series.history.warnings, &name(series));
            rows.push(vec![
                Cell::plain(name(series)).marked(marks),
                Cell::plain(format!("{} to {}", level.first + 1, level.last + 1)),
                notes.estimate(&level.value, &format!("{}, level {}", name(series), i + 1)),
                change.map_or_else(
                    || Cell::plain(""),
                    |c| Cell::plain(format!("{} %", number::signed(100.0 * c.change, 1))),
                ),
                change.map_or_else(|| Cell::plain(""), |c| Cell::plain(run(c.index))),
            ]);
        }
    }
    Section {
        id: "changes",
        title: "Levels and changes",
        depth: Depth::Summary,
        blocks: vec![Block::Table(Table {
            caption: format!(
                "Levels between changes of {:.1} % or more, found by E-divisive with {} shuffles \
                 at a false-alarm rate of {} a history. A change is of the median, against the \
                 level before.",
                100.0 * history.rule.magnitude,
                history.rule.permutations,
                history.rule.alpha
            ),
            columns: vec![
                Column::words("metric", 0),
                Column::words("runs", 0),
                Column::figures("level", "", 0),
                Column::figures("change", "", 0),
                Column::words("since", 1),
            ],
            rows,
            folded: false,
            marks: vec![],
        })],
    }
}

fn chart(history: &RunHistory, series: &Followed) -> Chart {
    let values = || {
        let numbered = series.values.iter().enumerate();
        numbered.filter_map(|(i, v)| Some((i, v.as_ref()?)))
    };
    let mut drawn = vec![Series {
        evidence: None,
        label: "one run, with its interval".to_owned(),
        look: 0,
        lane: (0, 1),
        estimates: values()
            .map(|(i, e)| {
                let shown = number::shown(e);
                Interval {
                    x: (i + 1) as f64,
                    y: e.estimate,
                    low: e.low,
                    high: e.high,
                    tip: format!("{}: {}", history.runs[i].run, shown.value),
                }
            })
            .collect(),
        dots: vec![],
    }];
    for (i, level) in series.history.levels.iter().enumerate() {
        let end = |x: usize| Interval {
            x: (x + 1) as f64,
            y: level.value.estimate,
            low: level.value.low,
            high: level.value.high,
            tip: format!("level {}: {}", i + 1, number::shown(&level.value).value),
        };
        drawn.push(Series {
            evidence: None,
            label: format!("level {}", i + 1),
            look: 1 + i % 3,
            lane: (0, 1),
            estimates: vec![end(level.first), end(level.last)],
            dots: vec![],
        });
    }
    let spoken: Vec<String> = series
        .history
        .levels
        .iter()
        .map(|l| {
            format!(
                "runs {} to {}: {}",
                l.first + 1,
                l.last + 1,
                number::shown(&l.value).value
            )
        })
        .collect();
    Chart {
        id: format!(
            "course-{}-{}{}",
            series.metric.id,
            series.clients,
            of_load(series)
        ),
        title: name(series),
        alternative: format!("{} over the runs. {}.", name(series), spoken.join("; ")),
        caption:
            "Each run with the interval over its own trials, which is narrower than what runs \
                  of the same thing differ by; the levels have theirs over runs."
                .to_owned(),
        x: Axis {
            label: "run, oldest first".to_owned(),
            scale: Scale::Linear,
            ticks: vec![],
        },
        y: Axis {
            label: series.metric.label(),
            scale: Scale::FromZero,
            ticks: vec![],
        },
        series: drawn,
        guides: vec![],
    }
}

fn runs(history: &RunHistory) -> Section {
    let rows = history.runs.iter().enumerate().map(|(i, run)| {
        vec![
            Cell::plain((i + 1).to_string()),
            Cell::plain(&run.run),
            Cell::plain(&run.started),
            Cell::plain(&run.server),
        ]
    });
    let mut blocks = vec![Block::Table(Table {
        caption: "The runs, oldest first.".to_owned(),
        columns: vec![
            Column::figures("run", "", 0),
            Column::words("name", 0),
            Column::words("started", 1),
            Column::words("server", 1),
        ],
        rows: rows.collect(),
        folded: true,
        marks: vec![],
    })];
    if !history.left_out.is_empty() {
        blocks.push(Block::Table(Table {
            caption: "Runs that were left out.".to_owned(),
            columns: vec![Column::words("name", 0), Column::words("why", 0)],
            rows: history
                .left_out
                .iter()
                .map(|l| vec![Cell::plain(&l.run), Cell::plain(&l.why)])
                .collect(),
            folded: true,
            marks: vec![],
        }));
    }
    Section {
        id: "runs",
        title: "The runs",
        depth: Depth::Evidence,
        blocks,
    }
}
