//! Data on an unsuitable file system.

use crate::detect::prelude::*;

/// The type of the file system under the data.
fn file_system<'a>(seen: &FactView<'a>) -> Result<&'a str, NotJudged> {
    // `… - TYPE SOURCE OPTIONS`, after optional fields (proc(5), mountinfo).
    let line = seen.text("mountinfo of the data")?;
    match line
        .split_once(" - ")
        .and_then(|(_, rest)| rest.split(' ').next())
    {
        Some(kind) => Ok(kind),
        None => could_not_see("the mount's line has no type"),
    }
}

pub fn audit(seen: &FactView) -> Judged {
    let kind = file_system(seen)?;
    let (severity, what) = match kind {
        "ext4" | "xfs" | "zfs" | "btrfs" | "ext3" | "f2fs" | "bcachefs" => {
            return passed(format!(
                "{kind} on {}",
                seen.text("device of the data")
                    .unwrap_or("an unknown device")
            ));
        }
        "overlay" | "aufs" => (Severity::High, "the container's layers"),
        "tmpfs" | "ramfs" => (Severity::High, "memory, lost at a restart"),
        "nfs" | "nfs4" | "cifs" | "smb3" | "ceph" | "glusterfs" | "lustre" => {
            (Severity::Medium, "a network file system")
        }
        "9p" | "virtiofs" => (Severity::High, "the host's, through a protocol"),
        _ if kind.starts_with("fuse") => (Severity::High, "in user space"),
        other => return passed(format!("{other}; no problem with it is known")),
    };
    Observation::new(severity, Confidence::High, format!("The data is on {kind}: {what}."))
        .advice("put the data directory on a volume with ext4 or XFS (Docker: -v NAME:/var/lib/postgresql; Kubernetes: a block volume)")
        .found()
}
