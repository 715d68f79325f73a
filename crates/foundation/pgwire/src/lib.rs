//! PostgreSQL as a client sees it: where the server is, how to get in, simple
//! queries, and the bare transport for whoever drives load.
//!
//! The bottom of the program: target, load and observe stand on it, and it
//! uses nothing of them. The protocol's messages and the cryptography of
//! authentication are `postgres_protocol`'s, TLS is rustls's; libpq's rules
//! about strings, files, modes and retries are here.

mod cancel;
mod certificate;
mod channel;
mod connect;
mod connector;
mod conninfo;
mod dial;
mod error;
pub mod fake;
mod greeting;
mod interrupt;
mod kept;
mod own;
mod secret;
mod session;
mod start_error;
mod startup;
mod tls;
mod transport;
mod verifier;
mod words;

pub use cancel::CancelKey;
pub use connect::connect;
pub use connector::Connector;
pub use conninfo::{
    AuthMethod, ChannelBinding, Conninfo, ConninfoError, FileSeen, Host, Keepalives,
    NoSurroundings, Place, RequireAuth, RootCert, SessionAttrs, SslMode, Surroundings, ThisProcess,
    TlsSettings,
};
pub use error::{ConnectError, QueryError, ServerError};
pub use interrupt::end_waits_by;
pub use own::OwnTraffic;
pub use postgres_protocol::password::scram_sha_256 as scram_verifier;
pub use secret::Secret;
pub use session::{CopyIn, RawConnection, ResultSet, Session, TransactionStatus};
pub use transport::{TlsTransport, Transport};
pub use words::Saying;
