//! What each session has of its own: the structure of its process, its status, its statement's text.

use std::rc::Rc;

use super::memory::Memory;
use super::region::{Region, Shape};
use super::survey::{Status, Survey};

/// The lists of locks in PGPROC (NUM_LOCK_PARTITIONS), each a pair of pointers.
const LISTS: u64 = 16;
const LIST: u64 = 16;
/// As far as a search for the next structure goes.
const SEARCHED: u64 = 1 << 16;
/// Entries of the status array beside those of MaxBackends: auxiliary processes.
const AUXILIARY: u64 = 64;

impl Survey<'_> {
    /// Finds the session's entry among the statuses, each of which begins with a count of changes and the
    /// process id (9.0 to 18). Where the layout does not fit, the stride is one that divides the array into a
    /// plausible number of entries.
    pub(super) fn find_status(&self, start: u64, size: u64) -> Option<Status> {
        let entry = self.variable("MyBEEntry");
        let own_of = |stride: u64, pid: u64| -> Option<u64> {
            let is_own = |number: &u64| {
                self.memory.u32(start + number * stride + pid) == Some(self.session.pid)
            };
            match entry.and_then(|entry| entry.checked_sub(start)) {
                Some(from) => {
                    Some(from / stride).filter(|number| from % stride == 0 && is_own(number))
                }
                None => (0..size / stride).find(is_own),
            }
        };
        if let Some(layout) = self.layouts.get("PgBackendStatus") {
            let own = layout
                .offset("st_procpid")
                .filter(|_| size.is_multiple_of(layout.size))
                .and_then(|pid| own_of(layout.size, pid));
            if let Some(own) = own {
                return Some(Status {
                    stride: layout.size,
                    own,
                    entries: size / layout.size,
                    layout: Some(layout),
                });
            }
        }
        let backends = self.number("MaxBackends").filter(|count| *count > 0)?;
        (backends..=backends + AUXILIARY)
            .filter(|entries| size.is_multiple_of(*entries) && (size / entries).is_multiple_of(8))
            .find_map(|entries| {
                let stride = size / entries;
                Some(Status {
                    stride,
                    own: own_of(stride, 4)?,
                    entries,
                    layout: None,
                })
            })
    }

    pub(super) fn statuses(&mut self) -> Shape {
        if self.status.as_ref().is_none_or(|s| s.layout.is_none()) {
            self.doubts
                .push("sessions' status entries do not look as expected".to_owned());
        }
        match self.status.clone() {
            Some(status) => Shape::Row {
                stride: status.stride,
                layout: status.layout,
                what: "session",
                own: Some(status.own),
            },
            None => Shape::Whole,
        }
    }

    /// The texts of the sessions' statements, in the order of their status entries.
    pub(super) fn texts(&self, size: u64) -> Shape {
        let stride = self.number("pgstat_track_activity_query_size").unwrap_or(0);
        let fits = |status: &&Status| stride > 0 && size == status.entries * stride;
        match self.status.as_ref().filter(fits) {
            Some(status) => Shape::Row {
                stride,
                layout: None,
                what: "session",
                own: Some(status.own),
            },
            None => Shape::Whole,
        }
    }

    /// Which of the PGPROC structures is the session's.
    pub(super) fn own_process(&self) -> Option<u64> {
        let layout = self.layouts.get("PGPROC")?;
        let first = self.memory.u64(self.variable("ProcGlobal")?)?;
        let own = self.variable("MyProc")?.checked_sub(first)?;
        let pid = layout.offset("pid")? + self.variable("MyProc")?;
        let right = own % layout.size == 0 && self.memory.u32(pid)? == self.session.pid;
        right.then(|| own / layout.size)
    }

    /// PGPROC of a release whose layout is not known: its members have no names, but what is a session's own
    /// does. The array's address has been the first in PROC_HDR since 9.2.
    fn processes_by_stride(&mut self, global: u64) {
        let (Some(first), Some(own)) = (self.memory.u64(global), self.variable("MyProc")) else {
            return;
        };
        let distance = own.checked_sub(first);
        let found = stride(&self.memory, first).zip(distance);
        if let Some(((stride, count), distance)) = found
            && distance.is_multiple_of(stride)
            && distance / stride < count
        {
            let shape = Shape::Row {
                stride,
                layout: None,
                what: "session",
                own: Some(distance / stride),
            };
            self.add(first, count * stride, "PGPROC", shape);
        }
    }

    /// PGPROC, and the arrays beside it.
    pub(super) fn processes(&mut self) {
        let (Some(global), Some(hdr)) = (self.variable("ProcGlobal"), self.layouts.get("PROC_HDR"))
        else {
            self.doubts
                .push("the server exports no ProcGlobal".to_owned());
            return;
        };
        let at = |name: &str| self.memory.u64(global + hdr.offset(name)?);
        let count = hdr
            .offset("allProcCount")
            .and_then(|at| self.memory.u32(global + at))
            .map_or(0, u64::from);
        let (Some(first), Some(own), Some(layout)) = (
            at("allProcs"),
            self.own_process(),
            self.layouts.get("PGPROC"),
        ) else {
            self.doubts
                .push("processes' structures do not look as expected".to_owned());
            self.processes_by_stride(global);
            return;
        };
        let row = |stride, layout, own| Shape::Row {
            stride,
            layout,
            what: "session",
            own,
        };
        // In the order of the sessions' numbers where each keeps one; dense from 14 on.
        let place = layout
            .offset("pgxactoff")
            .and_then(|at| self.memory.u32(first + own * layout.size + at))
            .map(u64::from);
        let mut found = vec![(
            first,
            count * layout.size,
            "PGPROC",
            row(layout.size, Some(Rc::clone(&layout)), Some(own)),
        )];
        for (member, name, stride) in [
            ("xids", "ProcGlobal->xids", 4),
            ("subxidStates", "ProcGlobal->subxidStates", 2),
            ("statusFlags", "ProcGlobal->statusFlags", 1),
        ] {
            if let Some(start) = at(member) {
                found.push((start, count * stride, name, row(stride, None, place)));
            }
        }
        if let (Some(start), Some(transactions)) = (at("allPgXact"), self.layouts.get("PGXACT")) {
            let size = transactions.size;
            found.push((
                start,
                count * size,
                "PGXACT",
                row(size, Some(transactions), Some(own)),
            ));
        }
        // From 18 on, a session's fast-path locks lie in arrays of their own, the bits first.
        let next = (own + 1) % count.max(1);
        let apart = |m: &&super::layout::Member| m.name == "fpLockBits" && m.size == 8;
        let bits = layout.members.iter().find(apart).filter(|_| {
            let relations = layout.members.iter().find(|m| m.name == "fpRelId");
            relations.is_some_and(|member| member.size == 8)
        });
        if let Some(bits) = bits {
            let of = |number: u64| self.memory.u64(first + number * layout.size + bits.offset);
            if let Some((mine, other)) = of(own).zip(of(next)) {
                let stride = mine.abs_diff(other) / own.abs_diff(next).max(1);
                let base = mine.checked_sub(own * stride);
                if let Some(base) = base.filter(|_| stride > 0 && stride < 1 << 20) {
                    let name = "fast-path locks";
                    found.push((base, count * stride, name, row(stride, None, Some(own))));
                }
            }
        }
        let numbers = self.own_number();
        for (start, length, name, shape) in found {
            self.add(start, length, name, shape);
        }
        self.signals(numbers);
    }

    /// A session's slot for signals begins behind the header's barrier count.
    fn signals(&mut self, own: Option<u64>) {
        let Some(layout) = self.sure("ProcSignalSlot") else {
            return;
        };
        let slots = self
            .allocations
            .iter_mut()
            .find(|a| a.structure == "ProcSignal");
        if let Some(slots) = slots {
            let (start, end) = (slots.start, slots.end);
            slots.shape = Shape::Whole;
            self.regions.push(Region {
                start: start + 8,
                end,
                structure: "ProcSignal".to_owned(),
                shape: Shape::Row {
                    stride: layout.size,
                    layout: Some(layout),
                    what: "session",
                    own,
                },
            });
        }
    }
}

