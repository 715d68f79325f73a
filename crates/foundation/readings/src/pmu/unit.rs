//! A unit of the processor that counts events, as the kernel describes it
//! (Linux, Documentation/ABI/testing/sysfs-bus-event_source-devices-format and -events).

use std::collections::BTreeMap;

/// An event by the kernel's numbers (perf_event_open(2)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Encoded {
    /// `type`.
    pub kind: u32,
    /// `config`, `config1`, `config2`.
    pub config: [u64; 3],
}

/// A unit: a directory of /sys/bus/event_source/devices.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unit {
    /// The directory's name: `cpu`, `armv8_pmuv3_0`.
    pub name: String,
    /// Its files below that, trimmed: `type`, `format/event`, `events/slots`, `caps/slots`.
    pub files: BTreeMap<String, String>,
}

impl Unit {
    /// Whether it is a kind of the processor's cores, and no bus or cache beside them: by perf's own rule.
    pub fn is_of_cores(&self) -> bool {
        self.name == "cpu" || self.files.contains_key("cpus")
    }

    /// An event by the name that the kernel gives it; none where it has none of that name.
    ///
    /// # Errors
    /// Why its description is not understood.
    pub fn event(&self, name: &str) -> Option<Result<Encoded, String>> {
        let described = self.files.get(&format!("events/{name}"))?;
        Some(self.encoded(described))
    }

    /// By what the kernel wants an event's count multiplied; 1 where it says nothing.
    pub fn scale(&self, name: &str) -> f64 {
        let scale = self.files.get(&format!("events/{name}.scale"));
        scale.and_then(|text| text.parse().ok()).unwrap_or(1.0)
    }

    /// Slots that the processor can fill in a cycle, where it says so.
    pub fn slots(&self) -> Option<u64> {
        let text = self.files.get("caps/slots")?;
        let slots = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        slots.ok().filter(|slots| *slots > 0)
    }

    /// `event=0x3c,umask=0x1` by the unit's fields.
    fn encoded(&self, described: &str) -> Result<Encoded, String> {
        let kind = self.files.get("type").and_then(|text| text.parse().ok());
        let mut encoded = Encoded {
            kind: kind.ok_or("the unit does not tell its type")?,
            ..Encoded::default()
        };
        for term in described.split(',').filter(|term| !term.is_empty()) {
            let (name, value) = term.split_once('=').unwrap_or((term, "1"));
            if name == "any" {
                // Both threads of a core: what a neighbour does would count as the server's.
                return Err("it counts both threads of a core".to_owned());
            }
            let value = match value.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => value.parse(),
            };
            let value = value.map_err(|_| format!("{term} has no number"))?;
            self.put(&mut encoded, name, value)?;
        }
        Ok(encoded)
    }

    /// Puts a field's value where its format says: `config:0-7,32-35`.
    fn put(&self, encoded: &mut Encoded, field: &str, mut value: u64) -> Result<(), String> {
        let words = ["config", "config1", "config2"];
        if let Some(word) = words.iter().position(|word| *word == field) {
            encoded.config[word] |= value;
            return Ok(());
        }
        let format = self.files.get(&format!("format/{field}"));
        let format = format.ok_or_else(|| format!("the unit has no field {field}"))?;
        let unreadable = || format!("the format of {field}, {format}, is not understood");
        let (word, ranges) = format.split_once(':').ok_or_else(unreadable)?;
        let word = words.iter().position(|known| *known == word);
        let word = word.ok_or_else(unreadable)?;
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = first
                .parse()
                .ok()
                .zip(last.parse().ok())
                .filter(|(first, last)| first <= last && *last < 64)
                .ok_or_else(unreadable)?;
            let bits = last - first + 1;
            let mask = u64::MAX >> (64 - bits);
            encoded.config[word] |= (value & mask) << first;
            value = value.checked_shr(bits).unwrap_or(0);
        }
        match value {
            0 => Ok(()),
            _ => Err(format!("the value of {field} is too large for {format}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(files: &[(&str, &str)]) -> Unit {
        Unit {
            name: "cpu".into(),
            files: files
                .iter()
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn fields_go_where_the_format_says() {
        let unit = unit(&[
            ("type", "4"),
            ("format/event", "config:0-7,32-35"),
            ("format/umask", "config:8-15"),
            ("format/cmask", "config:24-31"),
            ("format/inv", "config:23"),
            ("format/ldlat", "config1:0-15"),
            ("events/plain", "event=0x9c,umask=0x01"),
            ("events/wide", "event=0x1c2,cmask=1,inv"),
            ("events/latency", "event=0xcd,ldlat=3"),
            ("events/odd", "event=0xcd,edge=1"),
            ("events/large", "umask=0x100"),
            ("events/any", "event=0x3c,umask=0x0,any=1"),
            ("events/nonsense", "event=zero"),
        ]);
        let config = |name: &str| unit.event(name).unwrap().map(|e| (e.kind, e.config));
        assert_eq!(config("plain"), Ok((4, [0x019c, 0, 0])));
        assert_eq!(config("wide"), Ok((4, [0x1_0180_00c2, 0, 0])));
        assert_eq!(config("latency"), Ok((4, [0xcd, 3, 0])));
        assert!(config("odd").unwrap_err().contains("no field edge"));
        assert!(config("large").unwrap_err().contains("too large"));
        assert!(config("any").unwrap_err().contains("both threads"));
        assert!(config("nonsense").is_err());
        assert_eq!(unit.event("absent"), None);
    }

    #[test]
    fn a_format_that_is_not_one_is_no_panic() {
        for format in [
            "config",
            "config:",
            "config:9-3",
            "config:0-64",
            "config7:0",
        ] {
            let unit = unit(&[
                ("type", "4"),
                ("format/event", format),
                ("events/e", "event=1"),
            ]);
            assert!(unit.event("e").unwrap().is_err(), "{format}");
        }
        let whole = unit(&[
            ("type", "4"),
            ("format/event", "config:0-63"),
            ("events/e", "event=0xffffffffffffffff"),
        ]);
        assert_eq!(whole.event("e").unwrap().unwrap().config[0], u64::MAX);
        assert!(
            unit(&[("events/e", "event=1")])
                .event("e")
                .unwrap()
                .is_err()
        );
    }
}
