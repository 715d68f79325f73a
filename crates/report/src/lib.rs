//! Reports: one [`Analysis`] in, one string out, in every format.
//!
//! Everything here is pure: no files, no clock, no environment. What depends on
//! the reader's terminal is an argument ([`TextStyle`]).
//!
//! An analysis becomes a `document::Document` first (sections of paragraphs,
//! tables, facts and charts, made under `sections/`), and each format renders that
//! document. So no format knows more than another, and a new kind of result is
//! one new file under `sections/` and one line in its registry.

pub mod check;
mod compare;
mod csv;
mod document;
mod history;
mod html;
mod kernels;
mod markdown;
pub mod number;
mod plain;
mod sections;
mod text;

use pgassay_analysis::Analysis;
use pgassay_analysis::compare::Compare;
use pgassay_analysis::diagnose::Diagnosis;

pub use compare::{compare_csv, compare_html, compare_json, compare_markdown, compare_text};
pub use csv::csv;
pub use history::{history_csv, history_html, history_markdown, history_text};
pub use kernels::{kernels_html, kernels_markdown, kernels_text};
pub use text::TextStyle;

/// The summary for a terminal, in lines of at most [`TextStyle::width`] columns.
pub fn text(analysis: &Analysis, style: &TextStyle) -> String {
    text::render(&sections::document(analysis), style)
}

/// The report as one self-contained HTML file that asks nothing of any network.
pub fn html(analysis: &Analysis) -> String {
    html::render(&sections::document(analysis))
}

/// What one of several reports is about.
#[derive(Debug)]
pub enum Concluded<'a> {
    /// A run.
    Run(&'a Analysis),
    /// A comparison.
    Compared(&'a Compare),
}

/// Several reports in one self-contained HTML file, one after the other.
pub fn html_of_all(reports: &[Concluded]) -> String {
    let documents: Vec<_> = reports
        .iter()
        .map(|report| match report {
            Concluded::Run(analysis) => sections::document(analysis),
            Concluded::Compared(compared) => compare::document(compared),
        })
        .collect();
    html::render_all(&documents)
}

/// The report as GitHub-flavoured markdown.
pub fn markdown(analysis: &Analysis) -> String {
    markdown::render(&sections::document(analysis))
}

/// The document `pgassay/analysis/1`, described by `docs/schema/analysis-1.json`.
///
/// A figure that is not a number (nothing to divide by) becomes `null`.
pub fn json(analysis: &Analysis) -> String {
    let mut text = serde_json::to_string_pretty(analysis)
        .expect("an analysis has string keys only, so it always serializes");
    text.push('\n');
    text
}

/// A diagnosis for a terminal.
pub fn diagnosis_text(diagnosis: &Diagnosis, style: &TextStyle) -> String {
    text::render(&sections::diagnosis::document(diagnosis), style)
}

/// A diagnosis as one self-contained HTML file.
pub fn diagnosis_html(diagnosis: &Diagnosis) -> String {
    html::render(&sections::diagnosis::document(diagnosis))
}

/// A diagnosis as markdown.
pub fn diagnosis_markdown(diagnosis: &Diagnosis) -> String {
    markdown::render(&sections::diagnosis::document(diagnosis))
}
