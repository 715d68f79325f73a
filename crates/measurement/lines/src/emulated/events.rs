//! What the emulator's plugin wrote, as a recording.
//!
//! The plugin tells of accesses as the emulator makes them. An instruction that loads a pair, or a
//! vector, is several accesses side by side to it and one here; the two halves of an exclusive
//! sequence (LDXR and STXR, lwarx and stwcx.) are one atomic access where the second was reached, and
//! a load where not.

use std::collections::HashMap;
use std::ops::Range;

use pgassay_model::Failure;

use crate::recording::{Access, Kind, Recording, Site};

/// struct event of plugin.c: step, address of the code, value, size, kind.
const LENGTH: usize = 32;
/// Callers kept with an access, as for a stepped session.
const CALLERS: usize = 8;

/// The kinds of plugin.c, in its order.
const BEGIN: u32 = 0;
const LOAD: u32 = 1;
const STORE: u32 = 2;
const ATOMIC: u32 = 3;
const EXCLUSIVE_LOAD: u32 = 4;
const EXCLUSIVE_STORE: u32 = 5;
const CALL: u32 = 6;
const ARRIVED: u32 = 7;
const KERNEL_LOAD: u32 = 8;
const KERNEL_STORE: u32 = 9;
const WAIT: u32 = 10;
const UNRESOLVED: u32 = 11;
const UNSEEN: u32 = 12;
const SYSTEM_CALL: u32 = 13;

/// Shared memory: where it lies, where it is recorded to begin, and its name.
pub type Shared = (Range<u64>, u64, String);

struct Event {
    step: u64,
    pc: u64,
    value: u64,
    size: u32,
    kind: u32,
}

impl Event {
    fn read(bytes: &[u8; LENGTH]) -> Self {
        let word = |at: usize| {
            let part = bytes[at..at + 8].try_into();
            part.map_or(0, u64::from_ne_bytes)
        };
        let last = word(24);
        Self {
            step: word(0),
            pc: word(8),
            value: word(16),
            size: last as u32,
            kind: (last >> 32) as u32,
        }
    }
}

/// Makes a recording of events.
#[derive(Default)]
pub struct Events {
    recording: Recording,
    begin: u64,
    /// Return addresses of the calls that were seen.
    calls: Vec<u64>,
    sites: HashMap<Site, u32>,
    /// An exclusive load that no store has followed yet: its address and its access.
    exclusive: Option<(u64, usize)>,
    /// The step of the last exclusive store.
    stored: Option<u64>,
}

impl Events {
    /// Whether the last event is a wait for the client.
    pub fn ends_in_a_wait(bytes: &[u8]) -> bool {
        let (events, rest) = bytes.as_chunks::<LENGTH>();
        let last = events.last().map(Event::read);
        rest.is_empty() && events.len() > 1 && last.is_some_and(|event| event.kind == WAIT)
    }

    /// The recording.
    ///
    /// # Errors
    /// Where the record does not begin where recording began, or has what no plugin of ours writes.
    pub fn recording(bytes: &[u8], shared: &[Shared]) -> Result<Recording, Failure> {
        let (all, rest) = bytes.as_chunks::<LENGTH>();
        let odd = || Failure::target("the emulator's record is not whole");
        let first = all.first().map(Event::read);
        let Some(first) = first.filter(|event| event.kind == BEGIN && rest.is_empty()) else {
            return Err(odd());
        };
        let mut events = Self {
            begin: first.step,
            ..Self::default()
        };
        for (_, start, path) in shared
            .iter()
            .filter(|(range, start, _)| range.start != *start)
        {
            events.recording.segments.insert(*start, path.clone());
        }
        events.recording.pauses.push(0);
        for event in all[1..].iter().map(Event::read) {
            events.take(&event, shared).ok_or_else(odd)?;
        }
        Ok(events.recording)
    }

    /// `None` for what can't be.
    fn take(&mut self, event: &Event, shared: &[Shared]) -> Option<()> {
        let step = event.step.checked_sub(self.begin)?;
        match event.kind {
            LOAD => self.access(event, step, Kind::Load, shared),
            STORE => self.access(event, step, Kind::Store, shared),
            ATOMIC => self.access(event, step, Kind::Atomic, shared),
            KERNEL_LOAD => self.access(event, step, Kind::KernelLoad, shared),
            KERNEL_STORE => self.access(event, step, Kind::KernelStore, shared),
            EXCLUSIVE_LOAD => {
                let before = self.recording.accesses.len();
                self.access(event, step, Kind::Load, shared);
                // The second half of a pair is part of the first.
                if self.recording.accesses.len() > before {
                    self.exclusive = Some((event.value, before));
                }
            }
            EXCLUSIVE_STORE if self.stored == Some(step) => {}
            EXCLUSIVE_STORE => {
                self.stored = Some(step);
                match self.exclusive.take() {
                    Some((address, access)) if address == event.value => {
                        self.recording.accesses[access].kind = Kind::Atomic;
                    }
                    _ => self.access(event, step, Kind::Atomic, shared),
                }
            }
            CALL => self.calls.push(event.value),
            ARRIVED => {
                // Functions that were left otherwise, by longjmp, go with their caller.
                if let Some(at) = self.calls.iter().rposition(|back| *back == event.pc) {
                    self.calls.truncate(at);
                }
            }
            WAIT => {
                let waited = self.recording.accesses.len();
                self.recording.pauses.push(waited);
                self.recording.instructions = step;
            }
            UNRESOLVED => self.recording.unresolved += 1,
            UNSEEN => self.recording.unseen_calls += 1,
            SYSTEM_CALL => self.recording.system_calls += 1,
            _ => return None,
        }
        Some(())
    }

