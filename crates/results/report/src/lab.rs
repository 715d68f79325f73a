//! The page of a lab: asked, published, measured here, and what became of each statement.

use pgassay_analysis::lab::Lab;
use pgassay_analysis::lab::judge::{Checked, Measured, Outcome};
use pgassay_analysis::lab::report::{ArmShown, BusyShare, StageShown};
use pgassay_analysis::quality::Grade;
use pgassay_analysis::stats::Estimate;

use super::Report;
use super::document::{
    Axis, Badge, Block, Cell, Chart, Column, Depth, Document, Fact, Interval, Notes, Rating, Scale,
    Section, Series, Table,
};
use super::number;

impl Report for Lab {
    fn document(&self) -> Document {
        let mut notes = Notes::default();
        let sections = vec![
            statements(self),
            asked(self),
            measured(self, &mut notes),
            published(self),
            left_open(self),
            conduct(self),
        ];
        Document {
            title: format!("Lab {}: {}", self.name, self.title),
            provenance: provenance(self),
            alarms: alarms(self),
            badges: badges(self),
            headline: headline(self),
            sections: sections.into_iter().flatten().collect(),
            notes: notes.into_notes(),
            ..Document::default()
        }
    }
}

fn provenance(lab: &Lab) -> String {
    let machine = lab.host.processors();
    let parts = [
        Some(format!("pgassay {}", lab.conduct.pgassay_version)),
        machine,
        Some(lab.conduct.started.clone()),
        Some(lab.conduct.id.clone()),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join(" · ")
}

fn alarms(lab: &Lab) -> Vec<String> {
    let missing = lab.stages.iter().filter_map(|stage| {
        let why = stage.missing.as_ref()?;
        Some(format!("{} was not measured: {why}.", name(stage)))
    });
    let part = (!lab.conduct.complete)
        .then(|| "Measured in part; pgassay lab --resume goes on.".to_owned());
    part.into_iter().chain(missing).collect()
}

/// The worst quality of any stage.
fn badges(lab: &Lab) -> Vec<Badge> {
    let of = lab.stages.iter().filter_map(|s| s.quality.as_ref());
    let Some(worst) = of.max_by_key(|quality| quality.grade) else {
        return Vec::new();
    };
    vec![Badge {
        subject: "measurement",
        judgement: worst.grade.name().to_owned(),
        rating: match worst.grade {
            Grade::Good => Rating::Good,
            Grade::Fair => Rating::Fair,
            Grade::Poor => Rating::Bad,
        },
        why: worst
            .reasons
            .first()
            .map_or_else(String::new, |reason| reason.text.clone()),
    }]
}

fn headline(lab: &Lab) -> Vec<String> {
    let all = lab.statements.len();
    let mut said = vec![format!(
        "Of {}, {} the same here, {} and {} be told on this machine.",
        number::counted(all as u64, "statement"),
        are(lab.count(Outcome::Same)),
        differ(lab.count(Outcome::Differs)),
        cannot(lab.count(Outcome::CannotBeTold)),
    )];
    let differing = lab
        .statements
        .iter()
        .filter(|statement| statement.outcome == Outcome::Differs);
    said.extend(differing.map(|statement| {
        let shown: Vec<String> = statement.measured.iter().map(figure).collect();
        format!("Different here: {} {}.", statement.says, shown.join("; "))
    }));
    said
}

fn are(n: usize) -> String {
    match n {
        1 => "1 is".to_owned(),
        n => format!("{n} are"),
    }
}

fn differ(n: usize) -> String {
    match n {
        1 => "1 differs".to_owned(),
        n => format!("{n} differ"),
    }
}

fn cannot(n: usize) -> String {
    format!("{n} can't")
}

/// `18 / 13: 1.21 (1.15–1.27)`.
fn figure(measured: &Measured) -> String {
    let value = match measured.unit.as_str() {
        "clients" => clients(&measured.value),
        _ => interval(&measured.value),
    };
    match measured.unit.as_str() {
        "" => format!("{}: {value}", measured.what),
        unit => format!("{}: {value} {unit}", measured.what),
    }
}

/// A number of clients, which is whole.
fn clients(value: &Estimate) -> String {
    let n = number::short;
    match value.low < value.high {
        true => format!("{} ({}–{})", n(value.estimate), n(value.low), n(value.high)),
        false => n(value.estimate),
    }
}

fn interval(value: &Estimate) -> String {
    let shown = number::shown(value);
    match shown.interval {
        Some(interval) if value.low < value.high => {
            format!("{} ({})", shown.value, interval.ends)
        }
        _ => shown.value,
    }
}

fn statements(lab: &Lab) -> Option<Section> {
    let columns = vec![
        Column::prose("statement"),
        Column::prose("published"),
        Column::prose("measured here"),
        Column::prose("outcome"),
        Column::prose("why"),
    ];
    let rows = lab.statements.iter().map(|statement| {
        let shown: Vec<String> = statement.measured.iter().map(figure).collect();
        vec![
            Cell::plain(&statement.says),
            Cell::plain_or_missing(published_of(lab, statement)),
            Cell::plain_or_missing((!shown.is_empty()).then(|| shown.join("; "))),
            Cell::plain(statement.outcome.words()),
            Cell::plain(why(statement)),
        ]
    });
    let caption = "With 95 % intervals. Same: the whole interval agrees with the statement. Differs: \
                   the whole interval disagrees.";
    Some(Section {
        id: "statements",
        title: "Statements",
        depth: Depth::Summary,
        blocks: vec![Block::Table(Table::new(caption, columns, rows))],
    })
}

fn why(statement: &Checked) -> String {
    match statement.wanted.as_str() {
        "" => statement.why.clone(),
        wanted => format!("{}; tested for: {wanted}", statement.why),
    }
}

fn published_of(lab: &Lab, statement: &Checked) -> Option<String> {
    let figures = statement.figures.iter();
    let words: Vec<String> = figures
        .filter_map(|id| lab.figures.iter().find(|figure| figure.id == *id))
        .map(|figure| format!("{}: {}", figure.what, figure.value))
        .collect();
    (!words.is_empty()).then(|| words.join("; "))
}

fn asked(lab: &Lab) -> Option<Section> {
    let mut blocks = vec![Block::Text(lab.question.clone())];
    if let Some(open) = &lab.open_question {
        blocks.push(Block::Heading("Left open by the sources".to_owned()));
        blocks.push(Block::Text(open.clone()));
        let bearing = lab.statements.iter().filter(|statement| statement.open);
        blocks.extend(bearing.map(|statement| {
            let shown: Vec<String> = statement.measured.iter().map(figure).collect();
            let shown = match shown.is_empty() {
                true => String::new(),
                false => format!(" ({})", shown.join("; ")),
            };
            let outcome = statement.outcome.words();
            Block::Text(format!("{} Here: {outcome}{shown}.", statement.says))
        }));
        blocks.extend(lab.bounds.clone().map(Block::Text));
    }
    Some(Section {
        id: "asked",
        title: "What was asked",
        depth: Depth::Titled,
        blocks,
    })
}

fn name(stage: &StageShown) -> String {
    match stage.part.as_str() {
        "" => stage.stage.clone(),
        part => format!("{}, {part}", stage.stage),
    }
}

fn measured(lab: &Lab, notes: &mut Notes) -> Option<Section> {
    let mut blocks = Vec::new();
    for (number, stage) in lab.stages.iter().enumerate() {
        blocks.push(Block::Heading(format!(
            "{}: {}",
            name(stage),
            stage.workload
        )));
        if let Some(why) = &stage.missing {
            blocks.push(Block::Text(format!("Not measured: {why}.")));
            continue;
        }
        let courses = stage.arms.iter().any(|arm| arm.throughput.len() > 1);
        if courses {
            blocks.push(Block::Chart(Box::new(chart(number, stage))));
        }
        match stage.arms.iter().any(|arm| !arm.throughput.is_empty()) {
            true => blocks.push(Block::Table(table(stage, notes))),
            false => blocks.push(Block::Text(
                "Its figures are in the statements, and in its own report, named below.".to_owned(),
            )),
        }
        blocks.extend(
            stage
                .arms
                .iter()
                .flat_map(|arm| busy(arm, &stage.who, notes)),
        );
        if let Some(quality) = &stage.quality
            && quality.grade != Grade::Good
        {
            let reasons: Vec<&str> = quality.reasons.iter().map(|r| r.text.as_str()).collect();
            blocks.push(Block::Text(format!(
                "Measurement: {}: {}.",
                quality.grade.name(),
                reasons.join("; ")
            )));
        }
    }
    Some(Section {
        id: "measured",
        title: "What was measured here",
        depth: Depth::Titled,
        blocks,
    })
}

fn table(stage: &StageShown, notes: &mut Notes) -> Table {
    let mut counts: Vec<u32> = stage
        .arms
        .iter()
        .flat_map(|arm| arm.throughput.iter().map(|point| point.clients))
        .collect();
    counts.sort_unstable();
    counts.dedup();
    let arms = stage.arms.iter();
    let columns = std::iter::once(Column::words(&stage.who, 0))
        .chain(arms.map(|arm| Column::figures(&arm.name, &stage.unit, 0)))
        .collect();
    let rows = counts.into_iter().map(|clients| {
        let at = |arm: &ArmShown| {
            let mut points = arm.throughput.iter();
            points
                .find(|p| p.clients == clients)
                .map(|p| p.per_second.clone())
        };
        let cells: Vec<Cell> = stage
            .arms
            .iter()
            .map(|arm| {
                let about = format!("{} at {clients} {}", arm.name, stage.who);
                notes.maybe(at(arm).as_ref(), &about)
            })
            .collect();
        std::iter::once(Cell::plain(clients.to_string()))
            .chain(cells)
            .collect()
    });
    let servers: Vec<String> = stage
        .arms
        .iter()
        .filter_map(|arm| Some(format!("{}: {}", arm.name, arm.server.as_ref()?)))
        .collect();
    let caption = format!("{}. {}.", spelled(&stage.unit), servers.join("; "));
    let rows: Vec<Vec<Cell>> = rows.collect();
    Table::new(caption, columns, rows)
}

/// What took the time of an arm: functions, then wait events.
fn busy(arm: &ArmShown, who: &str, notes: &mut Notes) -> Vec<Block> {
    let Some(busy) = &arm.busy else {
        return Vec::new();
    };
    let clients = number::counted(busy.clients, who.trim_end_matches('s'));
    let mut blocks = Vec::new();
    let mut table = |shares: &[BusyShare], columns: Vec<Column>, caption: String| {
        if shares.is_empty() {
            return;
        }
        let rows = shares.iter().map(|share| {
            let object = share.object.as_deref().map(Cell::plain);
            let percent = notes.estimate(&share.percent, &share.name);
            std::iter::once(Cell::plain(&share.name))
                .chain(object)
                .chain([percent])
                .collect()
        });
        let rows: Vec<Vec<Cell>> = rows.collect();
        blocks.push(Block::Table(Table::new(caption, columns, rows)));
    };
    table(
        &busy.functions,
        vec![
            Column::words("function", 0),
            Column::words("in", 1),
            Column::figures("CPU samples", "%", 0),
        ],
        format!(
            "What takes the CPU time of {} at {clients}: samples in functions themselves.",
            arm.name
        ),
    );
    table(
        &busy.waits,
        vec![
            Column::words("wait event", 0),
            Column::figures("active sessions", "%", 0),
        ],
        format!("What the sessions of {} wait for at {clients}.", arm.name),
    );
    blocks
}

fn chart(number: usize, stage: &StageShown) -> Chart {
    let point = |arm: &ArmShown, clients: u32, e: &Estimate| Interval {
        x: f64::from(clients),
        y: e.estimate,
        low: e.low,
        high: e.high,
        tip: format!(
            "{} at {clients} {}: {} {}",
            arm.name,
            stage.who,
            interval(e),
            stage.unit
        ),
    };
    let lanes = stage.arms.len();
    let series = stage.arms.iter().enumerate().map(|(look, arm)| Series {
        label: arm.name.clone(),
        look,
        lane: (look, lanes),
        evidence: None,
        estimates: arm
            .throughput
            .iter()
            .map(|p| point(arm, p.clients, &p.per_second))
            .collect(),
        dots: Vec::new(),
    });
    let series: Vec<Series> = series.collect();
    let spoken: Vec<&str> = series
        .iter()
        .flat_map(|s| s.estimates.iter().map(|e| e.tip.as_str()))
        .collect();
    let mut ticks: Vec<f64> = series
        .iter()
        .flat_map(|s| s.estimates.iter().map(|e| e.x))
        .collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    Chart {
        id: format!("lab-stage-{number}"),
        title: format!(
            "{} over {}, {}",
            spelled(&stage.unit),
            stage.who,
            name(stage)
        ),
        alternative: format!("{}.", spoken.join("; ")),
        caption: "Bars are 95 % intervals.".to_owned(),
        x: Axis {
            label: format!("{}, logarithmic", stage.who),
            scale: Scale::Log,
            ticks,
        },
        y: Axis {
            label: stage.unit.clone(),
            scale: Scale::FromZero,
            ticks: Vec::new(),
        },
        series,
        guides: Vec::new(),
    }
}

/// A unit at the begin of a sentence: `Transactions a second`, `Operations a second`.
fn spelled(unit: &str) -> String {
    let whole = match unit {
        "tps" => "transactions a second".to_owned(),
        unit => match unit.strip_suffix("/s") {
            Some(what) => format!("{what} a second"),
            None => unit.to_owned(),
        },
    };
    let mut letters = whole.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn published(lab: &Lab) -> Option<Section> {
    if lab.sources.is_empty() {
        return None;
    }
    let sources = lab.sources.iter().map(|source| {
        let remark = source.url.clone().unwrap_or_default();
        Fact::new(&source.title, &source.hardware).remark(remark)
    });
    let rows = lab.figures.iter().map(|figure| {
        let source = lab.sources.iter().find(|source| source.id == figure.source);
        vec![
            Cell::plain(&figure.what),
            Cell::plain(&figure.value),
            Cell::plain_or_missing(source.map(|source| source.title.clone())),
        ]
    });
    let columns = vec![
        Column::prose("what"),
        Column::words("figure", 0),
        Column::prose("source"),
    ];
    let caption = "Published figures, as their sources give them: without intervals.";
    Some(Section {
        id: "published",
        title: "What was published",
        depth: Depth::Titled,
        blocks: vec![
            Block::Facts(sources.collect()),
            Block::Table(Table::new(caption, columns, rows)),
        ],
    })
}

fn left_open(lab: &Lab) -> Option<Section> {
    if lab.left_out.is_empty() {
        return None;
    }
    let text = |left: &String| Block::Text(format!("Left out: {left}."));
    let mut blocks: Vec<Block> = lab.left_out.iter().map(text).collect();
    blocks.push(Block::Text(
        "pgassay lab --as-published measures the plan as it is, on a machine that is large enough."
            .to_owned(),
    ));
    Some(Section {
        id: "left-out",
        title: "What fitting it into this machine left out",
        depth: Depth::Titled,
        blocks,
    })
}

fn conduct(lab: &Lab) -> Option<Section> {
    let mut facts = vec![
        Fact::new("plan", &lab.conduct.plan),
        Fact::new("recorded as", &lab.conduct.id),
    ];
    facts.extend(
        lab.conduct
            .seconds
            .map(|seconds| Fact::new("took", number::duration(seconds))),
    );
    let mut blocks = vec![Block::Facts(facts)];
    for stage in &lab.stages {
        blocks.push(Block::Heading(name(stage)));
        let words: Vec<String> = stage.command.iter().map(|word| shell(word)).collect();
        blocks.push(Block::Commands(vec![format!(
            "pgassay {}",
            words.join(" ")
        )]));
    }
    Some(Section {
        id: "how",
        title: "How it was measured",
        depth: Depth::Titled,
        blocks,
    })
}

/// A word as a shell takes it.
fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:.,/@%+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}
