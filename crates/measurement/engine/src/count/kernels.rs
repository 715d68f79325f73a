//! What the kernels execute on another processor: their program is compiled for it where it is needed, from
//! the same text, and runs under qemu's user emulator with the plugin that counts.
//!
//! A count is the difference of two lengths, so that starting and ending are not in it, less that of a loop
//! around nothing. One thread: what others would make of exclusive pairs, an emulator does not show.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pgassay_kernels::source;
use pgassay_model::Failure;
use pgassay_model::kernel_counts::{CountedForm, EmulatedBuild};
use pgassay_model::primitives::EmulatedPlan;
use pgassay_sys::programs::in_path;
use pgassay_sys::qemu::{AARCH64, Lacking, PPC64LE, Processor, X86_64};
use pgassay_sys::stop::Stop;

use super::callgrind::Profile;
use super::emulator;

/// Operations of the shorter and the longer length.
const LENGTHS: [u64; 2] = [1_000, 21_000];
/// What the program calls its loop around nothing.
const NOTHING: &str = "nothing";

/// A way of compiling for a processor, and the model that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Build {
    processor: Processor,
    level: &'static str,
    cpu: &'static str,
    flags: &'static [&'static str],
}

/// The builds of each processor.
const BUILDS: &[Build] = &[
    Build {
        processor: AARCH64,
        level: "ARMv8.0",
        // The first without LSE that servers had.
        cpu: "cortex-a72",
        flags: &["-C", "target-feature=-outline-atomics"],
    },
    Build {
        processor: AARCH64,
        level: "ARMv8.1",
        cpu: "max",
        flags: &["-C", "target-feature=+lse"],
    },
    Build {
        processor: PPC64LE,
        level: "POWER8",
        cpu: "power8",
        flags: &[],
    },
    Build {
        processor: X86_64,
        level: "x86-64",
        cpu: "max",
        flags: &[],
    },
];

/// The builds for the processors of that name, however it is written.
///
/// # Errors
/// If none is called so.
pub fn builds(name: &str) -> Result<Vec<Build>, Failure> {
    let found: Vec<Build> = BUILDS
        .iter()
        .filter(|build| build.processor.is_called(name))
        .copied()
        .collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(Failure::usage(format!(
            "`{name}` is no processor on which kernels can be counted"
        ))
        .with_remedy("one of aarch64, ppc64le, x86_64")),
    }
}

/// The program of a build, and what it is run through.
pub struct Program {
    build: Build,
    program: PathBuf,
    through: Vec<String>,
    out: PathBuf,
    compiler: String,
    emulator: String,
}

impl Build {
    /// `aarch64, ARMv8.0`.
    pub fn title(&self) -> String {
        format!("{}, {}", self.processor.name, self.level)
    }

