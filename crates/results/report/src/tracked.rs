//! HEAD's figures for tools that watch them over many runs: Bencher, and Apache Otava.

use std::collections::BTreeMap;

use pgassay_analysis::guard::{Check, Guarded};
use pgassay_analysis::metrics::MetricId;
use pgassay_analysis::stats::Direction;
use serde_json::{Map, Value, json};

/// The checks in Bencher's metric format: a benchmark for each workload and client count, a measure for each
/// metric, and how HEAD differs from BASE in per cent with its interval.
///
/// Source: the reference of the Bencher Metric Format, bencher.dev.
pub fn bencher(guarded: &Guarded) -> String {
    let mut benchmarks: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for check in &guarded.checks {
        let measures = benchmarks.entry(place(check)).or_default();
        if let Some(value) = check.head {
            measures.insert(check.metric.clone(), json!({ "value": value }));
        }
        if let Some(change) = &check.change {
            let percent = |share: f64| Some(100.0 * share).filter(|p| p.is_finite());
            if let Some(value) = percent(change.estimate) {
                let mut metric = json!({ "value": value });
                for (key, bound) in [("lower_value", change.low), ("upper_value", change.high)] {
                    if let Some(bound) = percent(bound) {
                        metric[key] = json!(bound);
                    }
                }
                measures.insert(format!("{}-change", check.metric), metric);
            }
        }
    }
    benchmarks.retain(|_, measures| !measures.is_empty());
    format!("{:#}\n", json!(benchmarks))
}

/// `select-only at 4 clients`.
fn place(check: &Check) -> String {
    match check.clients {
        1 => format!("{} at 1 client", check.workload),
        n => format!("{} at {n} clients", check.workload),
    }
}

/// The figures of a workload at a client count, a line of its CSV file.
pub struct Series<'a> {
    /// The file's name, without its ending.
    pub name: String,
    commit: &'a str,
    checks: Vec<&'a Check>,
}

/// The series of all checks.
pub fn series(guarded: &Guarded) -> Vec<Series<'_>> {
    let mut all: Vec<Series<'_>> = Vec::new();
    for check in &guarded.checks {
        let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let workload: String = check.workload.chars().map(clean).collect();
        let name = format!("{workload}-{}", check.clients);
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.checks.push(check),
            None => all.push(Series {
                name,
                commit: guarded.commit.as_deref().unwrap_or(&guarded.head),
                checks: vec![check],
            }),
        }
    }
    all
}

impl Series<'_> {
    /// The first line of the file.
    pub fn header(&self) -> String {
        let metrics: Vec<&str> = self
            .checks
            .iter()
            .map(|check| check.metric.as_str())
            .collect();
        format!("time,commit,{}\n", metrics.join(","))
    }

    /// The line of this run; what was not shown is empty.
    pub fn line(&self, time: &str) -> String {
        let values = self.checks.iter().map(|check| match check.head {
            Some(value) => value.to_string(),
            None => String::new(),
        });
        let values: Vec<String> = values.collect();
        let commit = pgassay_text::line(self.commit).replace([',', '"'], " ");
        format!("{time},{commit},{}\n", values.join(","))
    }
}

/// The description of the CSV files for Apache Otava: a test for each.
pub fn otava(guarded: &Guarded) -> String {
    let mut text = String::from("tests:\n");
    for series in series(guarded) {
        text += &format!(
            "  {0}:\n    type: csv\n    file: {0}.csv\n    time_column: time\n    attributes: [commit]\n    \
             metrics:\n",
            series.name
        );
        for check in &series.checks {
            text += &format!(
                "      {0}:\n        column: {0}\n        direction: {1}\n",
                check.metric,
                direction(check)
            );
        }
        text += "    csv_options:\n      delimiter: ','\n      quotechar: '\"'\n";
    }
    text
}

/// 1 where more is better, as Otava has it.
fn direction(check: &Check) -> i32 {
    match MetricId::find(&check.metric) {
        Ok(metric) if metric.better == Direction::HigherIsBetter => 1,
        _ => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_analysis::guard::{Change, Judged};

    fn guarded() -> Guarded {
        let check = |metric: &str, clients: u32, head: Option<f64>| Check {
            workload: "select-only".to_owned(),
            clients,
            metric: metric.to_owned(),
            threshold: 0.03,
            base: head,
            head,
            change: head.map(|_| Change {
                estimate: -0.05,
                low: -0.07,
                high: f64::INFINITY,
            }),
            judged: Judged::Failed,
            run: None,
        };
        Guarded {
            schema: String::new(),
            base: "a".to_owned(),
            head: "b".to_owned(),
            commit: Some("abc".to_owned()),
            checks: vec![
                check("throughput", 4, Some(1234.5)),
                check("p99", 4, None),
                check("instructions", 1, Some(39_500.0)),
            ],
            warnings: Vec::new(),
            complete: true,
            stopped: None,
            budget_seconds: 60.0,
            seconds: 12.0,
        }
    }

    #[test]
    fn bencher_reads_values_and_changes() {
        let json: Value = serde_json::from_str(&bencher(&guarded())).unwrap();
        let at = &json["select-only at 4 clients"];
        assert_eq!(at["throughput"]["value"], 1234.5);
        assert_eq!(at["throughput-change"]["value"], -5.0);
        // What is no figure is left out.
        assert!(at["throughput-change"].get("upper_value").is_none());
        assert!(at.get("p99").is_none());
        assert_eq!(
            json["select-only at 1 client"]["instructions"]["value"],
            39_500.0
        );
    }

    #[test]
    fn otava_finds_a_file_for_each_workload_and_client_count() {
        let guarded = guarded();
        let all = series(&guarded);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].header(), "time,commit,throughput,p99\n");
        assert_eq!(
            all[0].line("2026-01-02T03:04:05Z"),
            "2026-01-02T03:04:05Z,abc,1234.5,\n"
        );
        let yaml = otava(&guarded);
        assert!(yaml.contains("  select-only-4:\n    type: csv\n    file: select-only-4.csv\n"));
        assert!(yaml.contains("throughput:\n        column: throughput\n        direction: 1\n"));
        assert!(
            yaml.contains("instructions:\n        column: instructions\n        direction: -1\n")
        );
    }
}
