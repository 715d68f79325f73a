//! Whether the machine has room for all servers at once: their buffers in memory, their tables on disk.

use anyhow::bail;
use pgassay_engine::workload;
use pgassay_model::{Failure, Plan};
use pgassay_server::settings::default_shared_buffers;

use super::given::Given;
use crate::cli::axes::BufferSize;
use crate::commands::compare::servers::Servers;
use crate::commands::record::pairs;

/// The part of memory that the buffers of all servers may take: tables are read into them, and
/// sessions and the page cache need the rest.
const MOST_OF_MEMORY: f64 = 0.75;
/// Bytes of a block, the unit of shared_buffers without one.
const BLOCK: u64 = 8192;

/// Refuses shared_buffers that memory does not hold for all servers at once. `typed` are the settings
/// that all of them have.
///
/// # Errors
/// With the sum, and what there is.
pub fn refuse_buffers(
    typed: &[String],
    servers: &[&Given],
    memory: Option<u64>,
) -> Result<(), Failure> {
    let Some(memory) = memory else {
        return Ok(());
    };
    let share = memory / servers.len().max(1) as u64;
    let each = servers.iter().map(|given| {
        let all = [typed, &given.settings].concat();
        let asked = pairs(&all).into_iter().rev().find(|(name, _)| {
            // As PostgreSQL compares names.
            name.eq_ignore_ascii_case("shared_buffers")
        });
        match asked {
            // What is no size is for the server to refuse.
            Some((_, size)) => bytes(&size).unwrap_or(0),
            None => default_shared_buffers(share),
        }
    });
    let sum = each.fold(0, u64::saturating_add);
    if sum as f64 <= MOST_OF_MEMORY * memory as f64 {
        return Ok(());
    }
    let gb = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    Err(Failure::usage(format!(
        "shared_buffers of all servers, which are up at once, come to {:.1} GB; of {:.1} GB of memory they may take {:.0} %",
        gb(sum),
        gb(memory),
        100.0 * MOST_OF_MEMORY
    ))
    .with_remedy(
        "vary less at a time, or give them less with --shared-buffers or --set shared_buffers=SIZE",
    ))
}

/// A size as PostgreSQL takes it; none where it is none.
fn bytes(size: &str) -> Option<u64> {
    match size.trim().parse::<u64>() {
        Ok(blocks) => blocks.checked_mul(BLOCK),
        Err(_) => Some(size.trim().parse::<BufferSize>().ok()?.bytes),
    }
}

/// Refuses where the disk can't hold the tables of all servers.
///
/// # Errors
/// With what they need, and what is free.
pub fn refuse_full_disk(servers: &mut Servers, plans: &[Plan]) -> anyhow::Result<()> {
    let Some(dir) = servers.subject(0).data_dir() else {
        return Ok(());
    };
    let Ok(disk) = rustix::fs::statvfs(&dir) else {
        return Ok(());
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    // As much WAL as data, and what a new cluster and its WAL segments take.
    let each = plans
        .iter()
        .map(|plan| 2 * workload::bytes(&plan.workload) + (100 << 20));
    let needed: u64 = each.sum();
    if free < needed {
        bail!(
            Failure::target(format!(
                "no space: the servers need {} MB below {}, where {} MB are free",
                needed / 1_000_000,
                dir.display(),
                free / 1_000_000
            ))
            .with_remedy(
                "vary less at a time, choose smaller scales, or another place with --scratch DIR"
            )
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_all_servers_are_held_against_memory() {
        let with = |size: &str| Given {
            settings: vec![format!("shared_buffers={size}")],
            ..Given::default()
        };
        let refused = |typed: &[&str], sizes: &[&str]| {
            let typed: Vec<String> = typed.iter().map(|s| (*s).to_owned()).collect();
            let servers: Vec<Given> = sizes.iter().map(|size| with(size)).collect();
            let servers: Vec<&Given> = servers.iter().collect();
            refuse_buffers(&typed, &servers, Some(32 << 30)).err()
        };
        assert!(refused(&[], &["8GB", "16GB"]).is_none());
        let said = refused(&[], &["8GB", "16GB", "32GB"]).unwrap().message;
        assert!(said.contains("56.0 GB; of 32.0 GB"), "{said}");
        // The axis has the last word.
        assert!(refused(&["shared_buffers=30GB"], &["1GB"]).is_none());
        let both = [&Given::default(), &Given::default()];
        let set = |size: &str| vec![format!("Shared_Buffers = {size}")];
        assert!(refuse_buffers(&set("13GB"), &both, Some(32 << 30)).is_err());
        // In blocks: 16 GB.
        assert!(refuse_buffers(&set("2097152"), &both, Some(32 << 30)).is_err());
        assert!(refuse_buffers(&set("2097"), &both, Some(32 << 30)).is_ok());
        // The default of each is a quarter of its share, 128 MB at least.
        assert!(refuse_buffers(&[], &both, Some(32 << 30)).is_ok());
        assert!(refuse_buffers(&[], &[&Given::default(); 32], Some(4 << 30)).is_err());
        assert!(refuse_buffers(&set("1TB"), &both, None).is_ok());
    }
}
