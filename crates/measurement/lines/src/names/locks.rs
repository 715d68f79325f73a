//! The main array of lightweight locks: single ones, then the partitions of the tables of buffers, locks and
//! predicate locks, then those of extensions; up to 9.5, then those of the buffers and of the sessions.

use super::layout::Layouts;
use super::memory::Memory;
use super::region::Shape;
use super::survey::Survey;

/// Bytes from one lock to the next, as released (LWLOCK_PADDED_SIZE), and as a build may have it.
const STRIDES: [u64; 5] = [128, 64, 32, 24, 16];
/// Single locks at most.
const MOST_SINGLE: usize = 256;
/// Locks of extensions at most.
const MOST: u64 = 1 << 16;
/// Names of the partitions, in their order.
const PARTITIONED: [&str; 3] = ["BufferMapping", "LockManager", "PredicateLockManager"];

/// How the array is arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arrangement {
    stride: u64,
    single: u64,
}

/// The arrangement shows by itself: as many neighbours of one tranche as a table has partitions, then those
/// of the next table.
fn arrangement(memory: &Memory<'_>, first: u64, partitions: &[u64]) -> Option<Arrangement> {
    let length = MOST_SINGLE + partitions.iter().sum::<u64>() as usize;
    STRIDES.iter().find_map(|stride| {
        let tranches: Vec<u16> = (0..length as u64)
            .map_while(|number| memory.u16(first + number * stride))
            .collect();
        let fits = |single: &usize| {
            let mut at = *single;
            let mut before = at.checked_sub(1).and_then(|at| tranches.get(at));
            partitions.iter().all(|count| {
                let run = tranches.get(at..at + *count as usize);
                let tranche = run.and_then(|run| run.first());
                let one = run.is_some_and(|run| run.iter().all(|other| Some(other) == tranche));
                let new = tranche != before && tranche.is_some_and(|tranche| *tranche != 0);
                at += *count as usize;
                before = tranche;
                one && new
            })
        };
        (1..MOST_SINGLE).find(fits).map(|single| Arrangement {
            stride: *stride,
            single: single as u64,
        })
    })
}

/// The arrangement of a release whose locks have no tranches: by its layout, if the locks bear it out, each of which
/// nobody waits for points at itself. And how many locks there are in all, which stands before them.
fn counted(memory: &Memory<'_>, first: u64, layouts: &Layouts) -> Option<(Arrangement, u64)> {
    let stride = layouts.get("LWLockPadded")?.size;
    let layout = layouts.get("LWLock")?;
    let (tranche, waiters) = (layout.offset("tranche")?, layout.offset("waiters.head")?);
    let fixed: u64 = layouts.fixed.iter().sum();
    // LWLockCounter: the next lock that is free, the number of all, the next tranche.
    let [next, all] = [12, 8].map(|before| memory.u32(first.checked_sub(before)?));
    let (next, all) = (u64::from(next?), u64::from(all?));
    let is_lock = |number: &u64| {
        let lock = first + number * stride;
        let head = lock + waiters;
        memory.u16(lock + tranche) == Some(0) && memory.u64(head).is_some_and(|at| at != 0)
    };
    let at_rest = |number: &u64| {
        let head = first + number * stride + waiters;
        memory.u64(head) == Some(head)
    };
    let right = (fixed..=all).contains(&next)
        && (0..fixed).all(|number| is_lock(&number))
        && (0..fixed).filter(at_rest).count() as u64 * 2 > fixed;
    let arrangement = Arrangement {
        stride,
        single: layouts.fixed[0],
    };
    right.then_some((arrangement, all))
}

