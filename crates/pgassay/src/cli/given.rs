//! What launched servers of a comparison are given of the machine: an environment, CPUs, a command around them.

use clap::Args as ClapArgs;

use super::load::Pin;
use pgassay_model::Failure;

/// Environment, CPUs and wrapping command of each arm.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct GivenArgs {
    /// A variable for the environment of every launched server, such as LD_PRELOAD (repeatable)
    #[arg(long = "env", value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// A variable for A's environment (repeatable); `--env-b`, `--env-c` likewise
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
    /// Keep A on these CPUs; `--cpus-b`, `--cpus-c` likewise
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
    /// Start A through this command; `--wrap-b`, `--wrap-c` likewise
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
    /// What the first target alone has.
    pub fn of_first(environment: &[String], wrap: &str) -> Self {
        Self {
            env_a: environment.to_vec(),
            wrap_a: Some(wrap.to_owned()),
            ..Self::default()
        }
    }

    /// The variables of an arm, counted from 0.
    pub fn environment(&self, arm: usize) -> Vec<String> {
        let own = [&self.env_a, &self.env_b, &self.env_c];
        let own = own.get(arm).into_iter().copied().flatten();
        self.env.iter().chain(own).cloned().collect()
    }

    /// The CPUs of an arm; none where it may use all.
    pub fn cpus(&self, arm: usize) -> Vec<usize> {
        let own = [&self.cpus_a, &self.cpus_b, &self.cpus_c];
        let own = own.get(arm).and_then(|cpus| cpus.as_ref());
        own.or(self.cpus_all.as_ref())
            .map_or_else(Vec::new, |cpus| cpus.0.clone())
    }

    /// The command that an arm is started through; empty where none.
    pub fn wrap(&self, arm: usize) -> String {
        let own = [&self.wrap_a, &self.wrap_b, &self.wrap_c];
        let own = own.get(arm).and_then(|wrap| wrap.as_ref());
        own.or(self.wrap.as_ref()).cloned().unwrap_or_default()
    }

    /// Refuses flags of a target that is not there.
    ///
    /// # Errors
    /// Naming them.
    pub fn refuse_beyond(&self, targets: usize) -> Result<(), Failure> {
        let third = self.cpus_c.is_some() || !self.env_c.is_empty() || self.wrap_c.is_some();
        match third && targets < 3 {
            true => Err(Failure::usage(
                "--env-c, --cpus-c and --wrap-c: there is no third target",
            )),
            false => Ok(()),
        }
    }

    /// Whether any of them was typed.
    pub fn is_typed(&self) -> bool {
        (0..3).any(|arm| {
            let wrapped = !self.wrap(arm).is_empty();
            wrapped || !self.environment(arm).is_empty() || !self.cpus(arm).is_empty()
        })
    }

    /// Whether any arm's CPUs were typed.
    pub fn keeps_on_cpus(&self) -> bool {
        (0..3).any(|arm| !self.cpus(arm).is_empty())
    }

    /// Whether any arm's command that it is started through was typed.
    pub fn wraps(&self) -> bool {
        (0..3).any(|arm| !self.wrap(arm).is_empty())
    }

    /// Refuses all of them, where instructions are counted.
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
        assert_eq!(given.environment(0), ["A=1"]);
        assert_eq!(given.environment(1), ["A=1", "B=2"]);
        assert_eq!(given.environment(7), ["A=1"]);
        assert_eq!((given.cpus(0), given.cpus(1)), (vec![0, 1], vec![1]));
        let wrapped = GivenArgs {
            wrap: Some("setarch -R".to_owned()),
            wrap_b: Some("numactl -i all".to_owned()),
            ..GivenArgs::default()
        };
        assert_eq!(wrapped.wrap(0), "setarch -R");
        assert_eq!(wrapped.wrap(1), "numactl -i all");
        assert!(wrapped.refuse_counted().is_err());
        assert!(cpus("auto").is_err() && cpus("3-1").is_err());
        assert!(given.refuse_counted().is_err() && given.refuse_beyond(2).is_ok());
    }
}
