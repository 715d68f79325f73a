//! What a measuring command shows in a browser.

use clap::Args as ClapArgs;

/// The live page, and the finished report.
#[derive(Debug, Clone, Copy, Default, ClapArgs)]
pub struct PageArgs {
    /// Show this measurement in a browser while it runs: prints the address of the page
    #[arg(long)]
    pub watch: bool,
    /// Open the finished report in the browser
    #[arg(long)]
    pub open: bool,
}
