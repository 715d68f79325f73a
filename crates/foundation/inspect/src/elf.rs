//! The ELF file as the rest needs it: executable bytes by address, sections by name, symbols.
//!
//! Everything here distrusts the file. `object` checks each range against the file's length; what
//! it can't know, that sections overlap or repeat, is settled in [`Image::parse`], so that the work
//! done later is bounded by the length of the file.

use object::elf;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader, SectionHeader as _};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SectionKind};

use crate::SupplementWanted;
use crate::error::Error;
use crate::model::{FileKind, Machine};

/// A run of executable bytes.
#[derive(Clone, Copy, Debug)]
pub struct Code<'d> {
    /// Virtual address of the first byte.
    pub address: u64,
    /// The bytes.
    pub data: &'d [u8],
}

impl Code<'_> {
    /// The address behind the last byte.
    pub fn end(&self) -> u64 {
        self.address + self.data.len() as u64
    }
}

/// A function symbol, or an entry point without a size.
#[derive(Clone, Copy, Debug)]
pub struct FunctionSymbol<'d> {
    /// Name as stored, without version.
    pub name: &'d str,
    /// Address.
    pub address: u64,
    /// Bytes; 0 where the assembler was not told.
    pub size: u64,
    /// Visible outside its object file.
    pub global: bool,
}

/// A 64-bit ELF file.
#[derive(Debug)]
pub struct Image<'d> {
    /// The parsed file.
    pub file: ElfFile64<'d, Endianness>,
    /// The file's bytes.
    pub bytes: &'d [u8],
    /// Instruction set.
    pub machine: Machine,
    /// Sort of file.
    pub kind: FileKind,
    /// Executable bytes by address, without overlap.
    pub code: Vec<Code<'d>>,
    /// What was left out and why.
    pub warnings: Vec<String>,
}

/// What can be said of an ELF file whose instructions are not read here.
#[derive(Debug)]
pub struct Foreign {
    /// Machine with word size and byte order.
    pub machine: Machine,
    /// Sort of file.
    pub kind: FileKind,
}

/// A file that was told apart by its header.
#[derive(Debug)]
pub enum Parsed<'d> {
    /// One of the five machines.
    Image(Box<Image<'d>>),
    /// Another.
    Foreign(Foreign),
}

/// Names of machines that are recognised but not read, by `e_machine`.
fn machine_name(e_machine: u16) -> String {
    match e_machine {
        3 => "i386".into(),
        8 => "mips".into(),
        20 => "ppc".into(),
        21 => "ppc64".into(),
        22 => "s390".into(),
        40 => "arm".into(),
        43 => "sparc64".into(),
        62 => "x86-64".into(),
        183 => "aarch64".into(),
        243 => "riscv".into(),
        258 => "loongarch64".into(),
        other => format!("ELF machine {other}"),
    }
}

/// Reads the ELF header and, for a machine that is supported, the section and program headers.
///
/// # Errors
/// [`Error::NotElf`], [`Error::Empty`], [`Error::CoreDump`] or [`Error::Damaged`].
pub fn parse(bytes: &[u8]) -> Result<Parsed<'_>, Error> {
    if bytes.is_empty() {
        return Err(Error::Empty);
    }
    if !bytes.starts_with(b"\x7fELF") {
        return Err(Error::NotElf);
    }
    let ident = bytes
        .get(..20)
        .ok_or_else(|| Error::Damaged("cut off inside the ELF header".into()))?;
    let (class, order) = (ident[4], ident[5]);
    let half = |at: usize| match order {
        2 => u16::from_be_bytes([ident[at], ident[at + 1]]),
        _ => u16::from_le_bytes([ident[at], ident[at + 1]]),
    };
    let (e_type, e_machine) = (half(16), half(18));
    if e_type == elf::ET_CORE.0 {
        return Err(Error::CoreDump);
    }
    let machine = match (class, order, e_machine) {
        (2, 1, 62) => Machine::X86_64,
        (2, 1, 183) => Machine::Aarch64,
        (2, 1, 21) => Machine::Ppc64le,
        (2, 1, 243) => Machine::Riscv64,
        (2, 2, 22) => Machine::S390x,
        _ => {
            let bits = if class == 2 { 64 } else { 32 };
            let order = if order == 2 { ", big-endian" } else { "" };
            let machine =
                Machine::Other(format!("{} ({bits}-bit{order})", machine_name(e_machine)));
            let kind = match e_type {
                1 => FileKind::Object,
                3 => FileKind::SharedLibrary,
                _ => FileKind::Executable,
            };
            return Ok(Parsed::Foreign(Foreign { machine, kind }));
        }
    };
    if e_type == elf::ET_REL.0 && refuse_many_headers(bytes).is_err() {
        return Err(Error::Unlinked);
    }
    refuse_many_headers(bytes)?;
    Ok(Parsed::Image(Box::new(Image::parse(bytes, machine)?)))
}

