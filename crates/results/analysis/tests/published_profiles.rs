//! Profiles that others published, and what pgassay concludes from them.
//!
//! A file of `profiles/` is a listing with its figures as published, below a heading: where it is from, what those who
//! published it concluded, and what pgassay is expected to find: `Expected:` entries of the catalogue, or `nothing`;
//! `Not:` entries that would be wrong; or `Not named:` and why.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pgassay_analysis::diagnose::{
    Confidence, Diagnosis, Evidence, Finding, diagnose, version_number,
};
use pgassay_analysis::profile::summarise;
use pgassay_readings::profile::Profile;
use proptest::prelude::*;

const BEFORE: &str = include_str!("profiles/power8-before.txt");
const AFTER: &str = include_str!("profiles/power8-after.txt");

fn diagnosis(text: &str, version: &str) -> Diagnosis {
    let summary = summarise(&Profile::parse(text).unwrap());
    diagnose(
        "case",
        &Evidence {
            version: version_number(version),
            profile: Some(&summary),
            run: None,
        },
    )
}

fn only_ids(diagnosis: &Diagnosis) -> Vec<&str> {
    diagnosis.findings.iter().map(|f| f.id.as_str()).collect()
}

fn steps(finding: &Finding) -> String {
    let steps: Vec<&str> = finding.remedy.iter().map(|s| s.text.as_str()).collect();
    steps.join(" ")
}

fn words(finding: &Finding) -> String {
    format!(
        "{} {} {} {} {}",
        finding.saw,
        finding.evidence.join(" "),
        finding.why,
        steps(finding),
        finding.sources.join(" ")
    )
}

#[test]
fn power8_before_the_patch_is_the_buffer_header_spinlock() {
    let diagnosis = diagnosis(BEFORE, "9.4");
    assert_eq!(
        only_ids(&diagnosis),
        ["buffer-header-spinlock", "snapshot-scalability"]
    );
    let finding = &diagnosis.findings[0];
    assert_eq!(finding.confidence, Confidence::Medium);
    assert_eq!(finding.gain_at_most, Some(0.321));
    let words = words(finding);
    for expected in [
        "buffer header spinlock",
        "32.1 %",
        "9.4",
        "9.6",
        "48354581a4",
        "PinBuffer",
    ] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
}

#[test]
fn power8_after_the_patch_is_get_snapshot_data() {
    let diagnosis = diagnosis(AFTER, "9.4");
    assert_eq!(only_ids(&diagnosis), ["snapshot-scalability"]);
    let words = words(&diagnosis.findings[0]);
    for expected in ["GetSnapshotData", "13.8 %", "PostgreSQL 14", "dc7420c2c9"] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
}

#[test]
fn gdb_s_answer_makes_the_suspicion_sure() {
    // What the study found by probing with gdb, as perf record -g would have shown it.
    let text = "\
    32.10%  postgres  postgres  [.] s_lock
            |
            ---s_lock
               |
               |--18.00%--PinBuffer
               |          ReadBuffer_common
                --14.10%--UnpinBuffer
                          ReleaseBuffer
     7.77%  postgres  postgres  [.] GetSnapshotData
";
    let with = diagnosis(text, "9.4");
    assert_eq!(with.findings[0].id, "buffer-header-spinlock");
    assert_eq!(with.findings[0].confidence, Confidence::High);
    assert!(with.findings[0].evidence[0].contains("PinBuffer (18.0 %) and UnpinBuffer (14.1 %)"));
    // Only up to 9.5 PinBuffer calls s_lock at all.
    let without = diagnosis(text, "");
    assert_eq!(without.findings[0].confidence, Confidence::High);
    assert!(steps(&without.findings[0]).contains("upgrade to PostgreSQL 9.6"));
}

#[test]
fn a_version_that_has_the_cure_is_not_told_of_the_illness() {
    let ids = diagnosis(BEFORE, "15");
    assert!(!only_ids(&ids).contains(&"buffer-header-spinlock"));
    assert_eq!(ids.findings[0].id, "spinlock-unattributed");
    let unknown = diagnosis(BEFORE, "");
    assert_eq!(unknown.findings[0].id, "buffer-header-spinlock");
    assert_eq!(unknown.findings[0].confidence, Confidence::Low);
}

