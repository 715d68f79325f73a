//! One line of a listing: shares, the process, the object, the function.
//!
//! ```text
//!   Children      Self  Command          Shared Object      Symbol
//! +   55.88%     0.00%  postgres         [kernel.kallsyms]  [k] do_syscall_64
//!     12.00%    10.50%  postgres: a b    postgres           [.] LWLockAcquire
//! ```
//! perf up to 3.1 printed `perf top` in another order:
//! ```text
//!  samples  pcnt function        DSO
//! 15900.00  3.2% LWLockAcquire   /usr/bin/postgres
//! ```
//! and oprofile, its predecessor, without a sign of its percentages:
//! ```text
//! samples  %        image name               symbol name
//! 15900    3.2011   postgres                 LWLockAcquire
//! ```

use pgassay_model::observed::stacks::KERNEL;

use super::Frame;

/// Marks of the level at which a function ran, before its name.
const MARKS: [&str; 5] = ["[.]", "[k]", "[u]", "[g]", "[H]"];

/// Which columns stand between the shares and the function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Columns {
    /// No heading was seen.
    Unknown,
    /// Those of oprofile.
    Oprofile,
    /// The columns of the heading.
    Named {
        /// Where the process stands.
        command: Option<usize>,
        /// Where the object stands.
        object: Option<usize>,
    },
}

impl Columns {
    /// Reads a heading: `# Overhead  Command  Shared Object  Symbol`.
    pub(super) fn heading(line: &str) -> Option<Self> {
        let line = line.trim_start_matches(['#', ' ', '\t']);
        if ["samples", "%", "symbol name"]
            .iter()
            .all(|column| line.contains(column))
        {
            return Some(Self::Oprofile);
        }
        if !(line.starts_with("Overhead") || line.starts_with("Children")) {
            return None;
        }
        let at = |name: &str| line.find(name);
        at("Symbol")?;
        Some(Self::Named {
            command: at("Command").or(at("Comm ")),
            object: at("Shared O").or(at("DSO")),
        })
    }

    fn has_command(self) -> Option<bool> {
        match self {
            Self::Unknown | Self::Oprofile => None,
            Self::Named { command, .. } => Some(command.is_some()),
        }
    }

    fn has_object(self) -> bool {
        match self {
            Self::Unknown | Self::Oprofile => true,
            Self::Named { object, .. } => object.is_some(),
        }
    }

    fn object_is_first(self) -> bool {
        matches!(self, Self::Named { command: Some(command), object: Some(object) } if object < command)
    }
}

/// An entry of the listing.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// The function's own share in per cent.
    pub own: f64,
    /// With all that it called, where the listing prints that.
    pub children: Option<f64>,
    /// The process, where the listing names it.
    pub program: Option<String>,
    pub frame: Frame,
}

/// `12.34%` at the beginning of a text, and what follows. Some locales print `12,34%`.
pub(super) fn percentage(text: &str) -> Option<(f64, &str)> {
    let text = text.trim_start();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',')))?;
    let (number, rest) = text.split_at(digits);
    let rest = rest.trim_start_matches(' ').strip_prefix('%')?;
    let value: f64 = number.replace(',', ".").parse().ok()?;
    (0.0..=100.0).contains(&value).then_some((value, rest))
}

/// What perf's screen puts before an entry that can be unfolded (`+`) or is (`-`).
pub(super) fn unfolded(line: &str) -> &str {
    let line = line.trim_start();
    match line.strip_prefix(['+', '-']) {
        Some(rest)
            if rest.starts_with([' ', '\t']) || rest.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            rest
        }
        _ => line,
    }
}

