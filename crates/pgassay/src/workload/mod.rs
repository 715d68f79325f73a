//! Workloads: what the clients do, what it needs in the database, and what that costs.
//!
//! A workload is an entry of [`WORKLOADS`]; adding one is a file and a line.

pub mod guest;
pub mod inserver;
pub mod pgbench_tables;

use crate::exit::Failure;

/// A workload that `pgassay run` knows by name.
#[derive(Debug)]
pub struct Workload {
    /// Its name on the command line, and that of its script in `script::BUILTINS`.
    pub name: &'static str,
    /// What it does and what it is for, one sentence.
    pub explanation: &'static str,
    /// Whether it changes the tables.
    pub writes: bool,
}

/// All workloads.
pub const WORKLOADS: &[Workload] = &[Workload {
    name: "select-only",
    explanation: "one account read by its key, as pgbench -S does: \
                  the shortest query that goes all the way through the server",
    writes: false,
}];

/// The workload of that name.
///
/// # Errors
/// Where there is none, naming those that there are.
pub fn find(name: &str) -> Result<&'static Workload, Failure> {
    WORKLOADS
        .iter()
        .find(|workload| workload.name == name)
        .ok_or_else(|| {
            let mut names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
            names.extend(inserver::names());
            Failure::usage(format!("there is no workload `{name}`"))
                .with_remedy(format!("the workloads are: {}", names.join(", ")))
        })
}
