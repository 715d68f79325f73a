//! pg_dump and pg_restore: which are at hand, and how they are run.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pgassay_pgwire::Conninfo;
use pgassay_sys::private::Directory;
use pgassay_sys::programs;
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
        let mut command = programs::command(self.dir.join(tool));
        command.env("LC_MESSAGES", "C").arg("--no-password");
        command
    }

    fn at(dir: PathBuf) -> Option<Self> {
        if !dir.join("pg_restore").is_file() {
            return None;
        }
        let output = programs::command(dir.join("pg_dump"))
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

/// Names the original to a tool: neither its arguments nor its environment have a password in them. One that was typed,
/// or is in our environment, comes by a password file in a directory of its own below `private`, which is to be kept
/// until the tool has ended.
///
/// # Errors
/// Where the file can't be written, or can't hold the password.
pub(super) fn name_original(
    command: &mut Command,
    typed: &str,
    conninfo: &Conninfo,
    private: &Path,
) -> Result<Option<Directory>, TargetError> {
    let mut secrets = conninfo
        .hosts
        .iter()
        .filter_map(|host| host.password.as_ref());
    let is_typed = typed.contains("password") || typed.contains("://");
    let is_ours = is_typed || std::env::var_os("PGPASSWORD").is_some();
    let Some(secret) = secrets.next().filter(|_| is_ours) else {
        command.arg(format!("--dbname={typed}"));
        return Ok(None);
    };
    // libpq takes a line's end, and a carriage return before it, for the end of the password.
    if secret.reveal().iter().any(|byte| b"\n\r".contains(byte)) {
        return Err(TargetError::Usage(
            "the password has a line break, which a password file can't hold, and pg_dump is given it in one; \
             give the role another password, or let it connect without one (peer, a certificate)"
                .to_owned(),
        ));
    }
    let directory = Directory::make(private, "passfile")
        .map_err(|error| TargetError::place(private, "can't hold a password file", &error))?;
    let file = directory.path().join("passfile");
    write_passfile(&file, secret.reveal())
        .map_err(|error| TargetError::place(&file, "can't be written", &error))?;
    command.env("PGPASSFILE", &file);
    // A password file that was typed would be read instead.
    if !is_typed && !typed.contains("passfile") {
        command.arg(format!("--dbname={typed}"));
        return Ok(Some(directory));
    }
    command.arg(format!("--dbname={}", conninfo.redacted()));
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
    Ok(Some(directory))
}

/// Writes a new file as libpq reads it (manual, "The Password File"): for all servers, databases and users.
fn write_passfile(path: &Path, secret: &[u8]) -> io::Result<()> {
    let mut line = b"*:*:*:*:".to_vec();
    for byte in secret {
        if matches!(byte, b':' | b'\\') {
            line.push(b'\\');
        }
        line.push(*byte);
    }
    line.push(b'\n');
    let mut options = OpenOptions::new();
    // What is there already, a link too, is refused: it is not ours.
    options.write(true).create_new(true).mode(0o600);
    options.open(path)?.write_all(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

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
    fn a_password_comes_by_a_file_that_nobody_else_may_read() {
        let private = Directory::make(&std::env::temp_dir(), "pgassay-tools").unwrap();
        let typed = r"host=127.0.0.1 user=me dbname=shop password='hu\\sh:it' sslmode=require";
        let conninfo = Conninfo::parse(typed).unwrap();
        let mut command = Command::new("pg_dump");
        let own = name_original(&mut command, typed, &conninfo, private.path());
        let own = own.unwrap().expect("a directory");
        let arguments: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
        assert!(
            !arguments.iter().any(|argument| argument.contains("sh:it")),
            "{arguments:?}"
        );
        let envs: Vec<_> = command.get_envs().collect();
        let file = own.path().join("passfile");
        assert!(envs.contains(&("PGPASSFILE".as_ref(), Some(file.as_os_str()))));
        assert!(!envs.iter().any(|(name, _)| *name == "PGPASSWORD"));
        assert_eq!(fs::read(&file).unwrap(), b"*:*:*:*:hu\\\\sh\\:it\n");
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(own);
        assert_eq!(fs::read_dir(private.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_password_file_is_not_written_through_a_link() {
        let private = Directory::make(&std::env::temp_dir(), "pgassay-tools").unwrap();
        let (other, file) = (
            private.path().join("other"),
            private.path().join("passfile"),
        );
        fs::write(&other, "theirs").unwrap();
        symlink(&other, &file).unwrap();
        let error = write_passfile(&file, b"secret").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&other).unwrap(), b"theirs");
    }

    #[test]
    fn a_password_that_no_file_can_hold_is_refused() {
        let private = Directory::make(&std::env::temp_dir(), "pgassay-tools").unwrap();
        let typed = "postgresql://me:one%0Atwo@127.0.0.1/shop";
        let conninfo = Conninfo::parse(typed).unwrap();
        let mut command = Command::new("pg_dump");
        let error = name_original(&mut command, typed, &conninfo, private.path()).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("line break") && said.contains("give the role"),
            "{said}"
        );
        assert!(!said.contains("two"), "{said}");
        assert_eq!(fs::read_dir(private.path()).unwrap().count(), 0);
    }
}
