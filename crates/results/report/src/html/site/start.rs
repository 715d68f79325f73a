//! What is started from a page: the question before, and the output while it runs.

use maud::{Markup, html};

use super::{Bar, Form, page, text};
use crate::html::CONTENT;

/// A command that is asked for.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// What it does, in a few words: a title.
    pub title: &'a str,
    /// The command as it would be typed.
    pub command: &'a str,
    /// What of the runs is executed with it, each with what it is.
    pub executes: &'a [(String, String)],
    /// The form that starts it.
    pub form: Form,
}

/// What was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The command as it would be typed.
    pub command: String,
    /// How it stands, in a sentence.
    pub state: String,
    /// Whether it runs.
    pub runs: bool,
    /// What it said so far, or the end of it.
    pub text: String,
}

/// The page that asks whether a command shall be started.
pub fn question(question: &Question, bar: &Bar) -> String {
    page(
        question.title,
        bar,
        &html! {
            main id=(CONTENT) {
                h1 { (text(question.title)) }
                p { "This command is started, as you, where pgassay serve runs:" }
                pre { code { (text(question.command)) } }
                @if !question.executes.is_empty() {
                    h2 { "What it takes from the record" }
                    p { "Scripts, statements and settings that a run recorded are executed. If it came from somebody else, read them first." }
                    dl.executes {
                        @for (what, executed) in question.executes {
                            dt { (text(what)) }
                            dd { pre { code { @for line in executed.lines().take(LINES) { (text(line)) "\n" } } } }
                        }
                    }
                }
                (question.form.with(&html! { p { button type="submit" id="start" { "Start" } } }))
            }
        },
    )
}

/// Lines of a script that are shown.
const LINES: usize = 400;

/// The page that follows what was started; `feed` tells what is new, and `stop` ends it.
pub fn output(seen: &Output, bar: &Bar, feed: &str, stop: &Form) -> String {
    page(
        "Started here",
        bar,
        &html! {
            main id=(CONTENT) {
                h1 { "Started here" }
                pre { code { (text(&seen.command)) } }
                div id="output" data-feed=(feed) { (output_of(seen, &bar.root)) }
                @if seen.runs {
                    (stop.with(&html! {
                        p { button type="submit" id="stop" { "Stop it, and keep what was measured" } }
                    }))
                }
            }
        },
    )
}

/// The part of it that changes; `root` stands before every address of this site.
pub fn output_part(seen: &Output, root: &str) -> String {
    output_of(seen, root).into_string()
}

fn output_of(seen: &Output, root: &str) -> Markup {
    html! {
        p role="status" { (text(&seen.state)) @if seen.runs { " " a href={ (root) "/now" } { "Follow it" } } }
        pre.said tabindex="0" role="region" aria-label="Output" {
            code { @for line in seen.text.lines() { (text(line)) "\n" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_recorded_is_text() {
        let hostile = "</code><script>alert(1)</script>\u{1b}[2J";
        let executes = [(hostile.to_owned(), hostile.to_owned())];
        let asked = Question {
            title: hostile,
            command: hostile,
            executes: &executes,
            form: Form {
                to: "/start".to_owned(),
                fields: vec![("run".to_owned(), "\"><script>alert(1)</script>".to_owned())],
            },
        };
        let seen = Output {
            command: hostile.to_owned(),
            state: "It runs.".to_owned(),
            runs: true,
            text: hostile.to_owned(),
        };
        let bar = Bar::default();
        for page in [
            question(&asked, &bar),
            output(&seen, &bar, "/started", &asked.form),
        ] {
            assert!(
                !page.contains("<script>alert") && !page.contains('\u{1b}'),
                "{page}"
            );
        }
    }
}
