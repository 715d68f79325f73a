//! Which file an address of the server's processes lies in, and what it is called there.
//!
//! All backends are forks of the postmaster and have its files at its addresses; what
//! a backend loaded later (an extension, the JIT compiler) is looked up in its own map
//! once. Files are read by way of /proc/PID/root: the server's view, also in a container.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use pgassay_inspect::symbols::Symbols;
use pgassay_model::observed::stacks::{KERNEL, ObjectSymbols, SymbolTable};
use pgassay_sys::map::Mapped;
use pgassay_sys::perf::Registers;

use super::unwind::Stacks;

/// What an address is called that lies in no file: compiled at run time, or gone.
const NOWHERE: &str = "[unknown]";

/// An executable part of a file in memory.
#[derive(Debug, Clone)]
struct Part {
    start: u64,
    end: u64,
    /// Address in the file's own terms of `start`.
    address: u64,
    object: u32,
}

struct Object {
    /// Build id, or path where it has none.
    key: String,
    path: String,
    symbols: Symbols,
}

/// The files of a server's processes.
pub struct Images {
    postmaster: u32,
    common: Vec<Part>,
    /// Parts that only some process has.
    own: HashMap<u32, Vec<Part>>,
    objects: Vec<Object>,
    by_path: HashMap<String, Option<u32>>,
    stacks: Stacks,
    hits: BTreeMap<u32, BTreeSet<u64>>,
    kernel_hits: HashSet<u64>,
}

/// An address as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The object's key.
    pub object: u32,
    /// Address in its own terms.
    pub address: u64,
}

/// Places in the kernel and in no file have these for an object.
const KERNEL_OBJECT: u32 = u32::MAX;
const NO_OBJECT: u32 = u32::MAX - 1;

impl Images {
    /// Reads the postmaster's map and its files.
    ///
    /// # Errors
    /// Where the map can't be read: another user's process.
    pub fn of(postmaster: u32) -> Result<Self, String> {
        let mut images = Self {
            postmaster,
            common: Vec::new(),
            own: HashMap::new(),
            objects: Vec::new(),
            by_path: HashMap::new(),
            stacks: Stacks::default(),
            hits: BTreeMap::new(),
            kernel_hits: HashSet::new(),
        };
        images.common = images
            .parts(postmaster)
            .map_err(|why| format!("{why}: run pgassay as root or as the server's user"))?;
        Ok(images)
    }

    /// The chain of a sample by the unwind tables, innermost first.
    pub fn unwind(&mut self, registers: &Registers, stack: &[u8]) -> Vec<u64> {
        self.stacks.chain(registers, stack)
    }

    /// Where an address of a user's code lies.
    pub fn place(&mut self, pid: u32, address: u64) -> Place {
        let found = find(&self.common, address).cloned().or_else(|| {
            if !self.own.contains_key(&pid) && self.own.len() < 10_000 {
                let parts = self.parts(pid).unwrap_or_default();
                self.own.insert(pid, parts);
            }
            find(self.own.get(&pid)?, address).cloned()
        });
        match found {
            Some(part) => {
                let place = Place {
                    object: part.object,
                    address: part.address + (address - part.start),
                };
                self.hits
                    .entry(place.object)
                    .or_default()
                    .insert(place.address);
                place
            }
            None => Place {
                object: NO_OBJECT,
                address: 0,
            },
        }
    }

    /// An address in the kernel.
    pub fn kernel(&mut self, address: u64) -> Place {
        self.kernel_hits.insert(address);
        Place {
            object: KERNEL_OBJECT,
            address,
        }
    }

    /// The name under which an object is recorded.
    pub fn key(&self, object: u32) -> &str {
        match object {
            KERNEL_OBJECT => KERNEL,
            NO_OBJECT => NOWHERE,
            index => self.objects.get(index as usize).map_or(NOWHERE, |o| &o.key),
        }
    }

    fn parts(&mut self, pid: u32) -> Result<Vec<Part>, String> {
        let path = format!("/proc/{pid}/maps");
        let text = fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
        let mut parts = Vec::new();
        for line in text.lines() {
            let Some((start, end, offset, file)) = executable(line) else {
                continue;
            };
            let Some(object) = self.object(pid, file) else {
                continue;
            };
            let Some(address) = self.objects[object as usize].symbols.address_of(offset) else {
                continue;
            };
            parts.push(Part {
                start,
                end,
                address,
                object,
            });
            let sections = self.objects[object as usize].symbols.take_unwind_sections();
            if !sections.is_empty() {
                let bias = start.wrapping_sub(address);
                self.stacks.add(file, start..end, bias, sections);
            }
        }
        parts.sort_by_key(|p| p.start);
        Ok(parts)
    }

