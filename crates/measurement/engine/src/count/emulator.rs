//! A server of another processor, run by qemu's user emulator with a plugin that counts what each of its
//! processes executes.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use pgassay_model::Failure;
use pgassay_sys::qemu::{self, AARCH64, Lacking, PPC64LE, Processor};

use super::callgrind::Profile;

/// The plugin; it is compiled where it is needed.
const PLUGIN: &str = include_str!("emulator.c");
/// Begin of the names of the files that it writes, each with the process' number.
pub const WRITTEN: &str = "emulator.";

/// The processors whose instructions the plugin tells apart.
const MACHINES: [Processor; 2] = [AARCH64, PPC64LE];

/// The processor that a server is emulated on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emulator {
    machine: Processor,
    /// The model, as `qemu-… -cpu help` lists them; the emulator's own choice where none.
    cpu: Option<String>,
    /// Where the server's libraries are; the cross-compilers' where none is named.
    pub sysroot: Option<PathBuf>,
}

impl FromStr for Emulator {
    type Err = String;

    /// `aarch64`, `aarch64-linux-gnu`, or with a model, `aarch64:cortex-a53`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (host, cpu) = match text.split_once(':') {
            Some((host, cpu)) => (host, Some(cpu)),
            None => (text, None),
        };
        let name = host.split('-').next().unwrap_or_default();
        let mut known = MACHINES.into_iter();
        let Some(machine) = known.find(|machine| machine.is_called(name)) else {
            let names = MACHINES.map(|machine| machine.name);
            return Err(format!(
                "`{host}` is no processor whose instructions are counted under emulation; there are {}",
                names.join(" and ")
            ));
        };
        let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.,=".contains(c);
        if let Some(cpu) = cpu
            && (cpu.is_empty() || cpu.starts_with('-') || !cpu.chars().all(is_word))
        {
            return Err(format!(
                "`{cpu}` is no model of a processor, such as cortex-a53 or max"
            ));
        }
        Ok(Self {
            machine,
            cpu: cpu.map(str::to_owned),
            sysroot: None,
        })
    }
}

impl Display for Emulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cpu {
            Some(cpu) => write!(f, "{}:{cpu}", self.machine.name),
            None => f.write_str(self.machine.name),
        }
    }
}

/// The words that programs are started through.
#[derive(Debug, Clone)]
pub struct Through {
    /// qemu, with its processor and where it looks for libraries.
    pub words: Vec<String>,
    /// What makes it count, beside them.
    pub counting: Vec<String>,
}

impl Emulator {
    /// The processor, as `uname -m` names it.
    pub fn machine(&self) -> &'static str {
        self.machine.name
    }

    /// The words that this server's programs are started through, the plugin compiled into `dir`, its counts written
    /// into `out`.
    ///
    /// # Errors
    /// Where the emulator, a compiler or the processor's libraries are not here.
    pub fn prepare(&self, dir: &Path, out: &Path) -> anyhow::Result<Through> {
        let qemu = self.machine.find().map_err(|lacking| {
            let why = format!(
                "servers for {} are counted in qemu's user emulator, and",
                self.machine.name
            );
            failure(&why, lacking)
        })?;
        let sysroot = match &self.sysroot {
            Some(sysroot) => sysroot.clone(),
            None => self.machine.cross_root(),
        };
        if !sysroot.join("lib").is_dir() && !sysroot.join("lib64").is_dir() {
            bail!(
                Failure::target(format!(
                    "{} holds no libraries for {}",
                    sysroot.display(),
                    self.machine.name
                ))
                .with_remedy(format!(
                    "Debian and Ubuntu: apt-get install {}; or name the root of a system for it with --sysroot DIR",
                    self.machine.cross_package()
                ))
            );
        }
        let plugin = compile(dir)?;
        let text = |path: &Path| -> anyhow::Result<String> {
            Ok(path.to_str().context("a path is not UTF-8")?.to_owned())
        };
        let mut words = vec![text(&qemu)?];
        if let Some(cpu) = &self.cpu {
            words.extend(["-cpu".to_owned(), cpu.clone()]);
        }
        words.extend(["-L".to_owned(), text(&sysroot)?]);
        // In qemu's lists of options a comma is doubled.
        let [plugin, out] = [text(&plugin)?, text(out)?].map(|path| path.replace(',', ",,"));
        Ok(Through {
            words,
            counting: vec!["-plugin".to_owned(), format!("{plugin},out={out}")],
        })
    }
}

/// Compiles the plugin into `dir`.
pub(super) fn compile(dir: &Path) -> Result<PathBuf, Failure> {
    qemu::compile(dir, "emulator", PLUGIN)
        .map_err(|lacking| failure("the emulator's counter is compiled here:", lacking))
}

fn failure(why: &str, lacking: Lacking) -> Failure {
    Failure {
        remedy: lacking.remedy.map(str::to_owned),
        ..Failure::target(format!("{why} {}", lacking.what))
    }
}

/// What a process wrote at its end; none where it is not that.
pub fn counts(text: &str) -> Option<Profile> {
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (instructions, exclusive, single) = (next()?, next()?, next()?);
    Some(Profile {
        instructions,
        exclusive: Some(exclusive),
        single: Some(single),
        ..Profile::default()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    #[test]
    fn processors_and_models_are_named_in_several_ways() {
        let of = |text: &str| text.parse::<Emulator>();
        assert_eq!(of("aarch64-linux-gnu").unwrap().to_string(), "aarch64");
        assert_eq!(
            of("arm64:cortex-a53").unwrap().to_string(),
            "aarch64:cortex-a53"
        );
        assert_eq!(of("ppc64el:power9").unwrap().machine(), "ppc64le");
        assert_eq!(
            of("aarch64:max,sve=off").unwrap().to_string(),
            "aarch64:max,sve=off"
        );
        for wrong in [
            "",
            "x86_64",
            "aarch64:",
            "aarch64:-plugin",
            "aarch64:a b",
            "riscv64",
        ] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        assert!(of("mips").unwrap_err().contains("aarch64 and ppc64le"));
    }

    #[test]
    fn the_counts_of_a_process_are_three_numbers() {
        let profile = counts("43000000 12 34\n").unwrap();
        assert_eq!(
            (profile.instructions, profile.exclusive, profile.single),
            (43_000_000, Some(12), Some(34))
        );
        for wrong in ["", "1 2", "1 x 3", "-1 2 3"] {
            assert_eq!(counts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_plugin_compiles_without_a_warning() {
        let dir = std::env::temp_dir().join(format!("pgassay-emulator-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let plugin = compile(&dir).unwrap();
        assert!(plugin.is_file());
        let checked = Command::new("cc")
            .args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "emulator.c"])
            .current_dir(&dir)
            .output()
            .unwrap();
        assert!(checked.status.success(), "{checked:?}");
        fs::remove_dir_all(&dir).unwrap();
    }
}
