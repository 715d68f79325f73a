//! Variants as typed: `--variant 'NAME [PRESET…] [KEY=VALUE…]'`.
//!
//! One argument holds one variant, its words split as a shell would, so that
//! any number of variants stand on one command line and none needs a file.

use std::path::PathBuf;

use pgassay_inspect::Machine;
use pgassay_inspect::cpu;

use pgassay_model::Failure;

/// What a preset adds.
#[derive(Debug, Clone)]
pub struct Preset {
    /// As typed.
    pub name: &'static str,
    /// Compiler flags, appended to the default.
    pub flags: &'static [&'static str],
    /// The instruction set that the flags are for; `None` for every one.
    machine: Option<Machine>,
    /// Builds with the server's assertions.
    pub assertions: bool,
    /// Only for a server that runs on the machine that builds it.
    pub native: bool,
    /// What it is for.
    pub meaning: &'static str,
}

const fn preset(
    name: &'static str,
    flags: &'static [&'static str],
    machine: Option<Machine>,
    meaning: &'static str,
) -> Preset {
    Preset {
        name,
        flags,
        machine,
        assertions: false,
        native: false,
        meaning,
    }
}

/// The presets; each CPU of inspect's table is one too (`neoverse-n1`, `power9`).
pub const PRESETS: &[Preset] = &[
    preset("plain", &[], None, "the source's own default, -O2"),
    preset(
        "llsc",
        &["-march=armv8-a", "-mno-outline-atomics"],
        Some(Machine::Aarch64),
        "aarch64: exclusive loops only",
    ),
    preset(
        "outline",
        &["-march=armv8-a", "-moutline-atomics"],
        Some(Machine::Aarch64),
        "aarch64: helpers that choose LSE at run time",
    ),
    preset(
        "lse",
        &["-march=armv8.2-a"],
        Some(Machine::Aarch64),
        "aarch64: LSE inline; needs an LSE CPU",
    ),
    preset(
        "x86-64-v3",
        &["-march=x86-64-v3"],
        Some(Machine::X86_64),
        "x86-64 with AVX2, BMI, FMA (2013 and later)",
    ),
    preset("O0", &["-O0"], None, "no optimization"),
    preset("O2", &[], None, "the source's own default, by its name"),
    preset("O3", &["-O3"], None, "more optimization"),
    Preset {
        name: "native",
        flags: &["-march=native"],
        machine: None,
        assertions: false,
        native: true,
        meaning: "for the CPU that builds it",
    },
    Preset {
        name: "assert",
        flags: &[],
        machine: None,
        assertions: true,
        native: false,
        meaning: "with the server's assertions",
    },
];

/// One variant, as asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Variant {
    /// Its name, a part of the build's.
    pub name: String,
    /// Presets that it is made of, in order.
    pub presets: Vec<String>,
    /// Compiler; `None` for the default.
    pub cc: Option<String>,
    /// Compiler flags, presets' first.
    pub cflags: Vec<String>,
    /// Linker flags.
    pub ldflags: Vec<String>,
    /// Options for configure or meson, as given.
    pub options: Vec<String>,
    /// Patch files, in order.
    pub patches: Vec<PathBuf>,
    /// The server's assertions.
    pub assertions: bool,
    /// The flags are all the flags there are: no -O2 before them.
    pub exact: bool,
}

/// The variant keys, for messages.
const KEYS: &str = "cc=, cflags=, ldflags=, options=, patch=";

impl Variant {
    /// Parses one `--variant`, for a server on `machine`; `cross` where that is
    /// another machine than this one.
    ///
    /// # Errors
    /// With what is wrong in it, as the user's mistake.
    pub fn parse(text: &str, machine: &Machine, cross: bool) -> Result<Self, Failure> {
        let wrong = |what: String| Failure::usage(format!("--variant '{text}': {what}"));
        let words = shlex::split(text).ok_or_else(|| wrong("a quote is not closed".into()))?;
        let Some((name, rest)) = words.split_first() else {
            return Err(wrong(
                "a name is wanted, such as O3 or 'mine cflags=-O3'".into(),
            ));
        };
        check_name(name).map_err(&wrong)?;
        let mut variant = Self {
            name: name.clone(),
            ..Self::default()
        };
        let mut own_flags = Vec::new();
        let mut bare = Vec::new();
        for word in rest {
            let Some((key, value)) = word
                .split_once('=')
                .filter(|(key, _)| !key.starts_with('-'))
            else {
                bare.push(word.as_str());
                continue;
            };
            let list = || {
                shlex::split(value).ok_or_else(|| wrong(format!("{key}=: a quote is not closed")))
            };
            match key {
                "cc" => variant.cc = Some(value.to_owned()),
                "cflags" => own_flags.extend(list()?),
                "ldflags" => variant.ldflags.extend(list()?),
                "options" => variant.options.extend(list()?),
                "patch" => variant.patches.push(value.into()),
                _ => {
                    return Err(
                        wrong(format!("'{key}=' is no key")).with_remedy(format!("one of {KEYS}"))
                    );
                }
            }
        }
        // A variant that is only a name is the preset of that name.
        let is_known = find(name).is_some() || cpu::find(name).is_some();
        if is_known && !bare.contains(&name.as_str()) {
            bare.insert(0, name);
        }
        if bare.is_empty() && rest.is_empty() {
            return Err(wrong(format!(
                "'{name}' is no preset, and nothing says what it is"
            ))
            .with_remedy(format!(
                "pgassay build --presets lists them; else add {KEYS}"
            )));
        }
        for word in bare {
            variant.add_preset(word, machine, cross).map_err(&wrong)?;
        }
        variant.cflags.extend(own_flags);
        Ok(variant)
    }

