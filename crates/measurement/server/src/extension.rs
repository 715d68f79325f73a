//! The C extension, compiled for one installation and kept.
//!
//! ```text
//! /var/tmp/pgassay-UID/extensions/15.18-0123456789abcdef/pgassay.so
//! ```
//! The sources are part of this program. They are compiled with the flags that
//! the server's own `pg_config` records, because spinlocks and atomics are
//! inlined from its headers: other flags would measure other instructions.
//! Nothing is installed: the server loads the library from its path here.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, DirBuilder, Permissions};
use std::hash::{Hash, Hasher};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use super::find::Installation;
use super::packages::{self, Part};
use super::scratch::Scratch;
use super::version::Version;
use super::{TargetError, account::Account, ask, unfinished};

macro_rules! source {
    ($name:literal) => {
        ($name, include_str!(concat!("../ext/", $name)))
    };
}

/// The extension's sources by name.
const SOURCES: &[(&str, &str)] = &[
    source!("arena.c"),
    source!("arena.h"),
    source!("atomics.c"),
    source!("buffer_hit.c"),
    source!("call.c"),
    source!("clock.h"),
    source!("compat.h"),
    source!("gate.c"),
    source!("lwlock.c"),
    source!("meter.c"),
    source!("onlook.c"),
    source!("pgassay.h"),
    source!("query_loop.c"),
    source!("relation_lock.c"),
    source!("snapshot.c"),
    source!("spinlock.c"),
    source!("wal_insert.c"),
];

/// The SQL definitions, with `@SCHEMA@` and `@LIBRARY@` to be filled in.
const DEFINITIONS: &str = include_str!("../ext/pgassay.sql.in");

/// The first and the last major version that the sources are for.
const SUPPORTED: (u32, u32) = (13, 19);

/// The extension's library for one installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extension {
    /// The library, where the server's user can read it.
    pub library: PathBuf,
    /// The compiler's own words about its version.
    pub compiler: String,
    /// The flags that it was compiled with.
    pub flags: Vec<String>,
    /// In what it differs from how the server was compiled; empty where the
    /// inlined primitives are the server's own code.
    pub deviations: Vec<String>,
}

impl Extension {
    /// Compiles the extension for `installation`, or finds it compiled;
    /// `base` is the place for temporary clusters (`None`: /var/tmp).
    ///
    /// # Errors
    /// Where headers or a compiler are missing, or the version is not
    /// supported, with the remedy; with the compiler's words where it fails.
    pub fn compiled_for(
        installation: &Installation,
        base: Option<&Path>,
    ) -> Result<Self, TargetError> {
        check_version(&installation.version)?;
        let config = PgConfig::of(installation)?;
        let compiler = Compiler::find(&config.cc)?;
        let scratch = Scratch::open(base)?;
        let mut last = None;
        for recipe in config.recipes(&compiler) {
            match recipe.compile(&config, &compiler, &scratch, installation) {
                Ok(library) => {
                    if let Some(barrier) =
                        Account::for_servers()?.and_then(|account| account.barrier(&library))
                    {
                        return Err(TargetError::Place {
                            path: library,
                            reason: format!("the server may not enter {}", barrier.display()),
                        });
                    }
                    return Ok(Self {
                        library,
                        compiler: compiler.banner,
                        flags: recipe.flags,
                        deviations: recipe.deviations,
                    });
                }
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| TargetError::NotFound("no way to compile is known".into())))
    }

    /// The statements that create the types and functions in `schema`, which
    /// must exist and be an ordinary lower-case name.
    pub fn definitions(&self, schema: &str) -> String {
        DEFINITIONS.replace("@SCHEMA@", schema).replace(
            "@LIBRARY@",
            &self.library.display().to_string().replace('\'', "''"),
        )
    }
}

fn check_version(version: &Version) -> Result<(), TargetError> {
    let (first, last) = SUPPORTED;
    let major = version.num() / 10_000;
    if (first..=last).contains(&major) {
        return Ok(());
    }
    Err(TargetError::NotFound(format!(
        "the functions inside the server are for PostgreSQL {first} to {last}, not {version}; \
         workloads that need none run there: select-only"
    )))
}

/// What the installation's pg_config says.
#[derive(Debug)]
struct PgConfig {
    cc: String,
    includes: PathBuf,
    cflags: Vec<String>,
    cflags_sl: Vec<String>,
    cppflags: Vec<String>,
}

