//! What must hold of every HTML report, whatever is in it.

use super::{all, fixture};
use pgassay_report::Report as _;

/// All start tags of a page: name and attributes as written.
fn tags(page: &str) -> Vec<(&str, &str)> {
    let body = &page[page.find("</style>").expect("the page has a style")..];
    body.split('<')
        .filter_map(|piece| piece.split_once('>').map(|(tag, _)| tag))
        .filter(|tag| tag.starts_with(|c: char| c.is_ascii_alphabetic()))
        .map(|tag| tag.split_once(' ').unwrap_or((tag, "")))
        .collect()
}

fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let start = attributes.find(&format!("{name}=\""))? + name.len() + 2;
    attributes[start..].split('"').next()
}

/// The `id` of a tag, not an attribute whose name ends in it.
fn own_id(attributes: &str) -> Option<&str> {
    let start = attributes
        .match_indices("id=\"")
        .find(|(i, _)| *i == 0 || attributes[..*i].ends_with(' '))?
        .0;
    attributes[start + 4..].split('"').next()
}

#[test]
fn it_asks_nothing_of_any_network() {
    for (name, analysis) in all() {
        let page = pgassay_report::html(&analysis);
        let style = page
            .split("<style>")
            .nth(1)
            .and_then(|rest| rest.split("</style>").next())
            .expect("one style element");
        for forbidden in ["url(", "@import", "http:", "https:", "//", "<"] {
            assert!(
                !style.contains(forbidden),
                "{name}: {forbidden} in the style"
            );
        }
        assert!(page.contains("default-src 'none'"), "{name}: no policy");
        for (tag, attributes) in tags(&page) {
            let loads = [
                "script", "link", "img", "iframe", "object", "embed", "audio", "video", "source",
                "image", "use", "form", "base", "style",
            ];
            assert!(!loads.contains(&tag), "{name}: <{tag}>");
            for loading in [
                "src",
                "srcset",
                "data",
                "action",
                "poster",
                "background",
                "style",
            ] {
                assert_eq!(
                    attribute(attributes, &format!(" {loading}")),
                    None,
                    "{name}: {tag}"
                );
            }
            assert!(
                !attributes.contains(" on"),
                "{name}: a handler in {tag} {attributes}"
            );
            if let Some(target) = attribute(attributes, "href") {
                assert!(target.starts_with('#'), "{name}: link to {target}");
            }
        }
    }
}

