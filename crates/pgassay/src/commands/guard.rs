//! `pgassay guard`: HEAD against BASE within minutes, held against thresholds.

use std::ffi::OsString;
use std::time::Instant;

use anyhow::bail;
use pgassay_analysis::guard::{self, Guarded, Judged, SCHEMA};
use pgassay_analysis::metrics::MetricId;
use pgassay_engine::runner::Ended;
use pgassay_model::Failure;
use pgassay_sys::stop::Stop;

use super::compare::{Measured, measure};
use super::counts;
use super::files::{page_of_run, to_file};
use super::record::shown;
use super::show::show;
use crate::cli::args::{Command, GlobalArgs};
use crate::cli::compare::{By, CompareArgs};
use crate::cli::guard::GuardArgs;
use crate::cli::{self, Args};
use crate::exit::Exit;
use crate::terminal::Terminal;

/// How much worse throughput may become where nothing was said.
const USUAL: f64 = 0.03;

/// Compares under each workload and holds the result against the thresholds.
///
/// # Errors
/// What kept it from measuring anything.
pub fn guard(
    args: &GuardArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let started = Instant::now();
    let usual = ["select-only".to_owned()];
    let workloads = match args.workloads.as_slice() {
        [] => &usual,
        named => named,
    };
    let thresholds = match args.thresholds.as_slice() {
        [] => vec![(MetricId::default(), USUAL)],
        named => named.to_vec(),
    };
    // Checked before the first of them is measured.
    let lines = workloads
        .iter()
        .map(|workload| {
            let minutes = args.minutes / workloads.len() as f64;
            compare_args(args, workload, minutes.max(0.1), thresholds[0])
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let mut guarded = Guarded {
        schema: SCHEMA.to_owned(),
        base: shown(&args.base),
        head: shown(&args.head),
        checks: Vec::new(),
        warnings: Vec::new(),
        complete: true,
        seconds: 0.0,
    };
    for (compare, line) in &lines {
        if !guarded.complete {
            break;
        }
        terminal.announce(&format!("workload {}", compare.workload));
        one(
            args,
            compare,
            line,
            &thresholds,
            global,
            &mut guarded,
            terminal,
            stop,
        )?;
    }
    guarded.seconds = started.elapsed().as_secs_f64();
    if let Some(path) = &args.junit {
        to_file(path, "--junit", &pgassay_report::junit(&guarded))?;
    }
    if let Some(path) = &args.markdown {
        to_file(path, "--markdown", &pgassay_report::markdown(&guarded))?;
    }
    show(&guarded, &args.show, terminal)?;
    Ok(exit_of(&guarded))
}

fn exit_of(guarded: &Guarded) -> Exit {
    if guarded.count(Judged::Failed) > 0 {
        Exit::Found
    } else if !guarded.complete {
        Exit::Partial
    } else if guarded.count(Judged::NotComparable) > 0 {
        Exit::NotComparable
    } else if guarded.count(Judged::Unclear) > 0 {
        Exit::Inconclusive
    } else {
        Exit::Done
    }
}

/// Measures one workload.
#[expect(
    clippy::too_many_arguments,
    reason = "what the caller has, and nothing to bundle"
)]
fn one(
    args: &GuardArgs,
    compare: &CompareArgs,
    line: &[String],
    thresholds: &[(MetricId, f64)],
    global: &GlobalArgs,
    guarded: &mut Guarded,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<()> {
    if let Some(threshold) = args.instructions
        && !compare.dials.workload(&compare.workload)?.writes
    {
        let counted = CompareArgs {
            by: By::Instructions,
            clients: None,
            pairs: None,
            scale: compare.scale.or(Some(1)),
            ..compare.clone()
        };
        let counts = counts::count(&counted, terminal, stop)?;
        guarded
            .checks
            .push(guard::check_of_counts(&counts, threshold));
        guarded.warnings.extend(counts.counted.warnings);
    }
    // What is recorded of the comparison is how to make it again.
    let global = GlobalArgs {
        typed: line.to_vec(),
        ..global.clone()
    };
    let measured = measure(compare, &global, terminal, stop);
    let Measured {
        concluded,
        run,
        dir,
        ended,
        finished,
    } = match measured {
        // What other workloads showed is told all the same.
        Err(error) if !guarded.checks.is_empty() => {
            terminal.complain(&format!("{}: {error:#}", compare.workload));
            guarded.complete = false;
            return Ok(());
        }
        measured => measured?,
    };
    let page = page_of_run(&dir, &pgassay_report::html(&concluded))?;
    terminal.announce(&format!("report: {}", page.display()));
    guarded
        .checks
        .extend(guard::checks(&concluded, &run, thresholds));
    for warning in concluded.warnings.iter().map(|w| &w.text) {
        if !guarded.warnings.contains(warning) {
            guarded.warnings.push(warning.clone());
        }
    }
    if let Err(error) = &ended {
        terminal.complain(&format!("{}: {error:#}", compare.workload));
    }
    guarded.complete = matches!(ended, Ok(Ended::Complete));
    finished
}

/// compare's arguments for a workload, parsed by its own definition, and the words.
fn compare_args(
    args: &GuardArgs,
    workload: &str,
    minutes: f64,
    (metric, threshold): (MetricId, f64),
) -> anyhow::Result<(CompareArgs, Vec<String>)> {
    let mut line: Vec<String> = ["pgassay", "compare", &args.base, &args.head]
        .map(str::to_owned)
        .to_vec();
    line.push(format!("--workload={workload}"));
    line.push(format!("--minutes={minutes}"));
    line.push(format!("--metric={metric}"));
    // Pairs enough to show a difference as large as the threshold.
    line.push(format!("--delta={}%", 100.0 * threshold));
    line.extend(args.compare.iter().cloned());
    match cli::parse(line.iter().map(OsString::from)) {
        Ok(Args {
            command: Command::Compare(compare),
            ..
        }) if compare.targets.len() == 2
            && compare.by == By::Time
            && compare.resume.is_none()
            && !compare.recorded
            && !compare.pool =>
        {
            Ok((*compare, line))
        }
        Ok(_) => bail!(Failure::usage(
            "what follows -- are flags of how pgassay compare measures BASE and HEAD by time"
        )),
        Err(error) => {
            let text = error.render().to_string();
            let first = text.trim_start_matches("error: ").lines().next();
            bail!(
                Failure::usage(format!(
                    "as pgassay compare says: {}",
                    first.unwrap_or_default()
                ))
                .with_remedy("pgassay compare --help has the flags that may follow --")
            )
        }
    }
}
