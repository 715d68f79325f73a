//! Scattered reads: what their executions say.
//!
//! One query reads a tenth of a table's blocks, scattered over all of it. The
//! kernel reads whole pages, which may be larger than the server's blocks, and
//! reads ahead. **Read amplification** is what the devices read over what the
//! server asked for; it is taken apart into its causes by looking which pages
//! of the table's files are in the page cache afterwards.

mod amplification;
pub mod bursts;
mod execution;
mod headline;
pub mod remedies;
mod warnings;

pub use amplification::{Cost, VariantAnalysis, analyse};
pub use execution::Shares;
pub use headline::headline;

use pgassay_model::scattered::ScatteredVariant;

use crate::server;

/// Whether the server reads past the page cache for a variant, where the variant
/// says so itself: `debug_io_direct` holds a list, in which `data` is tables.
fn asks_direct(variant: &ScatteredVariant) -> Option<bool> {
    let mut settings = variant.server_settings.iter();
    let (_, value) = settings.find(|(name, _)| name == "debug_io_direct")?;
    Some(server::reads_directly(value))
}
