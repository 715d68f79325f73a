//! From a stage of a plan to the command that measures it: the same that one could type.

use std::path::Path;

use pgassay_analysis::lab::check::is_script;
use pgassay_analysis::lab::legs::Leg;
use pgassay_analysis::lab::plan::{ArmPlan, Measure, Placed, StagePlan};
use pgassay_analysis::lab::scale::BYTES_PER_SCALE;
use pgassay_sys::affinity;

use crate::cli::kinds::Kind;
use crate::cli::lab::LabArgs;

/// Seconds of a trial where a stage does not say.
const SECONDS: f64 = 1.0;
/// Seconds that a trial of a run takes beside its window.
const BESIDE: f64 = 0.8;
/// Trials of a run: an interval by ranks needs six, and more than thirty show no more.
const TRIALS: (u32, u32) = (6, 30);
/// Ways of reading, or numbers of sessions, of a run that decides on them itself.
const WAYS: f64 = 4.0;
/// Seconds of a comparison's slice where a stage does not say, and between slices.
const SLICE: f64 = 0.2;
const BETWEEN: f64 = 0.12;
/// Seconds that making, filling and starting a server takes.
const START: f64 = 4.0;
/// Rounds of a comparison that can show anything: of equal servers, and of all.
const LEAST_NOISE: f64 = 6.0;
const LEAST_PAIRS: f64 = 8.0;
/// Bytes of an empty cluster with its first log.
const CLUSTER_BYTES: u64 = 60_000_000;

/// What a part of a stage is lowered from.
pub struct Lowered<'a> {
    /// The stage.
    pub stage: &'a StagePlan,
    /// The combination of its axes.
    pub leg: &'a Leg,
    /// Its arms.
    pub arms: Vec<&'a ArmPlan>,
    /// What is launched for each.
    pub targets: &'a [String],
    /// Its share of the time; it takes [`Self::takes`].
    pub minutes: f64,
    /// The plan's directory, for scripts beside it.
    pub beside: Option<&'a Path>,
}

