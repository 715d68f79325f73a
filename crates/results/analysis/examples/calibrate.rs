//! How often do the rules err? Simulated, not argued: `make calibrate`.
//!
//! For each kind of noise, thousands of comparisons of arms that are equal, and
//! of arms that differ by a known effect. "Different" may be said of equal arms in
//! at most 5 %, and intervals must cover the truth in at least 93 %. Beside it the
//! sequential rule, launches as the unit, families, recorded runs, the scaling
//! law and histories. The seeds are fixed, so the table is the same everywhere;
//! the exit status is 1 where a bound is broken.
//!
//! An exact test at 5 % errs in just under 5 %, and a simulated share of it lies
//! above 5 % in some rows. So a row breaks the bound where it lies above by more
//! than chance explains (2.6 standard errors of the simulated share, 1 row in 200
//! if the true rate were 5 %), and all rows together are held to 5 % itself.

use pgassay_analysis::stats::history::{ChangeRule, change_points};
use pgassay_analysis::stats::scaling::{self, ScalingPoint};
use pgassay_analysis::stats::sequential::{Decision, Sequential};
use pgassay_analysis::stats::simulate::{Noise, Rng, launches, normal, rng, wandering_servers};
use pgassay_analysis::stats::{
    Comparison, Direction, Rule, StatsError, Verdict, compare, compare_in_order, compare_launches,
    compare_runs, family::judge_family, forecast, levels::levels, noise_floor::NoiseFloor,
    summarize_positive,
};
use std::io::{self, Write};
use std::process::ExitCode;

/// Equal arms called different: the most that is allowed.
const MOST_ALARMS: f64 = 0.05;
/// Intervals that hold the truth: the least that is allowed.
const LEAST_COVERAGE: f64 = 0.93;
/// Comparisons for each row.
const COMPARISONS: u32 = 20_000;
/// The same where each costs much.
const FEWER: u32 = 5_000;
/// Comparisons of arms that differ.
const EFFECTS: u32 = 2_000;
/// Sign-flip draws of the sequential rule: fewer than it takes by default.
const DRAWS: usize = 2_048;
/// Spread of a slice: pairs differ by 1.4 times it.
const SPREAD: f64 = 0.03;
/// The effect in the rows that have one.
const EFFECT: f64 = -0.03;

fn different(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Faster | Verdict::Slower)
}

/// The table as it grows, and whether a bound was broken.
struct Table<W> {
    out: W,
    broken: bool,
    /// Comparisons of equal arms so far, and how many were called different.
    equal: (f64, f64),
}

impl<W: Write> Table<W> {
    fn heading(&mut self, title: &str, columns: &str) -> io::Result<()> {
        writeln!(self.out, "\n{title}\n\n  {columns}")
    }

    /// Whether a share of false alarms keeps the bound; counted for all rows.
    fn alarms(&mut self, share: f64, runs: f64) -> bool {
        self.equal.0 += runs;
        self.equal.1 += share * runs;
        share <= MOST_ALARMS + 2.6 * (MOST_ALARMS * (1.0 - MOST_ALARMS) / runs).sqrt()
    }

    fn row(&mut self, cells: &[String], holds: bool) -> io::Result<()> {
        self.broken |= !holds;
        let cells: String = cells.iter().map(|c| format!("{c:>17}")).collect();
        writeln!(
            self.out,
            "  {cells}   {}",
            if holds { "ok" } else { "BROKEN" }
        )
    }
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// Simulates comparisons and counts verdicts.
#[derive(Default)]
struct Count {
    runs: f64,
    different: f64,
    slower: f64,
    equivalent: f64,
    held: f64,
    pairs: f64,
}

impl Count {
    fn of(
        runs: u32,
        truth: f64,
        mut one: impl FnMut() -> Result<Comparison, StatsError>,
    ) -> Result<Self, StatsError> {
        let mut count = Self::default();
        for _ in 0..runs {
            let got = one()?;
            let unit = |b: bool| f64::from(u8::from(b));
            count.runs += 1.0;
            count.different += unit(different(got.verdict));
            count.slower += unit(got.verdict == Verdict::Slower);
            count.equivalent += unit(got.verdict == Verdict::Equivalent);
            count.held += unit(got.ratio.holds(truth));
            count.pairs += got.pairs as f64;
        }
        Ok(count)
    }

