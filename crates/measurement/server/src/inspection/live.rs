//! A running process: the files mapped into it, the flag byte of its outline atomics, its HWCAP.
//!
//! On aarch64 a build with outline atomics decides at start-up, once, and keeps the decision in a
//! byte (`__aarch64_have_lse_atomics`). Reading that byte from the process's memory shows which path
//! runs there, where everything else only infers it.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use pgassay_inspect::{Binary, FlagByte, Machine, ProcessFacts};

/// A file mapped into a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedFile {
    /// As the kernel names it.
    pub path: String,
    /// Where the file's first byte is mapped.
    pub start: u64,
    /// A part of it may be executed.
    pub executable: bool,
}

/// The distinct files mapped into a process, in the order of their addresses.
///
/// # Errors
/// Where /proc/PID/maps can't be read.
pub fn mapped_files(pid: u32) -> io::Result<Vec<MappedFile>> {
    Ok(parse_maps(&fs::read_to_string(format!(
        "/proc/{pid}/maps"
    ))?))
}

/// Reads /proc/PID/maps (proc(5)): `start-end perms offset dev inode path`.
fn parse_maps(text: &str) -> Vec<MappedFile> {
    let mut files: Vec<MappedFile> = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(6, ' ');
        let (Some(range), Some(permissions), Some(offset), _, Some(inode), Some(path)) = (
            fields.next(),
            fields.next(),
            fields.next(),
            fields.next(),
            fields.next(),
            fields.next(),
        ) else {
            continue;
        };
        let path = path.trim_start();
        let start = range
            .split('-')
            .next()
            .and_then(|s| u64::from_str_radix(s, 16).ok());
        let (Some(start), false) = (start, inode == "0" || !path.starts_with('/')) else {
            continue;
        };
        let executable = permissions.contains('x');
        match files.iter_mut().find(|f| f.path == path) {
            Some(file) => file.executable |= executable,
            None if u64::from_str_radix(offset, 16) == Ok(0) => {
                files.push(MappedFile {
                    path: path.to_string(),
                    start,
                    executable,
                });
            }
            None => {}
        }
    }
    files
}

/// The processes that `parent` started: /proc lists them, or all are asked for their parent.
pub fn children(parent: u32) -> Vec<u32> {
    if let Ok(list) = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")) {
        return list
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect();
    }
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| parent_of(*pid) == Some(parent))
        .collect()
}

/// The process that started `pid`.
pub fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold blanks; state and parent follow it.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

/// Whether `pid` on this machine is the backend that serves a TCP connection from `client_port`, as
/// the server calls it: its process title says so. A process id alone would not do: through a tunnel
/// the server is elsewhere, and another's backend may have that number here.
pub fn serves_port(pid: u32, client_port: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|title| {
        title.starts_with("postgres:") && title.contains(&format!("({client_port})"))
    })
}

/// Whether `pid`, which listens on a server's Unix socket, is PostgreSQL's first process and not
/// a pooler's: of a pooler neither the program nor the processes below it are the server's.
///
/// What another user's process may be asked is its name; by a name of its own a server is still
/// known by its data directory, where it may be read.
pub fn is_postmaster(pid: u32) -> bool {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
    let name = read("comm").unwrap_or_default();
    named_as_server(&name)
        || read("cwd/postmaster.pid").is_ok_and(|text| {
            let first = text.lines().next().map(str::trim);
            first.and_then(|line| line.parse().ok()) == Some(pid)
        })
}

/// `postgres`, or what a distribution makes of it, such as `edb-postgres`.
fn named_as_server(name: &str) -> bool {
    let name = name.trim();
    name == "postmaster" || name.split('-').any(|part| part == "postgres")
}

/// A path by which the file can be opened from here, whatever namespace the process lives in and
/// whether or not the file was removed (after an upgrade, say).
pub fn openable(pid: u32, file: &MappedFile, is_program: bool) -> PathBuf {
    if is_program {
        return PathBuf::from(format!("/proc/{pid}/exe"));
    }
    PathBuf::from(format!(
        "/proc/{pid}/root{}",
        file.path.trim_end_matches(" (deleted)")
    ))
}

/// HWCAP bits of Linux on aarch64 (arch/arm64/include/uapi/asm/hwcap.h).
const HWCAP_ATOMICS: u64 = 1 << 8;

/// Tag of HWCAP in the auxiliary vector (uapi/linux/auxvec.h).
const AT_HWCAP: u64 = 16;

/// HWCAP from an auxiliary vector of 64-bit words in this machine's byte order.
pub fn hwcap(auxv: &[u8]) -> Option<u64> {
    auxv.as_chunks::<16>().0.iter().find_map(|entry| {
        let (tag, value) = entry.split_at(8);
        let word = |b: &[u8]| u64::from_ne_bytes(b.try_into().unwrap_or_default());
        (word(tag) == AT_HWCAP).then(|| word(value))
    })
}

/// Whether this machine's own kernel announces LSE; none on other processors than aarch64.
pub fn host_has_lse() -> Option<bool> {
    if std::env::consts::ARCH != "aarch64" {
        return None;
    }
    hwcap(&fs::read("/proc/self/auxv").ok()?).map(|h| h & HWCAP_ATOMICS != 0)
}

