//! What detectors find together in whole runs, made up by laws that are known.

mod budget;
mod gains;
pub(super) mod made;
mod names;
mod placement;
mod samples;
mod scaling;
mod shapes;
mod statements;
