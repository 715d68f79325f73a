//! What a launched server is given of the machine beside its settings: an environment, CPUs, and a command
//! that it is started through.

use std::io;
use std::path::Path;
use std::process::Command;

use pgassay_sys::affinity::{allowed_cpus, pin_command};
use pgassay_sys::programs::{in_path, may_run};

use super::TargetError;

/// Environment, CPUs and wrapping command of a launched server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement {
    /// Variables beside the plain environment that every launched server has.
    environment: Vec<(String, String)>,
    /// The CPUs that it is kept on; all where none.
    cpus: Vec<usize>,
    /// The words of the command that starts it; none where nothing stands before it.
    wrap: Vec<String>,
}

impl Confinement {
    /// What was typed: `NAME=VALUE` each, after `flag`, and CPUs.
    ///
    /// # Errors
    /// Where one is no variable, or a CPU is none that we may use.
    pub fn new(flag: &str, environment: &[String], cpus: &[usize]) -> Result<Self, TargetError> {
        let mut variables = Vec::new();
        for text in environment {
            match text.split_once('=') {
                Some((name, value)) if !name.is_empty() && !text.contains('\0') => {
                    variables.push((name.to_owned(), value.to_owned()));
                }
                _ => {
                    return Err(TargetError::Usage(format!(
                        "{flag} {text}: a variable is NAME=VALUE, such as {flag} \
                         GLIBC_TUNABLES=glibc.malloc.arena_max=1"
                    )));
                }
            }
        }
        let ours = allowed_cpus().unwrap_or_default();
        if let Some(cpu) = cpus.iter().find(|cpu| !ours.contains(cpu)) {
            return Err(TargetError::Usage(format!(
                "CPU {cpu} is not one we may use; those are {ours:?}"
            )));
        }
        Ok(Self {
            environment: variables,
            cpus: cpus.to_vec(),
            wrap: Vec::new(),
        })
    }

    /// The same, started through a command that executes what follows it in its own place, such as
    /// `numactl --interleave=all`. `flag` is where it was typed; an empty one is none.
    ///
    /// # Errors
    /// Where it can't be taken apart into words, or its program is not there.
    pub fn through(self, flag: &str, command: &str) -> Result<Self, TargetError> {
        let usage = |why: String| TargetError::Usage(format!("{flag} {command:?}: {why}"));
        let words = shlex::split(command);
        let wrap = words.ok_or_else(|| usage("a quotation mark is not closed".to_owned()))?;
        if let Some(program) = wrap.first()
            && !match program.contains('/') {
                true => may_run(Path::new(program)),
                false => in_path(program).is_some(),
            }
        {
            return Err(usage(format!("there is no program {program}")));
        }
        Ok(Self { wrap, ..self })
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

    /// The wrapping command as typed; none where there is none.
    pub(crate) fn wrapping(&self) -> Option<String> {
        let words = self.wrap.iter().map(String::as_str);
        shlex::try_join(words).ok().filter(|text| !text.is_empty())
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
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        match self.cpus.as_slice() {
            [] => Ok(()),
            cpus => pin_command(command, cpus),
        }
    }

    /// `on CPUs 0,1, with GLIBC_TUNABLES=…`; none where nothing was asked for.
    pub fn words(&self) -> Option<String> {
        let cpus: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
        let on = match cpus.as_slice() {
            [] => None,
            [one] => Some(format!("on CPU {one}")),
            several => Some(format!("on CPUs {}", several.join(","))),
        };
        let variables = self.environment.iter();
        let with: Vec<String> = variables.map(|(n, v)| format!("{n}={v}")).collect();
        let with = (!with.is_empty()).then(|| format!("with {}", with.join(" ")));
        let through = self.wrapping().map(|command| format!("through {command}"));
        let words: Vec<String> = on.into_iter().chain(with).chain(through).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_variable_or_no_cpu_of_ours_is_refused() {
        let new = |environment: &[&str], cpus: &[usize]| {
            let environment: Vec<String> = environment.iter().map(|e| (*e).to_owned()).collect();
            Confinement::new("--env", &environment, cpus)
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
        let none = || Confinement::new("--env", &[], &[]).unwrap();
        let wrapped = none().through("--wrap", "env 'A=1 2' -u B").unwrap();
        let command = wrapped.wrapped(Path::new("/x/postgres"));
        let args: Vec<_> = command.get_args().collect();
        assert_eq!(command.get_program(), "env");
        assert_eq!(args, ["A=1 2", "-u", "B", "/x/postgres"]);
        assert!(wrapped.words().unwrap().starts_with("through env "));
        assert_eq!(none().through("--wrap", " ").unwrap(), none());
        let bound = |words: &[&str]| {
            let wrap = words.iter().map(|word| (*word).to_owned()).collect();
            Confinement { wrap, ..none() }.memory_node()
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
            assert!(none().through("--wrap", wrong).is_err(), "{wrong}");
        }
    }
}
