//! What must hold of every HTML report, whatever is in it.

use super::outline::{Element, parse};
use super::{all, fixture};
use pgassay_report::Report as _;

/// The body of a page and all within it, in the page's order.
fn body<'e>(page: &'e Element<'e>) -> Vec<&'e Element<'e>> {
    let mut elements = page.all();
    let body = elements.iter().position(|e| e.name == "body");
    elements.split_off(body.expect("a body"))
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
        for element in body(&parse(&page)) {
            let loads = [
                "script", "link", "img", "iframe", "object", "embed", "audio", "video", "source",
                "image", "use", "form", "base", "style",
            ];
            assert!(!loads.contains(&element.name), "{name}: {element}");
            for (attribute, value) in &element.attributes {
                let allowed = match *attribute {
                    "src" | "srcset" | "data" | "action" | "poster" | "background" => false,
                    "style" => value.starts_with("--columns:"),
                    "href" => value.starts_with('#'),
                    attribute => !attribute.starts_with("on"),
                };
                assert!(allowed, "{name}: {attribute}={value} of {element}");
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
    let policy = format!(
        "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; \
         base-uri 'none'; form-action 'none'\""
    );
    assert!(page.contains(&policy), "{policy}");
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
    for (name, analysis) in all() {
        for element in parse(&pgassay_report::html(&analysis)).all() {
            for place in ["d", "x", "y", "width", "height", "viewBox"] {
                let place = element.attribute(place).unwrap_or_default();
                let drawn = !place.contains("NaN") && !place.contains("inf");
                assert!(drawn, "{name}: {element} at {place}");
            }
        }
    }
    for page in ["<p><b></p></b>", "<p>", "<p", "</p>", "<p class=a></p>"] {
        let page = format!("<!DOCTYPE html>{page}");
        assert!(
            std::panic::catch_unwind(|| drop(parse(&page))).is_err(),
            "{page}"
        );
    }
}

/// The golden files of markdown have the wording, and a page has it, too.
#[test]
fn it_says_what_markdown_says() {
    for (name, analysis) in all() {
        let page = pgassay_report::html(&analysis);
        let (_, body) = page.split_once("<body>").expect("a body");
        let texts = body.split('<').filter_map(|piece| piece.split_once('>'));
        // Marks of notes stand at other places of a cell.
        let texts = texts.filter(|(tag, _)| !tag.starts_with("a class=\"mark\""));
        let texts: Vec<&str> = texts.map(|(_, text)| text).collect();
        let said = words(&texts.join(" "));
        let mut markdown = pgassay_report::markdown(&analysis);
        for n in 1..10 {
            markdown = markdown.replace(&format!("\\[{n}\\]"), "");
            markdown = markdown.replace(&format!("\n{n}. "), "\n");
        }
        for apart in [" (", "*(", "<br>", "```sh"] {
            markdown = markdown.replace(apart, "\n");
        }
        for line in markdown.lines() {
            assert!(said.contains(&words(line)), "{name}: {line}");
        }
    }
}

/// The words of a text with a blank around each; what markup escapes is none.
fn words(text: &str) -> String {
    let mut text = text.to_owned();
    for escaped in ["&amp;", "&lt;", "&gt;", "&quot;"] {
        text = text.replace(escaped, " ");
    }
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.fold(" ".to_owned(), |all, word| all + word + " ")
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
    let page = parse(page);
    let elements = body(&page);
    let ids = elements.iter().filter_map(|e| e.attribute("id"));
    let mut ids: Vec<&str> = ids.collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "{name}: an id stands twice");
    for element in &elements {
        let labels = element.attribute("aria-labelledby").unwrap_or_default();
        let target = element.attribute("href").and_then(|h| h.strip_prefix('#'));
        for id in labels.split_whitespace().chain(target) {
            assert!(ids.contains(&id), "{name}: {element} refers to {id}");
        }
    }
}

