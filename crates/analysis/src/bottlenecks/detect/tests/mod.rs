//! What detectors find together in whole runs, made up by laws that are known.

mod budget;
mod samples;
pub(crate) mod scaling;