/// Sections of a linked file are tens, of the largest some thousands; each is looked at many times.
const MOST_HEADERS: u64 = 100_000;

/// Refuses a file of 64 bits that claims more sections or segments than any linker makes: counts
/// that do not fit into the ELF header stand in the first section's.
fn refuse_many_headers(bytes: &[u8]) -> Result<(), Error> {
    let big_endian = bytes.get(5) == Some(&2);
    let number = |at: u64, length: usize| -> u64 {
        let field = usize::try_from(at)
            .ok()
            .and_then(|at| bytes.get(at..at.checked_add(length)?));
        let field = field.unwrap_or_default().iter();
        let join = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        match big_endian {
            true => field.fold(0, join),
            false => field.rev().fold(0, join),
        }
    };
    let sections_at = number(40, 8);
    let in_first = |offset: u64, length| match sections_at.checked_add(offset) {
        Some(at) if sections_at > 0 => number(at, length),
        _ => 0,
    };
    let sections = match number(60, 2) {
        0 => in_first(32, 8),
        n => n,
    };
    let segments = match number(56, 2) {
        0xFFFF => in_first(44, 4),
        n => n,
    };
    for (what, n) in [("sections", sections), ("segments", segments)] {
        if n > MOST_HEADERS {
            return Err(Error::Limit {
                what: format!("the number of {what}"),
                limit: MOST_HEADERS.to_string(),
            });
        }
    }
    Ok(())
}

/// Reads a file that holds DWARF for others and no code of its own, as dwz makes it: an object file.
///
/// # Errors
/// As for [`parse`].
pub fn parse_supplement(bytes: &[u8]) -> Result<Image<'_>, Error> {
    if bytes.is_empty() {
        return Err(Error::Empty);
    }
    refuse_many_headers(bytes)?;
    Ok(Image {
        file: ElfFile64::<Endianness>::parse(bytes)?,
        bytes,
        machine: Machine::Other("any".into()),
        kind: FileKind::DebugInfo,
        code: Vec::new(),
        warnings: Vec::new(),
    })
}

impl<'d> Image<'d> {
    fn parse(bytes: &'d [u8], machine: Machine) -> Result<Self, Error> {
        let file = ElfFile64::<Endianness>::parse(bytes)?;
        let mut image = Self {
            kind: FileKind::Executable,
            bytes,
            machine,
            code: Vec::new(),
            warnings: Vec::new(),
            file,
        };
        image.kind = image.file_kind();
        if image.kind == FileKind::Object {
            // Every section of an object file starts at address 0; what the linker will add
            // (helpers, veneers) is not there yet.
            return Err(Error::Unlinked);
        }
        image.find_code();
        Ok(image)
    }

    fn file_kind(&self) -> FileKind {
        let endian = self.file.endian();
        let header = self.file.elf_header();
        let is_interpreted = self
            .file
            .elf_program_headers()
            .iter()
            .any(|p| p.p_type(endian) == elf::PT_INTERP);
        match header.e_type(endian) {
            elf::ET_REL => FileKind::Object,
            elf::ET_DYN
                if is_interpreted || self.dynamic_flag(elf::DT_FLAGS_1.0 as u64, 0x0800_0000) =>
            {
                FileKind::PieExecutable
            }
            elf::ET_DYN => FileKind::SharedLibrary,
            _ => FileKind::Executable,
        }
    }

