//! The same program on another machine.
//!
//! ```text
//! near process -- carrier (ssh, kubectl exec -i, …) -- far process
//!      Link    <------- frames, both ways -------->      Link
//! ```
//! A [`place`] says where, a [`carrier`] is the command that carries standard input and output there,
//! a [`link`] is the conversation over them: [`frame`]s of numbered channels, heartbeats, and at
//! its beginning a [`hello`] in which each side says which program it is. What is said on the
//! channels is the business of those who open them.

pub mod carrier;
pub mod frame;
pub mod hello;
pub mod link;
pub mod place;

pub use carrier::Carrier;
pub use hello::Hello;
pub use link::{Channel, Link, Lost};
pub use place::Place;
