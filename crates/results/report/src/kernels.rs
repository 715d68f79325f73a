//! Scattered reads on several kernels in one report: amplification by page size at
//! a glance, and what each kernel read.

use pgassay_analysis::kernels::{OnKernel, SideBySide};
use pgassay_analysis::scattered::VariantAnalysis;
use pgassay_analysis::stats::Estimate;

use super::document::{
    Axis, Block, Cell, Chart, Column, Depth, Document, Guide, Interval, Notes, Scale, Section,
    Series, Table,
};
use super::sections::scattered::direct;
use super::{Report, number};

impl Report for SideBySide {
    fn document(&self) -> Document {
        document(self)
    }
}

fn document(side: &SideBySide) -> Document {
    let mut notes = Notes::default();
    let mut glance: Vec<Block> = Vec::new();
    glance.extend(chart(side).map(|chart| Block::Chart(Box::new(chart))));
    glance.push(Block::Table(by_kernel(side, &mut notes)));
    Document {
        title: format!("Scattered reads on {} kernels", side.kernels.len()),
        provenance: format!(
            "Runs {}, held side by side by pgassay {}",
            side.kernels
                .iter()
                .map(|k| k.run.as_str())
                .collect::<Vec<_>>()
                .join(", "),
            env!("CARGO_PKG_VERSION")
        ),
        alarms: Vec::new(),
        headline: side.headline.clone(),
        sections: vec![
            Section {
                id: "amplification",
                title: "Read amplification by page size",
                depth: Depth::Summary,
                blocks: glance,
            },
            Section {
                id: "reads",
                title: "What each kernel read",
                depth: Depth::Summary,
                blocks: vec![Block::Table(reads(side, &mut notes))],
            },
            Section {
                id: "machines",
                title: "The machines",
                depth: Depth::Evidence,
                blocks: vec![Block::Table(machines(side))],
            },
        ],
        notes: notes.into_notes(),
        ..Document::default()
    }
}

fn title<'a>(side: &'a SideBySide, id: &'a str) -> &'a str {
    let way = side.ways.iter().find(|(way, _)| way == id);
    way.map_or(id, |(_, title)| title)
}

/// Page size against amplification, both by ratio: what is predicted is a line.
fn chart(side: &SideBySide) -> Option<Chart> {
    let kib = |k: &OnKernel| k.page_size_bytes as f64 / 1024.0;
    let lanes = side.telling.len();
    let series: Vec<Series> = side
        .telling
        .iter()
        .enumerate()
        .map(|(look, id)| Series {
            evidence: None,
            label: title(side, id).to_owned(),
            look,
            lane: (look, lanes),
            estimates: side
                .kernels
                .iter()
                .filter_map(|k| {
                    let read = k.way(id)?.amplification.as_ref()?;
                    Some(drawn(
                        kib(k),
                        read,
                        &format!("{}, {}", k.name, title(side, id)),
                    ))
                })
                .collect(),
            dots: vec![],
        })
        .filter(|series| !series.estimates.is_empty())
        .collect();
    let spoken: Vec<&str> = series
        .iter()
        .flat_map(|s| s.estimates.iter().map(|e| e.tip.as_str()))
        .collect();
    if spoken.is_empty() {
        return None;
    }
    let mut ticks: Vec<f64> = side.kernels.iter().map(kib).collect();
    ticks.dedup();
    let block = side.kernels.first()?.block_size_bytes as f64 / 1024.0;
    let last = ticks.last().copied()?;
    let mut predicted = vec![(ticks[0], (ticks[0] / block).max(1.0))];
    if ticks[0] < block && block < last {
        predicted.push((block, 1.0));
    }
    predicted.push((last, (last / block).max(1.0)));
    Some(Chart {
        id: "amplification".to_owned(),
        title: "Bytes read for each byte asked for".to_owned(),
        alternative: format!(
            "Bytes that the device read for each byte that the server asked for, by the kernel's page \
             size. {}.",
            spoken.join("; ")
        ),
        caption:
            "Both axes logarithmic. The faint line is what the page size predicts for blocks that \
                  share no page; read-ahead lies above it, direct I/O stays at 1, and blocks that \
                  share pages lie below."
                .to_owned(),
        x: Axis {
            label: "the kernel's page size, KiB".to_owned(),
            scale: Scale::Log,
            ticks,
        },
        y: Axis {
            label: "times what was asked for".to_owned(),
            scale: Scale::Log,
            ticks: vec![1.0, 2.0, 4.0, 8.0],
        },
        series,
        guides: vec![Guide {
            label: "predicted by the page size".to_owned(),
            points: predicted,
            in_range: true,
        }],
    })
}