    /// Gathers executable bytes: from sections, or from segments where there are no sections.
    fn find_code(&mut self) {
        let mut found: Vec<Code<'d>> = Vec::new();
        let mut any_executable_section = false;
        for section in self.file.sections() {
            let header = section.elf_section_header();
            let endian = self.file.endian();
            if header.sh_flags(endian).0 & elf::SHF_EXECINSTR.0 == 0 {
                continue;
            }
            any_executable_section = true;
            if section.kind() == SectionKind::UninitializedData
                || header.sh_type(endian) == elf::SHT_NOBITS
            {
                continue;
            }
            match section.data() {
                Ok(data) if !data.is_empty() => found.push(Code {
                    address: section.address(),
                    data,
                }),
                Ok(_) => {}
                Err(error) => self.warnings.push(format!(
                    "section {} can't be read: {error}",
                    section.name().unwrap_or("with a damaged name")
                )),
            }
            if found.len() > 65_536 {
                self.warnings
                    .push("more than 65536 executable sections; the rest was not read".into());
                break;
            }
        }
        if any_executable_section && found.is_empty() {
            self.kind = FileKind::DebugInfo;
        }
        if !any_executable_section {
            let endian = self.file.endian();
            for segment in self.file.elf_program_headers() {
                if segment.p_type(endian) == elf::PT_LOAD
                    && segment.p_flags(endian).0 & elf::PF_X.0 != 0
                    && let Ok(data) = segment.data(endian, self.bytes)
                    && !data.is_empty()
                {
                    found.push(Code {
                        address: segment.p_vaddr(endian),
                        data,
                    });
                }
            }
            if !found.is_empty() {
                self.warnings.push(
                    "no section headers: whole executable segments were read, data in them included".into(),
                );
            }
        }
        // Overlapping ranges would be work without bound (a thousand sections of the whole file):
        // the first by address keeps its bytes. So would one range of the file mapped many times.
        found.retain(|c| c.address.checked_add(c.data.len() as u64).is_some());
        found.sort_by_key(|c| (c.address, std::cmp::Reverse(c.data.len())));
        let (mut end, mut budget, before) = (0u64, self.bytes.len(), found.len());
        found.retain(|c| {
            let keep = (c.address >= end || end == 0) && c.data.len() <= budget;
            if keep {
                end = c.end();
                budget -= c.data.len();
            }
            keep
        });
        if found.len() != before {
            self.warnings.push(format!(
                "{} executable sections overlap others and were not read",
                before - found.len()
            ));
        }
        self.code = found;
    }

    /// A section's bytes as stored, by name.
    pub fn section(&self, name: &str) -> Option<(u64, &'d [u8])> {
        let section = self.file.section_by_name(name)?;
        section.data().ok().map(|data| (section.address(), data))
    }

    /// Whether DWARF is in the file, compressed or not.
    pub fn has_dwarf(&self) -> bool {
        let names = [".debug_info", ".zdebug_info"];
        names.iter().any(|n| self.file.section_by_name(n).is_some())
    }

    /// Allocated sections that are neither executable nor empty in the file: where constants are.
    pub fn data_sections(&self) -> Vec<(u64, &'d [u8])> {
        let endian = self.file.endian();
        let mut budget = self.bytes.len().saturating_mul(2);
        self.file
            .sections()
            .filter(|s| {
                let header = s.elf_section_header();
                let flags = header.sh_flags(endian).0;
                flags & elf::SHF_ALLOC.0 != 0
                    && flags & elf::SHF_EXECINSTR.0 == 0
                    && header.sh_type(endian) == elf::SHT_PROGBITS
            })
            .filter_map(|s| s.data().ok().map(|d| (s.address(), d)))
            .take_while(|(_, d)| {
                let fits = d.len() <= budget;
                budget = budget.saturating_sub(d.len());
                fits
            })
            .collect()
    }

