//! PGIO: what its sessions recorded, and what it says.

mod conclude;

pub use conclude::{Agreement, PgioAnalysis, PgioPoint, Step, analyse, headline, is_stable, steps};
