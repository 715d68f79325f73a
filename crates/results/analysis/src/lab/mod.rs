//! Labs: a published experiment as data, and what became of its statements here.
//!
//! [`plan`] is what a file says, [`check`] reads it and finds what is wrong with it, [`legs`] is what a stage's axes come to, [`scale`] fits it into
//! a machine. Each stage is measured as an experiment of its own, by the same runner as everything else;
//! [`judge`] holds the statements against what the stages showed ([`evidence`]), and [`report`] is the
//! page.

pub mod check;
pub mod evidence;
pub mod judge;
pub mod legs;
pub mod plan;
pub mod report;
pub mod same;
pub mod scale;

pub use check::parse;
pub use evidence::{Evidence, Shown};
pub use plan::LabPlan;
pub use report::Lab;