/// What the locks are called, from the first on.
fn names(
    memory: &Memory<'_>,
    first: u64,
    arrangement: Arrangement,
    layouts: &Layouts,
) -> Vec<String> {
    let tranche = |number: u64| memory.u16(first + number * arrangement.stride);
    // Numbers of single locks keep their meaning, unless a release has more or fewer of them.
    let sure = layouts.exact || arrangement.single == layouts.fixed[0];
    let mut names: Vec<String> = (0..arrangement.single)
        .map(|number| {
            let tranche = tranche(number).map_or(0, u32::from);
            let name = layouts.single(number, tranche).filter(|_| sure);
            name.map_or_else(|| number.to_string(), str::to_owned)
        })
        .collect();
    for (name, count) in PARTITIONED.iter().zip(&layouts.fixed[1..]) {
        names.extend((0..*count).map(|number| format!("{name} {number}")));
    }
    // Those of extensions have tranches of their own; behind them is other memory.
    let mut before = None;
    let mut count = 0;
    for number in names.len() as u64..MOST {
        let Some(tranche) = tranche(number) else {
            break;
        };
        let known = layouts.tranche(u32::from(tranche)).is_some();
        if known || tranche == 0 || tranche > 4096 {
            break;
        }
        count = if before == Some(tranche) {
            count + 1
        } else {
            0
        };
        before = Some(tranche);
        names.push(format!("tranche {tranche} {count}"));
    }
    names
}

