//! Many hosts at once: what is wrong on how many of them, and who differs from the rest of its kind.
//!
//! A [`Host`] is what was collected of one server, or of a host without one: by `pgassay collect`, or
//! beside an assay. [`Gathering`] takes them one by one, whatever they are read from, keeps the newest
//! of each and little of it, and concludes at the end.

mod document;
mod gathering;
mod groups;
mod host;
mod kinds;
mod measured;
mod member;
mod traits;

#[cfg(test)]
mod tests;

pub use document::{
    Divided, Example, Fleet, FleetFinding, FleetHost, Group, Grouping, Kind, LeftOut, OddMeasured,
    OddTrait, SCHEMA, Share, Superseded,
};
pub use gathering::Gathering;
pub use host::{Found, Host, Identity, KindKey, Measured, Role, Source, Unused};
pub use traits::cut;
