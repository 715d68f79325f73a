//! A loop inside the server, cut into its operations.
//!
//! A call of such a loop is one statement: before and after its operations lie the executor, the
//! snapshot, the gate. Code that runs exactly once in each operation tells where they begin.

use std::cmp::Reverse;
use std::collections::HashMap;

use pgassay_model::Failure;

use crate::sequence::Sequence;

/// The uses of a call of `operations` alike operations, without what comes before the first and
/// after the last one; each is a transaction of the sequence.
///
/// # Errors
/// If no access was made once in each operation.
pub fn operations(mut sequence: Sequence, operations: u64) -> Result<Sequence, Failure> {
    let Some(begins) = begins(&sequence, operations) else {
        return Err(Failure::target(format!(
            "no code used shared memory exactly once in each of {operations} operations"
        ))
        .with_remedy("another number of operations: -n"));
    };
    // The last one is as long as the one before it.
    let last = begins.last().copied().unwrap_or(0);
    let before = begins
        .len()
        .checked_sub(2)
        .and_then(|i| begins.get(i))
        .copied();
    let length = before.map_or(sequence.uses.len() - last, |before| last - before);
    let first = begins.first().copied().unwrap_or(0);
    let end = (last + length).min(sequence.uses.len());
    sequence.boundaries = begins.iter().map(|at| at - first).collect();
    sequence.boundaries.push(end - first);
    let step = |at: usize| sequence.uses.get(at).map(|one| one.step);
    let took = step(last).zip(step(first)).map(|(b, a)| b - a);
    let more = before.and_then(step).zip(step(last)).map(|(a, b)| b - a);
    sequence.instructions = took.unwrap_or(0) + more.unwrap_or(0);
    sequence.uses.truncate(end);
    sequence.uses.drain(..first);
    sequence.transactions = operations;
    Ok(sequence)
}

/// Where the operations begin: where code accesses something so often, and of several the one whose
/// accesses lie farthest apart, since the operations are most of the call; of these the first.
fn begins(sequence: &Sequence, operations: u64) -> Option<Vec<usize>> {
    let mut of: HashMap<(u32, &str), Vec<usize>> = HashMap::new();
    for (at, one) in sequence.uses.iter().enumerate() {
        let what = sequence.names.get(one.name as usize)?;
        of.entry((one.site, what.group.as_str()))
            .or_default()
            .push(at);
    }
    of.into_values()
        .filter(|times| times.len() as u64 == operations)
        .max_by_key(|times| {
            let [first, .., last] = times.as_slice() else {
                return (0, Reverse(0));
            };
            let step = |at: &usize| sequence.uses.get(*at).map_or(0, |one| one.step);
            (step(last) - step(first), Reverse(*first))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Name;
    use crate::recording::Kind;
    use crate::sequence::{CodeSite, Use};

    fn sequence(sites: &[u32]) -> Sequence {
        let uses = sites.iter().enumerate().map(|(at, site)| Use {
            step: 10 * at as u64,
            address: 64,
            size: 4,
            kind: Kind::Load,
            name: 0,
            site: *site,
        });
        Sequence {
            uses: uses.collect(),
            names: vec![Name::unknown("lock".to_owned())],
            sites: vec![CodeSite::default(); 9],
            transactions: 1,
            boundaries: vec![0, sites.len()],
            instructions: 10_000,
            ..Sequence::default()
        }
    }

    #[test]
    fn what_lies_around_the_operations_is_cut_off() {
        // 7 and 8 are the statement's; an operation is 1 2 2 3.
        let call = sequence(&[7, 8, 1, 2, 2, 3, 1, 2, 2, 3, 1, 2, 2, 3, 8, 7]);
        let cut = operations(call, 3).expect("operations");
        let sites: Vec<u32> = cut.uses.iter().map(|one| one.site).collect();
        assert_eq!(sites, [1, 2, 2, 3, 1, 2, 2, 3, 1, 2, 2, 3]);
        assert_eq!(cut.boundaries, [0, 4, 8, 12]);
        assert_eq!((cut.transactions, cut.instructions), (3, 120));
    }

    /// A loop of the statement's own, over sessions or so, is shorter than that of the operations.
    #[test]
    fn the_longest_loop_is_that_of_the_operations() {
        let call = sequence(&[5, 5, 5, 1, 2, 2, 1, 2, 2, 1, 2, 2, 8]);
        let cut = operations(call, 3).expect("operations");
        assert_eq!(cut.uses.first().map(|one| one.site), Some(1));
        assert_eq!(cut.boundaries, [0, 3, 6, 9]);
    }

    #[test]
    fn what_never_happens_once_in_each_is_refused() {
        let error = operations(sequence(&[7, 1, 1, 1, 8]), 2).expect_err("no operation");
        assert!(error.remedy.is_some_and(|remedy| remedy.contains("-n")));
    }
}
