//! The PostgreSQL installations of this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pgassay_sys::trust;
use serde::Serialize;

use super::TargetError;
use super::account::Account;
use super::ask::{Silence, ask};
use super::version::{Version, Wanted};

/// Where distributions and installers put PostgreSQL's programs, as patterns
/// in which `*` stands for one directory's name or a part of it.
const PLACES: &[(&str, &str)] = &[
    ("/usr/lib/postgresql/*/bin", "Debian, Ubuntu"),
    ("/usr/pgsql-*/bin", "PGDG's RPMs"),
    ("/usr/lib/postgresql*/bin", "SUSE"),
    ("/usr/lib64/postgresql-*/bin", "Gentoo"),
    ("/usr/libexec/postgresql*", "Alpine"),
    ("/usr/local/pgsql/bin", "built from source"),
    ("/usr/local/pgsql*/bin", "built from source"),
    ("/opt/*/bin", "/opt"),
    ("/opt/*/*/bin", "/opt"),
    ("/home/linuxbrew/.linuxbrew/opt/postgresql*/bin", "Homebrew"),
];

/// The programs of an installation that pgassay or its user may want.
const TOOLS: &[&str] = &[
    "postgres",
    "initdb",
    "pg_ctl",
    "psql",
    "pgbench",
    "pg_config",
];

/// One PostgreSQL server installation.
#[derive(Debug, Clone, Serialize)]
pub struct Installation {
    /// The directory that holds `postgres`, its links resolved.
    pub bin_dir: PathBuf,
    /// The version that `postgres --version` printed, in its own words.
    pub banner: String,
    /// The version as digits: `15.18`.
    #[serde(serialize_with = "shown")]
    pub version: Version,
    /// Which of the tools worth knowing are there; `initdb` is needed to launch.
    pub tools: BTreeSet<&'static str>,
    /// How it was found: a distribution's directory, PATH, pg_config …
    pub found_by: String,
    /// The report's warning where this is not a build that anybody deploys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
}

fn shown<S: serde::Serializer>(version: &Version, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(version)
}

impl Installation {
    /// The installation of an install prefix or bin directory.
    ///
    /// # Errors
    /// Where there is no `postgres` in it that says its version.
    pub fn at(path: &Path) -> Result<Self, TargetError> {
        if !path.exists() {
            return Err(TargetError::NotFound(format!(
                "{}: there is no such directory",
                path.display()
            )));
        }
        let candidates = [path.to_path_buf(), path.join("bin")];
        match candidates.iter().find(|dir| dir.join("postgres").is_file()) {
            Some(bin_dir) => probe(bin_dir, "named"),
            None => Err(TargetError::NotFound(format!(
                "{}: holds no PostgreSQL server (looked for postgres and bin/postgres); \
                 name an install prefix or a bin directory",
                path.display()
            ))),
        }
    }

    /// The path of one of the installation's programs.
    pub fn tool(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }

    /// Whether a cluster can be launched from it.
    pub fn can_launch(&self) -> bool {
        self.tools.contains("initdb")
    }
}

/// What a search found, newest first.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Installations {
    /// Newest first; releases before development versions.
    pub found: Vec<Installation>,
    /// Directories that hold a `postgres` that was not run or did not say its version, and why.
    pub unusable: BTreeMap<PathBuf, String>,
}

impl Installations {
    /// Looks in PATH, the distributions' directories and what pg_config says.
    pub fn search() -> Self {
        let mut candidates: Vec<(PathBuf, String)> = Vec::new();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path_dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
        for dir in &path_dirs {
            candidates.push((dir.clone(), "PATH".into()));
        }
        for (pattern, whose) in PLACES {
            for dir in expand(pattern) {
                candidates.push((dir, (*whose).to_owned()));
            }
        }
        // One that the user names is as good as what he types.
        let named = std::env::var_os("PG_CONFIG").map(PathBuf::from);
        let configs = named.into_iter().chain(
            path_dirs
                .iter()
                .filter_map(|dir| trust::check(&dir.join("pg_config")).ok()),
        );
        for config in configs.filter(|config| executable(config)) {
            if let Some(dir) = output_of(&config, "--bindir") {
                candidates.push((PathBuf::from(dir), config.display().to_string()));
            }
        }
        Self::of(candidates)
    }

