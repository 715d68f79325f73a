//! The flags of `pgassay run kernels`.

use clap::{ArgGroup, Args as ClapArgs, ValueEnum};
use pgassay_kernels::{FORMS, Form, find, placement::Placement};
use pgassay_model::Failure;

use super::kinds::OF_KERNELS;

/// Which kernels, and where their threads run.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Kernels")]
#[command(group = ArgGroup::new(OF_KERNELS).multiple(true))]
pub struct KernelsArgs {
    /// A family (word, spinlock, lwlock, pin, clock, snapshot, wal), or one form of it:
    /// spinlock:MCS (repeatable) [default: all]
    #[arg(group = OF_KERNELS, long = "form", value_name = "FAMILY[:FORM]")]
    pub forms: Vec<String>,
    /// On which CPUs threads run
    #[arg(group = OF_KERNELS, long, value_enum, value_name = "WHERE", default_value = "cores")]
    pub placement: PlacementName,
    /// Turns of private arithmetic after each operation, about a nanosecond each
    #[arg(group = OF_KERNELS, long, value_name = "TURNS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000_000))]
    pub think: u32,
}

/// Placements by their names on the command line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum PlacementName {
    /// A core each, one socket after the other; siblings of a core last
    #[default]
    Cores,
    /// Siblings of a core next to each other
    Siblings,
    /// On each socket in turn
    Sockets,
    /// Wherever the kernel puts them
    Free,
}

impl From<PlacementName> for Placement {
    fn from(name: PlacementName) -> Self {
        match name {
            PlacementName::Cores => Self::Cores,
            PlacementName::Siblings => Self::Siblings,
            PlacementName::Sockets => Self::Sockets,
            PlacementName::Free => Self::Free,
        }
    }
}

impl KernelsArgs {
    /// The forms that were asked for, each once, in the catalogue's order.
    ///
    /// # Errors
    /// If there is none of a name.
    pub fn chosen(&self) -> Result<Vec<&'static Form>, Failure> {
        if self.forms.is_empty() {
            return Ok(FORMS.iter().collect());
        }
        let mut chosen = Vec::new();
        for name in &self.forms {
            let found = find(name);
            if found.is_empty() {
                return Err(unknown(name));
            }
            chosen.extend(found.iter().map(|form| form.title()));
        }
        Ok(FORMS
            .iter()
            .filter(|form| chosen.contains(&form.title()))
            .collect())
    }
}

fn unknown(name: &str) -> Failure {
    let family = name.split_once(':').map_or(name, |(family, _)| family);
    let of_family: Vec<String> = find(family)
        .iter()
        .map(|form| format!("{}:{}", form.family, form.name))
        .collect();
    let known = match of_family.is_empty() {
        false => of_family.join(", "),
        true => {
            let mut families: Vec<&str> = FORMS.iter().map(|form| form.family).collect();
            families.dedup();
            families.join(", ")
        }
    };
    Failure::usage(format!("there is no kernel `{name}`")).with_remedy(format!("one of {known}"))
}
