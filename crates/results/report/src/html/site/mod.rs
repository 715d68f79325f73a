//! The pages of `pgassay serve`: reports under a bar that leads from one to the other, the list of
//! runs, and a run that is measured now.
//!
//! They are made of the same parts as a report's file. What they add is one more script of ours, which
//! asks the server that they came from, and no other.

mod list;
mod live;
mod start;

pub use list::{Choice, List, Listed, Row, list, rows};
pub use live::{Controls, live, live_parts};
pub use start::{Output, Question, output, output_part, question};

use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::{CONTENT, SCRIPT, STYLE, body_of, foot_of, head_of, text};
use crate::document::Document;

const SITE_STYLE: &str = include_str!("site.css");
const SITE_SCRIPT: &str = include_str!("site.js");

/// What a page may do: run our two scripts, ask the server it came from, and send a form to it.
pub static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |script: &str| BASE64_STANDARD.encode(Sha256::digest(script));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}' 'sha256-{}'; \
         connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        hash(SCRIPT.as_str()),
        hash(SITE_SCRIPT)
    )
});

/// A link: where to, and what it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// An address of this site, `%` and `&` as they stand in addresses.
    pub to: String,
    /// What it is called.
    pub name: String,
}

impl Link {
    /// A link to an address of this site.
    pub fn new(to: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            to: to.into(),
            name: name.into(),
        }
    }
}

/// A form that a page sends when its button is pressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// An address of this site.
    pub to: String,
    /// Names and values of what it sends.
    pub fields: Vec<(String, String)>,
}

impl Form {
    fn with(&self, button: &Markup) -> Markup {
        html! {
            form method="post" action=(self.to) {
                @for (name, value) in &self.fields {
                    input type="hidden" name=(name) value=(value);
                }
                (button)
            }
        }
    }
}

/// What stands above every page.
#[derive(Debug, Clone, Default)]
pub struct Bar {
    /// What stands before every address of this site.
    pub root: String,
    /// What can be done with what is shown.
    pub links: Vec<Link>,
    /// Runs that are measured now.
    pub live: Vec<Link>,
}

/// A part of an address, such as a name, in the form that it has there.
pub fn escaped(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Stands for the bar in a page that is kept while the bar changes: it is the first of its kind in
/// the page, as foreign text is escaped.
pub const BAR: &str = "<!--bar-->";

/// A report under the bar, which is [`bar()`]'s or [`BAR`]. Below it links, such as to the runs that
/// it is about.
pub fn report(document: &Document, bar: &str, below: &[Link]) -> String {
    page_under(
        &document.title,
        &PreEscaped(bar.to_owned()),
        &html! {
            (head_of(document))
            main id=(CONTENT) {
                (body_of(document))
                @if !below.is_empty() {
                    section {
                        h2 { "Its runs" }
                        ul { @for link in below { li { (self::link(link)) } } }
                    }
                }
            }
            (foot_of(document))
        },
    )
}

/// A page that says why there is nothing to show, and what to do.
pub fn message(title: &str, said: &str, remedy: &str, bar: &Bar) -> String {
    page(
        title,
        bar,
        &html! {
            main id=(CONTENT) {
                h1 { (text(title)) }
                p { (text(said)) }
                @if !remedy.is_empty() { p { em { "What to do:" } " " (text(remedy)) } }
            }
        },
    )
}

/// A page that is loaded anew every two seconds, until there is what is waited for.
pub fn waiting(title: &str, said: &str, bar: &Bar) -> String {
    page(
        title,
        bar,
        &html! {
            main id=(CONTENT) {
                h1 { (text(title)) }
                p role="status" data-waiting="2" { (text(said)) }
            }
        },
    )
}

fn link(link: &Link) -> Markup {
    html! { a href=(link.to) { (text(&link.name)) } }
}

/// The bar.
pub fn bar(bar: &Bar) -> String {
    let markup = html! {
        div.bar role="navigation" aria-label="Site" {
            a.home href={ (bar.root) "/" } { "pgassay" }
            a href={ (bar.root) "/" } { "Runs" }
            a href={ (bar.root) "/history" } { "History" }
            @for live in &bar.live {
                a.live href=(live.to) { "● " (text(&live.name)) }
            }
            span.own {
                @for link in &bar.links { (self::link(link)) }
            }
        }
    };
    markup.into_string()
}

fn page(title: &str, bar: &Bar, body: &Markup) -> String {
    page_under(title, &PreEscaped(self::bar(bar)), body)
}

fn page_under(title: &str, bar: &Markup, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (text(title)) " · pgassay" }
                script type="module" { (PreEscaped(SCRIPT.as_str())) }
                script type="module" { (PreEscaped(SITE_SCRIPT)) }
                style { (PreEscaped(STYLE)) (PreEscaped(SITE_STYLE)) }
            }
            body.site {
                a.skip href={ "#" (CONTENT) } { "Skip to the content" }
                (bar)
                (body)
            }
        }
    };
    let mut page = page.into_string();
    page.push('\n');
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_in_addresses_and_in_pages() {
        assert_eq!(escaped("a b/../é\"<"), "a%20b%2F..%2F%C3%A9%22%3C");
        let bar = Bar {
            links: vec![Link::new("/run/x", "<script>alert(1)</script>")],
            ..Bar::default()
        };
        let page = message("<b>", "\u{1b}[2J\"'><img src=x onerror=alert(1)>", "", &bar);
        assert!(!page.contains("<b>") && !page.contains("<img"), "{page}");
        assert!(!page.contains("<script>alert"), "{page}");
        assert!(!page.contains('\u{1b}'));
    }

    #[test]
    fn the_policy_names_both_scripts_and_nothing_else() {
        assert_eq!(POLICY.matches("'sha256-").count(), 2);
        for never in ["unsafe-eval", "http:", "https:", "*", "data:"] {
            assert!(!POLICY.contains(never), "{never}");
        }
        assert!(!SITE_SCRIPT.contains("</script"));
        assert!(!SITE_STYLE.contains("</style"));
    }
}
