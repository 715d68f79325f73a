//! PostgreSQL's version, as `postgres --version` prints it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A PostgreSQL version, ordered as releases are: 9.6.24 < 10.0 < 18beta1 < 18.0.
///
/// Up to 9.6 a major version had two numbers; from 10 it has one
/// (PostgreSQL's versioning policy).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Version {
    /// As in `server_version_num` without its minor part: 90600, 150000.
    major_num: u32,
    stage: Stage,
    /// The minor release, or the number of the beta or release candidate.
    minor: u32,
}

/// Which of the versions at hand is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// Any: the newest.
    #[default]
    Newest,
    /// The newest of a major version.
    Major(Version),
    /// One release and no other.
    Release(Version),
}

impl Wanted {
    /// Whether a version is one that is wanted.
    pub fn fits(&self, version: &Version) -> bool {
        match self {
            Self::Newest => true,
            Self::Major(major) => version.same_major(major),
            Self::Release(release) => version == release,
        }
    }

    /// The version that was named, if any.
    pub fn version(&self) -> Option<&Version> {
        match self {
            Self::Newest => None,
            Self::Major(version) | Self::Release(version) => Some(version),
        }
    }
}

impl fmt::Display for Wanted {
    /// As it stands after "PostgreSQL": empty, ` 9.6`, ` 9.6.3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newest => Ok(()),
            Self::Major(major) => write!(f, " {}", major.major()),
            Self::Release(release) => write!(f, " {release}"),
        }
    }
}

/// How far a major version has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
enum Stage {
    Devel,
    Alpha,
    Beta,
    Candidate,
    Release,
}

impl Version {
    /// Finds the version in `postgres --version`'s line, such as
    /// `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
    pub fn in_banner(line: &str) -> Option<Self> {
        line.split_whitespace()
            .filter(|word| word.starts_with(|first: char| first.is_ascii_digit()))
            .find_map(Self::parse)
    }

    /// Parses `15.18`, `9.6.24`, `18beta2`, `19devel`; also `15` and `9.6`.
    pub fn parse(text: &str) -> Option<Self> {
        let digits_end = text
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(text.len());
        let (numbers, suffix) = text.split_at(digits_end);
        let mut parts = numbers.split('.').map(|part| part.parse::<u32>().ok());
        let first = parts.next()??;
        let mut rest = Vec::new();
        for part in parts {
            rest.push(part?);
        }
        let (major_num, minor) = match (first, rest.as_slice()) {
            (..10, [second]) if *second < 100 => (first * 10_000 + second * 100, 0),
            (..10, [second, minor]) if *second < 100 => (first * 10_000 + second * 100, *minor),
            (10..1000, []) => (first * 10_000, 0),
            (10..1000, [minor]) => (first * 10_000, *minor),
            _ => return None,
        };
        let numbered = |word: &str| suffix.strip_prefix(word)?.parse::<u32>().ok();
        let (stage, minor) = if suffix.is_empty() {
            (Stage::Release, minor)
        } else if suffix == "devel" {
            (Stage::Devel, 0)
        } else if let Some(number) = numbered("alpha") {
            (Stage::Alpha, number)
        } else if let Some(number) = numbered("beta") {
            (Stage::Beta, number)
        } else {
            (Stage::Candidate, numbered("rc")?)
        };
        Some(Self {
            major_num,
            stage,
            minor,
        })
    }

    /// The major version as people write it: `9.6`, `15`.
    pub fn major(&self) -> String {
        if self.major_num < 100_000 {
            format!("{}.{}", self.major_num / 10_000, self.major_num / 100 % 100)
        } else {
            (self.major_num / 10_000).to_string()
        }
    }

    /// The number that `server_version_num` gives, without regard to a stage
    /// before release: 90624, 150018.
    pub fn num(&self) -> u32 {
        match self.stage {
            Stage::Release => self.major_num + self.minor,
            _ => self.major_num,
        }
    }

    /// Whether it is a release, not a development or test version.
    pub fn is_release(&self) -> bool {
        self.stage == Stage::Release
    }

    /// Whether it is of the same major version as `other`.
    pub fn same_major(&self, other: &Self) -> bool {
        self.major_num == other.major_num
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.stage {
            Stage::Devel => format!("{}devel", self.major()),
            Stage::Alpha => format!("{}alpha{}", self.major(), self.minor),
            Stage::Beta => format!("{}beta{}", self.major(), self.minor),
            Stage::Candidate => format!("{}rc{}", self.major(), self.minor),
            Stage::Release => format!("{}.{}", self.major(), self.minor),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banners_of_packages_and_builds() {
        let cases = [
            (
                "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)",
                "15.18",
                150_018,
            ),
            ("postgres (PostgreSQL) 9.6.24", "9.6.24", 90_624),
            ("postgres (PostgreSQL) 19devel", "19devel", 190_000),
            ("postgres (PostgreSQL) 18beta1", "18beta1", 180_000),
            ("postgres (PostgreSQL) 17rc1", "17rc1", 170_000),
            ("postgres (EnterpriseDB) 16.4.1", "", 0),
            ("postgres (PostgreSQL) ", "", 0),
            ("bash: postgres: 1 error", "", 0),
        ];
        for (line, shown, num) in cases {
            match Version::in_banner(line) {
                Some(version) => {
                    assert_eq!(version.to_string(), shown, "{line}");
                    assert_eq!(version.num(), num, "{line}");
                }
                None => assert_eq!(shown, "", "{line}"),
            }
        }
    }

    #[test]
    fn ordered_as_released() {
        let order = [
            "9.5.25", "9.6", "9.6.24", "10.0", "10.23", "18devel", "18beta1", "18beta2", "18rc1",
            "18.0", "18.1",
        ];
        let versions: Vec<_> = order
            .iter()
            .map(|text| Version::parse(text).unwrap())
            .collect();
        assert!(versions.is_sorted());
        assert_eq!(Version::parse("9.6").unwrap().major(), "9.6");
        assert!(!Version::parse("15").unwrap().same_major(&versions[0]));
        for bad in [
            "",
            "9",
            "x",
            "15.",
            "15.1.2",
            "1.2.3.4",
            "99999999999",
            "15foo",
            "1000",
            "9.999.1",
        ] {
            assert!(Version::parse(bad).is_none(), "{bad}");
        }
    }
}
