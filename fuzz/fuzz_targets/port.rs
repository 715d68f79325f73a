//! Whatever sources and build files hold, each is read or refused, and a finding lies in its file.
//!
//! The input is a C file, or several: a line `//@ NAME` begins another, so that what one file defines
//! decides about a line of the next.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use pgassay_port::guards::known::Processor;
use pgassay_port::project::{Project, Read, read};
use pgassay_report::TextStyle;

const PROCESSORS: [Processor; 4] = [
    Processor::Aarch64,
    Processor::Ppc64le,
    Processor::Riscv64,
    Processor::S390x,
];

fn files(data: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut name = "a.c".to_owned();
    for line in data.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_prefix(b"//@ ") {
            Some(next) => name = String::from_utf8_lossy(next).trim().to_owned(),
            None => files
                .entry(name.clone())
                .or_insert_with(Vec::new)
                .extend_from_slice(line),
        }
    }
    files
}

fuzz_target!(|data: &[u8]| {
    let files = files(data);
    let processor = PROCESSORS[data.len() % PROCESSORS.len()];
    let mut project = Project::default();
    for (name, bytes) in &files {
        if let Some(read) = read(name, bytes) {
            project.add(name, read);
        }
    }
    let porting = project.finish("fuzz", processor);
    for finding in &porting.findings {
        let bytes = &files[&finding.path];
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
        if let Some(line) = finding.line {
            assert!((1..=lines).contains(&(line as usize)), "{finding:?}");
        }
        assert!(
            porting.rules.iter().any(|rule| rule.id == finding.rule),
            "{finding:?}"
        );
    }
    for path in &porting.unbalanced {
        assert!(matches!(read(path, &files[path]), Some(Read::Source(_))));
    }
    let style = TextStyle {
        width: 80,
        color: false,
        unicode: true,
    };
    let text = pgassay_report::text(&porting, &style);
    assert!(
        text.chars().all(|c| c == '\n' || !c.is_control()),
        "a control character is printed"
    );
    assert!(!pgassay_report::html(&porting).contains("<script>"));
});
