//! The flags of `pgassay port`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};
use pgassay_port::guards::known::Processor;
use pgassay_port::rules::Effect;

use super::show::ShowArgs;

/// Arguments of `pgassay port`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay port pgvector/                         sources: C, C++, Rust, Makefile, CMake, meson
  pgassay port pgvector_0.8.0.orig.tar.gz        the same, packed
  pgassay port $(pg_config --pkglibdir)/vector.so which vector extensions functions use
  pgassay port postgresql-17-pgvector_*_amd64.deb
  pgassay port --to ppc64le pgvector/
  pgassay port --fail-on check --json pgvector/  for CI
  pgassay port --list-rules

Nothing is compiled, and no header is needed. Ends with code 1 if something breaks on the other
processor (see --fail-on).")]
pub struct PortArgs {
    /// Directories of sources, sources, shared libraries, packages (.deb .rpm .zip .tar.*)
    #[arg(
        value_name = "SOURCE-DIR|EXTENSION.so|PACKAGE",
        required_unless_present = "list_rules"
    )]
    pub inputs: Vec<PathBuf>,
    /// The processor that sources are to run on
    #[arg(long, value_enum, default_value_t = To::Aarch64)]
    pub to: To,
    /// End with code 1 if there is a finding of this kind or above
    #[arg(long, value_enum, value_name = "KIND", default_value_t = FailOn::Breaks)]
    pub fail_on: FailOn,
    /// List the rules
    #[arg(long)]
    pub list_rules: bool,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

/// A processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum To {
    /// Arm, 64 bit
    Aarch64,
    /// Power, 64 bit, little-endian
    Ppc64le,
    /// RISC-V, 64 bit
    Riscv64,
    /// IBM Z
    S390x,
}

impl From<To> for Processor {
    fn from(to: To) -> Self {
        match to {
            To::Aarch64 => Self::Aarch64,
            To::Ppc64le => Self::Ppc64le,
            To::Riscv64 => Self::Riscv64,
            To::S390x => Self::S390x,
        }
    }
}

/// What ends with code 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// It does not build or run, or gives other results
    Breaks,
    /// It runs by a slower path
    Slow,
    /// A reader has to decide
    Check,
    /// Nothing does
    Never,
}

impl FailOn {
    /// The least effect that does; none if nothing does.
    pub fn least(self) -> Option<Effect> {
        match self {
            Self::Breaks => Some(Effect::Breaks),
            Self::Slow => Some(Effect::Slow),
            Self::Check => Some(Effect::Check),
            Self::Never => None,
        }
    }
}
