//! The text of `perf report`, and of `perf top`, as people paste it.
//!
//! ```text
//!     32.10%  postgres  postgres           [.] s_lock
//!             |
//!             ---s_lock
//!                |
//!                |--20.05%--PinBuffer
//!                |          ReadBuffer_common
//!                 --12.05%--UnpinBuffer
//! ```
//! A line that begins with a percentage and holds `[.]` or `[k]` before its last
//! word is an entry (`columns.rs`); with `--children` there are two
//! percentages, and the second is the function's own. The tree below an entry is
//! read where it is about who called the function (`tree.rs`).

use super::columns::{Columns, Entry, entry, percentage, unfolded};
use super::programs::Programs;
use super::tree::{self, Node};
use super::{Profile, Unit, pasted};

/// Whether there is at least one entry.
pub fn looks_like(text: &str) -> bool {
    let lines = text.lines().take(5000).map(pasted::line);
    let lines: Vec<String> = unwrapped(lines.map(|line| line.into_owned()));
    let mut columns = Columns::Unknown;
    lines.iter().any(|line| {
        columns = Columns::heading(line).unwrap_or(columns);
        entry(line, columns).is_some()
    })
}

/// Reads all entries with the trees below them.
pub fn parse(text: &str) -> Profile {
    let mut listing = Listing::default();
    for line in unwrapped(text.lines().map(|line| pasted::line(line).into_owned())) {
        listing.line(&line);
        if listing.is_over {
            break;
        }
    }
    listing.profile()
}

/// Joins entries that a mail program has wrapped.
fn unwrapped(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut joined: Vec<String> = Vec::new();
    // The first part of an entry whose function, or more, stands on the next line.
    let mut part: Option<String> = None;
    for line in lines {
        if let Some(first) = part.take() {
            let whole = format!("{} {}", first.trim_end(), line.trim());
            let begins_entry = percentage(unfolded(&line)).is_some();
            if !begins_entry && entry(&whole, Columns::Unknown).is_some() {
                joined.push(whole);
                continue;
            }
            joined.push(first);
        }
        match is_part(&line) {
            true => part = Some(line),
            false => joined.push(line),
        }
    }
    joined.extend(part);
    joined
}

/// Whether a line begins as an entry does and ends before the function's name.
fn is_part(line: &str) -> bool {
    let Some((_, rest)) = percentage(unfolded(line)) else {
        return false;
    };
    let rest = percentage(rest).map_or(rest, |(_, rest)| rest);
    entry(line, Columns::Unknown).is_none()
        && (rest.is_empty() || rest.starts_with([' ', '\t']))
        // A branch of a tree: `90.00% PinBuffer`.
        && (rest.trim().is_empty()
            || ["[.]", "[k]"].iter().any(|mark| rest.trim_end().ends_with(mark))
            || rest.trim().split_ascii_whitespace().count() >= 2)
}

#[derive(Default)]
struct Listing {
    columns: Option<Columns>,
    entries: Vec<(Entry, Vec<Node>)>,
    /// Whether lines still belong to the tree of the last entry.
    in_tree: bool,
    /// Lines that hold a share and could not be read.
    unread: usize,
    /// Samples that perf itself lost.
    lost: u64,
    /// Of `--hierarchy`, where processes, objects and functions stand below each other: the process above a line, and
    /// how far in it stands.
    above: Option<(usize, String)>,
    is_hierarchy: bool,
    /// Whether a second listing has begun.
    is_over: bool,
}

impl Listing {
    fn line(&mut self, line: &str) {
        if is_beginning(line) && !self.entries.is_empty() {
            self.is_over = true;
            return;
        }
        if let Some(columns) = Columns::heading(line) {
            // Columns of a second listing.
            self.columns.get_or_insert(columns);
            self.is_hierarchy |= line.contains(" / ");
            return;
        }
        if line.starts_with('#') {
            let lost = line
                .trim_start_matches(['#', ' '])
                .strip_prefix("Total Lost Samples:");
            self.lost += lost.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(0);
            return;
        }
        let columns = self.columns.unwrap_or(Columns::Unknown);
        if let Some(mut entry) = entry(line, columns) {
            if let Some((_, process)) = &self.above {
                entry.program.get_or_insert_with(|| process.clone());
            }
            self.entries.push((entry, Vec::new()));
            self.in_tree = true;
            return;
        }
        if line.trim_matches([' ', '\t', '|']).is_empty() {
            return;
        }
        if self.is_hierarchy {
            self.level(line);
            return;
        }
        let node = tree::node(line);
        match (self.entries.last_mut(), node) {
            (Some((_, tree)), Some(node)) if self.in_tree => {
                if tree.len() < 100_000 {
                    tree.push(node);
                }
            }
            _ => {
                self.in_tree = false;
                if !self.entries.is_empty() && has_share(line) {
                    self.unread += 1;
                }
            }
        }
    }

