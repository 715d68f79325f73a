//! The one line that installs what is missing, in the words of this distribution.

use std::fs;
use std::path::Path;

/// A program that installs packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manager {
    /// Debian, Ubuntu.
    Apt,
    /// Fedora, Red Hat and those made from it.
    Dnf,
    /// SUSE.
    Zypper,
    /// Alpine.
    Apk,
}

/// All of them, for messages on a system that has none.
const ALL: [Manager; 4] = [Manager::Apt, Manager::Dnf, Manager::Zypper, Manager::Apk];

/// What can be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// A PostgreSQL server, the distribution's default version.
    Server,
    /// The server's headers for this major version; the second says whether the server is one of
    /// PGDG's RPMs, whose packages are named differently from the distribution's.
    Headers(&'a str, bool),
    /// A C compiler with the C library's headers.
    Compiler,
    /// Callgrind, which counts instructions.
    Valgrind,
    /// Emulation of other processors for single programs.
    QemuUser,
    /// Certificates of the authorities that web servers are verified by.
    Certificates,
}

impl Manager {
    /// This system's, by os-release(5), else by the program that is there.
    pub fn here() -> Option<Self> {
        Self::of_root(Path::new("/"))
    }

    fn of_root(root: &Path) -> Option<Self> {
        let release = ["etc/os-release", "usr/lib/os-release"]
            .iter()
            .find_map(|file| fs::read_to_string(root.join(file)).ok())
            .unwrap_or_default();
        Self::of_release(&release).or_else(|| {
            ALL.into_iter().find(|manager| {
                ["usr/bin", "bin", "sbin", "usr/sbin"]
                    .iter()
                    .any(|dir| root.join(dir).join(manager.program()).exists())
            })
        })
    }

    /// By `ID` and `ID_LIKE`, which names what a distribution was made from.
    fn of_release(release: &str) -> Option<Self> {
        let value = |key: &str| {
            let line = release.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.trim().trim_matches(['"', '\'']).to_owned())
        };
        let names = [value("ID="), value("ID_LIKE=")];
        names.iter().flatten().find_map(|names| {
            names.split_ascii_whitespace().find_map(|name| match name {
                "debian" | "ubuntu" => Some(Self::Apt),
                "fedora" | "rhel" | "centos" | "rocky" | "almalinux" | "amzn" | "ol" => {
                    Some(Self::Dnf)
                }
                "alpine" => Some(Self::Apk),
                name if name.starts_with("opensuse") || name.starts_with("sle") => {
                    Some(Self::Zypper)
                }
                "suse" => Some(Self::Zypper),
                _ => None,
            })
        })
    }

    fn program(self) -> &'static str {
        match self {
            Self::Apt => "apt-get",
            Self::Dnf => "dnf",
            Self::Zypper => "zypper",
            Self::Apk => "apk",
        }
    }

    fn packages(self, part: Part<'_>) -> String {
        match (part, self) {
            (Part::Server, Self::Apt | Self::Apk) => "postgresql".into(),
            (Part::Server, Self::Dnf | Self::Zypper) => "postgresql-server".into(),
            (Part::Headers(major, _), Self::Apt) => format!("postgresql-server-dev-{major}"),
            (Part::Headers(major, true), Self::Dnf | Self::Zypper) => {
                format!("postgresql{major}-devel")
            }
            (Part::Headers(_, false), Self::Dnf) => "postgresql-server-devel".into(),
            (Part::Headers(major, false), Self::Zypper) => {
                format!("postgresql{major}-server-devel")
            }
            (Part::Headers(major, _), Self::Apk) => format!("postgresql{major}-dev"),
            (Part::Compiler, Self::Apt) => "gcc libc6-dev".into(),
            (Part::Compiler, Self::Dnf) => "gcc glibc-devel".into(),
            (Part::Compiler, Self::Zypper) => "gcc glibc-devel".into(),
            (Part::Compiler, Self::Apk) => "gcc musl-dev".into(),
            (Part::Valgrind, _) => "valgrind".into(),
            (Part::QemuUser, Self::Apt) => "qemu-user".into(),
            (Part::QemuUser, Self::Dnf) => "qemu-user".into(),
            (Part::QemuUser, Self::Zypper) => "qemu-linux-user".into(),
            (Part::QemuUser, Self::Apk) => "qemu-aarch64 qemu-ppc64le qemu-x86_64".into(),
            (Part::Certificates, _) => "ca-certificates".into(),
        }
    }

    /// The command that installs a part, to be run by root.
    pub fn command(self, part: Part<'_>) -> String {
        let verb = match self {
            Self::Apk => "add",
            _ => "install -y",
        };
        format!("{} {verb} {}", self.program(), self.packages(part))
    }
}

/// How to install a part: this distribution's line, or that of each.
pub fn how(part: Part<'_>) -> String {
    how_with(Manager::here(), part)
}

fn how_with(manager: Option<Manager>, part: Part<'_>) -> String {
    match manager {
        Some(manager) => manager.command(part),
        None => ALL.map(|manager| manager.command(part)).join(", or "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_is_known_by_its_own_name_or_by_its_parent() {
        for (release, wanted) in [
            ("NAME=x\nID=debian\n", Some(Manager::Apt)),
            (
                "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n",
                Some(Manager::Apt),
            ),
            ("ID=\"rhel\"\nID_LIKE=\"fedora\"\n", Some(Manager::Dnf)),
            ("ID=fedora\n", Some(Manager::Dnf)),
            (
                "ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n",
                Some(Manager::Zypper),
            ),
            ("ID=\"sles\"\n", Some(Manager::Zypper)),
            ("ID=alpine\n", Some(Manager::Apk)),
            ("VERSION_ID=3\nID=void\n", None),
            ("", None),
        ] {
            assert_eq!(Manager::of_release(release), wanted, "{release}");
        }
    }

    #[test]
    fn without_a_known_name_the_program_decides() {
        let root = std::env::temp_dir().join(format!("pgassay-packages-{}", std::process::id()));
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::create_dir_all(root.join("sbin")).unwrap();
        fs::write(root.join("etc/os-release"), "ID=postmarketos\n").unwrap();
        assert_eq!(Manager::of_root(&root), None);
        fs::write(root.join("sbin/apk"), "").unwrap();
        assert_eq!(Manager::of_root(&root), Some(Manager::Apk));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn each_distribution_has_its_line() {
        let headers = |manager, pgdg| how_with(manager, Part::Headers("16", pgdg));
        assert_eq!(
            headers(Some(Manager::Apt), false),
            "apt-get install -y postgresql-server-dev-16"
        );
        assert_eq!(
            headers(Some(Manager::Dnf), true),
            "dnf install -y postgresql16-devel"
        );
        assert_eq!(
            headers(Some(Manager::Dnf), false),
            "dnf install -y postgresql-server-devel"
        );
        assert_eq!(
            headers(Some(Manager::Apk), false),
            "apk add postgresql16-dev"
        );
        let anywhere = how_with(None, Part::Compiler);
        for program in ["apt-get install -y gcc", "dnf", "zypper", "apk add gcc"] {
            assert!(anywhere.contains(program), "{anywhere}");
        }
    }
}
