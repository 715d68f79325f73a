//! The scaling law over a sweep: what it says, and its curve beside what was measured.

use pgassay_analysis::fit::{ArmFit, Fit, Over};

use crate::csv::figure;
use crate::document::{
    Axis, Block, Cell, Chart, Column, Depth, Document, Interval, Notes, Scale, Section, Series,
    Table,
};
use crate::{Report, Rows, number};
use pgassay_text::cell;

impl Report for Fit {
    fn document(&self) -> Document {
        let mut notes = Notes::default();
        let mut blocks = Vec::new();
        for arm in &self.arms {
            blocks.push(Block::Heading(arm.label.clone()));
            match &arm.refused {
                Some(why) => blocks.push(Block::Text(format!("no fit: {why}"))),
                None => blocks.extend(fitted(arm, &mut notes)),
            }
        }
        Document {
            title: format!(
                "{} over {}",
                self.workload,
                self.arms.first().map_or("clients", |arm| arm.over.many())
            ),
            provenance: format!(
                "Run {}, fitted by pgassay {}",
                self.run,
                env!("CARGO_PKG_VERSION")
            ),
            alarms: Vec::new(),
            headline: Vec::new(),
            sections: vec![Section {
                id: "fit",
                title: "The scaling law",
                depth: Depth::Summary,
                blocks,
            }],
            notes: notes.into_notes(),
            ..Document::default()
        }
    }

    /// One row an arm and client count.
    fn rows(&self) -> Option<Rows> {
        let mut rows = Rows::new([
            "arm",
            "clients",
            "measured_tps",
            "fitted_tps",
            "fitted_low",
            "fitted_high",
            "cpus",
        ]);
        for arm in &self.arms {
            for point in &arm.points {
                let by_law = point.fitted_tps.as_ref();
                rows.push(vec![
                    cell(&arm.label),
                    point.clients.to_string(),
                    figure(point.measured_tps.as_ref().map(|e| e.estimate)),
                    figure(by_law.map(|e| e.estimate)),
                    figure(by_law.map(|e| e.low)),
                    figure(by_law.map(|e| e.high)),
                    point.cpus.map_or_else(String::new, |cpus| cpus.to_string()),
                ]);
            }
        }
        Some(rows)
    }
}

fn fitted(arm: &ArmFit, notes: &mut Notes) -> Vec<Block> {
    let mut blocks: Vec<Block> = arm.words.iter().cloned().map(Block::Text).collect();
    let warnings = arm.scaling.iter().flat_map(|s| &s.warnings);
    let warnings: Vec<_> = warnings.cloned().collect();
    let marks = notes.marks(&warnings, &format!("the fit of {}", arm.label));
    let rows = arm.points.iter().map(|point| {
        let at = format!("{} at {} {}", arm.label, point.at(), arm.over.many());
        vec![
            Cell::plain(number::count(u64::from(point.at()))),
            notes.maybe(point.measured_tps.as_ref(), &at),
            notes.maybe(point.fitted_tps.as_ref(), &format!("the law for {at}")),
        ]
    });
    let mut table = Table::new(
        "Transactions a second with their 95 % intervals, measured and by the law.",
        vec![
            Column::figures(arm.over.many(), "", 0),
            Column::figures("measured", "tps", 0),
            Column::figures("by the law", "tps", 0),
        ],
        rows,
    );
    table.marks = marks;
    blocks.push(Block::Chart(Box::new(chart(arm))));
    blocks.push(Block::Table(table));
    blocks
}

fn chart(arm: &ArmFit) -> Chart {
    let series = |label: &str, look: usize, measured: bool| Series {
        evidence: None,
        label: label.to_owned(),
        look,
        lane: (look, 2),
        estimates: arm
            .points
            .iter()
            .filter_map(|point| {
                let estimate = match measured {
                    true => point.measured_tps.as_ref()?,
                    false => point.fitted_tps.as_ref()?,
                };
                Some(Interval {
                    x: f64::from(point.at()),
                    y: estimate.estimate,
                    low: estimate.low,
                    high: estimate.high,
                    tip: format!(
                        "{label}, {} {}: {} tps",
                        point.at(),
                        arm.over.many(),
                        number::shown(estimate).value
                    ),
                })
            })
            .collect(),
        dots: vec![],
    };
    Chart {
        id: format!("fit-{}", arm.label),
        title: match arm.over {
            Over::Clients => format!("Throughput of {}", arm.label),
            Over::Cpus => format!("Throughput {}", arm.label),
        },
        alternative: format!(
            "Throughput over {}, measured and by the law. {}",
            arm.over.many(),
            arm.words.join(" ")
        ),
        caption: "Points of the law beyond the last one measured are extrapolated.".to_owned(),
        x: Axis {
            label: arm.over.many().to_owned(),
            scale: Scale::Log,
            ticks: arm.points.iter().map(|p| f64::from(p.at())).collect(),
        },
        y: Axis {
            label: "transactions a second".to_owned(),
            scale: Scale::FromZero,
            ticks: vec![],
        },
        series: vec![series("measured", 0, true), series("by the law", 1, false)],
        guides: vec![],
    }
}
