//! What comparisons on this machine are worth, by replaying recorded A/A runs.
//!
//! ```text
//! cargo run --release -p pgassay-analysis --example replay -- A-A.json…
//! ```
//! reads documents of `pgassay compare --json` in which equal servers were compared
//! (and the noise pairs of others), and prints two tables in markdown: what these
//! comparisons said, and how often comparisons of various lengths would have been
//! right, with slowdowns put into the recorded noise.
//!
//! A replayed comparison takes a stretch of successive recorded pairs, exchanges the
//! arms within each by a coin (which equal servers allow), and multiplies what B did.
//! The noise is that of the machine: its bursts, waves and drifts stay as they were.
//! Of recordings in several launches it takes whole launches, and the coin is thrown for
//! each: what a start was lucky with stays as it was, too.
//!
//! Beside them stands the practice of holding one run of HEAD, after one of BASE, against a fixed threshold: on the
//! same recordings, with as many slices in the same time.

use std::error::Error;

use pgassay_analysis::compare::Compare;
use pgassay_analysis::compare::model::Pair;
use pgassay_analysis::metrics::THROUGHPUT;
use pgassay_analysis::stats::simulate::{Rng, rng};
use pgassay_analysis::stats::{
    Direction, NoiseFloor, Rule, Verdict, compare_in_order, compare_launches, forecast,
};
use rand::RngExt as _;

/// Replays of each length and effect.
const REPLAYS: usize = 1000;
/// The threshold of many CI jobs, as a share.
const FIXED: f64 = 0.025;
/// Seconds between the slices of a pair, as `pgassay compare` reckons.
const BETWEEN: f64 = 0.06;

fn main() -> Result<(), Box<dyn Error>> {
    let mut runs: Vec<Compare> = Vec::new();
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        runs.push(serde_json::from_str(&text).map_err(|e| format!("{path}: {e}"))?);
    }
    let equal: Vec<&Compare> = runs
        .iter()
        .filter(|run| run.plan.as_ref().is_some_and(|plan| plan.same))
        .collect();
    if equal.is_empty() {
        return Err("no run of equal targets was given".into());
    }
    let mut out = String::new();
    said(&equal, &mut out);
    let launched = |run: &&Compare| run.plan.as_ref().is_some_and(|plan| plan.launches > 1);
    let (many, one): (Vec<&Compare>, Vec<&Compare>) = equal.iter().partition(|run| launched(run));
    if !one.is_empty() {
        replayed(&one, &mut out);
    }
    if !many.is_empty() {
        replayed_launches(&many, &mut out);
    }
    fixed(&equal, &mut out);
    std::io::Write::write_all(&mut std::io::stdout(), out.as_bytes())?;
    Ok(())
}

/// What the comparisons themselves said.
fn said(runs: &[&Compare], out: &mut String) {
    let results = || runs.iter().flat_map(|run| &run.results);
    let count = |verdict: Verdict| results().filter(|r| r.compared.verdict == verdict).count();
    let all = results().count();
    let covered = results().filter(|r| r.compared.ratio.holds(1.0)).count();
    let mut spreads: Vec<f64> = results().filter_map(|r| r.compared.pair_spread()).collect();
    spreads.sort_by(f64::total_cmp);
    let at = |share: f64| 100.0 * spreads[((spreads.len() - 1) as f64 * share) as usize];
    let pairs: usize = results().map(|r| r.pairs.len()).sum();
    out.push_str(&format!(
        "{all} real comparisons of equal servers, {pairs} pairs in all; a pair's spread {:.1} % \
         (from {:.1} to {:.1} %).\n\n\
         | called | comparisons |\n|---|---|\n\
         | different (faster {}, slower {}) | {} of {all} |\n\
         | equivalent | {} of {all} |\n| inconclusive | {} of {all} |\n\
         | not comparable | {} of {all} |\n\
         | 95 % interval holds no difference | {covered} of {all} |\n\n",
        at(0.5),
        at(0.0),
        at(1.0),
        count(Verdict::Faster),
        count(Verdict::Slower),
        count(Verdict::Faster) + count(Verdict::Slower),
        count(Verdict::Equivalent),
        count(Verdict::Inconclusive),
        count(Verdict::NotComparable),
    ));
}

