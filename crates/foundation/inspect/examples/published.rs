//! The table of docs/corpus.md: the PostgreSQL server of each package, in a row.
#![allow(clippy::print_stdout, reason = "an example is a program")]

use pgassay_inspect::archive::{Found, Limits, walk};
use pgassay_inspect::{Options, inspect_elf};

fn main() -> std::io::Result<()> {
    println!(
        "| package | architecture | PostgreSQL | compiler | inline LSE | outline call sites | LL/SC instructions | locked, AMO or interlocked | spin delay | CRC-32C | symbols |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for path in std::env::args().skip(1) {
        let bytes = std::fs::read(&path)?;
        let name = path.rsplit('/').next().unwrap_or(&path);
        walk(name, &bytes, &Limits::default(), &mut |name, found| {
            let Found::Elf(bytes) = found else {
                return;
            };
            let Ok(binary) = inspect_elf(name, bytes, &Options::default()) else {
                return;
            };
            let Some(postgres) = &binary.postgres else {
                return;
            };
            let a = &binary.atomics;
            let path = |id: &str| {
                binary
                    .hot_paths
                    .iter()
                    .find(|p| p.id == id)
                    .map_or(String::new(), |p| p.technique.name().to_string())
            };
            let delay = binary.hot_paths.iter().find(|p| p.id == "spin-delay");
            println!(
                "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                name.split('!')
                    .next()
                    .unwrap_or(name)
                    .replace("embedded-postgres-binaries", "embedded"),
                binary.machine.name(),
                postgres.version,
                binary.build.compilers.first().map_or("", |c| c.as_str()),
                a.inline_lse(),
                a.outline_calls(),
                a.inline_llsc(),
                a.count(|c| !c.is_lse() && !c.is_llsc()),
                delay.map_or(String::new(), |d| match d.technique {
                    pgassay_inspect::model::Technique::Instruction => d.detail.clone(),
                    other => other.name().into(),
                }),
                path("crc32c"),
                if binary.build.stripped {
                    "stripped"
                } else {
                    "kept"
                },
            );
        });
    }
    Ok(())
}
