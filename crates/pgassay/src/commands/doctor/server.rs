//! The doctor's look at what a server needs: PostgreSQL, its user, its place, the extension.

use std::path::Path;

use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};

use super::finding::{Finding, State};
use pgassay_engine::rundir;
use pgassay_model::Failure;
use pgassay_server::account::Account;
use pgassay_server::extension;
use pgassay_server::packages::{self, Part};
use pgassay_server::{Installation, Installations, StandIn, Wanted, scratch};

/// Bytes that a quick assay's cluster takes at most; a full one's tables are larger.
const ROOM: u64 = 2 << 30;
/// Bytes of the smallest cluster, without which nothing starts.
const LEAST_ROOM: u64 = 300 << 20;

/// All of them.
pub fn findings(runs: Option<&Path>) -> Vec<Finding> {
    let at_hand = Installations::search();
    let mut all = vec![servers(&at_hand), user()];
    all.extend(extensions(&at_hand));
    all.push(place(&scratch::default_root()));
    all.push(recorded(runs));
    all
}

fn servers(at_hand: &Installations) -> Finding {
    const ID: &str = "postgresql";
    let launchable: Vec<String> = at_hand
        .found
        .iter()
        .filter(|i| i.can_launch())
        .map(|i| format!("{} in {}", i.version, i.bin_dir.display()))
        .collect();
    if !launchable.is_empty() {
        return Finding::ok(ID, launchable.join(", "));
    }
    let mut found = "no PostgreSQL server is installed".to_owned();
    for (path, why) in &at_hand.unusable {
        found.push_str(&format!("; {}: {why}", path.display()));
    }
    let finding = Finding::lacking(ID, State::Broken, found, "nothing can be launched")
        .fixed_by(packages::how(Part::Server));
    match StandIn::find(Wanted::Newest) {
        Some(stand_in) => finding.advised(format!(
            "pgassay assay --stand-in downloads {}",
            stand_in.description()
        )),
        None => finding,
    }
}

fn user() -> Finding {
    const ID: &str = "user";
    match Account::for_servers() {
        Ok(None) => Finding::ok(ID, "servers run as you"),
        Ok(Some(account)) => {
            Finding::ok(ID, format!("you are root: servers run as {}", account.name))
        }
        Err(error) => Finding::lacking(
            ID,
            State::Broken,
            error.to_string(),
            "nothing can be launched",
        )
        .fixed_by("useradd --system postgres"),
    }
}

/// What compiling the extension needs, for each server that can be launched.
fn extensions(at_hand: &Installations) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    for installation in at_hand.found.iter().filter(|i| i.can_launch()) {
        let finding = extension_for(installation);
        if !all.iter().any(|f| f.found == finding.found) {
            all.push(finding);
        }
    }
    all
}

fn extension_for(installation: &Installation) -> Finding {
    const ID: &str = "extension";
    match extension::ready(installation) {
        Ok(compiler) => Finding::ok(
            ID,
            format!(
                "PostgreSQL {}'s headers, and {compiler}",
                installation.version.major()
            ),
        ),
        Err(lack) => {
            let finding = Finding::lacking(
                ID,
                State::Limited,
                lack.why,
                "the primitives inside the server are not measured",
            );
            match lack.install {
                Some(line) => finding.fixed_by(line),
                None => finding,
            }
        }
    }
}

/// The nearest directory above `path` that exists.
fn existing(path: &Path) -> &Path {
    path.ancestors()
        .find(|dir| dir.is_dir())
        .unwrap_or(Path::new("/"))
}

/// Why nothing can be written below `path`, if so.
fn unwritable(path: &Path) -> Option<String> {
    let dir = existing(path);
    access(dir, Access::WRITE_OK | Access::EXEC_OK)
        .err()
        .map(|error| format!("{} can't be written to: {error}", dir.display()))
}

fn free_bytes(path: &Path) -> Option<u64> {
    let stat = statvfs(existing(path)).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

/// Where clusters and the compiled extension lie.
fn place(root: &Path) -> Finding {
    const ID: &str = "scratch";
    const ELSEWHERE: &str = "name another directory with --scratch DIR";
    if let Some(why) = unwritable(root) {
        return Finding::lacking(ID, State::Broken, why, "nothing can be launched")
            .advised(ELSEWHERE);
    }
    if let Ok(Some(kind)) = scratch::memory_kind(existing(root)) {
        return Finding::lacking(
            ID,
            State::Broken,
            format!("{} is on {kind}, in memory", existing(root).display()),
            "no cluster is made there: it would measure no disk and take the server's own memory",
        )
        .advised(ELSEWHERE);
    }
    let stat = statvfs(existing(root));
    let flags = stat.map_or(StatVfsMountFlags::empty(), |stat| stat.f_flag);
    if flags.contains(StatVfsMountFlags::NOEXEC) {
        return Finding::lacking(
            ID,
            State::Limited,
            format!("{} is mounted noexec", existing(root).display()),
            "the extension can't be loaded from there: the primitives inside the server are not \
             measured, and --stand-in has nowhere to run",
        )
        .advised(ELSEWHERE);
    }
    match free_bytes(root) {
        None => Finding::lacking(
            ID,
            State::Unknown,
            format!("the free space below {} can't be read", root.display()),
            "a full disk ends a measurement",
        ),
        Some(free) if free < ROOM => Finding::lacking(
            ID,
            if free < LEAST_ROOM {
                State::Broken
            } else {
                State::Limited
            },
            format!("{} free below {}", gigabytes(free), root.display()),
            "a cluster takes 2 GB and more",
        )
        .advised(ELSEWHERE),
        Some(free) => Finding::ok(
            ID,
            format!("{} free below {}", gigabytes(free), root.display()),
        ),
    }
}

/// Where runs are recorded.
fn recorded(runs: Option<&Path>) -> Finding {
    const ID: &str = "runs";
    const LOST: &str = "what is measured can't be kept";
    const ELSEWHERE: &str = "name another directory with --runs DIR or PGASSAY_RUNS";
    match rundir::root(runs) {
        Err(error) => {
            let failure = error.downcast_ref::<Failure>();
            let why = failure.map_or_else(|| error.to_string(), |failure| failure.message.clone());
            Finding::lacking(ID, State::Broken, why, LOST).advised(ELSEWHERE)
        }
        Ok(root) => match unwritable(&root) {
            Some(why) => Finding::lacking(ID, State::Broken, why, LOST).advised(ELSEWHERE),
            None => Finding::ok(ID, format!("recorded below {}", root.display())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_does_not_exist_yet_is_judged_by_its_parent() {
        let dir = std::env::temp_dir();
        assert_eq!(existing(&dir.join("no-such/at/all")), dir);
        assert_eq!(unwritable(&dir.join("no-such/at/all")), None);
        // procfs takes no new directories, not even from root.
        let finding = recorded(Some(Path::new("/proc/sys/no-such")));
        assert!(finding.advice.unwrap().contains("PGASSAY_RUNS"));
    }
}
