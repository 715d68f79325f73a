//! How the time of a comparison is spent: launches, the noise floor, pairs.

use anyhow::bail;
use pgassay_analysis::number::counted;
use pgassay_analysis::stats::Rule;
use pgassay_analysis::stats::sequential::Sequential;
use pgassay_model::comparison::{ComparisonPlan, Typed};
use pgassay_model::{Failure, Plan};

use super::load::metric;
use super::places;
use super::{BETWEEN, LOOKS, POWER, about};
use crate::cli::compare::CompareArgs;
use crate::commands::record::shown;

/// Fewer pairs than this are not taken where there is time for more.
pub(super) const FEWEST_PAIRS: u32 = 12;
/// Nor fewer than this in each of several launches.
pub(super) const FEWEST_OF_LAUNCH: u32 = 8;
/// The fewest pairs of one launch that can show anything at 95 %, however short the time is.
pub(super) const LEAST_PAIRS: u32 = 6;
/// The fewest in each of several launches.
pub(super) const LEAST_OF_LAUNCH: u32 = 4;
/// The fewest launches that can show anything at 95 %.
pub(super) const LEAST_LAUNCHES: u32 = 6;
/// Pairs for the noise floor where nobody said how many, and the fewest of them.
const NOISE_PAIRS: (u32, u32) = (20, 6);
/// The part of the time that the noise floor may take.
const NOISE_SHARE: f64 = 0.25;

/// The fewest pairs of a launch.
pub(super) fn least_pairs(launches: u32) -> u32 {
    match launches {
        1 => LEAST_PAIRS,
        _ => LEAST_OF_LAUNCH,
    }
}

/// What a comparison is made of, within its time. `guests` says whether a server was running already.
///
/// # Errors
/// Where `--minutes` was given and the time does not suffice for the least that shows anything, or for
/// what else was asked for.
pub(super) fn comparison_plan(
    args: &CompareArgs,
    (plan, arms): (&Plan, &[(String, Typed)]),
    (typed, places): (&[Typed], u32),
    same: bool,
    guests: bool,
    kept: bool,
) -> anyhow::Result<ComparisonPlan> {
    let seconds = args.minutes() * 60.0;
    let metric = metric(args.metric, plan.workload.replay.as_ref())?;
    let mut comparison = ComparisonPlan {
        metric: metric.to_string(),
        delta: args.delta,
        power: POWER,
        launches: 1,
        noise_rounds: args.paired.noise_pairs.unwrap_or(NOISE_PAIRS.0),
        noise_each_launch: args.paired.noise_pairs.is_some(),
        pairs: args.paired.pairs,
        most_pairs: args.paired.pairs.unwrap_or(0),
        looks: Vec::new(),
        same,
        places,
        typed: typed
            .iter()
            .map(|typed| Typed {
                target: shown(&typed.target),
                ..typed.clone()
            })
            .collect(),
    };
    let needs = Needs {
        starting: starting_seconds(plan, arms),
        round: comparison.round_seconds(plan, BETWEEN),
        noise: comparison.round_seconds(plan, BETWEEN) * 2.0 / f64::from(comparison.compared()),
    };
    if args.paired.noise_pairs.is_none() {
        let rounds = (NOISE_SHARE * seconds / needs.noise) as u32;
        comparison.noise_rounds = rounds.clamp(NOISE_PAIRS.1, NOISE_PAIRS.0);
    }
    comparison.launches = match args.paired.launches {
        Some(launches) => launches,
        None if args.paired.pairs.is_some() || args.sequential || guests => 1,
        None => match launches_for(seconds, needs.starting) {
            launches if needs.seconds(&comparison, launches, LEAST_OF_LAUNCH) <= seconds => {
                launches
            }
            _ => 1,
        },
    };
    let launches = comparison.launches;
    let least = args.paired.pairs.unwrap_or(least_pairs(launches));
    let takes = needs.seconds(&comparison, launches, least);
    // With --pairs alone it takes as long as these do.
    let limited = args.paired.pairs.is_none() || args.minutes.is_some();
    if kept && limited && takes > seconds {
        let what = match launches {
            1 => counted(least, "pair"),
            n => format!("{n} launches of {}", counted(least, "pair")),
        };
        bail!(
            Failure::usage(format!(
                "--minutes {} is too short: {what} after {} for the noise floor take about {} here",
                args.minutes(),
                comparison.noise_rounds,
                about(takes)
            ))
            .with_remedy(format!(
                "--minutes {:.0}, a shorter --slice, or fewer --clients, --pairs or --launches",
                (takes / 60.0).ceil()
            ))
        );
    }
    if args.paired.pairs.is_none() {
        let noise = needs.seconds(&comparison, launches, 0);
        let most = (seconds - noise) / f64::from(launches) / needs.round;
        comparison.most_pairs = (most as u32).clamp(least, 100_000);
    }
    if args.sequential {
        let rule = Rule {
            delta: args.delta,
            direction: metric.better,
        };
        let most = comparison.most_pairs as usize;
        let sequential = Sequential::evenly(rule, most, LOOKS, plan.seed)?;
        comparison.looks = sequential.looks().iter().map(|n| *n as u32).collect();
        comparison.pairs = Some(comparison.most_pairs);
    }
    Ok(comparison)
}

