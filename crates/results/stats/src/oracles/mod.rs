//! Values computed by independent implementations, and the tests against them.
//!
//! The tables beside this file were written by the scripts in scripts/oracles
//! (scaling_minpack.tsv by a Rust crate); their first line names the program and version.

use super::order::{Differences, Walsh, sorted_finite};
use super::rank_null::RankNull;
use super::*;

/// The tab-separated rows of a table whose first cell is `what`.
pub(super) fn rows<'a>(table: &'a str, what: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
    table
        .lines()
        .map(|line| line.trim_end().split('\t').collect::<Vec<_>>())
        .filter(move |row| row[0] == what)
}

pub(super) fn numbers(cell: &str) -> Vec<f64> {
    cell.split(' ')
        .map(|v| v.parse().expect("a number"))
        .collect()
}

pub(super) fn number(cell: &str) -> f64 {
    numbers(cell)[0]
}

#[track_caller]
fn close(got: f64, want: f64, what: &str) {
    assert!(
        (got - want).abs() <= 1e-9 * want.abs().max(1e-3),
        "{what}: {got}, not {want}"
    );
}

const R: &str = include_str!("rank_tests.tsv");
const SCIPY: &str = include_str!("rank_tests_scipy.tsv");

#[test]
fn signed_rank_p_estimate_and_intervals_are_those_of_r_and_scipy() {
    let mut cases = 0;
    for table in [R, SCIPY] {
        for row in rows(table, "signed-rank") {
            let (x, _) = sorted_finite(&numbers(row[1]));
            let null = RankNull::signed_rank(x.len());
            let (below, above) = Walsh(&x).around(0.0);
            close(null.p_two_sided(below, above), number(row[2]), "p");
            for (level, low, high) in [(0.95, row[4], row[5]), (0.90, row[6], row[7])] {
                let got = estimate::pseudo_median(&x, &null, level).expect("values");
                close(got.estimate, number(row[3]), "estimate");
                close(got.low, number(low), "low");
                close(got.high, number(high), "high");
                assert_eq!(got.level, level);
            }
            cases += 1;
        }
    }
    assert_eq!(cases, 26 + 24);
}

#[test]
fn pooled_p_estimate_and_intervals_are_those_of_all_sign_flips() {
    let mut cases = 0;
    for row in rows(include_str!("pooled.tsv"), "pooled") {
        let noise = numbers(row[2]);
        let runs: Vec<pooled::Run> = (row[1].split(" / ").zip(noise))
            .map(|(values, noise)| pooled::Run {
                pairs: numbers(values).iter().map(|v| (1.0, v.exp())).collect(),
                noise: Some(noise),
            })
            .collect();
        let rule = Rule::new(0.01, Direction::HigherIsBetter).expect("a rule");
        let got = pool(&runs, rule).expect("pairs").together;
        close(got.p, number(row[3]), "p");
        close(got.ratio.estimate.ln(), number(row[4]), "estimate");
        let (wide, narrow) = (numbers(row[5]), numbers(row[6]));
        close(got.ratio.low.ln(), wide[0], "low");
        close(got.ratio.high.ln(), wide[1], "high");
        close(got.equivalence_interval.low.ln(), narrow[0], "low at 90 %");
        close(
            got.equivalence_interval.high.ln(),
            narrow[1],
            "high at 90 %",
        );
        cases += 1;
    }
    assert_eq!(cases, 6);
}

#[test]
fn mann_whitney_p_estimate_and_intervals_are_those_of_r_and_scipy() {
    let mut cases = 0;
    for (table, what) in [(R, "mann-whitney"), (SCIPY, "mann-whitney-p")] {
        for row in rows(table, what) {
            let (a, b) = row[1].split_once(" / ").expect("two samples");
            let ((a, _), (b, _)) = (sorted_finite(&numbers(a)), sorted_finite(&numbers(b)));
            let null = RankNull::mann_whitney(a.len(), b.len());
            let differences = Differences { a: &a, b: &b };
            let (below, above) = differences.around(0.0);
            close(null.p_two_sided(below, above), number(row[2]), "p");
            close(differences.median(), number(row[3]), "shift");
            for (level, at) in [(0.95, 4), (0.90, 6)] {
                if let (Some(low), Some(high)) = (row.get(at), row.get(at + 1)) {
                    let k = null.trim(level).expect("enough values");
                    close(differences.nth(k + 1), number(low), "low");
                    close(
                        differences.nth(differences.number() - k),
                        number(high),
                        "high",
                    );
                }
            }
            cases += 1;
        }
    }
    assert_eq!(cases, 8 + 8);
}

