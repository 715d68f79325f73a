//! What a packager's CI may demand of a binary: `--require lse-or-outline,crc32c`.

use std::borrow::Cow;

use crate::cpu::{self, Cpu, Fit};
use crate::loading::Loads;
use crate::model::Technique;
use crate::model::{Binary, FileKind, Machine};

/// One demand.
#[derive(Clone, Debug)]
pub struct Requirement {
    /// As typed.
    pub id: Cow<'static, str>,
    /// What it means, for `--help` and for the message when it is unmet.
    pub meaning: &'static str,
    scope: Scope,
    check: Check,
}

/// How a demand is held against a file.
#[derive(Clone, Debug)]
enum Check {
    Rule(fn(&Binary) -> Result<(), String>),
    /// As the verdict on that CPU says.
    RunsOn(&'static Cpu),
}

/// Which files of a package a demand is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Those that hold atomics or call helpers.
    Atomics,
    /// PostgreSQL servers.
    Server,
    /// Every program and library.
    All,
}

/// All that can be demanded, besides `runs-on-CPU` for each CPU of the table.
pub const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        id: Cow::Borrowed("lse"),
        scope: Scope::Atomics,
        meaning: "aarch64: every atomic is an inline LSE instruction; no outline call, no exclusive loop",
        check: Check::Rule(|b| {
            arm(b)?;
            let a = &b.atomics;
            demand(a.inline_lse() > 0, "no inline LSE instruction")?;
            demand(
                a.outline_calls() == 0,
                format!("{} outline calls", a.outline_calls()),
            )?;
            demand(
                a.inline_llsc() == 0,
                format!("{} inline exclusives", a.inline_llsc()),
            )
        }),
    },
    Requirement {
        id: Cow::Borrowed("outline"),
        scope: Scope::Atomics,
        meaning: "aarch64: atomics go through outline helpers, and no exclusive loop is inline",
        check: Check::Rule(|b| {
            arm(b)?;
            demand(
                b.atomics.outline_calls() > 0,
                "no call of an outline helper",
            )?;
            demand(
                b.atomics.inline_llsc() == 0,
                format!("{} inline exclusives", b.atomics.inline_llsc()),
            )
        }),
    },
    Requirement {
        id: Cow::Borrowed("lse-or-outline"),
        scope: Scope::Atomics,
        meaning: "aarch64: LSE is used where the CPU has it, inline or through helpers; no inline exclusive loop",
        check: Check::Rule(|b| {
            arm(b)?;
            let a = &b.atomics;
            demand(
                a.inline_lse() > 0 || a.outline_calls() > 0 || a.checked_lse > 0,
                "neither inline LSE nor outline calls",
            )?;
            demand(
                a.inline_llsc() == 0,
                format!("{} inline exclusives", a.inline_llsc()),
            )
        }),
    },
    Requirement {
        id: Cow::Borrowed("no-llsc"),
        scope: Scope::Atomics,
        meaning: "no exclusive or reservation loop outside outline helpers",
        check: Check::Rule(|b| {
            readable(b)?;
            demand(
                b.atomics.inline_llsc() == 0,
                format!(
                    "{} inline exclusives or reservations",
                    b.atomics.inline_llsc()
                ),
            )
        }),
    },
    Requirement {
        id: Cow::Borrowed("crc32c"),
        scope: Scope::Server,
        meaning: "PostgreSQL: CRC-32C by an instruction, always or chosen at run time",
        check: Check::Rule(|b| {
            readable(b)?;
            let path = b
                .hot_paths
                .iter()
                .find(|p| p.id == "crc32c")
                .ok_or("not a PostgreSQL server")?;
            demand(
                matches!(
                    path.technique,
                    Technique::Instruction | Technique::RunTimeChosen
                ),
                path.detail.clone(),
            )
        }),
    },
    Requirement {
        id: Cow::Borrowed("spin-delay"),
        scope: Scope::Server,
        meaning: "PostgreSQL: waiting for a spinlock uses a delay instruction (isb, yield, pause)",
        check: Check::Rule(|b| {
            readable(b)?;
            let path = b
                .hot_paths
                .iter()
                .find(|p| p.id == "spin-delay")
                .ok_or("not a PostgreSQL server")?;
            demand(
                path.technique == Technique::Instruction,
                path.detail.clone(),
            )
        }),
    },
    Requirement {
        id: Cow::Borrowed("loads-16k"),
        scope: Scope::All,
        meaning: "loads and starts on a kernel with pages of 16 KiB, where the machine has them",
        check: Check::Rule(|b| loads(b, 16 << 10)),
    },
    Requirement {
        id: Cow::Borrowed("loads-64k"),
        scope: Scope::All,
        meaning: "loads and starts on a kernel with pages of 64 KiB, where the machine has them",
        check: Check::Rule(|b| loads(b, 64 << 10)),
    },
    Requirement {
        id: Cow::Borrowed("bti"),
        scope: Scope::All,
        meaning: "marked for branch targets (BTI on Arm, IBT on x86)",
        check: Check::Rule(|b| {
            readable(b)?;
            demand(
                b.hardening.branch_targets,
                "not marked in .note.gnu.property",
            )
        }),
    },
    Requirement {
        id: Cow::Borrowed("pac"),
        scope: Scope::All,
        meaning: "marked for return-address protection (PAC on Arm, shadow stack on x86)",
        check: Check::Rule(|b| {
            readable(b)?;
            demand(
                b.hardening.return_addresses,
                "not marked in .note.gnu.property",
            )
        }),
    },
    Requirement {
        id: Cow::Borrowed("full-relro"),
        scope: Scope::All,
        meaning: "read-only relocations with immediate binding",
        check: Check::Rule(|b| {
            readable(b)?;
            demand(
                b.hardening.relro == "full",
                format!("RELRO is {}", b.hardening.relro),
            )
        }),
    },
    Requirement {
        id: Cow::Borrowed("pie"),
        scope: Scope::All,
        meaning: "position-independent",
        check: Check::Rule(|b| {
            readable(b)?;
            demand(b.hardening.pie, "linked for a fixed address")
        }),
    },
];

