//! How a variant is configured, compiled and installed: commands, nothing run.
//!
//! Only what a server and its measurement need is compiled by autoconf's
//! makefiles: the backend, libpq, initdb, pg_ctl, pg_config, psql, pgbench,
//! PL/pgSQL, the encodings, the dictionaries. Documentation, contrib and tests
//! are left out. meson has no such choice short of its list of targets, and
//! installs all that it knows of.
//!
//! Readline, ICU and zlib are left out by default (`--without-…`): what is in a
//! build is then the same on every machine, whatever libraries lie about there.
//! meson's other automatic features are off for the same reason. A variant's
//! `options=` come after these and so win.

use std::path::{Path, PathBuf};

use pgassay_inspect::Machine;
use serde::{Deserialize, Serialize};

use super::compiler::Compiler;
use super::variant::Variant;

/// Changed whenever the same request would be built differently.
pub const RECIPE_VERSION: u32 = 1;

/// PostgreSQL's two build systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// configure and make.
    Autoconf,
    /// meson and ninja, from PostgreSQL 16 on.
    Meson,
}

impl System {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Autoconf => "autoconf",
            Self::Meson => "meson",
        }
    }
}

/// The directories that are made and installed, in order, where the source has them. The
/// libraries come first: the backend's makefile takes them as given.
pub(super) const PARTS: &[&str] = &[
    "src/common",
    "src/port",
    "src/backend",
    "src/timezone",
    "src/interfaces/libpq",
    "src/backend/utils/mb/conversion_procs",
    "src/backend/snowball",
    "src/backend/replication/libpqwalreceiver",
    "src/backend/replication/pgoutput",
    "src/pl/plpgsql",
    "src/bin/initdb",
    "src/bin/pg_ctl",
    "src/bin/pg_config",
    "src/bin/psql",
    "src/bin/pgbench",
];

/// Installed without being compiled: headers, and what extensions are built with.
const INSTALLED_ONLY: &[&str] = &["src/include", "src/makefiles", "config"];

/// pgassay's own choices for configure.
const AUTOCONF_DEFAULTS: &[&str] = &["--without-readline", "--without-icu", "--without-zlib"];

/// pgassay's own choices for meson: the same, and nothing by what is found.
const MESON_DEFAULTS: &[&str] = &[
    "-Dauto_features=disabled",
    "-Ddocs=disabled",
    "-Dnls=disabled",
    "-Dtap_tests=disabled",
];

/// One command of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What it does, for progress: `configure`, `make src/backend`.
    pub title: String,
    /// Where it runs.
    pub dir: PathBuf,
    /// Program and arguments.
    pub words: Vec<String>,
    /// It runs once for a tree; a build that goes on does not repeat it.
    pub once: bool,
}

/// What is to be built, for the recipe.
#[derive(Debug)]
pub struct Request<'a> {
    /// The build system.
    pub system: System,
    /// The variant.
    pub variant: &'a Variant,
    /// Its compiler.
    pub compiler: &'a Compiler,
    /// The triplet of a cross-build.
    pub host: Option<&'a str>,
    /// The machine that it is for.
    pub machine: &'a Machine,
    /// PostgreSQL's top directory, unpacked.
    pub source: &'a Path,
    /// Where object files go.
    pub tree: &'a Path,
    /// Where it will be installed in the end.
    pub prefix: &'a Path,
    /// Where the installation is put together, as DESTDIR.
    pub stage: &'a Path,
    /// Commands at a time.
    pub jobs: usize,
    /// One tree for many commits: what depends on a header is known, and what is installed finds its
    /// libraries beside itself wherever it lies; autoconf only.
    pub shared: bool,
}

/// Has programs look for libraries in the installation that they lie in; quoted for make and its shell.
const BESIDE: &str = "-Wl,-rpath,'$$ORIGIN/../lib'";

