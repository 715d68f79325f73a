//! What a module that a server loads needs of the processor, and whether it asks first.
//!
//! The server calls functions of SQL through the function manager, and `_PG_init` when it loads a
//! module: what these use runs without a check, unless they ask themselves.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::extensions::{Extensions, Special, extensions_of_module, is_baseline};
use crate::{Error, Machine};

/// Functions named as evidence.
const NAMED: usize = 3;

/// A module of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Module {
    /// The file.
    pub path: String,
    /// Its architecture.
    pub machine: Machine,
    /// The extensions beyond the architecture's baseline that its functions use.
    pub uses: Vec<Use>,
    /// Whether it chooses at run time.
    pub choice: Choice,
    /// The check by which it chooses, or what runs without one.
    pub evidence: Vec<String>,
    /// Extensions that run without a check and that this machine lacks.
    pub lacking: Vec<String>,
}

/// An extension that a module uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Use {
    /// Its name, such as AVX2.
    pub extension: String,
    /// Instructions.
    pub instructions: u64,
    /// Functions that hold them.
    pub functions: u64,
    /// Some run without a check.
    pub unchecked: bool,
}

/// How a module comes to use extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// It asks the processor, and nothing that needs an extension was seen to run past that; or it
    /// uses none.
    RunTime,
    /// It needs them: it does not ask, or the server calls what uses them directly.
    Unconditional,
    /// It asks, but code for the baseline calls what uses them with no check in sight.
    Unclear,
}

impl Module {
    /// The file's name.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// What a module needs. `has` says whether this machine has an extension, where that is known.
///
/// # Errors
/// As for [`crate::inspect_elf`].
pub fn module(
    path: &str,
    bytes: &[u8],
    has: &dyn Fn(&Machine, &str) -> Option<bool>,
) -> Result<Module, Error> {
    let (found, entries) = extensions_of_module(bytes)?;
    Ok(judge(path, &found, &|name| entries.contains(name), has))
}

fn judge(
    path: &str,
    found: &Extensions,
    is_entry: &dyn Fn(&str) -> bool,
    has: &dyn Fn(&Machine, &str) -> Option<bool>,
) -> Module {
    let beyond = |special: &&Special| special.extensions.keys().any(|e| !is_baseline(e));
    let special: Vec<&Special> = found.special.iter().filter(beyond).collect();
    let asks = !found.checks.is_empty();
    let entered =
        |special: &&Special| !special.asks && special.name.as_deref().is_some_and(is_entry);
    // Without any check all of them run unconditionally; else those that the server calls itself.
    let unconditional: Vec<&Special> = special
        .iter()
        .copied()
        .filter(|special| !asks || entered(special))
        .collect();
    let unclear: Vec<&Special> = special
        .iter()
        .copied()
        .filter(|special| !special.called_from.is_empty())
        .collect();
    let label = |special: &&Special| {
        let name = special.name.clone();
        name.unwrap_or_else(|| format!("{:#x}", special.address))
    };
    let (choice, evidence) = if !unconditional.is_empty() {
        let why = if asks {
            "called by the server: "
        } else {
            "no check found; "
        };
        let names: Vec<String> = unconditional.iter().take(NAMED).map(label).collect();
        (
            Choice::Unconditional,
            vec![format!("{why}{}", names.join(", "))],
        )
    } else if !unclear.is_empty() {
        let names = unclear.iter().take(NAMED).map(|special| {
            format!(
                "{} called from {}",
                label(special),
                special.called_from.join(", ")
            )
        });
        (Choice::Unclear, names.collect())
    } else {
        (
            Choice::RunTime,
            found.checks.iter().take(NAMED).cloned().collect(),
        )
    };
    let mut uses: BTreeMap<&str, Use> = BTreeMap::new();
    for one in &special {
        let unchecked = unconditional.iter().any(|u| u.address == one.address);
        for (extension, instructions) in &one.extensions {
            if is_baseline(extension) {
                continue;
            }
            let entry = uses.entry(extension).or_insert_with(|| Use {
                extension: (*extension).to_owned(),
                instructions: 0,
                functions: 0,
                unchecked: false,
            });
            entry.instructions += instructions;
            entry.functions += 1;
            entry.unchecked |= unchecked;
        }
    }
    let lacking = uses
        .values()
        .filter(|one| one.unchecked && has(&found.machine, &one.extension) == Some(false))
        .map(|one| one.extension.clone());
    Module {
        path: path.to_owned(),
        machine: found.machine.clone(),
        lacking: lacking.collect(),
        uses: uses.into_values().collect(),
        choice,
        evidence,
    }
}

/// What Linux calls an extension in /proc/cpuinfo (`flags` on x86, `Features` on aarch64).
pub fn cpuinfo_name(machine: &Machine, extension: &str) -> Option<&'static str> {
    const X86: &[(&str, &str)] = &[
        ("SSE3", "pni"),
        ("SSSE3", "ssse3"),
        ("SSE4.1", "sse4_1"),
        ("SSE4.2", "sse4_2"),
        ("SSE4a", "sse4a"),
        ("POPCNT", "popcnt"),
        ("LZCNT", "abm"),
        ("MOVBE", "movbe"),
        ("BMI1", "bmi1"),
        ("BMI2", "bmi2"),
        ("ADX", "adx"),
        ("AES", "aes"),
        ("PCLMULQDQ", "pclmulqdq"),
        ("SHA", "sha_ni"),
        ("F16C", "f16c"),
        ("FMA", "fma"),
        ("AVX", "avx"),
        ("AVX2", "avx2"),
        ("VAES", "vaes"),
        ("VPCLMULQDQ", "vpclmulqdq"),
        ("GFNI", "gfni"),
        ("AVX-VNNI", "avx_vnni"),
        ("AVX-512", "avx512f"),
    ];
    const A64: &[(&str, &str)] = &[
        ("dotprod", "asimddp"),
        ("i8mm", "i8mm"),
        ("bf16", "bf16"),
        ("fp16", "asimdhp"),
        ("crc32", "crc32"),
        ("crypto", "aes"),
        ("sha512", "sha512"),
        ("sha3", "sha3"),
        ("LSE", "atomics"),
        ("RCPC", "lrcpc"),
        ("SVE", "sve"),
    ];
    let table = match machine {
        Machine::X86_64 => X86,
        Machine::Aarch64 => A64,
        _ => return None,
    };
    let named = table.iter().find(|(name, _)| *name == extension);
    named.map(|(_, flag)| *flag)
}