    /// The processor, as `uname -m` names it.
    pub fn processor(&self) -> &'static str {
        self.processor.name
    }

    /// Looks whether all that it needs is here: the emulator, the compiler, a linker.
    ///
    /// # Errors
    /// What is not here.
    pub fn look(self) -> Result<(), Failure> {
        self.emulator()?;
        self.compiler().map(drop)
    }

    fn emulator(self) -> Result<PathBuf, Failure> {
        self.processor.find().map_err(|lacking: Lacking| Failure {
            remedy: lacking.remedy.map(str::to_owned),
            ..Failure::target(format!("{}: {}", self.title(), lacking.what))
        })
    }

    /// Compiles the program and the plugin into an empty directory.
    ///
    /// # Errors
    /// Where the emulator, a compiler or the processor's libraries are not here.
    pub fn compile(self, dir: &Path) -> Result<Program, Failure> {
        let processor = self.processor;
        let broken = |error: std::io::Error| {
            Failure::target(format!("the kernels can't be compiled here: {error}"))
        };
        let qemu = self.emulator()?;
        let compiler = self.compiler()?;
        let text = dir.join("kernels");
        for (path, part) in source::parts() {
            let path = text.join(path);
            fs::create_dir_all(path.parent().unwrap_or(&text)).map_err(broken)?;
            fs::write(path, part).map_err(broken)?;
        }
        let program = dir.join("kernels.program");
        let out = dir.join("counts");
        fs::create_dir_all(&out).map_err(broken)?;
        let mut rustc = pgassay_sys::programs::command(&compiler);
        rustc.args([
            "--edition",
            "2024",
            "-C",
            "opt-level=3",
            "-C",
            "codegen-units=1",
        ]);
        rustc.args(["-C", "panic=abort"]).args(self.flags);
        if !processor.is_here() {
            rustc.args(["--target", &processor.rust_target()]);
            rustc.args(["-C", &format!("linker={}", processor.cross_compiler())]);
        }
        rustc.arg("-o").arg(&program).arg(text.join(source::ROOT));
        let compiled = rustc.output().map_err(broken)?;
        if !compiled.status.success() {
            return Err(Failure::target(format!(
                "{}: {} can't compile the kernels: {}",
                self.title(),
                compiler.display(),
                first_error(&compiled)
            ))
            .with_remedy("Rust 1.95 or newer; for POWER, no older one knows its assembly"));
        }
        let plugin = emulator::compile(dir)?;
        let root = match processor.is_here() {
            true => PathBuf::from("/"),
            false => processor.cross_root(),
        };
        // In qemu's lists of options a comma is doubled.
        let option = |path: &Path| path.to_string_lossy().replace(',', ",,");
        Ok(Program {
            build: self,
            program,
            through: vec![
                qemu.to_string_lossy().into_owned(),
                "-cpu".to_owned(),
                self.cpu.to_owned(),
                "-L".to_owned(),
                root.to_string_lossy().into_owned(),
                "-plugin".to_owned(),
                format!("{},out={}", option(&plugin), option(&out)),
            ],
            compiler: first_line(pgassay_sys::programs::command(&compiler).arg("--version")),
            emulator: first_line(pgassay_sys::programs::command(&qemu).arg("--version")),
            out,
        })
    }

    /// Rust's compiler, if it has the processor's standard library; for another processor a linker, too.
    fn compiler(self) -> Result<PathBuf, Failure> {
        let processor = self.processor;
        let needs = format!(
            "{}: the kernels are compiled for it here, and",
            self.title()
        );
        let rustc = in_path("rustc").ok_or_else(|| {
            Failure::target(format!("{needs} there is no rustc"))
                .with_remedy("install Rust 1.95 or newer, such as by rustup")
        })?;
        if processor.is_here() {
            return Ok(rustc);
        }
        let target = processor.rust_target();
        let libraries = first_line(pgassay_sys::programs::command(&rustc).args([
            "--print",
            "target-libdir",
            "--target",
            &target,
        ]));
        if !Path::new(&libraries).is_dir() {
            return Err(Failure::target(format!(
                "{needs} {} has no standard library for {target}",
                rustc.display()
            ))
            .with_remedy(format!("rustup target add {target}")));
        }
        let linker = processor.cross_compiler();
        match in_path(&linker) {
            Some(_) => Ok(rustc),
            None => Err(
                Failure::target(format!("{needs} {linker} is not here")).with_remedy(format!(
                    "Debian and Ubuntu: apt-get install {}",
                    processor.cross_compiler_package()
                )),
            ),
        }
    }
}

