//! What detectors find together in whole runs, made up by laws that are known.

pub(super) mod budget;
mod causes;
mod gains;
mod placement;
mod samples;
pub(crate) mod scaling;
mod shapes;
mod statements;
