//! The account as a report.

use pgassay_report::document::{Block, Cell, Column, Depth, Fact, Notes, Section, Table};
use pgassay_report::{Document, Report, Rows};

use crate::account::{Account, Line, Taker};
use crate::gathered::Counts;
use crate::meetings::Meeting;
use crate::transfers::{Interval, Transfers};

mod map;
mod sampled;

/// Rows of a table in the account.
const ROWS: usize = 24;
/// Lines named for a number of sessions.
const WORST: usize = 4;

impl Report for Account {
    fn document(&self) -> Document {
        Document {
            title: format!("{}: shared cache lines of a transaction", self.workload),
            provenance: format!(
                "{}; {}, seed {}; lines of {} bytes; pgassay {}",
                self.method,
                self.sessions_in_words(),
                self.seed,
                self.line_bytes,
                env!("CARGO_PKG_VERSION")
            ),
            alarms: Vec::new(),
            headline: headline(self),
            sections: sections(self),
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
            "loads",
            "stores",
            "atomics",
            "kernel_loads",
            "kernel_stores",
        ]);
        for line in &self.lines {
            let counts = &line.counts;
            let mut row = vec![
                line.address.clone(),
                line.name.clone(),
                line.own.to_string(),
            ];
            row.extend(
                [
                    counts.loads,
                    counts.stores,
                    counts.atomics,
                    counts.kernel_loads,
                    counts.kernel_stores,
                ]
                .map(|count| format!("{count:.4}")),
            );
            rows.push(row);
        }
        Some(rows)
    }
}

fn headline(account: &Account) -> Vec<String> {
    let total = &account.total;
    let mut said = vec![format!(
        "A transaction accesses shared memory {} times ({} loads, {} stores, {} atomics) and takes {} \
         cache lines for itself; {:.1} % of the accesses have a name.",
        figure(total.all()),
        figure(total.loads + total.kernel_loads),
        figure(total.stores + total.kernel_stores),
        figure(total.atomics),
        figure(account.lines_taken),
        account.named_share * 100.0
    )];
    let shared = || account.lines.iter().filter(|line| !line.own);
    if let Some(line) = shared().next().filter(|line| line.counts.takes() > 0.0) {
        said.push(format!(
            "The shared line that is taken most: {}, with {} atomics and {} stores a transaction.",
            place(line),
            figure(line.counts.atomics),
            figure(line.counts.stores)
        ));
    }
    if let Some(last) = account.transfers.last() {
        said.push(format!(
            "At {} sessions, a transaction asks other processors' caches for a line {} times, by a \
             model in which nobody waits.",
            last.sessions,
            interval(&last.per_transaction)
        ));
    }
    let falsely = account
        .meetings
        .iter()
        .filter(|m| m.kind == "false-sharing")
        .count();
    if falsely > 0 {
        said.push(format!(
            "{falsely} line{} falsely shared: sessions use different bytes of {}.",
            if falsely == 1 { " is" } else { "s are" },
            if falsely == 1 { "it" } else { "them" }
        ));
    }
    said.extend(account.beside.as_deref().map(sampled::agreement));
    said
}

/// A line by the things on it, without their members.
fn place(line: &Line) -> String {
    let name = line.name.split(": ").next().unwrap_or(&line.name);
    name.to_owned()
}

