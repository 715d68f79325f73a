//! How often does the search for causes err? Simulated with fixed seeds: `make search-rates`.
//!
//! Made-up histories of 12 to 200 commits with planted causes. A set of causes that is named with 95 %
//! may be wrong in 7 % of the histories at most, and 95 % of all must be found. The exit status is 1
//! where one of the two is broken. "Right" is each cause, and no other.

use pgassay_analysis::search::made_up::{Planted, one};
use pgassay_analysis::search::{Outcome, Rules};
use std::io::{self, Write};
use std::process::ExitCode;

/// Histories of each kind.
const HISTORIES: u64 = 40;

fn main() -> io::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let rules = Rules::default();
    let per_kind = std::env::args()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(HISTORIES);
    writeln!(
        out,
        "{:>20}{:>11}{:>7}{:>12}{:>9}{:>9}{:>20}",
        "planted", "histories", "right", "said, wrong", "blocks", "builds", "forecast within 2x"
    )?;
    let (mut all, mut right, mut said, mut wrong) = (0.0, 0.0, 0.0, 0.0);
    for (kind, planted) in Planted::ALL.into_iter().enumerate() {
        let (mut good, mut bad, mut blocks, mut builds) = (0u64, 0u64, Vec::new(), Vec::new());
        let (mut within, mut forecasts) = (0u64, 0u64);
        for number in 0..per_kind {
            let seed = 10_000 * (kind as u64 + 1) + number;
            let (_, searched) = one(planted, seed, &rules, number % 4 == 0);
            let found = searched.conclusion.outcome == Outcome::Found;
            good += u64::from(searched.right);
            bad += u64::from(found && !searched.right);
            said += f64::from(u8::from(found));
            blocks.push(searched.conclusion.blocks);
            builds.push(searched.builds);
            if let Some(forecast) = searched.forecast {
                let ratio = searched.conclusion.blocks as f64 / forecast.blocks;
                forecasts += 1;
                within += u64::from((0.5..=2.0).contains(&ratio));
            }
        }
        blocks.sort_unstable();
        builds.sort_unstable();
        all += per_kind as f64;
        right += good as f64;
        wrong += bad as f64;
        writeln!(
            out,
            "{:>20}{:>11}{:>7}{:>12}{:>9}{:>9}{:>20}",
            planted.name(),
            per_kind,
            good,
            bad,
            blocks[blocks.len() / 2],
            builds[builds.len() / 2],
            format!("{within} of {forecasts}")
        )?;
        out.flush()?;
    }
    let honest = 1.0 - wrong / said;
    writeln!(
        out,
        "\n{right} of {all} histories right; of the {said} said at 95 %, {:.1} % right",
        100.0 * honest
    )?;
    let broken = honest < 0.93 || right < 0.95 * all;
    Ok(if broken {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
