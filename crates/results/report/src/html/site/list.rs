//! The list of runs.

use maud::{Markup, html};
use pgassay_analysis::quality::{Grade, Quality};
use pgassay_analysis::stats::Verdict;
use pgassay_analysis::summary::{Peak, Summary};
use pgassay_model::run::RunState;

use super::{Bar, escaped, page, text};
use crate::html::CONTENT;
use crate::number;

/// A run in the list.
#[derive(Debug, Clone)]
pub struct Row<'a> {
    /// Name of its directory.
    pub run: &'a str,
    /// What is known of it.
    pub known: Listed<'a>,
}

/// What is known of a run.
#[derive(Debug, Clone)]
pub enum Listed<'a> {
    /// It was read.
    Read(&'a Summary),
    /// It has not been read yet.
    Unread,
    /// It is measured now: what is measured.
    Running(&'a str),
    /// It can't be read: why.
    Unreadable(&'a str),
}

/// A page of the list.
#[derive(Debug, Clone)]
pub struct List<'a> {
    /// What stands before every address of this site.
    pub root: &'a str,
    /// The directory.
    pub place: &'a str,
    /// The rows of this page.
    pub rows: Vec<Row<'a>>,
    /// Runs that there are, those that match, and those that are not read yet.
    pub counts: (usize, usize, usize),
    /// The number of the first row among those that match, from 0.
    pub first: usize,
    /// Addresses of the pages before and after this.
    pub around: (Option<String>, Option<String>),
    /// What is searched for.
    pub search: &'a str,
    /// What else is chosen by.
    pub choices: Vec<Choice<'a>>,
}

/// One of several values, in a filter.
#[derive(Debug, Clone)]
pub struct Choice<'a> {
    /// Its name in addresses and above it.
    pub name: &'static str,
    /// The values, with their words.
    pub values: Vec<(String, String)>,
    /// The value that is chosen.
    pub chosen: &'a str,
}

/// The whole page.
pub fn list(list: &List, bar: &Bar) -> String {
    page(
        "Runs",
        bar,
        &html! {
            main id=(CONTENT) {
                h1 { "Runs" }
                p.place { code { (text(list.place)) } }
                (filter(list))
                div id="runs" { (table(list)) }
            }
        },
    )
}

/// The part of the page that a search changes.
pub fn rows(list: &List) -> String {
    table(list).into_string()
}

fn filter(list: &List) -> Markup {
    html! {
        form.filter id="filter" action={ (list.root) "/" } method="get" role="search" {
            label {
                span { "Search" }
                input type="search" name="q" value=(list.search) placeholder="server, setting, limit, name" autocomplete="off";
            }
            @for choice in &list.choices {
                label {
                    span { (choice.name) }
                    select name=(choice.name) {
                        @for (value, words) in &choice.values {
                            option value=(value) selected[value == choice.chosen] { (text(words)) }
                        }
                    }
                }
            }
            button type="submit" { "Filter" }
        }
    }
}

fn table(list: &List) -> Markup {
    let (all, matching, unread) = list.counts;
    let count = |n: usize| number::count(n as u64);
    html! {
        p.count role="status" data-unread=[(unread > 0).then_some(unread)] {
            @if all == 0 {
                "No run is recorded here."
            } @else if matching == all {
                (count(all)) @if all == 1 { " run" } @else { " runs" }
            } @else {
                (count(matching)) " of " (count(all)) " runs"
            }
            @if unread > 0 { "; " (count(unread)) " are still being read, and not all is found yet" }
        }
        @if all == 0 {
            pre { code { "pgassay assay temp --quick\npgassay run select-only" } }
        } @else if matching == 0 {
            p { "Nothing matches. " a href={ (list.root) "/" } { "Show all runs" } }
        } @else {
            form.runs action={ (list.root) "/compare" } method="get" {
                div.scroll role="region" aria-label="Runs" tabindex="0" {
                    table {
                        thead {
                            tr {
                                th { span.unseen { "Compare" } }
                                th scope="col" { "started (UTC)" }
                                th scope="col" { "what" }
                                th scope="col" { "server" }
                                th scope="col" { "result" }
                                th scope="col" { "curve" }
                                th scope="col" { "limit" }
                                th scope="col" { "measurement" }
                            }
                        }
                        tbody { @for row in &list.rows { (self::row(row, list.root)) } }
                    }
                }
                div.below {
                    button type="submit" id="compare" { "Compare the chosen" }
                    nav.pages aria-label="Pages" {
                        @if let Some(newer) = &list.around.0 { a rel="prev" href=(newer) { "← newer" } }
                        span { (count(list.first + 1)) "–" (count(list.first + list.rows.len())) " of " (count(matching)) }
                        @if let Some(older) = &list.around.1 { a rel="next" href=(older) { "older →" } }
                    }
                }
            }
        }
    }
}