    /// A line of a hierarchy above the functions: the outermost are processes.
    fn level(&mut self, line: &str) {
        let depth = line.len() - line.trim_start().len();
        let outer = self.above.as_ref().is_none_or(|(above, _)| depth <= *above);
        if let Some((_, name)) = percentage(unfolded(line)).filter(|_| outer) {
            self.above = Some((depth, name.trim().to_owned()));
        }
    }

    fn profile(self) -> Profile {
        let order = tree::order(&self.entries);
        let mut programs = Programs::new(Unit::Percent);
        let mut of_callees = 0usize;
        for (entry, tree) in &self.entries {
            let program = entry.program.as_deref();
            if let Some(children) = entry.children {
                programs.inclusive(program, &entry.frame, children.max(entry.own));
            }
            if entry.own > 0.0 {
                let callers = tree::callers(entry, tree, order);
                of_callees += usize::from(callers.of_callees);
                for (chain, share) in callers.chains {
                    programs.add(program, chain, share);
                }
            }
        }
        if of_callees > 0 {
            programs.remarks.push(format!(
                "the trees of {of_callees} functions show what these called, not who called them, and are left out"
            ));
        }
        if self.lost > 0 {
            programs
                .remarks
                .push(format!("perf lost {} samples", self.lost));
        }
        if self.unread > 0 {
            programs.remarks.push(format!(
                "{} lines with a percentage were not understood and are left out",
                self.unread
            ));
        }
        if self.is_over {
            programs
                .remarks
                .push("there are several listings in the text; only the first was read".to_owned());
        }
        if programs.total() > 101.0 {
            programs.remarks.push(
                "the shares add up to more than 100 % and were scaled down: several listings in one text?".to_owned(),
            );
        }
        programs.server()
    }
}

/// Whether a listing begins there: `Samples: 381K of event 'cycles'`.
fn is_beginning(line: &str) -> bool {
    let line = line.trim_start_matches(['#', ' ', '\t']);
    line.starts_with("Samples: ") || line.starts_with("PerfTop: ") || line.starts_with("Events: ")
}

/// Whether a line holds a percentage and a mark of perf, so that it is data.
fn has_share(line: &str) -> bool {
    line.contains('%') && ["[.]", "[k]", "--"].iter().any(|mark| line.contains(mark))
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_below_an_entry_in_either_order() {
        let callee = "
    32.10%  postgres  postgres  [.] s_lock
            |
            ---s_lock
               |
               |--20.05%--PinBuffer
               |          ReadBuffer_common
               |          |
               |          |--15.00%--index_getnext
               |           --5.05%--heap_fetch
                --12.05%--UnpinBuffer
     7.77%  postgres  postgres  [.] GetSnapshotData
";
        let caller = "
    32.10%  postgres  postgres  [.] s_lock
            |
            ---main
               |
               |--20.05%--ReadBuffer_common
               |          PinBuffer
               |          s_lock
                --12.05%--UnpinBuffer
                          s_lock
";
        let sorted = |text: &str| {
            let folded = parse(text).folded();
            let mut lines: Vec<String> = folded.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(
            sorted(callee),
            [
                "GetSnapshotData 7.77",
                "UnpinBuffer;s_lock 12.05",
                "heap_fetch;ReadBuffer_common;PinBuffer;s_lock 5.05",
                "index_getnext;ReadBuffer_common;PinBuffer;s_lock 15",
            ]
        );
        let lines = sorted(caller);
        assert_eq!(
            lines[..2],
            [
                "main;ReadBuffer_common;PinBuffer;s_lock 20.05",
                "main;UnpinBuffer;s_lock 12.05"
            ]
        );
        assert!((parse(caller).total - 32.1).abs() < 1e-9);
    }

    #[test]
    fn shares_of_the_entry_become_shares_of_all() {
        let fractal = "
    20.00%  postgres  postgres  [.] s_lock
            |
            ---s_lock
               |
               |--75.00%--PinBuffer
                --25.00%--UnpinBuffer
";
        let folded = parse(fractal).folded();
        assert!(folded.contains("PinBuffer;s_lock 15\n"), "{folded}");
        assert!(folded.contains("UnpinBuffer;s_lock 5\n"), "{folded}");
    }

    #[test]
    fn with_children_the_second_figure_is_the_function_s_own() {
        let text = "
    55.88%     0.00%  ls  [kernel.kallsyms]  [k] entry_SYSCALL_64
            |
            ---entry_SYSCALL_64
               do_syscall_64
    12.00%    10.50%  postgres  postgres  [.] LWLockAcquire
            |
            |--6.00%--main
            |          GetSnapshotData
            |          LWLockAcquire
";
        let profile = parse(text);
        assert!((profile.total - 10.5).abs() < 1e-9);
        assert!(
            profile
                .folded()
                .contains("main;GetSnapshotData;LWLockAcquire 6\n")
        );
    }

    #[test]
    fn prose_is_no_listing() {
        assert!(!looks_like("growth of 32% is [.] nice\n"));
        assert!(!looks_like("More than 32% of time was taken by s_lock."));
        assert!(looks_like("32.10% postgres       [.] s_lock"));
    }
}