#[test]
fn it_can_be_read_without_seeing_it() {
    for (name, analysis) in all() {
        let page = pgassay_report::html(&analysis);
        assert!(page.contains("<html lang=\"en\">"), "{name}: no language");
        let mut level = 0;
        for element in body(&parse(&page)) {
            let tag = element.name;
            let has = |attribute: &str| element.attribute(attribute).is_some();
            if let Some(next) = tag.strip_prefix('h').and_then(|n| n.parse::<u32>().ok()) {
                assert!(next <= level + 1, "{name}: h{level} is followed by h{next}");
                level = next;
            }
            if tag == "th" {
                assert!(has("scope"), "{name}: {element}");
            }
            if tag == "svg" {
                let image = element.attribute("role") == Some("img") && has("aria-labelledby");
                let hidden = element.attribute("aria-hidden") == Some("true");
                assert!(image || hidden, "{name}: {element}");
                assert!(has("viewBox"), "{name}: {element}");
            }
        }
        let count = |what: &str| page.matches(what).count();
        assert_eq!(
            count("<table"),
            count("<caption>"),
            "{name}: a table without a caption"
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
    // once, each in two sizes of picture; each point's own once; and the legend's own dot of the last,
    // and of each point
    let (_, body) = page.split_once("<body>").expect("a body");
    let points = analysis.main().arms[0].points.len();
    assert_eq!(
        body.matches("h0M").count() + body.matches("h0\"").count(),
        trials * (7 * 2 + 1) + 1 + points
    );
}

/// The text in place of a picture has what a pointer reads at each estimate.
#[test]
fn a_picture_in_words_holds_every_estimate() {
    let page = pgassay_report::html(&fixture::complete());
    let mut estimates = 0;
    for words in page.split("<desc ").skip(1) {
        let (picture, _) = words.split_once("</svg>").expect("its end");
        let (words, marks) = picture.split_once("</desc>").expect("its text");
        for marks in marks.split("<path class=\"estimates\"").skip(1) {
            let (_, tips) = marks.split_once("data-tips=\"").expect("its tips");
            let (tips, _) = tips.split_once('"').expect("their end");
            for tip in tips.lines() {
                assert!(words.contains(tip), "{tip} is not in {words}");
                estimates += 1;
            }
        }
    }
    assert!(estimates > 0);
}

/// Throughput from zero upwards, clients by their logarithm.
#[test]
fn estimates_are_drawn_to_scale() {
    let analysis = fixture::complete();
    let page = pgassay_report::html(&analysis);
    let points = &analysis.main().arms[0].points;
    let clients: Vec<f64> = (points.iter())
        .map(|p| f64::from(p.point.clients).log2())
        .collect();
    let throughput: Vec<f64> = points.iter().map(|p| p.throughput_tps.estimate).collect();
    let (_, figure) = page
        .split_once("id=\"figure-throughput\"")
        .expect("the figure");
    for picture in figure.split("<svg class=\"chart\"").skip(1).take(2) {
        let (_, marks) = picture
            .split_once("<path class=\"estimates\" d=\"")
            .expect("marks");
        let (marks, _) = marks.split_once('"').expect("their end");
        let places = marks.split('M').skip(1).map(|mark| {
            let (at, _) = mark.split_once('a').expect("a circle");
            let (x, y) = at.split_once(' ').expect("two coordinates");
            let number = |text: &str| text.parse::<f64>().expect("a number");
            (number(x), number(y))
        });
        let (xs, ys): (Vec<f64>, Vec<f64>) = places.unzip();
        assert!(scale(&clients, &xs) > 0.0, "more clients stand to the left");
        assert!(
            scale(&throughput, &ys) < 0.0,
            "more throughput stands lower"
        );
    }
}

/// The pixels of a unit, which are the same between all places.
fn scale(values: &[f64], places: &[f64]) -> f64 {
    assert_eq!(values.len(), places.len());
    let (first, last) = (0, values.len() - 1);
    let scale = (places[last] - places[first]) / (values[last] - values[first]);
    for (value, place) in values.iter().zip(places) {
        let wanted = places[first] + scale * (value - values[first]);
        assert!((place - wanted).abs() < 0.2, "{value} is drawn at {place}");
    }
    scale
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
