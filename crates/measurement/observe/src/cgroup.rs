//! The control group of a process: what its controllers counted, in both versions of control groups
//! (Linux, admin-guide/cgroup-v1 and admin-guide/cgroup-v2.rst).

use std::fmt::Write as _;
use std::fs;

use pgassay_model::reading::Reading;
use pgassay_model::samplers;
use pgassay_model::storage::VolumeLimits;
use pgassay_readings::io::ReadLimits;
use pgassay_readings::samples;

use super::{Sampler, Scene, file};

/// Sampler of what a CPU quota cost.
pub(super) const CPU: Sampler = Sampler {
    id: samplers::CGROUP_CPU,
    unit: "microseconds",
    explanation: "how long the server's control group was held back by its CPU quota",
    read: |scene| of_server(scene, cpu),
};

/// Sampler of what a memory limit throws out.
pub(super) const MEMORY: Sampler = Sampler {
    id: samplers::CGROUP_MEMORY,
    unit: "bytes and counters",
    explanation: "how often the memory limit of the server's control group was reached, and pages of files that came \
                  back after they had been thrown out",
    read: |scene| of_server(scene, memory),
};

/// io.stat of the server's group, or version 1's two files.
pub(super) fn io(scene: &mut Scene) -> Reading {
    of_server(scene, blocks)
}

/// Time for which this process' group, or one above it, was held back by a quota, in microseconds;
/// none where that is not counted.
pub fn throttled_us() -> Option<u64> {
    let groups = Groups::of("self").ok()?;
    samples::throttled_us(cpu(&groups).text()?)
}

/// What the control groups of a process allow it to read of its one disk (`MAJOR:MINOR`), the least of those of all
/// levels; none where none limits it, or where there are several disks.
pub fn read_limits(pid: u32, disks: &[String]) -> Option<VolumeLimits> {
    let [disk] = disks else {
        return None;
    };
    let groups = Groups::of(&pid.to_string()).ok()?;
    let (mut least, mut found_in) = (ReadLimits::default(), None);
    let mut take = |file: String, limits: ReadLimits| {
        let lower = least.least(limits);
        if lower != least {
            (least, found_in) = (lower, Some(file));
        }
    };
    for path in groups.unified().iter().flat_map(|path| levels(path)) {
        for mount in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
            let name = format!("{mount}{path}/io.max");
            if let Reading::Text(text) = file(&name) {
                take(name, ReadLimits::parse(&text, disk));
            }
        }
    }
    for path in groups.with("blkio").iter().flat_map(|path| levels(path)) {
        let figure = |of: &str| {
            let name = format!("/sys/fs/cgroup/blkio{path}/blkio.throttle.read_{of}_device");
            let figure = ReadLimits::figure(file(&name).text()?, disk)?;
            Some((name, figure))
        };
        if let Some((name, bytes)) = figure("bps") {
            let bytes = Some(bytes);
            take(
                name,
                ReadLimits {
                    bytes,
                    ..ReadLimits::default()
                },
            );
        }
        if let Some((name, requests)) = figure("iops") {
            let requests = Some(requests);
            take(
                name,
                ReadLimits {
                    requests,
                    ..ReadLimits::default()
                },
            );
        }
    }
    found_in.map(|found_in| VolumeLimits {
        iops: least.requests,
        bytes_per_second: least.bytes,
        found_in: Some(found_in),
        ..VolumeLimits::default()
    })
}

/// A group's path and those above it, up to the root, which is empty.
fn levels(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| Some(&path[..path.rfind('/')?]))
}

/// The groups of a process, as /proc/PID/cgroup has them.
struct Groups(String);

impl Groups {
    fn of(pid: &str) -> Result<Self, String> {
        let path = format!("/proc/{pid}/cgroup");
        fs::read_to_string(&path)
            .map(Self)
            .map_err(|e| format!("{path}: {e}"))
    }

