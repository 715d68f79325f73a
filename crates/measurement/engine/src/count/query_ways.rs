//! Instructions of one query in each way of having it executed: over the wire, prepared, and in
//! the loops inside the server.

use std::path::Path;

use anyhow::Context;
use pgassay_model::query_cost::{CountedWay, IN_FLIGHT, Way};
use pgassay_model::workload::{ScriptPlan, WorkloadPlan};
use pgassay_pgwire::Session;
use pgassay_server::Installation;
use pgassay_server::settings::Settings;
use pgassay_sys::stop::Stop;

use super::{Counter, Method, Profile};
use crate::workload::inserver;

/// What is counted: the simple protocol parses and plans, which the loops never do.
pub const COUNTED: [Way; 4] = [
    Way::Prepared,
    Way::Pipelined,
    Way::QueryLoop,
    Way::PlpgsqlLoop,
];
/// Transactions of the shorter and of the longer session; pipelines hold [`IN_FLIGHT`] queries.
const SINGLE: (u64, u64) = (100, 1100);
const PIPELINES: (u64, u64) = (2, 22);
/// Calls of a loop in the shorter and the longer session, and queries in each: a call ends within
/// a second, and under valgrind that is not many.
const CALLS: (usize, usize) = (1, 5);
const QUERIES_A_CALL: u64 = 250;

/// Counts all ways on a cluster of its own; `prepare` makes functions and table in it.
///
/// # Errors
/// Where valgrind is not here, the server can't be had, or a statement fails.
pub fn count(
    installation: &Installation,
    base: Option<&Path>,
    stop: &Stop,
    prepare: &mut dyn FnMut(&mut Session) -> anyhow::Result<()>,
    seed: u64,
    progress: &mut dyn FnMut(Way),
) -> anyhow::Result<Vec<CountedWay>> {
    // The processor's counter does not tell the executor from the rest.
    let method = Method::Callgrind;
    let settings = Settings::default();
    let counter = Counter::launch_with(
        &installation.bin_dir,
        &settings,
        base,
        method,
        stop,
        prepare,
    )?;
    // Pages that must be read first would cost more than the query.
    counter.statements(&inserver::read_accounts())?;
    COUNTED
        .into_iter()
        .map(|way| {
            progress(way);
            count_way(&counter, way, seed).with_context(|| way.title().to_owned())
        })
        .collect()
}

fn count_way(counter: &Counter, way: Way, seed: u64) -> anyhow::Result<CountedWay> {
    let ((short, few), (long, many)) = match way {
        Way::Simple | Way::Prepared => (
            wire(counter, way, 1, SINGLE.0, seed)?,
            wire(counter, way, 1, SINGLE.1, seed)?,
        ),
        Way::Pipelined => (
            wire(counter, way, IN_FLIGHT, PIPELINES.0, seed)?,
            wire(counter, way, IN_FLIGHT, PIPELINES.1, seed)?,
        ),
        Way::QueryLoop => (
            inside(counter, "query-loop", CALLS.0, seed)?,
            inside(counter, "query-loop", CALLS.1, seed)?,
        ),
        Way::PlpgsqlLoop => (
            inside(counter, "plpgsql-loop", CALLS.0, seed)?,
            inside(counter, "plpgsql-loop", CALLS.1, seed)?,
        ),
    };
    Ok(CountedWay {
        way,
        queries: many.saturating_sub(few),
        instructions: long.instructions.saturating_sub(short.instructions),
        executor: executor(&long).saturating_sub(executor(&short)),
    })
}

/// One session over the wire: its counts, and the queries that it ran.
fn wire(
    counter: &Counter,
    way: Way,
    in_flight: u64,
    transactions: u64,
    seed: u64,
) -> anyhow::Result<(Profile, u64)> {
    let workload = WorkloadPlan {
        name: way.title().to_owned(),
        scale: 1,
        protocol: "prepared".to_owned(),
        scripts: vec![ScriptPlan {
            name: way.title().to_owned(),
            weight: 1,
            text: inserver::select_only(in_flight),
            pause: None,
            clients: None,
        }],
        ..WorkloadPlan::default()
    };
    let profile = counter.session_of(&workload, transactions, seed)?;
    Ok((profile, transactions * in_flight))
}

/// One session that calls a loop: its counts, and the queries that it ran.
fn inside(
    counter: &Counter,
    name: &str,
    calls: usize,
    seed: u64,
) -> anyhow::Result<(Profile, u64)> {
    let call = |n: usize| {
        inserver::alone(
            name,
            seed.wrapping_add(n as u64),
            inserver::Until::Count(QUERIES_A_CALL),
        )
        .context("there is no such loop")
    };
    let mut statements = vec![inserver::SEARCH_PATH.to_owned()];
    statements.extend((0..calls).map(call).collect::<anyhow::Result<Vec<_>>>()?);
    let (profile, returned) = counter.statements(&statements)?;
    let mut queries = 0;
    for row in returned.iter().skip(1) {
        queries += inserver::outcome(row)?.operations;
    }
    Ok((profile, queries))
}

/// Instructions of the executor and of what it called, the handing over of rows included: in a
/// server without symbols of its static functions that can't be told apart.
fn executor(profile: &Profile) -> u64 {
    let of = |name: &str| profile.inclusive.get(name).copied();
    // A loop is called by a statement itself: the executor within the executor is what it runs.
    let run = of("ExecutorRun'2").or_else(|| of("ExecutorRun"));
    let rest = ["ExecutorStart", "ExecutorFinish", "ExecutorEnd"];
    let rest: u64 = rest.into_iter().filter_map(of).sum();
    run.unwrap_or(0) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executor_within_a_loops_statement_is_what_counts() {
        let mut profile = Profile::default();
        for (name, cost) in [
            ("ExecutorStart", 5),
            ("ExecutorRun", 900),
            ("ExecutorEnd", 1),
        ] {
            profile.inclusive.insert(name.to_owned(), cost);
        }
        assert_eq!(executor(&profile), 906);
        profile.inclusive.insert("ExecutorRun'2".to_owned(), 40);
        assert_eq!(executor(&profile), 46);
    }
}