impl PgConfig {
    /// Asks the pg_config beside the server, or one in PATH that is of the same version.
    fn of(installation: &Installation) -> Result<Self, TargetError> {
        let beside = installation.tool("pg_config");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = std::iter::once(beside)
            .chain(std::env::split_paths(&path).map(|dir| dir.join("pg_config")))
            .find(|program| {
                program.is_file()
                    && ask(program, "--version")
                        .and_then(|banner| Version::in_banner(&banner))
                        .is_some_and(|version| version.same_major(&installation.version))
            })
            .ok_or_else(|| missing_headers(installation, "there is no pg_config for it"))?;
        let text = |argument| {
            ask(&program, argument).ok_or_else(|| {
                missing_headers(
                    installation,
                    &format!("{} {argument} says nothing", program.display()),
                )
            })
        };
        let includes = PathBuf::from(text("--includedir-server")?);
        if !includes.join("postgres.h").is_file() {
            return Err(missing_headers(
                installation,
                &format!("{} holds no postgres.h", includes.display()),
            ));
        }
        Ok(Self {
            cc: text("--cc")?,
            includes,
            cflags: words(&text("--cflags")?),
            cflags_sl: words(&ask(&program, "--cflags_sl").unwrap_or_default()),
            cppflags: words(&ask(&program, "--cppflags").unwrap_or_default()),
        })
    }

    /// Ways to compile, the server's own first. Where the compiler at hand
    /// doesn't know a flag, the flags that decide which instructions are
    /// emitted are kept alone.
    fn recipes(&self, compiler: &Compiler) -> Vec<Recipe> {
        let recorded: Vec<String> = self
            .cflags
            .iter()
            .chain(&self.cflags_sl)
            .filter(|flag| !is_warning(flag))
            .cloned()
            .collect();
        let essential: Vec<String> = recorded
            .iter()
            .filter(|flag| decides_instructions(flag))
            .cloned()
            .collect();
        let mut deviations = Vec::new();
        if !compiler.recorded {
            deviations.push(format!(
                "compiled by {}, as the server's own {} is not here",
                compiler.program, self.cc
            ));
        }
        let mut reduced = deviations.clone();
        reduced.push("the compiler here does not know all flags that the server records".into());
        vec![
            Recipe {
                flags: recorded,
                deviations,
            },
            Recipe {
                flags: essential,
                deviations: reduced,
            },
        ]
    }
}

/// One way to compile.
#[derive(Debug)]
struct Recipe {
    flags: Vec<String>,
    deviations: Vec<String>,
}

impl Recipe {
    /// The library, compiled now or found from an earlier time.
    fn compile(
        &self,
        config: &PgConfig,
        compiler: &Compiler,
        scratch: &Scratch,
        installation: &Installation,
    ) -> Result<PathBuf, TargetError> {
        let mut hasher = DefaultHasher::new();
        (SOURCES, &self.flags, &config.cppflags, &config.includes).hash(&mut hasher);
        (&compiler.banner, &installation.banner).hash(&mut hasher);
        let all = scratch.root().join("extensions");
        let home = all.join(format!("{}-{:016x}", installation.version, hasher.finish()));
        let library = home.join("pgassay.so");
        if library.is_file() {
            return Ok(library);
        }
        make_dir(&all)?;
        let building = all.join(unfinished::name("building-", 0));
        fs::remove_dir_all(&building).ok();
        make_dir(&building)?;
        let _held = unfinished::hold(&building)
            .map_err(|e| TargetError::place(&building, "can't be locked", &e))?;
        let built = self.build(config, compiler, &building).and_then(|()| {
            match fs::rename(&building, &home) {
                // Another pgassay was faster with the same.
                Err(_) if library.is_file() => Ok(()),
                other => other.map_err(|e| TargetError::place(&home, "can't be made", &e)),
            }
        });
        fs::remove_dir_all(&building).ok();
        built.map(|()| library)
    }

