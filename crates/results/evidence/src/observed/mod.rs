//! What observers saw beside the load: what it says.

pub mod analysis;
pub mod backends;
pub mod beside;
pub mod blockers;
pub mod budget;
pub mod cost;
pub mod counters;
pub mod growth;
pub mod pmu;
pub mod stacks;
pub mod statements;
pub mod waits;

pub use analysis::{ArmObserved, PointObserved};
pub use budget::Budget;
pub use cost::CostAnalysis;
pub use statements::StatementAnalysis;
pub use waits::WaitAnalysis;
