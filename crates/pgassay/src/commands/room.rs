//! Whether the disk of a server has room for the tables of a load.

use std::path::PathBuf;

use anyhow::bail;

use super::subject::Subject;
use crate::terminal::Terminal;
use pgassay_engine::workload;
use pgassay_model::Failure;
use pgassay_model::workload::WorkloadPlan;

/// Bytes beside the tables and their WAL: a new cluster and its first segments.
const BESIDE: u64 = 100 << 20;

/// Refuses tables for which the server's disk has no room, and says beforehand what many of them take.
/// The disk of a server on another machine, or of another user, is not seen.
///
/// # Errors
/// With the bytes needed and those that are free.
pub fn check(
    subject: &Subject,
    plan: &WorkloadPlan,
    terminal: &mut Terminal,
) -> anyhow::Result<()> {
    let bytes = workload::bytes(plan);
    // As much WAL as data, until a checkpoint has made it superfluous.
    let needed = bytes.saturating_mul(2).saturating_add(BESIDE);
    let room = place(subject).and_then(|dir| {
        let disk = rustix::fs::statvfs(&dir).ok()?;
        Some((dir, disk.f_bavail.saturating_mul(disk.f_frsize)))
    });
    if plan.data.is_some() {
        terminal.announce(&format!(
            "the tables of {} take {} and about as much WAL; {}",
            workload::scale_in_words(plan),
            in_words(bytes),
            match &room {
                Some((_, free)) => format!("{} are free", in_words(*free)),
                None => "how much is free on the server can't be seen from here".to_owned(),
            }
        ));
    }
    if let Some((dir, free)) = room
        && free < needed
    {
        bail!(
            Failure::target(format!(
                "no space: the server needs {} below {}, where {} are free",
                in_words(needed),
                dir.display(),
                in_words(free)
            ))
            .with_remedy(match plan.data {
                Some(_) => "fewer --warehouses, or another place with --scratch DIR",
                None => "a smaller --scale, or another place with --scratch DIR",
            })
        );
    }
    Ok(())
}

/// A directory on the disk of the data, where it is on this machine: the server works in its data
/// directory.
fn place(subject: &Subject) -> Option<PathBuf> {
    subject.data_dir().or_else(|| {
        let pid = subject.scene.postmaster.as_ref().ok()?;
        std::fs::read_link(format!("/proc/{pid}/cwd")).ok()
    })
}

fn in_words(bytes: u64) -> String {
    match bytes {
        0..10_000_000_000 => format!("{} MB", bytes.div_ceil(1_000_000)),
        _ => format!("{} GB", bytes.div_ceil(1_000_000_000)),
    }
}
