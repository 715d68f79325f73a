//! `pgassay assay` and `pgassay run`: requests to measure.

use anyhow::bail;
use pgassay_analysis::record::RunHeader;

use super::inside;
use super::measure::{Request, measure};
use crate::cli::args::{AssayArgs, GlobalArgs, RunArgs};
use crate::cli::measure::Budget;
use crate::exit::{Exit, Failure};
use crate::stop::Stop;
use crate::store::{self, catalogue};
use crate::terminal::Terminal;
use crate::workload::{self, inserver};

/// Everything about one server.
///
/// # Errors
/// What kept it from being measured.
pub fn assay(
    args: &AssayArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    let mut target = args.target.clone();
    let mut workload = workload::find("select-only")?;
    let resume = match &args.resume {
        None => None,
        Some(name) => {
            let dir = catalogue::find(&store::root(global.runs.as_deref())?, name)?;
            let header = store::read(&dir)?.header;
            if catalogue::describe(&dir)?.trials.0 >= header.plan.schedule().len() {
                bail!(
                    Failure::usage(format!("{} is complete; nothing is left to do", header.id))
                        .with_remedy("pgassay report renders it")
                );
            }
            workload = workload::find(&header.plan.workload.name)?;
            if let Some(typed) = target_of(&header.command_line) {
                target.target = Some(typed);
            }
            if target.settings.is_empty() {
                target.settings = settings_of(&header.command_line);
            }
            target.load |= header.command_line.iter().any(|word| word == "--load");
            Some((dir, header))
        }
    };
    let request = Request {
        command: "assay",
        workload,
        target: &target,
        measure: &args.measure,
        budget: if args.quick {
            Budget::QUICK
        } else {
            Budget::ASSAY
        },
        // A quick assay has no time for them, also when it is gone on with later.
        primitives: !args.quick
            && !resume.as_ref().is_some_and(|(_, header): &(_, RunHeader)| {
                header.command_line.iter().any(|word| word == "--quick")
            }),
        resume,
        may_only_look: true,
        json: args.json,
    };
    measure(&request, global, terminal, stop)
}

/// One workload.
///
/// # Errors
/// What kept it from being measured.
pub fn run(
    args: &RunArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
    stop: &Stop,
) -> anyhow::Result<Exit> {
    if inserver::names().contains(&args.workload.as_str()) {
        return inside::run(args, global, terminal, stop);
    }
    let request = Request {
        command: "run",
        workload: workload::find(&args.workload)?,
        target: &args.target,
        measure: &args.measure,
        budget: Budget::RUN,
        primitives: false,
        resume: None,
        may_only_look: false,
        json: args.json,
    };
    measure(&request, global, terminal, stop)
}

/// The target in a recorded command line: the word after the command that is no flag.
fn target_of(line: &[String]) -> Option<String> {
    let skip = if line.get(1).is_some_and(|word| word == "run") {
        3
    } else {
        2
    };
    line.get(skip)
        .filter(|word| !word.starts_with("--"))
        .cloned()
}

fn settings_of(line: &[String]) -> Vec<String> {
    line.windows(2)
        .filter(|pair| pair[0] == "--set")
        .map(|pair| pair[1].clone())
        .collect()
}
