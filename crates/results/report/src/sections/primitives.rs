//! Primitives inside the server: one small chart each with ideal scaling
//! drawn, one table, and beside them how the code that ran was compiled.

use pgassay_analysis::Analysis;
use pgassay_analysis::primitives::{PrimitiveAnalysis, PrimitivePoint, at_once, code};
use pgassay_model::stage::StageId;

use super::{interval, levels};
use crate::document::{
    Axis, Block, Cell, Chart, Column, Depth, Dot, Fact, Guide, Notes, Scale, Section, Series, Table,
};
use crate::number;

/// Waits of a point that are named in its row.
const NAMED_WAITS: usize = 2;

/// The primitives over session counts.
pub fn section(analysis: &Analysis, notes: &mut Notes) -> Option<Section> {
    if analysis.primitives.is_empty() {
        return None;
    }
    let mut blocks: Vec<Block> = Vec::new();
    let cpus = analysis.host.cpus;
    let charts = analysis.primitives.iter().enumerate();
    blocks.push(Block::Charts(
        charts
            .map(|(i, of)| chart(i, of, cpus, who(analysis)))
            .collect(),
    ));
    let ran: Vec<Fact> = (0..analysis.primitives.len())
        .flat_map(|index| code_that_ran(analysis, index))
        .collect();
    if !ran.is_empty() {
        blocks.push(Block::Facts(ran));
    }
    blocks.push(Block::Table(table(analysis, notes)));
    blocks.push(Block::Table(match of_kernels(analysis) {
        true => met_threads(analysis, notes),
        false => meetings(analysis, notes),
    }));
    blocks.extend(compiled(analysis));
    Some(Section {
        id: "primitives",
        title: match of_kernels(analysis) {
            true => "Kernels, without a server",
            false => "Primitives inside the server",
        },
        depth: Depth::Summary,
        blocks,
    })
}

/// Whether they are threads of pgassay's own, and no sessions of a server.
fn of_kernels(analysis: &Analysis) -> bool {
    analysis.main().id == StageId::Kernels
}

/// Who does the operations: `sessions`, `threads`.
fn who(analysis: &Analysis) -> &'static str {
    match of_kernels(analysis) {
        true => "threads",
        false => "sessions",
    }
}

/// How steady each was within its calls.
pub fn steadiness(analysis: &Analysis, _notes: &mut Notes) -> Option<Section> {
    over_time(analysis).map(|table| Section {
        id: "primitives-over-time",
        title: "Primitives over the time of a call",
        depth: Depth::Evidence,
        blocks: vec![Block::Table(table)],
    })
}

fn table(analysis: &Analysis, notes: &mut Notes) -> Table {
    let who = who(analysis);
    let columns = vec![
        Column::words("primitive", 0),
        Column::figures(who, "", 0),
        Column::figures("operations", "/s", 0),
        Column::figures("of ideal", "", 1),
        Column::figures("CPU", "ns/operation", 1),
        Column::figures("slowest/fastest", "", 2),
    ];
    let mut rows = Vec::new();
    for primitive in &analysis.primitives {
        let title = primitive.variant.title();
        for point in &primitive.points {
            let at = place(&title, point, who);
            rows.push(vec![
                Cell::plain(&title).marked(notes.marks(&point.warnings, &at)),
                Cell::plain(number::count(u64::from(point.sessions))),
                notes.estimate(&point.operations_per_second, &format!("rate of {at}")),
                Cell::plain(number::percent_of_one(point.share_of_ideal)),
                notes.estimate(&point.server_cpu_ns_per_operation, &format!("CPU of {at}")),
                notes.maybe(point.fairness.as_ref(), &format!("fairness of {at}")),
            ]);
        }
    }
    let rates = analysis.primitives.iter().flat_map(|primitive| {
        primitive
            .points
            .iter()
            .map(|point| &point.operations_per_second)
    });
    Table {
        caption: match of_kernels(analysis) {
            true => format!(
                "Operations a second of all threads, the CPU time of each, the operations of the slowest \
                 thread as a share of the fastest's. The threads are released together; there is no \
                 server. {}",
                levels(rates)
            ),
            false => format!(
                "Operations a second of all sessions, the CPU time of the server for each, the \
                 operations of the slowest session as a share of the fastest's. The sessions are \
                 released together inside the server and no client takes part. {}",
                levels(rates)
            ),
        },
        columns,
        rows,
        folded: false,
        marks: vec![],
    }
}

