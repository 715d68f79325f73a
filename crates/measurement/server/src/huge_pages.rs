//! Huge pages for a launched server: as many as it needs are reserved where that
//! is allowed, and given back when it has ended.

use std::fs;
use std::path::{Path, PathBuf};

use super::TargetError;

/// Pages that were added to the machine's pool; taken away again on drop, after
/// the server that used them.
#[derive(Debug)]
pub struct Reservation {
    pool: Pool,
    added: u64,
    /// Says in the cluster's directory what was added, for a sweep after our death.
    note: PathBuf,
}

/// The pool of one size of huge pages, of the machine or of one memory node.
#[derive(Debug, Clone)]
struct Pool {
    dir: PathBuf,
    page_kb: u64,
}

impl Pool {
    /// The pool of the given size, else of the machine's default one: 512 MiB on
    /// arm64 kernels with 64 KiB pages, 2 MiB on most others.
    fn find(root: &Path, wanted_kb: Option<u64>, node: Option<u32>) -> Result<Self, String> {
        let page_kb = match wanted_kb {
            Some(kb) => kb,
            None => {
                let path = root.join("proc/meminfo");
                let text = fs::read_to_string(&path).map_err(|e| format!("/proc/meminfo: {e}"))?;
                default_size_kb(&text).ok_or("this kernel has no huge pages")?
            }
        };
        let pools = match node {
            None => "sys/kernel/mm/hugepages".to_owned(),
            Some(node) => format!("sys/devices/system/node/node{node}/hugepages"),
        };
        let dir = root.join(format!("{pools}/hugepages-{page_kb}kB"));
        if !dir.is_dir() {
            return Err(format!("this kernel has no huge pages of {page_kb} kB"));
        }
        Ok(Self { dir, page_kb })
    }

    fn read(&self, file: &str) -> Result<u64, String> {
        let path = self.dir.join(file);
        fs::read_to_string(&path)
            .map_err(|e| format!("{}: {e}", path.display()))?
            .trim()
            .parse()
            .map_err(|_| format!("{} holds no number", path.display()))
    }

    /// Sets the number of pages; the kernel may give fewer.
    fn set(&self, pages: u64) -> Result<u64, String> {
        let path = self.dir.join("nr_hugepages");
        fs::write(&path, pages.to_string()).map_err(|e| format!("{}: {e}", path.display()))?;
        self.read("nr_hugepages")
    }
}

