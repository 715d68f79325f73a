//! callgrind's output: the totals of a process, and what each function itself
//! cost (valgrind's manual, "Callgrind Format Specification").

use std::collections::BTreeMap;

/// The counts of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// Instructions executed.
    pub instructions: u64,
    /// Instructions that locked the bus (`Ge`), where they were collected.
    pub locked: Option<u64>,
    /// Exclusive or reserving loads, where they were counted.
    pub exclusive: Option<u64>,
    /// Atomics that are one instruction, such as those of LSE, where they were counted.
    pub single: Option<u64>,
    /// Instructions of each function itself, callees not included.
    pub functions: BTreeMap<String, u64>,
    /// Instructions of each function that was called, with all that it called. The calls of a
    /// function within itself count under its name with `'2`.
    pub inclusive: BTreeMap<String, u64>,
}

impl Profile {
    /// Reads one; `None` where it is not complete, as while it is being written.
    pub fn parse(text: &str) -> Option<Self> {
        let mut events: Vec<&str> = Vec::new();
        let mut positions = 1;
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        let mut current: Option<&str> = None;
        let mut totals: Option<Vec<u64>> = None;
        let mut called: Option<&str> = None;
        let mut after_call = false;
        let mut inclusive: BTreeMap<String, u64> = BTreeMap::new();
        let mut functions: BTreeMap<String, u64> = BTreeMap::new();
        for line in text.lines() {
            if let Some(list) = line.strip_prefix("events: ") {
                events = list.split_ascii_whitespace().collect();
            } else if let Some(list) = line.strip_prefix("positions: ") {
                positions = list.split_ascii_whitespace().count();
            } else if let Some(list) = line.strip_prefix("totals: ") {
                totals = Some(numbers(list));
            } else if let Some(name) = line.strip_prefix("fn=") {
                current = Some(resolve(name, &mut names));
            } else if let Some(name) = line.strip_prefix("cfn=") {
                // The name of a called function can be given here first.
                called = Some(resolve(name, &mut names));
            } else if line.starts_with("calls=") {
                // The next line is what the callee cost.
                after_call = true;
            } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c))
                && let (sums, Some(name)) = match std::mem::take(&mut after_call) {
                    true => (&mut inclusive, called),
                    false => (&mut functions, current),
                }
                && let Some(cost) = line
                    .split_ascii_whitespace()
                    .nth(positions)
                    .and_then(|cost| cost.parse::<u64>().ok())
            {
                match sums.get_mut(name) {
                    Some(sum) => *sum += cost,
                    None => {
                        sums.insert(name.to_owned(), cost);
                    }
                }
            }
        }
        let totals = totals?;
        let of = |event: &str| {
            let at = events.iter().position(|name| *name == event)?;
            // callgrind leaves trailing zeros out.
            Some(totals.get(at).copied().unwrap_or(0))
        };
        Some(Self {
            instructions: of("Ir")?,
            locked: of("Ge"),
            functions,
            inclusive,
            ..Self::default()
        })
    }
}

/// A name that is given in full, or by its number once it was: `(12) name`, `(12)`.
fn resolve<'a>(text: &'a str, names: &mut BTreeMap<&'a str, &'a str>) -> &'a str {
    let Some(end) = text.find(')').filter(|_| text.starts_with('(')) else {
        return text;
    };
    let (number, name) = text.split_at(end + 1);
    match name.trim() {
        "" => names.get(number).copied().unwrap_or(number),
        name => {
            names.insert(number, name);
            name
        }
    }
}

fn numbers(list: &str) -> Vec<u64> {
    list.split_ascii_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "version: 1\npid: 7\npositions: line\nevents: Ir Ge\n\n\
        fl=(1) a.c\nfn=(1) main\n16 400 1\n+2 100\ncfn=(2) LWLockAcquire\ncalls=3 0\n16 400\n\
        * 7\n\nfn=(2)\n51 200 6\n-1 5\n\ntotals: 712 7\n";

    #[test]
    fn totals_and_each_functions_own() {
        let profile = Profile::parse(TEXT).unwrap();
        assert_eq!((profile.instructions, profile.locked), (712, Some(7)));
        assert_eq!(profile.functions["main"], 507);
        assert_eq!(profile.functions["LWLockAcquire"], 205);
        assert_eq!(profile.functions.values().sum::<u64>(), 712);
        assert_eq!(profile.inclusive["LWLockAcquire"], 400);
        assert!(!profile.inclusive.contains_key("main"));
    }

    #[test]
    fn what_is_being_written_is_not_read() {
        let half = &TEXT[..TEXT.find("totals").unwrap()];
        assert_eq!(Profile::parse(half), None);
        assert_eq!(Profile::parse(""), None);
        assert_eq!(Profile::parse("totals: x\n"), None);
    }
}