/// Reads an entry.
pub(super) fn entry(line: &str, columns: Columns) -> Option<Entry> {
    if columns == Columns::Oprofile {
        return oprofile(line);
    }
    let (first, rest) = match percentage(unfolded(line)) {
        Some(share) => share,
        None => return counted(line),
    };
    let (own, children, rest) = match percentage(rest) {
        Some((own, rest)) => (own, Some(first), rest),
        None => (first, None, rest),
    };
    if !rest.starts_with([' ', '\t']) {
        return None;
    }
    let (before, symbol) = MARKS
        .iter()
        .filter_map(|mark| rest.split_once(mark))
        .filter(|(_, symbol)| symbol.starts_with([' ', '\t']))
        .min_by_key(|(before, _)| before.len())?;
    let kernel = rest[before.len()..].starts_with("[k]");
    // `-F +srcline` and the like put further columns behind, two spaces away.
    let symbol = symbol.trim_start();
    let symbol = symbol.split("  ").next().unwrap_or(symbol);
    if symbol.trim().is_empty() {
        return None;
    }
    let (program, object) = middle(before, kernel, columns);
    let mut frame = Frame::new(symbol, object.unwrap_or_default());
    if kernel {
        frame.object = KERNEL.to_owned();
    }
    Some(Entry {
        own,
        children,
        program,
        frame,
    })
}

/// The process and the object from what stands between the shares and the function.
fn middle(before: &str, kernel: bool, columns: Columns) -> (Option<String>, Option<&str>) {
    let before = before.trim();
    // Numbers of samples, of the process and of the CPU may stand there, too.
    let cells = before.split("  ").flat_map(|cell| cell.split('\t'));
    let cells: Vec<&str> = cells
        .map(str::trim)
        .filter(|cell| !is_number(cell))
        .collect();
    let (command, object) = match cells.as_slice() {
        [] => return (None, None),
        [one] => split_cell(one, columns),
        [first, rest @ ..] if columns.object_is_first() => (rest.last().copied(), Some(*first)),
        [commands @ .., object] => (commands.last().copied(), Some(*object)),
    };
    let bracketed = |object: &str| {
        object.starts_with('[') || object.contains("vmlinux") || object.ends_with(".ko")
    };
    match (command, object) {
        // The kernel's functions are in no object of this name: it is the process.
        (None, Some(only)) if columns.has_command().is_none() && kernel && !bracketed(only) => {
            (process(only), None)
        }
        (None, Some(only)) if !columns.has_object() => (process(only), None),
        (command, object) => (command.and_then(process), object),
    }
}

/// Columns that only one blank divides.
fn split_cell(cell: &str, columns: Columns) -> (Option<&str>, Option<&str>) {
    if columns.has_command() == Some(false) || !columns.has_object() {
        return (None, Some(cell));
    }
    if columns.object_is_first() {
        return match cell.split_once(' ') {
            Some((object, command)) => (Some(command), Some(object)),
            None => (None, Some(cell)),
        };
    }
    if let Some(at) = cell.find("[JIT] tid") {
        return (
            Some(cell[..at].trim()).filter(|c| !c.is_empty()),
            Some(&cell[at..]),
        );
    }
    match cell.rsplit_once(' ') {
        Some((command, object)) => {
            let command = command.trim();
            (
                Some(command).filter(|command| !is_number(command)),
                Some(object),
            )
        }
        None => (None, Some(cell)),
    }
}

/// A process by its name: `1234:postgres`, `postgres:1234` and `1234 postgres` name it, too.
fn process(cell: &str) -> Option<String> {
    let cell = cell.trim();
    let cell = match cell.split_once([':', ' ']) {
        Some((number, name)) if is_number(number) => name,
        _ => cell,
    };
    let cell = match cell.rsplit_once(':') {
        Some((name, number)) if is_number(number.trim()) => name,
        _ => cell,
    };
    let cell = cell.trim();
    (!cell.is_empty()).then(|| super::bounded(cell))
}

/// A number, or what a comparison of two profiles prints next to a share: `-3.20%`.
fn is_number(cell: &str) -> bool {
    let cell = cell
        .strip_suffix('%')
        .map_or(cell, |cell| cell.trim_start_matches(['+', '-']));
    cell.chars()
        .all(|c| c.is_ascii_digit() || matches!(c, '.' | ','))
}