#[test]
fn every_number_of_a_finding_is_one_of_the_profile() {
    // The same listing with other figures gives the same findings with those figures.
    let text = BEFORE.replace("32.10%", "41.60%").replace("7.77%", "6.25%");
    let diagnosis = diagnosis(&text, "9.4");
    let all: String = diagnosis.findings.iter().map(words).collect();
    assert!(all.contains("41.6 %") && all.contains("6.2 %"), "{all}");
    assert!(!all.contains("32.1 %") && !all.contains("7.8 %"), "{all}");
}

/// A published profile.
struct Case {
    name: String,
    text: String,
    heading: BTreeMap<String, String>,
}

impl Case {
    fn ids(&self, key: &str) -> Vec<&str> {
        let ids = self.heading.get(key).map_or("", String::as_str);
        ids.split_ascii_whitespace().collect()
    }

    fn version(&self) -> &str {
        self.heading.get("Version").map_or("", String::as_str)
    }
}

fn corpus() -> Vec<Case> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profiles");
    let mut files: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| {
            let text = fs::read_to_string(file).unwrap();
            let heading = text
                .lines()
                .filter_map(|line| line.strip_prefix("# ")?.split_once(": "))
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect();
            Case {
                name: file.file_stem().unwrap().to_string_lossy().into_owned(),
                text,
                heading,
            }
        })
        .collect()
}

/// How many of them are to be named at least, and how many there are.
const NAMED: (usize, usize) = (34, 37);

#[test]
fn published_profiles_are_named_as_their_experts_named_them() {
    let corpus = corpus();
    let (mut named, mut wrong) = (0, Vec::new());
    for case in &corpus {
        assert!(case.heading.contains_key("Conclusion"), "{}", case.name);
        let diagnosis = diagnosis(&case.text, case.version());
        let found = only_ids(&diagnosis);
        let expected = case.ids("Expected");
        let missing = |id: &&&str| **id != "nothing" && !found.contains(*id);
        let as_expected = !expected.iter().any(|id| missing(&id))
            && (!expected.contains(&"nothing") || found.is_empty())
            && !case.ids("Not").iter().any(|id| found.contains(id));
        if !as_expected {
            wrong.push(format!("{}: {found:?}", case.name));
        }
        named += usize::from(as_expected && !case.heading.contains_key("Not named"));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!((named, corpus.len()), NAMED);
}

/// How a text is changed on its way.
type Change<'c> = (&'c str, &'c dyn Fn(&str) -> String);

/// A text as it may be pasted: the same findings follow, and the same figures.
#[test]
fn a_pasted_listing_is_the_listing() {
    let escaped = |text: &str| text.replace('>', "&gt;").replace('<', "&lt;");
    let prefixed = |text: &str, prefix: &str| {
        let lines = text.lines().map(|line| format!("{prefix}{line}\n"));
        lines.collect::<String>()
    };
    let changes: [Change; 8] = [
        ("line ends of Windows", &|text| text.replace('\n', "\r\n")),
        ("quoted", &|text| prefixed(text, "> ")),
        ("quoted twice", &|text| prefixed(text, ">> ")),
        ("escaped for HTML", &|text| escaped(&prefixed(text, "> "))),
        ("blanks of HTML", &|text| text.replace("  ", "\u{a0} ")),
        ("decimal commas", &|text| {
            let lines = text.lines().map(|line| match line.split_once('%') {
                Some((share, rest)) if share.len() < 20 => {
                    format!("{}%{rest}\n", share.replace('.', ","))
                }
                _ => format!("{line}\n"),
            });
            lines.collect()
        }),
        ("coloured", &|text| prefixed(text, "\x1b[31m\x1b[m")),
        ("drawn with lines", &|text| {
            let text = text.replace("|--", "├──").replace(" --", "└──");
            text.replace("%--", "%──").replace("  |", "  │")
        }),
    ];
    for case in corpus() {
        // Its heading is no part of what is pasted.
        let listing: String = case
            .text
            .lines()
            .filter(|line| {
                !line.starts_with("# ") || line.contains("Overhead") || line.contains("Children")
            })
            .map(|line| format!("{line}\n"))
            .collect();
        let plain = summarise(&Profile::parse(&listing).unwrap());
        for (change, of) in changes {
            let pasted = Profile::parse(&of(&listing));
            let pasted = pasted.unwrap_or_else(|e| panic!("{}, {change}: {e}", case.name));
            assert_eq!(summarise(&pasted), plain, "{}, {change}", case.name);
        }
    }
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~\\t]{0,80}",
        Just("postgres 1 2.5: 1 cpu-clock:".to_owned()),
        "\t[0-9a-f]{1,16} [a-zA-Z_]{1,20}\\+0x[0-9a-f]{1,3} \\([a-z/.]{1,12}\\)",
        Just(String::new()),
        "[0-9]{1,3}\\.[0-9]{2}%  postgres  postgres  \\[[.k]\\] [A-Za-z_]{1,12}",
        "[+-]? {0,3}[0-9]{1,3}[.,][0-9]{2}%  ([0-9]{1,3}\\.[0-9]{2}%)?  (swapper|java|postgres|postgres: a b)  (postgres|\\[kernel\\])  \\[[.k]\\] (intel_idle|s_lock|[a-z_]{3,12})",
        "(postgres|java|swapper);[a-z_;]{3,30} [0-9]{1,4}",
        "[ |]{0,40}(--[0-9]{1,3}\\.[0-9]{2}%--|---)?[A-Za-z_]{1,12}",
        "\\PC{0,40}",
    ]
}

