//! Figures in rows, for a spreadsheet or a statistics program (RFC 4180).

use pgassay_analysis::Analysis;
use pgassay_analysis::metrics::METRICS;
use pgassay_text::cell;

/// A header and rows of as many fields.
#[derive(Debug, Clone)]
pub struct Rows {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    /// No rows yet.
    pub fn new<T: Into<String>>(header: impl IntoIterator<Item = T>) -> Self {
        Self {
            header: header.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. Names must have gone through [`pgassay_text::cell`].
    pub fn push(&mut self, row: Vec<String>) {
        debug_assert_eq!(row.len(), self.header.len());
        self.rows.push(row);
    }

    /// As comma-separated values.
    pub fn csv(&self) -> String {
        let into_memory = "writing into memory fails only where memory does";
        let mut writer = csv::Writer::from_writer(Vec::new());
        for row in std::iter::once(&self.header).chain(&self.rows) {
            writer.write_record(row).expect(into_memory);
        }
        let bytes = writer.into_inner().expect(into_memory);
        String::from_utf8(bytes).expect("what was written were strings")
    }
}

/// A figure as a field; empty where it was not seen or is no number.
pub fn figure(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_finite() => value.to_string(),
        _ => String::new(),
    }
}

/// One row a trial with every metric, load by load in the order in which they were measured.
pub fn trials(analysis: &Analysis) -> Rows {
    let before = [
        "run", "workload", "arm", "target", "clients", "threads", "trial",
    ];
    let metrics = METRICS.iter().map(|metric| metric.id);
    let mut table = Rows::new(before.into_iter().chain(metrics));
    for load in std::iter::once(analysis.main()).chain(analysis.further_loads()) {
        let mut rows = Vec::new();
        for (arm, did) in analysis.arms.iter().zip(&load.arms) {
            for point in &did.points {
                for trial in &point.trials {
                    let mut row = vec![
                        cell(&analysis.run.id),
                        cell(&load.plan.workload.name),
                        cell(&arm.label),
                        cell(&arm.target),
                        point.point.clients.to_string(),
                        point.point.threads.to_string(),
                        trial.index.to_string(),
                    ];
                    row.extend(METRICS.iter().map(|metric| figure(trial.value(*metric))));
                    rows.push((trial.index, row));
                }
            }
        }
        rows.sort_by_key(|(index, _)| *index);
        for (_, row) in rows {
            table.push(row);
        }
    }
    table
}
