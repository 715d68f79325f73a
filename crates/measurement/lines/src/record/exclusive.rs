//! Exclusive loads and stores of a stepped process, done for it.
//!
//! Each stop of a process ends what its exclusive load has begun, so that a stepped store would fail for ever.
//! Debuggers let the pair run by a breakpoint behind it; one that is killed meanwhile leaves it there. Here the load
//! is done from this side, and the store as a compare-and-swap against what was loaded: on shared memory by an atomic
//! on a mapping of the same memory, so that it is one for all other processes, too. Unlike the exclusive store,
//! it succeeds although somebody changed the word and changed it back (ABA), which no code of PostgreSQL's minds.

use std::collections::HashMap;
use std::ops::Range;

use pgassay_model::Failure;
use pgassay_sys::shared::Shared;
use pgassay_sys::step::Stepped;

use crate::code::Exclusive;

/// Memory that a process has marked by its last exclusive load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Marked {
    address: u64,
    size: u32,
    value: u64,
    /// The access that the load was noted as.
    noted: Option<usize>,
}

/// What a half came to.
pub(super) enum Done {
    /// Loaded from this address.
    Loaded(u64),
    /// Stored: the load's access, where it was noted, is an atomic one.
    Stored(Option<usize>),
    /// Not stored.
    Failed,
}

/// The exclusives of one process.
#[derive(Debug, Default)]
pub(super) struct Exclusives {
    marked: Option<Marked>,
    mapped: HashMap<u64, Shared>,
}

impl Exclusives {
    /// What other processes see is mapped anew.
    pub fn map_changed(&mut self) {
        self.mapped.clear();
    }

    /// Notes as which access the last load was recorded.
    pub fn noted(&mut self, access: usize) {
        if let Some(marked) = &mut self.marked {
            marked.noted = Some(access);
        }
    }

    /// Does a half for the process that stands before it. `shared` is where its shared mappings lie, each with where it begins in its file.
    pub fn execute(
        &mut self,
        (pid, stepped): (u32, &Stepped),
        half: Exclusive,
        shared: impl Iterator<Item = (Range<u64>, u64)>,
    ) -> Result<Done, Failure> {
        let failed = |error: std::io::Error| {
            Failure::target(format!("an exclusive access of process {pid}: {error}"))
        };
        if half.pair {
            return Err(Failure::target(format!(
                "process {pid} loads pairs of words exclusively, which is not stepped"
            )));
        }
        let mut registers = stepped.registers().map_err(failed)?;
        let index = half.index.map(|index| registers.get(usize::from(index)));
        let base = registers.base(usize::from(half.base));
        // arm64's addresses have a tag in the first byte; POWER's of a process have nothing there.
        let address = base.wrapping_add(index.unwrap_or(0)) << 8 >> 8;
        // A load begins anew, a store ends what was begun.
        let marked = self.marked.take();
        let marked = marked.filter(|m| (m.address, m.size) == (address, half.size));
        let place = { shared }.find(|(range, _)| range.contains(&address));
        let memory = place
            .map(|(range, offset)| Ok((self.mapping(pid, &range, offset)?, address - range.start)))
            .transpose()?;
        let odd = || Failure::target(format!("process {pid} loads exclusively at {address:#x}"));
        let mut loaded = None;
        let done = match half.status {
            None => {
                let value = match memory {
                    Some((shared, offset)) => shared.load(offset, half.size).ok_or_else(odd)?,
                    None => own(stepped, address, half.size).map_err(failed)?,
                };
                registers.set(usize::from(half.value), value);
                loaded = Some(Marked {
                    address,
                    size: half.size,
                    value,
                    noted: None,
                });
                Done::Loaded(address)
            }
            Some(status) => {
                let new = registers.get(usize::from(half.value));
                let stored = match (marked, memory) {
                    (None, _) => false,
                    (Some(marked), Some((shared, offset))) => shared
                        .exchange(offset, half.size, marked.value, new)
                        .ok_or_else(odd)?,
                    // Its own memory: nobody else writes there.
                    (Some(_), None) => {
                        let bytes = new.to_ne_bytes();
                        let length = half.size.min(8) as usize;
                        stepped.write(address, &bytes[..length]).map_err(failed)?;
                        true
                    }
                };
                registers.set_stored(status, stored);
                match stored {
                    true => Done::Stored(marked.and_then(|marked| marked.noted)),
                    false => Done::Failed,
                }
            }
        };
        self.marked = loaded;
        registers.skip(4);
        stepped.set_registers(&registers).map_err(failed)?;
        Ok(done)
    }

    fn mapping(&mut self, pid: u32, range: &Range<u64>, offset: u64) -> Result<&Shared, Failure> {
        if !self.mapped.contains_key(&range.start) {
            let mapped = Shared::of(pid, range, offset).map_err(|error| {
                Failure::target(format!(
                    "this build makes atomics of exclusive pairs, and the memory that process {pid} shares can't be \
                     mapped here, too, so that they could be stepped: {error}"
                ))
                .with_remedy(match cfg!(target_arch = "aarch64") {
                    true => "run pgassay as root, or a build with LSE atomics",
                    false => "run pgassay as root",
                })
            })?;
            self.mapped.insert(range.start, mapped);
        }
        self.mapped
            .get(&range.start)
            .ok_or_else(|| Failure::target("the mapping is gone"))
    }
}

/// A word of the process's own memory.
fn own(stepped: &Stepped, address: u64, size: u32) -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    stepped.read(address, &mut bytes[..size.min(8) as usize])?;
    Ok(u64::from_ne_bytes(bytes))
}