    /// The file as an object, read on first sight; none where it can't be.
    fn object(&mut self, pid: u32, path: &str) -> Option<u32> {
        if let Some(known) = self.by_path.get(path) {
            return *known;
        }
        let read = || -> Option<Object> {
            let root = PathBuf::from(format!("/proc/{pid}/root"));
            let within = root.join(path.trim_start_matches('/'));
            let mapped = Mapped::open(&within)
                .or_else(|_| Mapped::open(Path::new(path)))
                .ok()?;
            let bare = Symbols::read(&mapped, None).ok()?;
            let debug = bare
                .build_id
                .as_deref()
                .and_then(|id| debug_file(&root, id));
            let symbols = match debug {
                Some(debug) => Symbols::read(&mapped, Some(&debug)).ok()?,
                None => bare,
            };
            Some(Object {
                key: symbols.build_id.clone().unwrap_or_else(|| path.to_owned()),
                path: path.to_owned(),
                symbols,
            })
        };
        let index = read().map(|object| {
            self.objects.push(object);
            (self.objects.len() - 1) as u32
        });
        self.by_path.insert(path.to_owned(), index);
        index
    }

    /// The names of all that was hit.
    pub fn symbols(&self) -> SymbolTable {
        let mut table = SymbolTable::default();
        for (index, addresses) in &self.hits {
            let Some(object) = self.objects.get(*index as usize) else {
                continue;
            };
            let mut functions: Vec<(u64, u64, String)> = addresses
                .iter()
                .filter_map(|address| object.symbols.find(*address))
                .map(|f| (f.start, f.end, f.name.clone()))
                .collect();
            functions.dedup();
            table.objects.insert(
                object.key.clone(),
                ObjectSymbols {
                    path: object.path.clone(),
                    functions,
                },
            );
        }
        if !self.kernel_hits.is_empty() {
            table
                .objects
                .insert(KERNEL.to_owned(), kernel_symbols(&self.kernel_hits));
        }
        table
    }

    /// The server's first process.
    pub fn postmaster(&self) -> u32 {
        self.postmaster
    }
}

fn find(parts: &[Part], address: u64) -> Option<&Part> {
    let after = parts.partition_point(|p| p.start <= address);
    let part = parts.get(after.checked_sub(1)?)?;
    (address < part.end).then_some(part)
}

/// Start, end, offset and path of an executable line of /proc/PID/maps (proc_pid_maps(5)).
fn executable(line: &str) -> Option<(u64, u64, u64, &str)> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let path = fields.nth(2)?.trim_start();
    if !permissions.contains('x') || !path.starts_with('/') {
        return None;
    }
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    Some((
        start,
        end,
        offset,
        path.strip_suffix(" (deleted)").unwrap_or(path),
    ))
}

/// The separate debug file of a build, where it is installed.
fn debug_file(root: &Path, build_id: &str) -> Option<Mapped> {
    let (first, rest) = build_id.split_at_checked(2)?;
    let below = format!("usr/lib/debug/.build-id/{first}/{rest}.debug");
    Mapped::open(&root.join(&below))
        .or_else(|_| Mapped::open(&Path::new("/").join(&below)))
        .ok()
}

/// The kernel's names, where they are shown to us: /proc/kallsyms, by address.
fn kernel_symbols(hits: &HashSet<u64>) -> ObjectSymbols {
    let text = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let mut symbols: Vec<(u64, &str)> = text
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let address = u64::from_str_radix(fields.next()?, 16).ok()?;
            let kind = fields.next()?;
            let name = fields.next()?;
            (matches!(kind, "t" | "T" | "w" | "W") && address > 0).then_some((address, name))
        })
        .collect();
    symbols.sort_by_key(|(address, _)| *address);
    let mut functions: Vec<(u64, u64, String)> = hits
        .iter()
        .filter_map(|hit| {
            let after = symbols.partition_point(|(address, _)| address <= hit);
            let (start, name) = symbols.get(after.checked_sub(1)?)?;
            // Where the next one begins; several names may begin at one address.
            let next = symbols[after..].iter().map(|(a, _)| *a).find(|a| a > start);
            Some((*start, next.unwrap_or(u64::MAX), (*name).to_owned()))
        })
        .collect();
    functions.sort();
    functions.dedup();
    ObjectSymbols {
        path: KERNEL.to_owned(),
        functions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_lines_of_a_map() {
        assert_eq!(
            executable("55a1-55b2 r-xp 0000b000 fe:00 123      /usr/lib/a b/postgres (deleted)"),
            Some((0x55a1, 0x55b2, 0xb000, "/usr/lib/a b/postgres"))
        );
        for line in [
            "55a1-55b2 r--p 0000b000 fe:00 123      /usr/bin/x",
            "55a1-55b2 r-xp 00000000 00:00 0        [vdso]",
            "55a1-55b2 r-xp 00000000 00:00 0 ",
            "",
            "x-y r-xp 0 0 0 /z",
        ] {
            assert_eq!(executable(line), None, "{line}");
        }
    }

    #[test]
    fn a_function_of_ours_is_found_by_its_address() {
        let mut images = Images::of(std::process::id()).unwrap();
        let address = executable as *const () as usize as u64;
        let place = images.place(std::process::id(), address);
        let table = images.symbols();
        let object = &table.objects[images.key(place.object)];
        assert!(
            object.functions.iter().any(|(start, end, name)| {
                (*start..*end).contains(&place.address) && name.contains("executable")
            }),
            "{:?}",
            object.functions
        );
        assert_eq!(images.key(images.objects.len() as u32 + 7), NOWHERE);
    }
}