/// Whether a machine whose /proc/cpuinfo is this has an extension; none where it does not say.
pub fn has(cpuinfo: &str, machine: &Machine, extension: &str) -> Option<bool> {
    let flag = cpuinfo_name(machine, extension)?;
    let key = match machine {
        Machine::X86_64 => "flags",
        _ => "Features",
    };
    let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let (_, flags) = lines.find(|(name, _)| name.trim() == key)?;
    Some(flags.split_whitespace().any(|one| one == flag))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn special(name: &str, extension: &'static str, called_from: &[&str]) -> Special {
        Special {
            name: Some(name.to_owned()),
            address: name.bytes().map(u64::from).sum(),
            extensions: BTreeMap::from([(extension, 3)]),
            called_from: called_from.iter().map(|s| (*s).to_owned()).collect(),
            asks: false,
        }
    }

    fn found(checks: &[&str], special: Vec<Special>) -> Extensions {
        Extensions {
            machine: Machine::X86_64,
            functions: 10,
            special,
            checks: checks
                .iter()
                .map(|s| (*s).to_owned())
                .collect::<BTreeSet<_>>(),
        }
    }

    fn judged(found: &Extensions, flags: &str) -> Module {
        let cpuinfo = format!("processor\t: 0\nflags\t\t: fpu {flags}\n");
        judge(
            "/lib/m.so",
            found,
            &|name| name == "l2_distance",
            &|m, e| has(&cpuinfo, m, e),
        )
    }

    #[test]
    fn a_module_that_asks_chooses_at_run_time() {
        let module = judged(
            &found(&["ifunc"], vec![special("sum.avx2", "AVX2", &[])]),
            "sse4_2",
        );
        assert_eq!(module.choice, Choice::RunTime);
        assert_eq!(module.evidence, ["ifunc"]);
        assert!(module.lacking.is_empty(), "what is chosen is not needed");
        let none = judged(&found(&[], vec![]), "");
        assert!(none.uses.is_empty() && none.choice == Choice::RunTime);
    }

    #[test]
    fn what_nothing_asks_for_and_what_the_server_calls_is_unconditional() {
        let all = judged(&found(&[], vec![special("sum", "AVX2", &[])]), "avx avx2");
        assert_eq!((all.choice, all.lacking.len()), (Choice::Unconditional, 0));
        let lacks = judged(&found(&[], vec![special("sum", "AVX2", &[])]), "avx");
        assert_eq!(lacks.lacking, ["AVX2"]);
        // A check somewhere does not stand before a function that SQL calls.
        let entered = vec![
            special("l2_distance", "FMA", &[]),
            special("sum.avx512f", "AVX-512", &[]),
        ];
        let module = judged(&found(&["ifunc"], entered), "avx");
        assert_eq!(module.choice, Choice::Unconditional);
        assert_eq!(module.lacking, ["FMA"]);
        assert!(
            module
                .uses
                .iter()
                .any(|u| u.extension == "AVX-512" && !u.unchecked)
        );
        // Unless it asks itself.
        let mut asking = special("l2_distance", "FMA", &[]);
        asking.asks = true;
        let module = judged(&found(&["CPUID in l2_distance"], vec![asking]), "");
        assert_eq!(module.choice, Choice::RunTime);
    }

    #[test]
    fn a_call_past_the_check_is_unclear() {
        let calls = vec![special("sum_avx", "AVX", &["scan"])];
        let module = judged(&found(&["CPUID in init"], calls), "");
        assert_eq!(module.choice, Choice::Unclear);
        assert_eq!(module.evidence, ["sum_avx called from scan"]);
    }

    #[test]
    fn baseline_is_no_need_and_unknown_machines_lack_nothing() {
        let mut neon = found(&[], vec![special("sum", "NEON", &[])]);
        neon.machine = Machine::Aarch64;
        assert!(judged(&neon, "").uses.is_empty());
        assert_eq!(has("", &Machine::X86_64, "AVX2"), None);
        assert_eq!(
            has("Features\t: fp asimd atomics\n", &Machine::Aarch64, "LSE"),
            Some(true)
        );
        assert_eq!(
            has("Features\t: fp asimd\n", &Machine::Aarch64, "SVE"),
            Some(false)
        );
    }
}
