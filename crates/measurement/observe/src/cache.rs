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

/// Blocks of a relation, ascending: a few numbers where they follow a rule, however many they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Blocks {
    /// In each of several stretches of equal length, each `apart` behind the one before, every `step`th
    /// block from `first`.
    Regular {
        /// How many stretches.
        stretches: u64,
        /// From the beginning of one to that of the next, at least `length`.
        apart: u64,
        /// Blocks of each.
        length: u64,
        /// The first in each.
        first: u64,
        /// From one to the next.
        step: u64,
    },
    /// These.
    Listed(Vec<u64>),
}

impl Blocks {
    /// How many there are.
    pub fn count(&self) -> u64 {
        match self {
            Self::Regular {
                stretches,
                length,
                first,
                step,
                ..
            } => stretches * length.saturating_sub(*first).div_ceil(*step),
            Self::Listed(blocks) => blocks.len() as u64,
        }
    }

    /// Those from `lowest` on.
    fn from(&self, lowest: u64) -> Box<dyn Iterator<Item = u64> + '_> {
        match *self {
            Self::Regular {
                stretches,
                apart,
                length,
                first,
                step,
            } => Box::new((lowest / apart..stretches).flat_map(move |stretch| {
                let begin = stretch * apart;
                let passed = lowest.saturating_sub(begin + first);
                let first = first + passed.div_ceil(step) * step;
                (first..length)
                    .step_by(step as usize)
                    .map(move |block| begin + block)
            })),
            Self::Listed(ref blocks) => {
                let begin = blocks.partition_point(|block| *block < lowest);
                Box::new(blocks[begin..].iter().copied())
            }
        }
    }
}

/// The kernel's pages that hold a set of blocks.
#[derive(Debug, Clone)]
pub struct WantedPages {
    /// How many blocks they hold.
    pub blocks: u64,
    /// How many they are.
    pages: u64,
    of: Blocks,
}

impl WantedPages {
    /// How many pages.
    pub fn count(&self) -> u64 {
        self.pages
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

    /// The pages that hold these blocks.
    pub fn pages_of(&self, blocks: Blocks) -> WantedPages {
        let (mut pages, mut segment) = (0, 0);
        while let Some(next) = blocks.from(segment * self.per_segment()).next() {
            segment = next / self.per_segment();
            pages += self.within(&blocks, segment).count() as u64;
            segment += 1;
        }
        WantedPages {
            blocks: blocks.count(),
            pages,
            of: blocks,
        }
    }

    fn per_segment(&self) -> u64 {
        (1 << 30) / self.block_size
    }

    /// The pages of a segment that hold such blocks, by their numbers within it: ascending, each once.
    fn within(&self, blocks: &Blocks, segment: u64) -> impl Iterator<Item = usize> {
        let begin = segment * self.per_segment();
        let end = begin + self.per_segment();
        let (block_size, page_size) = (self.block_size, self.page_size);
        let mut last = None;
        blocks
            .from(begin)
            .take_while(move |block| *block < end)
            .flat_map(move |block| {
                let at = (block - begin) * block_size;
                at / page_size..=(at + block_size - 1) / page_size
            })
            .filter(move |page| last.replace(*page).is_none_or(|last| last < *page))
            .map(|page| page as usize)
    }

    /// How much is in the page cache, of all and of the wanted pages.
    pub fn residency(&self, wanted: &WantedPages) -> Residency {
        let count = || -> std::io::Result<Residency> {
            let (mut all, mut of_wanted) = (0, 0);
            for (index, path) in self.segments().iter().enumerate() {
                let pages = pgassay_sys::resident::resident(&File::open(path)?)?;
                all += pages.iter().filter(|there| **there).count() as u64;
                of_wanted += self
                    .within(&wanted.of, index as u64)
                    .filter(|page| pages.get(*page).copied().unwrap_or(false))
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
        let listed = |blocks: &[u64]| Blocks::Listed(blocks.to_vec());
        let every_tenth: Vec<u64> = (0..100).map(|i| i * 10).collect();
        assert_eq!(files(4096).pages_of(listed(&every_tenth)).count(), 200);
        assert_eq!(files(16384).pages_of(listed(&every_tenth)).count(), 100);
        assert_eq!(files(65536).pages_of(listed(&every_tenth)).count(), 100);
        // Neighbours share a large page; a segment begins anew.
        let neighbours = [0, 1, 7, 8, 131_071, 131_072, 131_073];
        let wanted = files(65536).pages_of(listed(&neighbours));
        assert_eq!((wanted.blocks, wanted.count()), (7, 4));
        let each = |segment| -> Vec<usize> { files(65536).within(&wanted.of, segment).collect() };
        assert_eq!(
            (each(0), each(1), each(2)),
            (vec![0, 1, 16383], vec![0], vec![])
        );
    }

    #[test]
    fn blocks_that_follow_a_rule_are_those_of_the_list() {
        for (stretches, apart, length, first, step) in [
            (1, 1000, 1000, 3, 10),
            (1, 7, 7, 0, 1),
            (4, 500, 100, 9, 10),
            (3, 10, 4, 5, 10),
        ] {
            let rule = Blocks::Regular {
                stretches,
                apart,
                length,
                first,
                step,
            };
            let of = |stretch: u64| {
                (first..length)
                    .step_by(step as usize)
                    .map(move |b| stretch * apart + b)
            };
            let all: Vec<u64> = (0..stretches).flat_map(of).collect();
            assert_eq!(rule.count(), all.len() as u64);
            for lowest in 0..2100 {
                let wanted = all.iter().copied().filter(|block| *block >= lowest);
                assert!(rule.from(lowest).eq(wanted), "{rule:?} from {lowest}");
            }
        }
    }

    #[test]
    fn evicting_takes_a_file_out_of_the_cache() {
        let path =
            std::path::Path::new("/var/tmp").join(format!("pgassay-cache-{}", std::process::id()));
        fs::write(&path, vec![1; 64 * 8192]).unwrap();
        let files = TableFiles::new(path.clone(), 8192);
        let wanted = files.pages_of(Blocks::Listed(vec![0, 5]));
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