fn drawn(x: f64, estimate: &Estimate, what: &str) -> Interval {
    let shown = number::shown(estimate);
    let (low, high) = match shown.interval {
        Some(_) => (estimate.low, estimate.high),
        None => (f64::NAN, f64::NAN),
    };
    Interval {
        x,
        y: estimate.estimate,
        low,
        high,
        tip: format!("{what}: {} times", shown.value),
    }
}

/// One row a way of reading, one column a kernel.
fn by_kernel(side: &SideBySide, notes: &mut Notes) -> Table {
    let mut columns = vec![Column::words("way of reading", 0)];
    columns.extend(
        side.kernels
            .iter()
            .map(|k| Column::figures(&k.name, "times", 0)),
    );
    let rows = side
        .ways
        .iter()
        .map(|(id, title)| {
            let mut row = vec![Cell::plain(title)];
            row.extend(side.kernels.iter().map(|k| {
                let way = k.way(id);
                let read = way.and_then(|w| w.amplification.as_ref());
                let about = format!("{title} on {}", k.name);
                let marks = way.map_or_else(Vec::new, |w| notes.marks(&w.warnings, &about));
                notes.maybe(read, &about).marked(marks)
            }));
            row
        })
        .collect();
    Table {
        caption:
            "Read amplification: bytes that the device read over blocks read × block size, the \
                  table not in the page cache."
                .to_owned(),
        columns,
        rows,
        folded: false,
        marks: vec![],
    }
}

/// Blocks, sectors and causes, one row a kernel and way of reading.
fn reads(side: &SideBySide, notes: &mut Notes) -> Table {
    let columns = vec![
        Column::words("way of reading", 0),
        Column::words("on", 0),
        Column::figures("blocks read", "", 0),
        Column::figures("device sectors", "", 0),
        Column::figures("predicted", "times", 0),
        Column::figures("share of pages", "times", 1),
        Column::figures("share of read-ahead", "times", 0),
        Column::figures("the rest", "times", 1),
        Column::figures("cached", "times", 2),
    ];
    let mut rows = Vec::new();
    for (id, title) in &side.ways {
        for kernel in &side.kernels {
            if let Some(way) = kernel.way(id) {
                rows.push(row(title, kernel, way, notes));
            }
        }
    }
    Table {
        caption: format!(
            "Blocks that the server asked the kernel for in one execution, sectors of 512 bytes that \
             the device read for them, and the causes as multiples of what was asked for: the rest of \
             the kernel's pages that hold these blocks, pages that hold none of them, and everything \
             else (metadata, others). With the blocks themselves, 1, they add up to the amplification \
             of the middle execution. {}Cached is what then lies in the page cache.",
            direct(side.kernels.iter().flat_map(|k| &k.variants))
        ),
        columns,
        rows,
        folded: false,
        marks: vec![],
    }
}

fn row(title: &str, kernel: &OnKernel, way: &VariantAnalysis, notes: &mut Notes) -> Vec<Cell> {
    let about = format!("{title} on {}", kernel.name);
    let shares = way.shares.as_ref();
    let share = |value: Option<f64>| match value {
        // Rounding must not make a small negative rest of nothing.
        Some(value) => Cell::plain(format!("{value:.2}").replace("-0.00", "0.00")),
        None => Cell::plain("not visible"),
    };
    vec![
        Cell::plain(title),
        Cell::plain(&kernel.name),
        Cell::plain(number::count(way.blocks_read)),
        notes.maybe(way.device_sectors.as_ref(), &format!("sectors, {about}")),
        Cell::plain(format!("{:.2}", way.predicted)),
        share(shares.map(|s| s.pages)),
        share(shares.map(|s| s.read_ahead)),
        share(shares.map(|s| s.rest + s.others)),
        notes.maybe(way.cached.as_ref(), &format!("cached, {about}")),
    ]
}

fn machines(side: &SideBySide) -> Table {
    let rows = side.kernels.iter().map(|k| {
        vec![
            Cell::plain(&k.name),
            Cell::plain(&k.kernel),
            Cell::plain(&k.machine),
            Cell::plain(&k.server),
            Cell::plain(format!(
                "{} of {}",
                number::bytes(k.blocks * k.block_size_bytes),
                number::bytes(k.block_size_bytes)
            )),
            Cell::plain(&k.run),
        ]
    });
    Table {
        caption: "What the runs ran on.".to_owned(),
        columns: vec![
            Column::words("on", 0),
            Column::words("kernel", 0),
            Column::words("machine", 0),
            Column::words("server", 1),
            Column::words("table, blocks", 1),
            Column::words("run", 2),
        ],
        rows: rows.collect(),
        folded: false,
        marks: vec![],
    }
}
