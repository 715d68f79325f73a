//! A connection string made ready for connecting many times.

use super::conninfo::{Conninfo, Host, Place, SslMode};
use super::tls::{Tls, TlsFiles};
use std::sync::Arc;

/// A connection string made ready for connecting many times, from any thread.
#[derive(Clone)]
pub struct Connector {
    pub(super) conninfo: Arc<Conninfo>,
    /// For each host how to speak TLS with it; `None` where it is not used, an
    /// error where the files for it are wrong.
    pub(super) tls: Arc<[Option<Result<Tls, String>>]>,
}

impl Connector {
    /// Reads what TLS needs. Errors in that appear when it is used.
    pub fn new(conninfo: &Conninfo) -> Connector {
        let wanted = |host: &Host| {
            conninfo.tls.mode != SslMode::Disable && !matches!(host.place, Place::Socket(_))
        };
        let files = if conninfo.hosts.iter().any(wanted) {
            TlsFiles::read(conninfo)
        } else {
            Err("TLS is not used".to_owned())
        };
        let for_host = |host: &Host| {
            wanted(host).then(|| match &files {
                Ok(files) => Tls::new(conninfo, host, files),
                Err(error) => Err(error.clone()),
            })
        };
        let tls = conninfo.hosts.iter().map(for_host).collect();
        Connector {
            conninfo: Arc::new(conninfo.clone()),
            tls,
        }
    }

    /// The same way with further command line options for the backend.
    pub fn with_options(&self, more: &str) -> Connector {
        Connector {
            conninfo: Arc::new(self.conninfo.with_options(more)),
            tls: Arc::clone(&self.tls),
        }
    }

    /// Where it leads and as whom.
    pub fn conninfo(&self) -> &Conninfo {
        &self.conninfo
    }
}
