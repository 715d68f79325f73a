//! The statistics that every printed figure goes through.

pub mod estimate;

pub use estimate::Estimate;
