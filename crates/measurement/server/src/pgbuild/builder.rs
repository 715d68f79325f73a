//! Who compiles.
//!
//! A source's configure and makefiles are programs of whoever wrote it. Root's
//! rights are no use to them, so root has them run by the user that its servers
//! run as; git, tar, patch and the compilers, too. What they make lies in that
//! user's scratch directory, and root never writes there itself: with its rights
//! it would follow what they have put in its way.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::account::Account;
use crate::scratch;
use pgassay_model::Failure;

/// The user that builds are made by.
#[derive(Debug)]
pub struct Builder(Option<Account>);

impl Builder {
    /// The server's user if we are root, else ourselves.
    ///
    /// # Errors
    /// If there is no unprivileged user.
    pub fn find() -> anyhow::Result<Self> {
        match Account::for_servers() {
            Ok(account) => Ok(Self(account)),
            Err(error) => Err(Failure::target(error.to_string()).into()),
        }
    }

    /// What the user should know of it.
    pub fn announcement(&self) -> Option<String> {
        self.0.as_ref().map(|account| {
            format!(
                "root does not compile: git, configure and make run as the user {}",
                account.name
            )
        })
    }

    /// Does `work` with that user's rights.
    ///
    /// # Errors
    /// Those of the work; that the user can't be changed.
    pub fn run<T>(&self, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        match &self.0 {
            None => work(),
            Some(account) => account
                .lend(work)
                .map_err(|error| Failure::target(error.to_string()))?,
        }
    }
}

/// A program of a build, in an environment that fits the user.
pub(super) fn tool(program: &str) -> Command {
    let mut command = pgassay_sys::programs::command(program);
    command.env("LC_ALL", "C").stdin(Stdio::null());
    fit(&mut command);
    command
}

/// Takes out what is another user's: root's HOME and TMPDIR can't be used by the builder.
pub(super) fn fit(command: &mut Command) {
    let us = rustix::process::geteuid().as_raw();
    let home = std::env::var_os("HOME");
    let ours = home
        .as_ref()
        .and_then(|home| std::fs::metadata(home).ok())
        .is_some_and(|meta| meta.uid() == us);
    if !ours {
        command
            .env("HOME", scratch::default_root())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("CCACHE_DIR");
    }
    let temporary = std::env::var_os("TMPDIR");
    if let Some(dir) = temporary
        && rustix::fs::access(Path::new(&dir), rustix::fs::Access::WRITE_OK).is_err()
    {
        command.env_remove("TMPDIR");
    }
}