/// How often replayed comparisons are right.
fn replayed(runs: &[&Compare], out: &mut String) {
    // stretches of successive pairs; a comparison never spans two recordings
    let stretches: Vec<Vec<(f64, f64)>> = runs
        .iter()
        .flat_map(|run| &run.results)
        .map(|result| result.pairs.iter().map(sides).collect())
        .collect();
    let plan = &runs[0].analysis.main().plan;
    let slice = (plan.warmup_ms + plan.window_ms) as f64 / 1000.0 + BETWEEN;
    let longest = stretches.iter().map(Vec::len).max().unwrap_or(0);
    out.push_str(&format!(
        "Replayed: {REPLAYS} comparisons a cell, each a stretch of the recorded pairs with the arms \
         exchanged by a coin and the difference put in.\n\n\
         | time | pairs | equal: called different | equal: equivalent within 3 % | \
         −3 %: slower | −5 %: slower | −3 %: forecast kept |\n|---|---|---|---|---|---|---|\n"
    ));
    let mut rng = rng(1);
    for minutes in [0.5, 1.0, 2.0, 4.0, 10.0] {
        let pairs = (minutes * 60.0 / (2.0 * slice)) as usize;
        if pairs > longest || pairs < 12 {
            continue;
        }
        let mut share = |effect: f64, delta: f64, wanted: &[Verdict]| {
            let hits = (0..REPLAYS)
                .filter(|_| {
                    let drawn = draw(&stretches, pairs, effect, &mut rng);
                    verdict(&drawn, delta).is_some_and(|v| wanted.contains(&v))
                })
                .count();
            100.0 * hits as f64 / REPLAYS as f64
        };
        let different = share(0.0, 0.0, &[Verdict::Faster, Verdict::Slower]);
        let equivalent = share(0.0, 0.03, &[Verdict::Equivalent]);
        let three = share(-0.03, 0.01, &[Verdict::Slower]);
        let five = share(-0.05, 0.01, &[Verdict::Slower]);
        let kept = promise(&stretches, pairs, &mut rng);
        out.push_str(&format!(
            "| {minutes} min | {pairs} | {different:.1} % | {equivalent:.0} % | {three:.0} % | \
             {five:.0} % | {} |\n",
            kept.map_or_else(
                || "–".to_owned(),
                |(kept, of)| format!("{kept} of {of} that it promised")
            )
        ));
    }
}

/// The same by launches: of a recorded comparison's launches as many as a replay has, whole.
fn replayed_launches(runs: &[&Compare], out: &mut String) {
    let mut launches: Vec<Vec<(f64, f64)>> = Vec::new();
    for result in runs.iter().flat_map(|run| &run.results) {
        for same in result.pairs.chunk_by(|a, b| a.launch == b.launch) {
            launches.push(same.iter().map(sides).collect());
        }
    }
    let mut between: Vec<f64> = launches
        .iter()
        .filter_map(|pairs| compare_in_order(pairs, rule(0.0)).ok())
        .map(|comparison| comparison.ratio.estimate.ln())
        .collect();
    between.sort_by(f64::total_cmp);
    let square: f64 = between.iter().map(|x| x * x).sum();
    let fewest = launches.iter().map(Vec::len).min().unwrap_or(0);
    let most = launches.iter().map(Vec::len).max().unwrap_or(0);
    out.push_str(&format!(
        "Replayed in launches: {REPLAYS} comparisons a cell, each of successive recorded launches \
         ({} in all, of {fewest} to {most} pairs, whose centres spread by {:.1} %) with the arms \
         exchanged by a coin for each launch and the difference put in.\n\n\
         | launches | pairs as recorded | equal: called different | equal: equivalent within 3 % | \
         −3 %: slower | −5 %: slower |\n|---|---|---|---|---|---|\n",
        launches.len(),
        100.0 * (square / between.len().max(1) as f64).sqrt(),
    ));
    let mut rng = rng(1);
    for count in [6, 8, 12, 24] {
        if count > launches.len() {
            continue;
        }
        let mut pairs = 0;
        let mut share = |effect: f64, delta: f64, wanted: &[Verdict]| {
            let hits = (0..REPLAYS)
                .filter(|_| {
                    let drawn = draw_launches(&launches, count, effect, &mut rng);
                    pairs += drawn.iter().map(Vec::len).sum::<usize>();
                    compare_launches(&drawn, rule(delta))
                        .is_ok_and(|comparison| wanted.contains(&comparison.verdict))
                })
                .count();
            100.0 * hits as f64 / REPLAYS as f64
        };
        let different = share(0.0, 0.0, &[Verdict::Faster, Verdict::Slower]);
        let equivalent = share(0.0, 0.03, &[Verdict::Equivalent]);
        let three = share(-0.03, 0.01, &[Verdict::Slower]);
        let five = share(-0.05, 0.01, &[Verdict::Slower]);
        out.push_str(&format!(
            "| {count} | {} | {different:.1} % | {equivalent:.0} % | {three:.0} % | {five:.0} % |\n",
            pairs / (4 * REPLAYS),
        ));
    }
}

