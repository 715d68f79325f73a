//! Options of mounts and attributes of files by which each write waits for the device, which the server does not need.

use crate::detect::common::wait_shares;
use crate::detect::common::waiting::waiting;
use crate::detect::prelude::*;
use pgassay_model::storage::{Directory, Holds};
use pgassay_text::shell_word;

/// A share of the sessions' time at writes from which on they matter.
const NOTABLE: f64 = 0.1;

/// How the kernel is told to write.
struct Way {
    /// The option of a mount, and the types of file systems that have it; all of them where none is named.
    option: &'static str,
    on: &'static [&'static str],
    /// The attribute, by its letter.
    attribute: Option<char>,
    /// What it does.
    does: &'static str,
    severity: Severity,
}

const WAYS: &[Way] = &[
    Way {
        option: "sync",
        on: &[],
        attribute: Some('S'),
        does: "each write waits until it is on the device",
        severity: Severity::High,
    },
    Way {
        option: "noac",
        on: &["nfs", "nfs4"],
        attribute: None,
        does: "each write waits until it is on the server of the files, and attributes are asked for each time",
        severity: Severity::High,
    },
    Way {
        option: "data=journal",
        on: &["ext3", "ext4"],
        attribute: Some('j'),
        does: "everything is written twice, first into the journal",
        severity: Severity::Medium,
    },
    Way {
        option: "dirsync",
        on: &[],
        attribute: Some('D'),
        does: "files are made, renamed and removed one flush at a time",
        severity: Severity::Low,
    },
    Way {
        option: "wsync",
        on: &["xfs"],
        attribute: None,
        does: "files are made, renamed and removed one flush at a time",
        severity: Severity::Low,
    },
];

/// One of these ways, where it was found.
struct Found<'a> {
    way: &'static Way,
    directory: &'a Directory,
    /// The directories with the attribute; none where it is the mount's option.
    attributed: Vec<&'a str>,
}

impl Found<'_> {
    /// The log is flushed at commits in any case.
    fn severity(&self) -> Severity {
        match self.directory.holds {
            Holds::Wal => self.way.severity.min(Severity::Medium),
            Holds::Data | Holds::Tablespace => self.way.severity,
        }
    }

    /// `base of the data directory has the attribute S (chattr): …`
    fn says(&self) -> String {
        let (of, way) = (self.directory, self.way);
        let how = match (self.attributed.first(), way.attribute) {
            (Some(first), Some(letter)) => {
                let more = match self.attributed.len() {
                    1 => String::new(),
                    many => format!(" and {} more directories", many - 1),
                };
                format!("has the attribute {letter} (chattr) at {first}{more}")
            }
            _ => format!("is mounted with {} at {}", way.option, of.mounted_at),
        };
        format!("The {} {how}: {}.", of.holds.words(), way.does)
    }

    fn remedied(&self, seen: Observation) -> Observation {
        let place = shell_word(&self.directory.mounted_at);
        match (self.attributed.first(), self.way.attribute) {
            (Some(first), Some(letter)) => seen.shell(format!(
                "chattr -R -{letter} {}   # holds at once, for files that are open, too",
                shell_word(above_all(first, &self.attributed))
            )),
            _ if self.way.option == "sync" => seen.shell(format!(
                "mount -o remount,async {place}   # and without sync in /etc/fstab, or in the volume's mountOptions"
            )),
            _ => seen.advice(format!(
                "mount {place} without {}: take it out of /etc/fstab or the volume's mountOptions, stop the server, umount and mount",
                self.way.option
            )),
        }
    }
}

/// The directory above all of them.
fn above_all<'a>(first: &'a str, all: &[&str]) -> &'a str {
    let mut above = first;
    while !all
        .iter()
        .all(|one| std::path::Path::new(one).starts_with(above))
    {
        match above.rsplit_once('/') {
            Some((upper, _)) if !upper.is_empty() => above = upper,
            _ => return "/",
        }
    }
    above
}

/// All of them, the gravest first.
fn found(directories: &[Directory]) -> Vec<Found<'_>> {
    let mut all: Vec<Found> = WAYS
        .iter()
        .flat_map(|way| {
            directories
                .iter()
                .filter_map(|directory| at(way, directory))
        })
        .collect();
    all.sort_by_key(|found| std::cmp::Reverse(found.severity()));
    all
}

fn at<'a>(way: &'static Way, directory: &'a Directory) -> Option<Found<'a>> {
    let has_it = way.on.is_empty() || way.on.contains(&directory.file_system.as_str());
    let mounted = has_it
        && directory
            .options
            .split(',')
            .any(|option| option == way.option);
    let attributed: Vec<&str> = match (way.attribute, &directory.attributes) {
        (Some(letter), Some(attributes)) if !mounted => attributes
            .iter()
            .filter(|(_, letters)| letters.contains(letter))
            .map(|(path, _)| path.as_str())
            .collect(),
        _ => Vec::new(),
    };
    (mounted || !attributed.is_empty()).then_some(Found {
        way,
        directory,
        attributed,
    })
}

/// What was found as an observation: the gravest leads.
fn observed(all: &[Found], begun: impl FnOnce(String) -> Observation) -> Option<Observation> {
    let first = all.first()?;
    let seen = begun(first.says()).severity(first.severity());
    let seen = seen.all_seen(all[1..].iter().map(Found::says));
    Some(all.iter().fold(seen, |seen, found| found.remedied(seen)))
}