impl Lowered<'_> {
    /// The command line, without the program's name.
    pub fn command(&self, args: &LabArgs) -> Vec<String> {
        let mut words = match self.stage.measure {
            Measure::Compare | Measure::Count => vec!["compare".to_owned()],
            Measure::Run => vec!["run".to_owned(), self.workload()],
            Measure::Inspect => {
                let mut words = vec!["inspect".to_owned()];
                words.extend(self.targets.iter().cloned());
                return words;
            }
        };
        words.extend(self.targets.iter().cloned());
        let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
        if self.stage.measure != Measure::Run {
            flag("--workload", self.workload());
        }
        let stage = self.stage;
        match stage.measure {
            Measure::Compare => flag("--minutes", format!("{:.2}", self.takes())),
            Measure::Count => {
                flag("--by", "instructions".to_owned());
                if let Some(hosts) = self.hosts() {
                    flag("--host", hosts);
                }
            }
            _ => {}
        }
        if !stage.clients.is_empty() && stage.measure != Measure::Count {
            let list: Vec<String> = stage.clients.iter().map(u32::to_string).collect();
            flag("--clients", list.join(","));
        }
        match (stage.measure, stage.seconds) {
            (Measure::Run, Some(seconds)) => flag("--time", seconds.to_string()),
            (Measure::Run, None) if !stage.clients.is_empty() => {
                flag("--time", SECONDS.to_string());
            }
            (_, Some(seconds)) => flag("--slice", seconds.to_string()),
            _ => {}
        }
        if stage.measure == Measure::Run
            && let Some(trials) = stage.trials.or_else(|| self.trials())
        {
            flag("--trials", trials.to_string());
        }
        if let Some(scale) = self.leg.scale {
            flag("--scale", scale.to_string());
        }
        for (name, value) in [("--smt", &self.leg.smt), ("--numa", &self.leg.numa)] {
            if let Some(value) = value {
                flag(name, value.clone());
            }
        }
        if let Some(cpus) = self.leg.cpus {
            flag("--cpus", cpus.to_string());
        }
        if let Some(protocol) = &stage.protocol {
            flag("--protocol", protocol.clone());
        }
        if let Some(size) = &stage.size {
            flag("--size", size.clone());
        }
        if let Some(tables) = stage.tables {
            flag("--tables", tables.to_string());
        }
        if !stage.only.is_empty() {
            flag("--only", stage.only.join(","));
        }
        if !stage.observe.is_empty() && stage.measure != Measure::Count {
            flag("--observe", stage.observe.join(","));
        }
        for setting in &stage.settings {
            flag("--set", setting.clone());
        }
        if let Some(size) = &self.leg.shared_buffers {
            flag("--set", format!("shared_buffers={size}"));
        }
        let own = match stage.measure {
            Measure::Run => ["--set", "", ""],
            _ => ["--set-a", "--set-b", "--set-c"],
        };
        for (arm, name) in self.arms.iter().zip(own) {
            for setting in &arm.settings {
                flag(name, setting.clone());
            }
        }
        if let Measure::Compare | Measure::Run = stage.measure {
            let sides = match stage.measure {
                Measure::Run => [""].as_slice(),
                _ => &["-a", "-b", "-c"],
            };
            for (arm, side) in self.arms.iter().zip(sides) {
                let mut confinement = arm.confinement();
                if let Some(Placed::AllButOne) = arm.placed {
                    confinement.cpus = all_but_one();
                }
                for (name, value) in confinement.flags(side) {
                    flag(&name, value);
                }
            }
        }
        if self.has_clients() {
            for (name, value) in machines(args) {
                flag(name, value);
            }
        }
        if let Some(scratch) = &args.scratch {
            flag("--scratch", scratch.display().to_string());
        }
        if args.stand_in {
            words.push("--stand-in".to_owned());
        }
        words
    }

    /// Whether clients over the wire give its load.
    pub fn has_clients(&self) -> bool {
        let measured = matches!(self.stage.measure, Measure::Compare | Measure::Run);
        measured
            && matches!(
                Kind::of(&self.stage.workload),
                Kind::Clients | Kind::OrderEntry
            )
    }

    /// The processors that its arms are emulated on; none where they are of this machine's.
    fn hosts(&self) -> Option<String> {
        let each = self.arms.iter().map(|arm| {
            let host = arm.host.as_deref()?;
            Some(match &arm.processor {
                Some(model) => format!("{host}:{model}"),
                None => host.to_owned(),
            })
        });
        let mut each: Vec<String> = each.collect::<Option<_>>()?;
        each.dedup();
        (!each.is_empty()).then(|| each.join(","))
    }

    /// The workload, a script by its path.
    fn workload(&self) -> String {
        let workload = &self.stage.workload;
        match self.beside {
            Some(dir) if is_script(workload) => dir.join(workload).display().to_string(),
            _ => workload.clone(),
        }
    }

    /// Trials of a run over client counts that fit into its time; none where the load decides itself.
    fn trials(&self) -> Option<u32> {
        let points = self.stage.clients.len();
        if points == 0 {
            return None;
        }
        let seconds = self.minutes * 60.0 - START;
        let fit = seconds / (points as f64 * self.trial());
        Some((fit as u32).clamp(TRIALS.0, TRIALS.1))
    }

    /// Seconds of a trial of a run.
    fn trial(&self) -> f64 {
        self.stage.seconds.unwrap_or(SECONDS) + BESIDE
    }

    /// About how many minutes it takes: its share of the time, or more where that is too short to
    /// show anything.
    pub fn takes(&self) -> f64 {
        let points = self.stage.clients.len().max(1) as f64;
        match (
            self.stage.measure,
            self.stage.trials.or_else(|| self.trials()),
        ) {
            (Measure::Inspect, _) => 0.0,
            (Measure::Run, Some(trials)) if !self.stage.clients.is_empty() => {
                (points * f64::from(trials) * self.trial() + START) / 60.0
            }
            (Measure::Run, Some(trials)) => {
                let ways = match self.stage.only.len() {
                    0 => WAYS,
                    named => named as f64,
                };
                (ways * f64::from(trials) * self.trial() + START) / 60.0
            }
            (Measure::Run | Measure::Count, _) => self.minutes,
            (Measure::Compare, _) => {
                let servers = self.arms.len() as f64;
                let slice = points * (self.stage.seconds.unwrap_or(SLICE) + BETWEEN);
                let rounds = LEAST_NOISE * 2.0 + LEAST_PAIRS * servers;
                let least = (servers + 1.0) * START + rounds * slice;
                self.minutes.max(least / 60.0)
            }
        }
    }

    /// About how many bytes its servers take on disk.
    pub fn disk_bytes(&self) -> u64 {
        let servers = match self.stage.measure {
            Measure::Compare => self.arms.len() as u64 + 1,
            Measure::Run => 1,
            Measure::Count => 2,
            Measure::Inspect => return 0,
        };
        let scale = u64::from(self.leg.scale.unwrap_or(10));
        servers * (CLUSTER_BYTES + scale * BYTES_PER_SCALE)
    }
}