#[test]
fn holm_is_that_of_r() {
    let mut cases = 0;
    for row in rows(R, "holm") {
        for (got, want) in family::holm(&numbers(row[1])).iter().zip(numbers(row[2])) {
            close(*got, want, "adjusted p");
        }
        cases += 1;
    }
    assert_eq!(cases, 5);
}

const SCALING: &str = include_str!("scaling.tsv");

fn sweep(n: &[f64], x: &[f64]) -> Vec<scaling::ScalingPoint> {
    n.iter()
        .zip(x)
        .map(|(n, x)| scaling::ScalingPoint {
            n: *n as u32,
            throughput: vec![*x],
            client_bound: false,
        })
        .collect()
}

#[test]
fn scaling_fits_are_those_of_r() {
    let mut cases = 0;
    for name in ["specsdm91", "raytracer", "made-up"] {
        for row in rows(SCALING, name) {
            let near = |got: f64, want: f64, what: &str| {
                assert!(
                    (got / want - 1.0).abs() < 1e-5,
                    "{name} {what}: {got}, not {want}"
                );
            };
            let fit = scaling::fit(&sweep(&numbers(row[1]), &numbers(row[2])), None, 1);
            let fit = fit.expect("these follow the law");
            for (i, c) in [&fit.lambda, &fit.sigma, &fit.kappa]
                .into_iter()
                .enumerate()
            {
                near(c.value.estimate, numbers(row[3])[i], "coefficient");
                near(
                    c.standard_error.expect("free"),
                    numbers(row[4])[i],
                    "standard error",
                );
                let (low, high) = c.by_fit.expect("free");
                near(low, numbers(row[5])[i], "low");
                near(high, numbers(row[6])[i], "high");
                assert_eq!(c.value.low, low.max(0.0));
            }
            near(
                fit.peak.as_ref().expect("it falls").estimate,
                number(row[7]),
                "peak",
            );
            let wanted = numbers(row[9]).into_iter().zip(numbers(row[10]));
            for (at, (x, se)) in numbers(row[8]).into_iter().zip(wanted) {
                let got = fit.predict(at).expect("within reach");
                near(got.estimate, x, "prediction");
                let (value, low) = (&fit.kappa.value.estimate, fit.kappa.by_fit.expect("free").0);
                let t = (value - low) / fit.kappa.standard_error.expect("free");
                near(got.high - got.estimate, t * se, "reach of the prediction");
            }
            cases += 1;
        }
    }
    assert_eq!(cases, 3);
}

/// The coefficients published for the two data sets, to the digits published. The
/// intervals published with raytracer are ± 2.015 standard errors, Student's t at
/// 0.95 (not 0.975) with 5 degrees of freedom (points less one): they were made so
/// by the R package usl, and are reproduced here from the standard errors. Those
/// reported by pgassay take 0.975 and 3 degrees (points less coefficients), and
/// are wider.
#[test]
fn scaling_fits_are_those_published() {
    let round = |v: f64, digits: i32| (v * 10f64.powi(digits)).round() / 10f64.powi(digits);
    let n = [1.0, 18.0, 36.0, 72.0, 108.0, 144.0, 216.0];
    let x = [64.9, 995.9, 1652.4, 1853.2, 1828.9, 1775.0, 1702.2];
    let fit = scaling::fit(&sweep(&n, &x), None, 1).expect("follows the law");
    assert_eq!(round(fit.sigma.value.estimate, 7), 0.0277285);
    assert_eq!(round(fit.sigma.standard_error.expect("free"), 7), 0.0091217);
    assert_eq!(round(fit.kappa.value.estimate, 7), 0.0001044);
    assert_eq!(round(fit.kappa.standard_error.expect("free"), 7), 0.0000199);
    assert_eq!(round(fit.lambda.value.estimate, 4), 89.9952);
    assert_eq!(round(fit.lambda.standard_error.expect("free"), 4), 14.2135);
    let peak = fit.peak.expect("it falls").estimate;
    assert!((peak - 96.51956).abs() < 5e-5, "{peak}");

    let n = [
        1.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 28.0, 32.0, 48.0, 64.0,
    ];
    let x = [
        20.0, 78.0, 130.0, 170.0, 190.0, 200.0, 210.0, 230.0, 260.0, 280.0, 310.0,
    ];
    let six = scaling::fit(&sweep(&n[..6], &x[..6]), None, 1).expect("follows the law");
    assert_eq!(round(six.sigma.value.estimate, 5), 0.02444);
    assert_eq!(round(six.kappa.value.estimate, 5), 0.00163);
    assert_eq!(round(six.lambda.value.estimate, 3), 20.856);
    let published = |c: &scaling::Coefficient, digits| {
        let reach = 2.015_048 * c.standard_error.expect("free");
        (
            round(c.value.estimate - reach, digits),
            round(c.value.estimate + reach, digits),
        )
    };
    assert_eq!(published(&six.sigma, 5).0, 0.00754);
    // 0.04135, published as .0413
    assert!((published(&six.sigma, 5).1 - 0.0413).abs() < 1e-4);
    assert_eq!(published(&six.kappa, 5), (0.00110, 0.00215));
    assert_eq!(published(&six.lambda, 2), (19.27, 22.44));

    // all eleven: coherence would be negative, so it is held at 0
    let all = scaling::fit(&sweep(&n, &x), None, 1).expect("follows the law");
    assert_eq!(all.kappa.value.estimate, 0.0);
    assert_eq!(all.kappa.standard_error, None);
    assert!(
        all.kappa
            .value
            .warnings
            .iter()
            .any(|w| *w == Caveat::BoundedAtZero)
    );
    assert!(all.peak.is_none());
}

