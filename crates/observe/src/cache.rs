//! A table's files: dropping them from the page cache, and looking what of them
//! is there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::Context;
use pgassay_model::scattered::Residency;
use rustix::fs::{Advice, fadvise};

/// The files of a relation's main fork, one a gibibyte; or those of several relations, one after the other.
#[derive(Debug, Clone)]
pub struct TableFiles {
    firsts: Vec<PathBuf>,
    block_size: u64,
    page_size: u64,
}

/// The kernel's pages that hold a set of blocks, by segment file.
#[derive(Debug, Clone, Default)]
pub struct WantedPages {
    /// How many blocks they hold.
    pub blocks: u64,
    /// Page numbers within each segment, ascending and each once.
    segments: Vec<Vec<usize>>,
}

impl WantedPages {
    /// How many pages.
    pub fn count(&self) -> u64 {
        self.segments.iter().map(|pages| pages.len() as u64).sum()
    }
}

impl TableFiles {
    /// The files of the relation whose first file this is.
    pub fn new(first: PathBuf, block_size: u64) -> Self {
        Self::of_several(vec![first], block_size)
    }

    /// The files of the relations whose first files these are. Blocks are numbered in the first of them.
    pub fn of_several(firsts: Vec<PathBuf>, block_size: u64) -> Self {
        Self {
            firsts,
            block_size,
            page_size: rustix::param::page_size() as u64,
        }
    }

    fn segments(&self) -> Vec<PathBuf> {
        let of = |first: &PathBuf| {
            let name = first.clone().into_os_string();
            let numbered = (1..).map(move |n| {
                let mut name = name.clone();
                name.push(format!(".{n}"));
                PathBuf::from(name)
            });
            std::iter::once(first.clone())
                .chain(numbered)
                .take_while(|path| fs::exists(path).unwrap_or(false))
                .collect::<Vec<_>>()
        };
        self.firsts.iter().flat_map(of).collect()
    }

    /// Writes what is dirty of the files, and asks the kernel to forget them.
    ///
    /// # Errors
    /// Where a file can't be opened: it belongs to the server's user.
    pub fn evict(&self) -> anyhow::Result<()> {
        for path in self.segments() {
            let file = open(&path)?;
            // Dirty pages stay, so they are written first; a file that is only
            // readable is synced all the same.
            file.sync_all()
                .with_context(|| format!("cannot sync {}", path.display()))?;
            fadvise(&file, 0, None, Advice::DontNeed)
                .with_context(|| format!("the kernel takes no advice on {}", path.display()))?;
        }
        Ok(())
    }

    /// The pages that hold these blocks; `blocks` ascending.
    pub fn pages_of(&self, blocks: &[u64]) -> WantedPages {
        let per_segment = (1 << 30) / self.block_size;
        let mut wanted = WantedPages {
            blocks: blocks.len() as u64,
            ..WantedPages::default()
        };
        for block in blocks {
            let (segment, within) = ((block / per_segment) as usize, block % per_segment);
            if wanted.segments.len() <= segment {
                wanted.segments.resize(segment + 1, Vec::new());
            }
            let pages = &mut wanted.segments[segment];
            let first = within * self.block_size / self.page_size;
            let last = ((within + 1) * self.block_size - 1) / self.page_size;
            for page in first..=last {
                let page = page as usize;
                if pages.last().is_none_or(|last| *last < page) {
                    pages.push(page);
                }
            }
        }
        wanted
    }

    /// How much is in the page cache, of all and of the wanted pages.
    pub fn residency(&self, wanted: &WantedPages) -> Residency {
        let count = || -> std::io::Result<Residency> {
            let (mut all, mut of_wanted) = (0, 0);
            for (index, path) in self.segments().iter().enumerate() {
                let pages = pgassay_sys::resident::resident(&File::open(path)?)?;
                all += pages.iter().filter(|there| **there).count() as u64;
                let wanted = wanted.segments.get(index).into_iter().flatten();
                of_wanted += wanted
                    .filter(|page| pages.get(**page).copied().unwrap_or(false))
                    .count() as u64;
            }
            Ok(Residency::Pages {
                all,
                wanted: of_wanted,
            })
        };
        count().unwrap_or_else(|error| {
            let first = self.firsts.first().map(|path| path.display().to_string());
            Residency::Unavailable(format!("{}: {error}", first.unwrap_or_default()))
        })
    }
}

fn open(path: &Path) -> anyhow::Result<File> {
    File::open(path).with_context(|| {
        format!(
            "cannot open {}: run pgassay as root or as the server's user",
            path.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_blocks_on_small_and_large_pages() {
        let files = |page_size| TableFiles {
            firsts: vec![PathBuf::from("/none")],
            block_size: 8192,
            page_size,
        };
        let every_tenth: Vec<u64> = (0..100).map(|i| i * 10).collect();
        assert_eq!(files(4096).pages_of(&every_tenth).count(), 200);
        assert_eq!(files(16384).pages_of(&every_tenth).count(), 100);
        assert_eq!(files(65536).pages_of(&every_tenth).count(), 100);
        // Neighbours share a large page; a segment begins anew.
        let neighbours = [0, 1, 7, 8, 131_071, 131_072, 131_073];
        let wanted = files(65536).pages_of(&neighbours);
        assert_eq!((wanted.blocks, wanted.count()), (7, 4));
        assert_eq!(wanted.segments.len(), 2);
    }

    #[test]
    fn evicting_takes_a_file_out_of_the_cache() {
        let path =
            std::path::Path::new("/var/tmp").join(format!("pgassay-cache-{}", std::process::id()));
        fs::write(&path, vec![1; 64 * 8192]).unwrap();
        let files = TableFiles::new(path.clone(), 8192);
        let wanted = files.pages_of(&[0, 5]);
        fs::read(&path).unwrap();
        let (all, of_wanted) = files.residency(&wanted).pages().unwrap();
        assert_eq!(all, (64 * 8192_u64).div_ceil(files.page_size));
        assert_eq!(of_wanted, wanted.count());
        files.evict().unwrap();
        // The kernel may keep single pages that somebody looks at.
        assert!(files.residency(&wanted).pages().unwrap().0 < all / 2);
        fs::remove_file(&path).unwrap();
    }
}
