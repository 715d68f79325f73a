//! Lists of counts as people type them: `1,2,8` or `1..64*2`.

/// The largest number of clients that a plan may ask for.
pub const MOST_CLIENTS: u32 = 100_000;

/// Client counts, ascending and distinct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientList(pub Vec<u32>);

impl std::str::FromStr for ClientList {
    type Err = String;

    /// See `Counted::list`.
    fn from_str(text: &str) -> Result<Self, String> {
        CLIENTS.list(text).map(Self)
    }
}

/// Numbers of CPUs, ascending and distinct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuCounts(pub Vec<u32>);

impl std::str::FromStr for CpuCounts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        CPUS.list(text).map(Self)
    }
}

/// Scales of pgbench's tables, ascending and distinct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScaleList(pub Vec<u32>);

impl std::str::FromStr for ScaleList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        SCALES.list(text).map(Self)
    }
}

/// What is counted, for messages.
struct Counted {
    one: &'static str,
    many: &'static str,
    /// Why 0 is none.
    not_zero: &'static str,
    most: u32,
}

const CLIENTS: Counted = Counted {
    one: "client count",
    many: "clients",
    not_zero: "0 clients do nothing; the smallest count is 1",
    most: MOST_CLIENTS,
};

const CPUS: Counted = Counted {
    one: "number of CPUs",
    many: "CPUs",
    not_zero: "a server needs 1 CPU or more",
    most: 65_536,
};

const SCALES: Counted = Counted {
    one: "scale",
    many: "100,000 rows",
    not_zero: "the smallest scale is 1",
    most: 100_000,
};

impl Counted {
    /// `8`, `1,2,8`, `1..8` (every one), `1..64*2` (doubling), `10..100+10`, and any of these joined by commas.
    fn list(&self, text: &str) -> Result<Vec<u32>, String> {
        let mut counts = Vec::new();
        for part in text.split(',').map(str::trim) {
            match part.split_once("..") {
                None => counts.push(self.number(part)?),
                Some((from, rest)) => self.range(self.number(from)?, rest, &mut counts)?,
            }
        }
        counts.sort_unstable();
        counts.dedup();
        if counts.len() > 1000 {
            return Err(format!("{} are too many; 1000 is the most", counts.len()));
        }
        Ok(counts)
    }

    fn range(&self, from: u32, rest: &str, counts: &mut Vec<u32>) -> Result<(), String> {
        let (to, step) = match rest.find(['*', '+']) {
            Some(at) => (
                self.number(&rest[..at])?,
                Some((rest.as_bytes()[at], self.number(&rest[at + 1..])?)),
            ),
            None => (self.number(rest)?, None),
        };
        if to < from {
            return Err(format!(
                "{from}..{rest} goes down; write the smaller number first"
            ));
        }
        let next = |n: u32| match step {
            Some((b'*', factor)) => n.saturating_mul(factor),
            Some((_, add)) => n.saturating_add(add),
            None => n + 1,
        };
        if next(from) == from {
            return Err(format!(
                "{from}..{rest} never gets on; use a factor of 2 or more"
            ));
        }
        let mut n = from;
        while n <= to {
            counts.push(n);
            if counts.len() > 10_000 {
                return Err("these are too many; 1..64*2 gives 1, 2, 4 … 64".to_owned());
            }
            n = next(n);
        }
        Ok(())
    }

    fn number(&self, text: &str) -> Result<u32, String> {
        let number = text.trim().parse::<u32>().map_err(|_| {
            format!(
                "`{text}` is not a {}; write 1,2,8 or 1..64*2 (1, 2, 4 … 64)",
                self.one
            )
        })?;
        match number {
            0 => Err(self.not_zero.to_owned()),
            n if n > self.most => Err(format!(
                "{n} {} are too many; the most is {}",
                self.many, self.most
            )),
            n => Ok(n),
        }
    }
}

/// 1, 2, 4 … up to `most`, `most` itself included: the default sweep.
pub fn doubling_up_to(most: u32) -> Vec<u32> {
    let mut counts: Vec<u32> = std::iter::successors(Some(1u32), |n| n.checked_mul(2))
        .take_while(|n| *n < most)
        .collect();
    counts.push(most.max(1));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Vec<u32> {
        text.parse::<ClientList>().unwrap().0
    }

    #[test]
    fn the_documented_forms() {
        assert_eq!(parsed("8"), [8]);
        assert_eq!(parsed("8, 1,2"), [1, 2, 8]);
        assert_eq!(parsed("1..64*2"), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(parsed("1..4"), [1, 2, 3, 4]);
        assert_eq!(parsed("10..30+10,1"), [1, 10, 20, 30]);
        assert_eq!(parsed("3..20*2"), [3, 6, 12]);
    }

    #[test]
    fn mistakes_are_named() {
        for wrong in [
            "",
            "0",
            "x",
            "1..",
            "8..1",
            "1..8*1",
            "1..8+0",
            "-1",
            "1..1000000*2",
            "99999999999",
            "1,,2",
        ] {
            assert!(wrong.parse::<ClientList>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_default_sweep_ends_at_its_end() {
        assert_eq!(doubling_up_to(8), [1, 2, 4, 8]);
        assert_eq!(doubling_up_to(12), [1, 2, 4, 8, 12]);
        assert_eq!(doubling_up_to(1), [1]);
    }
}
