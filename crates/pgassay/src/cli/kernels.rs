//! The flags of `pgassay run kernels`.

use clap::{ArgGroup, Args as ClapArgs, ValueEnum};
use pgassay_engine::count::kernels::{Build, builds};
use pgassay_kernels::{Form, find, forms, placement::Placement};
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
    /// Count on these processors, too, what each form executes: aarch64, ppc64le, x86_64. The forms
    /// are compiled for them and run in qemu's user emulator: instructions, no time
    #[arg(group = OF_KERNELS, long, value_name = "PROCESSOR", value_delimiter = ',')]
    pub emulate: Vec<String>,
}

/// The forms that were asked for.
#[derive(Debug, Default)]
pub struct Chosen {
    /// Those that this processor has.
    pub here: Vec<&'static Form>,
    /// Those that it lacks.
    pub elsewhere: Vec<&'static Form>,
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
    /// If there is none of a name, or a form that is named is another processor's and is not to be counted
    /// on it.
    pub fn chosen(&self) -> Result<Chosen, Failure> {
        let mut titles = Vec::new();
        for name in &self.forms {
            let found = find(name);
            if found.is_empty() {
                return Err(unknown(name));
            }
            titles.extend(found.iter().map(|form| form.title()));
        }
        let wanted = |form: &&Form| titles.is_empty() || titles.contains(&form.title());
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            forms().filter(wanted).partition(|form| form.is_here());
        if here.is_empty() && self.emulate.is_empty() {
            return Err(foreign(&elsewhere));
        }
        Ok(Chosen { here, elsewhere })
    }

    /// How the forms are compiled to be counted.
    ///
    /// # Errors
    /// If one of the processors is unknown.
    pub fn builds(&self) -> Result<Vec<Build>, Failure> {
        let mut all = Vec::new();
        for name in &self.emulate {
            let found = builds(name)?;
            all.extend(
                found
                    .into_iter()
                    .filter(|build| !all.contains(build))
                    .collect::<Vec<_>>(),
            );
        }
        Ok(all)
    }
}

/// Nothing that was asked for can be measured here.
fn foreign(elsewhere: &[&Form]) -> Failure {
    let names: Vec<String> = elsewhere.iter().map(|form| form.title()).collect();
    let mut processors: Vec<&str> = elsewhere.iter().filter_map(|f| f.of.processor()).collect();
    processors.sort_unstable();
    processors.dedup();
    Failure::usage(format!(
        "this processor has no {}; it is measured on {}",
        names.join(", "),
        processors.join(" and ")
    ))
    .with_remedy(format!(
        "count what it executes, under an emulator, with --emulate {}",
        processors.join(",")
    ))
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
            let mut families: Vec<&str> = forms().map(|form| form.family).collect();
            families.dedup();
            families.join(", ")
        }
    };
    Failure::usage(format!("there is no kernel `{name}`")).with_remedy(format!("one of {known}"))
}