fn sections(account: &Account) -> Vec<Section> {
    let mut sections = vec![Section {
        id: "lines",
        title: "Lines that all sessions share",
        depth: Depth::Summary,
        blocks: vec![Block::Table(lines(
            account
                .lines
                .iter()
                .filter(|line| !line.own && line.counts.takes() > 0.0),
            "Lines that a transaction takes for itself and other sessions use, too, in accesses a \
             transaction. Stores and atomics take the line away from all other processors.",
        ))],
    }];
    if !account.transfers.is_empty() {
        sections.push(Section {
            id: "transfers",
            title: "Transfers with more sessions",
            depth: Depth::Summary,
            blocks: vec![
                Block::Table(transfers(&account.transfers)),
                Block::Table(worst(&account.transfers)),
            ],
        });
    }
    sections.extend(account.beside.as_deref().map(sampled::section));
    sections.extend(map::section(account));
    if !account.meetings.is_empty() {
        sections.push(Section {
            id: "meetings",
            title: "What else lies on a line",
            depth: Depth::Titled,
            blocks: vec![Block::Table(meetings(&account.meetings))],
        });
    }
    sections.push(Section {
        id: "takers",
        title: "Who takes lines",
        depth: Depth::Evidence,
        blocks: vec![Block::Table(takers(&account.takers))],
    });
    sections.push(Section {
        id: "groups",
        title: "By kind of memory",
        depth: Depth::Evidence,
        blocks: vec![Block::Table(groups(account))],
    });
    sections.push(Section {
        id: "own",
        title: "The session's own lines",
        depth: Depth::Evidence,
        blocks: vec![Block::Table(lines(
            account.lines.iter().filter(|line| line.own),
            "Lines of which each session has its own: they stay in one cache as long as nobody else \
             looks at them.",
        ))],
    });
    sections.push(Section {
        id: "seen",
        title: "What was seen",
        depth: Depth::Evidence,
        blocks: vec![Block::Facts(facts(account))],
    });
    sections
}

fn figure(value: f64) -> String {
    match value {
        value if value >= 99.95 => format!("{value:.0}"),
        value if value >= 0.05 || value == 0.0 => format!("{value:.1}"),
        value => format!("{value:.3}"),
    }
}

fn interval(interval: &Interval) -> String {
    format!(
        "{} ({} to {})",
        figure(interval.estimate),
        figure(interval.low),
        figure(interval.high)
    )
}

fn counted(counts: &Counts) -> [Cell; 3] {
    [
        Cell::plain(figure(counts.atomics)),
        Cell::plain(figure(counts.stores + counts.kernel_stores)),
        Cell::plain(figure(counts.loads + counts.kernel_loads)),
    ]
}

fn count_columns() -> [Column; 3] {
    [
        Column::figures("atomics", "", 0),
        Column::figures("stores", "", 0),
        Column::figures("loads", "", 2),
    ]
}

fn code(taker: &Taker) -> String {
    match taker.callers.first() {
        Some(caller) => format!("{} < {caller}", taker.function),
        None => taker.function.clone(),
    }
}

fn lines<'a>(lines: impl Iterator<Item = &'a Line>, caption: &str) -> Table {
    let mut columns = vec![Column::prose("line")];
    columns.extend(count_columns());
    columns.push(Column::prose("taken by"));
    let all: Vec<&Line> = lines.collect();
    let rows = all.iter().take(ROWS).map(|line| {
        let mut row = vec![Cell::plain(place(line))];
        row.extend(counted(&line.counts));
        let mut by: Vec<&str> = line.takers.iter().map(|t| t.function.as_str()).collect();
        by.dedup();
        by.truncate(3);
        row.push(Cell::plain(by.join(", ")));
        row
    });
    let more = match all.len().saturating_sub(ROWS) {
        0 => String::new(),
        n => format!(" {n} more are in the JSON document."),
    };
    Table::new(format!("{caption}{more}"), columns, rows)
}

fn transfers(transfers: &[Transfers]) -> Table {
    let columns = vec![
        Column::figures("sessions", "", 0),
        Column::figures("transfers", "", 0),
        Column::figures("low", "", 1),
        Column::figures("high", "", 1),
        Column::prose("the line most often"),
        Column::figures("of it", "", 1),
    ];
    let rows = transfers.iter().map(|at| {
        let all = &at.per_transaction;
        let first = at.lines.first();
        vec![
            Cell::plain(at.sessions.to_string()),
            Cell::plain(figure(all.estimate)),
            Cell::plain(figure(all.low)),
            Cell::plain(figure(all.high)),
            Cell::plain_or_missing(first.map(|line| line.name.clone())),
            Cell::plain_or_missing(first.map(|line| figure(line.per_transaction.estimate))),
        ]
    });
    Table::new(
        "Times a transaction asks other processors' caches for a line, if so many sessions run at once, \
         each on a processor of its own: recorded transactions replayed in random interleavings through \
         a model of coherent caches. Nobody waits in it, so retries and sleeping are not in it. \
         Intervals of 95 % over interleavings, by seed.",
        columns,
        rows,
    )
}