const MINPACK: &str = include_str!("scaling_minpack.tsv");

/// Curves recorded and made up, few points, extreme units, degenerate input. "none" is no
/// fit; "-" where the best λ is infinite, so that only the sum of squares is determined.
#[test]
fn scaling_fits_are_those_of_minpack() {
    let fitted = ["recorded", "noisy", "few", "units", "random", "infinite"];
    let mut cases = 0;
    for name in fitted.into_iter().chain(["degenerate"]) {
        for row in rows(MINPACK, name) {
            cases += 1;
            let (n, x) = (numbers(row[1]), numbers(row[2]));
            let fit = scaling_law::least_squares(&n, &x);
            if row[3] == "none" {
                assert!(fit.is_none(), "{row:?}: {fit:?}");
                continue;
            }
            let fit = fit.unwrap_or_else(|| panic!("no fit: {row:?}"));
            let largest = x.iter().copied().fold(0.0, f64::max);
            let near = |got: f64, want: f64, slack: f64| {
                assert!(
                    (got - want).abs() <= 1e-6 * want.abs() + slack,
                    "{row:?}: {got}, not {want}: {fit:?}"
                );
            };
            near(fit.sum, number(row[5]), 1e-12 * largest * largest);
            if row[3] == "-" {
                continue;
            }
            let law = numbers(row[3]);
            let wanted = numbers(row[4]);
            let covariance = fit.covariance.expect("determined");
            for i in 0..3 {
                near(fit.law.0[i], law[i], 0.0);
                assert_eq!(fit.free[i], law[i] != 0.0, "{row:?}: {fit:?}");
                for j in 0..=i {
                    let want = wanted[if i == j { i } else { i + j + 2 }];
                    let slack = 1e-6 * (wanted[i] * wanted[j]).sqrt() + 1e-12 * law[i] * law[j];
                    near(covariance[i][j], want, slack);
                    assert_eq!(covariance[j][i], covariance[i][j]);
                }
            }
            let points = fit.degrees + fit.free.iter().filter(|f| **f).count();
            assert_eq!(points, n.len());
        }
    }
    assert_eq!(cases, 43);
}

const E_DIVISIVE: &str = include_str!("e_divisive.tsv");

#[test]
fn change_points_are_those_of_mongodbs_implementation() {
    let mut cases = 0;
    for row in rows(E_DIVISIVE, "series") {
        let x = numbers(row[1]);
        for (at, want) in numbers(row[3]).into_iter().enumerate().skip(1) {
            close(
                history::tests::statistic(&x, at, x.len()),
                want,
                "statistic",
            );
        }
        let runs: Vec<f64> = x.iter().map(|v| v.exp()).collect();
        let rule = history::ChangeRule {
            magnitude: 0.0,
            shortest: 1,
            ..Default::default()
        };
        let found = history::change_points(&runs, rule).changes;
        let found: Vec<String> = found.iter().map(|c| c.index.to_string()).collect();
        let want: Vec<&str> = row[2].split(' ').filter(|v| *v != "-").collect();
        if row[2] == "36" {
            // levels up, back and down again: that implementation compares with all
            // that follows, which hides the first two; they were made at 12 and 24
            assert_eq!(found, ["12", "24", "36"]);
        } else {
            assert_eq!(found, want);
        }
        cases += 1;
    }
    assert_eq!(cases, 6);
}
