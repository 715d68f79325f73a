//! pgbench's words for what goes wrong: scripts look for them on standard error.

use std::fmt;

use anyhow::Error;

use crate::terminal::Terminal;
use pgassay_load::ResizeError;
use pgassay_load::script::ScriptError;
use pgassay_pgwire::{ConnectError, QueryError};

/// Why pgbench's command line or its run is refused, in the lines that pgbench prints.
#[derive(Debug)]
pub struct Refusal(Vec<String>);

impl Refusal {
    /// An error.
    pub fn error(text: impl fmt::Display) -> Self {
        Refusal(Vec::new()).and_error(text)
    }

    /// A further error.
    pub fn and_error(self, text: impl fmt::Display) -> Self {
        self.line(format!("pgbench: error: {text}"))
    }

    /// More about the error.
    pub fn detail(self, text: impl fmt::Display) -> Self {
        self.line(format!("pgbench: detail: {text}"))
    }

    /// What can be done.
    pub fn hint(self, text: impl fmt::Display) -> Self {
        self.line(format!("pgbench: hint: {text}"))
    }

    /// A line as it is.
    pub fn line(mut self, text: impl Into<String>) -> Self {
        self.0.push(text.into());
        self
    }

    /// An option that does not exist, lacks its value, or is none.
    pub fn of_command_line(text: impl fmt::Display) -> Self {
        Refusal(vec![format!("pgbench: {text}")])
            .hint("Try \"pgbench --help\" for more information.")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for Refusal {}

impl From<ScriptError> for Refusal {
    fn from(error: ScriptError) -> Self {
        Refusal::error(error.as_pgbench)
    }
}

/// Tells why there is no run.
pub fn tell(error: &Error, terminal: &mut Terminal) {
    let refusal = if let Some(refusal) = error.downcast_ref::<Refusal>() {
        refusal.to_string()
    } else if let Some(query) = error.downcast_ref::<QueryError>() {
        Refusal::error(format!("query failed: {}", failed_query(query, None))).to_string()
    } else if let Some(refused) = error.downcast_ref::<ConnectError>() {
        not_connected(refused, "for setup").to_string()
    } else if let Some(ResizeError::Connect { reached, cause, .. }) = error.downcast_ref() {
        not_connected(cause, &format!("for client {reached}")).to_string()
    } else {
        Refusal::error(format!("{error:#}")).to_string()
    };
    terminal.verbatim(&refusal);
}

/// A connection that could not be had.
fn not_connected(error: &ConnectError, what_for: &str) -> Refusal {
    Refusal::error(error.in_libpqs_words())
        .and_error(format!("could not create connection {what_for}"))
}

/// What libpq says of a failed statement.
pub fn failed_query(error: &QueryError, statement: Option<&str>) -> String {
    match error.server() {
        Some(said) => said.in_libpqs_words(statement),
        None => error.to_string(),
    }
}

/// A warning.
pub fn warn(terminal: &mut Terminal, text: &str) {
    terminal.verbatim(&format!("pgbench: warning: {text}"));
}

/// What goes on.
pub fn inform(terminal: &mut Terminal, text: &str) {
    terminal.verbatim(&format!("pgbench: {text}"));
}

/// An error during the run, after which it goes on or ends with what it has.
pub fn complain(terminal: &mut Terminal, text: &str) {
    terminal.verbatim(&format!("pgbench: error: {text}"));
}
