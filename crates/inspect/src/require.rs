//! What a packager's CI may demand of a binary: `--require lse-or-outline,crc32c`.

use crate::model::Technique;
use crate::model::{Binary, FileKind, Machine};

/// One demand.
#[derive(Clone, Copy, Debug)]
pub struct Requirement {
    /// As typed.
    pub id: &'static str,
    /// What it means, for `--help` and for the message when it is unmet.
    pub meaning: &'static str,
    scope: Scope,
    check: fn(&Binary) -> Result<(), String>,
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

/// All that can be demanded.
pub const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        id: "lse",
        scope: Scope::Atomics,
        meaning: "aarch64: every atomic is an inline LSE instruction; no outline call, no exclusive loop",
        check: |b| {
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
        },
    },
    Requirement {
        id: "outline",
        scope: Scope::Atomics,
        meaning: "aarch64: atomics go through outline helpers, and no exclusive loop is inline",
        check: |b| {
            arm(b)?;
            demand(
                b.atomics.outline_calls() > 0,
                "no call of an outline helper",
            )?;
            demand(
                b.atomics.inline_llsc() == 0,
                format!("{} inline exclusives", b.atomics.inline_llsc()),
            )
        },
    },
    Requirement {
        id: "lse-or-outline",
        scope: Scope::Atomics,
        meaning: "aarch64: LSE is used where the CPU has it, inline or through helpers; no inline exclusive loop",
        check: |b| {
            arm(b)?;
            let a = &b.atomics;
            demand(
                a.inline_lse() > 0 || a.outline_calls() > 0,
                "neither inline LSE nor outline calls",
            )?;
            demand(
                a.inline_llsc() == 0,
                format!("{} inline exclusives", a.inline_llsc()),
            )
        },
    },
    Requirement {
        id: "no-llsc",
        scope: Scope::Atomics,
        meaning: "no exclusive or reservation loop outside outline helpers",
        check: |b| {
            readable(b)?;
            demand(
                b.atomics.inline_llsc() == 0,
                format!(
                    "{} inline exclusives or reservations",
                    b.atomics.inline_llsc()
                ),
            )
        },
    },
    Requirement {
        id: "runs-on-armv8.0",
        scope: Scope::Atomics,
        meaning: "aarch64: no LSE instruction outside outline helpers",
        check: |b| {
            arm(b)?;
            demand(
                b.atomics.inline_lse() == 0,
                format!("{} inline LSE instructions", b.atomics.inline_lse()),
            )
        },
    },
    Requirement {
        id: "crc32c",
        scope: Scope::Server,
        meaning: "PostgreSQL: CRC-32C by an instruction, always or chosen at run time",
        check: |b| {
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
        },
    },
    Requirement {
        id: "spin-delay",
        scope: Scope::Server,
        meaning: "PostgreSQL: waiting for a spinlock uses a delay instruction (isb, yield, pause)",
        check: |b| {
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
        },
    },
    Requirement {
        id: "bti",
        scope: Scope::All,
        meaning: "marked for branch targets (BTI on Arm, IBT on x86)",
        check: |b| {
            readable(b)?;
            demand(
                b.hardening.branch_targets,
                "not marked in .note.gnu.property",
            )
        },
    },
    Requirement {
        id: "pac",
        scope: Scope::All,
        meaning: "marked for return-address protection (PAC on Arm, shadow stack on x86)",
        check: |b| {
            readable(b)?;
            demand(
                b.hardening.return_addresses,
                "not marked in .note.gnu.property",
            )
        },
    },
    Requirement {
        id: "full-relro",
        scope: Scope::All,
        meaning: "read-only relocations with immediate binding",
        check: |b| {
            readable(b)?;
            demand(
                b.hardening.relro == "full",
                format!("RELRO is {}", b.hardening.relro),
            )
        },
    },
    Requirement {
        id: "pie",
        scope: Scope::All,
        meaning: "position-independent",
        check: |b| {
            readable(b)?;
            demand(b.hardening.pie, "linked for a fixed address")
        },
    },
];

impl Requirement {
    /// Finds one by its name.
    pub fn find(id: &str) -> Option<&'static Self> {
        REQUIREMENTS.iter().find(|r| r.id == id)
    }

    /// Whether it says anything about this file: a demand on atomics passes over files without any.
    pub fn concerns(&self, binary: &Binary) -> bool {
        match self.scope {
            Scope::Atomics => binary.atomics.total_with_calls() > 0,
            Scope::Server => binary.postgres.is_some(),
            Scope::All => binary.kind != FileKind::DebugInfo,
        }
    }

    /// Holds a binary against it.
    ///
    /// # Errors
    /// Why it is not met.
    pub fn check(&self, binary: &Binary) -> Result<(), String> {
        (self.check)(binary)
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
