//! The kernel's counters of I/O, from their texts.

use std::collections::BTreeMap;

/// The reads of one line of /proc/diskstats, and what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskLine {
    /// Requests completed.
    pub requests: u64,
    /// Requests that were merged into others before they were sent.
    pub merged: u64,
    /// Sectors of 512 bytes, whatever the device's own are.
    pub sectors: u64,
    /// Milliseconds that requests were under way, reads and writes, the sum over all of them.
    pub waited_ms: u64,
    /// Sectors written.
    pub written_sectors: u64,
}

impl DiskLine {
    /// The lines of a text by device name; others' forms are left out. Linux 2.6
    /// to 5.5 have 14 to 20 fields; partitions of kernels before 2.6.25 have 7,
    /// which don't tell these figures.
    pub fn parse(text: &str) -> BTreeMap<String, Self> {
        text.lines()
            .filter_map(|line| {
                let fields: Vec<&str> = line.split_ascii_whitespace().collect();
                if fields.len() < 14 {
                    return None;
                }
                let number = |i: usize| fields[i].parse().ok();
                let line = Self {
                    requests: number(3)?,
                    merged: number(4)?,
                    sectors: number(5)?,
                    waited_ms: number(13)?,
                    written_sectors: number(9)?,
                };
                Some((fields[2].to_owned(), line))
            })
            .collect()
    }
}

/// What a cgroup read from one device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CgroupIo {
    /// Bytes.
    pub bytes: u64,
    /// Requests.
    pub requests: u64,
}

impl CgroupIo {
    /// By `MAJOR:MINOR`, from io.stat of version 2 (`254:0 rbytes=1 wbytes=2
    /// rios=3 …`), or from version 1's two files one after the other, each
    /// headed by `= NAME`: blkio.throttle.io_service_bytes and
    /// blkio.throttle.io_serviced (`254:0 Read 1`).
    pub fn parse(text: &str) -> BTreeMap<String, Self> {
        let mut found: BTreeMap<String, Self> = BTreeMap::new();
        let mut counts_requests = false;
        for line in text.lines() {
            if let Some(file) = line.strip_prefix("= ") {
                counts_requests = file.ends_with("io_serviced");
                continue;
            }
            let mut fields = line.split_ascii_whitespace();
            let Some(device) = fields.next().filter(|d| d.contains(':')) else {
                continue;
            };
            let rest: Vec<&str> = fields.collect();
            if let ["Read", value] = rest.as_slice() {
                let Ok(value) = value.parse() else { continue };
                let entry = found.entry(device.to_owned()).or_default();
                if counts_requests {
                    entry.requests = value;
                } else {
                    entry.bytes = value;
                }
                continue;
            }
            let of = |name: &str| {
                rest.iter()
                    .find_map(|field| field.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
            };
            // A device that did nothing has a line with its number alone.
            if let (Some(bytes), Some(requests)) = (of("rbytes"), of("rios")) {
                found.insert(device.to_owned(), Self { bytes, requests });
            }
        }
        found
    }
}

/// What a control group allows to be read of a device a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadLimits {
    /// Bytes.
    pub bytes: Option<u64>,
    /// Requests.
    pub requests: Option<u64>,
}

impl ReadLimits {
    /// Of the device `MAJOR:MINOR`, from io.max of version 2 (`254:0 rbps=20000000 wbps=max riops=max …`).
    pub fn parse(text: &str, device: &str) -> Self {
        let mut limits = Self::default();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            if words.next() != Some(device) {
                continue;
            }
            for word in words {
                match word.split_once('=') {
                    Some(("rbps", bytes)) => limits.bytes = bytes.parse().ok(),
                    Some(("riops", requests)) => limits.requests = requests.parse().ok(),
                    _ => {}
                }
            }
        }
        limits
    }

    /// The figure of the device in a file of version 1, blkio.throttle.read_bps_device or
    /// blkio.throttle.read_iops_device (`254:0 20000000`).
    pub fn figure(text: &str, device: &str) -> Option<u64> {
        let of_device = |line: &str| {
            line.strip_prefix(device)?
                .strip_prefix(' ')?
                .trim()
                .parse()
                .ok()
        };
        text.lines().find_map(of_device)
    }

    /// The lower of each of two levels.
    pub fn least(self, other: Self) -> Self {
        let least = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Self {
            bytes: least(self.bytes, other.bytes),
            requests: least(self.requests, other.requests),
        }
    }
}