impl Program {
    /// Counts what was asked for of its forms; `said` hears of each before it is counted.
    ///
    /// # Errors
    /// Where the program fails under the emulator, or it was stopped.
    pub fn count(
        &self,
        plan: &EmulatedPlan,
        stop: &Stop,
        said: &mut dyn FnMut(&str),
    ) -> Result<EmulatedBuild, Failure> {
        let listed = self.run(&["list"])?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let around = self.difference(NOTHING)?;
        let operations = LENGTHS[1] - LENGTHS[0];
        let per_operation =
            |count: u64, around: u64| (count as f64 - around as f64) / operations as f64;
        let mut forms = Vec::new();
        for name in listed.lines().filter(|name| plan.has(name)) {
            if stop.asked() {
                return Err(Failure::interrupted());
            }
            said(name);
            let (primitive, variant) = name.split_once(':').unwrap_or((name, ""));
            let counted = self.difference(name)?;
            forms.push(CountedForm {
                primitive: primitive.to_owned(),
                variant: variant.to_owned(),
                instructions_per_operation: per_operation(counted[0], around[0]),
                exclusive_pairs_per_operation: per_operation(counted[1], around[1]),
                single_atomics_per_operation: per_operation(counted[2], around[2]),
            });
        }
        Ok(EmulatedBuild {
            processor: self.build.processor.name.to_owned(),
            level: self.build.level.to_owned(),
            cpu: self.build.cpu.to_owned(),
            compiler: self.compiler.clone(),
            flags: self
                .build
                .flags
                .iter()
                .map(|&flag| flag.to_owned())
                .collect(),
            emulator: self.emulator.clone(),
            operations,
            forms,
        })
    }

    /// Instructions, exclusive pairs and single atomics of the longer run less the shorter.
    fn difference(&self, form: &str) -> Result<[u64; 3], Failure> {
        let [short, long] = LENGTHS.map(|operations| {
            // As many digits in both: what a start takes depends on how long its words are.
            let profile = self.profile(&["count", form, &format!("{operations:05}")])?;
            Ok([
                profile.instructions,
                profile.exclusive.unwrap_or_default(),
                profile.single.unwrap_or_default(),
            ])
        });
        let (short, long): ([u64; 3], [u64; 3]) = (short?, long?);
        Ok([0, 1, 2].map(|of| long[of].saturating_sub(short[of])))
    }

    /// What one run of the program executed.
    fn profile(&self, words: &[&str]) -> Result<Profile, Failure> {
        self.run(words)?;
        let broken = || {
            Failure::target(format!(
                "{}: the emulator wrote no counts",
                self.build.title()
            ))
            .with_remedy(
                "qemu's user emulator from 4.2 to 8.2, the dynamic one (Debian 12: qemu-user)",
            )
        };
        let mut written = fs::read_dir(&self.out).map_err(|_| broken())?.flatten();
        let text = written.next().map(|entry| fs::read_to_string(entry.path()));
        let found = text
            .and_then(Result::ok)
            .and_then(|text| emulator::counts(&text));
        found.ok_or_else(broken)
    }

    /// Runs the program under the emulator, which leaves its counts alone in their directory.
    fn run(&self, words: &[&str]) -> Result<Output, Failure> {
        fs::remove_dir_all(&self.out).ok();
        fs::create_dir(&self.out).ok();
        let (qemu, options) = self.through.split_first().expect("the emulator");
        let output = pgassay_sys::programs::command(qemu)
            .args(options)
            .arg(&self.program)
            .args(words)
            .output();
        let failed = |what: String| {
            Failure::target(format!(
                "{}: the kernels fail under {qemu}: {what}",
                self.build.title()
            ))
        };
        match output {
            Ok(output) if output.status.success() => Ok(output),
            Ok(output) => Err(failed(format!(
                "{} {}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim_end()
            ))),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

fn first_line(command: &mut Command) -> String {
    let output = command.output().map(|output| output.stdout);
    let text = output.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or_default().to_owned()
}

/// What the compiler says first.
fn first_error(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let error = text.lines().find(|line| line.starts_with("error"));
    error.unwrap_or("it says nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_have_their_builds() {
        let levels = |name: &str| -> Vec<&str> {
            let builds = builds(name).unwrap();
            builds.iter().map(|build| build.level).collect()
        };
        assert_eq!(levels("arm64"), ["ARMv8.0", "ARMv8.1"]);
        assert_eq!(levels("ppc64el"), ["POWER8"]);
        assert!(
            builds("riscv64")
                .unwrap_err()
                .to_string()
                .contains("riscv64")
        );
    }
}
