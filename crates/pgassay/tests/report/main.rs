//! Every format against golden files, over analyses made by hand.
//!
//! `BLESS=1 cargo test -p pgassay --test report` writes the goldens anew; look
//! at the difference before you commit it.

mod fixture;

use std::fs;
use std::path::Path;

use pgassay::report::{self, TextStyle};
use pgassay_analysis::Analysis;

fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/report/golden")
        .join(name);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, text).expect("the golden directory is writable");
        return;
    }
    let golden = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if let Some(line) = (golden.lines().zip(text.lines())).position(|(a, b)| a != b) {
        panic!(
            "{name} differs from line {}:\n  golden: {}\n  now:    {}",
            line + 1,
            golden.lines().nth(line).unwrap_or_default(),
            text.lines().nth(line).unwrap_or_default()
        );
    }
    assert_eq!(golden.len(), text.len(), "{name} differs in length");
}

fn plain(width: usize) -> TextStyle {
    TextStyle {
        width,
        color: false,
        unicode: true,
    }
}

fn all() -> [(&'static str, Analysis); 7] {
    [
        ("complete", fixture::complete()),
        ("interrupted", fixture::interrupted()),
        ("empty", fixture::empty()),
        ("two-arms", fixture::two_arms()),
        ("warned", fixture::warned()),
        ("hostile", fixture::hostile()),
        ("absurd", fixture::absurd()),
    ]
}

#[test]
fn terminal_summaries() {
    for (name, analysis) in all() {
        check(
            &format!("{name}.txt"),
            &report::text(&analysis, &plain(100)),
        );
    }
    let complete = fixture::complete();
    for width in [1, 40, 80, 200] {
        let text = report::text(&complete, &plain(width));
        check(&format!("complete-{width}.txt"), &text);
    }
    let ascii = TextStyle {
        unicode: false,
        ..plain(80)
    };
    check("complete-ascii.txt", &report::text(&complete, &ascii));
}

#[test]
fn markdown() {
    for (name, analysis) in all() {
        check(&format!("{name}.md"), &report::markdown(&analysis));
    }
}

#[test]
fn html() {
    for (name, analysis) in all() {
        check(&format!("{name}.html"), &report::html(&analysis));
    }
}

#[test]
fn csv() {
    check("two-arms.csv", &report::csv(&fixture::two_arms()));
    check("hostile.csv", &report::csv(&fixture::hostile()));
}
