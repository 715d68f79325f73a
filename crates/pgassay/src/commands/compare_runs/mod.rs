//! `pgassay compare-runs`: machines side by side, by what was recorded on each.

mod sides;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;
use pgassay_analysis::hosts::{Given, Price, Recorded, in_rows, side_by_side};
use pgassay_engine::rundir;
use pgassay_model::Failure;

use self::sides::{lab_of, refuse_other_plans, runs_of, runs_of_lab};
use super::recorded_lab::Record;
use super::show::{next, show};
use crate::cli::args::GlobalArgs;
use crate::cli::compare_runs::CompareRunsArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Sides that are held against each other at most.
const MOST_SIDES: usize = 8;

/// Holds recorded runs of several machines next to each other, scenario by scenario.
///
/// # Errors
/// Where a run is not found or can't be read, or a price is not understood.
pub fn compare_runs(
    args: &CompareRunsArgs,
    global: &GlobalArgs,
    terminal: &mut Terminal,
) -> anyhow::Result<Exit> {
    let root = rundir::root(global.runs.as_deref())?;
    if args.table {
        return table(args, &root, terminal);
    }
    match args.sides.len() {
        2..=MOST_SIDES => {}
        1 => bail!(
            Failure::usage("two sides or more are held against each other")
                .with_remedy("name another; or --table, for one table of any number of runs")
        ),
        several => bail!(
            Failure::usage(format!(
                "{several} sides: at most {MOST_SIDES} are held against each other"
            ))
            .with_remedy("name fewer; or --table, for one table of any number of runs")
        ),
    }
    let labs = labs(args, &root)?;
    let prices = [&args.price_a, &args.price_b, &args.price_c, &args.price_d];
    let clocks = [args.ghz_a, args.ghz_b, args.ghz_c, args.ghz_d];
    let mut given = Vec::new();
    for (n, side) in args.sides.iter().enumerate() {
        let price = prices.get(n).and_then(|price| price.as_deref());
        given.push(Given {
            runs: match labs.get(n) {
                Some((dir, lab)) => runs_of_lab(dir, lab, terminal)?,
                None => runs_of(&root, side, terminal)?,
            },
            ghz: clocks.get(n).copied().flatten(),
            price: price.map(priced).transpose()?,
        });
    }
    let units: Vec<&str> = given
        .iter()
        .filter_map(|side| Some(side.price.as_ref()?.unit.as_str()))
        .collect();
    if units.iter().any(|unit| *unit != units[0]) {
        bail!(
            Failure::usage(format!(
                "prices in {} can't be held against each other",
                units.join(" and ")
            ))
            .with_remedy("give all in one unit, such as USD/h")
        );
    }
    let hosts = side_by_side(&given, args.run_spread);
    let Some(hosts) = hosts else {
        bail!(Failure::usage("there is no run on one of the sides"));
    };
    show(&hosts, &args.show, terminal)?;
    next(&args.show, &next_of(args), terminal);
    Ok(Exit::Done)
}

/// The labs that the sides name; none where they are runs.
fn labs(args: &CompareRunsArgs, root: &Path) -> anyhow::Result<Vec<(PathBuf, Record)>> {
    let mut labs = Vec::new();
    let mut runs = Vec::new();
    for side in &args.sides {
        match lab_of(root, side)? {
            Some(lab) => labs.push(lab),
            None => runs.push(side.as_str()),
        }
    }
    if let (Some((_, lab)), Some(run)) = (labs.first(), runs.first()) {
        bail!(
            Failure::usage(format!("{} is a lab and {run} is none", lab.id)).with_remedy(
                "hold labs of one plan against each other, or runs: those of a lab lie below it, by stage"
            )
        );
    }
    refuse_other_plans(&labs)?;
    Ok(labs)
}

/// One table of all that is named, each run once.
fn table(args: &CompareRunsArgs, root: &Path, terminal: &mut Terminal) -> anyhow::Result<Exit> {
    let mut recorded: Vec<Recorded> = Vec::new();
    let mut known = BTreeSet::new();
    for side in &args.sides {
        let found = match lab_of(root, side)? {
            Some((dir, lab)) => runs_of_lab(&dir, &lab, terminal)?,
            None => runs_of(root, side, terminal)?,
        };
        for run in found {
            let place = fs::canonicalize(run.dir()).unwrap_or_else(|_| run.dir().into());
            if known.insert(place) {
                recorded.push(run);
            }
        }
    }
    let machines = in_rows(&recorded, &args.scenario).map_err(|why| {
        Failure::usage(format!("--scenario: {why}")).with_remedy("name one of them")
    })?;
    show(&machines, &args.show, terminal)?;
    let sides = pgassay_text::shell(&args.sides);
    let again = format!("pgassay compare-runs --table {sides}");
    let mut steps = Vec::new();
    if args.show.html.is_none() {
        steps.push(format!("{again} --html machines.html"));
    }
    if let (true, Some(other)) = (args.scenario.is_empty(), machines.further.first()) {
        steps.push(format!(
            "{again} --scenario {}",
            pgassay_text::shell_word(other)
        ));
    }
    next(&args.show, &steps, terminal);
    Ok(Exit::Done)
}

/// The same with what was not given: a page, prices.
fn next_of(args: &CompareRunsArgs) -> Vec<String> {
    let again = format!("pgassay compare-runs {}", pgassay_text::shell(&args.sides));
    let mut steps = Vec::new();
    if args.show.html.is_none() {
        steps.push(format!("{again} --html machines.html"));
    }
    if args.price_a.is_none() && args.price_b.is_none() {
        steps.push(format!(
            "{again} --price-a '0.154 USD/h' --price-b '0.192 USD/h'"
        ));
    }
    steps
}

/// `0.154 USD/h`.
fn priced(text: &str) -> anyhow::Result<Price> {
    let (amount, unit) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    match amount.parse::<f64>() {
        Ok(amount) if amount.is_finite() && amount > 0.0 => Ok(Price {
            amount,
            unit: unit.trim().to_owned(),
        }),
        _ => bail!(
            Failure::usage(format!("{text:?} is no price"))
                .with_remedy("an amount above 0 and its unit, such as '0.154 USD/h'")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_an_amount_and_a_unit() {
        let price = priced(" 0.154  USD/h ").unwrap();
        assert_eq!((price.amount, price.unit.as_str()), (0.154, "USD/h"));
        assert_eq!(priced("3").unwrap().unit, "");
        for wrong in ["", "free", "-1 USD/h", "0", "nan EUR", "inf"] {
            assert!(priced(wrong).is_err(), "{wrong}");
        }
    }
}
