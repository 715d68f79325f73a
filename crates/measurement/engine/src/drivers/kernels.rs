//! Kernels: threads of our own on memory that they share, without a server.

use std::time::Duration;

use pgassay_kernels::{Conditions, Form, KernelError, Outcome, Standing, forms};
use pgassay_model::point::{Point, Slice};
use pgassay_model::primitives::{InServerTrial, KernelsPlan, SessionOutcome, Variant};
use pgassay_model::trial::{Raw, Trial};
use pgassay_server::clock;
use pgassay_sys::stop::Stop;

use super::missing;
use super::own_cpu::OwnCpu;
use crate::runner::{Driver, Keep, TrialFailure, Watcher};

/// The name that stands for all of them.
pub const NAME: &str = "kernels";

/// A form as plans record it.
pub fn variant(form: &Form) -> Variant {
    let standing = match form.standing {
        Standing::Released(when) => format!("PostgreSQL's: {when}."),
        Standing::Proposed(by) => format!("Proposed: {by}."),
        Standing::Yardstick(what) => format!("A yardstick: {what}."),
    };
    let inside = form.primitive.map_or_else(String::new, |primitive| {
        format!(" The primitive {primitive} does it inside a server.")
    });
    Variant {
        primitive: form.family.to_owned(),
        variant: form.name.to_owned(),
        company: Default::default(),
        operation: format!("{} {standing}{inside}", form.operation),
    }
}

/// The form that a plan recorded; none if this program or processor has none of that name.
pub fn form(variant: &Variant) -> Option<&'static Form> {
    forms().find(|form| {
        form.is_here() && form.family == variant.primitive && form.name == variant.variant
    })
}

/// Threads on the forms of a plan.
pub struct Kernels {
    /// Which, and where.
    pub plan: KernelsPlan,
    /// What is measured.
    pub points: Vec<Point>,
    /// Length of a trial.
    pub window: Duration,
    /// Seed of the threads' random numbers.
    pub seed: u64,
    /// Looked for within each trial.
    pub stop: Stop,
}

impl Kernels {
    fn at(&self, slice: Slice) -> Option<(&Variant, usize)> {
        let point = self.points.get(slice.point as usize)?;
        let variant = self.plan.variants.get(point.variant as usize)?;
        Some((variant, point.clients as usize))
    }

    fn trial(&self, form: &Form, threads: usize, seed: u64) -> Result<Trial, KernelError> {
        let conditions = Conditions {
            threads,
            cpus: self.plan.cpus.clone(),
            window: self.window,
            think: self.plan.think,
            seed,
        };
        let started = clock::now();
        let own = OwnCpu::now();
        let outcomes = pgassay_kernels::run(form, &conditions, &self.stop)?;
        let raw = InServerTrial {
            sessions: outcomes.iter().map(session).collect(),
            ..InServerTrial::default()
        };
        // The threads are ours, too: what is left is the client's part.
        let (user, system) = own.since();
        let client = (user + system).saturating_sub(raw.cpu_ns());
        Ok(Trial {
            started: format!("{started:.3}"),
            window_ns: raw.window_ns(),
            transactions: raw.operations(),
            transactions_sent: raw.operations(),
            client_user_ns: client,
            server_cpu_ns: Some(raw.cpu_ns()),
            raw: Raw::InServer(raw),
            ..Trial::default()
        })
    }
}

fn session(outcome: &Outcome) -> SessionOutcome {
    SessionOutcome {
        operations: outcome.operations,
        elapsed_ns: outcome.elapsed_ns,
        cpu_ns: outcome.cpu_ns,
        late_ns: outcome.late_ns,
        contended: Some(outcome.contended),
        delays: Some(outcome.sleeps),
        voluntary_switches: outcome.voluntary_switches,
        involuntary_switches: outcome.involuntary_switches,
        ..SessionOutcome::default()
    }
}

impl Driver for Kernels {
    fn run(
        &mut self,
        slice: Slice,
        _: &mut dyn Watcher,
        keep: Keep<'_>,
    ) -> Result<(), TrialFailure> {
        let (variant, threads) = self.at(slice).ok_or_else(|| missing("point"))?;
        let form = form(variant).ok_or_else(|| missing("form on this processor"))?;
        let seed = self.seed.wrapping_add(u64::from(slice.index) << 32);
        match self.trial(form, threads, seed) {
            Ok(trial) => keep(trial).map_err(TrialFailure::Other),
            Err(KernelError::Interrupted) => Err(TrialFailure::Interrupted),
            Err(error @ KernelError::NoThread { .. }) => {
                Err(TrialFailure::PointOutOfReach(error.to_string()))
            }
            Err(error) => Err(TrialFailure::Other(error.into())),
        }
    }

    fn unit(&self) -> &'static str {
        "ops/s"
    }

    fn describe(&self, slice: Slice) -> String {
        self.at(slice)
            .map_or_else(String::new, |(variant, threads)| {
                format!("{} in {threads} threads", variant.title())
            })
    }

    fn takes(&self) -> Option<Duration> {
        Some(self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::inserver::{Knobs, calls};

    #[test]
    fn what_does_the_same_inside_a_server_is_a_primitive() {
        for named in forms().filter_map(|form| form.primitive) {
            let (primitive, way) = named.split_once(':').unwrap_or((named, ""));
            let calls = calls(primitive, u32::MAX, &Knobs::default());
            let known = calls
                .iter()
                .any(|call| way.is_empty() || call.variant.replace(' ', "-") == way);
            assert!(known, "{named}");
        }
    }

    #[test]
    fn every_form_is_found_by_what_a_plan_records_of_it() {
        for of in forms().filter(|form| form.is_here()) {
            let found = form(&variant(of)).expect("found");
            assert_eq!(found.title(), of.title());
        }
    }
}