impl Request<'_> {
    /// All compiler flags, the default -O2 first unless the variant is exact.
    pub fn cflags(&self) -> Vec<String> {
        let default = (!self.variant.exact).then(|| "-O2".to_owned());
        default
            .into_iter()
            .chain(self.variant.cflags.iter().cloned())
            .collect()
    }

    /// Everything that decides what comes out, beside source and compiler.
    pub fn options(&self) -> Vec<String> {
        match self.system {
            System::Autoconf => self.configure(),
            System::Meson => self.setup(),
        }
    }

    /// configure's arguments.
    fn configure(&self) -> Vec<String> {
        let mut words = vec![format!("--prefix={}", self.prefix.display())];
        words.extend(AUTOCONF_DEFAULTS.iter().map(|word| (*word).to_owned()));
        if let Some(host) = self.host {
            words.push(format!("--host={host}"));
            // The zone compiler that is built could not run here.
            words.push("--with-system-tzdata=/usr/share/zoneinfo".into());
        }
        if self.variant.assertions {
            words.push("--enable-cassert".into());
        }
        words.extend(self.variant.options.iter().cloned());
        words.push(format!("CC={}", self.compiler.with_cache().join(" ")));
        // Where nothing is asked for, configure's own default is used untouched.
        if self.variant.exact || !self.variant.cflags.is_empty() {
            words.push(format!("CFLAGS={}", self.cflags().join(" ")));
        }
        let mut ldflags = self.variant.ldflags.join(" ");
        if self.shared {
            words.extend(["--enable-depend", "--disable-rpath"].map(str::to_owned));
            ldflags = format!("{BESIDE} {ldflags}").trim_end().to_owned();
        }
        if !ldflags.is_empty() {
            words.push(format!("LDFLAGS={ldflags}"));
        }
        words
    }

    /// `meson setup`'s options.
    fn setup(&self) -> Vec<String> {
        let mut words = vec![
            format!("--prefix={}", self.prefix.display()),
            // Distributions' own layouts would put it below their triplet.
            "--libdir=lib".into(),
            "--wrap-mode=nodownload".into(),
        ];
        words.extend(MESON_DEFAULTS.iter().map(|word| (*word).to_owned()));
        if self.variant.exact {
            words.push("--buildtype=plain".into());
        } else {
            // As autoconf's default: -O2 and no -g.
            words.extend(["-Doptimization=2", "-Ddebug=false"].map(str::to_owned));
        }
        if self.host.is_some() {
            words.push("-Dsystem_tzdata=/usr/share/zoneinfo".into());
            words.push(format!("--cross-file={}", self.cross_file().display()));
        }
        if self.variant.assertions {
            words.push("-Dcassert=true".into());
        }
        if !self.variant.cflags.is_empty() {
            words.push(format!("-Dc_args={}", self.variant.cflags.join(" ")));
        }
        if !self.variant.ldflags.is_empty() {
            words.push(format!("-Dc_link_args={}", self.variant.ldflags.join(" ")));
        }
        words.extend(self.variant.options.iter().cloned());
        words
    }

    /// Where the description of another machine is put for meson.
    fn cross_file(&self) -> PathBuf {
        self.tree.join("pgassay-cross.ini")
    }

    /// Files that must be written before the first step.
    pub fn files(&self) -> Vec<(PathBuf, String)> {
        let (System::Meson, Some(host)) = (self.system, self.host) else {
            return Vec::new();
        };
        let (family, endian) = match self.machine {
            Machine::X86_64 => ("x86_64", "little"),
            Machine::Aarch64 => ("aarch64", "little"),
            Machine::Ppc64le => ("ppc64", "little"),
            Machine::Riscv64 => ("riscv64", "little"),
            Machine::S390x => ("s390x", "big"),
            Machine::Other(name) => (name.as_str(), "little"),
        };
        let quoted: Vec<String> = self
            .compiler
            .with_cache()
            .iter()
            .map(|word| format!("'{word}'"))
            .collect();
        let text = format!(
            "[binaries]\nc = [{}]\nar = '{host}-ar'\nstrip = '{host}-strip'\n\n\
             [host_machine]\nsystem = 'linux'\ncpu_family = '{family}'\ncpu = '{family}'\n\
             endian = '{endian}'\n",
            quoted.join(", ")
        );
        vec![(self.cross_file(), text)]
    }

    /// The environment of every step beyond the plain one.
    pub fn environment(&self) -> Vec<(String, String)> {
        match (self.system, self.host) {
            // meson takes a native compiler from the environment only.
            (System::Meson, None) => {
                vec![("CC".into(), self.compiler.with_cache().join(" "))]
            }
            _ => Vec::new(),
        }
    }

    /// The commands that configure and compile.
    pub fn compile(&self) -> Vec<Step> {
        let words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let jobs = format!("-j{}", self.jobs);
        let at = |title: String, words: Vec<String>, once| Step {
            title,
            dir: self.tree.to_path_buf(),
            words,
            once,
        };
        match self.system {
            System::Autoconf => {
                let mut first = vec![self.source.join("configure").display().to_string()];
                first.extend(self.configure());
                let mut steps = vec![at("configure".into(), first, true)];
                // Files that are compiled side by side must all find the headers that are
                // made, and the makefiles below the top don't see to that.
                let headers = "generated-headers";
                let backend = self.source.join("src/backend/Makefile");
                if std::fs::read_to_string(backend)
                    .is_ok_and(|text| text.contains(&format!("\n{headers}:")))
                {
                    let line = words(&["make", "-C", "src/backend", &jobs, headers]);
                    steps.push(at(format!("make {headers}"), line, false));
                }
                for part in self.parts() {
                    let line = words(&["make", "-C", part, &jobs]);
                    steps.push(at(format!("make {part}"), line, false));
                }
                steps
            }
            System::Meson => {
                let mut first = words(&["meson", "setup"]);
                first.extend(self.setup());
                first.push(self.tree.join("build").display().to_string());
                first.push(self.source.display().to_string());
                vec![
                    at("meson setup".into(), first, true),
                    at(
                        "ninja".into(),
                        words(&["ninja", "-C", "build", &jobs, "-v", "-d", "keeprsp"]),
                        false,
                    ),
                ]
            }
        }
    }

    /// The commands that install into the stage.
    pub fn install(&self) -> Vec<Step> {
        self.install_where(&|_| true)
    }

    /// The same, of autoconf's directories only those for which `wanted` holds.
    pub fn install_where(&self, wanted: &dyn Fn(&str) -> bool) -> Vec<Step> {
        let stage = self.stage.display().to_string();
        let step = |title: String, words: Vec<String>| Step {
            title,
            dir: self.tree.to_path_buf(),
            words,
            once: false,
        };
        match self.system {
            System::Autoconf => {
                let make = |part: &str, target: &str| {
                    let words = ["make", "-C", part, target, &format!("DESTDIR={stage}")];
                    step(format!("install {part}"), words.map(str::to_owned).to_vec())
                };
                let mut steps = Vec::new();
                let has = |part: &&&str| self.has(part) && wanted(part);
                for part in INSTALLED_ONLY.iter().filter(has) {
                    steps.push(make(part, "install"));
                }
                if wanted("src") {
                    steps.push(make("src", "install-local"));
                }
                for part in self.parts().filter(|part| wanted(part)) {
                    steps.push(make(part, "install"));
                }
                steps
            }
            System::Meson => vec![step(
                "meson install".into(),
                [
                    "meson",
                    "install",
                    "-C",
                    "build",
                    "--no-rebuild",
                    "--quiet",
                    "--destdir",
                    &stage,
                ]
                .map(str::to_owned)
                .to_vec(),
            )],
        }
    }

    /// The directories that are made.
    pub fn parts(&self) -> impl Iterator<Item = &'static str> {
        PARTS.iter().copied().filter(|part| self.has(part))
    }

    fn has(&self, part: &str) -> bool {
        self.source.join(part).join("Makefile").is_file()
    }
}

