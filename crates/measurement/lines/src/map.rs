//! The parts of a process' memory (/proc/PID/maps, proc_pid_maps(5)).

use std::ops::Range;

/// Above all addresses of user processes.
pub const ELSEWHERE: u64 = 1 << 62;

/// A mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Where it lies.
    pub range: Range<u64>,
    /// Whether it is executed.
    pub executable: bool,
    /// Whether other processes see what is written there.
    pub shared: bool,
    /// Where it begins in its file.
    pub offset: u64,
    /// The file, or the kernel's name in brackets; may be empty.
    pub path: String,
}

impl Mapping {
    /// A line of the file.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let permissions = fields.next()?;
        let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
        let path = fields.nth(2).unwrap_or_default().trim_start();
        let start = u64::from_str_radix(start, 16).ok()?;
        let end = u64::from_str_radix(end, 16).ok()?;
        Some(Self {
            range: start..end,
            executable: permissions.contains('x'),
            shared: permissions.ends_with('s'),
            offset,
            path: path.strip_suffix(" (deleted)").unwrap_or(path).to_owned(),
        })
    }

    /// Whether its bytes are those of a file.
    pub fn is_file(&self) -> bool {
        self.path.starts_with('/') && !self.shared
    }

    /// Where it is recorded to begin. The main segment lies at one address in all processes of a
    /// server; others are put where no process has memory, by their names.
    pub fn canonical(&self) -> u64 {
        match self.segment() {
            "main segment" | "System V segment" => self.range.start,
            _ => {
                // FNV-1a; 22 bits of it choose a place of 4 GiB above all user addresses.
                let hash = self
                    .path
                    .bytes()
                    .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
                    });
                ELSEWHERE | ((hash >> 20) & 0x3f_ffff) << 32
            }
        }
    }

    /// What kind of shared segment it is, in words.
    pub fn segment(&self) -> &'static str {
        match self.path.as_str() {
            path if path.starts_with("/dev/zero") || path.starts_with("/anon_hugepage") => {
                "main segment"
            }
            path if path.starts_with("/SYSV") => "System V segment",
            path if path.starts_with("/dev/shm/PostgreSQL.") => "dynamic segment",
            path if path.starts_with("anon_inode:") => "kernel's ring",
            _ => "other shared mapping",
        }
    }
}

/// All parts, by address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Map(pub Vec<Mapping>);

impl Map {
    /// Reads the file's text; lines that are not understood are left out.
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(Mapping::parse).collect())
    }

    /// The part that holds an address.
    pub fn at(&self, address: u64) -> Option<&Mapping> {
        let after = self.0.partition_point(|m| m.range.start <= address);
        let mapping = self.0.get(after.checked_sub(1)?)?;
        (address < mapping.range.end).then_some(mapping)
    }

    /// The shared parts.
    pub fn shared(&self) -> Vec<Mapping> {
        self.0.iter().filter(|m| m.shared).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
5580e0000000-5580e0100000 r-xp 00001000 fe:00 77 /usr/lib/postgresql/15/bin/postgres
7f0000000000-7f0008000000 rw-s 00000000 00:01 1024 /dev/zero (deleted)
7f0009000000-7f0009001000 rw-s 00000000 00:0e 5 /dev/shm/PostgreSQL.77
7f0009002000-7f0009003000 rw-p 00000000 00:00 0 
7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0                          [vdso]
";

    #[test]
    fn parts_are_told_apart() {
        let map = Map::parse(TEXT);
        assert_eq!(map.0.len(), 5);
        let shared: Vec<_> = map.shared().iter().map(Mapping::segment).collect();
        assert_eq!(shared, ["main segment", "dynamic segment"]);
        let code = map.at(0x5580_e000_1000).unwrap();
        assert!(code.executable && code.is_file() && code.offset == 0x1000);
        let starts: Vec<_> = map.shared().iter().map(Mapping::canonical).collect();
        assert_eq!(starts[0], 0x7f00_0000_0000);
        assert!(starts[1] >= ELSEWHERE && starts[1] % (1 << 32) == 0);
        assert_eq!(map.at(0x7f00_0900_2000).unwrap().path, "");
        assert!(map.at(0x7f00_0900_3000).is_none() && map.at(0).is_none());
        assert!(!map.at(0x7f00_0000_0000).unwrap().is_file());
    }
}
