//! From a data directory down to the disks, as far as /sys tells: partitions,
//! device mapper (LVM, dm-crypt), RAID, loop devices, overlays, btrfs.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::mount::Mount;
use pgassay_model::storage::{Layer, LayerKind, Storage};

use super::directories;
use super::place::mount_line;
use super::reader::Reader;

/// Layers deeper than this are a loop in /sys or not of this world.
const DEEPEST: usize = 16;

/// File systems whose data is elsewhere.
const NETWORK: &[&str] = &[
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "9p",
    "ceph",
    "glusterfs",
    "lustre",
    "afs",
    "virtiofs",
    "beegfs",
];
/// File systems without a device.
const IN_MEMORY: &[&str] = &["tmpfs", "ramfs"];

/// Which device a path is on: its major and minor number.
type DeviceOf<'a> = &'a dyn Fn(&Path) -> Option<(u32, u32)>;

/// The devices under the data directory of a server on this machine, and under
/// its tablespaces. `pid` is a process of the server, whose view of the file
/// systems counts; the directory is that process's own where none is given.
pub fn storage(pid: Option<u32>, data_dir: Option<&Path>) -> Storage {
    let reader = Reader::new("/");
    let mountinfo = match pid {
        Some(pid) => format!("/proc/{pid}/mountinfo"),
        None => "/proc/self/mountinfo".to_owned(),
    };
    let mountinfo = reader.value(&mountinfo).unwrap_or_default();
    // The postmaster's working directory is the data directory, seen from here
    // even where it is in another mount namespace.
    let seen = match (data_dir, pid) {
        (Some(dir), _) => dir.to_owned(),
        (None, Some(pid)) => PathBuf::from(format!("/proc/{pid}/cwd")),
        (None, None) => return Storage::hidden("the data directory is not known"),
    };
    let named = std::fs::read_link(&seen)
        .or_else(|_| std::fs::canonicalize(&seen))
        .unwrap_or_else(|_| seen.clone());
    let device_of = |path: &Path| {
        let meta = std::fs::metadata(path).ok()?;
        Some((rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev())))
    };
    let Some(device) = device_of(&seen) else {
        return Storage::hidden(format!(
            "the data directory {} can't be seen from here; run pgassay as root or as the server's user",
            named.display()
        ));
    };
    let mut walk = Walk {
        reader: &reader,
        mountinfo: &mountinfo,
        device_of: &device_of,
        storage: Storage::default(),
        disks: BTreeSet::new(),
    };
    walk.file_system(device, &named, true);
    // Tablespaces elsewhere are read too.
    for entry in std::fs::read_dir(seen.join("pg_tblspc"))
        .into_iter()
        .flatten()
        .flatten()
    {
        if let Some(other) = device_of(&entry.path()).filter(|other| *other != device) {
            let place = std::fs::read_link(entry.path()).unwrap_or_else(|_| entry.path());
            walk.file_system(other, &place, false);
        }
    }
    walk.storage.directories = directories::of(pid, &seen, &mountinfo);
    walk.finish()
}

struct Walk<'a> {
    reader: &'a Reader,
    mountinfo: &'a str,
    device_of: DeviceOf<'a>,
    storage: Storage,
    disks: BTreeSet<String>,
}

