//! The flags of the workloads that ask where the bytes come from: `pgio` and
//! `scattered-read`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

use pgassay_model::Failure;

/// What `pgio` and `scattered-read` read, shared by the commands that load a server with them.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "pgio and scattered-read")]
pub struct DataArgs {
    /// scattered-read: size of the table, such as 4GB [default: by memory]; pgio: of each table
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub size: Option<u64>,
    /// pgio: a pgio.conf as it is
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// pgio: tables, as NUM_SCHEMAS says in pgio.conf
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub tables: Option<u32>,
    /// pgio: share of operations that update, 0 to 100, as UPDATE_PCT
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub update_pct: Option<u32>,
}

impl DataArgs {
    /// The flags that were given.
    fn given(&self) -> Vec<&'static str> {
        [
            ("--size", self.size.is_some()),
            ("--config", self.config.is_some()),
            ("--tables", self.tables.is_some()),
            ("--update-pct", self.update_pct.is_some()),
        ]
        .into_iter()
        .filter_map(|(flag, given)| given.then_some(flag))
        .collect()
    }

    /// Refuses flags that say nothing about the workload.
    ///
    /// # Errors
    /// The first of them, with the workloads that take it.
    pub fn check(&self, workload: &str) -> Result<(), Failure> {
        refuse_others(&self.given(), workload)
    }
}

/// Flags of `pgio` and `scattered-read`.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "pgio and scattered-read")]
pub struct IoArgs {
    /// What is read.
    #[command(flatten)]
    pub data: DataArgs,
    /// scattered-read: only these ways of reading, by name, comma-separated
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// scattered-read: also with the device's read-ahead set to these KiB; needs root, and gives it
    /// back afterwards
    #[arg(long, value_name = "KIB", value_delimiter = ',')]
    pub read_ahead: Vec<u64>,
    /// scattered-read: drop all of the machine's page cache, not the table's part alone; needs root
    #[arg(long)]
    pub drop_caches: bool,
    /// pgio: print PGIO's own lines instead of the report
    #[arg(long, conflicts_with = "json")]
    pub pgio_output: bool,
    /// pgio: PGIO's own way, one PL/pgSQL loop with dynamic SQL in one transaction
    #[arg(long)]
    pub classic: bool,
    /// pgio: make the tables, or complete what is there, and leave them
    #[arg(long)]
    pub setup_only: bool,
    /// pgio: leave the tables for the next run
    #[arg(long)]
    pub keep_tables: bool,
    /// Go on until the device's rate stands still (for volumes with burst credits), at most an hour
    #[arg(long)]
    pub until_stable: bool,
}

/// The flags that `scattered-read` takes, the others being pgio's.
const OF_SCATTERED: &[&str] = &[
    "--size",
    "--only",
    "--read-ahead",
    "--drop-caches",
    "--until-stable",
];
const OF_PGIO: &[&str] = &[
    "--size",
    "--config",
    "--pgio-output",
    "--classic",
    "--tables",
    "--update-pct",
    "--setup-only",
    "--keep-tables",
    "--until-stable",
];

impl IoArgs {
    /// The flags that were given.
    fn given(&self) -> Vec<&'static str> {
        [
            ("--only", !self.only.is_empty()),
            ("--read-ahead", !self.read_ahead.is_empty()),
            ("--drop-caches", self.drop_caches),
            ("--pgio-output", self.pgio_output),
            ("--classic", self.classic),
            ("--setup-only", self.setup_only),
            ("--keep-tables", self.keep_tables),
            ("--until-stable", self.until_stable),
        ]
        .into_iter()
        .filter_map(|(flag, given)| given.then_some(flag))
        .collect()
    }

    /// Refuses flags that say nothing about the workload.
    ///
    /// # Errors
    /// The first of them, with the workloads that take it.
    pub fn check(&self, workload: &str) -> Result<(), Failure> {
        let mut given = self.data.given();
        given.extend(self.given());
        refuse_others(&given, workload)
    }
}

fn refuse_others(given: &[&'static str], workload: &str) -> Result<(), Failure> {
    let allowed: &[&str] = match workload {
        "scattered-read" => OF_SCATTERED,
        "pgio" => OF_PGIO,
        _ => &[],
    };
    let Some(flag) = given.iter().find(|flag| !allowed.contains(flag)) else {
        return Ok(());
    };
    let takes = match (OF_SCATTERED.contains(flag), OF_PGIO.contains(flag)) {
        (true, true) => "scattered-read and pgio take it",
        (true, false) => "scattered-read takes it",
        _ => "pgio takes it",
    };
    Err(
        Failure::usage(format!("{flag} has no meaning for {workload}"))
            .with_remedy(format!("leave it out; {takes}")),
    )
}

/// `512MB`, `4GB`, `1T`; a bare number is bytes.
fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size, such as 512MB or 4GB");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let count: f64 = digits.trim().parse().map_err(|_| wrong())?;
    let factor: u64 = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        "T" | "TB" | "TIB" => 1 << 40,
        _ => return Err(wrong()),
    };
    let bytes = count * factor as f64;
    if !(1.0..1e18).contains(&bytes) {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("512MB"), Ok(512 << 20));
        assert_eq!(size("1.5g"), Ok(3 << 29));
        assert_eq!(size("8192"), Ok(8192));
        for wrong in ["", "MB", "-1GB", "1XB", "nan", "1e300T", "GB1"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn flags_of_the_other_workload_are_refused() {
        let io = IoArgs {
            classic: true,
            ..IoArgs::default()
        };
        assert!(io.check("pgio").is_ok());
        let text = io.check("scattered-read").unwrap_err().to_string();
        assert!(text.contains("--classic"), "{text}");
        assert!(io.check("select-only").is_err());
        assert!(IoArgs::default().check("select-only").is_ok());
    }
}
