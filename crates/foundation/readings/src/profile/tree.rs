//! The tree of callers below an entry of a listing.
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
//! perf's screen draws `- 62.46% PinBuffer` and, for a branch that is folded, `+ 37.54% UnpinBuffer`.

use pgassay_model::observed::stacks::KERNEL;

use super::columns::{Entry, percentage, unfolded};
use super::{Frame, UNKNOWN};

/// A line of a tree: how far in it stands, its share where one is printed, its name.
#[derive(Debug, Clone)]
pub(super) struct Node {
    depth: usize,
    share: Option<f64>,
    name: String,
}

/// `|--20.05%--name`, ` --12.05%--name`, `---name`, `- 62.46% name`, or a name below one of these.
/// None where the line is none of a tree.
pub(super) fn node(line: &str) -> Option<Node> {
    let bars = line
        .char_indices()
        .find(|(_, c)| !matches!(c, ' ' | '\t' | '|'))?
        .0;
    let rest = &line[bars..];
    let of = |share, name: &str| {
        let name = name.trim();
        is_name(name).then(|| Node {
            depth: line.trim_end().len() - name.len(),
            share,
            name: name.to_owned(),
        })
    };
    if let Some(name) = rest.strip_prefix("---") {
        return of(None, name);
    }
    if let Some(branch) = rest.strip_prefix("--") {
        let (share, after) = percentage(branch)?;
        return of(Some(share), after.trim_start().strip_prefix("--")?);
    }
    // `perf report -g folded` prints a whole chain in a line: `37.30% s_lock;PinBuffer`.
    if let Some((share, chain)) = percentage(rest)
        && chain.contains(';')
        && chain.trim().split(';').all(is_name)
    {
        return Some(Node {
            depth: 1,
            share: Some(share),
            name: chain.trim().to_owned(),
        });
    }
    let name = unfolded(rest);
    // Text outside of a tree begins at the margin.
    if bars == 0 && name.len() == rest.len() {
        return None;
    }
    match percentage(name) {
        // The share says how far in a branch stands: the names of its chain stand further in.
        Some((share, after)) if after.starts_with(' ') => of(Some(share), after).map(|node| Node {
            depth: line.len() - name.trim_start().len(),
            ..node
        }),
        Some(_) => None,
        None => of(None, name),
    }
}

/// Whether a text can be the name of a function: only those of C++ and Rust hold blanks.
fn is_name(name: &str) -> bool {
    let name = name.strip_suffix("(inlined)").unwrap_or(name).trim();
    !name.is_empty()
        && (!name.contains([' ', '\t'])
            || name.contains("::")
            || name.contains('<')
            || (name.contains('(') && name.contains(')')))
        && !name.chars().all(|c| matches!(c, '-' | '.' | '_'))
}

/// Which way the trees of a listing are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The function first, then who called it.
    Callee,
    /// The outermost caller first.
    Caller,
    /// Nothing shows it.
    Unknown,
}

/// A way from the first node of a tree to a leaf, with its share of all samples.
struct Path<'t> {
    names: Vec<&'t str>,
    share: f64,
}

/// All ways through a tree.
fn paths<'t>(entry: &Entry, nodes: &'t [Node]) -> Vec<Path<'t>> {
    let base = entry.children.unwrap_or(entry.own);
    let outer = nodes.iter().filter(|n| n.share.is_some());
    let depth = outer.clone().map(|n| n.depth).min();
    let sum: f64 = outer
        .filter(|n| Some(n.depth) == depth)
        .filter_map(|n| n.share)
        .sum();
    // Branches that add up to more than the entry are shares of the entry.
    let relative = sum > base * 1.02 + 0.02;
    struct Branch<'t> {
        depth: usize,
        share: f64,
        /// What no branch of it accounts for.
        left: f64,
        names: Vec<&'t str>,
    }
    fn leaf<'t>(branches: &mut Vec<Branch<'t>>, paths: &mut Vec<Path<'t>>) {
        let names = branches.iter().flat_map(|b| b.names.iter().copied());
        let names: Vec<&str> = names.take(super::DEEPEST).collect();
        if let Some(last) = branches.pop()
            && last.left > 1e-9
            && paths.len() < 10_000
        {
            paths.push(Path {
                names,
                share: last.left,
            });
        }
    }
    let mut paths = Vec::new();
    let mut branches: Vec<Branch> = Vec::new();
    for node in nodes {
        match (node.share, branches.last_mut()) {
            (None, Some(branch)) => {
                if branch.names.len() < super::DEEPEST {
                    branch.names.push(&node.name);
                }
                continue;
            }
            (None, None) => branches.push(Branch {
                depth: 0,
                share: base,
                left: base,
                names: vec![&node.name],
            }),
            (Some(share), _) => {
                // All branches of a tree grow from its first node, where that has no share.
                while branches
                    .last()
                    .is_some_and(|b| b.depth > 0 && b.depth >= node.depth)
                {
                    leaf(&mut branches, &mut paths);
                }
                let parent = branches.last().map_or(base, |b| b.share);
                let share = match relative {
                    true => parent * share / 100.0,
                    false => share,
                };
                if let Some(parent) = branches.last_mut() {
                    parent.left -= share;
                }
                if branches.len() < super::DEEPEST {
                    branches.push(Branch {
                        depth: node.depth,
                        share,
                        left: share,
                        names: node.name.split(';').collect(),
                    });
                }
            }
        }
    }
    while !branches.is_empty() {
        leaf(&mut branches, &mut paths);
    }
    for path in &mut paths {
        // What a listing leaves out stands there as `[...]`.
        path.names.retain(|name| *name != "[...]");
    }
    paths.retain(|path| !path.names.is_empty());
    paths
}