    /// Probes each candidate directory once, whatever the links that lead to it.
    fn of(candidates: Vec<(PathBuf, String)>) -> Self {
        let mut seen = BTreeSet::new();
        let mut all = Self::default();
        for (dir, found_by) in candidates {
            // Debian puts wrappers named like the tools in PATH; the server
            // itself is never wrapped, so its real path tells installations apart.
            let Ok(postgres) = fs::canonicalize(dir.join("postgres")) else {
                continue;
            };
            if !postgres.is_file() || !seen.insert(postgres.clone()) {
                continue;
            }
            let bin_dir = postgres.parent().unwrap_or(&dir).to_path_buf();
            // Nobody has named it: what another user can put there is not run.
            let trusted = trust::check(&postgres).and_then(|_| trust::check(&bin_dir));
            if let Err(why) = trusted {
                all.unusable.insert(
                    bin_dir.clone(),
                    format!(
                        "it was not run: {why}; name the directory to use it nevertheless: \
                         pgassay run select-only {}",
                        bin_dir.display()
                    ),
                );
                continue;
            }
            match probe(&bin_dir, &found_by).map(without_foreign_tools) {
                Ok(installation) => all.found.push(installation),
                Err(error) => {
                    all.unusable.insert(bin_dir, error.to_string());
                }
            }
        }
        all.found.sort_by(|a, b| {
            let rank = |i: &Installation| (i.version.is_release(), i.version);
            rank(b)
                .cmp(&rank(a))
                .then_with(|| a.bin_dir.cmp(&b.bin_dir))
        });
        all
    }

    /// The newest that can be launched.
    ///
    /// # Errors
    /// Where there is none.
    pub fn newest(&self) -> Result<&Installation, TargetError> {
        self.newest_of(Wanted::Newest)
    }

    /// The newest of those wanted that can be launched.
    ///
    /// # Errors
    /// Where there is none; names what is at hand.
    pub fn newest_of(&self, wanted: Wanted) -> Result<&Installation, TargetError> {
        self.found
            .iter()
            .filter(|i| wanted.fits(&i.version))
            .find(|i| i.can_launch())
            .ok_or_else(|| {
                TargetError::NotFound(format!(
                    "no PostgreSQL{wanted} server is installed here; {}",
                    self.at_hand()
                ))
            })
    }

    /// What is at hand, as the end of an error message.
    pub fn at_hand(&self) -> String {
        let mut launchable = self.found.iter().filter(|i| i.can_launch()).peekable();
        if launchable.peek().is_none() && !self.unusable.is_empty() {
            return "what was found can't be used, and `pgassay targets` says why; name a \
                    directory, or install one (on Debian and Ubuntu: apt-get install postgresql)"
                .into();
        }
        if launchable.peek().is_none() {
            return "none was found in PATH, in the distributions' directories, under \
                    /usr/local/pgsql and /opt, or by pg_config. Install one (on Debian and \
                    Ubuntu: apt-get install postgresql), or name its directory"
                .into();
        }
        let list: Vec<String> = launchable
            .map(|i| format!("{} ({})", i.version, i.bin_dir.display()))
            .collect();
        format!("at hand: {}", list.join(", "))
    }
}

