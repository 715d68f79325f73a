//! What a file says about how it was built: compiler, flags, PostgreSQL version, hardening.

use memchr::memmem;
use object::elf;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object};

use crate::annobin;
use crate::elf::Image;
use crate::model::{BuildFacts, FileKind, Hardening, Machine, PostgresFacts, RecordedFlags};

/// Longest text taken from a file into a report.
const TEXT_LIMIT: usize = 4096;

/// Compiler, recorded flags, identity.
pub fn build_facts(image: &Image<'_>) -> BuildFacts {
    let mut facts = BuildFacts {
        stripped: image.file.elf_symbol_table().is_empty(),
        has_dwarf: image.has_dwarf(),
        build_id: image.file.build_id().ok().flatten().map(hex),
        debuglink: image
            .file
            .gnu_debuglink()
            .ok()
            .flatten()
            .map(|(name, _)| clean(&name[..name.len().min(255)])),
        ..BuildFacts::default()
    };
    if let Some((_, comment)) = image.section(".comment") {
        for text in strings(comment).take(64) {
            add(&mut facts.compilers, text);
        }
    }
    if let Some((_, notes)) = image.section(".gnu.build.attributes") {
        // annobin: "running gcc 11.4.1 20231218", "GA$\x013a1..." and the like among binary fields.
        for text in strings(&notes[..notes.len().min(1 << 20)]) {
            if let Some(at) = text.find("running ") {
                add(&mut facts.compilers, text[at + 8..].to_string());
            }
        }
        let flags = annobin::flags(notes, image.file.endian());
        if !flags.is_empty() {
            facts.flags.push(RecordedFlags {
                source: ".gnu.build.attributes".into(),
                flags,
            });
        }
    }
    if let Some((_, recorded)) = image.section(".GCC.command.line") {
        let mut lines: Vec<String> = Vec::new();
        for text in strings(recorded).take(64) {
            add(&mut lines, text);
        }
        facts
            .flags
            .extend(lines.into_iter().map(|flags| RecordedFlags {
                source: ".GCC.command.line".into(),
                flags,
            }));
    }
    facts
}

/// Adds compilers and flags as `DW_AT_producer` records them: "GNU C17 12.2.0 -mlittle-endian -O2 …"
/// is the compiler, then its flags.
pub fn add_producers(facts: &mut BuildFacts, producers: &[String]) {
    for producer in producers {
        let (compiler, flags) = match producer.find(" -") {
            Some(at) => producer.split_at(at),
            None => (producer.as_str(), ""),
        };
        add(&mut facts.compilers, compiler.to_string());
        let flags = RecordedFlags {
            source: "DW_AT_producer".into(),
            flags: flags.trim().into(),
        };
        if !flags.flags.is_empty() && facts.flags.len() < 4 && !facts.flags.contains(&flags) {
            facts.flags.push(flags);
        }
    }
}

fn add(list: &mut Vec<String>, text: String) {
    if !text.is_empty() && list.len() < 16 && !list.contains(&text) {
        list.push(text);
    }
}

/// NUL-separated texts, cut to a length fit for a report, without control characters.
fn strings(bytes: &[u8]) -> impl Iterator<Item = String> + '_ {
    bytes
        .split(|b| *b == 0)
        .filter(|s| !s.is_empty())
        .map(|s| clean(&s[..s.len().min(TEXT_LIMIT)]))
}

/// A text from a file that may be hostile: no control characters reach a terminal.
pub fn clean(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .filter(|c| !c.is_control())
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(64).map(|b| format!("{b:02x}")).collect()
}

