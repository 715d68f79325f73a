//! Any number of machines in one table.

use pgassay_analysis::hosts::{Asked, Figure, Machines, Row};
use pgassay_model::warning::Warning;
use pgassay_text::cell;

use super::csv::{self, Rows};
use super::document::{self, Block, Cell, Column, Depth, Document, Notes, Section, Table};
use super::{Report, number};

impl Report for Machines {
    fn document(&self) -> Document {
        let mut notes = Notes::default();
        let table = table(self, &mut notes);
        let names: Vec<&str> = self.scenarios.iter().map(|s| s.name.as_str()).collect();
        let mut headline = vec![
            "They were recorded apart: the order of the rows is no verdict. To hold two to eight of them against each \
             other: pgassay compare-runs A B."
                .to_owned(),
        ];
        if !self.without.is_empty() {
            headline.push(format!(
                "{} without such a figure: {}.",
                number::counted(self.without.len() as u64, "run"),
                named(&self.without)
            ));
        }
        if !self.further.is_empty() {
            headline.push(format!(
                "Measured, too, and shown with --scenario NAME: {}.",
                named(&self.further)
            ));
        }
        Document {
            title: format!(
                "{}: {}",
                number::counted(self.rows.len() as u64, "run"),
                match names.is_empty() {
                    true => "none with a figure".to_owned(),
                    false => names.join("; "),
                }
            ),
            provenance: format!("Put together by pgassay {}", env!("CARGO_PKG_VERSION")),
            headline,
            sections: vec![Section {
                id: "machines",
                title: "Machines",
                depth: Depth::Titled,
                blocks: vec![Block::Table(table)],
            }],
            notes: notes.into_notes(),
            ..Document::default()
        }
    }

    fn rows(&self) -> Option<Rows> {
        let before = [
            "run",
            "directory",
            "started",
            "pgassay",
            "processor",
            "cores",
            "ghz",
            "kernel",
        ];
        let before = before.map(str::to_owned).into_iter();
        let before = before.chain(["server", "build", "measurement"].map(str::to_owned));
        let each = self.scenarios.iter().flat_map(|asked| {
            let name = format!("{} ({})", cell(&asked.name), asked.unit);
            let parts = ["", " low", " high", " sessions"];
            parts.map(|part| format!("{name}{part}"))
        });
        let mut rows = Rows::new(before.chain(each));
        for row in &self.rows {
            let text = |text: &Option<String>| cell(text.as_deref().unwrap_or_default());
            let mut fields = vec![
                cell(&row.run),
                cell(&row.directory),
                cell(&row.started),
                cell(&row.pgassay_version),
                text(&row.processor),
                row.cores.map_or_else(String::new, |n| n.to_string()),
                csv::figure(row.ghz),
                text(&row.kernel),
                text(&row.server),
                text(&row.build),
                text(&row.quality),
            ];
            for figure in &row.figures {
                let value = figure.as_ref().map(|figure| &figure.value);
                let sessions = figure.as_ref().and_then(|figure| figure.sessions);
                fields.extend([
                    csv::figure(value.map(|v| v.estimate)),
                    csv::figure(value.map(|v| v.low)),
                    csv::figure(value.map(|v| v.high)),
                    sessions.map_or_else(String::new, |n| n.to_string()),
                ]);
            }
            rows.push(fields);
        }
        Some(rows)
    }
}

/// Some of the names, and how many there are beside them.
fn named(names: &[String]) -> String {
    const NAMED: usize = 8;
    match names.len() {
        ..=NAMED => names.join("; "),
        all => format!(
            "{}; and {} more, which --json lists",
            names[..NAMED].join("; "),
            all - NAMED
        ),
    }
}

fn table(machines: &Machines, notes: &mut Notes) -> Table {
    let mut columns = vec![
        Column::words("processor", 0),
        Column::figures("cores", "", 1),
        Column::figures("clock", "GHz", 3),
    ];
    for asked in &machines.scenarios {
        columns.push(Column::figures(&asked.name, &asked.unit, 0));
        columns.push(Column::figures("at", "", 2));
    }
    columns.extend([
        Column::words("server", 1),
        Column::words("run", 0),
        Column::words("begun", 2),
        Column::words("measurement", 3),
        Column::words("pgassay", 4),
        Column::words("atomics", 4),
        Column::words("directory", 4),
    ]);
    let rows = machines.rows.iter().map(|row| {
        let server = row.server.as_deref();
        // `PostgreSQL 18.1`; how it was built is told by its atomics, and in full in JSON and CSV.
        let server = server.map(|text| {
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            words.join(" ")
        });
        let mut cells = vec![
            Cell::plain_or_missing(row.processor.clone()),
            Cell::plain_or_missing(row.cores.map(|n| n.to_string())),
            Cell::plain_or_missing(row.ghz.map(number::short)),
        ];
        for (asked, figure) in machines.scenarios.iter().zip(&row.figures) {
            cells.extend(figures(asked, row, figure.as_ref(), notes));
        }
        cells.extend([
            Cell::plain_or_missing(server),
            Cell::plain(&row.run),
            Cell::plain(
                row.started
                    .get(..16)
                    .unwrap_or(&row.started)
                    .replace('T', " "),
            ),
            Cell::plain_or_missing(row.quality.clone()),
            Cell::plain(&row.pgassay_version),
            Cell::plain_or_missing(row.build.clone()),
            Cell::plain(&row.directory),
        ]);
        cells
    });
    let caption = "A row a run or lab, the best first; with intervals over trials. At: clients or sessions. Cores are \
                   physical ones; where these are not known, logical CPUs.";
    Table::new(caption, columns, rows)
}

/// A figure with what qualifies it, and where it was measured.
fn figures(asked: &Asked, row: &Row, figure: Option<&Figure>, notes: &mut Notes) -> [Cell; 2] {
    let Some(figure) = figure else {
        return [Cell::missing(), Cell::missing()];
    };
    let mut warnings = figure.value.warnings.clone();
    let said = figure.limited.iter().map(|why| ("limited", why));
    let said = said.chain(
        figure
            .other_question
            .iter()
            .map(|why| ("other-question", why)),
    );
    warnings.extend(said.map(|(id, why)| {
        let mut text = why.clone();
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        Warning::new(id, format!("{text}."))
    }));
    let about = format!("{}: {}", row.run, asked.name);
    let value = Cell {
        value: document::Value::Estimate(figure.value.clone()),
        marks: notes.marks(&warnings, &about),
    };
    [
        value,
        Cell::plain_or_missing(figure.sessions.map(|n| n.to_string())),
    ]
}