/// What a fixed threshold is worth that is held against one run after another.
fn fixed(runs: &[&Compare], out: &mut String) {
    let launches: Vec<Vec<(f64, f64)>> = runs
        .iter()
        .flat_map(|run| &run.results)
        .flat_map(|result| result.pairs.chunk_by(|a, b| a.launch == b.launch))
        .map(|same| same.iter().map(sides).collect())
        .collect();
    out.push_str(&format!(
        "\nA fixed threshold: a run of BASE is one server's slices in the first half of a recorded launch, a run of HEAD \
         the other's in the second half, or in the next launch. Called slower where HEAD's mean is lower by more than \
         {:.1} %. {REPLAYS} replays a cell.\n\n\
         | HEAD is measured | equal: called slower | −3 %: missed | −5 %: missed |\n|---|---|---|---|\n",
        100.0 * FIXED
    ));
    let mut rng = rng(1);
    for (when, apart) in [("in the same launch", 0), ("in the next launch", 1)] {
        let last = launches.len().saturating_sub(apart);
        if last == 0 {
            continue;
        }
        let mut alarms = |effect: f64| {
            let hits = (0..REPLAYS)
                .filter(|_| {
                    let at = rng.random_range(0..last);
                    let exchanged = rng.random::<bool>();
                    one_after_another(&launches[at], &launches[at + apart], exchanged)
                        .is_some_and(|(base, head)| head * (1.0 + effect) < base * (1.0 - FIXED))
                })
                .count();
            100.0 * hits as f64 / REPLAYS as f64
        };
        let (equal, three, five) = (alarms(0.0), 100.0 - alarms(-0.03), 100.0 - alarms(-0.05));
        out.push_str(&format!(
            "| {when} | {equal:.1} % | {three:.0} % | {five:.0} % |\n"
        ));
    }
}

/// The means of a run of BASE and of one of HEAD after it.
fn one_after_another(
    first: &[(f64, f64)],
    second: &[(f64, f64)],
    exchanged: bool,
) -> Option<(f64, f64)> {
    let mean = |values: Vec<f64>| {
        let count = values.len();
        (count > 0).then(|| values.iter().sum::<f64>() / count as f64)
    };
    let side = |pair: &(f64, f64), b: bool| if b == exchanged { pair.0 } else { pair.1 };
    let base = &first[..first.len() / 2];
    let head = &second[second.len() / 2..];
    let base = mean(base.iter().map(|pair| side(pair, false)).collect())?;
    let head = mean(head.iter().map(|pair| side(pair, true)).collect())?;
    Some((base, head))
}

/// Successive launches, the arms of each exchanged by a coin.
fn draw_launches(
    launches: &[Vec<(f64, f64)>],
    count: usize,
    effect: f64,
    rng: &mut Rng,
) -> Vec<Vec<(f64, f64)>> {
    let from = rng.random_range(0..=launches.len() - count);
    launches[from..from + count]
        .iter()
        .map(|pairs| {
            let exchanged = rng.random::<bool>();
            let put_in = |(a, b): &(f64, f64)| {
                let (a, b) = if exchanged { (*b, *a) } else { (*a, *b) };
                (a, b * (1.0 + effect))
            };
            pairs.iter().map(put_in).collect()
        })
        .collect()
}

fn rule(delta: f64) -> Rule {
    Rule {
        delta,
        direction: Direction::HigherIsBetter,
    }
}

/// Of the comparisons whose noise pairs promise that so many pairs show 3 %: how many do.
fn promise(stretches: &[Vec<(f64, f64)>], pairs: usize, rng: &mut Rng) -> Option<(usize, usize)> {
    const NOISE: usize = 20;
    let (mut kept, mut promised) = (0, 0);
    for _ in 0..REPLAYS {
        let drawn = draw(stretches, pairs + NOISE, -0.03, rng);
        if drawn.len() < pairs + NOISE {
            continue;
        }
        let (noise, rest) = drawn.split_at(NOISE);
        let Some(forecast) = NoiseFloor::from_pairs(noise)
            .ok()
            .and_then(|f| forecast(&f, 0.03, 0.9))
        else {
            continue;
        };
        if forecast.pairs_promised as usize <= pairs {
            promised += 1;
            kept += usize::from(verdict(rest, 0.01) == Some(Verdict::Slower));
        }
    }
    (promised > 0).then_some((kept, promised))
}

fn sides(pair: &Pair) -> (f64, f64) {
    pair.both(THROUGHPUT).unwrap_or((f64::NAN, f64::NAN))
}

/// A stretch of successive pairs from one recording, the arms exchanged by a coin.
fn draw(
    stretches: &[Vec<(f64, f64)>],
    pairs: usize,
    effect: f64,
    rng: &mut Rng,
) -> Vec<(f64, f64)> {
    let long: Vec<&Vec<(f64, f64)>> = stretches.iter().filter(|s| s.len() >= pairs).collect();
    let Some(stretch) = (!long.is_empty()).then(|| long[rng.random_range(0..long.len())]) else {
        return Vec::new();
    };
    let from = rng.random_range(0..=stretch.len() - pairs);
    stretch[from..from + pairs]
        .iter()
        .map(|(a, b)| {
            if rng.random::<bool>() {
                (*a, *b)
            } else {
                (*b, *a)
            }
        })
        .map(|(a, b)| (a, b * (1.0 + effect)))
        .collect()
}

fn verdict(pairs: &[(f64, f64)], delta: f64) -> Option<Verdict> {
    Some(compare_in_order(pairs, rule(delta)).ok()?.verdict)
}
