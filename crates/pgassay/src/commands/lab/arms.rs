//! The arms of a lab on this machine: what is launched or inspected for each.

use std::collections::BTreeMap;

use pgassay_analysis::lab::LabPlan;
use pgassay_analysis::lab::evidence::CodeCounts;
use pgassay_analysis::lab::plan::{ArmPlan, Measure};
use pgassay_engine::count::Emulator;
use pgassay_server::inspection::gather;
use pgassay_server::{Installations, TargetSpec};
use pgassay_sys::stop::Stop;

use crate::cli::args::GlobalArgs;
use crate::cli::lab::LabArgs;
use crate::commands::build::server_of;
use crate::terminal::Terminal;

/// What is at hand.
pub struct Arms {
    at_hand: Installations,
    stand_in: bool,
    source: bool,
    /// The targets that variants were built as, or why not.
    built: BTreeMap<String, Result<String, String>>,
}

impl Arms {
    /// Looks for installations; builds nothing.
    pub fn new(args: &LabArgs) -> Self {
        Self {
            at_hand: Installations::search(),
            stand_in: args.stand_in,
            source: args.source.is_some(),
            built: BTreeMap::new(),
        }
    }

    /// Builds the variants of a plan, where there is a source. One that can't be built is missing, with
    /// the reason.
    ///
    /// # Errors
    /// Where somebody asked for a stop.
    pub fn build(
        &mut self,
        plan: &LabPlan,
        args: &LabArgs,
        global: &GlobalArgs,
        terminal: &Terminal,
        stop: &Stop,
    ) -> anyhow::Result<()> {
        let Some(source) = &args.source else {
            return Ok(());
        };
        for arm in plan.arms.iter().filter(|arm| arm.variant.is_some()) {
            let built = super::build(arm, source, global, terminal, stop);
            if stop.asked() {
                built?;
                continue;
            }
            let built = built.map_err(|error| format!("it can't be built: {error:#}"));
            self.built.insert(arm.name.clone(), built);
        }
        Ok(())
    }

    /// The target of an arm.
    ///
    /// # Errors
    /// Why it can't be had, with the remedy.
    pub fn target(&self, arm: &ArmPlan, measure: Measure) -> Result<String, String> {
        if let Some(variant) = &arm.variant {
            return match self.built.get(&arm.name) {
                Some(built) => built.clone(),
                // A dry run builds nothing.
                None if self.source => Ok(format!("build:SOURCE-{variant}")),
                None => Err("built from source, which --source SOURCE names".to_owned()),
            };
        }
        let target = arm.target.clone().unwrap_or_default();
        if arm.machine().is_some() {
            // What is there is found there.
            return Ok(target);
        }
        let spec: TargetSpec = target.parse().map_err(|error| format!("{error}"))?;
        if let (TargetSpec::Build(name), Measure::Inspect) = (&spec, measure)
            && server_of(name).is_some()
        {
            return Ok(target);
        }
        if let Some(host) = &arm.host {
            return self.foreign(target, &spec, host);
        }
        match spec.installation(&self.at_hand) {
            Ok(_) => Ok(target),
            Err(_) if spec.stand_in().is_some() && self.stand_in => Ok(target),
            Err(_) if spec.stand_in().is_some() => Err(format!(
                "{target} is not installed; --stand-in fetches an archived one"
            )),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Arms {
    /// A target that is a server of another processor.
    fn foreign(&self, target: String, spec: &TargetSpec, host: &str) -> Result<String, String> {
        let emulator: Emulator = host.parse()?;
        match spec.programs() {
            Ok(Some(_)) => return Ok(target),
            Ok(None) => {}
            Err(error) => return Err(error.to_string()),
        }
        match spec.stand_in_for(emulator.machine()) {
            Some(_) if self.stand_in => Ok(target),
            Some(_) => Err(format!(
                "{target} for {} is no server of this machine; --stand-in fetches an archived one",
                emulator.machine()
            )),
            None => Err(format!(
                "no archive of {target} for {} is known",
                emulator.machine()
            )),
        }
    }
}

/// The atomic instructions of each target's server.
pub fn code(targets: &[String]) -> Vec<Result<CodeCounts, String>> {
    let at_hand = Installations::search();
    targets.iter().map(|target| of(target, &at_hand)).collect()
}

fn of(target: &str, at_hand: &Installations) -> Result<CodeCounts, String> {
    let spec: TargetSpec = target.parse().map_err(|error| format!("{error}"))?;
    let path = match &spec {
        TargetSpec::Build(name) => server_of(name),
        _ => {
            let found = spec.installation(at_hand);
            let found = found.map_err(|error| error.to_string())?;
            found.map(|installation| installation.bin_dir.join("postgres"))
        }
    };
    let path = path.ok_or_else(|| format!("{target} is not at hand"))?;
    let mut problems = Vec::new();
    let gathered = gather::inspect_all(&gather::sources(&path, &mut problems));
    problems.extend(gathered.problems);
    let server = gathered.files.into_iter().find(|b| b.postgres.is_some());
    let server = server.ok_or_else(|| match problems.first() {
        Some(problem) => format!("{}: {}", problem.path, problem.error),
        None => format!("{}: no server", path.display()),
    })?;
    Ok(CodeCounts {
        lse: server.atomics.inline_lse(),
        exclusive: server.atomics.inline_llsc(),
        outline_calls: server.atomics.outline_calls(),
    })
}
