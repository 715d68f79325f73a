//! The dials of order entry.

use clap::{ArgGroup, Args as ClapArgs};

use super::kinds::OF_ORDER_ENTRY;
use pgassay_engine::workload::order_entry;

/// How large it is, and where its transactions run.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(group = ArgGroup::new(OF_ORDER_ENTRY).multiple(true))]
pub struct OrderEntryArgs {
    /// Warehouses of order-entry, about 100 MB each [default: by memory and cache]
    #[arg(group = OF_ORDER_ENTRY, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub warehouses: Option<u32>,
    /// Call a procedure in the server for each transaction of order-entry, instead of sending its statements
    #[arg(group = OF_ORDER_ENTRY, long)]
    pub procedures: bool,
}

impl OrderEntryArgs {
    /// The first of its flags that was given.
    pub fn first_given(&self) -> Option<&'static str> {
        match (self.warehouses, self.procedures) {
            (Some(_), _) => Some("--warehouses"),
            (None, true) => Some("--procedures"),
            (None, false) => None,
        }
    }

    /// The registered workload that the name means with these flags.
    pub fn named<'a>(&self, name: &'a str) -> &'a str {
        match self.procedures && name == order_entry::NAME {
            true => order_entry::PROCEDURES,
            false => name,
        }
    }
}