    fn access(&mut self, event: &Event, step: u64, kind: Kind, shared: &[Shared]) {
        let part = shared
            .iter()
            .find(|(range, ..)| range.contains(&event.value));
        let Some((range, start, _)) = part else {
            return;
        };
        let address = event.value - range.start + start;
        if let Some(last) = self.recording.accesses.last_mut()
            && (last.step, last.kind) == (step, kind)
            && last.address + u64::from(last.size) == address
        {
            last.size += event.size;
            return;
        }
        let site = Site {
            address: event.pc,
            callers: self.calls.iter().rev().take(CALLERS).copied().collect(),
        };
        let next = self.sites.len() as u32;
        let site = *self.sites.entry(site).or_insert_with_key(|site| {
            self.recording.sites.push(site.clone());
            next
        });
        self.recording.accesses.push(Access {
            step,
            address,
            size: event.size,
            kind,
            site,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(events: &[(u64, u64, u64, u32, u32)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (step, pc, value, size, kind) in events {
            for word in [
                *step,
                *pc,
                *value,
                u64::from(*size) | u64::from(*kind) << 32,
            ] {
                bytes.extend(word.to_ne_bytes());
            }
        }
        bytes
    }

    fn shared() -> Vec<Shared> {
        vec![
            (0x1000..0x2000, 0x1000, "/dev/zero".to_owned()),
            (0x8000..0x9000, 1 << 62, "/dev/shm/PostgreSQL.7".to_owned()),
        ]
    }

    fn of(events: &[(u64, u64, u64, u32, u32)]) -> Recording {
        let mut all = vec![(100, 0, 0, 0, BEGIN)];
        all.extend(events);
        Events::recording(&bytes(&all), &shared()).unwrap()
    }

    #[test]
    fn an_exclusive_pair_is_one_atomic_access() {
        let recording = of(&[
            (101, 4, 0x1000, 4, EXCLUSIVE_LOAD),
            (103, 12, 0x1000, 4, EXCLUSIVE_STORE),
            // a pair of registers each
            (104, 16, 0x1010, 8, EXCLUSIVE_LOAD),
            (104, 16, 0x1018, 8, EXCLUSIVE_LOAD),
            (105, 20, 0x1010, 8, EXCLUSIVE_STORE),
            (105, 20, 0x1018, 8, EXCLUSIVE_STORE),
            // given up before the store
            (106, 24, 0x1020, 4, EXCLUSIVE_LOAD),
        ]);
        let seen: Vec<_> = recording
            .accesses
            .iter()
            .map(|a| (a.address, a.size, a.kind))
            .collect();
        assert_eq!(
            seen,
            [
                (0x1000, 4, Kind::Atomic),
                (0x1010, 16, Kind::Atomic),
                (0x1020, 4, Kind::Load)
            ]
        );
    }

    #[test]
    fn a_vector_is_one_access_and_other_segments_have_places_of_their_own() {
        let recording = of(&[
            (101, 4, 0x8010, 8, STORE),
            (101, 4, 0x8018, 8, STORE),
            (102, 8, 0x8020, 8, STORE),
            (103, 8, 0x7000, 8, STORE),
            (103, 8, 0x1ff8, 8, ATOMIC),
        ]);
        let seen: Vec<_> = recording
            .accesses
            .iter()
            .map(|a| (a.address, a.size))
            .collect();
        assert_eq!(
            seen,
            [((1 << 62) + 0x10, 16), ((1 << 62) + 0x20, 8), (0x1ff8, 8)]
        );
        assert_eq!(recording.segments[&(1 << 62)], "/dev/shm/PostgreSQL.7");
    }

    #[test]
    fn callers_go_when_they_are_returned_to() {
        let recording = of(&[
            (101, 0x40, 0x44, 0, CALL),
            (102, 0x80, 0x84, 0, CALL),
            (103, 0xc0, 0x1000, 4, LOAD),
            (105, 0x44, 0, 0, ARRIVED),
            (106, 0x48, 0x1000, 4, LOAD),
            (107, 0x4c, 0, 0, WAIT),
            (110, 0x48, 0x1000, 4, LOAD),
            (150, 0x4c, 0, 0, WAIT),
        ]);
        let callers =
            |access: usize| &recording.sites[recording.accesses[access].site as usize].callers;
        assert_eq!(*callers(0), [0x84, 0x44]);
        assert!(callers(1).is_empty());
        assert_eq!(recording.pauses, [0, 2, 3]);
        assert_eq!(recording.instructions, 50);
    }

    #[test]
    fn what_is_cut_off_is_no_record() {
        let whole = bytes(&[(1, 0, 0, 0, BEGIN), (2, 0, 0, 0, WAIT)]);
        assert!(Events::ends_in_a_wait(&whole));
        for cut in [0, 31, 32, 63] {
            assert!(!Events::ends_in_a_wait(&whole[..cut]), "{cut}");
        }
        for wrong in [
            &whole[..33],
            &whole[32..],
            &bytes(&[(1, 0, 0, 0, BEGIN), (0, 0, 0, 0, WAIT)]),
            &bytes(&[(1, 0, 0, 0, BEGIN), (2, 0, 0, 0, 99)]),
        ] {
            assert!(Events::recording(wrong, &shared()).is_err());
        }
    }
}