    fn build(&self, config: &PgConfig, compiler: &Compiler, dir: &Path) -> Result<(), TargetError> {
        for (name, text) in SOURCES {
            let path = dir.join(name);
            // Readable for whoever compiles, whatever the umask.
            fs::write(&path, text)
                .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o644)))
                .map_err(|e| TargetError::place(&path, "can't be written", &e))?;
        }
        let mut command = pgassay_sys::programs::command(&compiler.program);
        // The installation says what is run here: that needs no rights of root's.
        if let Some(account) = Account::for_servers()? {
            account.give(dir)?;
            account.apply(&mut command);
            command.env_remove("TMPDIR");
        }
        command
            .current_dir(dir)
            .args(&compiler.arguments)
            .args(&self.flags)
            // A library even where the server records no flag for one.
            .args(["-fPIC", "-shared", "-o", "pgassay.so"])
            .args(
                SOURCES
                    .iter()
                    .map(|(name, _)| *name)
                    .filter(|n| n.ends_with(".c")),
            )
            .arg("-I")
            .arg(&config.includes)
            .args(&config.cppflags)
            .stdin(Stdio::null());
        let output = command
            .output()
            .map_err(|e| no_compiler(&compiler.program, &e.to_string()))?;
        if !output.status.success() {
            return Err(TargetError::NotFound(format!(
                "the extension can't be compiled for this server ({} in {}):\n  {}",
                compiler.program,
                dir.display(),
                first_lines(&output, 12).replace('\n', "\n  ")
            )));
        }
        Ok(())
    }
}

/// The compiler: the one that the server records, or one that is here.
#[derive(Debug)]
struct Compiler {
    program: String,
    /// What follows the program's name in pg_config, such as `-m64`.
    arguments: Vec<String>,
    banner: String,
    /// Whether it is the one that the server records, by name.
    recorded: bool,
}

impl Compiler {
    fn find(recorded: &str) -> Result<Self, TargetError> {
        let mut line = words(recorded);
        // A cache in front of the compiler is the packager's, not ours.
        line.retain(|word| !word.ends_with("ccache"));
        let mut candidates: Vec<(String, Vec<String>, bool)> = Vec::new();
        if let Some((program, arguments)) = line.split_first() {
            candidates.push((program.clone(), arguments.to_vec(), true));
        }
        for other in ["cc", "gcc", "clang"] {
            candidates.push((other.to_owned(), Vec::new(), false));
        }
        for (program, arguments, recorded) in candidates {
            if let Some(banner) = ask(Path::new(&program), "--version") {
                return Ok(Self {
                    program,
                    arguments,
                    banner,
                    recorded,
                });
            }
        }
        Err(no_compiler(recorded, "none was found"))
    }

    /// Whether it finds the C library's headers, which are a package of their own.
    fn knows_libc(&self) -> bool {
        let mut arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        arguments.extend(["-E", "-include", "stdio.h", "-x", "c", "/dev/null"]);
        ask::ask_all(Path::new(&self.program), &arguments)
            .is_ok_and(|answer| answer.status.success())
    }
}

/// Whether a flag only asks for warnings; `-Wl,` and its like pass flags on.
fn is_warning(flag: &str) -> bool {
    flag.starts_with("-W") && !flag.starts_with("-Wl,") && !flag.starts_with("-Wa,")
}

/// Whether a flag decides which instructions are emitted, or what the
/// language's rules are.
fn decides_instructions(flag: &str) -> bool {
    [
        "-O",
        "-m",
        "-std",
        "-D",
        "-fwrapv",
        "-fno-strict-aliasing",
        "-fPIC",
        "-fno-omit-frame",
    ]
    .iter()
    .any(|start| flag.starts_with(start))
}

fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace().map(str::to_owned).collect()
}

/// The first line that a program prints when asked; none where it fails.
fn ask(program: &Path, argument: &str) -> Option<String> {
    let answer = ask::ask(program, argument).ok()?;
    answer.status.success().then(|| {
        answer
            .out
            .lines()
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    })
}

fn first_lines(output: &Output, lines: usize) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let kept: Vec<&str> = text.lines().take(lines).collect();
    kept.join("\n")
}

/// The line that installs an installation's headers on this distribution.
fn install_headers(installation: &Installation) -> String {
    let of_pgdg = installation.bin_dir.starts_with("/usr/pgsql-")
        || installation
            .bin_dir
            .parent()
            .and_then(Path::file_name)
            .is_some_and(|prefix| prefix.as_encoded_bytes().starts_with(b"pgsql-"));
    packages::how(Part::Headers(&installation.version.major(), of_pgdg))
}

fn missing_headers(installation: &Installation, why: &str) -> TargetError {
    let major = installation.version.major();
    TargetError::NotFound(format!(
        "the functions inside the server need PostgreSQL {major}'s headers, and {why} ({}); \
         install them ({}), or run a workload that needs none: select-only",
        installation.bin_dir.display(),
        install_headers(installation)
    ))
}

