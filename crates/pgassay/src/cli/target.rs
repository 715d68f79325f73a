//! The flags that say what is measured.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgGroup, Args as ClapArgs};
use pgassay_model::storage::VolumeLimits;

use pgassay_server::TargetSpec;

use super::from::Ways;
use super::given::ConfinedArgs;
use super::kinds::OF_SERVER;
use crate::exit::explain;
use crate::held::Held;

/// What is measured, shared by all commands that measure.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(group = ArgGroup::new(OF_SERVER).multiple(true))]
pub struct TargetArgs {
    /// temp (default), temp:17, temp:17.2, an installation's prefix or bin directory, or the URI or
    /// conninfo of a running server; on another machine as ssh://HOST/TARGET or
    /// 'exec:COMMAND // TARGET'
    #[arg(group = OF_SERVER, value_name = "TARGET")]
    pub target: Option<String>,
    /// A setting for a launched server (repeatable)
    #[arg(group = OF_SERVER, long = "set", value_name = "NAME=VALUE")]
    pub settings: Vec<String>,
    /// Environment and wrapping command.
    #[command(flatten)]
    pub confined: ConfinedArgs,
    /// Allow load on a running server: says what it will create, and removes it afterwards
    #[arg(group = OF_SERVER, long)]
    pub load: bool,
    /// This running server is a copy: a workload on your own tables may change them, and they stay changed
    #[arg(group = OF_SERVER, long)]
    pub is_copy: bool,
    /// Directory for temporary clusters; not on tmpfs [default: below /var/tmp]
    #[arg(group = OF_SERVER, long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Use the archived PostgreSQL from Maven Central where none is installed
    #[arg(group = OF_SERVER, long)]
    pub stand_in: bool,
    /// Have a launched server hold a copy of this database, for a workload on your own tables: pg_dump
    /// reads it, and nothing in it is changed. Or data made from a directory of `workload statistics`
    #[arg(group = OF_SERVER, long, value_name = "CONNINFO|DIR")]
    pub from_database: Option<String>,
    /// What the provider of the data's volume allows: iops=3000,mbps=125; of one with burst credits
    /// also base-iops=600,credits=5400000. Reads that reach it are named
    #[arg(group = OF_SERVER, long, value_name = "LIMITS", value_parser = super::io::volume)]
    pub volume: Option<VolumeLimits>,
    /// What they hold, where several servers share it.
    #[arg(skip)]
    pub dump: Option<Arc<Held>>,
    /// How machines that give load reach the server.
    #[arg(skip)]
    pub outside: Ways,
}

impl TargetArgs {
    /// What is measured; a server of this machine's newest PostgreSQL where nothing was typed.
    ///
    /// # Errors
    /// Where it is no target.
    pub fn spec(&self) -> anyhow::Result<TargetSpec> {
        let typed = self.target.as_deref().unwrap_or("temp");
        typed.parse().map_err(explain)
    }

    /// The same with a workload's settings for a launched server, under the user's own.
    pub fn with_defaults(&self, defaults: &[(&str, impl std::fmt::Display)]) -> Self {
        let mut target = self.clone();
        for (name, value) in defaults {
            let set = |setting: &String| {
                let set = setting.split('=').next();
                set.is_some_and(|set| set.trim().eq_ignore_ascii_case(name))
            };
            if !target.settings.iter().any(set) {
                target.settings.push(format!("{name}={value}"));
            }
        }
        target
    }
}
