//! pg_dump and pg_restore: which are at hand, and how they are run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pgassay_pgwire::Conninfo;
use rustix::process::{Pid, Signal, kill_process_group};

use super::find::Installation;
use super::{Installations, TargetError, Version};

/// How often a tool is looked at while it runs.
const POLL: Duration = Duration::from_millis(50);
/// Lines of a tool's complaints that are kept.
const COMPLAINTS: usize = 5;

/// pg_dump and pg_restore of one version.
#[derive(Debug, Clone)]
pub(super) struct Tools {
    dir: PathBuf,
    pub(super) version: Version,
}

impl Tools {
    /// All that are at hand, the oldest first.
    pub(super) fn all(installations: &[Installation]) -> Vec<Self> {
        let found = Installations::search().found;
        let dirs = installations.iter().chain(&found);
        let dirs = dirs.map(|installation| installation.bin_dir.clone());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut all: Vec<Self> = dirs
            .chain(std::env::split_paths(&path))
            .filter_map(Self::at)
            .collect();
        all.sort_by_key(|tools| tools.version);
        all
    }

    /// Tools that can read a server of that version: a pg_dump refuses servers newer than itself. The oldest
    /// ones that can: they know best what its catalog holds, and old servers understand their dumps best.
    pub(super) fn for_server(all: &[Self], source: u32) -> Result<Self, TargetError> {
        let chosen = Self::choose(all, source);
        chosen.cloned().ok_or_else(|| {
            let at_hand = match all.last() {
                None => "there is no pg_dump with a pg_restore".to_owned(),
                Some(newest) => format!("the newest pg_dump here is {}", newest.version),
            };
            let major = Version::parse(&(source / 10_000).to_string());
            let major = major.map_or_else(|| "its".to_owned(), |major| major.major());
            TargetError::NotFound(format!(
                "a copy of a database of PostgreSQL {major} needs pg_dump and pg_restore {major} or newer, and \
                 {at_hand}; install them (on Debian and Ubuntu: apt-get install postgresql-client-{major}), or \
                 put them into PATH"
            ))
        })
    }

    /// Of those sorted by version, the one to use.
    fn choose(all: &[Self], source: u32) -> Option<&Self> {
        let major = source / 100;
        all.iter().find(|tools| tools.version.num() / 100 >= major)
    }

    pub(super) fn command(&self, tool: &str) -> Command {
        let mut command = Command::new(self.dir.join(tool));
        command.env("LC_MESSAGES", "C").arg("--no-password");
        command
    }

    fn at(dir: PathBuf) -> Option<Self> {
        if !dir.join("pg_restore").is_file() {
            return None;
        }
        let output = Command::new(dir.join("pg_dump"))
            .arg("--version")
            .output()
            .ok()?;
        let version = Version::in_banner(&String::from_utf8_lossy(&output.stdout))?;
        Some(Self { dir, version })
    }
}

/// Whether a tool ended well, and the first lines that it complained with.
pub(super) fn run(
    mut command: Command,
    log: &Path,
    stop: &AtomicBool,
) -> Result<(bool, Vec<String>), TargetError> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let place = |error: std::io::Error| TargetError::place(&tool, "can't be run", &error);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(log).map_err(place)?);
    let mut child = pgassay_sys::bound::spawn(command, Signal::TERM).map_err(place)?;
    let status = loop {
        if stop.load(Ordering::Relaxed) {
            kill_process_group(Pid::from_child(&child), Signal::TERM).ok();
            child.wait().ok();
            return Err(TargetError::Interrupted);
        }
        match child.try_wait().map_err(place)? {
            Some(status) => break status,
            None => std::thread::sleep(POLL),
        }
    };
    let said = fs::read(log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    Ok((status.success(), complaints(&said)))
}

