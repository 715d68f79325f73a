//! What events of processor and kernel say: their metrics, what could not be counted, and in which of
//! PostgreSQL's classes events happened.

use std::collections::BTreeMap;

use pgassay_model::observed::Unavailable;
use pgassay_model::observed::stacks::{EventStacks, SymbolTable};
use pgassay_model::reading::{Reading, Sample};
use pgassay_model::samplers;
use pgassay_model::trial::Trial;
use pgassay_readings::pmu;
use pgassay_readings::pmu::events::SOFTWARE;
use serde::{Deserialize, Serialize};

use super::stacks;
use crate::metrics::{self, MetricId};
use crate::profile::{Class, summarise};
use crate::trial_view::{Server, TrialView};
use pgassay_stats::Estimate;
use pgassay_stats::share::TOO_FEW;

/// The observer's name.
const OBSERVER: &str = "pmu";
/// What is told of a processor that counts nothing.
const CYCLES: &str = "core/cycles";

/// What could not be counted in a window: reasons, each with the events that it is the reason for.
pub fn unavailable(sample: &Sample) -> Vec<Unavailable> {
    let missing = |why: String| Unavailable {
        observer: OBSERVER.to_owned(),
        why,
    };
    for reading in [&sample.before, &sample.after] {
        if let Reading::Unavailable(why) = reading {
            return vec![missing(why.clone())];
        }
    }
    let Some(counts) = pmu::counts(sample) else {
        return Vec::new();
    };
    let is_hardware = |name: &str| !name.starts_with(SOFTWARE);
    let of_cycles = counts.absent.iter().find(|(name, _)| name == CYCLES);
    if let Some((_, why)) = of_cycles
        && !counts.events.keys().any(|name| is_hardware(name))
    {
        let mut all = vec![missing(format!("no hardware counters: {why}"))];
        let others = counts.absent.iter().filter(|(name, _)| !is_hardware(name));
        all.extend(others.map(|(name, why)| missing(format!("{name}: {why}"))));
        return all;
    }
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, why) in &counts.absent {
        let name = name.rsplit('/').next().unwrap_or(name);
        match reasons.iter_mut().find(|(known, _)| known == why) {
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    reasons
        .into_iter()
        .map(|(why, mut names)| {
            names.dedup();
            missing(format!("{}: {why}", names.join(", ")))
        })
        .collect()
}

/// The metrics of what was counted in these trials, and the smallest share of time in which an event had
/// a counter.
pub fn counted<'r>(
    trials: impl Iterator<Item = &'r Trial>,
) -> (BTreeMap<MetricId, Estimate>, Option<f64>) {
    let counted = trials.filter(|trial| trial.samples.contains_key(samplers::SERVER_EVENTS));
    let views: Vec<TrialView> = counted
        .map(|t| TrialView::of(t, Server::default()))
        .collect();
    if views.is_empty() {
        return Default::default();
    }
    let metrics = metrics::pmu::ALL.iter();
    let estimates = metrics.filter_map(|metric| Some((*metric, metric.over(&views)?)));
    let shares = views
        .iter()
        .filter_map(|view| view.events.as_ref()?.least_share());
    (estimates.collect(), shares.min_by(f64::total_cmp))
}

/// Where an event happened, by class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventClasses {
    /// Its name: `core/instructions`.
    pub event: String,
    /// Samples of it.
    pub samples: u64,
    /// How often it happened a transaction, by the samples; none where none was completed.
    pub per_transaction: Option<f64>,
    /// The classes in which it happened, the largest first; those of a few samples are left out.
    pub classes: Vec<EventClass>,
}

/// An event in one class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EventClass {
    /// The class.
    pub class: Class,
    /// Of all its occurrences, 0 to 1.
    pub share: f64,
}

impl EventClasses {
    /// How often it happened a transaction in a class; none where it is left out.
    pub fn in_class(&self, class: Class) -> Option<f64> {
        let found = self.classes.iter().find(|c| c.class == class)?;
        Some(found.share * self.per_transaction?)
    }
}

/// The samples of events by class, over windows in which so many transactions were completed.
pub fn by_class<'r>(
    records: impl Iterator<Item = &'r EventStacks> + Clone,
    symbols: &SymbolTable,
    transactions: u64,
) -> Vec<EventClasses> {
    let mut names: Vec<&str> = Vec::new();
    for record in records.clone() {
        if !names.contains(&record.event.as_str()) {
            names.push(&record.event);
        }
    }
    let of_event = |name: &str| {
        let stacks = records.clone().filter(|record| record.event == name);
        let stacks: Vec<_> = stacks.map(|record| &record.stacks).collect();
        let samples: u64 = stacks
            .iter()
            .flat_map(|record| record.seconds.iter().flatten())
            .map(|(_, samples)| u64::from(*samples))
            .sum();
        let profile = stacks::profile(stacks.into_iter(), symbols)?;
        let happened = profile.total;
        let least = TOO_FEW / samples.max(1) as f64;
        let classes = summarise(&profile).classes.into_iter();
        let classes = classes.filter(|c| c.share >= least).map(|c| EventClass {
            class: c.class,
            share: c.share,
        });
        Some(EventClasses {
            event: name.to_owned(),
            samples,
            per_transaction: (transactions > 0).then(|| happened / transactions as f64),
            classes: classes.collect(),
        })
    };
    names.into_iter().filter_map(of_event).collect()
}

#[cfg(test)]
mod tests;
