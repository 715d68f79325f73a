//! Flags of `pgassay patch`.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// Arguments of `pgassay patch`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay patch v3-*.patch --base master                     in a checkout of PostgreSQL
  pgassay patch v3-0001.patch --source ~/src/pg --base REL_17_STABLE -- --launches 6 --minutes 30
  pgassay patch v3-0001.patch --source postgresql-17.5.tar.bz2 -- --clients 1..64*2
  pgassay patch v3-0001.patch --base master -- --by instructions --delta 0.1%
  pgassay patch v3-0001.patch --base master -- --by lines    which shared cache lines it takes off and adds
  pgassay patch --plan patch-plan.json --source ~/src/pg     what somebody else measured, here

What follows -- is for pgassay compare; without --clients it is a sweep from 1 to twice the CPUs.
Builds base and patched alike, compares them, and prints a table in plain text for a mailing list.
Exit codes are those of compare.")]
pub struct PatchArgs {
    /// Patch files, applied in this order
    #[arg(value_name = "FILE", required_unless_present = "plan")]
    pub patches: Vec<PathBuf>,
    /// The commit, tag or branch that the patches are for; of a git repository
    #[arg(long, value_name = "REF")]
    pub base: Option<String>,
    /// A git repository (directory or URL), a source directory or a tarball
    #[arg(long, value_name = "SOURCE", default_value = ".")]
    pub source: String,
    /// How both are built: presets, cc=, cflags=, options= as in pgassay build --variant
    #[arg(long, value_name = "'[PRESET…] [KEY=VALUE…]'", default_value = "")]
    pub variant: String,
    /// Measure what a plan file says: its patches, base, variant and comparison
    #[arg(long, value_name = "FILE", conflicts_with_all = ["patches", "base", "variant", "compare"])]
    pub plan: Option<PathBuf>,
    /// Where to write the plan file [default: patch-plan.json in the run's directory]
    #[arg(long, value_name = "FILE")]
    pub save_plan: Option<PathBuf>,
    /// Compile this many files at a time [default: the CPUs that may be used]
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub jobs: Option<u32>,
    /// Flags of pgassay compare
    #[arg(last = true, value_name = "COMPARE-FLAGS")]
    pub compare: Vec<String>,
}
