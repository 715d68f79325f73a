//! `pgassay build --recommend`: which flags, why, and what not to use.

use super::cpu_names::unknown_cpu;
use anyhow::bail;
use pgassay_inspect::Machine;
use pgassay_inspect::cpu::{self, Cpu};
use pgassay_inspect::recommend::{Compiler, Recommended, recommend as recommend_for};

use super::show::show;
use crate::cli::build::BuildArgs;
use crate::exit::Exit;
use crate::terminal::Terminal;
use pgassay_model::Failure;
use pgassay_server::inspection::live;
use pgassay_server::pgbuild::compiler::Compiler as Installed;
use pgassay_server::pgbuild::maker::native_machine;

/// Prints the recommendation for the CPU and compiler asked for.
///
/// # Errors
/// Where one of them is not known.
pub fn recommend(args: &BuildArgs, terminal: &mut Terminal) -> anyhow::Result<Exit> {
    let cpu = match args.cpu.as_deref() {
        None | Some("host") => own_cpu()?,
        Some(name) => cpu::find(name).ok_or_else(|| unknown_cpu(name))?,
    };
    let compiler = compiler(args.compiler.as_deref())?;
    let recommended = Recommended {
        schema: Recommended::SCHEMA.to_owned(),
        recommendation: recommend_for(cpu, compiler),
    };
    show(&recommended, &args.show, terminal)?;
    Ok(Exit::Done)
}

/// A compiler as described, or as a program here says of itself.
fn compiler(asked: Option<&str>) -> anyhow::Result<Compiler> {
    let described = asked.and_then(Compiler::parse);
    if let Some(described) = described {
        return Ok(described);
    }
    let installed = Installed::find(asked, None).map_err(|error| match asked {
        Some(asked) => anyhow::Error::new(
            Failure::usage(format!(
                "--compiler {asked}: neither a compiler's name and version nor a program here"
            ))
            .with_remedy("such as gcc-9, gcc-12.2, clang-15"),
        ),
        None => error,
    })?;
    match Compiler::parse(&installed.banner) {
        Some(compiler) => Ok(compiler),
        None => bail!(
            Failure::usage(format!(
                "{} is neither GCC nor Clang as far as it says: nothing is known of it",
                installed.banner
            ))
            .with_remedy("--compiler gcc-12 names one")
        ),
    }
}

/// The CPU of this machine, in the table.
fn own_cpu() -> anyhow::Result<&'static Cpu> {
    let machine = native_machine();
    let id = match &machine {
        Machine::X86_64 => Some("x86-64"),
        Machine::Aarch64 => {
            let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
            let number = |key: &str| {
                let line = cpuinfo.lines().find(|line| line.starts_with(key))?;
                let value = line.split(':').nth(1)?.trim().trim_start_matches("0x");
                u32::from_str_radix(value, 16).ok()
            };
            let known = number("CPU implementer")
                .zip(number("CPU part"))
                .and_then(|(implementer, part)| cpu::by_midr(implementer, part));
            match (known, live::host_has_lse()) {
                (Some(cpu), _) => return Ok(cpu),
                (None, Some(true)) => Some("armv8.1-a"),
                (None, _) => Some("armv8.0-a"),
            }
        }
        Machine::Ppc64le => Some("power8"),
        Machine::Riscv64 => Some("rv64gc"),
        Machine::S390x => Some("z196"),
        Machine::Other(_) => None,
    };
    id.and_then(cpu::find).ok_or_else(|| {
        Failure::usage(format!(
            "nothing is known of this machine's CPU ({})",
            machine.name()
        ))
        .with_remedy("--cpu names one; pgassay inspect --list-cpus lists them")
        .into()
    })
}