    /// The path of the group in the hierarchy for which this holds, given its number and controllers.
    fn path(&self, wanted: impl Fn(&str, &str) -> bool) -> Option<&str> {
        self.0.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':');
            let (hierarchy, controllers) = (fields.next()?, fields.next()?);
            let path = fields.next()?;
            wanted(hierarchy, controllers).then(|| path.trim_end_matches('/'))
        })
    }

    /// Version 2's only one.
    fn unified(&self) -> Option<&str> {
        self.path(|hierarchy, _| hierarchy == "0")
    }

    /// Version 1's with that controller.
    fn with(&self, controller: &str) -> Option<&str> {
        self.path(|_, controllers| controllers.split(',').any(|c| c == controller))
    }
}

fn of_server(scene: &Scene, read: fn(&Groups) -> Reading) -> Reading {
    let groups = match &scene.postmaster {
        Ok(pid) => Groups::of(&pid.to_string()),
        Err(why) => Err(why.clone()),
    };
    match groups {
        Ok(groups) => read(&groups),
        Err(why) => Reading::Unavailable(why),
    }
}

fn blocks(groups: &Groups) -> Reading {
    if let Some(path) = groups.unified() {
        for mount in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
            if let text @ Reading::Text(_) = file(&format!("{mount}{path}/io.stat")) {
                return text;
            }
        }
    }
    if let Some(path) = groups.with("blkio") {
        let mut both = String::new();
        for name in [
            "blkio.throttle.io_service_bytes",
            "blkio.throttle.io_serviced",
        ] {
            match file(&format!("/sys/fs/cgroup/blkio{path}/{name}")) {
                Reading::Text(text) => {
                    let _ = write!(both, "= {name}\n{text}");
                }
                unavailable => return unavailable,
            }
        }
        return Reading::Text(both);
    }
    Reading::Unavailable(
        "the server's cgroup counts no I/O, or its files are not visible".to_owned(),
    )
}

/// cpu.stat of the group and of those above it, each of which may have a quota.
fn cpu(groups: &Groups) -> Reading {
    let version_1 = groups.with("cpu").map(|path| ("/sys/fs/cgroup/cpu", path));
    let version_2 = groups.unified().map(|path| ("/sys/fs/cgroup", path));
    for (mount, path) in version_1.into_iter().chain(version_2) {
        let mut texts = String::new();
        for path in levels(path) {
            if let Reading::Text(text) = file(&format!("{mount}{path}/cpu.stat")) {
                let _ = writeln!(texts, "= {path}/\n{}", text.trim_end());
            }
        }
        if texts.contains("throttled") {
            return Reading::Text(texts);
        }
    }
    Reading::Unavailable("no control group counts what a CPU quota held back".to_owned())
}

/// The lines of memory.stat that are kept.
const OF_FILES: &[&str] = &[
    "file ",
    "workingset_refault",
    "total_cache ",
    "total_workingset_refault",
];

/// The memory limits of the group and of those above it, and what became of them.
fn memory(groups: &Groups) -> Reading {
    let version_1 = groups
        .with("memory")
        .map(|path| ("/sys/fs/cgroup/memory", path, true));
    let version_2 = groups.unified().map(|path| ("/sys/fs/cgroup", path, false));
    for (mount, path, old) in version_1.into_iter().chain(version_2) {
        let mut texts = String::new();
        for path in levels(path) {
            let of = |name: &str| file(&format!("{mount}{path}/{name}"));
            let limit = of(if old {
                "memory.limit_in_bytes"
            } else {
                "memory.max"
            });
            let (Reading::Text(limit), Reading::Text(stat)) = (limit, of("memory.stat")) else {
                continue;
            };
            let _ = writeln!(texts, "= {path}/\nlimit {}", limit.trim());
            let events = of(if old {
                "memory.failcnt"
            } else {
                "memory.events"
            });
            let reached = events.text().and_then(|text| match old {
                true => Some(text.trim()),
                false => text.lines().find_map(|line| line.strip_prefix("max ")),
            });
            if let Some(reached) = reached {
                let _ = writeln!(texts, "reached {reached}");
            }
            for line in stat.lines() {
                if OF_FILES.iter().any(|name| line.starts_with(name)) {
                    let _ = writeln!(texts, "{line}");
                }
            }
        }
        if !texts.is_empty() {
            return Reading::Text(texts);
        }
    }
    Reading::Unavailable(
        "no control group counts the server's memory, or its files are not visible".to_owned(),
    )
}
