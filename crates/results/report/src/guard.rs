//! Reports of checks against thresholds: a summary, and JUnit XML for CI servers.

use maud::html;
use pgassay_analysis::guard::{Change, Check, Guarded, Judged};
use pgassay_analysis::number;
use pgassay_analysis::search::Interval;
use pgassay_text::line;

use super::Report;
use super::bisect::change;
use super::document::{Block, Cell, Column, Depth, Document, Section, Table};

impl Report for Guarded {
    fn document(&self) -> Document {
        let rows = self.checks.iter().map(|check| {
            vec![
                Cell::plain(check.judged.words()),
                Cell::plain(&check.workload),
                Cell::plain(check.clients.to_string()),
                Cell::plain(&check.metric),
                Cell::plain_or_missing(check.change.as_ref().map(words)),
                Cell::plain(format!("{:.1} %", 100.0 * check.threshold)),
            ]
        });
        let columns = vec![
            Column::words("check", 0),
            Column::words("workload", 0),
            Column::figures("clients", "", 0),
            Column::words("metric", 0),
            Column::words("HEAD against BASE", 0),
            Column::figures("allowed", "", 0),
        ];
        let caption =
            "With 95 % intervals. Passed: not worse by more than allowed. Unclear: neither shown.";
        let mut blocks = vec![Block::Table(Table::new(caption, columns, rows))];
        blocks.extend(self.warnings.iter().cloned().map(Block::Text));
        Document {
            title: format!("{} against {}", self.head, self.base),
            provenance: format!(
                "Measured by pgassay {} in {}",
                env!("CARGO_PKG_VERSION"),
                super::number::duration(self.seconds)
            ),
            alarms: alarms(self),
            headline: vec![headline(self)],
            sections: vec![Section {
                id: "checks",
                title: "Checks",
                depth: Depth::Summary,
                blocks,
            }],
            ..Document::default()
        }
    }
}

fn alarms(guarded: &Guarded) -> Vec<String> {
    match &guarded.stopped {
        _ if guarded.complete => Vec::new(),
        None => vec!["Measured in part: not all that was planned.".to_owned()],
        Some(why) if guarded.checks.is_empty() => vec![why.clone()],
        Some(why) => vec![format!("Measured in part: {why}")],
    }
}

fn headline(guarded: &Guarded) -> String {
    if guarded.checks.is_empty() {
        return "Nothing was measured.".to_owned();
    }
    let count = |judged: Judged| match guarded.count(judged) {
        0 => None,
        n => Some(format!("{n} {}", judged.words())),
    };
    let all = [
        Judged::Failed,
        Judged::NotComparable,
        Judged::Unclear,
        Judged::Passed,
    ];
    let said: Vec<String> = all.into_iter().filter_map(count).collect();
    format!("{} of {} checks.", said.join(", "), guarded.checks.len())
}

fn words(of: &Change) -> String {
    change(&Interval {
        estimate: of.estimate,
        low: of.low,
        high: of.high,
    })
}

/// The checks in the XML that CI servers read: a test suite with a case for each.
pub fn junit(guarded: &Guarded) -> String {
    let failures = guarded.count(Judged::Failed);
    let skipped = guarded.count(Judged::Unclear) + guarded.count(Judged::NotComparable);
    let name = line(&format!(
        "pgassay guard: {} against {}",
        guarded.head, guarded.base
    ));
    let stopped: Vec<String> = guarded.stopped.iter().map(|why| line(why)).collect();
    let suite = html! {
        testsuites {
            testsuite name=(name) tests=(guarded.checks.len() + stopped.len()) failures=(failures)
                errors=(stopped.len()) skipped=(skipped) time=(format!("{:.1}", guarded.seconds)) {
                @for why in &stopped {
                    testcase classname="guard" name="everything was measured" {
                        error message=(why) { (why) }
                    }
                }
                @for check in &guarded.checks {
                    testcase classname=(line(&check.workload)) name=(case(check)) {
                        @match check.judged {
                            Judged::Passed => {}
                            Judged::Failed => {
                                failure message=(said(check)) { (said(check)) }
                            }
                            Judged::Unclear | Judged::NotComparable => {
                                skipped message=(said(check)) {}
                            }
                        }
                    }
                }
            }
        }
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n",
        suite.into_string()
    )
}

fn case(check: &Check) -> String {
    let clients = number::counted(check.clients, "client");
    line(&format!("{} at {clients}", check.metric))
}

fn said(check: &Check) -> String {
    let change = check.change.as_ref();
    let change = change.map_or_else(|| "not shown by this workload".to_owned(), words);
    line(&format!(
        "{}: {change}; worse by {:.1} % is allowed",
        check.judged.words(),
        100.0 * check.threshold
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn junit_counts_and_escapes() {
        let check = |judged, workload: &str| Check {
            workload: workload.to_owned(),
            clients: 2,
            metric: "throughput".to_owned(),
            threshold: 0.03,
            base: Some(1000.0),
            head: Some(950.0),
            change: Some(Change {
                estimate: -0.05,
                low: -0.07,
                high: -0.03,
            }),
            judged,
            run: None,
        };
        let mut guarded = Guarded {
            schema: String::new(),
            base: "a<b".to_owned(),
            head: "c".to_owned(),
            commit: None,
            checks: vec![
                check(Judged::Failed, "x\u{1b}[31m & \"y\""),
                check(Judged::Passed, "z"),
                check(Judged::Unclear, "z"),
            ],
            warnings: Vec::new(),
            complete: true,
            stopped: None,
            budget_seconds: 60.0,
            seconds: 12.34,
        };
        let xml = junit(&guarded);
        assert!(
            xml.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\" time=\"12.3\""),
            "{xml}"
        );
        assert!(xml.contains("c against a&lt;b"), "{xml}");
        assert!(
            !xml.contains('\u{1b}') && xml.contains("&amp; &quot;y&quot;"),
            "{xml}"
        );
        assert_eq!(xml.matches("<testcase").count(), 3);
        assert_eq!(xml.matches("<failure").count(), 1);
        let text = super::super::markdown(&guarded);
        assert!(
            text.contains("1 FAILED, 1 unclear, 1 passed of 3 checks"),
            "{text}"
        );
        guarded.complete = false;
        guarded.stopped = Some("the server <died>".to_owned());
        let text = super::super::markdown(&guarded);
        assert!(text.contains("Measured in part: the server"), "{text}");
        guarded.checks.clear();
        let xml = junit(&guarded);
        assert!(
            xml.contains("tests=\"1\" failures=\"0\" errors=\"1\""),
            "{xml}"
        );
        assert!(
            xml.contains("<error message=\"the server &lt;died&gt;\">"),
            "{xml}"
        );
        let text = super::super::markdown(&guarded);
        assert!(text.contains("Nothing was measured"), "{text}");
    }
}
