//! One row a trial, for a spreadsheet or a statistics program (RFC 4180).

use pgassay_analysis::Analysis;

/// The trials as comma-separated values with a header line; what was not seen stays empty.
pub fn csv(analysis: &Analysis) -> String {
    let mut rows = Vec::new();
    for arm in &analysis.arms {
        for point in &arm.points {
            for trial in &point.trials {
                rows.push((
                    trial.index,
                    [
                        field(&analysis.run.id),
                        field(&analysis.plan.workload.name),
                        field(&arm.label),
                        field(&arm.target),
                        point.point.clients.to_string(),
                        point.point.threads.to_string(),
                        trial.index.to_string(),
                        figure(Some(trial.throughput_tps)),
                        figure(Some(trial.p50_us)),
                        figure(Some(trial.p99_us)),
                        figure(Some(trial.client_cpu_us_per_transaction)),
                        figure(trial.server_cpu_us_per_transaction),
                    ]
                    .join(","),
                ));
            }
        }
    }
    rows.sort_by_key(|(index, _)| *index);
    let mut out = String::from(
        "run,workload,arm,target,clients,threads,trial,throughput_tps,p50_us,p99_us,\
         client_cpu_us_per_transaction,server_cpu_us_per_transaction\n",
    );
    for (_, row) in rows {
        out.push_str(&row);
        out.push('\n');
    }
    out
}

fn figure(value: Option<f64>) -> String {
    match value {
        Some(value) if value.is_finite() => value.to_string(),
        _ => String::new(),
    }
}

fn field(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
