//! TARGET as typed on the command line, before the machine is looked at.

use std::path::PathBuf;
use std::str::FromStr;

use super::find::{Installation, Installations};
use super::version::{Version, Wanted};
use super::{StandIn, TargetError, scratch};

/// What a TARGET names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum TargetSpec {
    /// `temp`: a throw-away cluster of the newest installed PostgreSQL.
    #[default]
    Temp,
    /// `temp:17`: of the newest of one major version.
    TempMajor(Version),
    /// `temp:17.2`: of one release.
    TempRelease(Version),
    /// An install prefix or bin directory to launch from.
    Prefix(PathBuf),
    /// `build:NAME`: a recorded build to launch from.
    Build(String),
    /// A URI or conninfo of a running server, as typed: it can hold a
    /// password, so it is neither printed nor stored.
    Server(String),
}

/// The forms of a TARGET, for error messages.
const FORMS: &str = "a target is temp, temp:MAJOR, temp:RELEASE, the directory of an installation, \
                     build:NAME, or a server's URI (postgresql://...) or conninfo (host=... dbname=...)";

impl FromStr for TargetSpec {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let text = text.trim();
        if text == "temp" {
            return Ok(Self::Temp);
        }
        if let Some(named) = text.strip_prefix("temp:") {
            return match Version::parse(named) {
                Some(version) if version.major() == named => Ok(Self::TempMajor(version)),
                Some(version) if version.to_string() == named => Ok(Self::TempRelease(version)),
                _ => Err(TargetError::Usage(format!(
                    "temp:{named}: '{named}' is no version; such as temp:17, temp:9.6 or \
                     temp:9.6.24"
                ))),
            };
        }
        if let Some(name) = text.strip_prefix("build:") {
            if name.is_empty() || name.contains('/') || name.starts_with('.') {
                return Err(TargetError::Usage(format!(
                    "build:{name}: a build is named as `pgassay build` recorded it"
                )));
            }
            return Ok(Self::Build(name.to_owned()));
        }
        if text.starts_with("postgresql://") || text.starts_with("postgres://") {
            return Ok(Self::Server(text.to_owned()));
        }
        if text.starts_with("ssh://") || text.starts_with("exec:") {
            // It is not shown either.
            return Err(TargetError::Usage(format!(
                "the target is on another machine, and this command is carried out here; {FORMS}"
            )));
        }
        // A path can hold '=' and a conninfo '/': what a path starts with decides.
        if text.starts_with(['/', '.', '~']) {
            let path = with_home(text);
            // The server's executable stands for its installation.
            let installation = path
                .ends_with("bin/postgres")
                .then(|| path.ancestors().nth(2));
            return Ok(Self::Prefix(match installation.flatten() {
                Some(installation) => installation.to_owned(),
                None => path,
            }));
        }
        if Self::is_mistyped_uri(text) {
            return Err(TargetError::Usage(format!(
                "the target looks like a server's URI, which begins with postgresql:// or \
                 postgres://, such as postgresql://user@host:5432/dbname; {FORMS}"
            )));
        }
        if text.contains('=') {
            return Ok(Self::Server(text.to_owned()));
        }
        if text.contains('/') {
            return Ok(Self::Prefix(PathBuf::from(text)));
        }
        Err(TargetError::Usage(if text.is_empty() {
            format!("the target is empty: {FORMS}")
        } else {
            format!("'{text}' is not a target{}; {FORMS}", meant(text))
        }))
    }
}

/// How files end that other arguments name.
const FILES: &[&str] = &[".json", ".sql", ".toml", ".log", ".txt", ".csv", ".patch"];

/// Suggests the target that a text was most likely meant to be.
fn meant(text: &str) -> String {
    let version = text
        .strip_prefix("temp")
        .or_else(|| text.strip_prefix("pg"));
    let version = version.map(|rest| rest.trim_start_matches(['-', '_', '.', ' ']));
    let suggestion = match version.and_then(Version::parse) {
        Some(version) => format!("temp:{}", version.major()),
        None if pgassay_text::suggestion::nearest(text, ["temp"]).is_some() => "temp".to_owned(),
        None if FILES.iter().any(|ending| text.ends_with(ending)) => {
            return ", and there is no such file".to_owned();
        }
        None if text.contains([' ', '=', ':']) || text.len() > 253 => return String::new(),
        None => format!("host={text}"),
    };
    format!("; did you mean '{suggestion}'?")
}

