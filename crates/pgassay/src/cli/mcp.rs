//! The flags of `pgassay mcp`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Arguments of `pgassay mcp`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
An assistant that speaks the Model Context Protocol starts it and asks by standard input; it only reads,
and only the runs of one directory. An entry for a client's configuration:
  { \"mcpServers\": { \"pgassay\": { \"command\": \"pgassay\", \"args\": [\"mcp\"] } } }")]
pub struct McpArgs {
    /// Directory of runs [default: where pgassay records them]
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}
