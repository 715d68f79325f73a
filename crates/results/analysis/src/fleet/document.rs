//! What is concluded of many hosts, as every format shows it.

use serde::{Deserialize, Serialize};

use super::host::{KindKey, Source, Unused};
use crate::bottlenecks::{Family, Severity, Step};
use crate::stats::Estimate;

/// Name and version of the serialized form.
pub const SCHEMA: &str = "pgassay/fleet/1";

/// Many hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fleet {
    /// [`SCHEMA`].
    pub schema: String,
    /// From when the oldest collection that counts is, UTC, RFC 3339.
    pub oldest: String,
    /// From when the newest is.
    pub newest: String,
    /// The hosts, by name.
    pub hosts: Vec<FleetHost>,
    /// What is wrong: the gravest first, then what most hosts have.
    pub findings: Vec<FleetFinding>,
    /// Hosts that are alike, the largest kind first.
    pub kinds: Vec<Kind>,
    /// Hosts by a trait, such as the kernel.
    pub by: Vec<Grouping>,
    /// Collections of a host of which there is a newer one.
    pub superseded: Vec<Superseded>,
    /// What lay there and was not used, as far as it is named.
    pub left_out: Vec<LeftOut>,
    /// How much was not used, by why.
    pub left_out_counts: Vec<(Unused, u32)>,
}

/// A host in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetHost {
    /// What it is called, by where it was read from.
    pub name: String,
    /// The file or directory.
    pub place: String,
    /// What made it.
    pub source: Source,
    /// When, UTC, RFC 3339.
    pub collected: String,
    /// Its kind, as a number in the list of kinds.
    pub kind: usize,
    /// Its findings: entries of the catalogue, the gravest first.
    pub findings: Vec<String>,
    /// The gravest finding's weight.
    pub gravest: Option<Severity>,
    /// In how many traits it differs from its kind.
    pub odd: u32,
    /// Why its audit is not whole, or that it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

/// Something that is wrong on some hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetFinding {
    /// The entry of the catalogue.
    pub id: String,
    /// The bottleneck in a few words.
    pub title: String,
    /// Its family; none for one that this pgassay does not know.
    pub family: Option<Family>,
    /// How much it weighs where it weighs most.
    pub severity: Severity,
    /// On how many of how many hosts that could be judged.
    pub hosts: Share,
    /// On how many of them a load showed it.
    pub measured: u32,
    /// The hosts, by name; those on which it weighs most first.
    pub on: Vec<String>,
    /// One of them.
    pub example: Example,
}

/// A host on which something is wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Example {
    /// The host.
    pub host: String,
    /// What was seen there.
    pub saw: String,
    /// What to do there.
    pub remedy: Vec<Step>,
    /// Whether the same commands cure all hosts that have it.
    pub cures_all: bool,
}

/// So many of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Share {
    /// How many.
    pub n: u32,
    /// Of how many.
    pub of: u32,
}

impl Share {
    /// 0 to 1; 0 of none.
    pub fn value(self) -> f64 {
        match self.of {
            0 => 0.0,
            of => f64::from(self.n) / f64::from(of),
        }
    }
}

/// Hosts that are alike in what makes a kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kind {
    /// What they have in common.
    pub of: KindKey,
    /// How many they are.
    pub hosts: u32,
    /// Whether they are enough for one to be called odd.
    pub judged: bool,
    /// The larger kind that is nearest to one that is not judged, as a number in the list, and in what
    /// this one differs from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<(usize, Vec<String>)>,
    /// Values that few have and nearly all others don't; those of the fewest hosts first.
    pub odd: Vec<OddTrait>,
    /// Throughput far from that of the others.
    pub odd_measured: Vec<OddMeasured>,
    /// Traits in which they differ without one value being that of nearly all.
    pub divided: Vec<Divided>,
}

/// A value that few hosts of a kind have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OddTrait {
    /// The trait: a setting's name, or words such as `kernel`.
    pub name: String,
    /// The odd value.
    pub value: String,
    /// The hosts that have it.
    pub on: Vec<String>,
    /// What nearly all others have.
    pub usual: String,
    /// How many of those of whom it is known have that.
    pub usual_on: Share,
}

/// A throughput far from that of the same work on hosts of its kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OddMeasured {
    /// The host.
    pub host: String,
    /// The run.
    pub run: String,
    /// Workload, scale and protocol.
    pub work: String,
    /// Its highest throughput.
    pub rate: Estimate,
    /// The unit.
    pub unit: String,
    /// The median of the kind.
    pub median: f64,
    /// Of how many hosts.
    pub of: u32,
    /// The modified z-score of its logarithm.
    pub score: f64,
}

/// A trait in which a kind is divided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Divided {
    /// The trait.
    pub name: String,
    /// Its values, the most frequent first, and how many hosts have each.
    pub values: Vec<(String, u32)>,
}

/// Hosts by one trait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Grouping {
    /// The trait.
    pub by: String,
    /// Its values, that of most hosts first.
    pub groups: Vec<Group>,
}

/// Hosts with one value of a trait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Group {
    /// The value; none where it is not known.
    pub value: Option<String>,
    /// How many hosts.
    pub hosts: u32,
    /// How many of them have a finding of weight medium or above.
    pub weighty: u32,
    /// Findings of all of them together.
    pub findings: u32,
    /// What most of them have: entries of the catalogue and the number of hosts, at most five.
    pub most: Vec<(String, u32)>,
}

/// A collection of a host of which there is a newer one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Superseded {
    /// The host.
    pub host: String,
    /// The older file or directory.
    pub place: String,
    /// From when it is.
    pub collected: String,
    /// The one that counts.
    pub by: String,
}

/// Something that lay there and was not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// Where.
    pub place: String,
    /// Why, in a word.
    pub because: Unused,
    /// Why, in words.
    pub why: String,
}

impl Fleet {
    /// The gravest finding's weight.
    pub fn gravest(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// How many things were left out that may have been a host's.
    pub fn missing(&self) -> u32 {
        let counts = self.left_out_counts.iter();
        let missing = counts.filter(|(why, _)| why.may_be_a_host());
        missing.map(|(_, n)| n).sum()
    }

    /// How many audits are not whole.
    pub fn incomplete(&self) -> usize {
        let hosts = self.hosts.iter();
        hosts.filter(|host| host.incomplete.is_some()).count()
    }
}
