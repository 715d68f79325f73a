//! What launched servers are given of the machine: an environment, CPUs, a command around them.

use clap::Args as ClapArgs;

use pgassay_model::Failure;
use pgassay_model::confinement::ConfinementPlan;

use super::kinds::OF_SERVER;
use super::load::Pin;

/// Environment and wrapping command of one server. The flags that these are flattened into declare the group.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct ConfinedArgs {
    /// A variable for a launched server's environment, such as LD_PRELOAD (repeatable)
    #[arg(group = OF_SERVER, long = "env", value_name = "NAME=VALUE")]
    launch_environment: Vec<String>,
    /// Start a launched server through this command, such as 'numactl --interleave=all'
    #[arg(group = OF_SERVER, long, value_name = "COMMAND")]
    pub wrap: Option<String>,
    /// The CPUs that it is kept on; a flag of compare.
    #[arg(skip)]
    cpus: Vec<usize>,
}

impl ConfinedArgs {
    /// What was asked for.
    pub fn plan(&self) -> ConfinementPlan {
        ConfinementPlan {
            launch_environment: self.launch_environment.clone(),
            cpus: self.cpus.clone(),
            wrap: self.wrap.clone().unwrap_or_default(),
        }
    }
}

impl From<ConfinementPlan> for ConfinedArgs {
    fn from(plan: ConfinementPlan) -> Self {
        Self {
            launch_environment: plan.launch_environment,
            wrap: Some(plan.wrap).filter(|wrap| !wrap.is_empty()),
            cpus: plan.cpus,
        }
    }
}

/// Settings, environment, CPUs and wrapping command of each arm.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct GivenArgs {
    /// A setting for every launched server (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// A setting for A (repeatable); `--set-b` likewise
    #[arg(long = "set-a", value_name = "NAME=VALUE")]
    pub set_a: Vec<String>,
    /// A setting for B
    #[arg(long = "set-b", value_name = "NAME=VALUE")]
    pub set_b: Vec<String>,
    /// A setting for C, the third target
    #[arg(long = "set-c", value_name = "NAME=VALUE")]
    pub set_c: Vec<String>,
    /// A variable for the environment of every launched server, such as LD_PRELOAD (repeatable)
    #[arg(long = "env", value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A variable for A's environment (repeatable); `--env-b` likewise
    #[arg(long = "env-a", value_name = "NAME=VALUE")]
    env_a: Vec<String>,
    /// A variable for B's environment
    #[arg(long = "env-b", value_name = "NAME=VALUE")]
    env_b: Vec<String>,
    /// A variable for C's environment, the third target
    #[arg(long = "env-c", value_name = "NAME=VALUE")]
    env_c: Vec<String>,
    /// Keep every launched server on these CPUs: 0,4-7
    #[arg(long, value_name = "CPUS", value_parser = cpus)]
    cpus_all: Option<Cpus>,
    /// Keep A on these CPUs; `--cpus-b` likewise
    #[arg(long = "cpus-a", value_name = "CPUS", value_parser = cpus)]
    cpus_a: Option<Cpus>,
    /// Keep B on these CPUs
    #[arg(long = "cpus-b", value_name = "CPUS", value_parser = cpus)]
    cpus_b: Option<Cpus>,
    /// Keep C on these CPUs
    #[arg(long = "cpus-c", value_name = "CPUS", value_parser = cpus)]
    cpus_c: Option<Cpus>,
    /// Start every launched server through this command, such as 'numactl --interleave=all'
    #[arg(long = "wrap", value_name = "COMMAND")]
    wrap: Option<String>,
    /// Start A through this command; `--wrap-b` likewise
    #[arg(long = "wrap-a", value_name = "COMMAND")]
    wrap_a: Option<String>,
    /// Start B through this command
    #[arg(long = "wrap-b", value_name = "COMMAND")]
    wrap_b: Option<String>,
    /// Start C through this command
    #[arg(long = "wrap-c", value_name = "COMMAND")]
    wrap_c: Option<String>,
}

/// A list of CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cpus(Vec<usize>);

fn cpus(text: &str) -> Result<Cpus, String> {
    match text.parse()? {
        Pin::Cpus(cpus) => Ok(Cpus(cpus)),
        Pin::Auto => Err(format!("`{text}` is no list of CPUs; write 0,4-7")),
    }
}