/// What a step needs in PATH, and the package that has it.
pub fn tools(system: System, source: &Path, major: u32) -> Vec<(&'static str, &'static str)> {
    let mut tools = match system {
        System::Autoconf => vec![("make", "make")],
        System::Meson => vec![("meson", "meson"), ("ninja", "ninja-build")],
    };
    // Tarballs up to 16 carry what bison, flex and perl make; PostgreSQL 17's do not.
    let generated = source.join("src/backend/parser/gram.c").is_file();
    if !generated && source.join("src/backend/parser/gram.y").is_file() {
        tools.extend([("bison", "bison"), ("flex", "flex")]);
    }
    if major >= 17 || !generated && source.join("src/backend/catalog/genbki.pl").is_file() {
        tools.push(("perl", "perl"));
    }
    tools
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiler() -> Compiler {
        Compiler {
            command: vec!["aarch64-linux-gnu-gcc".into()],
            banner: "gcc 12".into(),
            cache: Some("ccache".into()),
        }
    }

    fn options(system: System, text: &str, exact: bool, host: Option<&str>) -> Vec<String> {
        let mut variant = Variant::parse(text, &Machine::Aarch64, true).unwrap();
        variant.exact = exact;
        Request {
            system,
            variant: &variant,
            compiler: &compiler(),
            host,
            machine: &Machine::Aarch64,
            source: Path::new("/s"),
            tree: Path::new("/t"),
            prefix: Path::new("/p"),
            stage: Path::new("/stage"),
            jobs: 2,
            shared: false,
        }
        .options()
    }

    #[test]
    fn flags_are_appended_to_the_default_or_stand_alone() {
        let has = |words: &[String], word: &str| words.iter().any(|w| w == word);
        let plain = options(System::Autoconf, "plain", false, None);
        assert!(!plain.iter().any(|word| word.starts_with("CFLAGS=")));
        assert!(has(&plain, "CC=ccache aarch64-linux-gnu-gcc"));
        let lse = options(System::Autoconf, "lse", false, None);
        assert!(has(&lse, "CFLAGS=-O2 -march=armv8.2-a"));
        let exact = options(System::Autoconf, "lse", true, None);
        assert!(has(&exact, "CFLAGS=-march=armv8.2-a"));
        // An exact recipe without flags is -O0, as it was for who published it.
        assert!(has(
            &options(System::Autoconf, "plain", true, None),
            "CFLAGS="
        ));

        let meson = options(System::Meson, "lse", false, None);
        assert!(has(&meson, "-Doptimization=2") && has(&meson, "-Dc_args=-march=armv8.2-a"));
        assert!(has(
            &options(System::Meson, "lse", true, None),
            "--buildtype=plain"
        ));
    }

    #[test]
    fn own_options_come_last() {
        let words = options(System::Autoconf, "x options=--with-icu", false, None);
        let at = |word: &str| words.iter().position(|w| w == word).unwrap();
        assert!(at("--with-icu") > at("--without-icu"));
    }

    #[test]
    fn a_cross_build_names_its_host_and_compiles_no_zones() {
        let host = Some("aarch64-linux-gnu");
        let words = options(System::Autoconf, "lse", false, host);
        assert!(words.contains(&"--host=aarch64-linux-gnu".to_owned()));
        assert!(words.iter().any(|w| w.starts_with("--with-system-tzdata")));
        let words = options(System::Meson, "assert", false, host);
        assert!(words.contains(&"--cross-file=/t/pgassay-cross.ini".to_owned()));
        assert!(words.contains(&"-Dcassert=true".to_owned()));
    }
}
