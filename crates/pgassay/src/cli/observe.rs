//! What is observed during the load.

use clap::{Args as ClapArgs, ValueEnum};

/// An observer that can run beside a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Observer {
    /// Wait events of all sessions, 25 times a second
    Waits,
    /// Context switches, run queue, pressure, page faults, by /proc
    Sched,
    /// CPU samples of the server's processes with their callers, 99 a second and CPU
    Perf,
    /// Events of processor and kernel: cycles, instructions, misses, stalls, a transaction and by class
    Pmu,
    /// All of them
    All,
    /// None of them
    None,
}

/// Which observers run; shared by the commands that load a server.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct ObserveArgs {
    /// What to look at beside the load: waits, sched, perf, pmu, all, none (comma-separated)
    /// [default: waits,sched; an assay of a launched server: waits,sched,perf; compare, pgio, scattered-read and
    /// workloads inside the server: none]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub observe: Vec<Observer>,
}

impl ObserveArgs {
    /// Whether this one runs; `default` says so where nothing was typed.
    pub fn wants(&self, observer: Observer, default: bool) -> bool {
        match self.observe.as_slice() {
            [] => default,
            typed if typed.contains(&Observer::None) => false,
            typed => typed.contains(&observer) || typed.contains(&Observer::All),
        }
    }

    /// The names of those that were typed.
    pub fn names(&self) -> Vec<String> {
        let name = |observer: &Observer| Some(observer.to_possible_value()?.get_name().to_owned());
        self.observe.iter().filter_map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_decides() {
        let of = |observe: &[Observer]| ObserveArgs {
            observe: observe.to_vec(),
        };
        assert!(of(&[]).wants(Observer::Waits, true));
        assert!(!of(&[]).wants(Observer::Perf, false));
        assert!(of(&[Observer::All]).wants(Observer::Perf, false));
        assert!(!of(&[Observer::Perf]).wants(Observer::Waits, true));
        assert!(!of(&[Observer::None, Observer::All]).wants(Observer::Waits, true));
    }
}
