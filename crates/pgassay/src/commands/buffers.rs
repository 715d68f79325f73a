//! Whether the machine has memory for the buffers of all servers at once.

use pgassay_model::Failure;
use pgassay_server::settings::default_shared_buffers;

use super::record::pairs;
use crate::cli::axes::BufferSize;

/// The part of memory that the buffers of all servers may take: tables are read into them, and
/// sessions and the page cache need the rest.
const MOST_OF_MEMORY: f64 = 0.75;
/// Bytes of a block, the unit of shared_buffers without one.
const BLOCK: u64 = 8192;

/// Refuses shared_buffers that memory does not hold for all servers at once, each with its settings.
///
/// # Errors
/// With the sum, and what there is.
pub fn refuse_buffers(servers: &[Vec<String>], memory: Option<u64>) -> Result<(), Failure> {
    let Some(memory) = memory else {
        return Ok(());
    };
    let share = memory / servers.len().max(1) as u64;
    let each = servers.iter().map(|settings| {
        let asked = pairs(settings).into_iter().rev().find(|(name, _)| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_of_all_servers_are_held_against_memory() {
        let with = |typed: &[&str], size: &str| -> Vec<String> {
            let own = format!("shared_buffers={size}");
            let all = typed.iter().map(|s| (*s).to_owned());
            all.chain([own]).collect()
        };
        let refused = |typed: &[&str], sizes: &[&str]| {
            let servers: Vec<Vec<String>> = sizes.iter().map(|size| with(typed, size)).collect();
            refuse_buffers(&servers, Some(32 << 30)).err()
        };
        assert!(refused(&[], &["8GB", "16GB"]).is_none());
        let said = refused(&[], &["8GB", "16GB", "32GB"]).unwrap().message;
        assert!(said.contains("56.0 GB; of 32.0 GB"), "{said}");
        // The axis has the last word.
        assert!(refused(&["shared_buffers=30GB"], &["1GB"]).is_none());
        let both = |setting: &str| vec![vec![setting.to_owned()]; 2];
        let of = |setting: &str| refuse_buffers(&both(setting), Some(32 << 30));
        assert!(of("Shared_Buffers = 13GB").is_err());
        // In blocks: 16 GB.
        assert!(of("shared_buffers=2097152").is_err());
        assert!(of("shared_buffers=2097").is_ok());
        // The default of each is a quarter of its share, 128 MB at least.
        let none = |servers: usize| vec![Vec::new(); servers];
        assert!(refuse_buffers(&none(2), Some(32 << 30)).is_ok());
        assert!(refuse_buffers(&none(32), Some(4 << 30)).is_err());
        assert!(refuse_buffers(&both("shared_buffers=1TB"), None).is_ok());
    }
}
