//! The text of `perf report --stdio`, and of `perf top` as people paste it.
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
//! word is an entry; with `--children` there are two percentages, and the second
//! is the function's own. The tree below an entry is read where it is about who
//! called the function: `-g callee` prints the callers downwards, `-g caller`
//! ends each path with the function itself. Percentages in a tree are of all
//! samples (`-g graph`, the default) or of the entry (`-g fractal`); which, their
//! sum says.

use pgassay_model::observed::stacks::KERNEL;

use super::{Frame, Profile, Unit};

/// Whether there is at least one entry.
pub fn looks_like(text: &str) -> bool {
    text.lines().take(5000).any(|line| entry(line).is_some())
}

/// An entry of the listing.
struct Entry {
    /// The function's own share in per cent.
    own: f64,
    /// True where the first percentage counts what the function called, too.
    with_children: bool,
    frame: Frame,
}

/// Reads all entries with the trees below them.
pub fn parse(text: &str) -> Profile {
    let mut profile = Profile::new(Unit::Percent);
    let mut current: Option<(Entry, Vec<&str>)> = None;
    for line in text.lines() {
        if line.starts_with('#') {
            continue;
        }
        if let Some(entry) = entry(line) {
            if let Some((entry, tree)) = current.replace((entry, Vec::new())) {
                add(&mut profile, &entry, &tree);
            }
        } else if let Some((_, tree)) = &mut current
            && tree.len() < 100_000
            && !line.trim().is_empty()
        {
            tree.push(line);
        }
    }
    if let Some((entry, tree)) = current {
        add(&mut profile, &entry, &tree);
    }
    if profile.total > 101.0 {
        profile.remark("the shares add up to more than 100 %: several listings in one text?");
    }
    profile
}

fn add(profile: &mut Profile, entry: &Entry, tree: &[&str]) {
    let mut left = entry.own;
    for (mut chain, weight) in callers(entry, tree) {
        let weight = weight.min(left);
        left -= weight;
        chain.push(entry.frame.clone());
        profile.add(chain, weight);
    }
    // What the tree does not account for, or all of it where there is no tree.
    if left > 1e-9 {
        profile.add([entry.frame.clone()], left);
    }
}

/// `12.34%` at the beginning of a text, and what follows.
fn percentage(text: &str) -> Option<(f64, &str)> {
    let (number, rest) = text.trim_start().split_once('%')?;
    let value: f64 = number.parse().ok()?;
    (0.0..=100.0).contains(&value).then_some((value, rest))
}

fn entry(line: &str) -> Option<Entry> {
    let (first, rest) = percentage(line)?;
    let (own, rest, with_children) = match percentage(rest) {
        Some((own, rest)) => (own, rest, true),
        None => (first, rest, false),
    };
    if !rest.starts_with([' ', '\t']) {
        return None;
    }
    let (before, symbol) = ["[.]", "[k]", "[u]", "[g]", "[H]"]
        .iter()
        .filter_map(|mark| rest.split_once(&format!("{mark} ")))
        .min_by_key(|(before, _)| before.len())?;
    let kernel = rest[before.len()..].starts_with("[k]");
    let object = before.split_ascii_whitespace().last().unwrap_or_default();
    // `-F +srcline` and the like put further columns behind, two spaces away.
    let symbol = symbol.split("  ").next().unwrap_or(symbol);
    let mut frame = Frame::new(symbol, object);
    if kernel {
        frame.object = KERNEL.to_owned();
    }
    Some(Entry {
        own,
        with_children,
        frame,
    })
}

/// A node of a tree: how far in it stands, its share where one is printed, its name.
struct Node<'t> {
    depth: usize,
    share: Option<f64>,
    name: &'t str,
}

/// `|--20.05%--name`, ` --12.05%--name`, `---name`, or a bare name below one of these.
fn node(line: &str) -> Option<Node<'_>> {
    let bars = line
        .char_indices()
        .find(|(_, c)| !matches!(c, ' ' | '\t' | '|'))?
        .0;
    let rest = &line[bars..];
    if let Some(name) = rest.strip_prefix("---") {
        let depth = bars + 3;
        return Some(Node {
            depth,
            share: None,
            name: name.trim(),
        });
    }
    if let Some(branch) = rest.strip_prefix("--") {
        let (share, after) = percentage(branch)?;
        let name = after.strip_prefix("--")?;
        return Some(Node {
            depth: line.len() - name.len(),
            share: Some(share),
            name: name.trim(),
        });
    }
    Some(Node {
        depth: bars,
        share: None,
        name: rest.trim(),
    })
}

/// Chains of callers, outermost first and without the function itself, each with
/// its share of all samples.
fn callers(entry: &Entry, tree: &[&str]) -> Vec<(Vec<Frame>, f64)> {
    let nodes: Vec<Node> = tree.iter().filter_map(|line| node(line)).collect();
    let mut paths: Vec<(Vec<&str>, f64)> = Vec::new();
    // The path to where we are: depth, name, and the share of the branch it is on.
    let mut path: Vec<(usize, &str)> = Vec::new();
    let mut shares: Vec<(usize, f64)> = Vec::new();
    // A share in the tree greater than the entry's is a share of the entry.
    let largest = nodes.iter().filter_map(|n| n.share).fold(0.0, f64::max);
    let relative = largest > entry.own * 1.02 + 0.02;
    for (i, at) in nodes.iter().enumerate() {
        if at.share.is_some() || i == 0 {
            path.retain(|(depth, _)| *depth < at.depth);
            shares.retain(|(depth, _)| *depth < at.depth);
        }
        if path.len() > super::DEEPEST {
            continue;
        }
        path.push((at.depth, at.name));
        if let Some(share) = at.share {
            let of = match (relative, shares.last()) {
                (true, Some((_, parent))) => parent / 100.0,
                (true, None) => entry.own / 100.0,
                (false, _) => 1.0,
            };
            shares.push((at.depth, share * of));
        }
        // A leaf: the next node branches off elsewhere, or there is none.
        let ends = nodes
            .get(i + 1)
            .is_none_or(|next| next.share.is_some() && next.depth <= at.depth);
        if ends && paths.len() < 10_000 {
            let weight = shares.last().map_or(entry.own, |(_, share)| *share);
            paths.push((path.iter().map(|(_, name)| *name).collect(), weight));
        }
    }
    let own = |name: &str| Frame::new(name, &entry.frame.object).symbol == entry.frame.symbol;
    paths
        .into_iter()
        .filter_map(|(mut names, weight)| {
            if names.last().is_some_and(|name| own(name)) {
                names.pop(); // caller order: outermost first already
            } else if names.first().is_some_and(|name| own(name)) && !entry.with_children {
                names.remove(0);
                names.reverse();
            } else if entry.with_children {
                return None; // what it called, not who called it
            } else {
                names.reverse();
            }
            let object = &entry.frame.object;
            Some((
                names.iter().map(|n| Frame::new(n, object)).collect(),
                weight,
            ))
        })
        .collect()
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