impl Requirement {
    /// Finds one by its name.
    pub fn find(id: &str) -> Option<Self> {
        let fixed = REQUIREMENTS.iter().find(|r| r.id == id);
        fixed.cloned().or_else(|| {
            let cpu = cpu::find(id.strip_prefix("runs-on-")?)?;
            Some(Self {
                id: Cow::Owned(id.to_owned()),
                scope: Scope::All,
                meaning: "for this machine, and no LSE, POWER9 memory-atomic or Zacas instruction that this CPU lacks \
                          runs without a check",
                check: Check::RunsOn(cpu),
            })
        })
    }

    /// Whether it says anything about this file: a demand on atomics passes over files without any, but for
    /// `runs-on-CPU`, which is about every program and library.
    pub fn concerns(&self, binary: &Binary) -> bool {
        match self.scope {
            Scope::Atomics => {
                let atomics = &binary.atomics;
                let unknown = atomics.outside_count > 0 && binary.unknown_atomics().is_some();
                atomics.total_with_calls() > 0 || unknown
            }
            Scope::Server => binary.postgres.is_some(),
            Scope::All => binary.kind != FileKind::DebugInfo,
        }
    }

    /// Holds a binary against it.
    ///
    /// # Errors
    /// Why it is not met.
    pub fn check(&self, binary: &Binary) -> Result<(), String> {
        match self.check {
            Check::Rule(check) => {
                check(binary)?;
                match binary.unknown_atomics() {
                    Some(why) if self.scope == Scope::Atomics => Err(why),
                    _ => Ok(()),
                }
            }
            Check::RunsOn(cpu) => match cpu::fit(binary, &cpu.into()) {
                Fit::Runs => Ok(()),
                Fit::WrongMachine(why) | Fit::Illegal(why) | Fit::Unknown(why) => Err(why),
            },
        }
    }
}

/// Whether a file loads on a kernel with such pages; a machine without them asks for nothing.
fn loads(binary: &Binary, page_bytes: u64) -> Result<(), String> {
    readable(binary)?;
    match binary.loading.on(page_bytes) {
        Some(kernel) if kernel.loads != Loads::Yes => {
            Err(kernel.why.clone().unwrap_or_else(|| "not known".into()))
        }
        _ => Ok(()),
    }
}

fn demand(met: bool, why: impl Into<String>) -> Result<(), String> {
    if met { Ok(()) } else { Err(why.into()) }
}

fn arm(binary: &Binary) -> Result<(), String> {
    demand(
        binary.machine == Machine::Aarch64,
        format!("the file is for {}", binary.machine.name()),
    )
}

fn readable(binary: &Binary) -> Result<(), String> {
    match &binary.machine {
        Machine::Other(name) => Err(format!("instructions of {name} are not read")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without_atomics(machine: &str, kind: &str) -> Binary {
        let document = serde_json::json!({
            "path": "x", "machine": machine, "kind": kind, "size_bytes": 1000,
            "build": {"compilers": [], "stripped": true, "has_dwarf": false},
            "hardening": {
                "pie": true, "relro": "full", "executable_stack": false, "branch_targets": false,
                "return_addresses": false, "stack_protector": false, "fortified": false,
            },
            "bounds": {"functions": 1, "named": 1, "by_source": {}, "covered_bytes": 1, "text_bytes": 1},
            "atomics": {"counts": {}, "functions": []},
            "hints": [],
        });
        serde_json::from_value(document).expect("a binary")
    }

    #[test]
    fn whether_a_file_runs_is_asked_of_one_without_atomics_too() {
        let requirement = Requirement::find("runs-on-raspberry-pi-4").unwrap();
        let of = |machine: &str, kind: &str| {
            let binary = without_atomics(machine, kind);
            let concerns = requirement.concerns(&binary);
            concerns.then(|| requirement.check(&binary))
        };
        let why = "the file is for x86-64".to_owned();
        assert_eq!(of("x86-64", "shared-library"), Some(Err(why)));
        assert_eq!(of("aarch64", "pie-executable"), Some(Ok(())));
        assert_eq!(of("aarch64", "debug-info"), None);
        let atomics = Requirement::find("lse").unwrap();
        assert!(!atomics.concerns(&without_atomics("aarch64", "shared-library")));
    }
}
