//! Statistics: from trials to figures, from pairs to verdicts.
//!
//! Pure numerics: nothing here reads a file or a clock, every random draw comes
//! from a seed that the caller records, and no input makes it panic. The rules
//! and what they cost are explained for users in docs/statistics.md; how often
//! they err is simulated by the example `calibrate`.

mod blocks;
pub mod caveat;
pub mod estimate;
pub mod family;
pub mod forecast;
pub mod history;
mod launches;
pub mod levels;
pub mod noise_floor;
#[cfg(test)]
mod oracles;
mod order;
pub mod paired;
pub mod pooled;
mod rank_null;
pub mod scaling;
pub mod scaling_change;
mod scaling_law;
pub mod sequential;
pub mod share;
pub mod simulate;
pub mod unpaired;
pub mod verdict;

pub use blocks::compare_in_order;
pub use caveat::Caveat;
pub use estimate::{Estimate, FEWEST, LEVEL, relative_spread, summarize, summarize_positive};
pub use forecast::{Forecast, forecast};
pub use history::{ChangeRule, History, change_points};
pub use launches::compare_launches;
pub use levels::{Level, levels};
pub use noise_floor::NoiseFloor;
pub use paired::{Comparison, compare};
pub use pooled::{Pooled, pool};
pub use scaling::{Scaling, ScalingPoint};
pub use sequential::{Decision, Sequential};
pub use unpaired::compare_runs;
pub use verdict::{Direction, Rule, StatsError, Verdict};

pub use order::{Walsh, median_of_sorted};
