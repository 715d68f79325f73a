//! Load from several machines.
//!
//! ```text
//! near side: Agents -- Several (one server's clients) --+-- channel -- serve_with: clients
//!                                                       +-- channel -- serve_with: clients
//! ```
//! Every machine has its share of the clients. A slice is announced ahead by each machine's own clock, so
//! that all begin together; each counts in a window of its own and says when that began, and what
//! they counted is merged.

mod bounds;
mod clock;
mod fleet;
mod merge;
mod message;
mod serve;
mod several;
mod shares;
pub mod synthetic;

pub use fleet::{Agents, Outside, Side, Stranger};
pub use message::{
    Found, Identity, Machine, Preparation, Refusal, RefusalKind, Server, SshSession,
};
pub use serve::{Clients, Maker, Memory, serve_with};
pub use several::{Several, Trouble};

#[cfg(test)]
mod tests;
