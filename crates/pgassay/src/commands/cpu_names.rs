//! Names of CPUs on the command line.

use pgassay_inspect::cpu;
use pgassay_model::Failure;
use pgassay_text::suggestion::did_you_mean;

/// The error of a CPU's name that is not known.
pub fn unknown_cpu(name: &str) -> Failure {
    let known = cpu::CPUS
        .iter()
        .flat_map(|cpu| [&[cpu.id], cpu.aliases].concat());
    Failure::usage(format!(
        "--cpu {name}: no CPU of that name is known{}",
        did_you_mean(name, known)
    ))
    .with_remedy("pgassay inspect --list-cpus lists them; `host` is this machine's")
}
