//! The search for what makes a difference, under noise.
//!
//! Two versions differ in speed, and many steps lead from the one to the other: commits in their
//! order ([`range`]), or settings in any ([`differences`]). A *block* compares two versions in
//! interleaved pairs of one launch ([`noise`]); each says a little. `posterior` holds the
//! probability of every set of steps that could have brought the change (a Bayesian change point
//! model with several causes), `choose` takes the comparison that is expected to tell most about it
//! for its cost (expected information gain), and the search ends where one set has 95 %.
//!
//! Pure numerics, like [`crate::stats`]: no I/O, no clock, and no random draw but from a seed. A search
//! is a function of what was measured, so that a killed one continues from its record.

mod choose;
pub mod conclusion;
pub mod differences;
pub mod document;
mod levels;
pub mod made_up;
mod matrix;
pub mod noise;
mod posterior;
pub mod range;
pub mod steps;

pub use conclusion::{Cause, Conclusion, Forecast, Interval, Look, Outcome, forecast, look};
pub use noise::{Block, Observation, observations};
pub use range::{Range, Rules};
