//! Where the members of the server's structures lie, by version (`layouts/`, made by
//! `scripts/layouts.sh` from the compiler's debugging information).

use std::collections::BTreeMap;
use std::rc::Rc;

/// A release whose structures were looked at.
struct Release {
    /// `server_version_num` without the minor release: 90600, 130000.
    number: u32,
    name: &'static str,
    layouts: &'static str,
}

const RELEASES: &[Release] = &[
    Release {
        number: 90_500,
        name: "9.5",
        layouts: include_str!("../../layouts/9.5.txt"),
    },
    Release {
        number: 90_600,
        name: "9.6",
        layouts: include_str!("../../layouts/9.6.txt"),
    },
    Release {
        number: 130_000,
        name: "13",
        layouts: include_str!("../../layouts/13.txt"),
    },
    Release {
        number: 140_000,
        name: "14",
        layouts: include_str!("../../layouts/14.txt"),
    },
    Release {
        number: 150_000,
        name: "15",
        layouts: include_str!("../../layouts/15.txt"),
    },
    Release {
        number: 160_000,
        name: "16",
        layouts: include_str!("../../layouts/16.txt"),
    },
    Release {
        number: 170_000,
        name: "17",
        layouts: include_str!("../../layouts/17.txt"),
    },
    Release {
        number: 180_000,
        name: "18",
        layouts: include_str!("../../layouts/18.txt"),
    },
];

/// A structure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// Its size in bytes.
    pub size: u64,
    /// Its members by offset.
    pub members: Vec<Member>,
}

/// A member of a structure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Where it begins.
    pub offset: u64,
    /// Its length; 0 for an array without end.
    pub size: u64,
    /// The size of an element, where it is an array; else 0.
    pub stride: u64,
    /// Its name, with a dot before the member of a structure within.
    pub name: String,
}

impl Layout {
    /// The member at an offset; `None` for padding and what lies behind.
    pub fn at(&self, offset: u64) -> Option<&Member> {
        let after = self.members.partition_point(|m| m.offset <= offset);
        let member = self.members.get(after.checked_sub(1)?)?;
        let endless = member.size == 0 && member.stride > 0;
        (endless || offset < member.offset + member.size).then_some(member)
    }

    /// Where a member begins.
    pub fn offset(&self, name: &str) -> Option<u64> {
        let member = self.members.iter().find(|m| m.name == name)?;
        Some(member.offset)
    }
}

/// All that is known of a release's structures.
#[derive(Debug, Clone, Default)]
pub struct Layouts {
    /// The major release that they are from.
    pub release: &'static str,
    /// Whether the server is of that release.
    pub exact: bool,
    structures: BTreeMap<String, Rc<Layout>>,
    tranches: BTreeMap<u32, String>,
    /// Single locks by number, of releases where these have no tranche of their own.
    singles: BTreeMap<u32, String>,
    /// Individual locks; partitions of buffers, of locks, of predicate locks.
    pub fixed: [u64; 4],
}

impl Layouts {
    /// Those of a server's release, by its `server_version_num`; else of the next one, or of the newest.
    pub fn of(version_num: u32) -> Self {
        let minor = if version_num < 100_000 { 100 } else { 10_000 };
        let number = version_num / minor * minor;
        let from = RELEASES.iter().find(|release| release.number >= number);
        let Some(release) = from.or(RELEASES.last()) else {
            return Self::default();
        };
        Self {
            release: release.name,
            exact: release.number == number,
            ..Self::parse(release.layouts)
        }
    }

