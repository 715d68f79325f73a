//! The compiler of a variant: which it is, and whether it takes the flags,
//! asked before minutes of building.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use pgassay_inspect::Machine;
use serde::{Deserialize, Serialize};

use super::builder::tool;
use pgassay_model::Failure;
use pgassay_sys::programs::in_path;

/// A compiler that is here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Compiler {
    /// The program and what always follows it, without a cache in front.
    pub command: Vec<String>,
    /// The first line of `--version`.
    pub banner: String,
    /// `ccache` where it is put in front.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<String>,
}

impl Compiler {
    /// The compiler asked for, or the default: `HOST-gcc` for a cross-build,
    /// else gcc, which PostgreSQL's configure takes first too, else cc or clang.
    ///
    /// # Errors
    /// Where it is not here, with the package that brings it.
    pub fn find(asked: Option<&str>, host: Option<&str>) -> anyhow::Result<Self> {
        let candidates: Vec<String> = match (asked, host) {
            (Some(asked), _) => vec![asked.to_owned()],
            (None, Some(host)) => vec![format!("{host}-gcc")],
            (None, None) => ["gcc", "cc", "clang"].map(str::to_owned).to_vec(),
        };
        let cache = in_path("ccache").map(|_| "ccache".to_owned());
        for candidate in &candidates {
            let mut command = shlex::split(candidate).unwrap_or_default();
            // A cache that was named is ours to put there.
            command.retain(|word| Path::new(word).file_name() != Some("ccache".as_ref()));
            if let Some(banner) = command.first().and_then(|program| banner_of(program)) {
                return Ok(Self {
                    command,
                    banner,
                    cache,
                });
            }
        }
        let package = match (asked, host) {
            (None, Some(host)) => format!("gcc-{}", host.replace("x86_64", "x86-64")),
            (Some(asked), _) => asked.to_owned(),
            _ => "gcc".to_owned(),
        };
        bail!(
            Failure::target(format!(
                "the compiler {} is not here",
                candidates.join(" or ")
            ))
            .with_remedy(format!(
                "install it (Debian and Ubuntu: apt-get install {package}), or name another with cc="
            ))
        );
    }

    /// The command with the cache in front: what configure is given as CC.
    pub fn with_cache(&self) -> Vec<String> {
        self.cache.iter().chain(&self.command).cloned().collect()
    }

    /// Compiles nothing with `flags`.
    ///
    /// # Errors
    /// Where a flag is not taken, naming it and the compiler's own words.
    pub fn check_flags(&self, flags: &[String]) -> anyhow::Result<()> {
        let Some(refusal) = self.refusal(flags)? else {
            return Ok(());
        };
        if refusal.contains("No space left") {
            bail!(
                Failure::target(format!("the compiler can't be tried: {refusal}"))
                    .with_remedy("free some space there, or set TMPDIR")
            );
        }
        for flag in flags {
            if let Some(said) = self.refusal(std::slice::from_ref(flag))? {
                bail!(
                    Failure::usage(format!("{} does not take {flag}: {said}", self.banner))
                        .with_remedy(
                            "pgassay build --recommend says what this compiler can do; \
                             cc= in --variant names another"
                        )
                );
            }
        }
        bail!(Failure::usage(format!(
            "{} does not take {} together: {refusal}",
            self.banner,
            flags.join(" ")
        )));
    }

    /// The first complaint of the compiler, or the assembler behind it, about these flags.
    fn refusal(&self, flags: &[String]) -> anyhow::Result<Option<String>> {
        let mut child = self
            .command()
            .args(flags)
            .args(["-x", "c", "-c", "-o", "/dev/null", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("the compiler can't be run")?;
        if let Some(mut stdin) = child.stdin.take() {
            // A compiler that refuses its flags does not read; that is no error.
            stdin.write_all(b"int nothing(void) { return 0; }\n").ok();
        }
        let output = child.wait_with_output()?;
        if output.status.success() {
            return Ok(None);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let complaint = said
            .lines()
            .find(|line| line.contains("rror:"))
            .or_else(|| said.lines().next())
            .unwrap_or("it failed without a word");
        let complaint = complaint.split_once("rror: ").map_or(complaint, |(_, c)| c);
        Ok(Some(complaint.to_owned()))
    }

    /// The machine that it compiles for.
    ///
    /// # Errors
    /// Where it does not say.
    pub fn machine(&self) -> anyhow::Result<Machine> {
        let output = self
            .command()
            .arg("-dumpmachine")
            .output()
            .context("the compiler can't be run")?;
        let triplet = String::from_utf8_lossy(&output.stdout);
        Ok(machine_of(triplet.trim()))
    }

    fn command(&self) -> Command {
        let mut words = self.command.iter();
        let mut command = tool(words.next().map_or("cc", String::as_str));
        command.args(words);
        command
    }
}

/// The machine of a triplet such as `aarch64-linux-gnu`.
pub fn machine_of(triplet: &str) -> Machine {
    match triplet.split('-').next().unwrap_or_default() {
        "x86_64" | "amd64" => Machine::X86_64,
        "aarch64" | "arm64" => Machine::Aarch64,
        "powerpc64le" | "ppc64le" | "ppc64el" => Machine::Ppc64le,
        "riscv64" => Machine::Riscv64,
        "s390x" => Machine::S390x,
        other => Machine::Other(other.to_owned()),
    }
}

/// The first line that a compiler prints of its version; none where it is not here.
fn banner_of(program: &str) -> Option<String> {
    let output = tool(program)
        .arg("--version")
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next()?.trim();
    (output.status.success() && !line.is_empty()).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_that_is_not_taken_is_named() {
        let compiler = Compiler::find(None, None).unwrap();
        compiler.check_flags(&["-O2".into()]).unwrap();
        let flags = ["-O2".to_owned(), "-mno-such-flag-4711".to_owned()];
        let error = compiler.check_flags(&flags).unwrap_err().to_string();
        assert!(
            error.contains("does not take -mno-such-flag-4711: "),
            "{error}"
        );
        assert_eq!(compiler.machine().unwrap().name(), host_name());
    }

    fn host_name() -> &'static str {
        match std::env::consts::ARCH {
            "x86_64" => "x86-64",
            "powerpc64" => "ppc64le",
            other => other,
        }
    }

    #[test]
    fn a_compiler_that_is_not_here_comes_with_its_package() {
        let error = Compiler::find(None, Some("sparc64-linux-gnu")).unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert!(failure.message.contains("sparc64-linux-gnu-gcc"));
        assert!(
            failure
                .remedy
                .as_ref()
                .unwrap()
                .contains("gcc-sparc64-linux-gnu")
        );
        assert!(Compiler::find(Some("no-such-cc"), None).is_err());
    }
}