/// Asks the server in `bin_dir` for its version and looks which tools are there.
fn probe(bin_dir: &Path, found_by: &str) -> Result<Installation, TargetError> {
    let bin_dir = fs::canonicalize(bin_dir)
        .map_err(|error| TargetError::place(bin_dir, "can't be read", &error))?;
    let postgres = bin_dir.join("postgres");
    let unusable = |why: String| TargetError::NotFound(format!("{}: {why}", postgres.display()));
    if let Some(account) = Account::for_servers()?
        && let Some(barrier) = account.barrier(&postgres)
    {
        return Err(unusable(format!(
            "the server runs as the user {}, who may not enter {}; install it where everybody \
             may read, or run pgassay as the owner",
            account.name,
            barrier.display()
        )));
    }
    let answer = ask(&postgres, "--version").map_err(|silence| match &silence {
        Silence::NotRun(error)
            if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) =>
        {
            unusable(
                "is built for another processor: pgassay inspect reads it, but it can't run here"
                    .into(),
            )
        }
        _ => unusable(silence.to_string()),
    })?;
    let banner = answer.out;
    let Some(version) = Version::in_banner(&banner).filter(|_| answer.status.success()) else {
        let said = if banner.is_empty() {
            &answer.err
        } else {
            &banner
        };
        return Err(unusable(format!(
            "did not say its version ({}): {said}",
            answer.status
        )));
    };
    let tools = TOOLS
        .iter()
        .copied()
        .filter(|tool| executable(&bin_dir.join(tool)))
        .collect();
    Ok(Installation {
        bin_dir,
        banner,
        version,
        tools,
        found_by: found_by.to_owned(),
        caveat: None,
    })
}

/// Whether `path` is a file that somebody may execute.
fn executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The first line that `program argument` prints, where it succeeds.
fn output_of(program: &Path, argument: &str) -> Option<String> {
    let answer = ask(program, argument).ok()?;
    let line = answer.out.lines().next()?.trim();
    (answer.status.success() && !line.is_empty()).then(|| line.to_owned())
}

/// A found installation has only those tools that no other user can change: they may be
/// links to elsewhere.
fn without_foreign_tools(mut installation: Installation) -> Installation {
    let bin_dir = installation.bin_dir.clone();
    installation
        .tools
        .retain(|tool| trust::check(&bin_dir.join(tool)).is_ok());
    installation
}