impl Survey<'_> {
    /// Names the main array.
    pub(super) fn locks(&mut self) {
        let Some(first) = self.variable("MainLWLockArray") else {
            self.doubts
                .push("the server exports no MainLWLockArray".to_owned());
            return;
        };
        let by_count = (self.layouts.exact && !self.layouts.has_tranches())
            .then(|| counted(&self.memory, first, &self.layouts))
            .flatten();
        let by_tranche = || arrangement(&self.memory, first, &self.layouts.fixed[1..]);
        let Some(found) = by_count.map(|(found, _)| found).or_else(by_tranche) else {
            self.doubts
                .push("the array of LWLocks does not look as expected".to_owned());
            return;
        };
        let names = names(&self.memory, first, found, &self.layouts);
        let length = names.len() as u64 * found.stride;
        let stride = found.stride;
        if let Some((_, all)) = by_count {
            self.assigned(first + length, first + all * stride, stride);
        }
        self.add(first, length, "LWLock", Shape::Locks { stride, names });
    }

    /// Locks of the main array that were handed out one by one (LWLockAssign, up to 9.5): those of the buffers, two for
    /// each, and of the sessions, in their order.
    fn assigned(&mut self, start: u64, end: u64, stride: u64) {
        let layout = self.layouts.get("LWLock");
        let row = |layout, what, own| Shape::Row {
            stride,
            layout,
            what,
            own,
        };
        self.add(
            start,
            end - start,
            "LWLock",
            row(layout.clone(), "assigned", None),
        );
        let within = |from: u64, count: u64| {
            let to = from.checked_add(count * stride)?;
            (from >= start && to <= end).then_some(to - from)
        };
        let header = self.layouts.get("BufferDesc");
        let descriptors = self
            .allocations
            .iter()
            .find(|a| a.structure == "Buffer Descriptors");
        let buffers = header.zip(descriptors).and_then(|(header, descriptors)| {
            let at = header.offset("io_in_progress_lock")?;
            let count = self.number("NBuffers")?;
            let first = self.memory.u64(descriptors.start + at)?;
            let content = header.offset("content_lock")?;
            let as_expected = (0..count.min(1000)).all(|number| {
                let of = descriptors.start + number * header.size;
                let lock = first + number * 2 * stride;
                self.memory.u64(of + at) == Some(lock)
                    && self.memory.u64(of + content) == Some(lock + stride)
            });
            let length = within(first, count * 2)?;
            as_expected.then_some((first, length))
        });
        match buffers {
            Some((first, length)) => {
                let names = ["I/O lock", "content lock"];
                self.add(
                    first,
                    length,
                    "LWLock",
                    Shape::BufferLocks { stride, names },
                );
            }
            None => self
                .doubts
                .push("the locks of the buffers do not lie as expected".to_owned()),
        }
        let sessions = self.own_process().and_then(|own| {
            let process = self.layouts.get("PGPROC")?;
            let lock = process.offset("backendLock")?;
            let mine = self.memory.u64(self.variable("MyProc")? + lock)?;
            let first = self.memory.u64(self.variable("ProcGlobal")?)?;
            let first = self.memory.u64(first + lock)?;
            let length = within(first, own + 1)?;
            (first + own * stride == mine).then_some((first, length, own))
        });
        if let Some((first, length, own)) = sessions {
            // As many as there are sessions; who has none of these numbers does not use them.
            let most = self.number("MaxBackends").unwrap_or(0);
            let length = within(first, most).unwrap_or(length);
            self.add(
                first,
                length,
                "LWLock of PGPROC",
                row(layout, "session", Some(own)),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An array with so many bytes from one lock to the next and such tranches.
    fn named(version: u32, stride: u64, tranches: &[u16]) -> Option<(Arrangement, Vec<String>)> {
        let first = 0x1000u64;
        let mut bytes = vec![0u8; 1 << 18];
        for (number, tranche) in tranches.iter().enumerate() {
            let at = (first + number as u64 * stride) as usize;
            bytes[at..at + 2].copy_from_slice(&tranche.to_ne_bytes());
        }
        let read = |at: u64, into: &mut [u8]| {
            let from = bytes.get(at as usize..at as usize + into.len());
            from.is_some_and(|from| {
                into.copy_from_slice(from);
                true
            })
        };
        let memory = Memory::new(&read);
        let layouts = Layouts::of(version);
        let found = arrangement(&memory, first, &layouts.fixed[1..])?;
        Some((found, names(&memory, first, found, &layouts)))
    }

    fn tables(tranche: u16) -> impl Iterator<Item = u16> {
        [(tranche, 128), (tranche + 1, 16), (tranche + 2, 16)]
            .into_iter()
            .flat_map(|(tranche, count)| std::iter::repeat_n(tranche, count))
    }

    #[test]
    fn the_arrangement_shows_in_memory() {
        let fifteen: Vec<u16> = (0..48).chain(tables(60)).chain([95, 95]).collect();
        for stride in [128, 16] {
            let (found, names) = named(150_018, stride, &fifteen).unwrap();
            assert_eq!((found.stride, found.single), (stride, 48));
            assert_eq!(
                [&names[4], &names[48], &names[175], &names[176], &names[209]],
                [
                    "ProcArray",
                    "BufferMapping 0",
                    "BufferMapping 127",
                    "LockManager 0",
                    "tranche 95 1"
                ]
            );
            assert_eq!(names.len(), 210);
        }
        // Before 10, single locks have no tranche of their own.
        let old: Vec<u16> = std::iter::repeat_n(0, 48).chain(tables(14)).collect();
        let (_, names) = named(90_624, 128, &old).unwrap();
        assert_eq!([&names[4], &names[48]], ["ProcArray", "BufferMapping 0"]);
    }

    /// An array as up to 9.5: locks of 32 bytes without tranches, their number before them.
    #[test]
    fn locks_without_tranches_go_by_their_number() {
        let layouts = Layouts::of(90_503);
        let arrangement_of = |waiting: u64, tranche: u8, count: u32| {
            let first = 0x1000u64;
            let mut bytes = vec![0u8; 1 << 15];
            let mut put = |at: u64, value: &[u8]| {
                bytes[at as usize..at as usize + value.len()].copy_from_slice(value);
            };
            put(first - 12, &202u32.to_ne_bytes());
            put(first - 8, &count.to_ne_bytes());
            for number in 0..202 {
                let lock = first + number * 32;
                let head = if number < waiting { 0x9999 } else { lock + 8 };
                put(lock + 2, &[tranche]);
                put(lock + 8, &head.to_ne_bytes());
            }
            let read = |at: u64, into: &mut [u8]| {
                let from = bytes.get(at as usize..at as usize + into.len());
                from.is_some_and(|from| {
                    into.copy_from_slice(from);
                    true
                })
            };
            counted(&Memory::new(&read), first, &layouts)
        };
        let arrangement = Arrangement {
            stride: 32,
            single: 42,
        };
        assert_eq!(arrangement_of(3, 0, 5000), Some((arrangement, 5000)));
        // Fewer than the fixed ones, other tranches, too many that somebody waits for: something else lies there.
        assert_eq!(arrangement_of(3, 0, 201), None);
        assert_eq!(arrangement_of(3, 1, 5000), None);
        assert_eq!(arrangement_of(150, 0, 5000), None);
        assert_eq!(layouts.single(4, 0), Some("ProcArray"));
    }

    #[test]
    fn single_locks_of_an_unknown_release_have_numbers() {
        let more: Vec<u16> = (0..60).chain(tables(80)).collect();
        let (_, names) = named(210_000, 128, &more).unwrap();
        assert_eq!([&names[4], &names[60]], ["4", "BufferMapping 0"]);
        assert_eq!(named(150_018, 128, &[1, 2, 3]), None);
    }
}
