//! Flags of `pgassay build`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::show::ShowArgs;

/// Arguments of `pgassay build`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  pgassay build postgresql-15.18.tar.bz2 --variant O2 --variant O0
  pgassay build ~/src/postgresql --variant 'lto cflags=-flto ldflags=-flto'
  pgassay build https://git.postgresql.org/git/postgresql.git --ref REL_17_STABLE
  pgassay build pg.tar.gz --host aarch64-linux-gnu --variant llsc --variant outline --variant lse
  pgassay build pg.tar.gz --variant 'mine native cc=gcc-13 options=\"--with-icu\" patch=my.patch'
  pgassay build pg.tar.gz --variant O2 --layouts 8     the same objects in 8 random link orders
  pgassay build --recommend --cpu graviton2 --compiler gcc-9
  pgassay compare build:15.18-O2 build:15.18-O0

A variant is a name, then presets (pgassay build --presets), then cc=, cflags=, ldflags=, options=,
patch=. Its flags are appended to the source's default -O2. A build becomes the target build:NAME,
with NAME made of the source's version and the variant's name. Beside what a variant asks for,
builds leave out readline, ICU and zlib, so that they are the same on every machine.")]
pub struct BuildArgs {
    /// A source directory, a tarball, or a git repository (directory or URL)
    #[arg(value_name = "SOURCE", required_unless_present_any = ["recommend", "list", "presets", "remove", "clean"])]
    pub source: Option<String>,
    /// The branch, tag or commit to build of a git repository
    #[arg(long = "ref", value_name = "REF")]
    pub git_ref: Option<String>,
    /// A variant to build (repeatable) [default: plain]
    #[arg(long, value_name = "'NAME [PRESET…] [KEY=VALUE…]'")]
    pub variant: Vec<String>,
    /// A patch for every variant, before its own (repeatable)
    #[arg(long, value_name = "FILE")]
    pub patch: Vec<PathBuf>,
    /// The compiler of variants that name none
    #[arg(long, value_name = "CC")]
    pub cc: Option<String>,
    /// An option of configure or meson for every variant (repeatable)
    #[arg(long = "option", value_name = "OPTION", allow_hyphen_values = true)]
    pub options: Vec<String>,
    /// A variant's flags are all its flags: no -O2 before them, as in published recipes
    #[arg(long)]
    pub cflags_exact: bool,
    /// Cross-build for this triplet, to be inspected or emulated: aarch64-linux-gnu …
    #[arg(long, value_name = "TRIPLET")]
    pub host: Option<String>,
    /// Which of the source's build systems
    #[arg(long, value_enum, default_value_t = SystemArg::Auto)]
    pub build_system: SystemArg,
    /// What the builds' names begin with [default: the source's version]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Link each variant in this many random object orders beside the usual one
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub layouts: u32,
    /// Seed of the random object orders
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub layout_seed: u64,
    /// Compile this many files at a time [default: the CPUs that may be used]
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub jobs: Option<u32>,
    /// Which flags for a CPU and a compiler, with the reasons; builds nothing
    #[arg(long, conflicts_with = "source")]
    pub recommend: bool,
    /// The CPU to recommend for: a name of pgassay inspect --list-cpus [default: this machine's]
    #[arg(long, value_name = "CPU", requires = "recommend")]
    pub cpu: Option<String>,
    /// The compiler to recommend for: gcc-9, gcc-12.2, clang-15, or a program [default: gcc or cc]
    #[arg(long, value_name = "COMPILER", requires = "recommend")]
    pub compiler: Option<String>,
    /// List the builds that are there
    #[arg(long, conflicts_with_all = ["source", "recommend"])]
    pub list: bool,
    /// List the presets for --variant
    #[arg(long, conflicts_with_all = ["source", "recommend", "list"])]
    pub presets: bool,
    /// Remove a build (repeatable)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["source", "recommend", "list", "presets"])]
    pub remove: Vec<String>,
    /// Remove unpacked sources and object files; builds stay
    #[arg(long, conflicts_with_all = ["source", "recommend", "list", "presets"])]
    pub clean: bool,
    /// How it is shown.
    #[command(flatten)]
    pub show: ShowArgs,
}

/// A build system, as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SystemArg {
    /// meson where the source has it and it is installed, else autoconf
    Auto,
    /// configure and make
    Autoconf,
    /// meson and ninja
    Meson,
}
