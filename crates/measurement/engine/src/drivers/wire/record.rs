//! What a slice came to, as it is recorded.

use std::collections::BTreeMap;

use pgassay_load::{Latency, SliceResult};
use pgassay_model::trial::{ClientCalls, ScriptRecord, StatementRecord, Trial};
use pgassay_model::workload::WorkloadPlan;

/// The record of a slice.
pub(in crate::drivers) fn record(result: &SliceResult, workload: &WorkloadPlan) -> Trial {
    let scheduled = result.latency_from_actual.is_some();
    Trial {
        window_ns: result.window_ns,
        transactions: result.transactions,
        failures: result.failures.clone(),
        failure_examples: examples(result),
        latency: result.latency.to_base64(),
        latency_from_actual_start: result.latency_from_actual.as_ref().map(|l| l.to_base64()),
        intervals: result.intervals.iter().map(|i| i.transactions).collect(),
        interval_latency: result
            .intervals
            .iter()
            .map(|interval| match interval.latency() {
                latency if latency.count() == 0 => String::new(),
                latency => latency.to_base64(),
            })
            .collect(),
        client_user_ns: result.client_user_ns(),
        client_system_ns: result.client_system_ns(),
        busiest_thread_share: Some(result.busiest_thread_share()),
        client_calls: Some(client_calls(result)),
        transactions_sent: result.transactions_sent,
        retries: result.retries,
        skipped: result.skipped,
        late: result.late,
        behind: result.behind,
        lag_sum_ns: scheduled.then_some(result.lag_sum_ns),
        lag_max_ns: scheduled.then_some(result.lag_max_ns),
        first: (result.first.count() > 0).then(|| result.first.to_base64()),
        connects: (result.connects.count() > 0).then(|| result.connects.to_base64()),
        scripts: script_records(result, workload),
        ..Trial::default()
    }
}

/// An example of each failure that was counted.
fn examples(result: &SliceResult) -> BTreeMap<String, String> {
    let examples = result.failure_examples.iter();
    let counted = examples.filter(|(state, _)| result.failures.contains_key(*state));
    counted
        .map(|(state, example)| (state.clone(), example.clone()))
        .collect()
}

fn client_calls(result: &SliceResult) -> ClientCalls {
    let calls = result.system_calls();
    ClientCalls {
        receive: calls.receive,
        send: calls.send,
        wait: calls.wait,
        enter: calls.enter,
        gathered: calls.gathered,
    }
}

/// What each script came to, where the workload has several or its statements are measured.
fn script_records(result: &SliceResult, workload: &WorkloadPlan) -> Vec<ScriptRecord> {
    let kept = |latency: &Latency| (latency.count() > 0).then(|| latency.to_base64());
    result
        .scripts
        .iter()
        .enumerate()
        .filter(|(_, script)| script.latency.is_some())
        .map(|(at, script)| ScriptRecord {
            name: workload
                .scripts
                .get(at)
                .map_or_else(String::new, |plan| plan.name.clone()),
            transactions: script.transactions,
            failures: script.failures,
            latency: script.latency.as_ref().and_then(kept),
            statements: script
                .commands
                .iter()
                .map(|command| StatementRecord {
                    failures: command.failures,
                    latency: command.latency.as_ref().and_then(kept),
                    cpu: None,
                })
                .collect(),
        })
        .collect()
}