    fn parse(text: &str) -> Self {
        let mut all = Self::default();
        let mut current: Option<(String, Layout)> = None;
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let number = |at: usize| {
                words
                    .get(at)
                    .and_then(|w| w.parse::<u64>().ok())
                    .unwrap_or(0)
            };
            match words.as_slice() {
                ["struct", name, _] => {
                    all.keep(current.take());
                    let layout = Layout {
                        size: number(2),
                        members: Vec::new(),
                    };
                    current = Some(((*name).to_owned(), layout));
                }
                ["tranche", _, name] => {
                    all.tranches.insert(number(1) as u32, (*name).to_owned());
                }
                ["lock", _, name] => {
                    all.singles.insert(number(1) as u32, (*name).to_owned());
                }
                ["fixed", ..] => all.fixed = [number(1), number(2), number(3), number(4)],
                [_, _, _, name] => {
                    if let Some((_, layout)) = &mut current {
                        layout.members.push(Member {
                            offset: number(0),
                            size: number(1),
                            stride: number(2),
                            name: (*name).to_owned(),
                        });
                    }
                }
                _ => {}
            }
        }
        all.keep(current);
        all
    }

    fn keep(&mut self, structure: Option<(String, Layout)>) {
        if let Some((name, mut layout)) = structure {
            layout.members.sort_by_key(|member| member.offset);
            self.structures.insert(name, Rc::new(layout));
        }
    }

    /// A structure by its name in the sources.
    pub fn get(&self, name: &str) -> Option<Rc<Layout>> {
        self.structures.get(name).cloned()
    }

    /// The first of several names that is there: structures were renamed.
    pub fn any(&self, names: &[&str]) -> Option<Rc<Layout>> {
        names.iter().find_map(|name| self.get(name))
    }

    /// Whether the locks of the main array tell by their tranches what they are for: from 9.6 on.
    pub fn has_tranches(&self) -> bool {
        !self.tranches.is_empty()
    }

    /// The name of a tranche of lightweight locks; up to `fixed[0]` they are single locks.
    pub fn tranche(&self, id: u32) -> Option<&str> {
        self.tranches.get(&id).map(String::as_str)
    }

    /// The single lock at a place of the main array, if the tranche that stands there bears it out: its own
    /// from PostgreSQL 10 on, none before.
    pub fn single(&self, place: u64, tranche: u32) -> Option<&str> {
        let place = u32::try_from(place).ok()?;
        if u64::from(place) >= self.fixed[0] {
            return None;
        }
        match self.singles.is_empty() {
            true if tranche == place => self.tranche(tranche),
            false if tranche == 0 => self.singles.get(&place).map(String::as_str),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_release_has_what_names_are_made_from() {
        for release in RELEASES {
            let major = release.name;
            let layouts = Layouts::of(release.number + 3);
            assert!(layouts.exact && layouts.release == major);
            for name in [
                "PGPROC",
                "PROC_HDR",
                "BufferDesc",
                "HASHHDR",
                "XLogCtlData",
                "LWLock",
            ] {
                let layout = layouts
                    .get(name)
                    .unwrap_or_else(|| panic!("{major}: {name}"));
                assert!(
                    layout.size > 0 && layout.members.len() > 2,
                    "{major}: {name}"
                );
            }
            let descriptor = layouts.get("BufferDesc").unwrap();
            // Up to 9.5 a spinlock guards what one word is since.
            let word = if release.number < 90_600 {
                [("buf_id", 36), ("buf_hdr_lock", 32)]
            } else {
                [("buf_id", 20), ("state", 24)]
            };
            for (name, at) in word {
                assert_eq!(descriptor.offset(name), Some(at), "{major}");
            }
            assert!(layouts.get("PGPROC").unwrap().offset("pid").is_some());
            assert_eq!(layouts.fixed[1..], [128, 16, 16], "{major}");
            let mapping: Vec<_> = (0..200)
                .filter(|id| layouts.tranche(*id) == Some("BufferMapping"))
                .collect();
            assert_eq!(
                mapping.len(),
                usize::from(layouts.has_tranches()),
                "{major}"
            );
            assert_eq!(layouts.has_tranches(), release.number >= 90_600);
            let own = if release.number < 100_000 { 0 } else { 4 };
            assert_eq!(layouts.single(4, own), Some("ProcArray"), "{major}");
            assert_eq!(layouts.single(4, 7), None, "{major}");
        }
    }

    #[test]
    fn neighbours_stand_in_and_say_so() {
        let eleven = Layouts::of(110_022);
        assert!(!eleven.exact && eleven.release == "13");
        assert!(Layouts::of(90_624).exact && !Layouts::of(90_424).exact);
        let later = Layouts::of(210_000);
        assert!(!later.exact && later.release == "18");
    }

    #[test]
    fn members_padding_and_endless_arrays() {
        let all = Layouts::parse("struct A 24\n8 4 0 b\n0 2 0 a\n16 0 4 c\n");
        let a = all.get("A").unwrap();
        let at = |offset| a.at(offset).map(|m| m.name.as_str());
        assert_eq!(
            [at(0), at(1), at(2), at(11), at(12)],
            [Some("a"), Some("a"), None, Some("b"), None]
        );
        assert_eq!(at(4000), Some("c"));
    }
}