/// Bytes from one PGPROC to the next, and how many there are: in one that is not in use, the heads of the
/// lists of locks point at themselves.
fn stride(memory: &Memory<'_>, first: u64) -> Option<(u64, u64)> {
    let empty = |at: u64| memory.u64(at) == Some(at) && memory.u64(at + 8) == Some(at);
    let all_empty = |at: u64| (0..LISTS).all(|number| empty(at + number * LIST));
    let heads: Vec<u64> = (first..first + SEARCHED)
        .step_by(8)
        .filter(|at| empty(*at) && all_empty(*at) && !empty(at.wrapping_sub(LIST)))
        .collect();
    let apart = heads.windows(2).map(|pair| pair[1] - pair[0]);
    let stride = apart.clone().min()?;
    let lists = heads.first()?.checked_sub(first)? % stride;
    if lists + LISTS * LIST > stride || apart.clone().any(|apart| apart % stride != 0) {
        return None;
    }
    let in_use = |number: u64| {
        let at = first + number * stride + lists;
        (0..LISTS).any(|list| empty(at + list * LIST))
    };
    let count = (0..).take_while(|number| in_use(*number)).count();
    Some((stride, count as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Structures of 824 bytes whose lists begin at 152; number 1 holds locks.
    fn structures(bytes: &mut [u8], first: u64, count: u64) {
        for number in 0..count {
            for list in 0..LISTS {
                let at = first + number * 824 + 152 + list * LIST;
                let points = if number == 1 && list == 3 { 0x99 } else { at };
                for word in [at, at + 8] {
                    bytes[word as usize..word as usize + 8].copy_from_slice(&points.to_ne_bytes());
                }
            }
        }
    }

    fn stride_in(bytes: &[u8], first: u64) -> Option<(u64, u64)> {
        let read = |at: u64, into: &mut [u8]| {
            let from = bytes.get(at as usize..at as usize + into.len());
            from.is_some_and(|from| {
                into.copy_from_slice(from);
                true
            })
        };
        stride(&Memory::new(&read), first)
    }

    #[test]
    fn the_lists_of_locks_show_the_stride() {
        let mut bytes = vec![0u8; 1 << 18];
        assert_eq!(stride_in(&bytes, 0x1000), None);
        structures(&mut bytes, 0x1000, 12);
        assert_eq!(stride_in(&bytes, 0x1000), Some((824, 12)));
        // One more that does not lie in the row.
        structures(&mut bytes, 0x1000 + 13 * 824 + 8, 1);
        assert_eq!(stride_in(&bytes, 0x1000), None);
    }
}