/// What parts of a comparison take, in seconds.
struct Needs {
    /// Making, starting and filling the servers of a launch.
    starting: f64,
    /// A round of pairs.
    round: f64,
    /// A round for the noise floor.
    noise: f64,
}

impl Needs {
    /// The whole, with so many launches of so many pairs.
    fn seconds(&self, comparison: &ComparisonPlan, launches: u32, pairs: u32) -> f64 {
        // The first launch's servers are up already.
        let starts = f64::from(launches.saturating_sub(1)) * self.starting;
        let each = match comparison.noise_each_launch {
            true => launches,
            false => 1,
        };
        let noise = f64::from(each) * f64::from(comparison.noise_rounds) * self.noise;
        starts + noise + f64::from(launches) * f64::from(pairs) * self.round
    }
}

/// What making, starting and filling the servers of a launch takes on an ordinary machine.
fn starting_seconds(plan: &Plan, arms: &[(String, Typed)]) -> f64 {
    let bytes: u64 = places::bytes(plan, arms).iter().sum();
    arms.len() as f64 + bytes as f64 / 157e6
}

/// How often the servers are started where nobody said. Starts of one and the same server
/// differ by more than a minute's pairs do (docs/statistics.md), so there are as many as
/// cost a third of the time, up to 12; six are the fewest that show anything.
fn launches_for(seconds: f64, starting: f64) -> u32 {
    match (seconds / 3.0 / starting) as u32 {
        0..LEAST_LAUNCHES => 1,
        launches => launches.min(12),
    }
}

#[cfg(test)]
mod tests {
    use pgassay_model::point::Point;
    use pgassay_model::workload::WorkloadPlan;

    use super::*;

    fn planned(words: &[&str], slice_ms: u64) -> anyhow::Result<ComparisonPlan> {
        use clap::Parser as _;
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            args: CompareArgs,
        }
        let line = ["compare", "temp", "temp"].iter().chain(words);
        let args = Line::parse_from(line).args;
        let plan = Plan {
            workload: WorkloadPlan {
                scale: 1,
                ..WorkloadPlan::default()
            },
            points: vec![Point {
                clients: 2,
                threads: 1,
                variant: 0,
            }],
            trials: 1,
            warmup_ms: 0,
            window_ms: slice_ms,
            seed: 1,
            disturbed_above: None,
        };
        let typed = Typed {
            target: "temp".into(),
            ..Typed::default()
        };
        let typed = [typed.clone(), typed];
        let arms = [("A", &typed[0]), ("B", &typed[1])];
        let arms = arms.map(|(label, typed)| (label.to_owned(), typed.clone()));
        comparison_plan(&args, (&plan, &arms), (&typed, 1), true, false, true)
    }

    /// Tried: slices of 20 s with --minutes 10 planned 2.4 h, and said nothing of it.
    #[test]
    fn minutes_are_kept_whatever_else_is_given() {
        let long = planned(&["--minutes", "10"], 20_000).unwrap();
        let rounds = long.noise_rounds + long.most_pairs;
        assert!((12..=15).contains(&rounds), "{rounds} of 40 s");
        assert_eq!((long.noise_rounds, long.launches), (6, 1));
        let usual = planned(&[], 200).unwrap();
        assert_eq!((usual.noise_rounds, usual.launches), (20, 12));
        for words in [
            &["--minutes", "3"][..],
            &["--minutes", "10", "--pairs", "20"],
            &["--minutes", "10", "--launches", "6"],
            &["--minutes", "10", "--noise-pairs", "20"],
        ] {
            let error = planned(words, 20_000).unwrap_err().to_string();
            assert!(error.contains("is too short"), "{words:?}: {error}");
        }
        // It takes as long as the pairs that were asked for.
        assert_eq!(planned(&["--pairs", "40"], 20_000).unwrap().pairs, Some(40));
        let looks = planned(&["--minutes", "10", "--sequential"], 2000).unwrap();
        let last = *looks.looks.last().unwrap();
        let seconds = f64::from(last + looks.noise_rounds) * 4.12;
        assert!(seconds <= 600.0, "{last} pairs");
    }
}
