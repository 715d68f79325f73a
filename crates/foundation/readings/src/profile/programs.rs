//! Samples of a whole machine, divided: PostgreSQL's processes, other programs, idle CPUs.
//!
//! `perf record -a` and `perf top` sample all CPUs. Where a sample names its process, only
//! PostgreSQL's count as the server's; a CPU that sleeps is nobody's.

use std::collections::BTreeMap;

use super::{Frame, Profile, UNKNOWN, Unit};

/// Most different programs; the kernel lets any process name itself.
const MOST_PROGRAMS: usize = 5000;
/// What is beyond them.
const FURTHER: &str = "further programs";

/// Samples by the program that ran.
pub(super) struct Programs {
    unit: Unit,
    /// By name; an empty name where the sample does not say.
    programs: BTreeMap<String, Profile>,
    idle: f64,
    /// What was left out or not understood.
    pub(super) remarks: Vec<String>,
}

impl Programs {
    pub(super) fn new(unit: Unit) -> Self {
        Self {
            unit,
            programs: BTreeMap::new(),
            idle: 0.0,
            remarks: Vec::new(),
        }
    }

    fn of(&mut self, program: &str) -> &mut Profile {
        let full = self.programs.len() >= MOST_PROGRAMS && !self.programs.contains_key(program);
        let name = if full { FURTHER } else { program };
        self.programs
            .entry(name.to_owned())
            .or_insert_with(|| Profile::new(self.unit))
    }

    /// Adds a chain, outermost caller first, of a program.
    pub(super) fn add(&mut self, program: Option<&str>, chain: Vec<Frame>, weight: f64) {
        if chain.iter().any(is_idle) {
            self.idle += weight;
            return;
        }
        let object = chain.iter().find_map(|f| executable(&f.object));
        let program = program.or(object).unwrap_or_default().to_owned();
        self.of(&program).add(chain, weight);
    }

    /// Notes the share of a function with all that it calls.
    pub(super) fn inclusive(&mut self, program: Option<&str>, frame: &Frame, share: f64) {
        if is_idle(frame) {
            return;
        }
        let program = program.or(executable(&frame.object)).unwrap_or_default();
        let program = program.to_owned();
        self.of(&program).add_inclusive(frame, share);
    }

    pub(super) fn total(&self) -> f64 {
        self.idle + self.programs.values().map(|p| p.total).sum::<f64>()
    }

    /// The server's samples, with the weights of all others.
    pub(super) fn server(self) -> Profile {
        let named = |name: &str| !name.is_empty();
        let is_server = |(name, profile): &(&String, &Profile)| {
            is_postgres(name) || profile.has_object(is_postgres)
        };
        let mut servers: Vec<String> = self
            .programs
            .iter()
            .filter(|program| is_server(program))
            .map(|(name, _)| name.clone())
            .collect();
        let mut all = Profile::new(self.unit);
        all.idle = self.idle;
        for remark in &self.remarks {
            all.remark(remark);
        }
        let others = || self.programs.keys().filter(|name| named(name));
        if servers.is_empty()
            && let Some(only) = others().next()
            && others().count() == 1
        {
            // Recorded of one process that has another name.
            all.remark(&format!(
                "no process is named postgres: {only} was taken for the server"
            ));
            servers.push(only.clone());
        }
        let anonymous = servers.is_empty() && others().next().is_none();
        for (name, profile) in &self.programs {
            // What names no process is the server's where a server is, or nothing names one.
            if servers.contains(name) || (!named(name) && (anonymous || !servers.is_empty())) {
                all.merge(profile, 1.0);
            } else if profile.total > 0.0 {
                let name = if named(name) { name } else { UNKNOWN };
                all.others.push((super::bounded(name), profile.total));
            }
        }
        let unnamed = self.programs.get("").is_some_and(|p| p.total > 0.0);
        if unnamed && all.machine() > all.total {
            all.remark(
                "the text does not name processes: functions of the kernel and of libraries may be other programs'",
            );
        }
        all.others.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }
}

/// Whether a process or an executable of this name is PostgreSQL's server.
pub(super) fn is_postgres(name: &str) -> bool {
    let name = name.trim();
    let name = name.rsplit_once('/').map_or(name, |(_, file)| file);
    let name = name.strip_prefix("edb-").unwrap_or(name);
    let rest = name
        .strip_prefix("postgres")
        .or_else(|| name.strip_prefix("postmaster"));
    // `postgres: a b`, `postgres-16`, `postgres9.4`, `postgres.bin`; not `postgres_exporter`.
    rest.is_some_and(|rest| {
        let version = rest.trim_start_matches(['-', '_', '.']);
        rest.is_empty()
            || rest.starts_with(':')
            || rest.starts_with(' ')
            || matches!(version, "bin" | "orig" | "real" | "debug")
            || (!version.is_empty() && version.chars().all(|c| c.is_ascii_digit() || c == '.'))
    })
}

