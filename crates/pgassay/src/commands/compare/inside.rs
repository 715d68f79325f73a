//! Comparing primitives inside the servers: each arm's sessions call one of the
//! extension's functions, and what is counted are its operations.

use anyhow::bail;
use pgassay_analysis::compare::plan::Typed;
use pgassay_analysis::plan::WorkloadPlan;
use pgassay_analysis::primitives::Company;

use pgassay_engine::workload::inserver::{self, Call, Knobs};
use pgassay_model::Failure;

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
