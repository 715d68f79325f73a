//! Rows of the catalogues in words.

use crate::detect::prelude::*;

/// Tables smaller than this are read whole in no time, in bytes.
pub const SMALL: f64 = 8.0 * 1024.0 * 1024.0;

/// Findings that are named one by one.
const NAMED: usize = 5;

pub fn name<'r>(row: &'r Row, key: &str) -> &'r str {
    word(row, key).unwrap_or("?")
}

pub fn is(row: &Row, key: &str) -> bool {
    row.get(key).and_then(serde_json::Value::as_bool) == Some(true)
}

/// `two of them, and 3 more`.
pub fn listed(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    names.truncate(NAMED);
    match more {
        0 => names.join(", "),
        more => format!("{}, and {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use pgassay_model::facts::Facts;
    use pgassay_model::reading::Reading;

    use pgassay_analysis::check::check;

    const RECORDED: &str =
        include_str!("../../../../analysis/tests/check/recorded/debian12-pg15.json");

    /// It advised VACUUM below a finding that says why VACUUM removes nothing.
    #[test]
    fn dead_rows_that_something_holds_are_told_no_vacuum_before_it_is_gone() {
        let of = |seconds: u64| {
            let mut facts: Facts = serde_json::from_str(RECORDED).unwrap();
            let dead =
                r#"[{"table": "public.jobs", "live": 10, "dead": 90000, "switched_off": false}]"#;
            let old = format!(
                r#"[{{"kind": "session", "name": "41", "transactions": 900000, "seconds": {seconds}}}]"#
            );
            let mut answer = |name: &str, text: String| {
                facts.server.insert(name.into(), Reading::Text(text));
            };
            answer("dead_rows", dead.to_owned());
            answer("horizon", old);
            let report = check(&facts);
            let mut findings = report.findings();
            findings
                .find(|f| f.id == "autovacuum-behind")
                .unwrap()
                .clone()
        };
        let held = of(7200);
        assert!(
            held.remedy[0].text.starts_with("end what holds them"),
            "{held:#?}"
        );
        assert!(held.symptom_of.is_some());
        let behind = of(1);
        assert!(behind.remedy[0].text.starts_with("VACUUM"), "{behind:#?}");
        assert!(behind.symptom_of.is_none());
    }
}