/// A path with the user's home for a leading `~/` that no shell replaced.
fn with_home(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(text),
    }
}

impl TargetSpec {
    /// Whether a URI without the right scheme was meant. It may hold a password and is not shown.
    pub fn is_mistyped_uri(text: &str) -> bool {
        text.split_once(':').is_some_and(|(before, after)| {
            !before.contains(['=', '/']) && (after.starts_with('/') || after.contains('@'))
        })
    }

    /// Whether pgassay launches the server itself.
    pub fn is_launched(&self) -> bool {
        !matches!(self, Self::Server(_))
    }

    /// The archive that can stand in where no fitting PostgreSQL is installed.
    pub fn stand_in(&self) -> Option<StandIn> {
        self.stand_in_for(std::env::consts::ARCH)
    }

    /// The same for another processor, as `uname -m` names it.
    pub fn stand_in_for(&self, processor: &str) -> Option<StandIn> {
        StandIn::find_for(processor, self.wanted()?)
    }

    /// Which version is to be launched, where it is not an installation that is named.
    pub fn wanted(&self) -> Option<Wanted> {
        match self {
            Self::Temp => Some(Wanted::Newest),
            Self::TempMajor(major) => Some(Wanted::Major(*major)),
            Self::TempRelease(release) => Some(Wanted::Release(*release)),
            Self::Prefix(_) | Self::Build(_) | Self::Server(_) => None,
        }
    }

    /// The directory of a server's programs that a directory or a build names, whatever processor they are for; none of
    /// another form of target. Nothing in it is run.
    ///
    /// # Errors
    /// Where there is none.
    pub fn programs(&self) -> Result<Option<PathBuf>, TargetError> {
        let prefix = match self {
            Self::Prefix(path) => path.clone(),
            Self::Build(name) => build(name)?,
            Self::Temp | Self::TempMajor(_) | Self::TempRelease(_) | Self::Server(_) => {
                return Ok(None);
            }
        };
        let mut places = [prefix.join("bin"), prefix.clone()].into_iter();
        match places.find(|dir| dir.join("postgres").is_file()) {
            Some(dir) => Ok(Some(dir)),
            None => Err(TargetError::NotFound(format!(
                "{}: holds no PostgreSQL server (looked for bin/postgres and postgres)",
                prefix.display()
            ))),
        }
    }

    /// The installation to launch; `None` for a server that already runs.
    ///
    /// # Errors
    /// Where it is not at hand; names what is.
    pub fn installation(
        &self,
        at_hand: &Installations,
    ) -> Result<Option<Installation>, TargetError> {
        if let Some(wanted) = self.wanted() {
            return at_hand.newest_of(wanted).cloned().map(Some);
        }
        match self {
            Self::Prefix(path) => Installation::at(path).and_then(launchable).map(Some),
            Self::Build(name) => Installation::at(&build(name)?)
                .and_then(launchable)
                .map(Some),
            _ => Ok(None),
        }
    }
}

/// Where a build is.
fn build(name: &str) -> Result<PathBuf, TargetError> {
    let dirs = scratch::build_dirs();
    let mut prefixes = dirs.iter().map(|dir| dir.join(name));
    prefixes.find(|prefix| prefix.is_dir()).ok_or_else(|| {
        TargetError::NotFound(format!(
            "build:{name}: there is no such build; {}",
            names_in(&dirs)
        ))
    })
}

/// Refuses an installation without `initdb`, which launching needs.
fn launchable(installation: Installation) -> Result<Installation, TargetError> {
    if installation.can_launch() {
        return Ok(installation);
    }
    Err(TargetError::NotFound(format!(
        "{}: has postgres but no initdb, so no cluster can be made from it",
        installation.bin_dir.display()
    )))
}

