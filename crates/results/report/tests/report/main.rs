//! Every format against golden files, over analyses made by hand.
//!
//! `BLESS=1 cargo test -p pgassay-report --test report` writes the goldens anew; look
//! at the difference before you commit it. What each kind of golden holds: CONTRIBUTING.md.

mod by_script;
mod fixture;
mod glance;
mod machine;
mod observed;
mod outline;
mod page;
mod schema;

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use pgassay_analysis::Analysis;
use pgassay_report::TextStyle;

/// Holds a text against its golden file.
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
        let part = |text: &str| -> String {
            let line = text.lines().nth(line).unwrap_or_default();
            line.chars().take(300).collect()
        };
        panic!(
            "{name} differs from line {}:\n  golden: {}\n  now:    {}",
            line + 1,
            part(&golden),
            part(text)
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

fn all() -> [(&'static str, Analysis); 11] {
    [
        ("complete", fixture::complete()),
        ("interrupted", fixture::interrupted()),
        ("empty", fixture::empty()),
        ("two-arms", fixture::two_arms()),
        ("warned", fixture::warned()),
        ("hostile", fixture::hostile()),
        ("absurd", fixture::absurd()),
        ("primitives", fixture::primitives()),
        ("second", fixture::second()),
        ("checked", fixture::checked()),
        ("observed", observed::budgets()),
    ]
}

#[test]
fn terminal_summaries() {
    for (name, analysis) in all() {
        check(
            &format!("{name}.txt"),
            &pgassay_report::text(&analysis, &plain(100)),
        );
    }
    let complete = fixture::complete();
    for width in [40, 80] {
        let text = pgassay_report::text(&complete, &plain(width));
        check(&format!("complete-{width}.txt"), &text);
    }
    let ascii = TextStyle {
        unicode: false,
        ..plain(80)
    };
    check(
        "complete-ascii.txt",
        &pgassay_report::text(&complete, &ascii),
    );
}

#[test]
fn markdown() {
    let complete = pgassay_report::markdown(&fixture::complete());
    check("complete.md", &complete);
    for (name, analysis) in all().into_iter().skip(1) {
        let text = pgassay_report::markdown(&analysis);
        check(&format!("{name}.md"), &differing(&text, &complete));
    }
}

/// The headings of a text and its lines that the other text lacks; `…` stands for the rest.
fn differing(text: &str, other: &str) -> String {
    let known: HashSet<&str> = other.lines().filter(|line| !line.is_empty()).collect();
    let mut out: Vec<&str> = vec![];
    for line in text.lines() {
        match known.contains(line) && !line.starts_with('#') {
            true if out.last() == Some(&"…") => {}
            true => out.push("…"),
            false if line.is_empty() && out.last() == Some(&"…") => {}
            false => out.push(line),
        }
    }
    out.join("\n") + "\n"
}

#[test]
fn html() {
    let pages = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    fs::create_dir_all(&pages).expect("the target directory is writable");
    for (name, analysis) in [
        ("complete", fixture::complete()),
        ("warned", fixture::warned()),
    ] {
        let page = pgassay_report::html(&analysis);
        fs::write(pages.join(format!("{name}.html")), &page).expect("likewise");
        check(&format!("{name}.outline"), &outline::outline(&page));
    }
}

#[test]
fn csv() {
    check(
        "two-arms.csv",
        &pgassay_report::csv(&fixture::two_arms()).expect("trials are rows"),
    );
    check(
        "hostile.csv",
        &pgassay_report::csv(&fixture::hostile()).expect("trials are rows"),
    );
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for (name, analysis) in all() {
        for width in (20..=60).chain([80, 100, 132, 200, 400]) {
            let text = pgassay_report::text(&analysis, &plain(width));
            for line in text.lines() {
                let columns = line.chars().count();
                assert!(columns <= width, "{name} at {width}: {columns}: {line}");
            }
        }
    }
}

#[test]
fn colour_adds_nothing_but_colour() {
    let analysis = fixture::warned();
    let coloured = TextStyle {
        color: true,
        ..plain(80)
    };
    let coloured = pgassay_report::text(&analysis, &coloured);
    assert!(coloured.contains("\u{1b}[1m"), "nothing is bold");
    assert!(
        !coloured.contains("\u{1b}[31m"),
        "foreign text set a colour"
    );
    let mut bare = String::new();
    let mut pieces = coloured.split("\u{1b}[");
    bare.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        bare.push_str(piece.split_once('m').map_or("", |(_, rest)| rest));
    }
    assert_eq!(bare, pgassay_report::text(&analysis, &plain(80)));
}

#[test]
fn foreign_text_moves_no_cursor() {
    let text = pgassay_report::text(&fixture::hostile(), &plain(80))
        + &pgassay_report::markdown(&fixture::hostile());
    let odd = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!text.contains(odd), "a control character got through");
    let ascii = TextStyle {
        unicode: false,
        ..plain(80)
    };
    let text = pgassay_report::text(&fixture::hostile(), &ascii);
    assert!(text.is_ascii(), "not all of it is ASCII");
}

#[test]
fn markdown_holds_no_markup_of_others() {
    let text = pgassay_report::markdown(&fixture::hostile());
    // the commands stand in a fence that no run of backticks in them ends
    let (before, fenced) = text.split_once("\n````sh\n").expect("a fence of four");
    let (commands, after) = fenced.split_once("\n````\n").expect("its end");
    assert!(commands.contains("```"), "the fixture tests nothing");
    let text = format!("{before}\n{after}");
    assert!(!text.contains("<script>"), "markup got through");
    assert!(!text.contains("[link]("), "a link got through");
    // a table row has as many cells as its table's head: nobody's pipe made one more
    let bars = |line: &str| line.replace("\\|", "").matches('|').count();
    let mut head = 0;
    for line in text.lines() {
        match (line.starts_with('|'), head) {
            (false, _) => head = 0,
            (true, 0) => head = bars(line),
            (true, wanted) => assert_eq!(bars(line), wanted, "{line}"),
        }
    }
}

#[test]
fn csv_has_one_row_a_trial() {
    let analysis = fixture::two_arms();
    let trials: usize = (analysis.main().arms.iter().flat_map(|a| &a.points))
        .map(|p| p.trials.len())
        .sum();
    let csv = pgassay_report::csv(&analysis).expect("trials are rows");
    assert_eq!(csv.lines().count(), trials + 1);
}

/// Attack D17: cells began with `=`, and held control characters. A reader of CSV finds as many
/// fields in every row as in the header.
#[test]
fn csv_holds_no_formula() {
    let text = pgassay_report::csv(&fixture::hostile()).expect("trials are rows");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let columns = reader.headers().unwrap().len();
    let mut rows = 0;
    for row in reader.records() {
        let row = row.unwrap();
        rows += 1;
        assert_eq!(row.len(), columns);
        for cell in &row {
            assert!(!cell.starts_with(['=', '+', '@']), "{cell}");
            assert!(!cell.contains(char::is_control), "{cell:?}");
        }
        assert!(row[2].starts_with("'=cmd(),\"<script>"), "{}", &row[2]);
    }
    assert!(rows > 1);
}
