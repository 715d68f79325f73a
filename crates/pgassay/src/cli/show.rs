//! How a result is shown: the same flags for every command that has one.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// Where a result goes, and how it is rendered.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct ShowArgs {
    /// How to render
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Write to a file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Write one self-contained HTML file, too
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl ShowArgs {
    /// The format, by whichever flag it was asked for.
    pub fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

/// The formats of a report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For the terminal
    #[default]
    Text,
    /// One self-contained file
    Html,
    /// For programs, described by docs/schema
    Json,
    /// For issues and wikis
    Markdown,
    /// Figures in rows, where there are any
    Csv,
    /// CPU samples for speedscope, where there are any
    Speedscope,
    /// CPU samples for the Firefox Profiler, likewise
    Firefox,
}