/// `15900.00  3.2% LWLockAcquire   /usr/bin/postgres`, of perf up to 3.1.
fn counted(line: &str) -> Option<Entry> {
    let line = line.trim_start_matches([' ', '\t', '|']);
    let (samples, rest) = line.split_once([' ', '\t'])?;
    if samples.is_empty() || !is_number(samples) || !samples.contains(['.', ',']) {
        return None;
    }
    let (own, rest) = percentage(rest)?;
    let rest = rest.trim();
    // A long name may touch the object.
    let at = rest.find(['/', '['])?;
    let (symbol, object) = rest.split_at(at);
    let mut words = symbol.split_ascii_whitespace();
    let symbol = words.next()?;
    if words.next().is_some() || object.split_ascii_whitespace().count() != 1 {
        return None;
    }
    Some(Entry {
        own,
        children: None,
        program: None,
        frame: Frame::new(symbol, object),
    })
}

/// `007a7780 751274    5.1565  /usr/bin/postgres hash_search_with_hash_value`, of oprofile.
fn oprofile(line: &str) -> Option<Entry> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let is_share = |word: &&str| word.contains(['.', ',']) && is_number(word);
    let share = words
        .iter()
        .position(is_share)
        .filter(|at| matches!(at, 1 | 2))?;
    let samples = words[share - 1];
    let own: f64 = words[share].replace(',', ".").parse().ok()?;
    let [object, .., symbol] = &words[share + 1..] else {
        return None;
    };
    (samples.chars().all(|c| c.is_ascii_digit()) && (0.0..=100.0).contains(&own)).then(|| Entry {
        own,
        children: None,
        program: None,
        frame: Frame::new(symbol, object),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::UNKNOWN;

    fn read(line: &str, columns: Columns) -> (f64, Option<f64>, Option<String>, String, String) {
        let read = entry(line, columns).unwrap_or_else(|| panic!("{line}"));
        (
            read.own,
            read.children,
            read.program,
            read.frame.object,
            read.frame.symbol,
        )
    }

    #[test]
    fn the_columns_of_many_listings() {
        let all = Columns::Unknown;
        for (line, own, children, program, object, symbol) in [
            (
                "    32.10%  postgres  postgres  [.] s_lock",
                32.1,
                None,
                "postgres",
                "postgres",
                "s_lock",
            ),
            (
                "+  32.10%  postgres  postgres  [.] s_lock",
                32.1,
                None,
                "postgres",
                "postgres",
                "s_lock",
            ),
            (
                "-   32,10%     1,00%  postgres  postgres  [.] s_lock",
                1.0,
                Some(32.1),
                "postgres",
                "postgres",
                "s_lock",
            ),
            (
                "32.10% postgres       [.] s_lock",
                32.1,
                None,
                "",
                "postgres",
                "s_lock",
            ),
            (
                "32.10% postgres postgres [.] s_lock",
                32.1,
                None,
                "postgres",
                "postgres",
                "s_lock",
            ),
            (
                "32.10% postgres: a b  postgres  [.] s_lock",
                32.1,
                None,
                "postgres: a b",
                "postgres",
                "s_lock",
            ),
            (
                "32.10%  5210  postgres  postgres  [.] s_lock",
                32.1,
                None,
                "postgres",
                "postgres",
                "s_lock",
            ),
            (
                "32.10%  5210:postgres  postgres  [.] s_lock",
                32.1,
                None,
                "postgres",
                "postgres",
                "s_lock",
            ),
            (
                "32.10%  postgres:5210  postgres  [.] s_lock",
                32.1,
                None,
                "postgres",
                "postgres",
                "s_lock",
            ),
            (
                "32.10%\tpostgres\tpostgres\t[.] s_lock",
                32.1,
                None,
                "postgres",
                "postgres",
                "s_lock",
            ),
            (
                "+46,75%  postgres  [.] ExecNestLoop",
                46.75,
                None,
                "",
                "postgres",
                "ExecNestLoop",
            ),
            (
                " 9.00%  swapper  [kernel.kallsyms]  [k] intel_idle",
                9.0,
                None,
                "swapper",
                KERNEL,
                "intel_idle",
            ),
            (
                "40.00% postgres [k] clear_page_erms",
                40.0,
                None,
                "postgres",
                KERNEL,
                "clear_page_erms",
            ),
            (
                "18.86%   -3.20%  postgres  [.] AllocSetCheck",
                18.86,
                None,
                "",
                "postgres",
                "AllocSetCheck",
            ),
            (
                " 1.62%  [.] LWLockRelease",
                1.62,
                None,
                "",
                UNKNOWN,
                "LWLockRelease",
            ),
            (
                " 2.00%  postgres  [JIT] tid 77  [.] evalexpr_0_1",
                2.0,
                None,
                "postgres",
                "[JIT] tid 77",
                "evalexpr_0_1",
            ),
            (
                " 2.00%  postgres  x.so  [.] std::map<int>::find(int) const  -  -",
                2.0,
                None,
                "postgres",
                "x.so",
                "std::map<int>::find(int) const",
            ),
            (
                "15900.00  3.2% LWLockAcquire   /usr/bin/postgres",
                3.2,
                None,
                "",
                "postgres",
                "LWLockAcquire",
            ),
            (
                " 8577.00  1.7% heap_hot_search_buffer/u02/bin/postgres",
                1.7,
                None,
                "",
                "postgres",
                "heap_hot_search_buffer",
            ),
            (
                "   80.00 23.7% read_hpet      [kernel.kallsyms]",
                23.7,
                None,
                "",
                KERNEL,
                "read_hpet",
            ),
        ] {
            let program = (!program.is_empty()).then(|| program.to_owned());
            assert_eq!(
                read(line, all),
                (own, children, program, object.to_owned(), symbol.to_owned()),
                "{line}"
            );
        }
        for line in [
            "growth of 32% is [.] nice",
            "More than 32% of time was taken by s_lock.",
            "   |--20.05%--PinBuffer",
            "      - 90.00% PinBuffer",
            "   2.86%  postgres  [kernel.kallsyms]  [k]",
            "132.10%  postgres  postgres  [.] s_lock",
            "",
        ] {
            assert_eq!(entry(line, all), None, "{line}");
        }
    }

    #[test]
    fn the_heading_names_the_columns() {
        let columns = Columns::heading("# Children      Self  Command          Symbol").unwrap();
        let line = "     8.96%     8.64%  postgres         [.] s_lock";
        assert_eq!(
            read(line, columns),
            (
                8.64,
                Some(8.96),
                Some("postgres".to_owned()),
                UNKNOWN.to_owned(),
                "s_lock".to_owned()
            )
        );
        let columns = Columns::heading("  Overhead  Shared Object  Command  Symbol").unwrap();
        let line = "  8.96%  libc.so.6  postgres  [.] memcpy";
        assert_eq!(read(line, columns).2.as_deref(), Some("postgres"));
        let columns = Columns::heading("Overhead  Shared Object         Symbol").unwrap();
        assert_eq!(read("  8.96%  postgres  [.] s_lock", columns).2, None);
        assert_eq!(Columns::heading("The Overhead of a Symbol"), None);
        let columns =
            Columns::heading("vma      samples  %        app name     symbol name").unwrap();
        let line = "007a7780 751274    5.1565  /soft/bin/postgres hash_search_with_hash_value";
        let (own, _, _, object, symbol) = read(line, columns);
        assert_eq!(
            (own, object.as_str(), symbol.as_str()),
            (5.1565, "postgres", "hash_search_with_hash_value")
        );
    }
}