    /// The bytes at a virtual address, to the end of its section.
    pub fn at(&self, address: u64) -> Option<&'d [u8]> {
        let endian = self.file.endian();
        self.file.elf_program_headers().iter().find_map(|p| {
            if p.p_type(endian) != elf::PT_LOAD {
                return None;
            }
            let offset = address.checked_sub(p.p_vaddr(endian))?;
            let data = p.data(endian, self.bytes).ok()?;
            data.get(usize::try_from(offset).ok()?..)
                .filter(|d| !d.is_empty())
        })
    }

    /// Whether `tag` of the dynamic section has any of the `bits`.
    pub fn dynamic_flag(&self, tag: u64, bits: u64) -> bool {
        self.dynamic()
            .iter()
            .any(|(t, v)| *t == tag && v & bits != 0)
    }

    /// The dynamic section as tags and values.
    pub fn dynamic(&self) -> Vec<(u64, u64)> {
        let endian = self.file.endian();
        let data = self.file.elf_program_headers().iter().find_map(|p| {
            if p.p_type(endian) == elf::PT_DYNAMIC {
                p.data(endian, self.bytes).ok()
            } else {
                None
            }
        });
        let big = endian == Endianness::Big;
        let word = |b: &[u8]| {
            let raw = <[u8; 8]>::try_from(b).unwrap_or_default();
            if big {
                u64::from_be_bytes(raw)
            } else {
                u64::from_le_bytes(raw)
            }
        };
        data.unwrap_or_default()
            .chunks_exact(16)
            .map(|entry| (word(&entry[..8]), word(&entry[8..])))
            .take_while(|(tag, _)| *tag != 0)
            .take(4096)
            .collect()
    }

    /// Function symbols of `.symtab`.
    pub fn symtab(&self) -> Vec<FunctionSymbol<'d>> {
        functions(self.file.symbols())
    }

    /// Function symbols of `.dynsym`.
    pub fn dynsym(&self) -> Vec<FunctionSymbol<'d>> {
        functions(self.file.dynamic_symbols())
    }

    /// Whether a dynamic symbol is imported or exported under one of the names.
    pub fn mentions(&self, wanted: impl Fn(&str) -> bool) -> bool {
        self.file
            .dynamic_symbols()
            .any(|s| s.name().is_ok_and(&wanted))
    }

    /// Ranges marked as data inside code by Arm and RISC-V mapping symbols (`$d` to the next `$x`),
    /// by address.
    pub fn data_in_code(&self) -> Vec<(u64, u64)> {
        if !matches!(self.machine, Machine::Aarch64 | Machine::Riscv64) {
            return Vec::new();
        }
        let mut marks: Vec<(u64, bool)> = self
            .file
            .symbols()
            .filter_map(|s| {
                let name = s.name_bytes().ok()?;
                match name {
                    [b'$', b'd', rest @ ..] if rest.first().is_none_or(|c| *c == b'.') => {
                        Some((s.address(), true))
                    }
                    [b'$', b'x', ..] => Some((s.address(), false)),
                    _ => None,
                }
            })
            .collect();
        marks.sort_unstable();
        let mut ranges = Vec::new();
        for code in &self.code {
            let inside: Vec<_> = marks
                .iter()
                .filter(|m| m.0 >= code.address && m.0 < code.end())
                .collect();
            for (i, mark) in inside.iter().enumerate() {
                if mark.1 {
                    let end = inside.get(i + 1).map_or(code.end(), |next| next.0);
                    ranges.push((mark.0, end));
                }
            }
            if ranges.len() > 1 << 20 {
                break;
            }
        }
        ranges
    }
}

fn functions<'d, S>(symbols: impl Iterator<Item = S>) -> Vec<FunctionSymbol<'d>>
where
    S: ObjectSymbol<'d>,
{
    symbols
        .filter(|s| s.kind() == object::SymbolKind::Text && s.is_definition())
        .filter_map(|s| {
            let name = s.name().ok()?;
            // Names of nothing but blanks or of absurd length come from damaged files only.
            (!name.is_empty() && name.len() < 65_536).then(|| FunctionSymbol {
                name,
                address: s.address(),
                size: s.size(),
                global: s.is_global(),
            })
        })
        .collect()
}

impl Image<'_> {
    /// The supplementary file of DWARF that the file names.
    pub fn supplement_wanted(&self) -> Option<SupplementWanted> {
        let (path, build_id) = self.file.gnu_debugaltlink().ok().flatten()?;
        (!path.is_empty() && path.len() < 4096).then(|| SupplementWanted {
            path: path.to_vec(),
            build_id: build_id.to_vec(),
        })
    }

    /// The GNU build id.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.file.build_id().ok().flatten()
    }
}
