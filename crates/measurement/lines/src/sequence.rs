//! A recording in PostgreSQL's words.

use std::collections::HashMap;

use crate::names::Name;
use crate::names::areas::Area;
use crate::recording::{Kind, Recording};

/// A session's accesses with names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sequence {
    /// In order.
    pub uses: Vec<Use>,
    /// What [`Use::name`] points to.
    pub names: Vec<Name>,
    /// What [`Use::site`] points to.
    pub sites: Vec<CodeSite>,
    /// Transactions that were recorded.
    pub transactions: u64,
    /// Where each transaction begins among the uses, and where the last one ends.
    pub boundaries: Vec<usize>,
    /// Instructions executed in user mode.
    pub instructions: u64,
    /// System calls.
    pub system_calls: u64,
    /// Accesses whose address could not be computed.
    pub unresolved: u64,
    /// Calls whose use of shared memory is not seen.
    pub unseen_calls: u64,
    /// Seconds that stepping took.
    pub seconds: f64,
    /// What lies where in shared memory.
    pub areas: Vec<Area>,
}

/// An access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// Instructions executed before it.
    pub step: u64,
    /// Its first byte.
    pub address: u64,
    /// Its length.
    pub size: u32,
    /// How.
    pub kind: Kind,
    /// The index of its name.
    pub name: u32,
    /// The index of its site.
    pub site: u32,
}

/// Code by function names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CodeSite {
    /// The function; a nameless one by the first of its callers that has a name.
    pub function: String,
    /// The functions that called it, innermost first; nameless ones left out.
    pub callers: Vec<String>,
}

/// Callers that are shown.
const CALLERS: usize = 3;

/// Whether a function is one that the server's sources mean to be inlined: an operation on an atomic word, a spinlock's
/// test-and-set.
fn is_primitive(function: &str) -> bool {
    function == "tas" || function.starts_with("pg_atomic_")
}

impl Sequence {
    /// Names a recording of so many transactions. `name` is asked once for each address, `function`
    /// once for each address of code; it says whether a function has a name.
    pub fn new(
        recording: &Recording,
        transactions: u64,
        name: &mut dyn FnMut(u64) -> Name,
        function: &mut dyn FnMut(u64) -> (String, bool),
    ) -> Self {
        let mut sequence = Self {
            transactions,
            instructions: recording.instructions,
            system_calls: recording.system_calls,
            unresolved: recording.unresolved,
            unseen_calls: recording.unseen_calls,
            seconds: recording.seconds,
            boundaries: boundaries(recording, transactions),
            ..Self::default()
        };
        let mut functions: HashMap<u64, (String, bool)> = HashMap::new();
        for site in &recording.sites {
            // A return address may be that of the next function.
            let mut of = |address: u64| {
                let known = functions.entry(address);
                known.or_insert_with(|| function(address)).clone()
            };
            let innermost = of(site.address);
            let mut callers: Vec<String> = Vec::new();
            for back in &site.callers {
                let (caller, named) = of(back.wrapping_sub(1));
                let repeats = callers.last().is_some_and(|last| *last == caller);
                if named && !repeats {
                    callers.push(caller);
                }
            }
            // What an optimised build has inlined is the caller's.
            let innermost = match innermost {
                (name, true) if is_primitive(&name) => {
                    let of = callers.iter().position(|caller| !is_primitive(caller));
                    let caller = of.map(|of| callers.drain(..=of).next_back());
                    (caller.flatten().unwrap_or(name), true)
                }
                other => other,
            };
            let function = match innermost {
                (name, true) => {
                    callers.retain(|caller| *caller != name);
                    name
                }
                (_, false) if !callers.is_empty() => {
                    format!("static function under {}", callers.remove(0))
                }
                (place, false) => place,
            };
            callers.truncate(CALLERS);
            sequence.sites.push(CodeSite { function, callers });
        }
        let mut addresses: HashMap<u64, u32> = HashMap::new();
        let mut names: HashMap<Name, u32> = HashMap::new();
        for access in &recording.accesses {
            let name = *addresses.entry(access.address).or_insert_with(|| {
                let name = name(access.address);
                *names.entry(name).or_insert_with_key(|name| {
                    sequence.names.push(name.clone());
                    sequence.names.len() as u32 - 1
                })
            });
            sequence.uses.push(Use {
                step: access.step,
                address: access.address,
                size: access.size,
                kind: access.kind,
                name,
                site: access.site,
            });
        }
        sequence
    }

    /// The name of a use.
    pub fn name(&self, of: &Use) -> &Name {
        &self.names[of.name as usize]
    }
}

/// Where transactions begin: a session waits for its client equally often in each. Where it does
/// not, the whole is taken for one.
fn boundaries(recording: &Recording, transactions: u64) -> Vec<usize> {
    let end = recording.accesses.len();
    let waits = recording.pauses.len().saturating_sub(1);
    let each = match usize::try_from(transactions) {
        Ok(n @ 1..) if waits.is_multiple_of(n) && waits > 0 => waits / n,
        _ => return vec![0, end],
    };
    recording.pauses.iter().copied().step_by(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Access, Site};

    #[test]
    fn names_functions_and_boundaries() {
        let access = |address, site| Access {
            step: 1,
            address,
            size: 4,
            kind: Kind::Load,
            site,
        };
        let recording = Recording {
            accesses: vec![access(8, 0), access(8, 1), access(16, 0), access(8, 0)],
            sites: vec![
                Site {
                    address: 100,
                    callers: vec![201, 301, 401],
                },
                Site {
                    address: 200,
                    callers: vec![301],
                },
            ],
            pauses: vec![0, 1, 2, 3, 4],
            ..Recording::default()
        };
        let mut asked = 0;
        let sequence = Sequence::new(
            &recording,
            2,
            &mut |address| {
                asked += 1;
                Name::unknown(format!("at {address}"))
            },
            &mut |address| (format!("f{}", address / 100), address / 100 != 2),
        );
        assert_eq!((asked, sequence.names.len()), (2, 2));
        assert_eq!(sequence.boundaries, [0, 2, 4]);
        assert_eq!(sequence.sites[0].function, "f1");
        assert_eq!(sequence.sites[0].callers, ["f3", "f4"]);
        assert_eq!(sequence.sites[1].function, "static function under f3");
        // A function that others have inlined stands for the one that called it.
        let called = Sequence::new(
            &recording,
            2,
            &mut |address| Name::unknown(format!("at {address}")),
            &mut |address| match address / 100 {
                1 => ("pg_atomic_fetch_add_u32_impl".to_owned(), true),
                2 => ("pg_atomic_fetch_add_u32".to_owned(), true),
                other => (format!("f{other}"), true),
            },
        );
        assert_eq!(called.sites[0].function, "f3");
        assert_eq!(called.sites[0].callers, ["f4"]);
        // A pause too many: no boundaries within.
        let odd = Recording {
            pauses: vec![0, 1, 2, 4],
            ..recording
        };
        assert_eq!(boundaries(&odd, 2), [0, 4]);
    }
}