fn no_compiler(wanted: &str, why: &str) -> TargetError {
    TargetError::NotFound(format!(
        "the functions inside the server need a C compiler ({wanted}): {why}; \
         install one ({})",
        packages::how(Part::Compiler)
    ))
}

/// Something that compiling the extension needs and that is not here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// What is missing.
    pub why: String,
    /// The line that installs it, for root; none if no package mends it.
    pub install: Option<String>,
}

/// What [`Extension::compiled_for`] would find missing; compiles nothing of the extension.
///
/// # Errors
/// The first thing that is missing. Otherwise the compiler's own words about its version.
pub fn ready(installation: &Installation) -> Result<String, Lack> {
    check_version(&installation.version).map_err(|error| Lack {
        why: error.to_string(),
        install: None,
    })?;
    let config = PgConfig::of(installation).map_err(|_| Lack {
        why: format!(
            "the server headers of PostgreSQL {} are not installed",
            installation.version.major()
        ),
        install: Some(install_headers(installation)),
    })?;
    let lack = |why: String| Lack {
        why,
        install: Some(packages::how(Part::Compiler)),
    };
    let compiler = Compiler::find(&config.cc)
        .map_err(|_| lack(format!("there is no C compiler ({} or another)", config.cc)))?;
    if !compiler.knows_libc() {
        return Err(lack(format!(
            "{} does not find the C library's headers",
            compiler.program
        )));
    }
    Ok(compiler.banner)
}

/// Makes a directory that the server's user may enter.
fn make_dir(path: &Path) -> Result<(), TargetError> {
    match DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o755)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
    .map_err(|error| TargetError::place(path, "can't be made", &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_model::FailureKind;

    /// Attack D5: the compiler that an installation names was tried as root, with root's
    /// environment.
    #[test]
    fn the_compiler_is_tried_without_our_rights_and_environment() {
        let dir = pgassay_sys::private::Directory::make(&std::env::temp_dir(), "pgassay-cc");
        let dir = dir.unwrap();
        let program = dir.path().join("cc");
        let script = "#!/bin/sh\n[ $(id -u) != 0 ] && [ -z \"$CARGO_MANIFEST_DIR\" ]\n";
        fs::write(&program, script).unwrap();
        for path in [dir.path(), &program] {
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        let compiler = Compiler {
            program: program.to_str().unwrap().to_owned(),
            arguments: Vec::new(),
            banner: String::new(),
            recorded: true,
        };
        assert!(compiler.knows_libc());
    }

    #[test]
    fn warnings_go_and_instructions_stay() {
        let line = "-Wall -Wmissing-variable-declarations -O2 -march=armv8.2-a -Wl,-z,now \
                    -fexcess-precision=standard -moutline-atomics -fwrapv";
        let kept: Vec<String> = words(line).into_iter().filter(|f| !is_warning(f)).collect();
        assert!(kept.iter().all(|flag| !flag.starts_with("-Wm")));
        assert!(kept.contains(&"-Wl,-z,now".to_owned()));
        let essential: Vec<&String> = kept.iter().filter(|f| decides_instructions(f)).collect();
        assert_eq!(
            essential,
            ["-O2", "-march=armv8.2-a", "-moutline-atomics", "-fwrapv"]
        );
    }

    #[test]
    fn only_versions_that_were_tried() {
        for (text, good) in [
            ("13.23", true),
            ("18.4", true),
            ("12.22", false),
            ("19devel", true),
            ("20devel", false),
        ] {
            let version = Version::parse(text).unwrap();
            assert_eq!(check_version(&version).is_ok(), good, "{text}");
        }
        let error = check_version(&Version::parse("9.6.24").unwrap()).unwrap_err();
        assert_eq!(error.kind(), FailureKind::Target);
        assert!(error.to_string().contains("select-only"), "{error}");
    }

    #[test]
    fn a_compiler_that_is_not_here_is_replaced_and_said() {
        let compiler = Compiler::find("ccache no-such-cc-4711 -m64").unwrap();
        assert!(!compiler.recorded && compiler.arguments.is_empty());
        let own = Compiler::find("gcc -m64").unwrap();
        assert!(own.recorded && own.arguments == ["-m64"]);
    }

    #[test]
    fn every_file_of_the_extension_is_here() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("ext");
        let mut files: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".c") || name.ends_with(".h"))
            .collect();
        files.sort();
        let known: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).collect();
        assert_eq!(files, known);
    }
}
