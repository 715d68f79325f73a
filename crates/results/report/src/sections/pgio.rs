//! PGIO: logical reads a second over sessions, with the misses and the device
//! reads always beside them.

use pgassay_analysis::Analysis;
use pgassay_analysis::pgio::{PgioAnalysis, PgioPoint};
use pgassay_model::run::RunState;

use super::{interval, levels};
use crate::document::{
    Axis, Block, Cell, Chart, Column, Depth, Dot, Fact, Notes, Scale, Section, Series, Table,
};
use crate::number;

/// PGIO's results, where it was run.
pub fn section(analysis: &Analysis, notes: &mut Notes) -> Option<Section> {
    let pgio = analysis.pgio.as_ref()?;
    if pgio.points.is_empty() {
        return None;
    }
    let mut blocks = Vec::new();
    if pgio.points.len() > 1 {
        blocks.push(Block::Chart(Box::new(chart(pgio))));
    }
    blocks.push(Block::Table(reads(pgio, notes)));
    blocks.push(Block::Table(work(pgio, notes)));
    blocks.push(Block::Facts(facts(pgio, analysis.run.state)));
    Some(Section {
        id: "pgio",
        title: "PGIO: where the blocks came from",
        depth: Depth::Summary,
        blocks,
    })
}

fn place(point: &PgioPoint) -> String {
    number::counted(point.sessions, "session")
}

fn reads(pgio: &PgioAnalysis, notes: &mut Notes) -> Table {
    let columns = vec![
        Column::figures("sessions", "", 0),
        Column::figures("logical reads", "/s", 0),
        Column::figures("each session", "/s", 1),
        Column::figures("misses", "/s", 0),
        Column::figures("device requests", "/s", 1),
        Column::figures("device reads", "bytes/s", 0),
        Column::figures("average request", "", 2),
        Column::figures("server's processes", "bytes/s", 3),
    ];
    let rows = pgio
        .points
        .iter()
        .map(|p| {
            let at = place(p);
            vec![
                Cell::plain(number::count(u64::from(p.sessions)))
                    .marked(notes.marks(&p.warnings, &at)),
                notes.estimate(&p.logical_reads_per_second, &format!("logical reads, {at}")),
                notes.estimate(
                    &p.logical_reads_per_second_per_session,
                    &format!("logical reads of each, {at}"),
                ),
                notes.estimate(&p.misses_per_second, &format!("misses, {at}")),
                notes.maybe(
                    p.device_requests_per_second.as_ref(),
                    &format!("device requests, {at}"),
                ),
                notes.maybe(
                    p.device_bytes_per_second.as_ref(),
                    &format!("device reads, {at}"),
                ),
                match p.device_request_bytes {
                    Some(bytes) => Cell::plain(number::bytes(bytes.round() as u64)),
                    None => Cell::plain("none"),
                },
                notes.maybe(
                    p.processes_bytes_per_second.as_ref(),
                    &format!("the processes' reads, {at}"),
                ),
            ]
        })
        .collect();
    Table {
        caption: format!(
            "Logical reads are blocks of tables and indexes that the sessions looked at, by their own \
             count; misses those that were not in shared buffers; device reads what the kernel fetched, \
             for everybody. {}",
            levels(pgio.points.iter().map(|p| &p.logical_reads_per_second))
        ),
        columns,
        rows,
        folded: false,
        marks: vec![],
    }
}

fn work(pgio: &PgioAnalysis, notes: &mut Notes) -> Table {
    let updates = pgio.points.iter().any(|p| p.updates_per_second.is_some());
    let mut columns = vec![
        Column::figures("sessions", "", 0),
        Column::figures("logical reads", "per CPU second", 0),
        Column::figures("SELECTs", "/s", 0),
        Column::figures("longest", "ms", 1),
    ];
    if updates {
        columns.extend([
            Column::figures("UPDATEs", "/s", 0),
            Column::figures("longest", "ms", 1),
        ]);
    }
    columns.extend([
        Column::figures("slowest/fastest", "", 2),
        Column::figures("blocks of ranges", "/s", 3),
        Column::figures("page tables", "bytes", 2),
        Column::figures("client", "CPUs", 3),
    ]);
    let rows = pgio
        .points
        .iter()
        .map(|p| {
            let at = place(p);
            let mut row = vec![
                Cell::plain(number::count(u64::from(p.sessions))),
                notes.maybe(
                    p.logical_reads_per_cpu_second.as_ref(),
                    &format!("reads per CPU second, {at}"),
                ),
                notes.estimate(&p.selects_per_second, &format!("SELECTs, {at}")),
                Cell::plain(number::single(p.longest_select_ms)),
            ];
            if updates {
                row.push(notes.maybe(p.updates_per_second.as_ref(), &format!("UPDATEs, {at}")));
                row.push(match p.longest_update_ms {
                    Some(ms) => Cell::plain(number::single(ms)),
                    None => Cell::plain("none"),
                });
            }
            row.extend([
                notes.maybe(p.fairness.as_ref(), &format!("fairness, {at}")),
                notes.estimate(
                    &p.touched_blocks_per_second,
                    &format!("blocks of ranges, {at}"),
                ),
                notes.maybe(p.page_table_bytes.as_ref(), &format!("page tables, {at}")),
                notes.estimate(&p.client_cpus, &format!("client CPUs, {at}")),
            ]);
            row
        })
        .collect();
    Table {
        caption: "What the sessions did, and what a logical read costs the server. Blocks of ranges are \
                  those that the SELECTs' and UPDATEs' ranges hold, one a row; the rest of the logical \
                  reads is the index."
            .to_owned(),
        columns,
        rows,
        folded: false,
        marks: vec![],
    }
}