/// The builds at hand, as the end of an error message.
fn names_in(dirs: &[PathBuf]) -> String {
    let mut names: Vec<String> = dirs
        .iter()
        .filter_map(|dir| std::fs::read_dir(dir).ok())
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        "none is recorded; `pgassay build` makes them".into()
    } else {
        format!("recorded: {}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgassay_model::FailureKind;

    #[test]
    fn each_form_is_told_by_how_it_starts() {
        let server = |text: &str| TargetSpec::Server(text.to_owned());
        let prefix = |text: &str| TargetSpec::Prefix(PathBuf::from(text));
        let cases = [
            ("temp", TargetSpec::Temp),
            (
                "temp:17",
                TargetSpec::TempMajor(Version::parse("17").unwrap()),
            ),
            (
                "temp:9.6",
                TargetSpec::TempMajor(Version::parse("9.6").unwrap()),
            ),
            (
                "temp:9.6.3",
                TargetSpec::TempRelease(Version::parse("9.6.3").unwrap()),
            ),
            (
                "temp:18beta1",
                TargetSpec::TempRelease(Version::parse("18beta1").unwrap()),
            ),
            ("/usr/local/pgsql", prefix("/usr/local/pgsql")),
            ("./pg=odd", prefix("./pg=odd")),
            ("../pg", prefix("../pg")),
            ("inst/bin", prefix("inst/bin")),
            ("build:o2-lse", TargetSpec::Build("o2-lse".into())),
            (
                "postgres://u:p@h/d?sslmode=require",
                server("postgres://u:p@h/d?sslmode=require"),
            ),
            ("host=/tmp dbname=x", server("host=/tmp dbname=x")),
            ("service=prod", server("service=prod")),
        ];
        for (text, spec) in cases {
            assert_eq!(text.parse::<TargetSpec>().unwrap(), spec, "{text}");
        }
    }

    #[test]
    fn a_target_that_is_nearly_one_is_suggested() {
        for (text, suggested) in [
            ("temp15", "did you mean 'temp:15'?"),
            ("pg-17", "did you mean 'temp:17'?"),
            ("tmep", "did you mean 'temp'?"),
            ("db1", "did you mean 'host=db1'?"),
            ("facts.json", "there is no such file"),
        ] {
            let error = text.parse::<TargetSpec>().unwrap_err().to_string();
            assert!(error.contains(suggested), "{error}");
        }
        let executable: TargetSpec = "/usr/lib/postgresql/15/bin/postgres".parse().unwrap();
        assert_eq!(
            executable,
            TargetSpec::Prefix("/usr/lib/postgresql/15".into())
        );
    }

    #[test]
    fn what_is_no_target_is_refused_with_the_forms() {
        for text in [
            "",
            "  ",
            "tmp",
            "temp:",
            "temp:x",
            "temp:017",
            "temp:9",
            "temp:17.2.1",
            "build:",
            "build:../x",
            "mydb",
        ] {
            let error = text.parse::<TargetSpec>().unwrap_err();
            assert_eq!(error.kind(), FailureKind::Usage, "{text}");
        }
        let text = "temp:x".parse::<TargetSpec>().unwrap_err().to_string();
        assert!(text.contains("temp:17"), "{text}");
    }

    /// Attack D19: the message for a mistyped scheme held the password.
    #[test]
    fn a_mistyped_uri_is_told_without_its_password() {
        for text in [
            "postgress://u:geheim@h",
            "postgresql:/u:geheim@h",
            "u:geheim@h",
            "u:geheim@h/d?sslmode=require",
        ] {
            let error = text.parse::<TargetSpec>().unwrap_err();
            assert_eq!(error.kind(), FailureKind::Usage, "{text}");
            let said = error.to_string();
            assert!(
                said.contains("postgresql://") && !said.contains("geheim"),
                "{said}"
            );
        }
    }

    #[test]
    fn a_missing_installation_is_exit_code_3() {
        let none = Installations::default();
        let temp = TargetSpec::Temp.installation(&none).unwrap_err();
        assert_eq!(temp.kind(), FailureKind::Target);
        assert!(
            temp.to_string().contains("apt-get install postgresql"),
            "{temp}"
        );
        let build = TargetSpec::Build("no-such".into())
            .installation(&none)
            .unwrap_err();
        assert!(build.to_string().contains("no such build"), "{build}");
        assert!(
            TargetSpec::Server("host=x".into())
                .installation(&none)
                .unwrap()
                .is_none()
        );
    }
}