/// What one process read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessIo {
    /// Bytes fetched from devices on its behalf, read-ahead included.
    pub read_bytes: u64,
    /// Bytes that it asked for by read(2) and the like, cached or not.
    pub asked_bytes: u64,
    /// Bytes that it had written to devices, now or later; 0 where the kernel does not say. Where the page cache has large
    /// folios a page that is written counts with all of its folio: 200 writes of 8 KiB to a file of ext4, each flushed, are 1.7 MB to
    /// the device and 210 MB here (Linux 6.18).
    pub write_bytes: u64,
    /// Bytes that it gave to write(2) and the like, cached or not; none where the kernel does not say.
    pub given_bytes: Option<u64>,
}

impl ProcessIo {
    /// By process id, from lines `PID name value name value …`.
    pub fn parse(text: &str) -> BTreeMap<u32, Self> {
        text.lines()
            .filter_map(|line| {
                let mut words = line.split_ascii_whitespace();
                let pid = words.next()?.parse().ok()?;
                let words: Vec<&str> = words.collect();
                let of = |name: &str| {
                    words
                        .chunks_exact(2)
                        .find(|pair| pair[0].trim_end_matches(':') == name)
                        .and_then(|pair| pair[1].parse().ok())
                };
                Some((
                    pid,
                    Self {
                        read_bytes: of("read_bytes")?,
                        asked_bytes: of("rchar")?,
                        write_bytes: of("write_bytes").unwrap_or(0),
                        given_bytes: of("wchar"),
                    },
                ))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn diskstats_of_old_and_new_kernels() {
        let text = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n\
             254       0 vda 4283157 167655 170937570 6665545 992688 979693 330725328 1811571 0 341952 8604698 754384 92 258364512 112724 231894 14857\n\
             \u{20}  8       1 sda1 10 1 80 5 0 0 0 0 0 5 5\n\
             \u{20}  8       2 sda2 10 80 20 160\n\
             garbage\n";
        let lines = DiskLine::parse(text);
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines["vda"],
            DiskLine {
                requests: 4_283_157,
                merged: 167_655,
                sectors: 170_937_570,
                waited_ms: 8_604_698,
                written_sectors: 330_725_328
            }
        );
        assert_eq!(lines["sda1"].sectors, 80);
        assert!(DiskLine::parse("254 0 vda x 1 2 3 4 5 6 7 8 9 10").is_empty());
    }

    #[test]
    fn cgroups_of_both_versions() {
        let two = "254:0 rbytes=4096 wbytes=10 rios=1 wios=2 dbytes=0 dios=0\n7:0 \n259:1\n";
        let parsed = CgroupIo::parse(two);
        assert_eq!(
            parsed["254:0"],
            CgroupIo {
                bytes: 4096,
                requests: 1
            }
        );
        assert_eq!(parsed.len(), 1);
        let one = "= blkio.throttle.io_service_bytes\n254:0 Read 8192\n254:0 Write 5\n254:0 Total 8197\nTotal 8197\n\
                   = blkio.throttle.io_serviced\n254:0 Read 2\n254:0 Write 1\n254:0 Total 3\nTotal 3\n";
        assert_eq!(
            CgroupIo::parse(one)["254:0"],
            CgroupIo {
                bytes: 8192,
                requests: 2
            }
        );
    }

    #[test]
    fn limits_of_both_versions() {
        let two = "8:0 rbps=1 wbps=max riops=max wiops=max\n254:0 rbps=20000000 wbps=max riops=max wiops=max\n";
        let limits = ReadLimits::parse(two, "254:0");
        assert_eq!((limits.bytes, limits.requests), (Some(20_000_000), None));
        assert_eq!(ReadLimits::parse(two, "25:0"), ReadLimits::default());
        assert_eq!(
            ReadLimits::figure("8:0 5\n254:0 3000\n", "254:0"),
            Some(3000)
        );
        assert_eq!(
            ReadLimits::figure("254:01 3000\n254:0 many\n", "254:0"),
            None
        );
        let above = ReadLimits {
            bytes: Some(9_000_000),
            requests: Some(100),
        };
        assert_eq!(limits.least(above), above);
    }

    #[test]
    fn processes() {
        let text = "17 rchar: 100 wchar: 5 syscr: 1 syscw: 1 read_bytes: 8192 write_bytes: 0 cancelled_write_bytes: 0\n\
                    18 rchar: 1\nnonsense\n";
        let parsed = ProcessIo::parse(text);
        assert_eq!(parsed.len(), 1);
        assert_eq!(parsed[&17].read_bytes, 8192);
        assert_eq!(parsed[&17].asked_bytes, 100);
        assert_eq!(parsed[&17].given_bytes, Some(5));
    }
}
