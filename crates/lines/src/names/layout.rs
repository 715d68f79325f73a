//! Where the members of the server's structures lie, by version (`layouts/`, made by
//! `scripts/layouts.sh` from the compiler's debugging information).

use std::collections::BTreeMap;
use std::rc::Rc;

/// Releases whose structures were looked at.
const FILES: &[(u32, &str)] = &[
    (13, include_str!("../../layouts/13.txt")),
    (15, include_str!("../../layouts/15.txt")),
    (17, include_str!("../../layouts/17.txt")),
    (18, include_str!("../../layouts/18.txt")),
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
    pub release: u32,
    /// Whether the server is of that release.
    pub exact: bool,
    structures: BTreeMap<String, Rc<Layout>>,
    tranches: BTreeMap<u32, String>,
    /// Individual locks; partitions of buffers, of locks, of predicate locks.
    pub fixed: [u64; 4],
}

impl Layouts {
    /// Those of the release nearest to a server's, by its `server_version_num`.
    pub fn of(version_num: u32) -> Self {
        let major = version_num / 10_000;
        // What 14 and 16 brought is in the release after them, as far as it lies in shared memory.
        let from = FILES.iter().find(|(file, _)| *file >= major);
        let (file, text) = from.or(FILES.last()).copied().unwrap_or((0, ""));
        Self {
            release: file,
            exact: file == major,
            ..Self::parse(text)
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

    /// The name of a tranche of lightweight locks; up to `fixed[0]` they are single locks.
    pub fn tranche(&self, id: u32) -> Option<&str> {
        self.tranches.get(&id).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_release_has_what_names_are_made_from() {
        for (major, _) in FILES {
            let layouts = Layouts::of(major * 10_000 + 3);
            assert!(layouts.exact && layouts.release == *major);
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
            assert_eq!(descriptor.offset("buf_id"), Some(20), "{major}");
            assert_eq!(descriptor.offset("state"), Some(24), "{major}");
            assert!(layouts.get("PGPROC").unwrap().offset("pid").is_some());
            assert_eq!(layouts.fixed[1..], [128, 16, 16], "{major}");
            let mapping: Vec<_> = (0..200)
                .filter(|id| layouts.tranche(*id) == Some("BufferMapping"))
                .collect();
            assert_eq!(mapping.len(), 1, "{major}");
            assert_eq!(layouts.tranche(4), Some("ProcArray"), "{major}");
        }
    }

    #[test]
    fn neighbours_stand_in_and_say_so() {
        let sixteen = Layouts::of(160_004);
        assert!(!sixteen.exact && sixteen.release == 17);
        assert!(!Layouts::of(90_624).exact && !Layouts::of(190_000).exact);
        assert_eq!(Layouts::of(190_000).release, 18);
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