proptest! {
    #[test]
    fn any_text_gives_a_profile_or_a_reason(lines in proptest::collection::vec(line(), 0..60)) {
        let text = lines.join("\n");
        if let Ok(profile) = Profile::parse(&text) {
            let summary = summarise(&profile);
            let sum: f64 = summary.classes.iter().map(|c| c.share).sum();
            prop_assert!(sum <= 1.0 + 1e-6, "{sum}");
            let others: f64 = summary.others.iter().map(|other| other.share).sum();
            prop_assert!(others + summary.idle_share <= 1.0 + 1e-6, "{others}");
            prop_assert!(summary.within.iter().all(|w| w.share <= 1.0 + 1e-6));
            prop_assert!(summary.functions.iter().all(|f| f.total_share <= 1.0 + 1e-6));
            prop_assert!(summary.functions.iter().all(|f| f.own_share <= f.total_share + 1e-9));
            prop_assert!(summary.functions.iter().all(|f| !f.symbol.chars().any(char::is_control)));
            prop_assert!(summary.locks.iter().all(|l| l.share <= 1.0 + 1e-6));
            let evidence = Evidence { version: None, profile: Some(&summary), run: None };
            for finding in diagnose("x", &evidence).findings {
                prop_assert!(!finding.evidence.is_empty() && !finding.remedy.is_empty());
                prop_assert!(!finding.sources.is_empty());
            }
        }
    }

    #[test]
    fn samples_written_are_samples_read(
        stacks in proptest::collection::vec(proptest::collection::vec("[a-zA-Z_]{3,12}q", 1..8), 1..30)
    ) {
        let mut text = String::new();
        for stack in &stacks {
            text.push_str("postgres 7 [001] 11.5:  10 cpu-clock: \n");
            for name in stack {
                text.push_str(&format!("\t 55d0 {name}+0x1 (/usr/bin/postgres)\n"));
            }
            text.push('\n');
        }
        let profile = Profile::parse(&text).unwrap();
        prop_assert_eq!(profile.total, stacks.len() as f64);
        let mut expected: Vec<String> = stacks
            .iter()
            .map(|s| s.iter().rev().map(String::as_str).collect::<Vec<_>>().join(";"))
            .collect();
        expected.sort();
        let mut found: Vec<String> = Vec::new();
        for line in profile.folded().lines() {
            let (names, count) = line.rsplit_once(' ').unwrap();
            for _ in 0..count.parse::<u32>().unwrap() {
                found.push(names.to_owned());
            }
        }
        found.sort();
        prop_assert_eq!(found, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A published listing, cut, with bytes of it changed: a profile or a reason, shares that add
    /// up to no more than all, and no finding without evidence.
    #[test]
    fn a_damaged_listing_is_read_or_refused(
        keep in 0.0..1.0_f64,
        damage in proptest::collection::vec((0.0..1.0_f64, any::<u8>()), 0..20),
    ) {
        let mut bytes = BEFORE.as_bytes().to_vec();
        for (at, byte) in damage {
            let at = (at * bytes.len() as f64) as usize;
            bytes[at] = byte;
        }
        bytes.truncate((keep * bytes.len() as f64) as usize);
        if let Ok(profile) = Profile::parse(&String::from_utf8_lossy(&bytes)) {
            let summary = summarise(&profile);
            let all: f64 = summary.classes.iter().map(|c| c.share).sum();
            prop_assert!(all <= 1.0 + 1e-6, "{all}");
            let evidence = Evidence {
                profile: Some(&summary),
                ..Evidence::default()
            };
            for finding in diagnose("damaged", &evidence).findings {
                prop_assert!(!finding.evidence.is_empty(), "{finding:?}");
            }
        }
    }
}