fn worst(transfers: &[Transfers]) -> Table {
    let columns = vec![
        Column::figures("sessions", "", 0),
        Column::prose("memory"),
        Column::figures("transfers", "", 0),
    ];
    let last = transfers.last().into_iter();
    let rows = last.flat_map(|at| {
        at.lines.iter().take(WORST * 2).map(|line| {
            vec![
                Cell::plain(at.sessions.to_string()),
                Cell::plain(line.name.clone()),
                Cell::plain(interval(&line.per_transaction)),
            ]
        })
    });
    Table::new("Where they are, at the most sessions.", columns, rows)
}

fn meetings(meetings: &[Meeting]) -> Table {
    let columns = vec![
        Column::words("what", 0),
        Column::prose("on one line"),
        Column::figures("lines", "", 1),
        Column::figures("taken", "", 1),
    ];
    let rows = meetings.iter().take(ROWS).map(|meeting| {
        vec![
            Cell::plain(match meeting.kind.as_str() {
                "false-sharing" => "false sharing",
                "neighbours" => "neighbours",
                _ => "read beside written",
            }),
            Cell::plain(meeting.parts.join("; ")),
            Cell::plain(meeting.lines.to_string()),
            Cell::plain(figure(meeting.takes)),
        ]
    });
    Table::new(
        "False sharing: recorded sessions use different bytes of a line, and one of them writes. \
         Neighbours: what each session writes of its own lies on a line with that of other sessions. \
         Read beside written: something that is only read goes with something else that is written.",
        columns,
        rows,
    )
}

fn takers(takers: &[Taker]) -> Table {
    let mut columns = vec![Column::prose("function < caller")];
    columns.extend(count_columns().into_iter().take(2));
    let rows = takers.iter().take(ROWS).map(|taker| {
        let mut row = vec![Cell::plain(code(taker))];
        row.extend(counted(&taker.counts).into_iter().take(2));
        row
    });
    Table::new(
        "Code that writes to shared memory, in accesses a transaction.",
        columns,
        rows,
    )
}

fn groups(account: &Account) -> Table {
    let mut columns = vec![Column::prose("memory"), Column::words("of", 1)];
    columns.extend(count_columns());
    columns.push(Column::figures("lines", "", 2));
    let rows = account.groups.iter().take(2 * ROWS).map(|group| {
        let whose = if group.own { "the session" } else { "all" };
        let mut row = vec![Cell::plain(group.name.clone()), Cell::plain(whose)];
        row.extend(counted(&group.counts));
        row.push(Cell::plain(group.lines.to_string()));
        row
    });
    Table::new(
        "Accesses a transaction; lines are all different ones that were used while recording.",
        columns,
        rows,
    )
}

fn facts(account: &Account) -> Vec<Fact> {
    let mut facts = vec![
        Fact::new("server", &account.target).remark(&account.version),
        Fact::new(
            "instructions",
            format!("{:.0} a transaction", account.instructions),
        )
        .remark("in user mode, without the kernel's clock functions"),
        Fact::new(
            "stepped",
            format!("{:.0} instructions a second", account.steps_per_second),
        ),
        Fact::new(
            "named",
            format!("{:.2} % of the accesses", account.named_share * 100.0),
        ),
    ];
    if let Some(cpu_us) = account.cpu_us {
        facts.push(
            Fact::new("CPU time", format!("{cpu_us:.1} µs a transaction"))
                .remark("in the server, over transactions that were not stepped"),
        );
    }
    for share in account.unnamed.iter().take(5) {
        let value = format!("{:.2} % of the accesses", share.share * 100.0);
        facts.push(Fact::new("without a name", value).remark(&share.name));
    }
    let doubts = account.doubts.iter().map(|doubt| Fact::new("doubt", doubt));
    facts.extend(doubts);
    facts
}
