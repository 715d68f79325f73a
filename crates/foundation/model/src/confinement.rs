//! What a launched server gets besides its settings: environment, CPUs, a wrapping command.

use serde::{Deserialize, Serialize};

/// Environment, CPUs and wrapping command of a launched server, as asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ConfinementPlan {
    /// Variables of its environment, as `NAME=VALUE`.
    #[serde(default, rename = "environment", skip_serializing_if = "Vec::is_empty")]
    pub launch_environment: Vec<String>,
    /// The CPUs that it is kept on; all where none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
    /// The command that it is started through, such as `numactl --interleave=all`; empty where none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub wrap: String,
}

impl ConfinementPlan {
    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The CPUs as flags take them: `0,4,5`; none where it may use all.
    pub fn cpu_list(&self) -> Option<String> {
        let cpus: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
        (!cpus.is_empty()).then(|| cpus.join(","))
    }

    /// Flags with their values that ask for it: with `side` (`-a`) those of one target of `compare`; without, those of `run`,
    /// which has no flag for CPUs.
    pub fn flags(&self, side: &str) -> Vec<(String, String)> {
        let variables = self.launch_environment.iter();
        let variables = variables.map(|variable| ("--env", variable.clone()));
        let cpus = self.cpu_list().filter(|_| !side.is_empty());
        let cpus = cpus.map(|list| ("--cpus", list));
        let wrap = Some(("--wrap", self.wrap.clone())).filter(|(_, wrap)| !wrap.is_empty());
        let all = variables.chain(cpus).chain(wrap);
        all.map(|(flag, value)| (format!("{flag}{side}"), value))
            .collect()
    }

    /// What would be executed, each with its kind: `variable` or `command`.
    pub fn executed(&self) -> Vec<(&'static str, String)> {
        let variables = self.launch_environment.iter();
        let variables = variables.map(|variable| ("variable", variable.clone()));
        let wrap = Some(("command", self.wrap.clone())).filter(|(_, wrap)| !wrap.is_empty());
        variables.chain(wrap).collect()
    }

    /// `on CPUs 0,1, with A=1, through numactl …`; none where nothing was asked for.
    pub fn words(&self) -> Option<String> {
        let on = self.cpu_list().map(|list| match self.cpus.len() {
            1 => format!("on CPU {list}"),
            _ => format!("on CPUs {list}"),
        });
        let with = self.launch_environment.join(" ");
        let with = (!with.is_empty()).then(|| format!("with {with}"));
        let through = (!self.wrap.is_empty()).then(|| format!("through {}", self.wrap));
        let words: Vec<String> = [on, with, through].into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}
