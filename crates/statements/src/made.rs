//! What a workload that was made holds, and what is not in it.

use pgassay_report::document::{Block, Cell, Column, Depth, Fact, Section, Table};
use pgassay_report::number::{counted, share as percent};
use pgassay_report::{Document, Report, Rows};
use pgassay_text::cell;
use schemars::JsonSchema;
use serde::Serialize;

/// The document's schema.
pub const SCHEMA: &str = "pgassay/workload/1";
/// Scripts that the tables show; JSON and CSV have all.
const SHOWN: usize = 25;
/// Characters of a statement that tables show.
const STATEMENT: usize = 70;

/// A workload that was made of what a server ran.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct Made {
    /// `pgassay/workload/1`.
    pub schema: &'static str,
    /// The version of pgassay.
    pub pgassay_version: &'static str,
    /// What it was made of: files, or a server.
    pub source: String,
    /// The workload file.
    pub file: String,
    /// The file of the sessions, where they are recorded.
    pub sessions_file: Option<String>,
    /// Transactions in it.
    pub recorded: Option<u64>,
    /// Sessions at once.
    pub connections: Option<u32>,
    /// What the file holds of the original: `values as logged`, `values drawn from statistics`, `values replaced`.
    pub values: String,
    /// Statements that were seen.
    pub statements: u64,
    /// Of these in the scripts.
    pub covered: u64,
    /// Share of the server's time in the scripts, 0 to 1, where that is known.
    pub time_covered: Option<f64>,
    /// Sessions that were seen, in a log.
    pub sessions: Option<u64>,
    /// Seconds from the first to the last statement, in a log.
    pub seconds: Option<f64>,
    /// Its scripts, the most frequent first.
    pub scripts: Vec<MadeScript>,
    /// What is not in it, the most frequent first.
    pub left_out: Vec<LeftOut>,
    /// What a reader has to know.
    pub notes: Vec<String>,
}

/// One of its scripts.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct MadeScript {
    /// Its name.
    pub name: String,
    /// Its weight.
    pub weight: u64,
    /// Share of the transactions, 0 to 1.
    pub share: f64,
    /// Share of the server's time, 0 to 1, where that is known.
    pub time_share: Option<f64>,
    /// Statements, BEGIN and COMMIT among them.
    pub statements: usize,
    /// Rows of values that were seen together; none where values are drawn from statistics.
    pub value_rows: Option<usize>,
    /// Its first statement.
    pub first: String,
}

/// What is not in it.
#[derive(Debug, Clone, JsonSchema, Serialize)]
pub struct LeftOut {
    /// Why.
    pub why: String,
    /// How many statements.
    pub statements: u64,
    /// An example, where one can be shown.
    pub example: Option<String>,
}

impl Made {
    /// Nothing yet.
    pub fn new(source: String, file: String, values: &str, version: &'static str) -> Self {
        Self {
            schema: SCHEMA,
            pgassay_version: version,
            source,
            file,
            sessions_file: None,
            recorded: None,
            connections: None,
            values: values.to_owned(),
            statements: 0,
            covered: 0,
            time_covered: None,
            sessions: None,
            seconds: None,
            scripts: Vec::new(),
            left_out: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Notes what is left out.
    pub fn leave_out(&mut self, why: String, statements: u64) {
        match self.left_out.iter_mut().find(|one| one.why == why) {
            Some(there) => there.statements += statements,
            None => self.left_out.push(LeftOut {
                why,
                statements,
                example: None,
            }),
        }
    }

    /// Share of the statements that are in it.
    fn share(&self) -> f64 {
        self.covered as f64 / self.statements.max(1) as f64
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(STATEMENT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl Report for Made {
    fn document(&self) -> Document {
        let scripts = counted(self.scripts.len() as u64, "script");
        let mut headline = vec![format!(
            "{} has {scripts}: {} of {}.",
            self.file,
            percent(self.share()),
            counted(self.statements, "statement"),
        )];
        if let Some(share) = self.time_covered {
            headline.push(format!(
                "They are {} of the server's time in statements.",
                percent(share)
            ));
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
                blocks: self.script_table(),
            },
        ];
        if !self.left_out.is_empty() {
            sections.push(Section {
                id: "left-out",
                title: "Not in it",
                depth: Depth::Titled,
                blocks: vec![Block::Table(self.left_out_table())],
            });
        }
        sections.push(Section {
            id: "next",
            title: "To measure it",
            depth: Depth::Titled,
            blocks: vec![Block::Commands(self.commands())],
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

impl Made {
    fn commands(&self) -> Vec<String> {
        let file = &self.file;
        let mut commands = vec![
            format!("pgassay run {file} TARGET --load"),
            format!("pgassay compare A B --workload {file}"),
        ];
        if self.sessions_file.is_some() {
            commands.push(format!(
                "pgassay run {file} TARGET --load --is-copy --replay"
            ));
        }
        commands
    }

    fn script_table(&self) -> Vec<Block> {
        let timed = self
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
        let rows = self.scripts.iter().take(SHOWN).map(|script| {
            let mut cells = vec![
                Cell::plain(&script.name),
                Cell::plain(format!("{:.1}", script.share * 100.0)),
                Cell::plain(script.statements.to_string()),
                Cell::plain(shortened(&script.first)),
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
        if let Some(more @ 1..) = self.scripts.len().checked_sub(SHOWN) {
            blocks.push(Block::Text(format!(
                "And {}.",
                counted(more as u64, "more script")
            )));
        }
        blocks
    }

    fn left_out_table(&self) -> Table {
        let columns = vec![
            Column::prose("why"),
            Column::figures("statements", "", 0),
            Column::words("for example", 1),
        ];
        let rows = self.left_out.iter().map(|one| {
            vec![
                Cell::plain(&one.why),
                Cell::plain(one.statements.to_string()),
                Cell::plain_or_missing(one.example.as_deref().map(shortened)),
            ]
        });
        Table::new("Statements that are in no script.", columns, rows)
    }
}