/// Hardening by program headers, dynamic section, GNU properties and imports.
pub fn hardening(image: &Image<'_>, pac_instructions: u64) -> Hardening {
    let endian = image.file.endian();
    let headers = image.file.elf_program_headers();
    let has = |wanted| headers.iter().any(|p| p.p_type(endian) == wanted);
    let bind_now = image.dynamic_flag(elf::DT_FLAGS.0 as u64, 8)
        || image.dynamic_flag(elf::DT_FLAGS_1.0 as u64, 1)
        || image.dynamic().iter().any(|(tag, _)| *tag == 24);
    let features = gnu_property_features(image);
    Hardening {
        pie: image.file.elf_header().e_type(endian) == elf::ET_DYN
            && image.kind != FileKind::DebugInfo,
        relro: match (has(elf::PT_GNU_RELRO), bind_now) {
            (true, true) => "full",
            (true, false) => "partial",
            _ => "none",
        }
        .into(),
        executable_stack: headers.iter().any(|p| {
            p.p_type(endian) == elf::PT_GNU_STACK && p.p_flags(endian).0 & elf::PF_X.0 != 0
        }),
        branch_targets: features & 1 != 0,
        return_addresses: features & 2 != 0,
        pac_instructions,
        stack_protector: image.mentions(|n| n == "__stack_chk_fail" || n == "__stack_chk_guard"),
        fortified: image.mentions(|n| n.starts_with("__") && n.ends_with("_chk")),
    }
}

/// GNU_PROPERTY_X86_FEATURE_1_AND (IBT 1, SHSTK 2) or GNU_PROPERTY_AARCH64_FEATURE_1_AND (BTI 1,
/// PAC 2) of `.note.gnu.property`.
fn gnu_property_features(image: &Image<'_>) -> u32 {
    let wanted = match image.machine {
        Machine::X86_64 => 0xC000_0002_u32,
        Machine::Aarch64 => 0xC000_0000,
        _ => return 0,
    };
    let Some((_, note)) = image.section(".note.gnu.property") else {
        return 0;
    };
    let word = |at: usize| {
        note.get(at..at + 4)
            .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    };
    // Header of 12 bytes and the name "GNU\0", then properties of type, length, data padded to 8.
    let mut at = 16;
    while let (Some(kind), Some(length)) = (word(at), word(at + 4)) {
        if kind == wanted && length >= 4 {
            return word(at + 8).unwrap_or(0);
        }
        at = at.saturating_add(8 + (length as usize).next_multiple_of(8));
    }
    0
}

/// What a PostgreSQL server says of itself; none if the file is another program.
///
/// The version is in the constant that `version()` returns. The block size is in the table entry of
/// the read-only setting `block_size`, whose default, minimum and maximum are all BLCKSZ.
pub fn postgres_facts(image: &Image<'_>) -> (Option<PostgresFacts>, Vec<RecordedFlags>) {
    let sections = image.data_sections();
    let mut facts = PostgresFacts::default();
    let mut is_server = false;
    for (_, data) in &sections {
        for text in constants(data, b"PostgreSQL ") {
            // "PostgreSQL 15.18 (Debian ...) on x86_64-pc-linux-gnu, compiled by gcc ..., 64-bit"
            let version = text["PostgreSQL ".len()..]
                .split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'))
                .next()
                .unwrap_or("");
            if version.starts_with(|c: char| c.is_ascii_digit())
                && (text.contains(" on ") && text.contains("compiled by")
                    || facts.version.is_empty())
            {
                facts.version = version.to_string();
                if text.contains("compiled by") {
                    facts.version_text = Some(text);
                }
            }
        }
        // No NUL before them: a linker may keep a constant as the end of a longer one.
        is_server |= memmem::find(data, b"postmaster.pid\0").is_some()
            && memmem::find(data, b"shared_buffers\0").is_some();
    }
    if !is_server {
        return (None, Vec::new());
    }
    let mut flags = Vec::new();
    for (_, data) in &sections {
        for text in around(data, b"-Wall ") {
            // pg_config's CFLAGS: the one constant with warnings and an optimisation level that is
            // not configure's own command line.
            let flag = RecordedFlags {
                source: "pg_config CFLAGS".into(),
                flags: text,
            };
            let fits = flag.flags.contains("-O") && !flag.flags.contains("'--");
            if fits && !flags.contains(&flag) && flags.len() < 4 {
                flags.push(flag);
            }
        }
        if facts.configure.is_none() {
            facts.configure = around(data, b"'--")
                .find(|text| text.contains("prefix=") || text.contains("'--with"))
                .map(|text| text.trim().to_string());
        }
    }
    facts.block_size_bytes = preset_integer(image, &sections, b"block_size");
    facts.wal_block_size_bytes = preset_integer(image, &sections, b"wal_block_size");
    (Some(facts), flags)
}

