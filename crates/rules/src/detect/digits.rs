//! Floating-point numbers written by printf.

use super::{Detector, samples, tenths};
use crate::evidence::Evidence;
use crate::finding::{Confidence, Observation};

pub(super) const DETECTORS: &[Detector] = &[samples("float-digits", by_printf)];

/// The share of the CPU samples from which on it matters.
const NOTABLE: f64 = 0.05;
/// Since when the shortest exact form is written without printf (commit 02ddd49932).
const SHORTEST: u32 = 120_000;
/// What writes a floating-point number: PostgreSQL's own printf, and that of the C library below it.
const PRINTF: &[&str] = &[
    "pg_strfromd",
    "fmtfloat",
    "__printf_fp_l",
    "__printf_fp",
    "___printf_fp",
    "__printf_fp_buffer_1.isra.0",
    "__printf_fp_buffer_1",
    "hack_digit",
    "__mpn_mul_1",
    "__mpn_divrem",
    "__mpn_extract_double",
    "__mpn_mul",
    "__mpn_lshift",
    "fmt_fp",
];

fn by_printf(evidence: &Evidence) -> Option<Observation> {
    const DIGITS: &str = "extra_float_digits";
    let profile = evidence.profile?;
    let run = evidence.run?;
    let value = run.setting(DIGITS)?;
    let rounds = value.parse::<i32>().is_ok_and(|digits| digits <= 0);
    if !rounds || evidence.is_before(SHORTEST) {
        return None;
    }
    let own: Vec<_> = profile
        .functions
        .iter()
        .filter(|f| PRINTF.contains(&f.symbol.as_str()))
        .collect();
    // With what it calls, where callers are known.
    let total = own.iter().map(|f| f.total_share).fold(0.0, f64::max);
    let share = own.iter().map(|f| f.own_share).sum::<f64>().max(total);
    if !profile.shows(share, NOTABLE) {
        return None;
    }
    let saw = format!(
        "Floating-point numbers are written by printf, {} of the CPU samples: {DIGITS} = {value} has them rounded.",
        tenths(share)
    );
    Some(
        Observation::of_samples(share, saw)
            .confidence(Confidence::High)
            .of_functions(own.iter().map(|f| f.symbol.as_str()))
            .all_seen(own.iter().take(3).map(|f| format!("{} in {}", tenths(f.own_share), f.symbol)))
            .sql(format!(
                "ALTER SYSTEM SET {DIGITS} = 1; SELECT pg_reload_conf();   -- the shortest exact form, several times faster"
            ))
            .advice("round where a number is shown: round(x::numeric, n) or to_char"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::made::{found_in_samples, one};

    const LISTING: &str = "\
# Samples: 2K of event 'cpu-clock'
    30.00%  postgres  libc.so.6  [.] __printf_fp_l
    12.00%  postgres  libc.so.6  [.] hack_digit
    58.00%  postgres  postgres   [.] ExecInterpExpr
";

    #[test]
    fn rounded_numbers_are_told_the_setting_that_rounds_them() {
        let of = |settings| found_in_samples(LISTING, settings);
        let rounds = of(&[("extra_float_digits", "0", "configuration file")]);
        let finding = one(&rounds, "float-digits");
        assert!(finding.saw.contains("42.0 %"), "{}", finding.saw);
        assert!(
            finding.remedy[0]
                .text
                .starts_with("ALTER SYSTEM SET extra_float_digits = 1;"),
            "{finding:#?}"
        );
        // Who sets it for a role is told to change it there.
        let own = of(&[("extra_float_digits", "-1", "user")]);
        let step = &one(&own, "float-digits").remedy[0].text;
        assert!(
            step.starts_with("ALTER ROLE app SET extra_float_digits = 1"),
            "{step}"
        );
        let exact = of(&[("extra_float_digits", "1", "default")]);
        assert!(exact.iter().all(|f| f.id != "float-digits"));
    }
}
