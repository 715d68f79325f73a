//! Reports: one result in, one string out, in every format.
//!
//! Everything here is pure: no files, no clock, no environment. What depends on
//! the reader's terminal is an argument ([`TextStyle`]).
//!
//! Every result is a [`Report`]: it becomes a [`document::Document`] (sections of
//! paragraphs, tables, facts and charts), and each format renders that document. So
//! no format knows more than another, and no result lacks a format.

mod beside;
mod bisect;
pub mod check;
mod compare;
mod counts;
mod csv;
pub mod document;
pub mod exposition;
mod fit;
mod fleet;
mod forest;
mod guard;
mod history;
mod hosts;
mod html;
mod inspection;
mod kernels;
mod lab;
mod machines;
mod made;
mod markdown;
mod plain;
mod pooled;
mod profiles;
mod recommendation;
mod sections;
mod steps;
mod text;
pub mod tracked;
mod underway;
mod within;

use pgassay_analysis::profile::tree::CallTree;
use serde::Serialize;

pub use beside::Beside;
pub use bisect::change;
pub use csv::Rows;
pub use document::Document;
pub use guard::junit;
pub use html::site;
pub use inspection::technique;
pub use pgassay_analysis::number;
pub use text::TextStyle;

/// A result that people read as a document and programs as JSON.
pub trait Report {
    /// What people read.
    fn document(&self) -> Document;

    /// Its figures in rows, for a spreadsheet or a statistics program; none where it
    /// has none.
    fn rows(&self) -> Option<Rows> {
        None
    }

    /// Its CPU samples with their call chains; none where it has none.
    fn profiles(&self) -> Option<CallTree> {
        None
    }
}

impl Report for Document {
    fn document(&self) -> Document {
        self.clone()
    }
}

/// The summary for a terminal, in lines of at most [`TextStyle::width`] columns.
pub fn text(report: &impl Report, style: &TextStyle) -> String {
    text::render(&report.document(), style)
}

/// The answer of a run's report alone; the whole text of a report of another kind.
pub fn answer(report: &impl Report, style: &TextStyle) -> String {
    let document = report.document();
    match document.chapters.is_empty() {
        true => text::render(&document, style),
        false => text::answer(&document, style),
    }
}

/// The report as one self-contained HTML file that asks nothing of any network.
pub fn html(report: &impl Report) -> String {
    html::render(&report.document())
}

/// Several reports in one self-contained HTML file, one after the other.
pub fn html_of_all(documents: &[Document]) -> String {
    html::render_all(documents)
}

/// The report as GitHub-flavoured markdown.
pub fn markdown(report: &impl Report) -> String {
    markdown::render(&report.document())
}

/// The report as a JSON document, described by a schema in `docs/schema`.
///
/// A figure that is not a number (nothing to divide by) becomes `null`. Control characters are
/// escapes, so that no name steers the terminal that shows it.
pub fn json(report: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(report)
        .expect("results have string keys only, so they always serialize");
    text.push('\n');
    pgassay_text::json(&text)
}

/// JSON in one line, for programs of others.
fn compact(report: &impl Serialize) -> String {
    let text = serde_json::to_string(report).expect("as above");
    pgassay_text::json(&text)
}

/// The CPU samples as a file for speedscope; none where the report has none.
pub fn speedscope(report: &impl Report) -> Option<String> {
    let title = report.document().title;
    report
        .profiles()
        .map(|tree| profiles::speedscope(&tree, &title))
}

/// The CPU samples as a file for the Firefox Profiler; none where the report has none.
pub fn firefox(report: &impl Report) -> Option<String> {
    let title = report.document().title;
    report
        .profiles()
        .map(|tree| profiles::firefox(&tree, &title))
}

/// The rows as comma-separated values (RFC 4180) with a header line; what was not seen
/// stays empty. None where the report has no rows.
pub fn csv(report: &impl Report) -> Option<String> {
    report.rows().map(|rows| rows.csv())
}