/// Reads what a process tells about a file that is mapped into it.
pub fn facts(pid: u32, mapped: &MappedFile, binary: &Binary) -> ProcessFacts {
    let mut facts = ProcessFacts {
        pid,
        hwcap: None,
        hwcap_lse: None,
        flag_bytes: Vec::new(),
        unavailable: Vec::new(),
    };
    let own = match std::env::consts::ARCH {
        "x86_64" => Machine::X86_64,
        "aarch64" => Machine::Aarch64,
        "powerpc64" => Machine::Ppc64le,
        other => Machine::Other(other.into()),
    };
    match fs::read(format!("/proc/{pid}/auxv")) {
        Ok(_) if binary.machine != own && binary.machine.name() != std::env::consts::ARCH => {
            facts.unavailable.push(
                "HWCAP: the kernel's vector is the emulator's, not the one that this program sees"
                    .into(),
            );
        }
        Ok(auxv) => {
            let value = hwcap(&auxv);
            facts.hwcap = value.map(|h| format!("{h:#x}"));
            if binary.machine == Machine::Aarch64 {
                facts.hwcap_lse = value.map(|h| h & HWCAP_ATOMICS != 0);
            }
        }
        Err(error) => facts.unavailable.push(format!("auxiliary vector: {error}")),
    }
    let Some(outline) = &binary.atomics.outline else {
        return facts;
    };
    let memory = match fs::File::open(format!("/proc/{pid}/mem")) {
        Ok(memory) => memory,
        Err(error) => {
            facts.unavailable.push(format!(
                "flag byte: {error} (run as the server's user or as root)"
            ));
            return facts;
        }
    };
    for flag in &outline.flag_addresses {
        // The file's addresses are relative to its first mapped byte if it is position-independent.
        let address = if binary.hardening.pie {
            mapped.start.wrapping_add(*flag)
        } else {
            *flag
        };
        let mut byte = [0];
        match memory.read_exact_at(&mut byte, address) {
            Ok(()) => facts.flag_bytes.push(FlagByte {
                address,
                value: byte[0],
            }),
            Err(error) => facts
                .unavailable
                .push(format!("flag byte at {address:#x}: {error}")),
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attack D13: the process behind a Unix socket was taken for PostgreSQL's, whatever it was.
    #[test]
    fn a_pooler_is_no_server() {
        for name in ["postgres\n", "postmaster\n", "edb-postgres\n"] {
            assert!(named_as_server(name), "{name}");
        }
        for name in [
            "pgbouncer\n",
            "pgpool\n",
            "odyssey\n",
            "postgresql-pool\n",
            "",
        ] {
            assert!(!named_as_server(name), "{name}");
        }
        assert!(!is_postmaster(std::process::id()) && !is_postmaster(u32::MAX));
        // One of another name, by its data directory.
        let dir = pgassay_sys::private::Directory::make(&std::env::temp_dir(), "pgassay-live");
        let dir = dir.unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .current_dir(dir.path())
            .spawn()
            .unwrap();
        let before = is_postmaster(child.id());
        fs::write(
            dir.path().join("postmaster.pid"),
            format!("{}\n", child.id()),
        )
        .unwrap();
        let after = is_postmaster(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!before && after);
    }

    #[test]
    fn maps_name_each_file_once_with_its_first_address() {
        let text = "\
55d0c0000000-55d0c0010000 r--p 00000000 fe:00 42                         /usr/lib/postgresql/15/bin/postgres
55d0c0010000-55d0c0600000 r-xp 00010000 fe:00 42                         /usr/lib/postgresql/15/bin/postgres
55d0c2000000-55d0c2100000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000010000 rw-s 00000000 00:01 7                          /dev/zero (deleted)
7f1000000000-7f1000010000 r--p 00000000 fe:00 43                         /lib/with space.so (deleted)
";
        let files = parse_maps(text);
        assert_eq!(files.len(), 3, "{files:?}");
        assert_eq!(files[0].start, 0x55d0_c000_0000);
        assert!(files[0].executable);
        assert_eq!(files[2].path, "/lib/with space.so (deleted)");
        assert_eq!(
            openable(7, &files[2], false),
            PathBuf::from("/proc/7/root/lib/with space.so")
        );
    }

    #[test]
    fn hwcap_is_found_by_its_tag() {
        let vector: Vec<u8> = [6u64, 4096, AT_HWCAP, 0x1FF, 0, 0]
            .iter()
            .flat_map(|w| w.to_ne_bytes())
            .collect();
        assert_eq!(hwcap(&vector), Some(0x1FF));
        assert_eq!(hwcap(&vector[..20]), None);
    }

    #[test]
    fn this_process_maps_its_own_program() {
        let own = std::process::id();
        let files = mapped_files(own).unwrap();
        let exe = fs::read_link("/proc/self/exe").unwrap();
        assert!(
            files
                .iter()
                .any(|f| f.executable && f.path == exe.to_str().unwrap())
        );
        assert!(hwcap(&fs::read("/proc/self/auxv").unwrap()).is_some());
    }
}
