//! On which CPU each thread of a kernel runs.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// How threads are laid onto the CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// A core each, one socket after the other; siblings of a core last.
    #[default]
    Cores,
    /// Siblings of a core next to each other.
    Siblings,
    /// In turn on each socket.
    Sockets,
    /// Wherever the kernel puts them.
    Free,
}

/// Where a CPU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// Its number.
    pub cpu: usize,
    /// Its core: the first of the CPUs that share it, or the number within the socket that the kernel gives.
    pub core: u32,
    /// Its socket's.
    pub socket: u32,
}

/// The CPUs that this program may run on, as sysfs tells where they are. Where it does not, each is a
/// core of its own on one socket.
///
/// # Errors
/// What sched_getaffinity(2) gave.
pub fn here() -> std::io::Result<Vec<Cpu>> {
    Ok(within(
        Path::new("/sys/devices/system/cpu"),
        &pgassay_sys::affinity::allowed_cpus()?,
    ))
}

fn within(root: &Path, cpus: &[usize]) -> Vec<Cpu> {
    let text = |cpu: usize, name: &str| {
        std::fs::read_to_string(root.join(format!("cpu{cpu}/topology/{name}"))).ok()
    };
    let number = |cpu: usize, name: &str| text(cpu, name)?.trim().parse::<u32>().ok();
    // Numbers of cores begin anew in each cluster of some arm64 machines, and within each die of others.
    let first = |cpu: usize| {
        let list = text(cpu, "thread_siblings_list")?;
        let digits = list.trim().split(|c: char| !c.is_ascii_digit()).next();
        digits?.parse::<u32>().ok()
    };
    cpus.iter()
        .map(|&cpu| Cpu {
            cpu,
            core: first(cpu)
                .or_else(|| number(cpu, "core_id"))
                .unwrap_or(cpu as u32),
            socket: number(cpu, "physical_package_id").unwrap_or(0),
        })
        .collect()
}

impl Placement {
    /// The CPUs in the order in which threads get them, round and round; none where they are free.
    pub fn order(self, cpus: &[Cpu]) -> Vec<usize> {
        // Which sibling of its core a CPU is, and which core of its socket.
        let mut siblings: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let mut placed: Vec<(Cpu, u32)> = cpus
            .iter()
            .map(|cpu| {
                let seen = siblings.entry((cpu.socket, cpu.core)).or_default();
                *seen += 1;
                (*cpu, *seen)
            })
            .collect();
        match self {
            Self::Free => return Vec::new(),
            Self::Cores => placed.sort_by_key(|(at, sibling)| (*sibling, at.socket, at.core)),
            Self::Siblings => placed.sort_by_key(|(at, sibling)| (at.socket, at.core, *sibling)),
            Self::Sockets => placed.sort_by_key(|(at, sibling)| (*sibling, at.core, at.socket)),
        }
        placed.into_iter().map(|(at, _)| at.cpu).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets of two cores with two siblings each, numbered as Linux does on x86-64.
    fn machine() -> Vec<Cpu> {
        (0..8)
            .map(|cpu| Cpu {
                cpu,
                core: cpu as u32 / 2 % 2,
                socket: cpu as u32 % 2,
            })
            .collect()
    }

    #[test]
    fn threads_get_cores_before_siblings() {
        assert_eq!(Placement::Cores.order(&machine()), [0, 2, 1, 3, 4, 6, 5, 7]);
        assert_eq!(
            Placement::Siblings.order(&machine()),
            [0, 4, 2, 6, 1, 5, 3, 7]
        );
        assert_eq!(
            Placement::Sockets.order(&machine()),
            [0, 1, 2, 3, 4, 5, 6, 7]
        );
        assert!(Placement::Free.order(&machine()).is_empty());
    }

    #[test]
    fn cores_of_two_clusters_that_count_alike_are_not_one() {
        let root = std::env::temp_dir().join(format!("pgassay-placement-{}", std::process::id()));
        for cpu in 0..4 {
            let topology = root.join(format!("cpu{cpu}/topology"));
            std::fs::create_dir_all(&topology).unwrap();
            let write =
                |name: &str, text: String| std::fs::write(topology.join(name), text).unwrap();
            write("core_id", format!("{}\n", cpu % 2));
            write("physical_package_id", "0\n".into());
            write("thread_siblings_list", format!("{cpu}\n"));
        }
        let apart = within(&root, &[0, 1, 2, 3]);
        // Where two share a core, the list names both.
        for cpu in [2, 3] {
            let list = root.join(format!("cpu{cpu}/topology/thread_siblings_list"));
            std::fs::write(list, "2-3\n").unwrap();
        }
        let shared = within(&root, &[0, 1, 2, 3]);
        std::fs::remove_dir_all(&root).unwrap();
        let cores = |cpus: &[Cpu]| cpus.iter().map(|at| at.core).collect::<Vec<_>>();
        assert_eq!(cores(&apart), [0, 1, 2, 3]);
        assert_eq!(cores(&shared), [0, 1, 2, 2]);
        assert_eq!(Placement::Cores.order(&shared), [0, 1, 2, 3]);
    }

    #[test]
    fn a_machine_that_says_nothing_has_a_core_a_cpu() {
        let cpus = within(Path::new("/nonexistent"), &[3, 5]);
        assert_eq!(Placement::Cores.order(&cpus), [3, 5]);
        assert_eq!(cpus[1].core, 5);
    }
}
