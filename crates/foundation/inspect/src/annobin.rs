//! Compiler flags from the notes that Red Hat's compilers leave: annobin, the section
//! `.gnu.build.attributes` ("Watermark" specification, Fedora; `include/elf/common.h` of binutils for
//! the numbers; annobin's `annocheck` for what the values mean).
//!
//! A note's name is "GA", a letter for the type of its value (`*` a number in bytes from the lowest,
//! `$` a text, `+` true, `!` false), then a known attribute's number or a name that ends in NUL, then
//! the value. Notes of the newer form (`.annobin.notes`) are not read.

use object::Endianness;

/// Notes for a whole file's code; those for one function (0x101) repeat them or are an exception.
const OPEN: u32 = 0x100;

/// Attributes with a number.
const STACK_PROTECTOR: u8 = 2;
const POSITION: u8 = 7;
const SHORT_ENUM: u8 = 8;

/// Flags told apart: notes come for each file that was compiled, so that they repeat.
const MOST_FLAGS: usize = 32;

/// A note's value.
enum Value {
    Number(u64),
    Flag(bool),
}

/// The flags that the files of a program were compiled with, each once; where files differ, both
/// forms. Empty where no note tells of any.
pub fn flags(notes: &[u8], endian: Endianness) -> String {
    let mut found: Vec<String> = Vec::new();
    let mut rest = notes;
    while let Some((kind, name, behind)) = next(rest, endian) {
        rest = behind;
        if kind != OPEN || found.len() >= MOST_FLAGS {
            continue;
        }
        for flag in meaning(name) {
            if !found.contains(&flag) {
                found.push(flag);
            }
        }
    }
    found.join(" ")
}

