//! The report of `pgassay check`, in every format.

use pgassay_analysis::check::{CheckReport, Outcome, Severity};
use pgassay_model::facts::Place;

use super::document::{Block, Depth, Document, Fact, Section};
use super::sections::{findings, machine};
use super::{Report, TextStyle, number};

/// For a terminal; `all` shows more than findings.
pub fn text(report: &CheckReport, all: bool, style: &TextStyle) -> String {
    super::text::render(&document(report, all), style)
}

impl Report for CheckReport {
    fn document(&self) -> Document {
        document(self, true)
    }
}

fn document(report: &CheckReport, all: bool) -> Document {
    let mut sections = vec![subject(report)];
    sections.extend(findings::section_of(report));
    let depth = if all { Depth::Titled } else { Depth::Evidence };
    sections.extend(rest(report, depth));
    Document {
        title: title(report),
        provenance: format!(
            "Looked at {} UTC by pgassay {}",
            report
                .collected
                .get(..19)
                .unwrap_or(&report.collected)
                .replace('T', " "),
            report.pgassay_version
        ),
        alarms: alarms(report),
        headline: headline(report),
        sections,
        notes: Vec::new(),
        ..Document::default()
    }
}

fn title(report: &CheckReport) -> String {
    match (&report.server.version, &report.place) {
        (Some(version), _) => {
            let words: Vec<&str> = version.split_whitespace().take(2).collect();
            format!("Check of {}", words.join(" "))
        }
        (None, Place::NoServer) => "Check of this host".to_owned(),
        (None, _) => format!("Check of {}", report.target),
    }
}

/// What was not looked at heads the report.
fn alarms(report: &CheckReport) -> Vec<String> {
    let mut alarms = Vec::new();
    if report.throw_away {
        alarms.push(
            "This is a throw-away server with default settings, not yours: this machine and the \
             build were judged, its settings were not. Name your server to check it: pgassay \
             check 'host=… dbname=…'."
                .to_owned(),
        );
    }
    if let Some(why) = &report.session_lost {
        alarms.push(format!(
            "The connection was lost before the server was looked at in full ({why}): what is \
             below says little. Run the check again."
        ));
    }
    if let Place::Elsewhere(why) = &report.place {
        alarms.push(format!(
            "The server's host was not examined ({why}): only what is visible by SQL was judged. \
             Run pgassay check on the server's machine, over its Unix socket, to examine the rest."
        ));
    }
    alarms
}

/// What holds the server back, in two or three sentences.
fn headline(report: &CheckReport) -> Vec<String> {
    let counts = &report.counts;
    let grave: Vec<_> = report
        .findings()
        .filter(|f| f.severity >= Severity::Medium)
        .collect();
    let mut sentences = match (grave.as_slice(), counts.findings) {
        ([], 0) if report.unseen().is_some() => {
            vec!["Whether anything holds this server back is not known.".to_owned()]
        }
        ([], 0) => vec!["Nothing was found that holds this server back.".to_owned()],
        ([], n) => vec![format!(
            "{}, none significant.",
            number::counted(n, "finding")
        )],
        ([first, ..], n) => vec![
            first.saw.clone(),
            format!(
                "{}, {} significant.",
                number::counted(n, "finding"),
                grave.len()
            ),
        ],
    };
    sentences.push(format!(
        "{} passed, {} not applicable, {} not evaluated.",
        number::counted(counts.passed, "check"),
        counts.not_applicable,
        counts.could_not_see
    ));
    sentences
}

fn subject(report: &CheckReport) -> Section {
    let mut facts = Vec::new();
    if report.place != Place::NoServer {
        let version = report.server.version.as_deref().unwrap_or("not to be seen");
        let version = version.split(" on ").next().unwrap_or(version);
        let mut server = version.to_owned();
        if let Some(bytes) = report.server.shared_buffers_bytes {
            server += &format!(", shared_buffers {}", number::bytes(bytes));
        }
        facts.push(Fact::new("server", server).remark(report.target.clone()));
    }
    if !matches!(report.place, Place::Elsewhere(_)) {
        facts.push(Fact::new("machine", machine(&report.host)));
    }
    Section {
        id: "subject",
        title: "What was looked at",
        depth: Depth::Summary,
        blocks: vec![Block::Facts(facts)],
    }
}

/// What is no finding, each kind apart.
fn rest(report: &CheckReport, depth: Depth) -> Vec<Section> {
    let kinds = [
        (Outcome::CouldNotSee, "unseen", "What could not be seen"),
        (Outcome::Passed, "passed", "What passed"),
        (
            Outcome::NotApplicable,
            "not-applicable",
            "What does not apply",
        ),
    ];
    kinds
        .into_iter()
        .filter_map(|(outcome, id, title)| {
            let facts: Vec<Fact> = report
                .of(outcome)
                .map(|r| Fact::new(&r.id, &r.saw))
                .collect();
            if facts.is_empty() {
                return None;
            }
            Some(Section {
                id,
                title,
                depth,
                blocks: vec![Block::Facts(facts)],
            })
        })
        .collect()
}