/// What threads of kernels met: each other, and sleep.
fn met_threads(analysis: &Analysis, notes: &mut Notes) -> Table {
    let who = who(analysis);
    let mut rows = Vec::new();
    for form in &analysis.primitives {
        let title = form.variant.title();
        for point in form.points.iter().filter(|point| point.sessions > 1) {
            let at = place(&title, point, who);
            let met = point.contended_share.as_ref();
            let slept = point.delays_per_thousand.as_ref();
            rows.push(vec![
                Cell::plain(&title),
                Cell::plain(number::count(u64::from(point.sessions))),
                notes.maybe(met, &format!("contention of {at}")),
                notes.maybe(slept, &format!("sleeps of {at}")),
            ]);
        }
    }
    Table {
        caption: "The share of operations that met another thread: a lock that was taken, a \
                  compare-and-swap that failed; and sleeps in back-off or for a lock. What a fetch-and-add \
                  or a swap meets, the processor alone knows."
            .to_owned(),
        columns: vec![
            Column::words("primitive", 0),
            Column::figures("threads", "", 0),
            Column::figures("met another", "", 0),
            Column::figures("sleeps", "/1000", 1),
        ],
        rows,
        folded: true,
        marks: vec![],
    }
}

/// What sessions met: each other, back-off, waits, and others that commit.
fn meetings(analysis: &Analysis, notes: &mut Notes) -> Table {
    let who = who(analysis);
    let mut rows = Vec::new();
    for primitive in &analysis.primitives {
        let title = primitive.variant.title();
        for point in &primitive.points {
            let at = place(&title, point, who);
            rows.push(vec![
                Cell::plain(&title),
                Cell::plain(number::count(u64::from(point.sessions))),
                notes.maybe(
                    point.contended_share.as_ref(),
                    &format!("contention of {at}"),
                ),
                notes.maybe(
                    point.delays_per_thousand.as_ref(),
                    &format!("sleeps of {at}"),
                ),
                notes.maybe(point.reused_share.as_ref(), &format!("reuse of {at}")),
                Cell::plain(waits(point)),
                notes.maybe(
                    point.commits_per_second.as_ref(),
                    &format!("commits beside {at}"),
                ),
                Cell::plain(format!("{:.1}", 100.0 * point.client_cpus.estimate)),
            ]);
        }
    }
    Table {
        caption: "The share of operations that met another session, where that is counted; \
                  sleeps in the spinlock's back-off; the share that found what they needed as it \
                  was. What sessions waited for is looked at every 2 ms inside the server; the rest \
                  of the looks found them running. pgassay's own CPU time is from sending the calls \
                  to reading their rows."
            .to_owned(),
        columns: vec![
            Column::words("primitive", 0),
            Column::figures(who, "", 0),
            Column::figures("met another", "", 1),
            Column::figures("back-off sleeps", "/1000", 3),
            Column::figures("reused", "", 2),
            Column::words("waited for", 1),
            Column::figures("commits beside", "/s", 5),
            Column::figures("pgassay's CPU", "% of one", 4),
        ],
        rows,
        folded: true,
        marks: vec![],
    }
}

/// The waits that were seen, the most frequent first; a dash where nobody
/// waited, nothing where nobody looked.
fn waits(point: &PrimitivePoint) -> String {
    if point.waits.is_empty() {
        return String::new();
    }
    let seen = point.waits.iter();
    let named: Vec<String> = seen
        .filter(|wait| !wait.event.is_empty() && wait.share >= 0.005)
        .take(NAMED_WAITS)
        .map(|wait| format!("{} {}", wait.event, number::share(wait.share)))
        .collect();
    match named.is_empty() {
        true => "–".to_owned(),
        false => named.join(", "),
    }
}

/// Inspect's account of the very functions that a primitive ran; once where
/// several variants ran the same.
fn code_that_ran(analysis: &Analysis, index: usize) -> Vec<Fact> {
    let primitive = &analysis.primitives[index].variant.primitive;
    let next = analysis.primitives.get(index + 1);
    if next.is_some_and(|next| next.variant.primitive == *primitive) {
        return vec![];
    }
    let server = analysis
        .arms
        .first()
        .and_then(|arm| arm.binary.as_ref().ok());
    let account = code::account(primitive, server, analysis.primitives_compiled.as_ref());
    account
        .into_iter()
        .map(|(title, detail)| Fact::new(format!("{primitive}: {title}"), detail))
        .collect()
}

