//! What was sampled, alone and beside the account.

use pgassay_report::document::{Block, Cell, Column, Depth, Fact, Notes, Section, Table};
use pgassay_report::{Document, Report, Rows};

use super::{ROWS, figure};
use crate::sampled::beside::Pair;
use crate::sampled::{Beside, Hits, Sampled, SampledLine};

impl Report for Sampled {
    fn document(&self) -> Document {
        let own = || self.lines.iter().filter(|line| line.own);
        let mut sections = vec![Section {
            id: "sampled",
            title: "Lines that other processors' caches gave",
            depth: Depth::Summary,
            blocks: vec![
                Block::Table(lines(self.lines.iter().filter(|line| !line.own))),
                Block::Table(groups(self)),
            ],
        }];
        if own().next().is_some() {
            sections.push(Section {
                id: "own",
                title: "Lines of single sessions",
                depth: Depth::Evidence,
                blocks: vec![Block::Table(lines(own()))],
            });
        }
        sections.push(Section {
            id: "seen",
            title: "What was sampled",
            depth: Depth::Evidence,
            blocks: vec![Block::Facts(facts(self))],
        });
        Document {
            title: "Shared cache lines, sampled by the processor".to_owned(),
            provenance: format!(
                "{}; {}; {}lines of {} bytes; pgassay {}",
                self.method,
                self.target,
                seconds(self),
                self.line_bytes,
                env!("CARGO_PKG_VERSION")
            ),
            headline: headline(self),
            sections,
            notes: Notes::default().into_notes(),
            ..Document::default()
        }
    }

    /// One row a line.
    fn rows(&self) -> Option<Rows> {
        let mut rows = Rows::new([
            "address",
            "name",
            "own",
            "samples",
            "loads",
            "stores",
            "hitm_local",
            "hitm_remote",
            "peer_local",
            "peer_remote",
        ]);
        for line in &self.lines {
            let hits = &line.hits;
            let mut row = vec![
                line.address.clone(),
                line.name.clone(),
                line.own.to_string(),
            ];
            row.extend(
                [
                    hits.samples,
                    hits.loads,
                    hits.stores,
                    hits.hitm_local,
                    hits.hitm_remote,
                    hits.peer_local,
                    hits.peer_remote,
                ]
                .map(|count| count.to_string()),
            );
            rows.push(row);
        }
        Some(rows)
    }
}

fn seconds(sampled: &Sampled) -> String {
    sampled
        .seconds
        .map_or(String::new(), |seconds| format!("{seconds} s; "))
}

fn headline(sampled: &Sampled) -> Vec<String> {
    let total = &sampled.total;
    let mut said = vec![match total.samples {
        0 => "No sampled access was to the server's shared memory.".to_owned(),
        _ => format!(
            "{} sampled accesses were to the server's shared memory; {} of them found the line in another \
             processor's cache. {:.1} % of the accesses have a name.",
            total.samples,
            total.transfers(),
            sampled.named_share * 100.0
        ),
    }];
    let first = sampled.lines.iter().find(|line| !line.own);
    if let Some(line) = first.filter(|line| line.hits.transfers() > 0) {
        said.push(format!(
            "The shared line that was found there most often: {}, {:.1} % of these samples.",
            name_of(&line.name),
            line.hits.transfers() as f64 / total.transfers().max(1) as f64 * 100.0
        ));
    }
    said
}

/// A line by the thing on it, without its member.
fn name_of(name: &str) -> &str {
    name.split(": ").next().unwrap_or(name)
}

fn hit_columns() -> Vec<Column> {
    vec![
        Column::figures("samples", "", 1),
        Column::figures("stores", "", 2),
        Column::figures("HITM local", "", 0),
        Column::figures("HITM remote", "", 0),
        Column::figures("peer local", "", 1),
        Column::figures("peer remote", "", 1),
    ]
}

fn hits(of: &Hits) -> Vec<Cell> {
    let all = [
        of.samples,
        of.stores,
        of.hitm_local,
        of.hitm_remote,
        of.peer_local,
        of.peer_remote,
    ];
    all.map(|count| Cell::plain(count.to_string())).into()
}

const CAPTION: &str = "Samples of loads and stores. HITM: found modified in another processor's cache; peer: found in \
    another cache by a processor that does not tell whether it was modified. Local: of the same node; remote: of \
    another node or socket.";

fn lines<'a>(lines: impl Iterator<Item = &'a SampledLine>) -> Table {
    let mut columns = vec![Column::prose("line")];
    columns.extend(hit_columns());
    columns.push(Column::figures("cycles", "", 2));
    columns.push(Column::prose("by"));
    let all: Vec<&SampledLine> = lines.collect();
    let rows = all.iter().take(ROWS).map(|line| {
        let mut row = vec![Cell::plain(name_of(&line.name))];
        row.extend(hits(&line.hits));
        row.push(Cell::plain_or_missing(
            line.cycles.map(|cycles| format!("{cycles:.0}")),
        ));
        let by: Vec<&str> = line.functions.iter().map(|f| f.name.as_str()).collect();
        row.push(Cell::plain(by[..by.len().min(3)].join(", ")));
        row
    });
    let more = match all.len().saturating_sub(ROWS) {
        0 => String::new(),
        n => format!(" {n} more are in the JSON document."),
    };
    let cycles = "Cycles are the mean that the sampled loads took, where the processor tells.";
    Table::new(format!("{CAPTION} {cycles}{more}"), columns, rows)
}