pub fn audit(seen: &FactView) -> Judged {
    let directories = seen.directories()?;
    let all = found(directories);
    let state = |saw| Observation::new(Severity::High, Confidence::High, saw);
    if let Some(seen) = observed(&all, state) {
        return seen.found();
    }
    if directories
        .iter()
        .all(|directory| directory.attributes.is_none())
    {
        return could_not_see(
            "the attributes of the server's directories (as root or as the server's user they are); no option of their mounts \
             makes writes wait",
        );
    }
    let of: Vec<String> = directories
        .iter()
        .map(|d| format!("{}: {}", d.holds.words(), d.options))
        .collect();
    passed(of.join("; "))
}

/// Waits for writes that the kernel would else take over at once.
fn is_write(kind: &str, event: &str, with_log: bool) -> bool {
    let event = event.to_ascii_lowercase();
    match kind {
        "IO" if event.starts_with("wal") => with_log && event == "walwrite",
        "IO" => event.ends_with("write") || event.ends_with("extend"),
        "Lock" => event == "extend",
        _ => false,
    }
}

pub fn in_run(evidence: &Evidence) -> Option<Observation> {
    let run: RunEvidence = evidence.run?;
    let directories = &run.load.reads.as_ref()?.storage.directories;
    let all = found(directories);
    let grave: Vec<&Found> = all
        .iter()
        .filter(|found| found.way.severity >= Severity::Medium)
        .collect();
    let with_log = grave
        .iter()
        .any(|found| found.directory.holds == Holds::Wal);
    let pick = |kind: &str, event: &str| is_write(kind, event, with_log);
    let share = run.wait_share(pick).filter(|share| *share >= NOTABLE)?;
    grave.first()?;
    let seen = observed(&all, |saw| {
        let saw = format!(
            "{saw} {} of {} goes to waits for that.",
            tenths(share),
            run.whole()
        );
        waiting(evidence, &run, (share, saw), pick)
    })?;
    Some(seen.all_seen(wait_shares::who(&run, pick)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::detect::tests::made::{found_in_directories, one};
    use crate::finding::Finding;

    fn directory(holds: Holds, options: &str, attributed: &[&str]) -> Directory {
        let attributes = attributed
            .iter()
            .map(|path| ((*path).to_owned(), "S".to_owned()));
        Directory {
            holds,
            path: "/srv/pg".to_owned(),
            mounted_at: "/srv".to_owned(),
            file_system: "ext4".to_owned(),
            options: options.to_owned(),
            attributes: Some(attributes.collect::<BTreeMap<_, _>>()),
            ..Directory::default()
        }
    }

    const GROWS: &[(&str, &str, f64)] = &[("Lock", "extend", 3.0), ("IO", "DataFileExtend", 2.0)];

    fn steps(finding: &Finding) -> Vec<&str> {
        finding
            .remedy
            .iter()
            .map(|step| step.text.as_str())
            .collect()
    }

    #[test]
    fn waits_for_each_write_are_the_file_systems_doing() {
        let attributed = directory(Holds::Data, "rw", &["/srv/pg/base", "/srv/pg/base/5"]);
        let found = found_in_directories(GROWS, vec![attributed], |_| {});
        let written = one(&found, "written-through");
        assert!((written.budget_share.unwrap() - 5.0 / 5.6).abs() < 1e-9);
        assert_eq!(written.severity, Severity::High);
        assert!(
            steps(written)[0].starts_with("chattr -R -S /srv/pg/base "),
            "{written:?}"
        );
        // The queue for the table, and the wait for its file, are what it shows itself by.
        for id in ["relation-extension", "wait-event/IO:DataFileExtend"] {
            assert_eq!(
                one(&found, id).cause.as_deref(),
                Some("written-through"),
                "{id}"
            );
        }

        let mounted = directory(Holds::Tablespace, "rw,relatime,rw,sync", &[]);
        let found = found_in_directories(GROWS, vec![mounted], |_| {});
        assert!(
            steps(one(&found, "written-through"))[0].starts_with("mount -o remount,async /srv ")
        );
    }

    #[test]
    fn a_file_system_that_takes_writes_over_is_not_blamed() {
        let told = |directory: Directory, waits| {
            let found = found_in_directories(waits, vec![directory], |_| {});
            found.iter().any(|finding| finding.id == "written-through")
        };
        assert!(!told(
            directory(Holds::Data, "rw,async,discard", &[]),
            GROWS
        ));
        // Files that are made slowly do not make writing into them slow.
        assert!(!told(directory(Holds::Data, "rw,dirsync", &[]), GROWS));
        // The log's flushes wait anywhere; its writes do not.
        const LOG: &[(&str, &str, f64)] = &[("IO", "WalSync", 5.0)];
        const WRITTEN: &[(&str, &str, f64)] = &[("IO", "WalWrite", 5.0)];
        assert!(!told(directory(Holds::Wal, "rw,sync", &[]), LOG));
        assert!(!told(directory(Holds::Data, "rw,sync", &[]), WRITTEN));
        assert!(told(directory(Holds::Wal, "rw,sync", &[]), WRITTEN));
    }

    #[test]
    fn one_command_takes_an_attribute_off_all() {
        let all = ["/srv/pg/base/1", "/srv/pg/base/5", "/srv/pg/global"];
        assert_eq!(above_all(all[0], &all[..2]), "/srv/pg/base");
        assert_eq!(above_all(all[0], &all), "/srv/pg");
        assert_eq!(above_all("/a", &["/a", "/b"]), "/");
    }
}