/// How steady each was: operations a second in each tenth of a call's time.
fn over_time(analysis: &Analysis) -> Option<Table> {
    let points = || {
        analysis
            .primitives
            .iter()
            .flat_map(|primitive| primitive.points.iter().map(move |point| (primitive, point)))
    };
    let tenths = points().map(|(_, point)| point.over_time.len()).max()?;
    if tenths == 0 {
        return None;
    }
    let mut columns = vec![
        Column::words("primitive", 0),
        Column::figures(who(analysis), "", 0),
    ];
    columns.extend((1..=tenths).map(|tenth| Column::figures(&tenth.to_string(), "/s", 1)));
    let rows = points()
        .map(|(primitive, point)| {
            let mut row = vec![
                Cell::plain(primitive.variant.title()),
                Cell::plain(number::count(u64::from(point.sessions))),
            ];
            let rates = point.over_time.iter().map(|rate| number::single(*rate));
            row.extend(rates.map(Cell::plain));
            row.resize_with(tenths + 2, || Cell::plain(""));
            row
        })
        .collect();
    Some(Table {
        caption: "Operations a second of all sessions in each tenth of a call's time, from the \
                  release of the sessions on; the mean over the trials."
            .to_owned(),
        columns,
        rows,
        folded: true,
        marks: vec![],
    })
}

fn chart(index: usize, primitive: &PrimitiveAnalysis, cpus: Option<u32>, who: &str) -> Chart {
    let title = primitive.variant.title();
    let estimates: Vec<_> = primitive
        .points
        .iter()
        .map(|point| {
            let x = f64::from(point.sessions);
            interval(
                x,
                &point.operations_per_second,
                &place(&title, point, who),
                "a second",
            )
        })
        .collect();
    let spoken: Vec<String> = estimates.iter().map(|e| e.tip.clone()).collect();
    let dots = primitive.points.iter().flat_map(trials).collect();
    Chart {
        id: format!("primitive-{index}"),
        title: title.clone(),
        alternative: format!(
            "Operations a second of {title} against the number of {who}. {}.",
            spoken.join("; ")
        ),
        caption: primitive.variant.operation.clone(),
        x: Axis {
            label: who.to_owned(),
            scale: Scale::Log,
            ticks: primitive
                .points
                .iter()
                .map(|p| f64::from(p.sessions))
                .collect(),
        },
        y: Axis {
            label: "operations a second".to_owned(),
            scale: Scale::FromZero,
            ticks: vec![],
        },
        series: vec![Series {
            evidence: None,
            label: "measured, with its interval".to_owned(),
            look: 0,
            lane: (0, 1),
            estimates,
            dots,
        }],
        guides: ideal(primitive, cpus).into_iter().collect(),
    }
}

/// One dot a trial, set apart sideways in the order in which they ran.
fn trials(point: &PrimitivePoint) -> impl Iterator<Item = Dot> {
    let last = point.trials.len().saturating_sub(1).max(1) as f64;
    point.trials.iter().enumerate().map(move |(i, rate)| Dot {
        x: f64::from(point.sessions),
        y: *rate,
        offset: if point.trials.len() > 1 {
            2.0 * i as f64 / last - 1.0
        } else {
            0.0
        },
        tip: format!("trial {}: {} a second", i + 1, number::single(*rate)),
    })
}

/// Linear scaling from the first count up to the CPUs, in steps fine enough for a
/// log axis.
fn ideal(primitive: &PrimitiveAnalysis, cpus: Option<u32>) -> Option<Guide> {
    let (first, last) = (primitive.points.first()?, primitive.points.last()?);
    let start = f64::from(first.sessions);
    let octaves = (f64::from(last.sessions) / start).log2();
    if !octaves.is_finite() || octaves <= 0.0 {
        return None;
    }
    let each = first.operations_per_second.estimate / start;
    let steps = (octaves * 16.0).ceil();
    let at = |i: u32| start * 2f64.powf(f64::from(i) / steps * octaves);
    let most = f64::from(at_once(last.sessions, first.sessions, cpus));
    Some(Guide {
        label: match cpus.filter(|_| most < f64::from(last.sessions)) {
            Some(cpus) => format!("ideal scaling from the first count, up to {cpus} CPUs"),
            None => "ideal scaling from the first count".to_owned(),
        },
        points: (0..=steps as u32)
            .map(|i| (at(i), at(i).min(most) * each))
            .collect(),
        in_range: false,
    })
}

/// What the code that ran was compiled with, and whether it is the server's own.
fn compiled(analysis: &Analysis) -> Option<Block> {
    let compiled = analysis.primitives_compiled.as_ref()?;
    let whose = if compiled.deviations.is_empty() {
        "compiled with the flags and the compiler that the server records".to_owned()
    } else {
        format!(
            "similar code, not the server's own: {}",
            compiled.deviations.join("; ")
        )
    };
    Some(Block::Facts(vec![
        Fact::new("inlined atomics and spinlock", whose)
            .remark("LWLock, buffer, snapshot and WAL code is the server's own in any case"),
        Fact::new("compiler", compiled.compiler.clone()),
        Fact::new("flags", compiled.flags.join(" ")),
    ]))
}

fn place(title: &str, point: &PrimitivePoint, who: &str) -> String {
    let one = who.trim_end_matches('s');
    format!("{title} in {}", number::counted(point.sessions, one))
}
