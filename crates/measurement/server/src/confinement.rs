//! What a launched server is given of the machine beside its settings: an environment, CPUs, and a command
//! that it is started through.

use std::io;
use std::path::Path;
use std::process::Command;

use pgassay_model::confinement::ConfinementPlan;
use pgassay_sys::affinity::{allowed_cpus, pin_command};
use pgassay_sys::programs::{in_path, may_run};

use super::TargetError;

/// Environment, CPUs and wrapping command of a launched server, checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement {
    /// As asked for, the command as the shell would have it.
    plan: ConfinementPlan,
    /// The words of the command that starts it; none where nothing stands before it.
    wrap: Vec<String>,
}

impl Confinement {
    /// What was asked for. A wrapping command is one that executes what follows it in its own place, such as
    /// `numactl --interleave=all`.
    ///
    /// # Errors
    /// Where a variable is none, a CPU is none that we may use, or the command can't be taken apart into words, or its
    /// program is not there.
    pub fn of(plan: &ConfinementPlan) -> Result<Self, TargetError> {
        for text in &plan.launch_environment {
            let name = text.split_once('=').map_or("", |(name, _)| name);
            if name.is_empty() || text.contains('\0') {
                return Err(TargetError::Usage(format!(
                    "--env {text}: a variable is NAME=VALUE, such as --env \
                     GLIBC_TUNABLES=glibc.malloc.arena_max=1"
                )));
            }
        }
        let ours = allowed_cpus().unwrap_or_default();
        if let Some(cpu) = plan.cpus.iter().find(|cpu| !ours.contains(cpu)) {
            return Err(TargetError::Usage(format!(
                "CPU {cpu} is not one we may use; those are {ours:?}"
            )));
        }
        let usage = |why: String| TargetError::Usage(format!("--wrap {:?}: {why}", plan.wrap));
        let words = shlex::split(&plan.wrap);
        let wrap = words.ok_or_else(|| usage("a quotation mark is not closed".to_owned()))?;
        if let Some(program) = wrap.first()
            && !match program.contains('/') {
                true => may_run(Path::new(program)),
                false => in_path(program).is_some(),
            }
        {
            return Err(usage(format!("there is no program {program}")));
        }
        let joined = shlex::try_join(wrap.iter().map(String::as_str));
        Ok(Self {
            plan: ConfinementPlan {
                wrap: joined.unwrap_or_default(),
                ..plan.clone()
            },
            wrap,
        })
    }

    /// What is to be executed to start a server: its own program, or the wrapping command before it.
    pub(crate) fn wrapped(&self, program: &Path) -> Command {
        match self.wrap.split_first() {
            None => Command::new(program),
            Some((first, rest)) => {
                let mut command = Command::new(first);
                command.args(rest).arg(program);
                command
            }
        }
    }

    /// The wrapping command; none where there is none.
    pub(crate) fn wrapping(&self) -> Option<&str> {
        Some(self.plan.wrap.as_str()).filter(|text| !text.is_empty())
    }

    /// The one memory node that numactl lets the server have memory of; none where it may have of several.
    pub(crate) fn memory_node(&self) -> Option<u32> {
        let (first, rest) = self.wrap.split_first()?;
        if Path::new(first).file_name()? != "numactl" {
            return None;
        }
        let bound = |(at, word): (usize, &String)| match word.as_str() {
            "-m" | "--membind" => rest.get(at + 1).cloned(),
            word => word.strip_prefix("--membind=").map(str::to_owned),
        };
        let nodes = rest.iter().enumerate().find_map(bound)?;
        nodes.parse().ok()
    }

    /// Adds the variables to a command's environment, and keeps it on its CPUs from its start: what it
    /// allocates first lies where it runs.
    pub(crate) fn apply(&self, command: &mut Command) -> io::Result<()> {
        let variables = self.plan.launch_environment.iter();
        command.envs(variables.filter_map(|variable| variable.split_once('=')));
        match self.plan.cpus.as_slice() {
            [] => Ok(()),
            cpus => pin_command(command, cpus),
        }
    }

    /// `on CPUs 0,1, with GLIBC_TUNABLES=…`; none where nothing was asked for.
    pub fn words(&self) -> Option<String> {
        self.plan.words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_variable_or_no_cpu_of_ours_is_refused() {
        let new = |environment: &[&str], cpus: &[usize]| {
            Confinement::of(&ConfinementPlan {
                launch_environment: environment.iter().map(|e| (*e).to_owned()).collect(),
                cpus: cpus.to_vec(),
                wrap: String::new(),
            })
        };
        for wrong in ["", "NAME", "=value", "A=\0"] {
            assert!(new(&[wrong], &[]).is_err(), "{wrong:?}");
        }
        assert!(new(&[], &[100_000]).is_err());
        assert_eq!(new(&[], &[]).unwrap().words(), None);
        let cpu = allowed_cpus().unwrap()[0];
        let words = new(&["A=1", "B=x=y"], &[cpu]).unwrap().words().unwrap();
        assert_eq!(words, format!("on CPU {cpu}, with A=1 B=x=y"));
    }

    #[test]
    fn a_wrapping_command_is_words_and_a_program_that_is_there() {
        let through = |command: &str| {
            Confinement::of(&ConfinementPlan {
                wrap: command.to_owned(),
                ..ConfinementPlan::default()
            })
        };
        let wrapped = through("env 'A=1 2' -u B").unwrap();
        let command = wrapped.wrapped(Path::new("/x/postgres"));
        let args: Vec<_> = command.get_args().collect();
        assert_eq!(command.get_program(), "env");
        assert_eq!(args, ["A=1 2", "-u", "B", "/x/postgres"]);
        assert!(wrapped.words().unwrap().starts_with("through env "));
        assert_eq!(through(" ").unwrap(), Confinement::default());
        let bound = |words: &[&str]| {
            let wrap = words.iter().map(|word| (*word).to_owned()).collect();
            let wrapped = Confinement {
                wrap,
                ..Confinement::default()
            };
            wrapped.memory_node()
        };
        assert_eq!(bound(&["numactl", "--membind=1"]), Some(1));
        assert_eq!(bound(&["/usr/bin/numactl", "-N", "0", "-m", "0"]), Some(0));
        for several in [
            &["numactl", "--membind=0,1"][..],
            &["numactl", "--interleave=all"],
            &["env", "--membind=1"],
            &[],
        ] {
            assert_eq!(bound(several), None, "{several:?}");
        }
        for wrong in ["env 'A", "no-such-program-here x", "/etc/passwd"] {
            assert!(through(wrong).is_err(), "{wrong}");
        }
    }
}