fn row(row: &Row, root: &str) -> Markup {
    let to = format!("{root}/run/{}", escaped(row.run));
    html! {
        tr {
            td.choose {
                @if matches!(row.known, Listed::Read(_)) {
                    input type="checkbox" name="run" value=(row.run) aria-label={ "Compare " (text(row.run)) };
                }
            }
            @match &row.known {
                Listed::Read(summary) => (read(summary, &to)),
                Listed::Unread => {
                    (name(row.run, &to)) td colspan="5" { span.remark { "not read yet" } }
                },
                Listed::Running(what) => {
                    td.started { "now" }
                    th scope="row" { a href=(to) { (text(what)) } }
                    td colspan="5" { a.live href=(to) { "● being measured: follow it" } }
                },
                Listed::Unreadable(why) => {
                    (name(row.run, &to)) td colspan="5" { span.remark { "can't be read: " (text(why)) } }
                },
            }
        }
    }
}

/// All that is known of a run without reading it.
fn name(run: &str, to: &str) -> Markup {
    html! { td.started {} th scope="row" { a href=(to) { (text(run)) } } }
}

fn read(summary: &Summary, to: &str) -> Markup {
    let what = match summary.command.as_str() {
        "run" | "" => summary.workload.clone(),
        command => format!("{command}: {}", summary.workload),
    };
    html! {
        td.started { time datetime=(text(&summary.started)) { (started(&summary.started)) } }
        th scope="row" { a href=(to) title=(text(&summary.run)) { (text(&what)) } }
        td.server { (text(&summary.servers.join(" / "))) }
        td.result {
            @if let Some(verdict) = summary.verdict {
                span class={ "verdict " (rating(verdict)) } { (word(verdict)) } " "
            }
            @match &summary.peak {
                Some(peak) if summary.verdict.is_none() && !summary.curve.is_empty() => (self::peak(peak)),
                _ => span.said title=(text(&summary.result)) { (text(&summary.result)) },
            }
        }
        td.curve { (curve(&summary.curve)) }
        td.limit { (text(summary.limit.as_deref().unwrap_or(number::NONE))) }
        td.quality { (quality(summary.quality.as_ref(), summary.state, summary.trials)) }
    }
}

/// `2026-11-22 15:25`, and whatever it is as it is.
fn started(started: &str) -> String {
    let minute = started.get(..16).filter(|s| s.is_ascii());
    minute.map_or_else(|| text(started), |minute| text(&minute.replace('T', " ")))
}

fn peak(peak: &Peak) -> Markup {
    let shown = number::shown(&peak.rate);
    html! {
        strong { (shown.value) } " " (text(&peak.unit))
        @if let Some(interval) = shown.interval { " " span.interval { (interval.ends) " at " (peak.clients) } }
    }
}

fn rating(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster | Verdict::Equivalent => "good",
        Verdict::Slower => "bad",
        Verdict::Inconclusive | Verdict::NotComparable => "fair",
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "better",
        Verdict::Slower => "worse",
        Verdict::Equivalent => "equivalent",
        Verdict::Inconclusive => "inconclusive",
        Verdict::NotComparable => "not comparable",
    }
}

fn quality(quality: Option<&Quality>, state: RunState, (done, planned): (u32, u32)) -> Markup {
    let ended = match state {
        RunState::Complete | RunState::Running => None,
        RunState::Interrupted => Some("interrupted"),
        RunState::ServerDied => Some("server died"),
        RunState::Failed => Some("failed"),
    };
    html! {
        @if let Some(quality) = quality {
            @let class = match quality.grade { Grade::Good => "good", Grade::Fair => "fair", Grade::Poor => "bad" };
            span class={ "grade " (class) } title=(text(&quality.why())) { (quality.grade.name()) }
        }
        @if let Some(ended) = ended {
            span.remark { " " (ended) ", " (done) " of " (planned) " trials" }
        }
    }
}

/// A small picture of throughput over clients; its words stand beside it.
fn curve(points: &[(u32, f64)]) -> Markup {
    const WIDTH: f64 = 88.0;
    const HEIGHT: f64 = 24.0;
    let most = points.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let (Some((first, _)), Some((last, _))) = (points.first(), points.last()) else {
        return html! {};
    };
    let low = f64::from((*first).max(1)).ln();
    let span = f64::from((*last).max(1)).ln() - low;
    if points.len() < 2 || most <= 0.0 || span <= 0.0 {
        return html! {};
    }
    let place = |(clients, rate): &(u32, f64)| {
        let x = 2.0 + (f64::from((*clients).max(1)).ln() - low) / span * (WIDTH - 4.0);
        let y = HEIGHT - 2.0 - rate.max(0.0) / most * (HEIGHT - 4.0);
        format!("{x:.1} {y:.1}")
    };
    let path: Vec<String> = points.iter().map(place).collect();
    let said = points
        .iter()
        .map(|(clients, rate)| format!("{clients}: {}", number::single(*rate)));
    let said: Vec<String> = said.collect();
    html! {
        svg.spark role="img" viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } width=(WIDTH) height=(HEIGHT) {
            title { "throughput over clients: " (said.join(", ")) }
            g.look-0 { path.course d={ "M" (path.join("L")) } {} }
        }
    }
}
