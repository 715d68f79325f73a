//! What there is to measure, said before it is: the list of labs, and what one would do.

use pgassay_analysis::lab::LabPlan;
use pgassay_report::document::{Block, Cell, Column, Depth, Document, Fact, Section, Table};
use pgassay_report::{Report, number};
use serde::Serialize;

use crate::commands::recorded_lab::{Record, State};

/// The built-in labs.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Labs {
    /// `pgassay/labs/1`.
    pub schema: &'static str,
    /// Each.
    pub labs: Vec<Listed>,
}

/// A lab in the list.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// Its stages.
    pub stages: usize,
    /// Its statements.
    pub statements: usize,
}

impl Labs {
    /// [`Labs::schema`].
    pub const SCHEMA: &str = "pgassay/labs/1";

    /// Of these plans.
    pub fn of(plans: &[LabPlan]) -> Self {
        let listed = |plan: &LabPlan| Listed {
            name: plan.name.clone(),
            title: plan.title.clone(),
            stages: plan.stages.len(),
            statements: plan.statements.len(),
        };
        Self {
            schema: Self::SCHEMA,
            labs: plans.iter().map(listed).collect(),
        }
    }
}

impl Report for Labs {
    fn document(&self) -> Document {
        let rows = self.labs.iter().map(|lab| {
            vec![
                Cell::plain(&lab.name),
                Cell::plain(&lab.title),
                Cell::plain(lab.stages.to_string()),
                Cell::plain(lab.statements.to_string()),
            ]
        });
        let columns = vec![
            Column::words("lab", 0),
            Column::prose("what it is about"),
            Column::figures("stages", "", 1),
            Column::figures("statements", "", 1),
        ];
        let caption = "Built-in labs. pgassay lab NAME --dry-run says what one would measure.";
        page(
            "Labs",
            vec![Block::Table(Table::new(caption, columns, rows))],
        )
    }
}

/// What a lab would do.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outline {
    /// `pgassay/lab-outline/1`.
    pub schema: &'static str,
    /// The lab.
    pub name: String,
    /// What it is about.
    pub title: String,
    /// Where the plan is from.
    pub plan: String,
    /// What would be measured, in this order.
    pub parts: Vec<Part>,
    /// Minutes that measuring may take; builds and downloads are not in it.
    pub minutes: f64,
    /// The most bytes on disk at once, about.
    pub disk_bytes: u64,
    /// What is left out, and why.
    pub left_out: Vec<String>,
}

/// A part of a lab.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// The stage.
    pub stage: String,
    /// The command that measures the same by itself.
    pub command: Vec<String>,
    /// Why it can't be measured.
    pub impossible: Option<String>,
}

impl Outline {
    /// [`Outline::schema`].
    pub const SCHEMA: &str = "pgassay/lab-outline/1";

    /// Of a lab that is about to begin.
    pub fn of(record: &Record, minutes: f64, disk_bytes: u64) -> Self {
        let parts = record.parts.iter().map(|part| Part {
            stage: match part.leg.words().as_str() {
                "" => part.stage.clone(),
                leg => format!("{}, {leg}", part.stage),
            },
            command: part.command.clone(),
            impossible: match &part.state {
                State::Impossible(why) => Some(why.clone()),
                _ => None,
            },
        });
        Self {
            schema: Self::SCHEMA,
            name: record.plan.name.clone(),
            title: record.plan.title.clone(),
            plan: record.from.clone(),
            parts: parts.collect(),
            minutes,
            disk_bytes,
            left_out: record.left_out.clone(),
        }
    }

    /// In lines, for who waits for it to begin.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "lab {} ({}): {}, about {}, about {} on disk at once",
            self.name,
            self.plan,
            number::counted(self.parts.len() as u64, "stage"),
            whole_minutes(self.minutes),
            number::bytes(self.disk_bytes)
        )];
        lines.extend(self.parts.iter().map(|part| match &part.impossible {
            Some(why) => format!("  {}: not here: {why}", part.stage),
            None => format!("  {}: {}", part.stage, typed(&part.command)),
        }));
        lines.extend(
            self.left_out
                .iter()
                .map(|text| format!("  left out: {text}")),
        );
        lines
    }
}

/// Minutes rounded up: `1 minute`.
fn whole_minutes(minutes: f64) -> String {
    number::counted(minutes.ceil().max(1.0) as u64, "minute")
}

/// A command as it is typed.
pub fn typed(command: &[String]) -> String {
    format!("pgassay {}", pgassay_text::shell(command))
}

impl Report for Outline {
    fn document(&self) -> Document {
        let mut blocks = vec![Block::Facts(vec![
            Fact::new("plan", &self.plan),
            Fact::new("time", format!("about {}", whole_minutes(self.minutes))),
            Fact::new(
                "disk",
                format!("about {} at once", number::bytes(self.disk_bytes)),
            ),
        ])];
        for part in &self.parts {
            blocks.push(Block::Heading(part.stage.clone()));
            blocks.push(match &part.impossible {
                Some(why) => Block::Text(format!("Not here: {why}.")),
                None => Block::Commands(vec![typed(&part.command)]),
            });
        }
        blocks.extend(
            self.left_out
                .iter()
                .map(|text| Block::Text(format!("Left out: {text}."))),
        );
        page(&format!("{}: {}", self.name, self.title), blocks)
    }
}

fn page(title: &str, blocks: Vec<Block>) -> Document {
    Document {
        title: title.to_owned(),
        provenance: format!("pgassay {}", env!("CARGO_PKG_VERSION")),
        sections: vec![Section {
            id: "labs",
            title: "Labs",
            depth: Depth::Summary,
            blocks,
        }],
        ..Document::default()
    }
}
