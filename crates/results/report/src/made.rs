//! A workload that was made of what a server ran: its scripts, and what is not in it.

use pgassay_statements::made::{LeftOut, Made};
use pgassay_text::{cell, cut};

use super::document::{Block, Cell, Column, Depth, Document, Fact, Section, Table};
use super::number::{counted, share as percent};
use super::{Report, Rows};

/// Scripts that the tables show; JSON and CSV have all.
const SHOWN: usize = 25;
/// Characters of a statement that tables show.
const STATEMENT: usize = 70;

impl Report for Made {
    fn document(&self) -> Document {
        let scripts = counted(self.scripts.len() as u64, "script");
        let covered = match self.time_covered {
            Some(share) => format!(
                "{} of the time of all statements, {} of {}",
                percent(share),
                self.covered,
                counted(self.statements, "statement")
            ),
            None => format!(
                "{} of {}",
                percent(self.share()),
                counted(self.statements, "statement")
            ),
        };
        let mut headline = vec![format!("{} has {scripts}: {covered}.", self.file)];
        if !self.left_out.is_empty() {
            let why = |one: &LeftOut| match one.time_share {
                Some(share) => format!(
                    "{} ({}, {} of the time)",
                    one.why,
                    one.statements,
                    percent(share)
                ),
                None => format!("{} ({})", one.why, one.statements),
            };
            let whys: Vec<String> = self.left_out.iter().take(3).map(why).collect();
            headline.push(format!("Not in it: {}.", whys.join("; ")));
        }
        let mut facts = vec![
            Fact::new("made of", &self.source),
            Fact::new("values", &self.values),
        ];
        if let Some(sessions) = self.sessions {
            facts.push(Fact::new("sessions", sessions.to_string()));
        }
        if let Some(seconds) = self.seconds {
            facts.push(Fact::new("from first to last", format!("{seconds:.1} s")));
        }
        if let (Some(file), Some(recorded), Some(connections)) =
            (&self.sessions_file, self.recorded, self.connections)
        {
            facts.push(Fact::new(
                "for --replay",
                format!(
                    "{} of them, {connections} at once, in {file}",
                    counted(recorded, "transaction")
                ),
            ));
        }
        let mut blocks = vec![Block::Facts(facts)];
        blocks.extend(self.notes.iter().cloned().map(Block::Text));
        let mut sections = vec![
            Section {
                id: "made",
                title: "What it was made of",
                depth: Depth::Summary,
                blocks,
            },
            Section {
                id: "scripts",
                title: "Scripts",
                depth: Depth::Titled,
                blocks: script_table(self),
            },
        ];
        if !self.left_out.is_empty() {
            sections.push(Section {
                id: "left-out",
                title: "Not in it",
                depth: Depth::Titled,
                blocks: vec![Block::Table(left_out_table(self))],
            });
        }
        sections.push(Section {
            id: "next",
            title: "To measure it",
            depth: Depth::Titled,
            blocks: vec![Block::Commands(commands(self))],
        });
        Document {
            title: format!("{}: a workload made of {}", self.file, self.source),
            provenance: format!("Made by pgassay {}", self.pgassay_version),
            headline,
            sections,
            ..Document::default()
        }
    }

    fn rows(&self) -> Option<Rows> {
        let mut rows = Rows::new([
            "script",
            "weight",
            "share",
            "time_share",
            "statements",
            "value_rows",
            "first",
        ]);
        for script in &self.scripts {
            rows.push(vec![
                cell(&script.name),
                script.weight.to_string(),
                script.share.to_string(),
                script
                    .time_share
                    .map(|share| share.to_string())
                    .unwrap_or_default(),
                script.statements.to_string(),
                script
                    .value_rows
                    .map(|rows| rows.to_string())
                    .unwrap_or_default(),
                cell(&script.first),
            ]);
        }
        Some(rows)
    }
}

fn commands(made: &Made) -> Vec<String> {
    let file = &made.file;
    let mut commands = vec![
        format!("pgassay run {file} TARGET --load"),
        format!("pgassay compare A B --workload {file}"),
    ];
    if made.sessions_file.is_some() {
        commands.push(format!(
            "pgassay run {file} TARGET --load --is-copy --replay"
        ));
    }
    commands
}

fn script_table(made: &Made) -> Vec<Block> {
    let timed = made
        .scripts
        .iter()
        .any(|script| script.time_share.is_some());
    let mut columns = vec![
        Column::words("script", 0),
        Column::figures("share", "%", 0),
        Column::figures("statements", "", 1),
        Column::prose("first statement"),
    ];
    if timed {
        columns.insert(2, Column::figures("of the time", "%", 0));
    }
    let rows = made.scripts.iter().take(SHOWN).map(|script| {
        let mut cells = vec![
            Cell::plain(&script.name),
            Cell::plain(format!("{:.1}", script.share * 100.0)),
            Cell::plain(script.statements.to_string()),
            Cell::plain(cut(&script.first, STATEMENT)),
        ];
        if timed {
            let share = script
                .time_share
                .map(|share| format!("{:.1}", share * 100.0));
            cells.insert(2, Cell::plain_or_missing(share));
        }
        cells
    });
    let mut blocks = vec![Block::Table(Table::new(
        "Shares are of the transactions.",
        columns,
        rows,
    ))];
    if let Some(more @ 1..) = made.scripts.len().checked_sub(SHOWN) {
        blocks.push(Block::Text(format!(
            "And {}.",
            counted(more as u64, "more script")
        )));
    }
    blocks
}

fn left_out_table(made: &Made) -> Table {
    let columns = vec![
        Column::prose("why"),
        Column::figures("statements", "", 0),
        Column::figures("time", "%", 0),
        Column::words("for example", 1),
    ];
    let rows = made.left_out.iter().map(|one| {
        vec![
            Cell::plain(&one.why),
            Cell::plain(one.statements.to_string()),
            Cell::plain_or_missing(one.time_share.map(|share| format!("{:.1}", 100.0 * share))),
            Cell::plain_or_missing(one.example.as_deref().map(|text| cut(text, STATEMENT))),
        ]
    });
    Table::new("Statements that are in no script.", columns, rows)
}
