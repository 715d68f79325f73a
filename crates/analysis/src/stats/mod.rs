//! Statistics: from trials to figures, from pairs to verdicts.
//!
//! Pure numerics: nothing here reads a file or a clock, every random draw comes
//! from a seed that the caller records, and no input makes it panic. The rules
//! and what they cost are explained for users in docs/statistics.md; how often
//! they err is simulated by the example `calibrate`.

pub mod caveat;
pub mod estimate;
#[cfg(test)]
mod oracles;
mod order;
mod rank_null;

pub use caveat::Caveat;
pub use estimate::{Estimate, FEWEST, LEVEL, relative_spread, summarize, summarize_positive};
