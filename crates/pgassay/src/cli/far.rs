//! The arguments of `pgassay far`, which another pgassay starts.

use clap::Args as ClapArgs;

/// Arguments of `pgassay far`.
#[derive(Debug, ClapArgs)]
pub struct FarArgs {
    /// Tidy up when whoever starts this is gone
    #[arg(long)]
    pub warden: bool,
}