/// An object that can only run as a program of its own: no library, kernel or generated code.
fn executable(object: &str) -> Option<&str> {
    let is_other = object.is_empty()
        || object.starts_with(['[', '/', '('])
        || object.contains(".so")
        || object.contains(' ')
        || object.ends_with(".map")
        || object.starts_with("perf-")
        || object.starts_with("jitted-")
        || object.starts_with("anon")
        || object.starts_with("memfd")
        || object.starts_with("vmlinux")
        || object.starts_with("lib");
    (!is_other).then_some(object)
}

/// Functions in which a CPU has nothing to run, by their beginnings.
const IDLE: &[&str] = &[
    "acpi_idle",
    "acpi_processor_ffh_cstate_enter",
    "acpi_safe_halt",
    "arch_cpu_idle",
    "cede_loop",
    "cpu_do_idle",
    "cpu_idle",
    "cpu_startup_entry",
    "cpuidle_",
    "dedicated_cede_loop",
    "default_idle",
    "do_idle",
    "haltpoll_",
    "intel_idle",
    "mwait_idle",
    "native_safe_halt",
    "poll_idle",
    "psci_enter_idle",
    "pv_native_safe_halt",
    "shared_cede_loop",
    "snooze_loop",
    "xen_safe_halt",
];

fn is_idle(frame: &Frame) -> bool {
    frame.is_kernel() && IDLE.iter().any(|start| frame.symbol.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_by_the_names_that_it_has() {
        for name in [
            "postgres",
            "postmaster",
            "edb-postgres",
            "edb-postmaster",
            "postgres: writer",
            "postgres-16",
            "postgres9.4",
            "postgres.bin",
            "/usr/pgsql-9.6/bin/postgres",
        ] {
            assert!(is_postgres(name), "{name}");
        }
        for name in [
            "postgres_export",
            "postgres-operat",
            "postgrest",
            "pgbench",
            "psql",
            "java",
            "",
        ] {
            assert!(!is_postgres(name), "{name}");
        }
    }

    #[test]
    fn libraries_and_generated_code_are_no_programs() {
        for object in [
            "libc.so.6",
            "[kernel]",
            "[vdso]",
            "perf-12.map",
            "",
            "plpgsql.so",
        ] {
            assert_eq!(executable(object), None, "{object}");
        }
        assert_eq!(executable("java"), Some("java"));
    }

    fn chain(symbol: &str, object: &str) -> Vec<Frame> {
        vec![Frame::new(symbol, object)]
    }

    #[test]
    fn only_postgres_processes_are_the_server() {
        let mut programs = Programs::new(Unit::Samples);
        programs.add(Some("postgres"), chain("s_lock", "postgres"), 3.0);
        programs.add(Some("postgres"), chain("clear_page", "[kernel]"), 1.0);
        programs.add(Some("java"), chain("x", "libjvm.so"), 5.0);
        programs.add(Some("swapper"), chain("intel_idle", "[kernel]"), 70.0);
        programs.add(Some("swapper"), chain("net_rx_action", "[kernel]"), 2.0);
        let profile = programs.server();
        assert_eq!(profile.total, 4.0);
        assert_eq!(profile.idle, 70.0);
        assert_eq!(
            profile.others,
            [("java".to_owned(), 5.0), ("swapper".to_owned(), 2.0)]
        );
    }

    #[test]
    fn a_process_that_runs_the_server_s_executable_is_the_server() {
        let mut programs = Programs::new(Unit::Samples);
        programs.add(Some("my-database"), chain("s_lock", "postgres"), 3.0);
        programs.add(Some("my-database"), chain("malloc", "libc.so.6"), 1.0);
        programs.add(Some("java"), chain("x", "libjvm.so"), 5.0);
        assert_eq!(programs.server().total, 4.0);
    }

    #[test]
    fn without_names_of_processes_all_is_the_server_s_but_idle_and_other_executables() {
        let mut programs = Programs::new(Unit::Percent);
        programs.add(None, chain("s_lock", "postgres"), 3.0);
        programs.add(None, chain("clear_page", "[kernel]"), 1.0);
        programs.add(None, chain("malloc", "libc.so.6"), 1.0);
        programs.add(None, chain("poll_idle", "[kernel]"), 9.0);
        programs.add(None, chain("doCustom", "pgbench"), 2.0);
        let profile = programs.server();
        assert_eq!((profile.total, profile.idle), (5.0, 9.0));
        assert!(profile.remarks[0].contains("does not name processes"));
        assert_eq!(profile.others, [("pgbench".to_owned(), 2.0)]);
    }

    #[test]
    fn no_server_among_several_programs_is_no_profile_of_one() {
        let mut programs = Programs::new(Unit::Samples);
        programs.add(Some("java"), chain("x", "libjvm.so"), 5.0);
        programs.add(Some("psql"), chain("x", "psql"), 5.0);
        let profile = programs.server();
        assert_eq!(profile.total, 0.0);
        assert_eq!(profile.others.len(), 2);
        // One process that has another name was recorded on purpose.
        let mut programs = Programs::new(Unit::Samples);
        programs.add(Some("mydb"), chain("x", "mydb"), 5.0);
        assert_eq!(programs.server().total, 5.0);
    }
}
