//! Shares of CPU samples that several rules judge by.

use crate::detect::tenths;
use pgassay_evidence::profile::{Class, Summary, Work};

/// A lock's or function's share from which it is worth a finding.
pub const NOTABLE: f64 = 0.05;

/// The share of the samples that messages to and from clients take: the kernel's sleeping and waking without that at
/// the semaphores of locks.
pub fn messages(profile: &Summary) -> [(Class, f64); 3] {
    let at_locks = profile.within(Work::Semaphores).unwrap_or(0.0);
    let of = |class| match class {
        Class::KernelWakeUp => (profile.class(class) - at_locks).max(0.0),
        class => profile.class(class),
    };
    [Class::KernelNetwork, Class::KernelWakeUp, Class::Protocol].map(|class| (class, of(class)))
}

/// The share of the samples within parser and planner, with what they call.
pub fn planning_and_parsing(profile: &Summary) -> f64 {
    let within = |work| profile.within(work).unwrap_or(0.0);
    (within(Work::Planning) + within(Work::Parsing)).min(1.0)
}

/// `32.1 % of the CPU samples`.
pub fn of_samples(share: f64) -> String {
    format!("{} of the CPU samples", tenths(share))
}

/// Functions by their own shares: `7.8 % in PinBuffer`.
pub fn own_shares<'a>(
    profile: &'a Summary,
    names: &'a [&str],
) -> impl Iterator<Item = (f64, String)> + 'a {
    let named = profile.functions.iter();
    named
        .filter(|f| names.contains(&f.symbol.as_str()))
        .map(|f| {
            let words = format!("{} in {}", tenths(f.own_share), f.symbol);
            (f.own_share, words)
        })
}

/// Whether a function is in the sources for being compiled into its callers: without
/// optimisation it is called.
pub fn is_inline(symbol: &str) -> bool {
    symbol.strip_prefix("pg_atomic_").is_some_and(|rest| {
        rest.ends_with("_impl")
            || [
                "read_u32",
                "write_u32",
                "read_u64",
                "write_u64",
                "fetch_",
                "compare_exchange_",
            ]
            .iter()
            .any(|start| rest.starts_with(start))
    })
}

/// The share of such functions.
pub fn inlined(profile: &Summary) -> f64 {
    let called = profile.functions.iter().filter(|f| is_inline(&f.symbol));
    called.map(|f| f.own_share).sum()
}
