//! Comparing primitives inside the servers: each arm's sessions call one of the
//! extension's functions, and what is counted are its operations.

use anyhow::bail;
use pgassay_analysis::Plan;
use pgassay_analysis::compare::plan::Typed;
use pgassay_analysis::observed::SymbolTable;
use pgassay_analysis::plan::{Slice, WorkloadPlan};
use pgassay_analysis::primitives::Company;
use pgassay_analysis::record::TrialRecord;

use super::rounds::Arms;
use pgassay_engine::bench::primitives::{Sessions, is_lost, own_cpu_ns};
use pgassay_engine::bench::{Arena, SliceFailure, Watcher};
use pgassay_engine::rundir;
use pgassay_engine::workload::inserver::{self, Call, Knobs};
use pgassay_model::Failure;
use pgassay_sys::stop::Stop;

/// The newest server there could be: a version that lacks the call is found when it
/// is made there.
const ANY_VERSION: u32 = u32::MAX;

/// The call that a workload's name means: `lwlock`, or `lwlock:shared` where a
/// primitive can be used in several ways; none where it is no workload inside the server.
///
/// # Errors
/// Where the primitive has no such way, naming those that it has.
pub fn call(name: &str) -> anyhow::Result<Option<Call>> {
    let (primitive, variant) = name.split_once(':').unwrap_or((name, ""));
    if primitive == inserver::ALL {
        bail!(
            Failure::usage("primitives are compared one by one")
                .with_remedy("name one, such as --workload lwlock:shared or --workload spinlock")
        );
    }
    let calls = inserver::calls(primitive, ANY_VERSION, &Knobs::default());
    let Some(first) = calls.first() else {
        return Ok(None);
    };
    if variant.is_empty() {
        return Ok(Some(first.clone()));
    }
    let named = |call: &&Call| {
        call.variant.replace(' ', "-") == variant && call.company == Company::default()
    };
    match calls.iter().find(named) {
        Some(call) => Ok(Some(call.clone())),
        None => {
            let known: Vec<String> = calls
                .iter()
                .filter(|call| call.company == Company::default() && !call.variant.is_empty())
                .map(|call| format!("{primitive}:{}", call.variant.replace(' ', "-")))
                .collect();
            bail!(
                Failure::usage(format!("{primitive} can't be used in the way `{variant}`"))
                    .with_remedy(match known.as_slice() {
                        [] => format!("there is one way: {primitive}"),
                        known => format!("there are {}", known.join(", ")),
                    })
            )
        }
    }
}

/// The workload as it is recorded.
pub fn workload(call: &Call) -> WorkloadPlan {
    let variant = match call.variant.as_str() {
        "" => String::new(),
        variant => format!(":{}", variant.replace(' ', "-")),
    };
    WorkloadPlan {
        name: format!("{}{variant}", call.primitive),
        protocol: "simple".to_owned(),
        without_pgbench_tables: true,
        ..WorkloadPlan::default()
    }
}

/// The user's settings over those that keep other work out of the figures.
pub fn add_settings(typed: &mut [Typed]) {
    for typed in typed {
        for (name, value) in inserver::settings() {
            let set = |setting: &String| {
                let known = setting.split('=').next().unwrap_or_default();
                known.trim().eq_ignore_ascii_case(name)
            };
            if !typed.settings.iter().any(set) {
                typed.settings.push(format!("{name}={value}"));
            }
        }
    }
}

/// The sessions of all arms.
pub struct Inside {
    /// What they call.
    pub call: Call,
    /// One entry an arm.
    pub arms: Vec<Sessions>,
    /// The arms' names.
    pub labels: Vec<String>,
    /// Asked before each call.
    pub stop: Stop,
}

impl Arms for Inside {
    fn drop_last(&mut self) -> Option<SymbolTable> {
        self.arms.pop();
        None
    }
}

impl Arena for Inside {
    fn run_slice(
        &mut self,
        plan: &Plan,
        slice: Slice,
        _: &mut dyn Watcher,
    ) -> Result<TrialRecord, SliceFailure> {
        let missing =
            |what: &str| SliceFailure::Other(anyhow::anyhow!("the plan has no such {what}"));
        let count = plan
            .points
            .get(slice.point as usize)
            .ok_or_else(|| missing("point"))?
            .clients as usize;
        let label = self.labels.get(slice.arm as usize).cloned();
        let sessions = self
            .arms
            .get_mut(slice.arm as usize)
            .ok_or_else(|| missing("arm"))?;
        let started = rundir::now();
        let cpu_before = own_cpu_ns();
        let seed = plan.seed.wrapping_add(u64::from(slice.index) << 32);
        let call_us = u32::try_from(plan.window_ms.saturating_mul(1000)).unwrap_or(u32::MAX);
        let outcomes = sessions.trial(&self.call, count, seed, call_us);
        if self.stop.asked() {
            return Err(SliceFailure::Interrupted);
        }
        let seen = outcomes.map_err(|error| {
            let label = label.unwrap_or_default();
            match is_lost(&error) {
                true => SliceFailure::ServerDied(format!("the server of {label} died: {error:#}")),
                false => SliceFailure::Other(error.context(format!("{label} can't run this"))),
            }
        })?;
        let outcomes = seen.sessions;
        // From the release of all to the end of the last.
        let window = outcomes.iter().map(|o| o.late_ns + o.elapsed_ns).max();
        let operations = outcomes.iter().map(|o| o.operations).sum();
        Ok(TrialRecord {
            slice,
            started,
            window_ns: window.unwrap_or(0),
            transactions: operations,
            transactions_sent: operations,
            client_user_ns: own_cpu_ns().saturating_sub(cpu_before),
            server_cpu_ns: Some(outcomes.iter().map(|o| o.cpu_ns).sum()),
            ..TrialRecord::default()
        })
    }
}