impl GivenArgs {
    /// The settings of every server, and nothing else.
    pub fn settings_of_all(&self) -> Self {
        Self {
            settings: self.settings.clone(),
            ..Self::default()
        }
    }

    /// What the first target alone has.
    pub fn of_first(plan: &ConfinementPlan) -> Self {
        Self {
            env_a: plan.launch_environment.clone(),
            cpus_a: Some(Cpus(plan.cpus.clone())),
            wrap_a: Some(plan.wrap.clone()),
            ..Self::default()
        }
    }

    /// What an arm has, counted from 0: the variables for all and its own, and its CPUs and command before those for all.
    pub fn of_arm(&self, arm: usize) -> ConfinementPlan {
        let (environment, cpus, wrap) = match arm {
            0 => (self.env_a.as_slice(), &self.cpus_a, &self.wrap_a),
            1 => (self.env_b.as_slice(), &self.cpus_b, &self.wrap_b),
            2 => (self.env_c.as_slice(), &self.cpus_c, &self.wrap_c),
            _ => (&[][..], &None, &None),
        };
        let cpus = cpus.as_ref().or(self.cpus_all.as_ref());
        let wrap = wrap.as_ref().or(self.wrap.as_ref());
        ConfinementPlan {
            launch_environment: self.env.iter().chain(environment).cloned().collect(),
            cpus: cpus.map_or_else(Vec::new, |cpus| cpus.0.clone()),
            wrap: wrap.cloned().unwrap_or_default(),
        }
    }

    /// Refuses flags of a target that is not there.
    ///
    /// # Errors
    /// Naming them.
    pub fn refuse_beyond(&self, targets: usize) -> Result<(), Failure> {
        let third = !self.set_c.is_empty()
            || self.cpus_c.is_some()
            || !self.env_c.is_empty()
            || self.wrap_c.is_some();
        match third && targets < 3 {
            true => Err(Failure::usage(
                "--set-c, --env-c, --cpus-c and --wrap-c: there is no third target",
            )),
            false => Ok(()),
        }
    }

    fn any(&self, is_asked: impl Fn(&ConfinementPlan) -> bool) -> bool {
        (0..3).any(|arm| is_asked(&self.of_arm(arm)))
    }

    /// Whether an environment, CPUs or a command was typed.
    pub fn is_typed(&self) -> bool {
        self.any(|plan| !plan.is_empty())
    }

    /// Whether any arm's CPUs were typed.
    pub fn keeps_on_cpus(&self) -> bool {
        self.any(|plan| !plan.cpus.is_empty())
    }

    /// Whether any arm's command that it is started through was typed.
    pub fn wraps(&self) -> bool {
        self.any(|plan| !plan.wrap.is_empty())
    }

    /// Refuses environment, CPUs and command, where instructions are counted.
    ///
    /// # Errors
    /// Where any was typed.
    pub fn refuse_counted(&self) -> Result<(), Failure> {
        match self.is_typed() {
            true => Err(Failure::usage(
                "--env, --cpus-all and --wrap are for comparisons by time; what is counted has an environment of its own",
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_has_what_is_for_all_and_its_own() {
        let given = GivenArgs {
            env: vec!["A=1".to_owned()],
            env_b: vec!["B=2".to_owned()],
            cpus_all: Some(cpus("0-1").unwrap()),
            cpus_b: Some(cpus("1").unwrap()),
            ..GivenArgs::default()
        };
        assert_eq!(given.of_arm(0).launch_environment, ["A=1"]);
        assert_eq!(given.of_arm(1).launch_environment, ["A=1", "B=2"]);
        assert_eq!(given.of_arm(7).launch_environment, ["A=1"]);
        assert_eq!(
            (given.of_arm(0).cpus, given.of_arm(1).cpus),
            (vec![0, 1], vec![1])
        );
        let wrapped = GivenArgs {
            wrap: Some("setarch -R".to_owned()),
            wrap_b: Some("numactl -i all".to_owned()),
            ..GivenArgs::default()
        };
        assert_eq!(wrapped.of_arm(0).wrap, "setarch -R");
        assert_eq!(wrapped.of_arm(1).wrap, "numactl -i all");
        assert!(wrapped.refuse_counted().is_err());
        assert!(cpus("auto").is_err() && cpus("3-1").is_err());
        assert!(given.refuse_counted().is_err() && given.refuse_beyond(2).is_ok());
    }
}
