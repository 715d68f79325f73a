//! Functions of Go programs, from the table that their run time unwinds by: `.gopclntab`.
//!
//! A Go program has no `.eh_frame`, and `-ldflags=-s` removes its symbols; the table stays, with names. Its layout is
//! that of Go's `debug/gosym` (pclntab.go), for the versions of Go 1.2, 1.16, 1.18 and 1.20. Each offset in it is
//! checked, and the work is bounded by its length.

use object::Endianness;

use crate::elf::{FunctionSymbol, Image};

/// Longest name that is taken, in bytes.
const LONGEST_NAME: usize = 4096;
/// What the linker may put behind the last function.
const PADDING: u64 = 256;

/// A table and how it is read.
struct Table<'d> {
    data: &'d [u8],
    big_endian: bool,
    pointer: usize,
    /// Since 1.18, functions have 32-bit offsets from the first one.
    offsets: bool,
    /// Where names begin.
    names: usize,
    /// Where the list of functions begins.
    list: usize,
    /// Where descriptions of functions begin.
    descriptions: usize,
    functions: usize,
    text: u64,
}

/// The functions of a Go program, by address; none of another program.
///
/// # Errors
/// Why the table is not used.
pub fn functions<'d>(image: &Image<'d>) -> Result<Vec<FunctionSymbol<'d>>, &'static str> {
    // Position-independent programs had it among what is relocated.
    let names = [".gopclntab", ".data.rel.ro.gopclntab"];
    let Some((_, data)) = names.iter().find_map(|name| image.section(name)) else {
        return Ok(Vec::new());
    };
    let table = Table::read(image, data).ok_or("its header is damaged or of an unknown version")?;
    let mut functions: Vec<FunctionSymbol<'d>> = Vec::new();
    let mut start = table.address(0).ok_or("it is cut off")?;
    for n in 0..table.functions {
        let end = table.address(n + 1).ok_or("it is cut off")?;
        if end < start {
            return Err("its addresses do not ascend");
        }
        functions.push(FunctionSymbol {
            name: table.name(n).unwrap_or("<go>"),
            address: start,
            size: end - start,
            global: false,
        });
        start = end;
    }
    let first = functions.first().map_or(0, |f| f.address);
    let code = image
        .code
        .iter()
        .find(|c| (c.address..c.end()).contains(&first));
    // The addresses are relative to a first one that newer versions leave out: it is where the code begins if the last
    // function ends with the code, as in all programs that Go links alone.
    match code {
        Some(code) if start <= code.end() && code.end() - start <= PADDING => Ok(functions),
        Some(code) if start <= code.end() && table.text != code.address => Ok(functions),
        _ => Err("its addresses are not those of the code"),
    }
}

impl<'d> Table<'d> {
    fn read(image: &Image<'_>, data: &'d [u8]) -> Option<Self> {
        let mut table = Self {
            data,
            big_endian: image.file.endian() == Endianness::Big,
            pointer: usize::from(*data.get(7)?),
            offsets: false,
            names: 0,
            list: 0,
            descriptions: 0,
            functions: 0,
            text: 0,
        };
        if !matches!(table.pointer, 4 | 8) || data.get(4..6)? != [0, 0] {
            return None;
        }
        let word = |n: usize| table.number(8 + n * table.pointer, table.pointer);
        let offset = |n: usize| usize::try_from(word(n)?).ok();
        let functions = offset(0)?;
        let (names, list, text) = match table.number(0, 4)? {
            0xFFFF_FFFB => (0, 8 + table.pointer, None),
            0xFFFF_FFFA => (offset(2)?, offset(6)?, None),
            0xFFFF_FFF0 | 0xFFFF_FFF1 => (offset(3)?, offset(7)?, Some(word(2)?)),
            _ => return None,
        };
        let descriptions = if names == 0 { 0 } else { list };
        if let Some(text) = text {
            table.offsets = true;
            // Go 1.26 leaves it out, and the file of a position-independent program has it unrelocated.
            let is_code = |code: &&crate::elf::Code<'_>| (code.address..code.end()).contains(&text);
            table.text = match image.code.iter().find(is_code) {
                Some(_) => text,
                None => image.section(".text")?.0,
            };
        }
        (table.names, table.list, table.descriptions) = (names, list, descriptions);
        // No more than there is room for.
        table.functions = functions.min(data.len() / 8);
        Some(table)
    }

    /// The number of `size` bytes at an offset.
    fn number(&self, at: usize, size: usize) -> Option<u64> {
        let bytes = self.data.get(at..at.checked_add(size)?)?.iter();
        let join = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(match self.big_endian {
            true => bytes.fold(0, join),
            false => bytes.rev().fold(0, join),
        })
    }

