//! qemu's user emulator, which runs single programs of another processor, and plugins for it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::programs::in_path;

/// A processor that servers are emulated on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processor {
    /// As `uname -m` and qemu name it.
    pub name: &'static str,
    /// As Debian names it.
    debian: &'static str,
    /// The triplet below which cross compilers have its C library.
    triplet: &'static str,
}

/// Arm's, of 64 bits.
pub const AARCH64: Processor = Processor {
    name: "aarch64",
    debian: "arm64",
    triplet: "aarch64-linux-gnu",
};
/// POWER, little-endian.
pub const PPC64LE: Processor = Processor {
    name: "ppc64le",
    debian: "ppc64el",
    triplet: "powerpc64le-linux-gnu",
};
/// Intel's and AMD's, of 64 bits.
pub const X86_64: Processor = Processor {
    name: "x86_64",
    debian: "amd64",
    triplet: "x86_64-linux-gnu",
};

/// What is not here, or does not work here.
#[derive(Debug)]
pub struct Lacking {
    /// That it is so.
    pub what: String,
    /// How it is had.
    pub remedy: Option<&'static str>,
}

impl Processor {
    /// Whether it, or a triplet of it, is called so by somebody.
    pub fn is_called(&self, name: &str) -> bool {
        let first = |triplet: &'static str| triplet.split('-').next();
        name == self.name || name == self.debian || Some(name) == first(self.triplet)
    }

    /// The name of the emulator's program.
    pub fn emulator(&self) -> String {
        format!("qemu-{}", self.name)
    }

    /// The emulator that takes plugins.
    ///
    /// # Errors
    /// Where it is not in PATH.
    pub fn find(&self) -> Result<PathBuf, Lacking> {
        let name = self.emulator();
        in_path(&name).ok_or_else(|| Lacking {
            what: format!("{name} is not here"),
            remedy: Some(
                "Debian and Ubuntu: apt-get install qemu-user (the static one takes no plugins)",
            ),
        })
    }

    /// Whether it is this machine's.
    pub fn is_here(&self) -> bool {
        // The compiler calls ppc64le powerpc64.
        self.is_called(std::env::consts::ARCH)
            || cfg!(all(target_arch = "powerpc64", target_endian = "little")) && *self == PPC64LE
    }

    /// What Rust calls it.
    pub fn rust_target(&self) -> String {
        let architecture = self.triplet.split('-').next().unwrap_or(self.name);
        format!("{architecture}-unknown-linux-gnu")
    }

    /// The C compiler for it, as cross compilers are called.
    pub fn cross_compiler(&self) -> String {
        format!("{}-gcc", self.triplet)
    }

    /// Debian's package of that compiler, which brings the C library.
    pub fn cross_compiler_package(&self) -> String {
        format!("gcc-{}", self.triplet.replace('_', "-"))
    }

    /// Where the cross compilers' C library is, as it would be in `/`.
    pub fn cross_root(&self) -> PathBuf {
        Path::new("/usr").join(self.triplet)
    }

    /// Debian's package of that library.
    pub fn cross_package(&self) -> String {
        format!("libc6-{}-cross", self.debian)
    }
}

/// What plugins include as `plugin.h`: qemu's interface, and what an instruction does to memory.
const HEADER: &str = include_str!("qemu/plugin.h");

/// Compiles a plugin into `dir`, where its source is put, too: `NAME.c`, `plugin.h` and `NAME.so`.
///
/// # Errors
/// Where there is no C compiler, or it does not compile.
pub fn compile(dir: &Path, name: &str, text: &str) -> Result<PathBuf, Lacking> {
    let lacking = |what: String| Lacking { what, remedy: None };
    let [source, plugin] = ["c", "so"].map(|kind| dir.join(format!("{name}.{kind}")));
    for (path, text) in [(&source, text), (&dir.join("plugin.h"), HEADER)] {
        fs::write(path, text).map_err(|e| lacking(format!("{}: {e}", path.display())))?;
    }
    let mut compilers = ["cc", "gcc", "clang"].iter();
    let compiler = compilers.find_map(|name| in_path(name)).ok_or(Lacking {
        what: "there is no C compiler".to_owned(),
        remedy: Some("Debian and Ubuntu: apt-get install gcc libc6-dev"),
    })?;
    let output = crate::programs::command(&compiler)
        .args(["-O2", "-shared", "-fPIC", "-pthread", "-o"])
        .args([&plugin, &source])
        .output()
        .map_err(|e| lacking(format!("{}: {e}", compiler.display())))?;
    match output.status.success() {
        true => Ok(plugin),
        false => Err(lacking(
            String::from_utf8_lossy(&output.stderr)
                .trim_end()
                .to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_called_in_several_ways() {
        for name in ["ppc64le", "ppc64el", "powerpc64le"] {
            assert!(PPC64LE.is_called(name), "{name}");
            assert!(
                !AARCH64.is_called(name) && !X86_64.is_called(name),
                "{name}"
            );
        }
        assert_eq!(X86_64.cross_package(), "libc6-amd64-cross");
        assert_eq!(PPC64LE.rust_target(), "powerpc64le-unknown-linux-gnu");
        assert_eq!(X86_64.cross_compiler_package(), "gcc-x86-64-linux-gnu");
        let here = [AARCH64, PPC64LE, X86_64].map(|p| p.is_here());
        assert!(here.iter().filter(|here| **here).count() <= 1);
    }

    #[test]
    fn what_is_no_plugin_is_refused_in_the_compilers_words() {
        let dir = std::env::temp_dir().join(format!("pgassay-qemu-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        assert!(compile(&dir, "plugin", "int one;\n").unwrap().is_file());
        let refused = compile(&dir, "plugin", "int one\n").unwrap_err();
        assert!(refused.what.contains("plugin.c:1"), "{}", refused.what);
        fs::remove_dir_all(&dir).unwrap();
        let refused = compile(&dir, "plugin", "").unwrap_err();
        assert!(refused.what.contains("plugin.c"), "{}", refused.what);
    }
}
