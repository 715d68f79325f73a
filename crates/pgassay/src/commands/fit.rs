//! `pgassay fit`: the scaling law over a recorded sweep.

use std::fmt::Write as _;

use anyhow::Context;
use pgassay_analysis::fit::{ArmFit, Fit};
use pgassay_analysis::{analyse, fit};

use crate::cli::args::{FitArgs, GlobalArgs};
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_engine::rundir::{self, catalogue};
use pgassay_report::number;

/// Fits the arms of a run, or says why they can't be fitted.
///
/// # Errors
/// Where the run is not found or can't be read.
pub fn fit(args: &FitArgs, global: &GlobalArgs, terminal: &mut Terminal) -> anyhow::Result<Exit> {
    let root = rundir::root(global.runs.as_deref())?;
    let run = rundir::read(&catalogue::find(&root, &args.run)?)?;
    let fit = fit::fit(&analyse(&run));
    let text = if args.json {
        serde_json::to_string_pretty(&fit).context("cannot serialize")? + "\n"
    } else {
        text(&fit)
    };
    terminal.show(&text)?;
    Ok(Exit::Done)
}

fn text(fit: &Fit) -> String {
    let mut text = format!("{}: {} over clients\n", fit.run, fit.workload);
    for arm in &fit.arms {
        let _ = writeln!(text, "\n{}", arm.label);
        if let Some(why) = &arm.refused {
            let _ = writeln!(text, "  no fit: {why}");
            continue;
        }
        for sentence in &arm.words {
            let _ = writeln!(text, "  {sentence}");
        }
        points(arm, &mut text);
        for warning in arm.scaling.iter().flat_map(|s| &s.warnings) {
            let _ = writeln!(text, "  warning: {}", warning.text);
        }
    }
    text
}

fn points(arm: &ArmFit, text: &mut String) {
    let (measured, fitted) = ("measured, tps", "by the law, tps");
    let _ = writeln!(
        text,
        "\n  {:>8} {measured:>16} {fitted:>16}  interval",
        "clients"
    );
    for point in &arm.points {
        let measured = point.measured_tps.as_ref().map(number::shown);
        let by_law = point.fitted_tps.as_ref().map(number::shown);
        let ends = by_law
            .as_ref()
            .and_then(|f| f.interval.as_ref())
            .map(|i| i.ends.as_str());
        let value = |s: Option<&number::Shown>| {
            s.map_or_else(|| number::NONE.to_owned(), |s| s.value.clone())
        };
        let beyond = if point.measured_tps.is_none() {
            "  extrapolated"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "  {:>8} {:>16} {:>16}  {}{beyond}",
            point.clients,
            value(measured.as_ref()),
            value(by_law.as_ref()),
            ends.unwrap_or(number::NONE),
        );
    }
}
