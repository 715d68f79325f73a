//! A server beside a reference: where a transaction's time goes at both, and which settings make the
//! difference.

use pgassay_analysis::reference::{Kind, Reference};

use crate::document::{Block, Cell, Column, Depth, Section, Table};

/// What was compared, what differs most, and what was proved.
pub fn section(reference: &Reference) -> Section {
    let mut blocks = Vec::new();
    if !reference.parts.is_empty() {
        blocks.push(Block::Table(times(reference)));
    }
    if !reference.settings.is_empty() {
        blocks.push(Block::Table(settings(reference)));
    }
    let tried = reference
        .tried
        .iter()
        .map(|tried| Block::Text(reference.words_of(tried)));
    if !reference.tried.is_empty() {
        blocks.push(Block::Heading("Tried at the reference".to_owned()));
        blocks.extend(tried);
    }
    if !reference.not_seen.is_empty() {
        blocks.push(Block::Heading("What could not be compared".to_owned()));
        blocks.extend(reference.not_seen.iter().cloned().map(Block::Text));
    }
    blocks.push(Block::Text(format!(
        "The two were measured in turn with {}: pgassay report {} shows both.",
        match reference.clients {
            1 => "1 client".to_owned(),
            n => format!("{n} clients"),
        },
        reference.run
    )));
    Section {
        id: "reference",
        title: "Beside a reference server",
        depth: Depth::Summary,
        blocks,
    }
}

fn us(value: f64) -> Cell {
    let decimals = usize::from(value < 100.0);
    Cell::plain(format!("{value:.decimals$}"))
}

fn times(reference: &Reference) -> Table {
    let parts = reference
        .parts
        .iter()
        .map(|spent| (spent.name.clone(), spent));
    let named = reference.named.iter().map(|named| {
        let name = match named.kind {
            Kind::Wait => format!("waiting at {}", named.spent.name),
            Kind::Library => format!("CPU time in {}", named.spent.name),
            Kind::Class => format!("CPU time: {}", named.spent.name),
            Kind::SystemCall => format!("CPU time in the system call {}", named.spent.name),
            Kind::Function => format!("CPU time in {}", named.spent.name),
        };
        (name, &named.spent)
    });
    Table {
        caption: "A transaction's time in its session, microseconds: by where it went, then what differs by a \
                  tenth of the whole or more."
            .to_owned(),
        columns: vec![
            Column::words("time", 0),
            Column::figures("server", "µs", 0),
            Column::figures("reference", "µs", 0),
        ],
        rows: parts
            .chain(named)
            .map(|(name, spent)| vec![Cell::plain(name), us(spent.server_us), us(spent.reference_us)])
            .collect(),
        folded: false,
        marks: Vec::new(),
    }
}

fn settings(reference: &Reference) -> Table {
    Table {
        caption: "Settings that differ; where a server is and who may come in are left out."
            .to_owned(),
        columns: vec![
            Column::words("setting", 0),
            Column::words("server", 0),
            Column::words("set by", 1),
            Column::words("reference", 0),
        ],
        rows: reference
            .settings
            .iter()
            .map(|setting| {
                vec![
                    Cell::plain(&setting.name),
                    Cell::plain(&setting.server),
                    Cell::plain(&setting.source),
                    Cell::plain(&setting.reference),
                ]
            })
            .collect(),
        folded: false,
        marks: Vec::new(),
    }
}