/// NUL-terminated constants that begin with `prefix`.
fn constants<'d>(data: &'d [u8], prefix: &'d [u8]) -> impl Iterator<Item = String> + 'd {
    memmem::find_iter(data, prefix)
        .filter(|at| *at == 0 || data[at - 1] == 0)
        .take(100_000)
        .map(|at| {
            let rest = &data[at..];
            let rest = &rest[..rest.len().min(TEXT_LIMIT)];
            clean(rest.split(|b| *b == 0).next().unwrap_or_default())
        })
        .filter(|text| text.len() > 8)
}

/// NUL-terminated constants that hold `needle` anywhere.
fn around<'d>(data: &'d [u8], needle: &'d [u8]) -> impl Iterator<Item = String> + 'd {
    memmem::find_iter(data, needle).take(10_000).map(|at| {
        let before = &data[at.saturating_sub(TEXT_LIMIT)..at];
        let start = at - before.iter().rev().take_while(|b| **b != 0).count();
        let rest = &data[start..];
        let rest = &rest[..rest.len().min(TEXT_LIMIT)];
        clean(rest.split(|b| *b == 0).next().unwrap_or_default())
    })
}

/// BLCKSZ and XLOG_BLCKSZ from the settings table (`config_int` of guc_tables.c): find the name's
/// address, the table entry that points to it, and in the entry three equal integers.
fn preset_integer(image: &Image<'_>, sections: &[(u64, &[u8])], name: &[u8]) -> Option<u32> {
    // No NUL before it: a linker lets `block_size` be the end of `wal_block_size`.
    let mut needle = name.to_vec();
    needle.push(0);
    let big = image.file.endian() == Endianness::Big;
    for (base, data) in sections {
        for at in memmem::find_iter(data, &needle).take(8) {
            let address = base + at as u64;
            for entry in pointers_to(image, sections, address, big) {
                let Some(bytes) = image.at(entry) else {
                    continue;
                };
                let bytes = &bytes[..bytes.len().min(256)];
                let ints: Vec<u32> = bytes
                    .as_chunks::<4>()
                    .0
                    .iter()
                    .map(|b| {
                        if big {
                            u32::from_be_bytes(*b)
                        } else {
                            u32::from_le_bytes(*b)
                        }
                    })
                    .collect();
                let preset = ints.windows(3).find(|w| {
                    w[0] == w[1]
                        && w[1] == w[2]
                        && w[0].is_power_of_two()
                        && (1024..=65_536).contains(&w[0])
                });
                if let Some(preset) = preset {
                    return Some(preset[0]);
                }
            }
        }
    }
    None
}

/// Places that hold `address`: by relative relocation, or, in a fixed-address program, as plain data.
fn pointers_to(image: &Image<'_>, sections: &[(u64, &[u8])], address: u64, big: bool) -> Vec<u64> {
    let bytes = if big {
        address.to_be_bytes()
    } else {
        address.to_le_bytes()
    };
    let mut places = Vec::new();
    if let Some((_, rela)) = image.section(".rela.dyn") {
        for at in memmem::find_iter(rela, &bytes)
            .filter(|at| at % 24 == 16)
            .take(16)
        {
            let place = <[u8; 8]>::try_from(&rela[at - 16..at - 8]).unwrap_or_default();
            places.push(if big {
                u64::from_be_bytes(place)
            } else {
                u64::from_le_bytes(place)
            });
        }
    }
    if !places.is_empty() {
        return places;
    }
    for (base, data) in sections {
        places.extend(
            memmem::find_iter(data, &bytes)
                .map(|at| base + at as u64)
                .filter(|a| a % 8 == 0)
                .take(16),
        );
    }
    places
}