    /// A field of the list: the address of function `n`, then the offset of its description.
    fn field(&self, n: usize) -> Option<u64> {
        let size = if self.offsets { 4 } else { self.pointer };
        self.number(self.list.checked_add(n.checked_mul(size)?)?, size)
    }

    /// Where function `n` begins; behind the last, where that ends.
    fn address(&self, n: usize) -> Option<u64> {
        self.field(2 * n)?.checked_add(self.text)
    }

    fn name(&self, n: usize) -> Option<&'d str> {
        let description = usize::try_from(self.field(2 * n + 1)?).ok()?;
        let address = if self.offsets { 4 } else { self.pointer };
        let at = self.descriptions.checked_add(description)?;
        let name = self.number(at.checked_add(address)?, 4)?;
        let from = self.names.checked_add(usize::try_from(name).ok()?)?;
        let text = self.data.get(from..)?;
        let end = text.iter().take(LONGEST_NAME).position(|b| *b == 0)?;
        std::str::from_utf8(&text[..end])
            .ok()
            .filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Options, inspect_elf};

    /// An ELF file of aarch64 with these sections, all of them loaded: name, address, flags, bytes.
    fn elf(sections: &[(&str, u64, u64, &[u8])]) -> Vec<u8> {
        let mut names = vec![0];
        let mut bytes = vec![0; 64];
        let mut headers = vec![[0_u64; 8]];
        for (name, address, flags, data) in sections {
            headers.push([
                names.len() as u64 | 1 << 32,
                *flags,
                *address,
                bytes.len() as u64,
                data.len() as u64,
                0,
                4,
                0,
            ]);
            names.extend(name.bytes().chain([0]));
            bytes.extend(*data);
        }
        let name = names.len() as u64;
        names.extend(b".shstrtab\0");
        headers.push([
            name | 3 << 32,
            0,
            0,
            bytes.len() as u64,
            names.len() as u64,
            0,
            1,
            0,
        ]);
        bytes.extend(&names);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let (at, n) = (bytes.len() as u64, headers.len() as u8);
        for header in headers {
            bytes.extend(header.iter().flat_map(|field| field.to_le_bytes()));
        }
        bytes[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xb7\0");
        bytes[20] = 1;
        bytes[40..48].copy_from_slice(&at.to_le_bytes());
        (bytes[52], bytes[58], bytes[60], bytes[62]) = (64, 64, n, n - 1);
        bytes
    }

    const TEXT: u64 = 0x11000;
    /// The functions: name and bytes.
    const FUNCTIONS: [(&str, u64); 2] = [("main.add", 40), ("main.main", 24)];

    /// Their code: an LSE instruction behind Go's check and its exclusive loop; one without a check.
    fn code() -> Vec<u8> {
        let words: [u32; 16] = [
            0x9000_001B, // adrp x27, .
            0x3940_0364, // ldrb w4, [x27]
            0x3600_0084, // tbz w4, #0, +16
            0xF8E3_0024, // ldaddal x3, x4, [x1]
            0x8B03_0084, // add x4, x4, x3
            0x1400_0004, // b +16
            0xC85F_FC24, // ldaxr x4, [x1]
            0xC81B_FC23, // stlxr w27, x3, [x1]
            0xB5FF_FFDB, // cbnz x27, -8
            0xD65F_03C0, // ret
            0x3940_0364, // ldrb w4, [x27]
            0x3600_0044, // tbz w4, #0, +8
            0xF8E3_0024, // ldaddal x3, x4, [x1]
            0xD65F_03C0, // ret
            0xD503_201F, // nop
            0xD503_201F, // nop
        ];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The table, as that version of Go writes it.
    fn table(magic: u32, text: u64) -> Vec<u8> {
        let mut names = Vec::new();
        let mut places = Vec::new();
        for (name, _) in FUNCTIONS {
            places.push(names.len() as u32);
            names.extend(name.bytes().chain([0]));
        }
        let offsets = magic <= 0xFFFF_FFF1;
        let put = |to: &mut Vec<u8>, value: u64| match offsets {
            true => to.extend((value as u32).to_le_bytes()),
            false => to.extend(value.to_le_bytes()),
        };
        let base = if offsets { 0 } else { TEXT };
        let header = match magic {
            0xFFFF_FFFB => 16,
            0xFFFF_FFFA => 8 + 7 * 8,
            _ => 8 + 8 * 8,
        };
        let (list_bytes, field) = if offsets { (20, 4) } else { (40, 8) };
        // Since 1.16 names come first, and descriptions are counted from the list.
        let since_16 = magic != 0xFFFF_FFFB;
        let list_at = header + if since_16 { names.len() as u64 } else { 0 };
        let described = list_bytes + if since_16 { 0 } else { list_at };
        let names_at = if since_16 {
            header
        } else {
            described + 2 * (field + 4)
        };
        let (mut list, mut descriptions, mut at) = (Vec::new(), Vec::new(), base);
        for (n, (_, length)) in FUNCTIONS.iter().enumerate() {
            put(&mut list, at);
            put(&mut list, described + descriptions.len() as u64);
            put(&mut descriptions, at);
            let name = places[n] + if since_16 { 0 } else { names_at as u32 };
            descriptions.extend(name.to_le_bytes());
            at += length;
        }
        put(&mut list, at);
        let mut bytes = magic.to_le_bytes().to_vec();
        bytes.extend([0, 0, 4, 8]);
        let fields: Vec<u64> = match magic {
            0xFFFF_FFFB => vec![2],
            0xFFFF_FFFA => vec![2, 0, names_at, 0, 0, 0, list_at],
            _ => vec![2, 0, text, names_at, 0, 0, 0, list_at],
        };
        bytes.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        let parts = match since_16 {
            true => [names, list, descriptions],
            false => [list, descriptions, names],
        };
        bytes.extend(parts.concat());
        bytes
    }

    fn program(table: &[u8]) -> Vec<u8> {
        elf(&[
            (".text", TEXT, 6, &code()),
            (".gopclntab", 0x20000, 2, table),
        ])
    }

    #[test]
    fn functions_of_every_version_of_the_table_are_known_with_names() {
        for (magic, text) in [
            (0xFFFF_FFFB, 0),
            (0xFFFF_FFFA, 0),
            (0xFFFF_FFF0, TEXT),
            (0xFFFF_FFF1, TEXT),
            (0xFFFF_FFF1, 0),
        ] {
            let bytes = program(&table(magic, text));
            let binary = inspect_elf("go", &bytes, &Options::on(1)).expect("readable");
            assert_eq!(binary.warnings, [""; 0], "{magic:#x}");
            assert_eq!(binary.bounds.by_source["gopclntab"], 2, "{magic:#x}");
            assert_eq!(binary.bounds.covered_bytes, 64, "{magic:#x}");
            let functions = binary.atomics.functions.iter();
            let named: Vec<_> = functions.map(|f| (f.label(), f.size_bytes)).collect();
            let expected = FUNCTIONS.map(|(name, length)| (name.to_owned(), length));
            assert_eq!(named, expected, "{magic:#x}");
            assert_eq!(binary.atomics.total(), 4, "{magic:#x}");
            let checked = (binary.atomics.checked_lse, binary.atomics.inline_lse());
            assert_eq!(checked, (1, 1), "{magic:#x}");
            assert_eq!(binary.atomics.inline_llsc(), 0, "{magic:#x}");
        }
    }

    #[test]
    fn without_the_table_nothing_is_known_of_its_atomics() {
        let bytes = elf(&[(".text", TEXT, 6, &code())]);
        let binary = inspect_elf("go", &bytes, &Options::on(1)).expect("readable");
        assert_eq!(
            (binary.atomics.total(), binary.atomics.outside_count),
            (0, 4)
        );
        assert!(binary.unknown_atomics().is_some());
    }

    #[test]
    fn a_damaged_table_is_survived() {
        for magic in [0xFFFF_FFFB_u32, 0xFFFF_FFFA, 0xFFFF_FFF0, 0xFFFF_FFF1] {
            let whole = table(magic, TEXT);
            for length in 0..whole.len() {
                let bytes = program(&whole[..length]);
                let binary = inspect_elf("go", &bytes, &Options::on(1)).expect("readable");
                let known = binary.bounds.by_source.contains_key("gopclntab");
                assert!(known || binary.warnings.len() == 1, "{magic:#x} {length}");
            }
            for at in 0..whole.len() {
                for value in [0, 1, 0x7F, 0xFF] {
                    let mut damaged = whole.clone();
                    damaged[at] = value;
                    let binary = inspect_elf("go", &program(&damaged), &Options::on(1));
                    let bounds = binary.expect("readable").bounds;
                    assert!(bounds.covered_bytes <= bounds.text_bytes);
                }
            }
        }
        let end = table(0xFFFF_FFF1, 0).len();
        let mut longer = table(0xFFFF_FFF1, 0);
        longer.resize(end + 64, 0xFF);
        longer[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        let binary = inspect_elf("go", &program(&longer), &Options::on(1)).expect("readable");
        assert!(
            binary.warnings[0].contains(".gopclntab"),
            "{:?}",
            binary.warnings
        );
    }
}
