//! The page of a run that is measured now. Its parts are sent anew when they change, each by itself.

use maud::{Markup, PreEscaped, html};
use pgassay_analysis::underway::Pause;

use super::{Bar, Form, page, text};
use crate::document::Document;
use crate::html::{CONTENT, body_of, foot_of, glance, tiles};

/// What may be asked of a run from its page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controls {
    /// That it waits.
    pub pause: Form,
    /// That it goes on.
    pub unpause: Form,
}

/// The page: its parts as [`live_parts`] has them, and the address that tells what is new.
pub fn live(title: &str, parts: &str, bar: &Bar, feed: &str) -> String {
    page(
        title,
        bar,
        &html! {
            p.state id="feed-state" role="status" { "Live: read once a second." }
            div id="live" data-feed=(feed) { (PreEscaped(parts)) }
            noscript { p { "Load this page anew to see what is new." } }
        },
    )
}

/// The parts of the page that change: what the run is and how far, what can be asked of it, its last
/// minute, and what it shows so far.
pub fn live_parts(
    document: &Document,
    minute: &Document,
    controls: Option<&Controls>,
    pause: &Pause,
) -> String {
    let all = html! {
        header id="live-head" {
            h1 { (text(&document.title)) }
            div.headline {
                @for sentence in &document.headline { p { (text(sentence)) } }
            }
            @for alarm in &document.alarms {
                p.alarm role="note" { (text(alarm)) }
            }
        }
        div.controls id="live-controls" { (self::controls(controls, pause)) }
        section id="live-minute" aria-label=(text(&minute.title)) {
            @if !minute.headline.is_empty() || !minute.glance.is_empty() {
                h2 { (text(&minute.title)) }
                @for sentence in &minute.headline { p.now { (text(sentence)) } }
                (tiles(&minute.tiles))
                (glance(&minute.glance))
            }
        }
        main id=(CONTENT) {
            (tiles(&document.tiles))
            (glance(&document.glance))
            (body_of(document))
        }
        div id="live-foot" { (foot_of(document)) }
    };
    all.into_string()
}

fn controls(controls: Option<&Controls>, pause: &Pause) -> Markup {
    let Some(controls) = controls else {
        return html! {};
    };
    let (form, words) = match pause {
        Pause::No => (&controls.pause, "Pause before the next trial"),
        Pause::Asked => (&controls.unpause, "Do not pause"),
        Pause::Since { .. } => (&controls.unpause, "Go on"),
    };
    form.with(&html! { button type="submit" id="pause" { (words) } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_asked_for_nothing_where_the_site_only_reads() {
        let document = Document::default();
        let form = |to: &str| Form {
            to: to.to_owned(),
            fields: vec![("token".to_owned(), format!("of {to}"))],
        };
        let controls = Controls {
            pause: form("/pause/a"),
            unpause: form("/unpause/a"),
        };
        let parts = |pause: &Pause| live_parts(&document, &document, Some(&controls), pause);
        assert!(!live_parts(&document, &document, None, &Pause::No).contains("<form"));
        let asked = parts(&Pause::No);
        assert!(asked.contains("action=\"/pause/a\"") && !asked.contains("/unpause/"));
        assert!(asked.contains("type=\"hidden\" name=\"token\" value=\"of /pause/a\""));
        let since = Pause::Since {
            at: String::new(),
            at_most_seconds: 1,
        };
        for pause in [Pause::Asked, since] {
            assert!(parts(&pause).contains("action=\"/unpause/a\""));
        }
    }
}
