//! Scattered reads: the amplification at a glance, its causes, and what each way
//! of reading costs.

use pgassay_analysis::Analysis;
use pgassay_analysis::analysis::ScatteredAnalysis;
use pgassay_analysis::scattered::remedies::{Ratio, Remedy};
use pgassay_analysis::scattered::{Shares, VariantAnalysis};

use super::levels;
use crate::document::{Bar, Bars, Block, Cell, Column, Depth, Fact, Notes, Section, Table};
use crate::number;

/// Scattered reads, where they were measured.
pub fn section(analysis: &Analysis, notes: &mut Notes) -> Option<Section> {
    let scattered = analysis.scattered_read.as_ref()?;
    if scattered.variants.is_empty() {
        return None;
    }
    let mut blocks = Vec::new();
    blocks.extend(chart(scattered).map(|bars| Block::Bars(Box::new(bars))));
    blocks.push(Block::Table(amplification(scattered, notes)));
    blocks.push(Block::Table(costs(scattered, notes)));
    blocks.push(Block::Table(requests(scattered, notes)));
    if !scattered.remedies.is_empty() {
        blocks.push(Block::Table(remedies(&scattered.remedies)));
    }
    blocks.push(Block::Facts(facts(scattered)));
    Some(Section {
        id: "scattered-read",
        title: "Scattered reads",
        depth: Depth::Summary,
        blocks,
    })
}

/// What was read for each way of reading, divided by its causes.
fn chart(scattered: &ScatteredAnalysis) -> Option<Bars> {
    let names = [
        "the blocks asked for",
        "rest of their pages",
        "read-ahead",
        "other reads",
        "other processes",
    ];
    let rows: Vec<Bar> = scattered
        .variants
        .iter()
        .filter_map(|v| {
            let amplification = v.amplification.as_ref()?.estimate;
            let parts = match &v.shares {
                Some(s) => [s.blocks, s.pages, s.read_ahead, s.rest, s.others],
                // Where the causes can't be told apart.
                None => [amplification, 0.0, 0.0, 0.0, 0.0],
            };
            Some(Bar {
                label: v.title.clone(),
                parts: parts.map(|part| part.max(0.0)).to_vec(),
                evidence: None,
            })
        })
        .collect();
    if rows.is_empty() {
        return None;
    }
    let spoken: Vec<String> = scattered
        .variants
        .iter()
        .filter_map(|v| {
            let shown = number::shown(v.amplification.as_ref()?);
            Some(format!("{}: {} times", v.title, shown.value))
        })
        .collect();
    let page = scattered.plan.page_size_bytes / 1024;
    Some(Bars {
        id: "scattered-read".to_owned(),
        title: "Read amplification".to_owned(),
        alternative: format!(
            "Bytes that the device read for each byte that the server asked for. {}.",
            spoken.join("; ")
        ),
        caption: format!(
            "Bytes that the device read for each byte that the server asked for, on a kernel with \
             {page} KiB pages, by cause: at 1 the device reads what was asked for and no more."
        ),
        axis: "times what was asked for".to_owned(),
        unit: "times".to_owned(),
        parts: names.map(str::to_owned).to_vec(),
        rows,
        absolute: true,
    })
}

/// What is predicted of direct reads, where any were made.
pub(crate) fn direct<'a>(ways: impl IntoIterator<Item = &'a VariantAnalysis>) -> &'static str {
    match ways.into_iter().any(|way| way.direct) {
        true => {
            "Direct I/O passes the page cache, whatever its pages: 1.00, the blocks themselves, is \
             predicted for it. "
        }
        false => "",
    }
}

fn amplification(scattered: &ScatteredAnalysis, notes: &mut Notes) -> Table {
    let columns = vec![
        Column::words("way of reading", 0),
        Column::figures("amplification", "times", 0),
        Column::figures("predicted", "times", 0),
        Column::figures("blocks", "times", 1),
        Column::figures("pages", "times", 1),
        Column::figures("read-ahead", "times", 1),
        Column::figures("rest", "times", 2),
        Column::figures("others", "times", 2),
    ];
    let share = |shares: Option<&Shares>, value: fn(&Shares) -> f64| match shares {
        // Rounding must not make a small negative rest of nothing.
        Some(shares) => Cell::plain(format!("{:.2}", value(shares) + 0.0).replace("-0.00", "0.00")),
        None => Cell {
            value: crate::document::Value::Missing,
            marks: vec![],
        },
    };
    let rows = scattered
        .variants
        .iter()
        .map(|v| {
            let at = &v.title;
            vec![
                Cell::plain(&v.title).marked(notes.marks(&v.warnings, at)),
                notes.maybe(v.amplification.as_ref(), &format!("amplification, {at}")),
                Cell::plain(format!("{:.2}", v.predicted)),
                share(v.shares.as_ref(), |s| s.blocks),
                share(v.shares.as_ref(), |s| s.pages),
                share(v.shares.as_ref(), |s| s.read_ahead),
                share(v.shares.as_ref(), |s| s.rest),
                share(v.shares.as_ref(), |s| s.others),
            ]
        })
        .collect();
    let all = scattered.variants.iter();
    Table {
        caption: format!(
            "Bytes that the device read over blocks read × block size, cold. Its parts: the \
             blocks themselves, the rest of the kernel's pages that hold them, pages read ahead that \
             hold none, what the server read besides (metadata), and what the device read for others; \
             they add up to the amplification of the middle execution. {}{}",
            direct(&scattered.variants),
            levels(all.filter_map(|v| v.amplification.as_ref()))
        ),
        columns,
        rows,
        folded: false,
        marks: vec![],
    }
}