/// `Hugepagesize` of /proc/meminfo, in kB.
fn default_size_kb(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|l| l.strip_prefix("Hugepagesize:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The setting `huge_page_size` in kB; none where it is 0 or not understood.
pub fn size_kb(setting: &str) -> Option<u64> {
    let plain = setting.trim().parse().ok();
    let kb = plain.or_else(|| Some(pgassay_text::number::memory_bytes(setting)? >> 10));
    kb.filter(|kb| *kb > 0)
}

/// Pages that shared memory of this many bytes takes, where the server does not
/// say it (before version 15): a tenth more than the buffers.
pub fn estimated_pages(shared_buffers_bytes: u64, page_kb: u64) -> u64 {
    (shared_buffers_bytes / 10 * 11).div_ceil(page_kb.max(1) * 1024) + 2
}

/// The size of the machine's huge pages that a server with this setting uses.
///
/// # Errors
/// Where the kernel has none.
pub fn page_kb(wanted_kb: Option<u64>) -> Result<u64, TargetError> {
    Pool::find(Path::new("/"), wanted_kb, None)
        .map(|pool| pool.page_kb)
        .map_err(|why| TargetError::Usage(format!("huge_pages=on: {why}")))
}

impl Reservation {
    /// Adds what is missing of `pages` free ones; none where there are enough. Of a server that takes
    /// its memory from one node they must lie there: the machine's pool is spread over all, and where too few
    /// are on that node the kernel refuses the server its memory. `note` is the file that tells a later sweep.
    ///
    /// # Errors
    /// Where the pool may not be changed, or the kernel finds no memory in one
    /// piece: with the number to set by hand.
    pub fn make(
        pages: u64,
        wanted_kb: Option<u64>,
        node: Option<u32>,
        note: &Path,
    ) -> Result<Option<Self>, TargetError> {
        Self::make_under(Path::new("/"), pages, (wanted_kb, node), note).map_err(TargetError::Usage)
    }

    fn make_under(
        root: &Path,
        pages: u64,
        (wanted_kb, node): (Option<u64>, Option<u32>),
        note: &Path,
    ) -> Result<Option<Self>, String> {
        let say = |why: String| format!("huge_pages=on: {why}");
        let pool = Pool::find(root, wanted_kb, node).map_err(say)?;
        let reserved = pool.read("resv_hugepages").unwrap_or(0);
        let free = pool
            .read("free_hugepages")
            .map_err(say)?
            .saturating_sub(reserved);
        if free >= pages {
            return Ok(None);
        }
        let before = pool.read("nr_hugepages").map_err(say)?;
        let wanted = before + (pages - free);
        let by_hand = match (wanted_kb, node) {
            (None, None) => format!("sysctl -w vm.nr_hugepages={wanted}"),
            _ => format!("echo {wanted} > {}/nr_hugepages", pool.dir.display()),
        };
        // Written before: a note of pages that were not taken does no harm.
        let of_node = node.map_or_else(String::new, |node| format!(" {node}"));
        drop(fs::write(
            note,
            format!("{} {}{of_node}\n", pool.page_kb, pages - free),
        ));
        let got = pool.set(wanted).map_err(|why| {
            drop(fs::remove_file(note));
            format!(
                "huge_pages=on: the server needs {pages} huge pages of {} kB, {free} are free, and \
                 they can't be reserved ({why}); as root: {by_hand}",
                pool.page_kb
            )
        })?;
        let made = Self {
            pool,
            added: got.saturating_sub(before),
            note: note.to_owned(),
        };
        if got < wanted {
            // Dropping it gives back what there was.
            return Err(format!(
                "huge_pages=on: of {} huge pages of {} kB that are missing the kernel found memory for \
                 {}; free some, or after a boot: {by_hand}",
                pages - free,
                made.pool.page_kb,
                made.added
            ));
        }
        Ok(Some(made))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        give_back(&self.pool, self.added);
        drop(fs::remove_file(&self.note));
    }
}

/// Takes pages away from the pool, as it is now: others may have changed it.
fn give_back(pool: &Pool, added: u64) {
    if let Ok(now) = pool.read("nr_hugepages") {
        drop(pool.set(now.saturating_sub(added)));
    }
}

/// Gives back what a killed run's note says, and removes the note.
pub(super) fn sweep(note: &Path) {
    let Ok(text) = fs::read_to_string(note) else {
        return;
    };
    let mut numbers = text.split_ascii_whitespace().map(str::parse::<u64>);
    if let (Some(Ok(page_kb)), Some(Ok(added))) = (numbers.next(), numbers.next())
        && let node = numbers.next().and_then(|node| node.ok()?.try_into().ok())
        && let Ok(pool) = Pool::find(Path::new("/"), Some(page_kb), node)
    {
        give_back(&pool, added);
    }
    drop(fs::remove_file(note));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine made of files, with so many huge pages and free ones.
    fn machine(name: &str, page_kb: u64, all: u64, free: u64) -> PathBuf {
        let root = std::env::temp_dir().join(format!("pgassay-huge-{name}-{}", std::process::id()));
        let pool = root.join(format!("sys/kernel/mm/hugepages/hugepages-{page_kb}kB"));
        fs::create_dir_all(&pool).unwrap();
        fs::create_dir_all(root.join("proc")).unwrap();
        fs::write(
            root.join("proc/meminfo"),
            format!("MemTotal: 1 kB\nHugepagesize:    {page_kb} kB\n"),
        )
        .unwrap();
        fs::write(pool.join("nr_hugepages"), all.to_string()).unwrap();
        fs::write(pool.join("free_hugepages"), free.to_string()).unwrap();
        root
    }

    #[test]
    fn what_is_missing_is_added_and_given_back() {
        // 512 MiB, as on arm64 with 64 KiB pages.
        let root = machine("add", 524_288, 3, 1);
        let note = root.join("note");
        let pool = root.join("sys/kernel/mm/hugepages/hugepages-524288kB/nr_hugepages");
        let count = || fs::read_to_string(&pool).unwrap();
        let made = Reservation::make_under(&root, 4, (None, None), &note)
            .unwrap()
            .unwrap();
        assert_eq!((made.added, count().as_str()), (3, "6"));
        assert_eq!(fs::read_to_string(&note).unwrap(), "524288 3\n");
        // Somebody else takes two more meanwhile.
        fs::write(&pool, "8").unwrap();
        drop(made);
        assert_eq!(count(), "5");
        assert!(!note.exists());
        assert!(
            Reservation::make_under(&root, 1, (None, None), &note)
                .unwrap()
                .is_none()
        );
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn what_can_not_be_had_says_the_number() {
        let root = machine("none", 2048, 0, 0);
        let note = root.join("note");
        let why = Reservation::make_under(&root, 4, (Some(1 << 20), None), &note).unwrap_err();
        assert!(why.contains("1048576 kB"), "{why}");
        let pool = root.join("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
        fs::remove_file(&pool).unwrap();
        fs::create_dir(&pool).unwrap();
        assert!(Reservation::make_under(&root, 4, (None, None), &note).is_err());
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn of_a_server_on_one_node_they_are_that_node_s() {
        let root = machine("node", 2048, 10, 10);
        let note = root.join("note");
        let pool = root.join("sys/devices/system/node/node1/hugepages/hugepages-2048kB");
        fs::create_dir_all(&pool).unwrap();
        fs::write(pool.join("nr_hugepages"), "3").unwrap();
        fs::write(pool.join("free_hugepages"), "2").unwrap();
        let count = || fs::read_to_string(pool.join("nr_hugepages")).unwrap();
        let made = Reservation::make_under(&root, 4, (None, Some(1)), &note)
            .unwrap()
            .unwrap();
        assert_eq!((made.added, count().as_str()), (2, "5"));
        assert_eq!(fs::read_to_string(&note).unwrap(), "2048 2 1\n");
        drop(made);
        assert_eq!(count(), "3");
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn sizes() {
        assert_eq!(size_kb("2MB"), Some(2048));
        assert_eq!(size_kb("1GB"), Some(1 << 20));
        assert_eq!(size_kb("0"), None);
        assert_eq!(size_kb("x"), None);
        assert_eq!(
            default_size_kb("Hugepagesize:     524288 kB\n"),
            Some(524_288)
        );
        // 1 GiB of buffers in pages of 2 MiB.
        assert_eq!(estimated_pages(1 << 30, 2048), 566);
    }
}
