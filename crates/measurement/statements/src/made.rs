//! What a workload that was made holds, and what is not in it.

use serde::Serialize;

/// The document's schema.
pub const SCHEMA: &str = "pgassay/workload/1";

/// A workload that was made of what a server ran.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Made {
    /// `pgassay/workload/1`.
    pub schema: &'static str,
    /// The version of pgassay.
    pub pgassay_version: &'static str,
    /// What it was made of: files, or a server.
    pub source: String,
    /// The workload file.
    pub file: String,
    /// The file of the sessions, where they are recorded.
    pub sessions_file: Option<String>,
    /// Transactions in it.
    pub recorded: Option<u64>,
    /// Sessions at once.
    pub connections: Option<u32>,
    /// What the file holds of the original: `values as logged`, `values drawn from statistics`, `values replaced`.
    pub values: String,
    /// Statements that were seen.
    pub statements: u64,
    /// Of these in the scripts.
    pub covered: u64,
    /// Share of the server's time in the scripts, 0 to 1, where that is known.
    pub time_covered: Option<f64>,
    /// Sessions that were seen, in a log.
    pub sessions: Option<u64>,
    /// Seconds from the first to the last statement, in a log.
    pub seconds: Option<f64>,
    /// Its scripts, the most frequent first.
    pub scripts: Vec<MadeScript>,
    /// What is not in it, the most frequent first.
    pub left_out: Vec<LeftOut>,
    /// What a reader has to know.
    pub notes: Vec<String>,
}

/// One of its scripts.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MadeScript {
    /// Its name.
    pub name: String,
    /// Its weight.
    pub weight: u64,
    /// Share of the transactions, 0 to 1.
    pub share: f64,
    /// Share of the server's time, 0 to 1, where that is known.
    pub time_share: Option<f64>,
    /// Statements, BEGIN and COMMIT among them.
    pub statements: usize,
    /// Rows of values that were seen together; none where values are drawn from statistics.
    pub value_rows: Option<usize>,
    /// Its first statement.
    pub first: String,
}

/// What is not in it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// Why.
    pub why: String,
    /// How many statements.
    pub statements: u64,
    /// Their share of the server's time, 0 to 1, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_share: Option<f64>,
    /// An example, where one can be shown.
    pub example: Option<String>,
}

impl Made {
    /// Nothing yet.
    pub fn new(source: String, file: String, values: &str, version: &'static str) -> Self {
        Self {
            schema: SCHEMA,
            pgassay_version: version,
            source,
            file,
            sessions_file: None,
            recorded: None,
            connections: None,
            values: values.to_owned(),
            statements: 0,
            covered: 0,
            time_covered: None,
            sessions: None,
            seconds: None,
            scripts: Vec::new(),
            left_out: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Notes what is left out.
    pub fn leave_out(&mut self, why: String, statements: u64, time_share: Option<f64>) {
        match self.left_out.iter_mut().find(|one| one.why == why) {
            Some(there) => {
                there.statements += statements;
                there.time_share = there.time_share.zip(time_share).map(|(a, b)| a + b);
            }
            None => self.left_out.push(LeftOut {
                why,
                statements,
                time_share,
                example: None,
            }),
        }
    }

    /// Share of the statements that are in it.
    pub fn share(&self) -> f64 {
        self.covered as f64 / self.statements.max(1) as f64
    }
}
