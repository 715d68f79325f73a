//! `pgassay compare-runs`: machines side by side, by what was recorded on each.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::bail;
use pgassay_analysis::axes::has_several_servers;
use pgassay_analysis::history::Past;
use pgassay_analysis::hosts::{Given, Price, side_by_side};
use pgassay_analysis::{Analysis, analyse};
use pgassay_engine::rundir::{self, catalogue};
use pgassay_model::Failure;

use super::show::{next, show};
use crate::cli::args::GlobalArgs;
use crate::cli::compare_runs::CompareRunsArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;

/// Runs of a directory that are taken at most: the newest.
const MOST: usize = 64;
/// Hosts of a directory that are taken at most.
const MOST_HOSTS: usize = 256;

/// Why a run over axes is not held against other machines.
const VARIED: &str =
    "its servers differ by what was varied, so that no one of them can stand for the machine";

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
    let prices = [&args.price_a, &args.price_b, &args.price_c, &args.price_d];
    let clocks = [args.ghz_a, args.ghz_b, args.ghz_c, args.ghz_d];
    let mut given = Vec::new();
    for (n, side) in args.sides.iter().enumerate() {
        let price = prices.get(n).and_then(|price| price.as_deref());
        given.push(Given {
            runs: runs_of(&root, side, terminal)?,
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

/// The runs that a side names.
fn runs_of(root: &Path, side: &str, terminal: &mut Terminal) -> anyhow::Result<Vec<Analysis>> {
    let dir = Path::new(side);
    if dir.is_dir() && !dir.join("run.json").is_file() {
        let found = match hosts_of(dir) {
            hosts if hosts.is_empty() => of_directory(dir, terminal)?,
            hosts => of_hosts(dir, &hosts, terminal)?,
        };
        if found.is_empty() {
            bail!(
                Failure::usage(format!("{side} holds no run"))
                    .with_remedy("name a directory that was given with --runs, or a run")
            );
        }
        return Ok(found);
    }
    let mut found = Vec::new();
    for name in side.split(',').filter(|name| !name.is_empty()) {
        let run = analyse(&rundir::read(&catalogue::find(root, name)?)?);
        if has_several_servers(&run.arms) {
            bail!(
                Failure::usage(format!("{}: {VARIED}", run.run.id))
                    .with_remedy("name runs that vary clients alone")
            );
        }
        found.push(run);
    }
    if found.is_empty() {
        bail!(Failure::usage(format!("{side:?} names no run")));
    }
    Ok(found)
}

/// A run of a directory; one that can't be read, is measured now, or has no one server is said and left out.
fn read(run: &Path, terminal: &mut Terminal) -> Option<Analysis> {
    let name = run.file_name().unwrap_or_default().display();
    match rundir::read(run) {
        Ok(recorded) => match analyse(&recorded) {
            varied if has_several_servers(&varied.arms) => {
                terminal.warn(&format!("{name} is left out: {VARIED}"));
                None
            }
            one => Some(one),
        },
        Err(error) => {
            terminal.warn(&format!("{name} is left out: {error:#}"));
            None
        }
    }
}

/// The newest runs of a directory.
fn of_directory(dir: &Path, terminal: &mut Terminal) -> anyhow::Result<Vec<Analysis>> {
    let listed = catalogue::list(dir)?;
    let newest = listed.iter().rev().take(MOST);
    let found = newest.filter_map(|run| read(&dir.join(&run.id), terminal));
    let found = found.collect();
    if listed.len() > MOST {
        terminal.warn(&format!(
            "{} holds {} runs: the newest {MOST} are taken",
            dir.display(),
            listed.len()
        ));
    }
    Ok(found)
}

/// The directories of hosts in one, each with runs of its own in `runs`, by name. No link is followed.
fn hosts_of(dir: &Path) -> Vec<PathBuf> {
    let is_directory = |path: &Path| fs::symlink_metadata(path).is_ok_and(|of| of.is_dir());
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let runs = entries
        .map(|entry| entry.path())
        .filter(|host| is_directory(host));
    let runs = runs
        .map(|host| host.join("runs"))
        .filter(|runs| is_directory(runs));
    let mut runs: Vec<PathBuf> = runs.collect();
    runs.sort();
    runs
}

/// Of each host the newest run of every work, so that none weighs more than another.
fn of_hosts(
    dir: &Path,
    hosts: &[PathBuf],
    terminal: &mut Terminal,
) -> anyhow::Result<Vec<Analysis>> {
    let mut found = Vec::new();
    for runs in hosts.iter().take(MOST_HOSTS) {
        let mut works = BTreeSet::new();
        for run in catalogue::list(runs)?.iter().rev().take(MOST) {
            let Some(run) = read(&runs.join(&run.id), terminal) else {
                continue;
            };
            if works.insert((run.run.command.clone(), Past::of(&run).work)) {
                found.push(run);
            }
        }
    }
    if hosts.len() > MOST_HOSTS {
        terminal.warn(&format!(
            "{} holds {} hosts: the first {MOST_HOSTS} are taken",
            dir.display(),
            hosts.len()
        ));
    }
    Ok(found)
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
