//! PostgreSQL built from source, in variants that differ in what they should
//! differ in and in nothing else.
//!
//! ```text
//! SOURCE -> Source (hash, version) -> unpacked, patched, once for each set of patches
//! --variant text -> Variant -> Recipe (commands) -> a tree -> an installation -> BuildRecord
//! ```
//! A build is installed below [`place::Place`] under its name and is from then
//! on the target `build:NAME`. Nothing is installed before everything has been
//! compiled and what was recorded has been held against what was asked for, so
//! that a name never stands for half a build.

pub mod builder;
pub mod commits;
pub mod compiler;
pub mod evidence;
mod files;
mod git;
pub mod layout;
pub mod maker;
pub mod patches;
pub mod place;
pub mod recipe;
pub mod record;
mod repository;
pub mod shared;
pub mod source;
pub mod steps;
pub mod trouble;
pub mod variant;

pub use builder::Builder;
pub use maker::{Event, Made, Maker};
pub use place::Place;
pub use record::BuildRecord;
pub use source::Source;
pub use variant::Variant;