/// The flags that say which machines the load of clients comes from.
pub fn machines(args: &LabArgs) -> Vec<(&'static str, String)> {
    let from = args.from.iter().map(|list| ("--from", list.to_string()));
    let listen = args.listen.iter().map(|at| ("--listen", at.to_string()));
    from.chain(listen).collect()
}

/// The CPUs that we may run on without the last; none where there is one, or nothing is known.
fn all_but_one() -> Vec<usize> {
    let mut cpus = affinity::allowed_cpus().unwrap_or_default();
    cpus.sort_unstable();
    cpus.pop();
    cpus
}

#[cfg(test)]
mod tests {
    use pgassay_analysis::host::HostSummary;
    use pgassay_analysis::lab::legs::legs;
    use pgassay_analysis::lab::scale;

    use super::super::plans;
    use super::*;

    /// Minutes of each part of a plan on two CPUs, and what it is lowered to.
    fn parts(name: &str, minutes: f64) -> Vec<(f64, Vec<String>)> {
        parts_of(name, minutes, &LabArgs::default())
    }

    fn parts_of(name: &str, minutes: f64, args: &LabArgs) -> Vec<(f64, Vec<String>)> {
        let host = HostSummary {
            cpus: Some(2),
            ..HostSummary::default()
        };
        let (plan, _) = scale::fit(&plans::find(name).unwrap().plan, &host);
        let measured = |stage: &StagePlan| stage.measure != Measure::Inspect;
        let weights = plan.stages.iter().filter(|stage| measured(stage));
        // Each combination of a stage's axes weighs as much as the stage.
        let all: f64 = weights
            .map(|stage| stage.weight * legs(stage).len() as f64)
            .sum();
        let mut parts = Vec::new();
        for stage in &plan.stages {
            let arms = plan.arms_of(stage).into_iter();
            let arms: Vec<&ArmPlan> = arms.filter_map(|arm| plan.arm(arm)).collect();
            let targets = vec!["temp".to_owned(); arms.len()];
            for leg in legs(stage) {
                let lowered = Lowered {
                    stage,
                    leg: &leg,
                    arms: arms.clone(),
                    targets: &targets,
                    minutes: minutes * stage.weight / all,
                    beside: None,
                };
                parts.push((lowered.takes(), lowered.command(args)));
            }
        }
        parts
    }

    fn is_counted(command: &[String]) -> bool {
        command.iter().any(|word| word == "--by")
    }

    #[test]
    fn a_built_in_lab_fits_into_its_ten_minutes() {
        for plan in plans::all().unwrap() {
            let parts = parts(&plan.name, 10.0);
            let minutes: f64 = parts.iter().map(|(minutes, _)| minutes).sum();
            assert!(minutes <= 10.0, "{}: {minutes} {parts:?}", plan.name);
        }
    }

    #[test]
    fn load_of_other_machines_is_that_of_clients() {
        let args = LabArgs {
            from: Some("local,exec:srun -n1 a".parse().unwrap()),
            listen: Some("10.0.0.5:6000".parse().unwrap()),
            ..LabArgs::default()
        };
        let mut with = 0;
        for (_, command) in parts_of("power8", 10.0, &args) {
            let at = command.iter().position(|word| word == "--from");
            let clients = command.iter().any(|word| word == "select-only") && !is_counted(&command);
            assert_eq!(at.is_some(), clients, "{command:?}");
            if let Some(at) = at {
                let words = &command[at + 1..at + 4];
                assert_eq!(
                    words,
                    ["local,exec:srun -n1 a", "--listen", "10.0.0.5:6000"]
                );
                with += 1;
            }
        }
        assert!(with > 0);
    }

    #[test]
    fn a_part_whose_share_is_too_short_takes_the_least_that_shows_anything() {
        for (minutes, command) in parts("power8", 0.1) {
            match command[0].as_str() {
                // Counting takes as long as it takes.
                "compare" if is_counted(&command) => {}
                "compare" => {
                    let at = command.iter().position(|word| word == "--minutes");
                    assert_eq!(command[at.unwrap() + 1], format!("{minutes:.2}"));
                    assert!(minutes > 0.5, "{minutes}");
                }
                _ => {
                    let at = command.iter().position(|word| word == "--trials");
                    assert_eq!(command[at.unwrap() + 1], "6");
                }
            }
        }
    }
}