/// Which way the trees of a listing are printed, by those that show it.
pub(super) fn order(trees: &[(Entry, Vec<Node>)]) -> Order {
    let (mut callee, mut caller) = (0usize, 0usize);
    for (entry, nodes) in trees {
        for path in paths(entry, nodes) {
            let [first, .., last] = path.names.as_slice() else {
                continue;
            };
            let own = |name: &str| is_own(entry, name);
            let outermost =
                |name: &str| is_outermost(name) || entry.frame.is_kernel() && enters_kernel(name);
            if outermost(last) && !outermost(first)
                || own(first) && !own(last) && entry.children.is_none()
            {
                callee += 1;
            } else if outermost(first) && !outermost(last) || own(last) && !own(first) {
                caller += 1;
            }
        }
    }
    match callee.cmp(&caller) {
        std::cmp::Ordering::Greater => Order::Callee,
        std::cmp::Ordering::Less => Order::Caller,
        std::cmp::Ordering::Equal => Order::Unknown,
    }
}

fn is_own(entry: &Entry, name: &str) -> bool {
    Frame::new(name, &entry.frame.object).symbol == entry.frame.symbol
}

/// What a tree says of the callers of its entry.
pub(super) struct Callers {
    /// Chains, outermost caller first and with the function itself, with their share.
    pub chains: Vec<(Vec<Frame>, f64)>,
    /// True where the tree is of what the function called.
    pub of_callees: bool,
}

/// The chains that lead to an entry.
pub(super) fn callers(entry: &Entry, nodes: &[Node], order: Order) -> Callers {
    let mut found = Callers {
        chains: Vec::new(),
        of_callees: false,
    };
    let children = entry.children.unwrap_or(entry.own);
    // Where a function called next to nothing, its tree can only be of who called it.
    let is_leaf = entry.own > 0.0 && children <= entry.own * 1.05 + 0.02;
    let mut left = entry.own;
    for Path { mut names, share } in paths(entry, nodes) {
        let own = |name: Option<&&str>| name.is_some_and(|name| is_own(entry, name));
        // A share with all that the function called: its own part is taken to be divided alike.
        let mut share = share;
        if names.len() > 1 && own(names.last()) && order != Order::Callee {
            names.pop();
        } else if own(names.first()) {
            if names.len() > 1 && !is_leaf && entry.children.is_some() && order != Order::Callee {
                found.of_callees = true;
                continue;
            }
            names.remove(0);
            names.reverse();
            share *= entry.own / children.max(entry.own);
        } else if order != Order::Callee && entry.children.is_some() && !is_leaf {
            found.of_callees = true;
            continue;
        } else if order != Order::Caller {
            names.reverse();
        }
        let share = share.min(left);
        left -= share;
        let mut chain = frames(&names, entry);
        chain.push(entry.frame.clone());
        found.chains.push((chain, share));
    }
    // What the tree does not account for, or all of it where there is no tree.
    if left > 1e-9 {
        found.chains.push((vec![entry.frame.clone()], left));
    }
    found
}

/// Callers as frames: below the kernel's entry they are the program's.
fn frames(names: &[&str], entry: &Entry) -> Vec<Frame> {
    let object = &entry.frame.object;
    let enters = names.iter().position(|name| enters_kernel(name));
    let program = entry.program.as_deref().unwrap_or(UNKNOWN);
    names
        .iter()
        .enumerate()
        .map(|(at, name)| match (object == KERNEL, enters) {
            (true, Some(enters)) if at < enters => Frame::new(name, program),
            _ => Frame::new(name, object),
        })
        .collect()
}

/// Functions at which the kernel is entered, by their beginnings.
const ENTRIES: &[&str] = &[
    "apic_timer_interrupt",
    "asm_",
    "async_page_fault",
    "common_interrupt",
    "do_syscall_64",
    "el0_",
    "el0t_",
    "entry_SYSCALL_64",
    "error_entry",
    "page_fault",
    "ret_from_",
    "stub_",
    "syscall_",
    "sysenter_",
    "system_call",
    "tracesys",
];

/// Whether a process enters the kernel there.
pub(super) fn enters_kernel(name: &str) -> bool {
    ENTRIES.iter().any(|start| name.starts_with(start))
}

/// Functions that nothing calls, or that stand at the outer end of every chain of the server.
fn is_outermost(name: &str) -> bool {
    [
        "__libc_start",
        "generic_start_main",
        "secondary_startup",
        "start_secondary",
    ]
    .iter()
    .any(|start| name.starts_with(start))
        || matches!(
            name,
            "main"
                | "_start"
                | "PostmasterMain"
                | "ServerLoop"
                | "BackendStartup"
                | "BackendRun"
                | "PostgresMain"
                | "start_thread"
        )
}