impl Walk<'_> {
    /// Starts at a directory's file system.
    fn file_system(&mut self, device: (u32, u32), dir: &Path, first: bool) {
        let line = mount_line(self.mountinfo, dir);
        let mount = line.as_deref().and_then(Mount::parse);
        if first && let Some(mount) = &mount {
            self.storage.file_system = Some(mount.kind.to_owned());
            self.storage.mounted_from = Some(mount.source.to_owned());
        }
        if self.number(device, 0) {
            return;
        }
        // The number is none of a block device: an anonymous one.
        let Some(mount) = mount else {
            self.hide(format!(
                "{}:{} is no block device that is visible here, and no mount of {} is seen: run \
                 pgassay outside the container",
                device.0,
                device.1,
                dir.display()
            ));
            return;
        };
        self.without_device(&mount, 0);
    }

    /// File systems that show no block device of their own.
    fn without_device(&mut self, mount: &Mount, depth: usize) {
        let kind = mount.kind;
        if IN_MEMORY.contains(&kind) {
            self.hide(format!(
                "the data is on {kind}, in memory: no device is read"
            ));
        } else if kind == "fuse" || kind.starts_with("fuse.") {
            self.hide(format!(
                "the data is on {kind} of {}, which a program serves: the device is read by that program \
                 or on another machine (measure with iostat where the data lies)",
                mount.source
            ));
        } else if NETWORK.contains(&kind) {
            self.hide(format!(
                "the data is on {kind} of {}: its device is read on that side (measure there with \
                 iostat; /proc/self/mountstats counts what crossed the network)",
                mount.source
            ));
        } else if kind == "overlay" {
            self.overlay(mount, depth);
        } else if kind == "btrfs" && self.btrfs(mount, depth) {
        } else if let Some(name) = mount.source.strip_prefix("/dev/") {
            let name = name.replace('/', "!");
            let path = format!("/sys/class/block/{name}");
            match self.reader.resolve(&path) {
                Some(device) => self.device(&device, depth + 1),
                None => self.hide(format!("{} of {kind} is not visible in /sys", mount.source)),
            }
        } else {
            self.hide(format!(
                "{kind} of {} tells no device (for ZFS: zpool iostat)",
                mount.source
            ));
        }
    }

    fn overlay(&mut self, mount: &Mount, depth: usize) {
        let Some(upper) = mount.option("upperdir") else {
            self.hide(
                "the data is on an overlay without an upper directory, which can't be written",
            );
            return;
        };
        self.storage.layers.push(Layer {
            name: "overlay".to_owned(),
            kind: LayerKind::Overlay,
            title: format!("with {upper} on top"),
            beneath: Vec::new(),
        });
        // New files are in the upper directory.
        let found = (self.device_of)(Path::new(&upper)).is_some_and(|d| self.number(d, depth + 1));
        if !found {
            self.hide(format!(
                "the data is on an overlay whose upper directory {upper} is not visible from here: run \
                 pgassay outside the container, or put the data on a volume"
            ));
        }
    }

    /// All devices of the btrfs that the mount's source belongs to.
    fn btrfs(&mut self, mount: &Mount, depth: usize) -> bool {
        let Some(source) = mount.source.rsplit('/').next() else {
            return false;
        };
        // /dev/mapper/NAME is a link to dm-N, which is what /sys knows.
        let source = match self.reader.resolve(mount.source) {
            Some(real) => real.rsplit('/').next().unwrap_or(source).to_owned(),
            None => source.to_owned(),
        };
        for id in self.reader.entries("/sys/fs/btrfs", "*") {
            let devices = self
                .reader
                .entries(&format!("/sys/fs/btrfs/{id}/devices"), "*");
            if devices.contains(&source) {
                for name in devices {
                    if let Some(device) = self.reader.resolve(&format!("/sys/class/block/{name}")) {
                        self.device(&device, depth + 1);
                    }
                }
                return true;
            }
        }
        false
    }

    /// A block device by number; false where there is none.
    fn number(&mut self, (major, minor): (u32, u32), depth: usize) -> bool {
        match self
            .reader
            .resolve(&format!("/sys/dev/block/{major}:{minor}"))
        {
            Some(device) => {
                self.device(&device, depth);
                true
            }
            None => false,
        }
    }

    /// A block device by its directory under /sys/devices, and all beneath it.
    fn device(&mut self, path: &str, depth: usize) {
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        if depth > DEEPEST || self.storage.layers.iter().any(|layer| layer.name == name) {
            return;
        }
        let value = |file: &str| self.reader.value(&format!("{path}/{file}"));
        let beneath = self.reader.entries(&format!("{path}/slaves"), "*");
        let backing = value("loop/backing_file");
        let (kind, title) = if value("partition").is_some() {
            (LayerKind::Partition, String::new())
        } else if let Some(name) = value("dm/name") {
            (LayerKind::DeviceMapper, name)
        } else if let Some(level) = value("md/level") {
            (LayerKind::Raid, level)
        } else if let Some(file) = &backing {
            (LayerKind::Loop, file.clone())
        } else {
            (LayerKind::Disk, value("device/model").unwrap_or_default())
        };
        self.storage.layers.push(Layer {
            name: name.clone(),
            kind,
            title,
            beneath: beneath.clone(),
        });
        if !beneath.is_empty() {
            for slave in beneath {
                match self.reader.resolve(&format!("{path}/slaves/{slave}")) {
                    Some(device) => self.device(&device, depth + 1),
                    None => self.hide(format!("{slave} beneath {name} is not visible in /sys")),
                }
            }
            return;
        }
        if let Some(file) = backing {
            let found =
                (self.device_of)(Path::new(&file)).is_some_and(|d| self.number(d, depth + 1));
            if found {
                return;
            }
            // Its file can't be followed: the loop device's own counters are what there is.
            self.hide(format!(
                "the file {file} behind {name} is not visible from here; {name} itself is counted"
            ));
        }
        // The bottom. A partition's disk is one directory up.
        let disk = match (kind, path.rfind('/')) {
            (LayerKind::Partition, Some(end)) => &path[..end],
            _ => path,
        };
        if let Some(number) = self.reader.value(&format!("{disk}/dev")) {
            self.disks.insert(number);
        }
        self.storage.counted.push(name);
    }

    fn hide(&mut self, why: impl Into<String>) {
        // The first reason is the one nearest to the data.
        self.storage.hidden.get_or_insert(why.into());
    }

    fn finish(mut self) -> Storage {
        self.storage.disks = self.disks.into_iter().collect();
        self.storage
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A machine made of files: what /sys shows, and where paths are.
    struct Machine {
        root: PathBuf,
        devices: Vec<(&'static str, (u32, u32))>,
    }

    impl Machine {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("pgassay-{name}-{}", std::process::id()));
            fs::remove_dir_all(&root).ok();
            fs::create_dir_all(root.join("sys/dev/block")).unwrap();
            fs::create_dir_all(root.join("sys/class/block")).unwrap();
            Self {
                root,
                devices: vec![],
            }
        }

        /// A device's directory, with files in it and the links to it.
        fn device(&self, place: &str, number: &str, files: &[(&str, &str)]) {
            let dir = self.root.join("sys/devices").join(place);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("dev"), format!("{number}\n")).unwrap();
            for (file, text) in files {
                let path = dir.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            let name = place.rsplit('/').next().unwrap();
            symlink(
                format!("../../devices/{place}"),
                self.root.join("sys/dev/block").join(number),
            )
            .unwrap();
            symlink(
                format!("../../devices/{place}"),
                self.root.join("sys/class/block").join(name),
            )
            .unwrap();
        }

        fn beneath(&self, upper: &str, lower: &str) {
            let slaves = self.root.join("sys/devices").join(upper).join("slaves");
            fs::create_dir_all(&slaves).unwrap();
            let name = lower.rsplit('/').next().unwrap();
            symlink(self.root.join("sys/devices").join(lower), slaves.join(name)).unwrap();
        }

        fn resolve(&self, device: (u32, u32), mountinfo: &str) -> Storage {
            let reader = Reader::new(&self.root);
            let device_of = |path: &Path| {
                self.devices
                    .iter()
                    .find(|(p, _)| Path::new(p) == path)
                    .map(|(_, d)| *d)
            };
            let mut walk = Walk {
                reader: &reader,
                mountinfo,
                device_of: &device_of,
                storage: Storage::default(),
                disks: BTreeSet::new(),
            };
            walk.file_system(device, Path::new("/data"), true);
            let storage = walk.finish();
            fs::remove_dir_all(&self.root).unwrap();
            storage
        }
    }

    fn mounted(kind: &str, source: &str, options: &str) -> String {
        format!("30 1 0:9 / /data rw,relatime shared:1 - {kind} {source} {options}")
    }

    #[test]
    fn a_partition_is_counted_itself() {
        let machine = Machine::new("partition");
        machine.device("pci/nvme0n1", "259:0", &[("device/model", "Fast 1\n")]);
        machine.device("pci/nvme0n1/nvme0n1p2", "259:2", &[("partition", "2\n")]);
        let storage = machine.resolve((259, 2), &mounted("ext4", "/dev/nvme0n1p2", "rw"));
        assert_eq!(storage.counted, ["nvme0n1p2"]);
        assert_eq!(storage.disks, ["259:0"]);
        assert_eq!(storage.shown(), "ext4 on nvme0n1p2 (partition)");
        assert_eq!(storage.hidden, None);
    }

    #[test]
    fn lvm_over_crypt_over_raid_over_partitions() {
        let machine = Machine::new("stack");
        for (disk, major) in [("sda", "8:0"), ("sdb", "8:16")] {
            machine.device(&format!("pci/{disk}"), major, &[]);
        }
        machine.device("pci/sda/sda1", "8:1", &[("partition", "1")]);
        machine.device("pci/sdb/sdb1", "8:17", &[("partition", "1")]);
        machine.device("virtual/block/md0", "9:0", &[("md/level", "raid1\n")]);
        machine.device("virtual/block/dm-0", "253:0", &[("dm/name", "crypt\n")]);
        machine.device("virtual/block/dm-1", "253:1", &[("dm/name", "vg-data\n")]);
        machine.beneath("virtual/block/dm-1", "virtual/block/dm-0");
        machine.beneath("virtual/block/dm-0", "virtual/block/md0");
        machine.beneath("virtual/block/md0", "pci/sda/sda1");
        machine.beneath("virtual/block/md0", "pci/sdb/sdb1");
        let storage = machine.resolve((253, 1), &mounted("xfs", "/dev/mapper/vg-data", "rw"));
        assert_eq!(storage.counted, ["sda1", "sdb1"]);
        assert_eq!(storage.disks, ["8:0", "8:16"]);
        assert_eq!(
            storage.shown(),
            "xfs on dm-1 (device mapper vg-data) on dm-0 (device mapper crypt) on md0 (RAID raid1) \
             on sda1 (partition) on sdb1 (partition)"
        );
    }

    #[test]
    fn a_loop_device_leads_to_its_files_disk_or_is_counted_itself() {
        let files = [("loop/backing_file", "/images/pg.img\n")];
        let mut machine = Machine::new("loop");
        machine.device("virtual/block/loop0", "7:0", &files);
        machine.device("pci/vda", "254:0", &[]);
        machine.devices.push(("/images/pg.img", (254, 0)));
        let storage = machine.resolve((7, 0), &mounted("ext4", "/dev/loop0", "rw"));
        assert_eq!(storage.counted, ["vda"]);
        let machine = Machine::new("loop-hidden");
        machine.device("virtual/block/loop0", "7:0", &files);
        let storage = machine.resolve((7, 0), &mounted("ext4", "/dev/loop0", "rw"));
        assert_eq!(storage.counted, ["loop0"]);
        assert!(storage.hidden.unwrap().contains("/images/pg.img"));
    }

    #[test]
    fn an_overlay_leads_to_its_upper_directory() {
        let options = "rw,lowerdir=/l1:/l2,upperdir=/var/lib/docker/a\\040b/diff,workdir=/w";
        let mut machine = Machine::new("overlay");
        machine.device("pci/vda", "254:0", &[]);
        machine.devices.push(("/var/lib/docker/a b/diff", (254, 0)));
        let storage = machine.resolve((0, 40), &mounted("overlay", "overlay", options));
        assert_eq!(storage.counted, ["vda"]);
        assert!(
            storage
                .shown()
                .starts_with("overlay on overlay (overlay with"),
            "{}",
            storage.shown()
        );
        let machine = Machine::new("overlay-hidden");
        let storage = machine.resolve((0, 40), &mounted("overlay", "overlay", options));
        assert!(storage.counted.is_empty());
        assert!(storage.hidden.unwrap().contains("outside the container"));
    }

    #[test]
    fn btrfs_has_all_its_devices() {
        let machine = Machine::new("btrfs");
        machine.device("pci/sda", "8:0", &[]);
        machine.device("pci/sdb", "8:16", &[]);
        for name in ["sda", "sdb"] {
            let dir = machine.root.join("sys/fs/btrfs/uuid-1/devices");
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join(name), "").unwrap();
        }
        let storage = machine.resolve((0, 33), &mounted("btrfs", "/dev/sda", "rw"));
        assert_eq!(storage.counted, ["sda", "sdb"]);
    }

    #[test]
    fn what_has_no_device_says_so() {
        for (kind, source, word) in [
            ("tmpfs", "tmpfs", "in memory"),
            ("nfs4", "filer:/pg", "network"),
            ("fuse.sshfs", "host:/pg", "another machine"),
            ("fuse", "/srv/pg", "a program serves"),
            ("zfs", "tank/pg", "zpool"),
            ("bcachefs", "/dev/gone", "not visible"),
        ] {
            let storage = Machine::new(kind).resolve((0, 50), &mounted(kind, source, "rw"));
            assert!(storage.counted.is_empty());
            let why = storage.hidden.unwrap();
            assert!(why.contains(word), "{kind}: {why}");
            assert_eq!(storage.file_system.as_deref(), Some(kind));
        }
        let storage = Machine::new("unseen").resolve((0, 50), "");
        assert!(storage.hidden.unwrap().contains("outside the container"));
    }

    #[test]
    fn links_in_a_circle_end() {
        let machine = Machine::new("circle");
        machine.device("virtual/block/dm-0", "253:0", &[("dm/name", "a")]);
        machine.device("virtual/block/dm-1", "253:1", &[("dm/name", "b")]);
        machine.beneath("virtual/block/dm-0", "virtual/block/dm-1");
        machine.beneath("virtual/block/dm-1", "virtual/block/dm-0");
        let storage = machine.resolve((253, 0), &mounted("ext4", "/dev/dm-0", "rw"));
        assert!(storage.counted.is_empty());
    }

    #[test]
    fn this_machine_is_resolved_or_says_why() {
        let storage = storage(None, Some(Path::new("/var/tmp")));
        assert!(
            !storage.counted.is_empty() || storage.hidden.is_some(),
            "{storage:?}"
        );
        // In a chroot that is no mount of its own the table of mounts does not show its root.
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        if mounts.lines().any(|l| l.split(' ').nth(4) == Some("/")) {
            assert!(storage.file_system.is_some());
        }
    }
}
