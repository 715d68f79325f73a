//! What lies between the data directory and the disks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// `facts/storage-ARM.json`: the devices under a server's data directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Storage {
    /// Type of the file system that holds the data directory: `ext4`.
    pub file_system: Option<String>,
    /// What is mounted there: `/dev/mapper/vg-data`, `server:/export`.
    pub mounted_from: Option<String>,
    /// Devices from the file system downwards, each before those beneath it.
    pub layers: Vec<Layer>,
    /// The devices at the bottom, by their name in /proc/diskstats: their reads
    /// are the device reads. A partition is counted itself, not its whole disk.
    pub counted: Vec<String>,
    /// `MAJOR:MINOR` of the whole disks of these, as cgroups name them.
    pub disks: Vec<String>,
    /// Why reads of devices can't be seen, or only in part, with the way to get them.
    pub hidden: Option<String>,
    /// The directories of the server's files, as far as they can be seen from here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<Directory>,
    /// What its provider allows, as the user named it; or what the server's control group allows, where that was
    /// found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeLimits>,
}

/// A directory of the server's files: how it is mounted, and the attributes of its inodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Directory {
    /// What it holds.
    pub holds: Holds,
    /// Where the server sees it.
    pub path: String,
    /// Where its file system is mounted there.
    pub mounted_at: String,
    /// Type of that file system: `ext4`.
    pub file_system: String,
    /// Options of the mount and of the file system, as mountinfo has them: `rw,relatime,sync`.
    pub options: String,
    /// Attributes (chattr(1)) of the directory and of those below it in which the server makes its files, by path:
    /// those that bear on how they are written. None where they can't be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<BTreeMap<String, String>>,
    /// Bytes of its file system that the server may still use. None where they can't be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
}

/// What a directory holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Holds {
    /// The data directory.
    #[default]
    Data,
    /// The log.
    Wal,
    /// A tablespace.
    Tablespace,
}

impl Holds {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Data => "data directory",
            Self::Wal => "WAL directory",
            Self::Tablespace => "tablespace",
        }
    }
}

/// The limits of a volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VolumeLimits {
    /// Requests a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Bytes a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// Requests a second that last, where more are possible for as long as credits do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_iops: Option<u64>,
    /// Requests beyond these that full credits allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credits: Option<u64>,
    /// The file of a control group in which they were found; none where the user named them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_in: Option<String>,
}

/// One device, or what stands in for one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Layer {
    /// Its kernel name: `dm-0`, `md127`, `loop3`, `nvme0n1p2`.
    pub name: String,
    /// What it is.
    pub kind: LayerKind,
    /// What it is called by people: the name of a logical volume, the level of
    /// a RAID, the file behind a loop; may be empty.
    pub title: String,
    /// Names of what lies directly beneath.
    pub beneath: Vec<String>,
}

/// Kinds of layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LayerKind {
    /// A whole disk, or what the kernel shows as one.
    Disk,
    /// A part of one.
    Partition,
    /// Device mapper: LVM, dm-crypt, multipath.
    DeviceMapper,
    /// Linux software RAID.
    Raid,
    /// A file shown as a disk.
    Loop,
    /// A directory laid over others, as in containers.
    Overlay,
}

impl LayerKind {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Partition => "partition",
            Self::DeviceMapper => "device mapper",
            Self::Raid => "RAID",
            Self::Loop => "loop",
            Self::Overlay => "overlay",
        }
    }
}

impl Storage {
    /// Nothing can be seen, for this reason.
    pub fn hidden(why: impl Into<String>) -> Self {
        Self {
            hidden: Some(why.into()),
            ..Self::default()
        }
    }

    /// `ext4 on dm-0 (device mapper vg-data) on nvme0n1p2 (partition)`.
    pub fn shown(&self) -> String {
        let mut parts = Vec::new();
        if let Some(file_system) = &self.file_system {
            parts.push(match (&self.mounted_from, self.layers.is_empty()) {
                (Some(from), true) => format!("{file_system} of {from}"),
                _ => file_system.clone(),
            });
        }
        for layer in &self.layers {
            let kind = layer.kind.words();
            let title = match layer.title.as_str() {
                "" => String::new(),
                title => format!(" {title}"),
            };
            parts.push(match layer.kind {
                LayerKind::Disk if title.is_empty() => layer.name.clone(),
                _ => format!("{} ({kind}{title})", layer.name),
            });
        }
        parts.join(" on ")
    }
}
