//! What giving a server's settings to a reference has shown.

use crate::finding::{Basis, Confidence, Observation, Severity};
use pgassay_evidence::reference::{Differing, Tried};

/// The entry of settings that no rule need know.
pub const ENTRY: &str = "differs-from-reference";

/// Throughput that is lost from this share on decides how fast a server is.
const GRAVE: f64 = 0.3;

/// A setting that was tried, with what is said of it.
pub fn setting(setting: &Differing, tried: &Tried, saw: String) -> Observation {
    let Differing {
        name,
        server,
        source,
        reference,
    } = setting;
    // What a reference keeps of its throughput with the setting, the server would win without it.
    let lost = 1.0 - tried.throughput.estimate;
    let severity = match lost {
        lost if lost >= GRAVE => Severity::High,
        lost if lost >= 0.05 => Severity::Medium,
        _ => Severity::Low,
    };
    let value = match reference.parse::<f64>() {
        Ok(_) => reference.clone(),
        Err(_) => format!("'{}'", reference.replace('\'', "''")),
    };
    // A file's line is overruled, what stands elsewhere is taken back.
    let change = match source.as_str() {
        "configuration file" | "default" => format!("SET {name} = {value}"),
        _ => format!("RESET {name}"),
    };
    Observation::measured(Basis::Throughput, Some(lost), saw)
        .severity(severity)
        .confidence(Confidence::High)
        .seen(format!(
            "the server has {name} = {server} ({source}), the reference {name} = {reference}"
        ))
        .sql(format!(
            "ALTER SYSTEM {change}; SELECT pg_reload_conf();   -- restart, if pg_settings.pending_restart \
             says so"
        ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_stats::Estimate;

    #[test]
    fn what_the_reference_loses_the_server_wins() {
        let differing = Differing {
            name: "foo.load".to_owned(),
            server: "it's".to_owned(),
            source: "configuration file".to_owned(),
            reference: "isn't".to_owned(),
        };
        let tried = Tried {
            p: 0.01,
            settings: Vec::new(),
            throughput: Estimate {
                estimate: 0.25,
                low: 0.2,
                high: 0.3,
                level: 0.95,
                n: 6,
                warnings: Vec::new(),
            },
        };
        let seen = setting(&differing, &tried, "It costs.".to_owned());
        assert_eq!(seen.severity, Some(Severity::High));
        assert!((seen.share.unwrap() - 0.75).abs() < 1e-9);
        assert!(
            seen.remedy[0]
                .text
                .starts_with("ALTER SYSTEM SET foo.load = 'isn''t';"),
            "{:?}",
            seen.remedy
        );
    }
}
