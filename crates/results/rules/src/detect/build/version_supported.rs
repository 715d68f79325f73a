//! Release without support.

use crate::detect::prelude::*;
use crate::version::written;

/// The year in whose November a major version's last release comes.
fn last_year(major: u32) -> u32 {
    // 10 came in 2017, and one each year since; five years later is the last.
    2017 + major.saturating_sub(10) + 5
}

pub fn audit(seen: &FactView) -> Judged {
    let version = seen.version()?;
    let date = seen.collected();
    let (Some(year), Some(month), Some(day)) = (
        date.get(..4).and_then(|y| y.parse::<u32>().ok()),
        date.get(5..7).and_then(|m| m.parse::<u32>().ok()),
        date.get(8..10).and_then(|d| d.parse::<u32>().ok()),
    ) else {
        return could_not_see("the facts carry no date");
    };
    let major = version / 10_000;
    let over = if major < 10 {
        true
    } else {
        // The last release comes in the month's second week.
        let last = last_year(major);
        year > last || (year == last && (month > 11 || (month == 11 && day > 14)))
    };
    if !over {
        return passed(format!(
            "{}: until November {}",
            written(version),
            last_year(major)
        ));
    }
    Observation::new(
        Severity::Low,
        Confidence::High,
        format!("PostgreSQL {} no longer gets fixes.", written(version)),
    )
    .advice("upgrade to a supported version")
    .found()
}
