//! The flags of the workloads that ask where the bytes come from: `pgio` and
//! `scattered-read`.

use std::path::PathBuf;

use clap::{ArgGroup, Args as ClapArgs};

use pgassay_model::storage::VolumeLimits;

use super::kinds::{OF_DATA, OF_PGIO, OF_SCATTERED_READ};

/// What `pgio` and `scattered-read` read, shared by the commands that load a server with them.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "pgio and scattered-read")]
#[command(group = ArgGroup::new(OF_DATA).multiple(true), group = ArgGroup::new(OF_PGIO).multiple(true))]
pub struct DataArgs {
    /// scattered-read: size of the table, such as 4GB [default: by memory]; pgio: of each table
    #[arg(long, group = OF_DATA, value_name = "SIZE", value_parser = size)]
    pub size: Option<u64>,
    /// pgio: a pgio.conf as it is
    #[arg(group = OF_PGIO, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// pgio: tables, as NUM_SCHEMAS says in pgio.conf
    #[arg(group = OF_PGIO, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub tables: Option<u32>,
    /// pgio: share of operations that update, 0 to 100, as UPDATE_PCT
    #[arg(group = OF_PGIO, long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub update_pct: Option<u32>,
}

/// Flags of `pgio` and `scattered-read`.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "pgio and scattered-read")]
#[command(group = ArgGroup::new(OF_SCATTERED_READ).multiple(true))]
pub struct IoArgs {
    /// What is read.
    #[command(flatten)]
    pub data: DataArgs,
    /// scattered-read: a table of your own, SCHEMA.TABLE, in place of one that pgassay makes; only read
    #[arg(group = OF_SCATTERED_READ, long, value_name = "TABLE", conflicts_with = "query")]
    pub relation: Option<String>,
    /// scattered-read: a query of your own that only reads
    #[arg(group = OF_SCATTERED_READ, long, value_name = "SQL")]
    pub query: Option<String>,
    /// scattered-read: take your relations' files out of the page cache before each execution; a
    /// running server's other clients read them from the device again, so it is not done unasked
    #[arg(group = OF_SCATTERED_READ, long)]
    pub evict: bool,
    /// scattered-read: only these ways of reading, by name, comma-separated
    #[arg(group = OF_SCATTERED_READ, long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// scattered-read: also with the device's read-ahead set to these KiB; needs root, and gives it
    /// back afterwards
    #[arg(group = OF_SCATTERED_READ, long, value_name = "KIB", value_delimiter = ',')]
    pub read_ahead: Vec<u64>,
    /// scattered-read: drop all of the machine's page cache, not the table's part alone; needs root
    #[arg(group = OF_SCATTERED_READ, long)]
    pub drop_caches: bool,
    /// pgio: print PGIO's own lines instead of the report
    #[arg(group = OF_PGIO, long, conflicts_with = "json")]
    pub pgio_output: bool,
    /// pgio: PGIO's own way, one PL/pgSQL loop with dynamic SQL in one transaction
    #[arg(group = OF_PGIO, long)]
    pub classic: bool,
    /// pgio: make the tables, or complete what is there, and leave them
    #[arg(group = OF_PGIO, long)]
    pub setup_only: bool,
    /// pgio: leave the tables for the next run
    #[arg(group = OF_PGIO, long)]
    pub keep_tables: bool,
    /// Go on until the device's rate stands still (for volumes with burst credits), at most an hour
    #[arg(group = OF_DATA, long)]
    pub until_stable: bool,
}

/// `iops=3000,mbps=125,base-iops=600,credits=5400000`, each at most once.
pub fn volume(text: &str) -> Result<VolumeLimits, String> {
    let mut limits = VolumeLimits::default();
    for part in text.split(',').map(str::trim) {
        let known = "iops, mbps, base-iops and credits";
        let (name, value) = part
            .split_once('=')
            .ok_or_else(|| format!("`{part}` is no limit; write iops=3000,mbps=125"))?;
        let number: f64 = match value.trim().parse() {
            Ok(number) if (0.001..1e12).contains(&number) => number,
            _ => return Err(format!("`{value}` is no limit above 0")),
        };
        let (place, value) = match name.trim() {
            "iops" => (&mut limits.iops, number),
            "mbps" => (&mut limits.bytes_per_second, number * 1e6),
            "base-iops" => (&mut limits.base_iops, number),
            "credits" => (&mut limits.credits, number),
            other => {
                return Err(format!(
                    "`{other}` is no limit of a volume; there are {known}"
                ));
            }
        };
        if place.replace(value.round() as u64).is_some() {
            return Err(format!("{} is given twice", name.trim()));
        }
    }
    if limits.base_iops.is_some() != limits.credits.is_some() {
        return Err("base-iops and credits go together".to_owned());
    }
    Ok(limits)
}

/// `512MB`, `4GB`, `1T`; a bare number is bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
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
    fn limits_of_volumes() {
        let gp3 = volume("iops=3000, mbps=125").unwrap();
        assert_eq!(
            (gp3.iops, gp3.bytes_per_second),
            (Some(3000), Some(125_000_000))
        );
        let gp2 = volume("iops=3000,base-iops=600,credits=5400000").unwrap();
        assert_eq!((gp2.base_iops, gp2.credits), (Some(600), Some(5_400_000)));
        for wrong in [
            "",
            "3000",
            "iops=",
            "iops=0",
            "iops=-1",
            "iops=nan",
            "iops=1,iops=2",
            "x=1",
            "base-iops=1",
        ] {
            assert!(volume(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("512MB"), Ok(512 << 20));
        assert_eq!(size("1.5g"), Ok(3 << 29));
        assert_eq!(size("8192"), Ok(8192));
        for wrong in ["", "MB", "-1GB", "1XB", "nan", "1e300T", "GB1"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
