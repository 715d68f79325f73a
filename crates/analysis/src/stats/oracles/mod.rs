//! Values computed by independent implementations, and the tests against them.
//!
//! The tables beside this file were written by the scripts in scripts/oracles;
//! their first line names the program and version.

use super::order::{Differences, Walsh, sorted_finite};
use super::rank_null::RankNull;
use super::*;

/// The tab-separated rows of a table whose first cell is `what`.
fn rows<'a>(table: &'a str, what: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
    table
        .lines()
        .map(|line| line.trim_end().split('\t').collect::<Vec<_>>())
        .filter(move |row| row[0] == what)
}

fn numbers(cell: &str) -> Vec<f64> {
    cell.split(' ')
        .map(|v| v.parse().expect("a number"))
        .collect()
}

fn number(cell: &str) -> f64 {
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
                    close(differences.nth(differences.len() - k), number(high), "high");
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
