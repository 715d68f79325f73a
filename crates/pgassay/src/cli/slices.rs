//! The flags of commands that compare servers slice by slice.

use clap::{ArgGroup, Args as ClapArgs};
use pgassay_model::Failure;

use super::clients::{ClientList, ScaleList};
use super::kinds::{OF_CLIENTS, OF_SCALE, OF_SESSIONS};
use super::measure::MeasureArgs;

/// How long a slice is, and what its clients are like.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(
    group = ArgGroup::new(OF_SESSIONS).multiple(true),
    group = ArgGroup::new(OF_CLIENTS).multiple(true),
    group = ArgGroup::new(OF_SCALE).multiple(true)
)]
pub struct SliceArgs {
    /// Client counts: 1,2,8 or 1..64*2 [default: twice the CPUs]
    #[arg(group = OF_SESSIONS, id = "clients", long = "clients", short = 'c', value_name = "LIST")]
    pub client_counts: Option<ClientList>,
    /// Counted seconds of a slice [default: 0.2; 0.5 for workloads that write]
    #[arg(group = OF_SESSIONS, long, value_name = "SECONDS", value_parser = super::values::seconds)]
    pub slice: Option<f64>,
    /// Uncounted seconds before each slice [default: 0.05]
    #[arg(group = OF_CLIENTS, long, value_name = "SECONDS", value_parser = super::values::seconds_or_zero)]
    pub warmup: Option<f64>,
    /// Threads that drive the clients [default: a quarter of the CPUs]
    #[arg(group = OF_CLIENTS, long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Option<u32>,
    /// Scale of the pgbench tables, 100,000 rows each [default: by memory and cache]; compare takes several, 1,10,100
    #[arg(group = OF_SCALE, long, short = 's', value_name = "N")]
    pub scale: Option<ScaleList>,
    /// Seed of the order and of the clients' random numbers [default: drawn and recorded]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

impl SliceArgs {
    /// The scale, for what takes one.
    ///
    /// # Errors
    /// Where there are several.
    pub fn one_scale(&self) -> Result<Option<u32>, Failure> {
        match self.scale.as_ref().map(|list| list.0.as_slice()) {
            None => Ok(None),
            Some([one]) => Ok(Some(*one)),
            Some(_) => Err(Failure::usage(
                "--scale: here it is one scale; several are for run, and for compare by time",
            )),
        }
    }

    /// The same at one number of clients, or at the default ones.
    pub fn with_clients(&self, clients: Option<u32>) -> Self {
        Self {
            client_counts: clients.map(|clients| ClientList(vec![clients])),
            ..self.clone()
        }
    }

    /// What is measured in each slice, at these client counts.
    pub fn measured(&self, counts: &[u32], writes: bool) -> MeasureArgs {
        MeasureArgs {
            client_counts: Some(ClientList(counts.to_vec())),
            time: self.slice.or(Some(if writes { 0.5 } else { 0.2 })),
            warmup: self.warmup.or(Some(0.05)),
            trials: Some(1),
            threads: self.threads,
            scale: self.scale.clone(),
            seed: self.seed,
            ..MeasureArgs::default()
        }
    }
}
