//! Whose memory an address of a sample is.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::map::{Map, Mapping};

/// The shared parts of the memory of a server's processes, as they were seen while they were sampled.
#[derive(Debug, Clone, Default)]
pub struct Places {
    processes: HashMap<u32, Vec<Mapping>>,
    /// Processes that are there and not the server's, where those that have ended are believed to have been.
    others: Option<HashSet<u32>>,
}

/// Whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The server's shared memory: where it is recorded to lie, the same for all processes.
    Shared(u64),
    /// A server process' own memory.
    Private,
    /// Of a process that is not the server's.
    Other,
}

impl Places {
    /// Notes what a process of the server has mapped. A segment that it mapped later is added.
    pub fn see(&mut self, pid: u32, map: &Map) {
        let known = self.processes.entry(pid).or_default();
        for part in map.shared() {
            if !known.contains(&part) {
                known.push(part);
            }
        }
    }

    /// Takes processes that have ended for the server's where they accessed what is its main segment: it lies at one
    /// address in all of them. `there` are all processes that have not ended.
    pub fn believe_ended(&mut self, there: HashSet<u32>) {
        self.others = Some(there);
    }

    /// The main segment, if the process may have been the server's.
    fn main_of_ended(&self, pid: u32) -> Option<&Mapping> {
        let others = self.others.as_ref()?;
        let mut parts = self.processes.values().flatten();
        parts.find(|part| part.segment() == "main segment" && !others.contains(&pid))
    }

    /// Whose memory an address is.
    pub fn find(&self, pid: u32, address: u64) -> Place {
        let Some(parts) = self.processes.get(&pid) else {
            let main = self.main_of_ended(pid);
            return match main.filter(|part| part.range.contains(&address)) {
                Some(_) => Place::Shared(address),
                None => Place::Other,
            };
        };
        // The last that was seen there is the one that is there.
        let part = parts.iter().rev().find(|p| p.range.contains(&address));
        match part {
            Some(part) => Place::Shared(part.canonical() + (address - part.range.start)),
            None => Place::Private,
        }
    }

    /// Segments beside the main one, by where they are recorded to begin.
    pub fn segments(&self) -> BTreeMap<u64, String> {
        let parts = self.processes.values().flatten();
        parts
            .filter(|part| part.canonical() != part.range.start)
            .map(|part| (part.canonical(), part.path.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_processes() {
        let of = |dynamic: &str| {
            Map::parse(&format!(
                "5580e0000000-5580e0100000 rw-p 00001000 fe:00 77 /usr/bin/postgres\n\
                 7f0000000000-7f0008000000 rw-s 00000000 00:01 1024 /dev/zero (deleted)\n\
                 {dynamic}-7fff00000000 rw-s 00000000 00:0e 5 /dev/shm/PostgreSQL.77\n"
            ))
        };
        let mut places = Places::default();
        places.see(1, &of("7ffe00000000"));
        places.see(2, &of("7ffd00000000"));
        places.see(2, &of("7ffd00000000"));
        assert_eq!(
            places.find(1, 0x7f00_0000_0040),
            Place::Shared(0x7f00_0000_0040)
        );
        // One segment that lies elsewhere in each process is one.
        let one = places.find(1, 0x7ffe_0000_0100);
        assert_eq!(one, places.find(2, 0x7ffd_0000_0100));
        assert!(matches!(one, Place::Shared(at) if at >= crate::map::ELSEWHERE));
        assert_eq!(places.find(1, 0x5580_e000_0000), Place::Private);
        assert_eq!(places.find(1, u64::MAX), Place::Private);
        assert_eq!(places.find(3, 0x7f00_0000_0040), Place::Other);
        assert_eq!(places.segments().len(), 1);
        // One that has ended may have been the server's; one that is there is not.
        places.believe_ended(HashSet::from([1, 2, 3]));
        assert_eq!(places.find(3, 0x7f00_0000_0040), Place::Other);
        assert_eq!(
            places.find(4, 0x7f00_0000_0040),
            Place::Shared(0x7f00_0000_0040)
        );
        assert_eq!(places.find(4, 0x7ffe_0000_0100), Place::Other);
    }
}