    /// Adds what a preset, or a CPU's name, stands for.
    fn add_preset(&mut self, name: &str, machine: &Machine, cross: bool) -> Result<(), String> {
        if let Some(preset) = find(name) {
            if let Some(wanted) = preset.machine.as_ref().filter(|wanted| *wanted != machine) {
                return Err(elsewhere(name, wanted, machine));
            }
            if preset.native && cross {
                return Err(format!(
                    "{name} is for the CPU that builds; a cross-build can't know it"
                ));
            }
            // GCC's manual: on aarch64 and POWER -mcpu names the CPU.
            let flags: &[&str] = match (preset.native, machine) {
                (true, Machine::Aarch64 | Machine::Ppc64le) => &["-mcpu=native"],
                _ => preset.flags,
            };
            self.cflags
                .extend(flags.iter().map(|flag| (*flag).to_owned()));
            self.assertions |= preset.assertions;
            self.presets.push(preset.name.to_owned());
            return Ok(());
        }
        let Some(cpu) = cpu::find(name) else {
            return Err(format!(
                "'{name}' is neither a preset nor a CPU nor {KEYS}; \
                 pgassay build --presets lists them"
            ));
        };
        if cpu.machine != *machine {
            return Err(elsewhere(name, &cpu.machine, machine));
        }
        self.cflags.push(cpu_flag(cpu));
        self.presets.push(cpu.id.to_owned());
        Ok(())
    }
}

/// A preset by its name.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// The flag that compiles for a CPU of inspect's table and for none below it.
pub fn cpu_flag(cpu: &cpu::Cpu) -> String {
    // The generic Arm entries are architectures, which -mcpu does not take.
    let by_cpu = match cpu.machine {
        Machine::Aarch64 => !cpu.flag.starts_with("armv"),
        Machine::Ppc64le => true,
        _ => false,
    };
    let option = if by_cpu { "-mcpu" } else { "-march" };
    let value = if cpu.flag == "armv8.0-a" {
        "armv8-a"
    } else {
        cpu.flag
    };
    format!("{option}={value}")
}

fn elsewhere(name: &str, wanted: &Machine, machine: &Machine) -> String {
    let host = match wanted {
        Machine::Aarch64 => "aarch64-linux-gnu",
        Machine::Ppc64le => "powerpc64le-linux-gnu",
        Machine::Riscv64 => "riscv64-linux-gnu",
        Machine::S390x => "s390x-linux-gnu",
        _ => "x86_64-linux-gnu",
    };
    format!(
        "{name} is for {}, and this build is for {}; add --host {host}",
        wanted.name(),
        machine.name()
    )
}

/// Whether a text can be a part of a build's name, which is a directory's.
pub fn check_name(name: &str) -> Result<(), String> {
    let fine = name.len() <= 60
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c));
    if fine {
        return Ok(());
    }
    Err(format!(
        "'{name}' can't name a build: letters, digits and . _ + -, at most 60"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Variant, String> {
        Variant::parse(text, &Machine::Aarch64, true).map_err(|e| e.to_string())
    }

    #[test]
    fn a_name_alone_is_the_preset() {
        let lse = parse("lse").unwrap();
        assert_eq!((lse.name.as_str(), lse.cflags.len()), ("lse", 1));
        let n1 = parse("graviton2").unwrap();
        assert_eq!(n1.cflags, ["-mcpu=neoverse-n1"]);
        assert_eq!(n1.presets, ["neoverse-n1"]);
        assert_eq!(parse("armv8.0-a").unwrap().cflags, ["-march=armv8-a"]);
        assert!(parse("assert").unwrap().assertions);
    }

    #[test]
    fn own_flags_come_after_the_presets() {
        let v = parse("mine outline cc=gcc-12 cflags='-O3 -fno-plt' options='--with-icu --x=\"a b\"' patch=a.patch patch=b.patch")
            .unwrap();
        assert_eq!(
            v.cflags,
            ["-march=armv8-a", "-moutline-atomics", "-O3", "-fno-plt"]
        );
        assert_eq!(v.options, ["--with-icu", "--x=a b"]);
        assert_eq!(v.patches.len(), 2);
        assert_eq!(v.cc.as_deref(), Some("gcc-12"));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, wanted) in [
            ("", "a name is wanted"),
            ("../x lse", "can't name"),
            ("mine", "no preset"),
            ("mine foo", "'foo' is neither"),
            ("mine flags=-O3", "'flags=' is no key"),
            ("mine 'x", "quote"),
            ("x86-64-v3", "--host x86_64-linux-gnu"),
            ("power9", "--host powerpc64le-linux-gnu"),
            ("native", "cross-build"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
        let native = Variant::parse("native", &Machine::X86_64, false).unwrap();
        assert_eq!(native.cflags, ["-march=native"]);
    }

    #[test]
    fn every_cpu_of_the_table_is_a_preset_of_its_machine() {
        for cpu in cpu::CPUS {
            let variant = Variant::parse(cpu.id, &cpu.machine, true).unwrap();
            assert_eq!(variant.cflags.len(), 1, "{}", cpu.id);
        }
    }
}