    fn share(&self, part: f64) -> f64 {
        part / self.runs
    }
}

fn fixed<W: Write>(table: &mut Table<W>, rule: Rule) -> Result<(), Box<dyn std::error::Error>> {
    table.heading(
        "A fixed number of pairs (the default), 20,000 comparisons per row (150 pairs: 5,000)",
        "            noise            pairs    equal: alarms  equal: coverage 3 % less: slower   less: coverage",
    )?;
    for noise in Noise::ALL {
        for pairs in [6, 12, 40, 150] {
            let runs = if pairs > 40 { FEWER } else { COMPARISONS };
            let mut rng = rng(1000 * noise as u64 + pairs as u64);
            let equal = Count::of(runs, 1.0, || {
                compare_in_order(&noise.pairs(pairs, SPREAD, 0.0, &mut rng), rule)
            })?;
            let less = Count::of(EFFECTS, 1.0 + EFFECT, || {
                compare_in_order(&noise.pairs(pairs, SPREAD, EFFECT, &mut rng), rule)
            })?;
            let (alarms, covers) = (equal.share(equal.different), equal.share(equal.held));
            let covers_less = less.share(less.held);
            let kept = table.alarms(alarms, equal.runs);
            table.row(
                &[
                    noise.name().to_owned(),
                    pairs.to_string(),
                    percent(alarms),
                    percent(covers),
                    percent(less.share(less.slower)),
                    percent(covers_less),
                ],
                kept && covers.min(covers_less) >= LEAST_COVERAGE,
            )?;
        }
    }
    Ok(())
}

fn stopping<W: Write>(table: &mut Table<W>, rule: Rule) -> Result<(), Box<dyn std::error::Error>> {
    table.heading(
        "Stopping early: looks after 12, 24, 36 and 48 pairs, 5,000 comparisons per row",
        "            noise    equal: alarms  equal: coverage 3 % less: slower       mean pairs",
    )?;
    for noise in Noise::ALL {
        let mut rng = rng(77 + noise as u64);
        let mut seed = 1_000_000 * noise as u64;
        let mut one = |effect: f64, rng: &mut Rng| {
            seed += 1;
            let plan = Sequential::evenly(rule, 48, 4, seed)?.with_draws(DRAWS);
            let pairs = noise.pairs(48, SPREAD, effect, rng);
            for look in plan.looks() {
                if let Decision::Stop { comparison, .. } = plan.decide(&pairs[..*look])? {
                    return Ok(*comparison);
                }
            }
            Err(StatsError::NoPairs)
        };
        let equal = Count::of(FEWER, 1.0, || one(0.0, &mut rng))?;
        let less = Count::of(EFFECTS, 1.0 + EFFECT, || one(EFFECT, &mut rng))?;
        let (alarms, covers) = (equal.share(equal.different), equal.share(equal.held));
        let kept = table.alarms(alarms, equal.runs);
        table.row(
            &[
                noise.name().to_owned(),
                percent(alarms),
                percent(covers),
                percent(less.share(less.slower)),
                format!("{:.1}", less.share(less.pairs)),
            ],
            kept && covers >= LEAST_COVERAGE,
        )?;
    }
    Ok(())
}

fn units<W: Write>(table: &mut Table<W>, rule: Rule) -> Result<(), Box<dyn std::error::Error>> {
    table.heading(
        "Launches with an effect of their own (2 %), 10 pairs each, 5,000 comparisons per row",
        "            noise         launches    equal: alarms  equal: coverage 5 % less: slower    alarms with pairs as unit (for contrast)",
    )?;
    for noise in Noise::ALL {
        for count in [6, 8, 12] {
            let mut rng = rng(88 + 100 * count as u64 + noise as u64);
            let mut wrong = 0.0;
            let equal = Count::of(FEWER, 1.0, || {
                let measured = launches(noise, (count, 10), (SPREAD, 0.02), 0.0, &mut rng);
                wrong += f64::from(u8::from(different(
                    compare(&measured.concat(), rule)?.verdict,
                )));
                compare_launches(&measured, rule)
            })?;
            let less = Count::of(EFFECTS, 0.95, || {
                compare_launches(
                    &launches(noise, (count, 10), (SPREAD, 0.02), -0.05, &mut rng),
                    rule,
                )
            })?;
            let (alarms, covers) = (equal.share(equal.different), equal.share(equal.held));
            let kept = table.alarms(alarms, equal.runs);
            table.row(
                &[
                    noise.name().to_owned(),
                    count.to_string(),
                    percent(alarms),
                    percent(covers),
                    percent(less.share(less.slower)),
                    percent(equal.share(wrong)),
                ],
                kept && covers >= LEAST_COVERAGE,
            )?;
        }
    }

    table.heading(
        "Servers that wander independently (AR(1), 0.9 from pair to pair), one launch, 5,000 comparisons per row",
        "           wander            pairs    equal: alarms  equal: coverage 5 % less: slower    alarms without blocks (for contrast)",
    )?;
    for (wander, pairs) in [(0.01, 60), (0.01, 240), (0.03, 60), (0.03, 240)] {
        let mut rng = rng(95 + pairs as u64 + (1000.0 * wander) as u64);
        let mut wrong = 0.0;
        let equal = Count::of(FEWER, 1.0, || {
            let measured = wandering_servers(pairs, (SPREAD, wander), 0.0, &mut rng);
            wrong += f64::from(u8::from(different(compare(&measured, rule)?.verdict)));
            compare_in_order(&measured, rule)
        })?;
        let less = Count::of(EFFECTS, 0.95, || {
            compare_in_order(
                &wandering_servers(pairs, (SPREAD, wander), -0.05, &mut rng),
                rule,
            )
        })?;
        let (alarms, covers) = (equal.share(equal.different), equal.share(equal.held));
        // Blocks cannot help against what lasts as long as the comparison itself: it looks like a
        // difference, and only further launches tell them apart.
        table.row(
            &[
                percent(wander),
                pairs.to_string(),
                percent(alarms),
                percent(covers),
                percent(less.share(less.slower)),
                percent(equal.share(wrong)),
            ],
            alarms <= 0.6 * equal.share(wrong),
        )?;
    }

    table.heading(
        "Six client counts as one family (Holm), 20 pairs each, 5,000 families per row",
        "            noise        any alarm   uncorrected (for contrast)",
    )?;
    for noise in Noise::ALL {
        let mut rng = rng(99 + noise as u64);
        let (mut any, mut each) = (0.0, 0.0);
        for _ in 0..FEWER {
            let mut family = (0..6)
                .map(|_| compare(&noise.pairs(20, SPREAD, 0.0, &mut rng), rule))
                .collect::<Result<Vec<_>, _>>()?;
            let alarm = |family: &[Comparison]| {
                f64::from(u8::from(family.iter().any(|c| different(c.verdict))))
            };
            each += alarm(&family);
            judge_family(&mut family);
            any += alarm(&family);
        }
        let runs = f64::from(FEWER);
        let kept = table.alarms(any / runs, runs);
        let shares = [any, each].map(|n| percent(n / runs));
        table.row(&[&[noise.name().to_owned()], &shares[..]].concat(), kept)?;
    }

    table.heading(
        "Recorded runs, not interleaved, equal runs 3 % apart, 5,000 comparisons per row",
        "             unit    equal: alarms  equal: coverage",
    )?;
    let mut rng = rng(111);
    let mut runs = |count: usize| -> Vec<Vec<f64>> {
        (0..count)
            .map(|_| {
                let luck = 0.03 * normal(&mut rng);
                (0..10)
                    .map(|_| (luck + 0.01 * normal(&mut rng)).exp())
                    .collect()
            })
            .collect()
    };
    for (name, count, known) in [("5 runs a side", 5, None), ("1, known", 1, Some(0.03))] {
        let equal = Count::of(COMPARISONS, 1.0, || {
            compare_runs(&runs(count), &runs(count), known, rule)
        })?;
        let (alarms, covers) = (equal.share(equal.different), equal.share(equal.held));
        let kept = table.alarms(alarms, equal.runs);
        table.row(
            &[name.to_owned(), percent(alarms), percent(covers)],
            kept && covers >= LEAST_COVERAGE,
        )?;
    }
    Ok(())
}

fn promises<W: Write>(table: &mut Table<W>, rule: Rule) -> Result<(), Box<dyn std::error::Error>> {
    table.heading(
        "Forecasts from 20 A/A pairs, for 3 % with 90 % power, 1,000 per row",
        "            noise   pairs forecast   detected by then",
    )?;
    for noise in Noise::ALL {
        let mut rng = rng(122 + noise as u64);
        let (mut pairs, mut found) = (0.0, 0.0);
        for _ in 0..1000 {
            let floor = NoiseFloor::from_pairs(&noise.pairs(20, SPREAD, 0.0, &mut rng))?;
            let n = forecast(&floor, EFFECT.abs(), 0.9).map_or(6, |f| f.pairs_promised.min(2000));
            pairs += n as f64;
            let got = compare_in_order(&noise.pairs(n as usize, SPREAD, EFFECT, &mut rng), rule)?;
            found += f64::from(u8::from(got.verdict == Verdict::Slower));
        }
        let found = found / 1000.0;
        table.row(
            &[
                noise.name().to_owned(),
                format!("{:.0}", pairs / 1000.0),
                percent(found),
            ],
            found >= 0.88,
        )?;
    }
    Ok(())
}

fn single<W: Write>(table: &mut Table<W>) -> Result<(), Box<dyn std::error::Error>> {
    table.heading(
        "One arm alone, 12 trials, 20,000 per row: coverage of the interval, share with a warning",
        "            noise         coverage           warned   (at least 93 % required if trials are independent)",
    )?;
    for noise in Noise::ALL {
        let mut rng = rng(133 + noise as u64);
        let (mut held, mut warned) = (0.0, 0.0);
        for _ in 0..COMPARISONS {
            let trials: Vec<f64> = noise
                .slices(12, SPREAD, &mut rng)
                .into_iter()
                .map(f64::exp)
                .collect();
            if let Some(summary) = summarize_positive(&trials) {
                let level = if noise == Noise::Bimodal {
                    (2.0 * SPREAD).exp()
                } else {
                    1.0
                };
                held += f64::from(u8::from(summary.holds(level)));
                warned += f64::from(u8::from(!summary.warnings.is_empty()));
            }
        }
        let runs = f64::from(COMPARISONS);
        let serial = !matches!(noise, Noise::Independent | Noise::HeavyTailed);
        // a drift has no level that could be covered
        let covers = if noise == Noise::Drifting {
            "-".into()
        } else {
            percent(held / runs)
        };
        table.row(
            &[noise.name().to_owned(), covers, percent(warned / runs)],
            serial || held / runs >= LEAST_COVERAGE,
        )?;
    }
    Ok(())
}

fn scaling_law<W: Write>(table: &mut Table<W>) -> Result<(), Box<dyn std::error::Error>> {
    table.heading(
        "Scaling law, counts 1 to 64, 6 trials each, 3 % noise, 400 sweeps: coverage of the intervals",
        "           lambda            sigma            kappa             peak           X(128)",
    )?;
    let (lambda, sigma, kappa): (f64, f64, f64) = (1000.0, 0.05, 1e-3);
    let law = |n: f64| lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
    let mut rng = rng(144);
    let mut held = [0.0; 5];
    let runs = 400;
    for seed in 0..runs {
        let points: Vec<ScalingPoint> = [1, 2, 4, 8, 16, 32, 64]
            .into_iter()
            .map(|n| ScalingPoint {
                n,
                throughput: (0..6)
                    .map(|_| law(f64::from(n)) * (0.03 * normal(&mut rng)).exp())
                    .collect(),
                client_bound: false,
            })
            .collect();
        let fit = scaling::fit(&points, None, seed)?;
        let peak = fit.peak.clone();
        for (held, holds) in held.iter_mut().zip([
            fit.lambda.value.holds(lambda),
            fit.sigma.value.holds(sigma),
            fit.kappa.value.holds(kappa),
            peak.is_some_and(|p| p.holds(((1.0 - sigma) / kappa).sqrt())),
            fit.predict(128.0)?.holds(law(128.0)),
        ]) {
            *held += f64::from(u8::from(holds)) / runs as f64;
        }
    }
    let least = held.iter().copied().fold(1.0, f64::min);
    table.row(&held.map(percent), least >= LEAST_COVERAGE)?;
    Ok(())
}

/// Trials of one level taken for several: the most that is allowed; the test errs in 1 of 100.
const MOST_LEVELS: f64 = 0.015;

fn several_levels<W: Write>(table: &mut Table<W>) -> Result<(), Box<dyn std::error::Error>> {
    table.heading(
        "Throughput of 20 trials, 10 % noise, 5000 points: taken for several levels; and of 8 trials at another level",
        "            noise      8 of one    20 of one     8: 1.5 times    20: 1.5 times     20: 3 times",
    )?;
    let mut rng = rng(166);
    for noise in [
        Noise::Independent,
        Noise::HeavyTailed,
        Noise::Drifting,
        Noise::Autocorrelated,
    ] {
        let mut share = |trials: usize, higher: f64| {
            let found = (0..FEWER).filter(|_| {
                let mut values = noise.slices(trials, 0.1, &mut rng);
                values.iter_mut().for_each(|v| *v = v.exp());
                values[..trials * 2 / 5]
                    .iter_mut()
                    .for_each(|v| *v *= higher);
                levels(&values).is_some()
            });
            found.count() as f64 / f64::from(FEWER)
        };
        let shares = [(8, 1.0), (20, 1.0), (8, 1.5), (20, 1.5), (20, 3.0)]
            .map(|(n, higher)| share(n, higher));
        // Trials that depend on their order gather by themselves.
        let holds =
            noise == Noise::Autocorrelated || shares[..2].iter().all(|share| *share <= MOST_LEVELS);
        let mut cells = vec![noise.name().to_owned()];
        cells.extend(shares.map(percent));
        table.row(&cells, holds)?;
    }
    Ok(())
}

fn histories<W: Write>(table: &mut Table<W>) -> Result<(), Box<dyn std::error::Error>> {
    table.heading(
        "Histories of 40 runs, 3 % noise, 500 each: change points",
        "   steady: alarms 5 % less: found (at run 25, within 2 runs)",
    )?;
    let mut rng = rng(155);
    let (mut alarms, mut found) = (0.0, 0.0);
    let runs = 500;
    for seed in 0..runs {
        let rule = ChangeRule {
            seed,
            permutations: 499,
            ..ChangeRule::default()
        };
        let mut series: Vec<f64> = (0..40).map(|_| (0.03 * normal(&mut rng)).exp()).collect();
        alarms += f64::from(u8::from(!change_points(&series, rule).changes.is_empty()));
        series[25..].iter_mut().for_each(|v| *v *= 0.95);
        let got = change_points(&series, rule).changes;
        found += f64::from(u8::from(got.iter().any(|c| c.index.abs_diff(25) <= 2)));
    }
    let (alarms, found) = (alarms / runs as f64, found / runs as f64);
    table.row(&[percent(alarms), percent(found)], alarms <= 0.02)?;
    Ok(())
}

fn all<W: Write>(out: W) -> Result<bool, Box<dyn std::error::Error>> {
    // with δ of 0 nothing is equivalent, so that every false alarm is counted
    let rule = Rule::new(0.0, Direction::HigherIsBetter)?;
    let mut table = Table {
        out,
        broken: false,
        equal: (0.0, 0.0),
    };
    fixed(&mut table, rule)?;
    stopping(&mut table, rule)?;
    units(&mut table, rule)?;
    promises(&mut table, rule)?;
    single(&mut table)?;
    scaling_law(&mut table)?;
    several_levels(&mut table)?;
    histories(&mut table)?;
    let (runs, alarms) = table.equal;
    table.heading(
        "All rows of equal arms together",
        "      comparisons           alarms",
    )?;
    table.row(
        &[format!("{runs}"), percent(alarms / runs)],
        alarms / runs <= MOST_ALARMS,
    )?;
    Ok(table.broken)
}

fn main() -> ExitCode {
    match all(io::stdout().lock()) {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "calibrate: {error}");
            ExitCode::FAILURE
        }
    }
}