/// How the device was asked, and what stayed in memory.
fn requests(scattered: &ScatteredAnalysis, notes: &mut Notes) -> Table {
    let columns = vec![
        Column::words("way of reading", 0),
        Column::figures("server's processes", "times", 0),
        Column::figures("cached", "times", 1),
        Column::figures("requests", "per block", 1),
        Column::figures("average request", "", 2),
    ];
    let rows = scattered
        .variants
        .iter()
        .map(|v| {
            let at = &v.title;
            vec![
                Cell::plain(at),
                notes.maybe(
                    v.processes_amplification.as_ref(),
                    &format!("the processes' reads, {at}"),
                ),
                notes.maybe(v.cached.as_ref(), &format!("cached, {at}")),
                notes.maybe(v.requests_per_block.as_ref(), &format!("requests, {at}")),
                match v.request_bytes {
                    Some(bytes) => Cell::plain(number::bytes(bytes.round() as u64)),
                    None => Cell::plain("none"),
                },
            ]
        })
        .collect();
    Table {
        caption: "Bytes that devices read for the server's own processes (/proc/PID/io) and bytes of the \
                  table left in the page cache, both over what was asked for; requests that the device \
                  saw for each block, and their size."
            .to_owned(),
        columns,
        rows,
        folded: false,
        marks: vec![],
    }
}

fn costs(scattered: &ScatteredAnalysis, notes: &mut Notes) -> Table {
    let columns = vec![
        Column::words("way of reading", 0),
        Column::words("plan", 0),
        Column::figures("blocks read", "", 1),
        Column::figures("cold", "ms", 0),
        Column::figures("warm", "ms", 0),
        Column::words("settings", 3),
    ];
    let rows = scattered
        .variants
        .iter()
        .map(|v| {
            let at = &v.title;
            let plan = match v.workers {
                0 => v.scan.clone(),
                workers => format!("{}, {workers} workers", v.scan),
            };
            let cold = v.cold.as_ref().map(|c| &c.execution_ms);
            let warm = v.warm.as_ref().map(|c| &c.execution_ms);
            vec![
                Cell::plain(at),
                Cell::plain(plan),
                Cell::plain(number::count(v.blocks_read)),
                notes.maybe(cold, &format!("cold time, {at}")),
                notes.maybe(warm, &format!("warm time, {at}")),
                Cell::plain(v.settings.join(", ")),
            ]
        })
        .collect();
    Table {
        caption:
            "Time of an execution, the table's blocks not in the page cache (cold) and all there \
                  (warm, repeated until two follow each other within 5 %)."
                .to_owned(),
        columns,
        rows,
        folded: false,
        marks: vec![],
    }
}

/// What became of the ways that were tried.
fn remedies(tried: &[Remedy]) -> Table {
    let columns = vec![
        Column::words("way tried", 0),
        Column::words("against", 2),
        Column::words("bytes from the device", 0),
        Column::words("time", 1),
        Column::words("outcome", 0),
    ];
    let shown = |ratio: &Ratio| {
        let Ratio {
            estimate,
            low,
            high,
        } = ratio;
        format!("{estimate:.2} times ({low:.2} to {high:.2})")
    };
    let rows = tried.iter().map(|remedy| {
        vec![
            Cell::plain(&remedy.title),
            Cell::plain(&remedy.against),
            Cell::plain(shown(&remedy.bytes)),
            Cell::plain_or_missing(remedy.time.as_ref().map(shown)),
            Cell::plain(remedy.outcome.words()),
        ]
    });
    let rows: Vec<Vec<Cell>> = rows.collect();
    Table::new(
        "Bytes and time of an execution, divided by those of the way that it is held against, from the ends of \
         both intervals. A way reads less or more only where the whole interval says so.",
        columns,
        rows,
    )
}

fn facts(scattered: &ScatteredAnalysis) -> Vec<Fact> {
    let plan = &scattered.plan;
    let read = match &plan.own {
        None => Fact::new(
            "table",
            format!(
                "{}, {} rows, one a block of {}",
                number::bytes(plan.blocks * plan.block_size_bytes),
                number::count(plan.rows),
                number::bytes(plan.block_size_bytes)
            ),
        ),
        Some(own) => Fact::new(
            "read",
            format!(
                "{}, {} in blocks of {}",
                own.relations.join(", "),
                number::bytes(plan.blocks * plan.block_size_bytes),
                number::bytes(plan.block_size_bytes)
            ),
        )
        .remark(match (&own.query, own.sample) {
            (Some(query), _) => query.clone(),
            (None, Some(sample)) => sample.words(),
            (None, None) => String::new(),
        }),
    };
    let mut facts = vec![
        read,
        Fact::new("kernel's page size", number::bytes(plan.page_size_bytes)),
        Fact::new("cold by", plan.eviction.clone()),
    ];
    if let Some(storage) = &scattered.storage {
        let shown = storage.shown();
        if !shown.is_empty() {
            facts.push(Fact::new("under the data directory", shown));
        }
        if !storage.counted.is_empty() {
            facts.push(Fact::new("devices counted", storage.counted.join(", ")));
        }
        if let Some(why) = &storage.hidden {
            facts.push(Fact::new("not visible from here", why.clone()));
        }
    }
    facts
}
