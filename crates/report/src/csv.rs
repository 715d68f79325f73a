//! Figures in rows, for a spreadsheet or a statistics program (RFC 4180).

use pgassay_analysis::Analysis;
use pgassay_text::cell;

/// A header and rows of as many fields.
#[derive(Debug, Clone)]
pub struct Rows {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Rows {
    /// No rows yet.
    pub fn new<'a>(header: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            header: header.into_iter().map(str::to_owned).collect(),
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

/// One row a trial, in the order in which they were measured.
pub fn trials(analysis: &Analysis) -> Rows {
    let mut rows = Vec::new();
    let load = analysis.main();
    for (arm, did) in analysis.arms.iter().zip(&load.arms) {
        for point in &did.points {
            for trial in &point.trials {
                rows.push((
                    trial.index,
                    vec![
                        cell(&analysis.run.id),
                        cell(&load.plan.workload.name),
                        cell(&arm.label),
                        cell(&arm.target),
                        point.point.clients.to_string(),
                        point.point.threads.to_string(),
                        trial.index.to_string(),
                        figure(Some(trial.throughput_tps)),
                        figure(Some(trial.p50_us)),
                        figure(Some(trial.p99_us)),
                        figure(Some(trial.client_cpu_us_per_transaction)),
                        figure(trial.server_cpu_us_per_transaction),
                    ],
                ));
            }
        }
    }
    rows.sort_by_key(|(index, _)| *index);
    let mut table = Rows::new([
        "run",
        "workload",
        "arm",
        "target",
        "clients",
        "threads",
        "trial",
        "throughput_tps",
        "p50_us",
        "p99_us",
        "client_cpu_us_per_transaction",
        "server_cpu_us_per_transaction",
    ]);
    for (_, row) in rows {
        table.push(row);
    }
    table
}