/// The directories that a pattern of [`PLACES`] names, sorted.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let mut dirs = vec![PathBuf::from("/")];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        let Some((before, after)) = part.split_once('*') else {
            for dir in &mut dirs {
                dir.push(part);
            }
            continue;
        };
        let mut next = Vec::new();
        for dir in &dirs {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let matches = name.to_str().is_some_and(|name| {
                    name.strip_prefix(before)
                        .is_some_and(|rest| rest.ends_with(after))
                });
                if matches {
                    next.push(entry.path());
                }
            }
        }
        next.sort();
        dirs = next;
    }
    dirs.retain(|dir| dir.is_dir());
    dirs
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_model::FailureKind;

    /// A directory with a script named postgres that prints `banner`.
    fn fake(root: &Path, name: &str, banner: &str, tools: &[&str]) -> PathBuf {
        let bin = root.join(name).join("bin");
        fs::create_dir_all(&bin).unwrap();
        for tool in tools {
            let path = bin.join(tool);
            fs::write(&path, format!("#!/bin/sh\necho '{banner}'\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        bin
    }

    #[test]
    fn newest_first_and_each_once() {
        let root = std::env::temp_dir().join(format!("pgassay-find-{}", std::process::id()));
        fs::remove_dir_all(&root).ok();
        let all = &["postgres", "initdb", "psql"];
        let bins = [
            fake(&root, "old", "postgres (PostgreSQL) 9.6.24", all),
            fake(&root, "new", "postgres (PostgreSQL) 17.2", all),
            fake(&root, "devel", "postgres (PostgreSQL) 19devel", all),
            fake(&root, "bare", "postgres (PostgreSQL) 18.1", &["postgres"]),
            fake(&root, "broken", "no version here", all),
        ];
        let link = root.join("link");
        std::os::unix::fs::symlink(root.join("new"), &link).unwrap();
        let mut candidates: Vec<_> = bins
            .iter()
            .map(|bin| (bin.clone(), String::new()))
            .collect();
        candidates.push((link.join("bin"), String::new()));
        let found = Installations::of(candidates);

        let versions: Vec<_> = found.found.iter().map(|i| i.version.to_string()).collect();
        assert_eq!(versions, ["18.1", "17.2", "9.6.24", "19devel"]);
        assert_eq!(found.unusable.len(), 1);
        // 18.1 has no initdb, so 17.2 is the newest that can be launched.
        assert_eq!(found.newest().unwrap().version.to_string(), "17.2");
        let nine = Version::parse("9.6").unwrap();
        assert_eq!(
            found
                .newest_of(Wanted::Major(nine))
                .unwrap()
                .version
                .to_string(),
            "9.6.24"
        );
        let one = |release| found.newest_of(Wanted::Release(Version::parse(release).unwrap()));
        assert_eq!(one("17.2").unwrap().version.to_string(), "17.2");
        let error = one("9.6.3").unwrap_err();
        assert_eq!(error.kind(), FailureKind::Target);
        assert!(error.to_string().contains("PostgreSQL 9.6.3 "), "{error}");
        let thirteen = Wanted::Major(Version::parse("13").unwrap());
        let error = found.newest_of(thirteen).unwrap_err();
        assert!(error.to_string().contains("PostgreSQL 13 "), "{error}");
        assert!(error.to_string().contains("17.2 ("), "{error}");

        assert_eq!(Installation::at(&link).unwrap().version.to_string(), "17.2");
        let nothing = Installation::at(&root).unwrap_err().to_string();
        assert!(nothing.contains("bin/postgres"), "{nothing}");
        fs::remove_dir_all(&root).unwrap();
    }

    /// Attack D5: the search ran whatever another user had put under /opt, as root, and it
    /// became the default.
    #[test]
    fn what_another_user_can_change_is_not_run() {
        let root = std::env::temp_dir().join(format!("pgassay-foreign-{}", std::process::id()));
        fs::remove_dir_all(&root).ok();
        let all = &["postgres", "initdb"];
        let open = |path: &Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
        };
        let evil = fake(&root, "writable", "postgres (PostgreSQL) 19.1", all);
        open(&evil.join("postgres"));
        let swapped = fake(&root, "swapped", "postgres (PostgreSQL) 19.2", all);
        open(&root.join("swapped"));
        let tool = fake(&root, "tool", "postgres (PostgreSQL) 17.2", all);
        open(&tool.join("initdb"));
        let good = fake(&root, "good", "postgres (PostgreSQL) 15.1", all);
        let mut bins = vec![evil, swapped, tool, good.clone()];
        if rustix::process::geteuid().is_root() {
            let given = fake(&root, "given", "postgres (PostgreSQL) 19.3", all);
            std::os::unix::fs::chown(given.join("postgres"), Some(4_000_000), None).unwrap();
            bins.push(given);
        }
        // Each leaves a mark if it is run.
        let marks = root.join("marks");
        fs::create_dir(&marks).unwrap();
        open(&marks);
        for bin in &bins {
            let text = fs::read_to_string(bin.join("postgres")).unwrap();
            let name = bin.parent().unwrap().file_name().unwrap().to_str().unwrap();
            let mark = marks.join(name);
            fs::write(
                bin.join("postgres"),
                format!("{text}touch {}\n", mark.display()),
            )
            .unwrap();
        }
        let expected = bins.len() - 2;
        let found = Installations::of(bins.iter().map(|b| (b.clone(), String::new())).collect());
        let mut run: Vec<_> = fs::read_dir(&marks)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        run.sort();
        assert_eq!(run, ["good", "tool"]);
        assert_eq!(found.newest().unwrap().bin_dir, good);
        assert_eq!(found.unusable.len(), expected, "{:?}", found.unusable);
        for why in found.unusable.values() {
            assert!(
                why.contains("not run") && why.contains("name the directory"),
                "{why}"
            );
        }
        // One that is named is used, whosever it is.
        let named = Installation::at(&root.join("writable")).unwrap();
        assert_eq!(named.version.to_string(), "19.1");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn finds_the_one_installed_here() {
        let found = Installations::search();
        let newest = found
            .newest()
            .expect("the tests need an installed PostgreSQL");
        assert!(newest.tools.contains("postgres"));
        let again = Installation::at(&newest.bin_dir).unwrap();
        assert_eq!(again.version, newest.version);
    }

    #[test]
    fn patterns_match_parts_of_names() {
        assert_eq!(expand("/usr/b*n"), [PathBuf::from("/usr/bin")]);
        assert!(expand("/no/such/*/bin").is_empty());
    }
}