/// The first note: its type and name, and what follows it.
fn next(notes: &[u8], endian: Endianness) -> Option<(u32, &[u8], &[u8])> {
    let word = |at: usize| {
        let raw = <[u8; 4]>::try_from(notes.get(at..at + 4)?).ok()?;
        Some(match endian {
            Endianness::Big => u32::from_be_bytes(raw),
            Endianness::Little => u32::from_le_bytes(raw),
        })
    };
    let (name, description, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
    let described = 12_usize.checked_add(name)?.checked_next_multiple_of(4)?;
    let end = described
        .checked_add(description)?
        .checked_next_multiple_of(4)?;
    let name = notes.get(12..12 + name)?;
    Some((kind, name, notes.get(end.min(notes.len())..)?))
}

fn meaning(name: &[u8]) -> Vec<String> {
    let [b'G', b'A', form, rest @ ..] = name else {
        return Vec::new();
    };
    let Some(first) = rest.first() else {
        return Vec::new();
    };
    // Numbers below a blank are attributes, anything else begins a name.
    let (attribute, value) = if *first < b' ' {
        (&rest[..1], &rest[1..])
    } else {
        let end = rest.iter().position(|b| *b == 0).unwrap_or(rest.len());
        (&rest[..end], rest.get(end + 1..).unwrap_or_default())
    };
    let value = match form {
        b'*' => Value::Number(
            value
                .iter()
                .take(8)
                .rev()
                .fold(0, |n, b| n << 8 | u64::from(*b)),
        ),
        b'+' => Value::Flag(true),
        b'!' => Value::Flag(false),
        _ => return Vec::new(),
    };
    let one = |flag: &str| vec![flag.to_string()];
    match (attribute, value) {
        (b"GOW", Value::Number(bits)) => optimisation(bits),
        ([STACK_PROTECTOR], Value::Number(n)) => match n {
            0 => one("-fno-stack-protector"),
            1 => one("-fstack-protector"),
            2 => one("-fstack-protector-all"),
            3 => one("-fstack-protector-strong"),
            4 => one("-fstack-protector-explicit"),
            _ => Vec::new(),
        },
        ([POSITION], Value::Number(n)) => match n {
            1 => one("-fpic"),
            2 => one("-fPIC"),
            3 => one("-fpie"),
            4 => one("-fPIE"),
            _ => Vec::new(),
        },
        ([SHORT_ENUM], Value::Flag(true)) => one("-fshort-enums"),
        (b"FORTIFY", Value::Number(level @ 1..=9)) => vec![format!("-D_FORTIFY_SOURCE={level}")],
        (b"GLIBCXX_ASSERTIONS", Value::Flag(true)) => one("-D_GLIBCXX_ASSERTIONS"),
        (b"stack_clash", Value::Flag(on)) => one(if on {
            "-fstack-clash-protection"
        } else {
            "-fno-stack-clash-protection"
        }),
        // One more than the compiler's own number, which has bit 2 where the flag was given.
        (b"cf_protection", Value::Number(n)) => match n.wrapping_sub(1) & 3 {
            1 => one("-fcf-protection=branch"),
            2 => one("-fcf-protection=return"),
            3 => one("-fcf-protection=full"),
            _ => Vec::new(),
        },
        (b"omit_frame_pointer", Value::Flag(on)) => one(if on {
            "-fomit-frame-pointer"
        } else {
            "-fno-omit-frame-pointer"
        }),
        _ => Vec::new(),
    }
}

/// "GOW", debugging, optimisation and warnings: the level in bits 10:9, then bits for -Os, -Ofast and
/// -Og, for -Wall and -Wformat-security, and from bit 16 whether link-time optimisation was on or off.
fn optimisation(bits: u64) -> Vec<String> {
    let is = |n: u32| bits >> n & 1 == 1;
    let mut flags = vec![if is(11) {
        "-Os".into()
    } else if is(12) {
        "-Ofast".into()
    } else if is(13) {
        "-Og".into()
    } else {
        format!("-O{}", bits >> 9 & 3)
    }];
    for (n, flag) in [
        (14, "-Wall"),
        (15, "-Wformat-security"),
        (16, "-flto"),
        (17, "-fno-lto"),
    ] {
        if is(n) {
            flags.push(flag.into());
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, name: &[u8], description: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [name.len() as u32, description.len() as u32, kind] {
            note.extend(word.to_le_bytes());
        }
        for part in [name, description] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    /// The notes of one file of libkrb5 in the wheel psycopg2-binary 2.9.13 for aarch64, which
    /// readelf -n reads as version 3p1113, stack prot all, PIC, short enum false, FORTIFY 2,
    /// GLIBCXX_ASSERTIONS, GOW 0x2852a, cf_protection 1, omit_frame_pointer and stack_clash.
    #[test]
    fn the_notes_of_a_red_hat_library_read_as_its_flags() {
        let names: [&[u8]; 12] = [
            b"GA$\x013p1113\0",
            b"GA*\x02\x02\0",
            b"GA$\x05running gcc 8.5.0 20210514\0",
            b"GA*\x06\xff\xff\xff\xff\xff\xff\xff\xff\0",
            b"GA*\x07\x02\0",
            b"GA!\x08\0",
            b"GA*FORTIFY\0\x02\0",
            b"GA+GLIBCXX_ASSERTIONS\0",
            b"GA*GOW\0\x2a\x85\x02\0",
            b"GA*cf_protection\0\x01\0",
            b"GA+omit_frame_pointer\0",
            b"GA+stack_clash\0",
        ];
        let mut notes = note(OPEN, names[0], &[0; 16]);
        for name in &names[1..] {
            notes.extend(note(OPEN, name, &[]));
        }
        let wanted = "-fstack-protector-all -fPIC -D_FORTIFY_SOURCE=2 -D_GLIBCXX_ASSERTIONS -O2 \
                      -Wformat-security -fno-lto -fomit-frame-pointer -fstack-clash-protection";
        assert_eq!(flags(&notes, Endianness::Little), wanted);
        // A second file with the same flags adds nothing, a function's exception neither.
        let twice = [
            notes.clone(),
            notes.clone(),
            note(0x101, b"GA*GOW\0\0\0\0", &[]),
        ]
        .concat();
        assert_eq!(flags(&twice, Endianness::Little), wanted);
        assert_eq!(
            flags(
                &note(OPEN, b"GA*cf_protection\0\x08\0", &[]),
                Endianness::Little
            ),
            "-fcf-protection=full"
        );
        for cut in 0..notes.len() {
            flags(&notes[..cut], Endianness::Little);
            flags(&notes[cut..], Endianness::Big);
        }
    }
}