fn chart(pgio: &PgioAnalysis) -> Chart {
    let estimates: Vec<_> = pgio
        .points
        .iter()
        .map(|p| {
            let x = f64::from(p.sessions);
            interval(x, &p.logical_reads_per_second, &place(p), "a second")
        })
        .collect();
    let spoken: Vec<String> = estimates.iter().map(|e| e.tip.clone()).collect();
    Chart {
        id: "pgio".to_owned(),
        title: "Logical reads".to_owned(),
        alternative: format!(
            "Logical reads a second against the number of sessions. {}.",
            spoken.join("; ")
        ),
        caption: "Blocks looked at a second, all sessions together; a dot is a trial.".to_owned(),
        x: Axis {
            label: "sessions (each step to the right doubles)".to_owned(),
            scale: Scale::Log,
            ticks: pgio.points.iter().map(|p| f64::from(p.sessions)).collect(),
        },
        y: Axis {
            label: "logical reads a second".to_owned(),
            scale: Scale::FromZero,
            ticks: vec![],
        },
        series: vec![Series {
            evidence: None,
            label: "measured, with its interval".to_owned(),
            look: 0,
            lane: (0, 1),
            estimates,
            dots: pgio.points.iter().flat_map(dots).collect(),
        }],
        guides: vec![],
    }
}

fn dots(point: &PgioPoint) -> impl Iterator<Item = Dot> {
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

fn facts(pgio: &PgioAnalysis, state: RunState) -> Vec<Fact> {
    let plan = &pgio.plan;
    let mut facts = vec![
        Fact::new(
            "tables",
            format!(
                "{} of {}, made in {}",
                number::count(u64::from(plan.tables)),
                number::bytes(plan.rows * plan.block_size_bytes),
                number::duration(plan.setup_seconds)
            ),
        ),
        Fact::new(
            "operations",
            format!(
                "SELECTs of {} rows, {} % UPDATEs of {} rows",
                plan.work_unit + 1,
                plan.update_pct,
                plan.update_work_unit + 1
            ),
        ),
        match plan.classic {
            true => Fact::new("way", "PGIO's own: dynamic SQL, one transaction a trial").remark(
                "each range is parsed and planned again, and updates of one table block each other",
            ),
            false => Fact::new(
                "way",
                "static SQL whose plans are kept, a commit for each update",
            ),
        },
        Fact::new("a range is read by", plan.plans.0.clone()),
    ];
    if let Some(agreement) = &pgio.agreement {
        let sessions = number::count(agreement.sessions_blocks);
        facts.push(match (agreement.server_blocks, agreement.difference) {
            (Some(server), Some(difference)) => Fact::new(
                "counters",
                format!(
                    "sessions {sessions} blocks, pg_stat_database {} ({} %)",
                    number::count(server),
                    number::signed(100.0 * difference, 3)
                ),
            )
            .remark(match agreement.holds() {
                Some(true) => {
                    "they agree to 0.5 %; the rest is the catalogue and pgassay's questions"
                }
                _ if state != RunState::Complete => "the run was not whole",
                _ => "they do not agree to 0.5 %: somebody else used the database meanwhile",
            }),
            _ => Fact::new("counters", format!("sessions {sessions} blocks")),
        });
        facts.push(Fact::new(
            "blocks of the tables",
            format!(
                "{} looked at, {} in the ranges",
                number::count(agreement.heap_blocks),
                number::count(agreement.touched_blocks)
            ),
        ));
    }
    if let Some(storage) = &pgio.storage {
        facts.push(Fact::new("under the data directory", storage.shown()));
        if let Some(why) = &storage.hidden {
            facts.push(Fact::new("not visible from here", why.clone()));
        }
    }
    facts
}