/// The policy lets one script run, that of the page.
#[test]
fn the_policy_names_the_script() {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use sha2::{Digest, Sha256};
    let page = pgassay_report::html(&fixture::hostile());
    let script = page.split_once("<script type=\"module\">").expect("one").1;
    let script = script.split_once("</script>").expect("its end").0;
    let hash = BASE64_STANDARD.encode(Sha256::digest(script));
    let named = format!("script-src 'sha256-{hash}'");
    assert!(page.contains(&named), "{named}");
    for forbidden in [
        "fetch(",
        "XMLHttp",
        "innerHTML",
        "eval(",
        "import",
        "localStorage",
        "<!--",
    ] {
        assert!(!script.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn hostile_names_stay_text() {
    let page = pgassay_report::html(&fixture::hostile());
    assert_eq!(page.matches("<script").count(), 1, "markup got through");
    assert!(page.contains("&lt;script&gt;"), "the text itself is shown");
    assert_eq!(
        page.matches("</style>").count(),
        1,
        "the style was closed early"
    );
    let odd = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!page.contains(odd), "a control character got through");
}

#[test]
fn it_is_well_formed() {
    const VOID: [&str; 2] = ["meta", "br"];
    for (name, analysis) in all() {
        let page = pgassay_report::html(&analysis);
        let body = &page[page.find("<body>").expect("a body")..];
        let mut open: Vec<&str> = vec![];
        for piece in body.split('<').skip(1) {
            let (tag, _) = piece.split_once('>').expect("every tag ends");
            let word = tag.split(' ').next().unwrap_or_default();
            match word.strip_prefix('/') {
                Some("html") => {}
                Some(end) => assert_eq!(open.pop(), Some(end), "{name}"),
                None if VOID.contains(&word) => {}
                None => open.push(word),
            }
        }
        assert!(open.is_empty(), "{name}: left open: {open:?}");
    }
}

/// The link that skips the head led to `#results` on pages that have no such section.
#[test]
fn ids_are_unique_and_references_resolve() {
    for (name, analysis) in all() {
        resolves(name, &pgassay_report::html(&analysis));
    }
    let page = pgassay_report::html(&fixture::checked());
    assert!(
        page.contains("class=\"skip\""),
        "there is a link to skip by"
    );
}

/// `report RUN RUN --format html` was refused: now all are on one page.
#[test]
fn several_reports_share_a_page_and_no_name() {
    let (one, two) = (fixture::complete(), fixture::hostile());
    let page = pgassay_report::html_of_all(&[one.document(), two.document(), one.document()]);
    resolves("several", &page);
    assert_eq!(page.matches("<html").count(), 1);
    assert_eq!(page.matches("<main").count(), 1);
    assert_eq!(page.matches("<h1>").count(), 3);
    assert_eq!(page.matches("<script").count(), 1, "markup got through");
    for number in 1..=3 {
        assert!(page.contains(&format!("id=\"report-{number}-results\"")));
    }
}

fn resolves(name: &str, page: &str) {
    let tags = tags(page);
    let mut ids: Vec<&str> = tags
        .iter()
        .filter_map(|(_, attributes)| own_id(attributes))
        .collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "{name}: an id stands twice");
    for (tag, attributes) in &tags {
        let labels = attribute(attributes, "aria-labelledby").unwrap_or_default();
        let target = attribute(attributes, "href").and_then(|h| h.strip_prefix('#'));
        for id in labels.split_whitespace().chain(target) {
            assert!(ids.contains(&id), "{name}: {tag} refers to {id}");
        }
    }
}

#[test]
fn it_can_be_read_without_seeing_it() {
    for (name, analysis) in all() {
        let page = pgassay_report::html(&analysis);
        assert!(page.contains("<html lang=\"en\">"), "{name}: no language");
        let mut level = 0;
        for (tag, attributes) in tags(&page) {
            if let Some(next) = tag.strip_prefix('h').and_then(|n| n.parse::<u32>().ok()) {
                assert!(next <= level + 1, "{name}: h{level} is followed by h{next}");
                level = next;
            }
            if tag == "th" {
                assert!(
                    attribute(attributes, "scope").is_some(),
                    "{name}: th {attributes}"
                );
            }
            if tag == "svg" {
                let image = attribute(attributes, "role") == Some("img")
                    && attribute(attributes, "aria-labelledby").is_some();
                let hidden = attribute(attributes, "aria-hidden") == Some("true");
                assert!(image || hidden, "{name}: svg {attributes}");
                assert!(
                    attribute(attributes, "viewBox").is_some(),
                    "{name}: svg {attributes}"
                );
            }
        }
        let count = |what: &str| page.matches(what).count();
        assert_eq!(
            count("<table"),
            count("<caption>"),
            "{name}: a table without a caption"
        );
        assert_eq!(
            count("class=\"chart"),
            count("<desc"),
            "{name}: a chart without words"
        );
    }
}

#[test]
fn rows_are_columns_on_a_phone_where_there_are_few_of_many_columns() {
    let body = |page: String| page[page.find("<body>").expect("a body")..].to_owned();
    // four points, eight columns
    let page = body(pgassay_report::html(&fixture::warned()));
    let turned = page.split("class=\"scroll turned\"").nth(1);
    let table = turned.and_then(|rest| rest.split("</table>").next());
    let table = table.expect("one table is turned");
    let heads = table.matches("scope=\"col\"").count();
    let rows = table.matches("scope=\"row\"").count();
    assert!(rows == 4 && heads == 8, "{table}");
    let told = format!("style=\"--columns:{heads};--rows:{rows}\"");
    assert!(table.contains(&told), "{table}");
    // eight points are there to be held against one another
    let page = body(pgassay_report::html(&fixture::complete()));
    assert!(page.contains("<table>") && !page.contains("turned"));
}

#[test]
fn every_trial_is_drawn() {
    let analysis = fixture::complete();
    let page = pgassay_report::html(&analysis);
    let trials: usize = analysis.main().arms[0]
        .points
        .iter()
        .map(|p| p.trials.len())
        .sum();
    // throughput once, latency twice (median and p99), CPU three times (server, client, machine), steadiness
    // once; each in two sizes of picture; and the legend's own dot of the last
    let dots = page.matches("class=\"dot\"").count();
    assert_eq!(dots, trials * 7 * 2 + 1);
}

/// The colours of the first block of custom properties after `from`.
fn colours(style: &str, from: &str) -> std::collections::BTreeMap<String, String> {
    let block = style.split(from).nth(1).expect("the block is there");
    let block = block.split('}').next().unwrap_or_default();
    block
        .split(';')
        .filter_map(|d| d.trim().trim_start_matches("{").trim().split_once(':'))
        .filter(|(name, value)| name.starts_with("--") && value.trim().starts_with('#'))
        .map(|(name, value)| {
            (
                name.trim_start_matches("--").to_owned(),
                value.trim().to_owned(),
            )
        })
        .collect()
}

/// Relative luminance by WCAG 2.2.
fn luminance(colour: &str) -> f64 {
    let digits: Vec<f64> = colour
        .trim_start_matches('#')
        .chars()
        .map(|c| f64::from(c.to_digit(16).expect("a hexadecimal colour")))
        .collect();
    let channel = |i: usize| match digits.len() {
        3 => digits[i] * 17.0,
        _ => digits[2 * i] * 16.0 + digits[2 * i + 1],
    };
    let linear = |i: usize| {
        let c = channel(i) / 255.0;
        if c <= 0.04045 {
            c / 12.92
        } else {
            ((c + 0.055) / 1.055).powf(2.4)
        }
    };
    0.2126 * linear(0) + 0.7152 * linear(1) + 0.0722 * linear(2)
}

fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn text_and_marks_stand_out_in_light_dark_and_print() {
    let page = pgassay_report::html(&fixture::complete());
    for theme in [
        ":root {",
        "prefers-color-scheme: dark) {\n  :root {",
        "@media print {\n  :root {",
    ] {
        let c = colours(&page, theme);
        let pairs = [
            ("ink", "paper"),
            ("soft", "paper"),
            ("link", "paper"),
            ("alarm", "paper"),
            ("ink", "tint"),
            ("ink", "alarm-tint"),
            ("alarm", "alarm-tint"),
            ("look-0", "paper"),
            ("look-1", "paper"),
            ("look-2", "paper"),
            ("look-3", "paper"),
        ];
        for (a, b) in pairs {
            let ratio = contrast(&c[a], &c[b]);
            assert!(ratio >= 4.5, "{theme} {a} on {b}: {ratio:.2}");
        }
    }
}

#[test]
fn ten_thousand_trials_stay_a_page() {
    let mut analysis = fixture::two_arms();
    let point = &mut analysis.stages[0].arms[0].points[0];
    let trials = point.trials.clone();
    let many = (0..10_000u32).map(|index| {
        let mut trial = trials[index as usize % trials.len()].clone();
        trial.index = index;
        trial
    });
    point.trials = many.collect();
    let page = pgassay_report::html(&analysis);
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert!(
        page.contains("One trial in 84 is drawn."),
        "nothing says so"
    );
    assert!(page.contains("The first 2,000 of"), "nothing says so");
}