fn groups(sampled: &Sampled) -> Table {
    let mut columns = vec![Column::prose("memory"), Column::words("of", 1)];
    columns.extend(hit_columns());
    columns.push(Column::figures("lines", "", 2));
    let rows = sampled.groups.iter().take(ROWS).map(|group| {
        let whose = if group.own { "sessions" } else { "all" };
        let mut row = vec![Cell::plain(group.name.clone()), Cell::plain(whose)];
        row.extend(hits(&group.hits));
        row.push(Cell::plain(group.lines.to_string()));
        row
    });
    Table::new("The same by kind of memory.", columns, rows)
}

fn facts(sampled: &Sampled) -> Vec<Fact> {
    let samples = &sampled.samples;
    let mut facts = vec![
        Fact::new("server", &sampled.target).remark(&sampled.version),
        Fact::new("processor", &sampled.processor),
        Fact::new("sampled by", &sampled.method),
        Fact::new(
            "load",
            match sampled.clients {
                0 => "none of ours".to_owned(),
                clients => format!("{clients} clients, {}", sampled.workload),
            },
        ),
        Fact::new("in shared memory", samples.shared.to_string()).remark("samples"),
        Fact::new("in memory of a process", samples.private.to_string()),
        Fact::new("of other processes", samples.of_others.to_string()),
        Fact::new("without an address", samples.without_address.to_string()),
    ];
    if samples.repeated > 0 {
        facts.push(
            Fact::new("told twice", samples.repeated.to_string())
                .remark("events that perf makes of one access"),
        );
    }
    facts.push(Fact::new(
        "lines not understood",
        samples.lines_not_understood.to_string(),
    ));
    let doubts = sampled.doubts.iter().map(|doubt| Fact::new("doubt", doubt));
    facts.extend(doubts);
    facts
}

/// Whether the two agree, in a sentence.
pub(super) fn agreement(beside: &Beside) -> String {
    if beside.sampled.total.samples == 0 {
        return "Sampled by the processor: no sample was of the server's shared memory.".to_owned();
    }
    let (both, counted, sampled) = (
        beside.both.len(),
        beside.only_counted.len(),
        beside.only_sampled.len(),
    );
    let what = match beside.by.as_str() {
        "line" => "lines",
        _ => "kinds of memory",
    };
    let order = match beside.rank {
        Some(rank) => format!(
            "Over the {} {what} with enough samples, the order by lines taken and the order by samples have a rank \
             correlation of {:.2} (Spearman's).",
            rank.of, rank.spearman
        ),
        None => format!(
            "Too few {what} have enough samples, or they differ too little, to hold the two orders against each other."
        ),
    };
    format!(
        "Sampled by the processor: {both} {what} are taken by the counted transactions and were found in another \
         processor's cache; {counted} are only taken, {sampled} were only found. {order}"
    )
}

/// Counted and sampled, side by side.
pub(super) fn section(beside: &Beside) -> Section {
    let sampled = &beside.sampled;
    let table = |pairs: &[Pair], caption: &str| {
        let columns = vec![
            Column::prose(match beside.by.as_str() {
                "line" => "line",
                _ => "memory",
            }),
            Column::figures("taken", "", 0),
            Column::figures("HITM, peer", "", 0),
            Column::figures("%", "", 0),
            Column::figures("remote", "", 1),
            Column::figures("samples", "", 1),
        ];
        let rows = pairs.iter().take(ROWS).map(|pair| {
            let far = pair.hits.hitm_remote + pair.hits.peer_remote;
            vec![
                Cell::plain(name_of(&pair.name)),
                Cell::plain(figure(pair.takes)),
                Cell::plain(pair.hits.transfers().to_string()),
                Cell::plain(format!("{:.1}", pair.share * 100.0)),
                Cell::plain(far.to_string()),
                Cell::plain(pair.hits.samples.to_string()),
            ]
        });
        Block::Table(Table::new(caption, columns, rows))
    };
    let mut blocks = Vec::new();
    for (pairs, caption) in [
        (
            &beside.both,
            "Taken: stores and atomics, counted, a transaction. HITM, peer: samples that found the line in another \
             processor's cache, with their share of all such samples of what sessions share, and those from another \
             node or socket.",
        ),
        (
            &beside.only_counted,
            "Taken by the counted transactions, but not found in another cache by any sample: rarely wanted by two \
             processors at once, or too few samples.",
        ),
        (
            &beside.only_sampled,
            "Found in another cache, but not taken by the counted transactions: taken by background processes, other \
             statements, or by waiting, which a single session does not do.",
        ),
    ] {
        if !pairs.is_empty() && sampled.total.samples > 0 {
            blocks.push(table(pairs, caption));
        }
    }
    if sampled.lines.iter().any(|line| !line.own) {
        blocks.push(Block::Table(lines(sampled.lines.iter().filter(|l| !l.own))));
    }
    blocks.push(Block::Facts(facts(sampled)));
    Section {
        id: "sampled",
        title: "Sampled by the processor",
        depth: Depth::Titled,
        blocks,
    }
}