/// The lines of a tool's messages that say what is wrong, without its name.
fn complaints(said: &str) -> Vec<String> {
    let lines = said.lines().map(|line| {
        let line = line.trim();
        let told = ["pg_dump: ", "pg_restore: "]
            .iter()
            .find_map(|tool| line.strip_prefix(tool));
        let line = told.unwrap_or(line);
        line.strip_prefix("error: ").unwrap_or(line).to_owned()
    });
    let noise = |line: &String| {
        line.is_empty()
            || [
                "while PROCESSING TOC",
                "from TOC entry",
                "Command was",
                "warning:",
            ]
            .iter()
            .any(|beginning| line.starts_with(beginning))
    };
    let lines: Vec<String> = lines.filter(|line| !noise(line)).collect();
    let more = lines.len().saturating_sub(COMPLAINTS);
    let mut kept: Vec<String> = lines.into_iter().take(COMPLAINTS).collect();
    if more > 0 {
        kept.push(format!("and {more} more lines"));
    }
    kept
}

/// Names the original to a tool: what `ps` shows has no password in it.
pub(super) fn name_original(command: &mut Command, typed: &str, conninfo: &Conninfo) {
    let secret = conninfo
        .hosts
        .iter()
        .find_map(|host| host.password.as_ref());
    let is_typed = typed.contains("password") || typed.contains("://");
    let Some(secret) = secret.filter(|_| is_typed) else {
        command.arg(format!("--dbname={typed}"));
        return;
    };
    command.arg(format!("--dbname={}", conninfo.redacted()));
    command.env(
        "PGPASSWORD",
        String::from_utf8_lossy(secret.reveal()).as_ref(),
    );
    let files = [
        (
            "PGSSLCERT",
            conninfo.tls.certificate.as_ref().map(|(path, _)| path),
        ),
        ("PGSSLKEY", conninfo.tls.key.as_ref()),
    ];
    for (variable, path) in files {
        if let Some(path) = path {
            command.env(variable, path);
        }
    }
    match &conninfo.tls.root {
        Some(pgassay_pgwire::RootCert::File { path, .. }) => {
            command.env("PGSSLROOTCERT", path);
        }
        Some(pgassay_pgwire::RootCert::System) => {
            command.env("PGSSLROOTCERT", "system");
        }
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(version: &str) -> Tools {
        Tools {
            dir: PathBuf::from("/usr/bin"),
            version: Version::parse(version).unwrap(),
        }
    }

    #[test]
    fn a_dump_is_made_by_tools_that_can_read_the_server() {
        let all = [
            tools("9.6.24"),
            tools("15.18"),
            tools("17.2"),
            tools("18.1"),
        ];
        let chosen = |source| Tools::choose(&all, source).map(|tools| tools.version.to_string());
        // A minor release that is older reads it all the same.
        assert_eq!(chosen(150_020).as_deref(), Some("15.18"));
        assert_eq!(chosen(160_003).as_deref(), Some("17.2"));
        assert_eq!(chosen(90_623).as_deref(), Some("9.6.24"));
        assert_eq!(chosen(190_000), None);
    }

    #[test]
    fn of_what_tools_say_the_errors_are_kept() {
        let said = "pg_restore: error: could not execute query: ERROR:  extension \"postgis\" is not available\n\
                    Command was: CREATE EXTENSION IF NOT EXISTS postgis;\n\n\
                    pg_restore: from TOC entry 217; 1259 16391 TABLE t\n\
                    pg_restore: warning: errors ignored on restore: 1\n";
        assert_eq!(
            complaints(said),
            ["could not execute query: ERROR:  extension \"postgis\" is not available"]
        );
        assert_eq!(complaints(&"x\n".repeat(9)).len(), COMPLAINTS + 1);
    }

    #[test]
    fn a_password_is_not_among_the_arguments() {
        let typed = "host=127.0.0.1 user=me dbname=shop password=hush sslmode=require";
        let conninfo = Conninfo::parse(typed).unwrap();
        let mut command = Command::new("pg_dump");
        name_original(&mut command, typed, &conninfo);
        let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
        assert!(
            !arguments.iter().any(|argument| argument.contains("hush")),
            "{arguments:?}"
        );
        let secret = command.get_envs().find(|(name, _)| *name == "PGPASSWORD");
        assert_eq!(secret.and_then(|(_, value)| value), Some("hush".as_ref()));
    }
}
