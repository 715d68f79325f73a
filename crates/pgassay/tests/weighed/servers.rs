//! Servers with something wrong, and sound ones, recorded under a load by scripts/record-servers.py: the cause is among
//! the first findings, with its remedy, and a sound server has no finding that weighs.

use std::fs;
use std::path::Path;

use lzma_rust2::XzReader;
use pgassay_analysis::analyse;
use pgassay_analysis::bottlenecks::finding::{Confidence, Finding, Severity};
use pgassay_analysis::causes::with_audit;
use pgassay_engine::rundir;
use regex::Regex;
use serde::Deserialize;

use crate::recorded::Temporary;

/// The cause must be among so many findings that weigh.
const FIRST: usize = 3;
/// Findings about the machine that recorded, and about a load that waits for nothing.
const OF_THE_MACHINE: &[&str] = &[
    "active-sessions",
    "client-bound",
    "clock-source",
    "cpu-class",
    "cpu-others",
    "cpu-quota",
    "cpu-saturated",
    "cpu-steal",
    "cpu-throttled",
    "huge-pages",
    "io-scheduler",
    "memory-promised",
    "off-cpu-unexplained",
    "pressure",
    "round-trips",
    "scaling-contention",
    "timing-cost",
    "transparent-huge-pages",
];

#[derive(Deserialize)]
struct Servers {
    server: Vec<Server>,
}

/// An entry of servers.toml; the rest of it is for the script that records.
#[derive(Deserialize)]
struct Server {
    id: String,
    #[serde(default)]
    expect: Vec<String>,
    #[serde(default)]
    remedy: String,
    #[serde(default)]
    allowed: Vec<String>,
}

/// Every server of the list with its findings, in their order.
fn diagnosed() -> Vec<(Server, Vec<Finding>)> {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded");
    let list = fs::read_to_string(recorded.join("servers.toml")).unwrap();
    let Servers { server: servers } = toml::from_str(&list).unwrap();
    let archive = fs::File::open(recorded.join("servers.tar.xz")).unwrap();
    let runs = Temporary::new("servers");
    let mut archive = tar::Archive::new(XzReader::new(archive, false));
    archive.unpack(&runs.0).unwrap();
    let findings = |server: Server| {
        let run = rundir::read(&runs.0.join(&server.id)).unwrap();
        assert_eq!(run.damage, Vec::<String>::new(), "{}", server.id);
        let analysis = analyse(&run);
        let measured = &analysis.stages[0].diagnosis.as_ref().unwrap().findings;
        let findings = with_audit(&analysis, measured).into_iter();
        // Where no rule knows the cause, a general finding says where the time goes.
        let least = match server.remedy.is_empty() {
            true => Severity::Info,
            false => Severity::Low,
        };
        let weigh = findings.filter(|f| f.severity >= least);
        (server, weigh.collect())
    };
    servers.into_iter().map(findings).collect()
}

/// Why the cause is not named; `None` where it is.
fn missed(server: &Server, findings: &[Finding]) -> Option<String> {
    let remedy = Regex::new(&server.remedy).unwrap();
    // What other programs took while it was recorded is no finding about the server.
    let ranked = findings.iter().filter(|f| f.id != "cpu-others");
    let expected = ranked
        .enumerate()
        .filter(|(_, f)| server.expect.contains(&f.id));
    let mut why = vec!["not found".to_owned()];
    for (at, finding) in expected {
        let mut wrong = Vec::new();
        if at >= FIRST {
            wrong.push(format!("{} is finding {}", finding.id, at + 1));
        }
        if finding.symptom_of.is_some() {
            wrong.push(format!("{} is a symptom", finding.id));
        }
        if finding.confidence == Confidence::Low {
            wrong.push(format!("{} has low confidence", finding.id));
        }
        if !finding
            .remedy
            .iter()
            .any(|step| remedy.is_match(&step.text))
        {
            wrong.push(format!(
                "{} has no such remedy: {:#?}",
                finding.id, finding.remedy
            ));
        }
        if wrong.is_empty() {
            return None;
        }
        why = wrong;
    }
    let ids: Vec<&str> = findings.iter().map(|f| &*f.id).collect();
    Some(format!("{}: {} {ids:?}", server.id, why.join(", ")))
}

#[test]
fn the_cause_is_named_with_its_remedy_and_a_sound_server_has_none() {
    let mut wrong = Vec::new();
    for (server, findings) in diagnosed() {
        if server.expect.is_empty() {
            let heavy = findings.iter().filter(|f| f.severity > Severity::Low);
            let ids = heavy.map(|f| &*f.id);
            let allowed =
                |id: &&str| OF_THE_MACHINE.contains(id) || server.allowed.iter().any(|a| a == id);
            let ids: Vec<&str> = ids.filter(|id| !allowed(id)).collect();
            if !ids.is_empty() {
                wrong.push(format!("{} is sound: {ids:?}", server.id));
            }
        } else {
            wrong.extend(missed(&server, &findings));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
