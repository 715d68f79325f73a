//! What `pgassay run` varies beside clients: each combination of values is a launched server.

use clap::{ArgGroup, Args as ClapArgs, ValueEnum};
use pgassay_text::number::memory_bytes;

use super::clients::CpuCounts;
use super::kinds::OF_AXES;

/// The axes. `--scale`, which other commands have, too, is one where it has several values.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "What is varied beside clients")]
#[command(group = ArgGroup::new(OF_AXES).multiple(true))]
pub struct AxesArgs {
    /// Numbers of CPUs that a launched server is kept on, a point for each: 1,2,4 or 1..64*2; cores
    /// first, threads of the same core last
    #[arg(group = OF_AXES, long, value_name = "LIST")]
    pub cpus: Option<CpuCounts>,
    /// Which threads of the cores a launched server gets, a point for each value
    #[arg(group = OF_AXES, long, value_enum, value_name = "HOW", value_delimiter = ',')]
    pub smt: Vec<Smt>,
    /// On which memory node a launched server runs and has its memory, a point for each value: a
    /// node's number, interleave (memory in turn on all), local (memory where each process runs);
    /// by numactl
    #[arg(group = OF_AXES, long, value_name = "NODES", value_delimiter = ',')]
    pub numa: Vec<Numa>,
    /// shared_buffers of launched servers, a point for each: 128MB,1GB,8GB
    #[arg(group = OF_AXES, long, value_name = "SIZES", value_delimiter = ',')]
    pub shared_buffers: Vec<BufferSize>,
}

/// Which threads of a core a server gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Smt {
    /// All threads of its cores, core by core
    On,
    /// The first thread of each core, and the load threads, too, keep off the others
    Off,
    /// The first thread of each core; the load runs anywhere
    OnlyFirst,
}

impl Smt {
    /// As typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::OnlyFirst => "only-first",
        }
    }
}

/// Where a server has its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numa {
    /// It runs on this node and has its memory there.
    Node(u32),
    /// Its memory lies in turn on all nodes.
    Interleave,
    /// Its memory lies on the node of the process that first touches it.
    Local,
}

impl Numa {
    /// As typed.
    pub fn name(self) -> String {
        match self {
            Self::Node(node) => node.to_string(),
            Self::Interleave => "interleave".to_owned(),
            Self::Local => "local".to_owned(),
        }
    }
}

impl std::str::FromStr for Numa {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "interleave" => Ok(Self::Interleave),
            "local" => Ok(Self::Local),
            node => node.parse().map(Self::Node).map_err(|_| {
                format!("`{text}` is no memory node; write 0, 1, interleave or local")
            }),
        }
    }
}

/// A size as PostgreSQL's settings take it, with its unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferSize {
    /// As typed: `1GB`.
    pub text: String,
    /// Bytes.
    pub bytes: u64,
}

impl std::str::FromStr for BufferSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no size; write 128MB or 4GB");
        let bytes = memory_bytes(text).ok_or_else(wrong)?;
        // The least that PostgreSQL takes: 16 blocks.
        match bytes {
            0..131_072 => Err(format!("`{text}`: the smallest shared_buffers is 128kB")),
            _ => Ok(Self {
                text: text.to_owned(),
                bytes,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_axes() {
        let size = |text: &str| text.parse::<BufferSize>().map(|size| size.bytes);
        assert_eq!(size("128MB"), Ok(128 << 20));
        assert_eq!(size("4GB"), Ok(4 << 30));
        for wrong in [
            "",
            "GB",
            "1gb",
            "1.5GB",
            "64kB",
            "0MB",
            "99999999999TB",
            "-1GB",
            "128",
        ] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        let numa = |text: &str| text.parse::<Numa>();
        assert_eq!(numa("1"), Ok(Numa::Node(1)));
        assert_eq!(numa("interleave"), Ok(Numa::Interleave));
        for wrong in ["", "-1", "both"] {
            assert!(numa(wrong).is_err(), "{wrong}");
        }
    }
}
