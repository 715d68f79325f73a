//! One row a trial, for a spreadsheet or a statistics program (RFC 4180).

use pgassay_analysis::Analysis;
use pgassay_text::cell;

/// The trials as comma-separated values with a header line; what was not seen stays empty.
pub fn csv(analysis: &Analysis) -> String {
    let mut rows = Vec::new();
    for arm in &analysis.arms {
        for point in &arm.points {
            for trial in &point.trials {
                rows.push((
                    trial.index,
                    [
                        cell(&analysis.run.id),
                        cell(&analysis.plan.workload.name),
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
    let header = [
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
    ];
    table(header, rows.into_iter().map(|(_, row)| row))
}

/// Rows of values below a header, quoted by RFC 4180. Names must have gone through
/// [`pgassay_text::cell`].
pub(super) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let into_memory = "writing into memory fails only where memory does";
    writer.write_record(header).expect(into_memory);
    for row in rows {
        writer.write_record(&row).expect(into_memory);
    }
    let bytes = writer.into_inner().expect(into_memory);
    String::from_utf8(bytes).expect("what was written were strings")
}

/// A figure; empty where there is none.
pub(super) fn figure(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_finite() => value.to_string(),
        _ => String::new(),
    }
}
