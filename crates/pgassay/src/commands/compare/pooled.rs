//! `pgassay compare --pool`: the same comparison from several runs, taken together.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use pgassay_analysis::compare::pooled::{PooledCompare, PooledPoint, Refusal, pool_runs};
use pgassay_analysis::compare::{self, Compare, signed};
use pgassay_analysis::stats::{Comparison, Verdict};

use super::exit_of;
use crate::cli::args::GlobalArgs;
use crate::cli::compare::CompareArgs;
use crate::commands::patch;
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_engine::rundir::{self, catalogue};
use pgassay_model::Failure;

/// Pools the runs named.
///
/// # Errors
/// Where one is not found, or they are not of one plan.
pub fn pool(
    args: &CompareArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
) -> anyhow::Result<Exit> {
    let root = rundir::root(global.runs.as_deref())?;
    let mut runs = Vec::new();
    let mut plans: Vec<(&String, patch::PatchPlan)> = Vec::new();
    for name in &args.targets {
        let (run, plan) = read(&root, name)?;
        runs.push(run);
        if let Some(plan) = plan {
            if let Some((other, first)) = plans.first()
                && !first.same_code(&plan)
            {
                bail!(Failure::usage(format!(
                    "{name} and {other} can't be pooled: their patch plans differ in the base, the \
                     patches or the variant"
                )));
            }
            plans.push((name, plan));
        }
    }
    let pooled = pool_runs(&runs).map_err(|refusal| {
        let failure = Failure::usage(refusal.to_string());
        match refusal {
            Refusal::OtherPlan {
                what: "the scale", ..
            } => failure
                .with_remedy("give --scale where it is measured: by default it goes by memory"),
            Refusal::OtherPlan { .. } | Refusal::NoCommonPoint => {
                failure.with_remedy("only runs of one plan can be pooled")
            }
            Refusal::NotComparable { .. } | Refusal::Sequential(_) => {
                failure.with_remedy("leave that run out")
            }
            Refusal::TooFew | Refusal::Twice(_) | Refusal::NoPairs(_) => failure.with_remedy(
                "pgassay compare --pool RUN RUN…, each recorded by pgassay compare or patch",
            ),
        }
    })?;
    let printed = match args.json {
        true => serde_json::to_string_pretty(&pooled).context("cannot serialize")? + "\n",
        false => text(&pooled),
    };
    terminal.print(&printed)?;
    Ok(exit_of(pooled.verdict))
}

/// A run by its name or directory, or the document that `compare --json` printed elsewhere; with the
/// plan of `pgassay patch`, where it has one.
fn read(root: &Path, name: &str) -> anyhow::Result<(Compare, Option<patch::PatchPlan>)> {
    let path = Path::new(name);
    if path.is_file() {
        let text =
            fs::read_to_string(path).map_err(|error| Failure::usage(format!("{name}: {error}")))?;
        let run = serde_json::from_str(&text).map_err(|error| {
            Failure::usage(format!(
                "{name} is no document of pgassay compare --json: {error}"
            ))
        })?;
        return Ok((run, None));
    }
    let dir = catalogue::find(root, name)?;
    let Some(run) = compare::conclude(&rundir::read(&dir)?) else {
        bail!(
            Failure::usage(format!("{name} is no comparison, or no pair was measured"))
                .with_remedy("pgassay runs lists them")
        );
    };
    let plan = dir.join("patch-plan.json");
    let plan = plan
        .is_file()
        .then(|| patch::read_plan(&plan))
        .transpose()?;
    Ok((run, plan))
}

fn text(pooled: &PooledCompare) -> String {
    let mut text = String::new();
    for sentence in &pooled.headline {
        let _ = writeln!(text, "{sentence}");
    }
    let _ = writeln!(text, "\n{}", pooled.workload);
    for (label, typed) in super::LABELS.iter().zip(&pooled.targets) {
        let _ = writeln!(
            text,
            "{label}  {} {}",
            typed.target,
            typed.settings.join(" ")
        );
    }
    for point in &pooled.points {
        table(&mut text, pooled, point);
    }
    text.push('\n');
    for run in &pooled.runs {
        let _ = writeln!(text, "{}  {}, {}", run.id, run.started, run.machine);
    }
    for warning in &pooled.warnings {
        let _ = writeln!(text, "Note: {}", warning.text);
    }
    text
}

fn table(text: &mut String, pooled: &PooledCompare, point: &PooledPoint) {
    let _ = writeln!(
        text,
        "\n{} at {} clients\n{:<34} {:>8} {:>20} {:>6} {:>8}  verdict",
        point.label, point.clients, "run", "change", "95 % interval", "pairs", "CPU"
    );
    let cpu = |of: Option<&Comparison>| of.map_or("".to_owned(), |c| signed(c.ratio.estimate));
    let mut row = |name: &str, c: &Comparison, cpu: String| {
        let ends = format!("{} .. {}", signed(c.ratio.low), signed(c.ratio.high));
        let _ = writeln!(
            text,
            "{name:<34} {:>8} {ends:>20} {:>6} {cpu:>8}  {}",
            signed(c.ratio.estimate),
            c.pairs,
            word(c.verdict)
        );
    };
    for (n, (run, by_itself)) in pooled.runs.iter().zip(&point.throughput.runs).enumerate() {
        let cpu = cpu(point
            .server_cpu
            .as_ref()
            .and_then(|pooled| pooled.runs.get(n)));
        row(&run.id, by_itself, cpu);
    }
    let cpu = cpu(point.server_cpu.as_ref().map(|pooled| &pooled.together));
    row("together", &point.throughput.together, cpu);
    for warning in &point.throughput.together.ratio.warnings {
        let _ = writeln!(text, "Note: {}", warning.text);
    }
    if let Some(agreement) = &point.throughput.agreement {
        let _ = writeln!(
            text,
            "Agreement: Q = {:.2} with {} degrees of freedom, p = {:.3}; {:.0} % of what lies between \
             the runs is not noise.",
            agreement.q,
            agreement.degrees,
            agreement.p,
            100.0 * agreement.between_share
        );
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Equivalent => "equivalent",
        Verdict::Inconclusive => "inconclusive",
        Verdict::NotComparable => "not comparable",
    }
}
