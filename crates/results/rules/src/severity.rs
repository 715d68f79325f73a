//! How much a finding weighs, how sure it is, and what its share is a share of.

use serde::{Deserialize, Serialize};

/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing need be done.
    Info,
    /// A few percent, or only under some loads.
    Low,
    /// Measurable under ordinary loads.
    Medium,
    /// Decides how fast this server is, or makes its figures meaningless.
    High,
}

impl Severity {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// How far the evidence carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The conditions are there; something else would look the same, or the load decides.
    Low,
    /// Conditions and signs are there; a part of the evidence is missing.
    Medium,
    /// The state itself was read, or the evidence names the cause.
    High,
}

impl Confidence {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// What a finding's share is a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A setting, a version, a file: what it costs was not measured.
    State,
    /// CPU samples of the server: of the time in which its sessions ran.
    CpuSamples,
    /// Wait events: of the time of sessions in a statement.
    WaitTime,
    /// Time of the machine: stolen, under pressure, beyond a quota.
    MachineTime,
    /// Throughput of windows with it and without.
    Throughput,
    /// Counters of the server over the windows.
    Counters,
    /// Time of statements, on a CPU and waiting: of the sessions' time in transactions.
    Statements,
}

impl Basis {
    /// Whether something was measured.
    pub fn is_measured(self) -> bool {
        self != Self::State
    }
}
