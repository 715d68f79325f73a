//! The same comparison from several runs, taken together.

use pgassay_analysis::compare::pooled::{PooledCompare, PooledPoint};
use pgassay_analysis::compare::{companion, word};
use pgassay_analysis::stats::Comparison;
use pgassay_analysis::stats::pooled::Pooled;

use crate::compare::{change, ends, p_value};
use crate::csv::figure;
use crate::document::{Block, Cell, Column, Depth, Document, Fact, Notes, Section, Table};
use crate::{Report, Rows, number};
use pgassay_text::cell;

impl Report for PooledCompare {
    fn document(&self) -> Document {
        let mut notes = Notes::default();
        notes.marks(&self.warnings, "");
        let mut blocks = Vec::new();
        for point in &self.points {
            blocks.push(Block::Table(table(self, point, &mut notes)));
            blocks.extend(agreement(&point.compared).map(Block::Text));
        }
        let targets = ('A'..)
            .zip(&self.targets)
            .map(|(label, typed)| Fact::new(label, &typed.target).remark(typed.settings.join(" ")));
        let runs = self
            .runs
            .iter()
            .map(|run| Fact::new(&run.id, &run.machine).remark(&run.started));
        let section = |id, title, blocks| Section {
            id,
            title,
            depth: Depth::Titled,
            blocks,
        };
        Document {
            title: format!(
                "{}: {} taken together",
                self.workload,
                number::counted(self.runs.len() as u64, "run")
            ),
            provenance: format!("Pooled by pgassay {}", env!("CARGO_PKG_VERSION")),
            alarms: Vec::new(),
            headline: self.headline.clone(),
            sections: vec![
                section("verdict", "Each run, and all together", blocks),
                section(
                    "targets",
                    "What was compared",
                    vec![Block::Facts(targets.collect())],
                ),
                section("runs", "The runs", vec![Block::Facts(runs.collect())]),
            ],
            notes: notes.into_notes(),
            ..Document::default()
        }
    }

    /// One row a point and run, and one for all runs together.
    fn rows(&self) -> Option<Rows> {
        let companion = format!("{}_ratio", companion(self.metric));
        let mut rows = Rows::new([
            "arm",
            "clients",
            "run",
            "ratio",
            "low",
            "high",
            "pairs",
            companion.as_str(),
            "verdict",
        ]);
        for point in &self.points {
            for (run, compared, beside) in lines(self, point) {
                rows.push(vec![
                    cell(&point.label),
                    point.clients.to_string(),
                    cell(run),
                    figure(Some(compared.ratio.estimate)),
                    figure(Some(compared.ratio.low)),
                    figure(Some(compared.ratio.high)),
                    compared.pairs.to_string(),
                    figure(beside.map(|c| c.ratio.estimate)),
                    compared.verdict.to_string(),
                ]);
            }
        }
        Some(rows)
    }
}

/// The runs by themselves and together: name, the compared metric, its companion.
fn lines<'a>(
    pooled: &'a PooledCompare,
    point: &'a PooledPoint,
) -> Vec<(&'a str, &'a Comparison, Option<&'a Comparison>)> {
    let beside = point.others.get(&companion(pooled.metric));
    let runs = pooled.runs.iter().zip(&point.compared.runs).enumerate();
    let mut lines: Vec<_> = runs
        .map(|(n, (run, one))| (run.id.as_str(), one, beside.and_then(|c| c.runs.get(n))))
        .collect();
    lines.push((
        "together",
        &point.compared.together,
        beside.map(|c| &c.together),
    ));
    lines
}

fn table(pooled: &PooledCompare, point: &PooledPoint, notes: &mut Notes) -> Table {
    let at = format!("{} at {} clients", point.label, point.clients);
    let rows = lines(pooled, point)
        .into_iter()
        .map(|(run, compared, beside)| {
            let about = format!("{at}, {run}");
            let marks = notes.marks(&compared.ratio.warnings, &about);
            vec![
                Cell::plain(run).marked(marks),
                Cell::plain(word(pooled.metric, compared.verdict)),
                Cell::plain(change(compared)),
                Cell::plain(ends(compared)),
                Cell::plain(p_value(compared)),
                Cell::plain(number::count(compared.pairs as u64)),
                Cell::plain_or_missing(beside.map(change)),
            ]
        });
    Table::new(
        format!(
            "{at}: {} against A with the 95 % interval of the change.",
            pooled.metric.heading
        ),
        vec![
            Column::prose("run"),
            Column::words("verdict", 0),
            Column::figures("change", "", 0),
            Column::figures("interval", "", 0),
            Column::figures("p", "", 0),
            Column::figures("pairs", "", 0),
            Column::figures(companion(pooled.metric).heading, "", 0),
        ],
        rows,
    )
}

/// Whether the runs agree with one another.
fn agreement(compared: &Pooled) -> Option<String> {
    let agreement = compared.agreement.as_ref()?;
    Some(format!(
        "Agreement: Q = {:.2} with {} degrees of freedom, p = {:.3}; {:.0} % of what lies between \
         the runs is not noise.",
        agreement.q,
        agreement.degrees,
        agreement.p,
        100.0 * agreement.between_share
    ))
}
