//! Samples by line, and the names of what was sampled.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use pgassay_readings::memory::{Reader, Sample};

use super::places::{Place, Places};
use super::{Hits, SCHEMA, Sampled, SampledGroup, SampledLine, SampledPart, Samples};
use crate::names::Name;

/// Lines told one by one.
const LINES: usize = 200;
/// Functions told of a line.
const FUNCTIONS: usize = 6;
/// Different places in code that are kept; those beyond count without their function.
const CODE: usize = 1 << 16;
/// Different addresses that are kept: of a scan through large buffers each may be another one.
const ADDRESSES: usize = 1 << 20;

/// Samples while they are read.
pub struct Gathering<'a> {
    places: &'a Places,
    reader: Reader,
    samples: Samples,
    events: BTreeSet<String>,
    addresses: HashMap<u64, At>,
    /// What perf calls the code at an address; none where it does not know.
    code: HashMap<u64, Option<String>>,
    /// Samples beyond what is kept.
    beyond: Hits,
}

/// What was sampled at an address.
#[derive(Debug, Default)]
struct At {
    hits: Hits,
    cycles: (u64, u64),
    code: HashMap<u64, Hits>,
}

/// What a sampling is of.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    /// When, UTC.
    pub recorded: String,
    /// The server.
    pub target: String,
    /// Its version.
    pub version: String,
    /// The processor.
    pub processor: String,
    /// How it was sampled.
    pub method: String,
    /// How long.
    pub seconds: Option<f64>,
    /// Clients of ours.
    pub clients: u32,
    /// What they executed.
    pub workload: String,
    /// Bytes of a line.
    pub line_bytes: u64,
}

impl<'a> Gathering<'a> {
    /// Nothing yet.
    pub fn new(places: &'a Places) -> Self {
        Self {
            places,
            reader: Reader::default(),
            samples: Samples::default(),
            events: BTreeSet::new(),
            addresses: HashMap::new(),
            code: HashMap::new(),
            beyond: Hits::default(),
        }
    }

    /// A line of perf's text.
    pub fn line(&mut self, line: &str) {
        let complete = self.reader.line(line);
        if let Some(sample) = complete {
            self.sample(sample);
        }
    }

    /// The end of the text.
    pub fn end(&mut self) {
        if let Some(sample) = self.reader.end() {
            self.sample(sample);
        }
    }

    fn sample(&mut self, sample: Sample) {
        // A file may name as many events as it likes.
        if self.events.len() < 16 {
            self.events.insert(sample.event.clone());
        }
        if sample.address == 0 {
            self.samples.without_address += 1;
            return;
        }
        let address = match self.places.find(sample.pid, sample.address) {
            Place::Other => return self.samples.of_others += 1,
            Place::Private => return self.samples.private += 1,
            Place::Shared(address) => address,
        };
        self.samples.shared += 1;
        if self.addresses.len() >= ADDRESSES && !self.addresses.contains_key(&address) {
            return self.beyond.add(sample.source);
        }
        let at = self.addresses.entry(address).or_default();
        at.hits.add(sample.source);
        if let Some(cycles) = sample.cycles.filter(|_| sample.source.loads()) {
            at.cycles.0 = at.cycles.0.saturating_add(cycles);
            at.cycles.1 += 1;
        }
        if let Some(ip) = sample.ip {
            if self.code.len() >= CODE && !self.code.contains_key(&ip) {
                return;
            }
            self.code.entry(ip).or_insert(sample.function);
            at.code.entry(ip).or_default().add(sample.source);
        }
    }

    /// The samples with the names that an address and an address of code have; `function` says whether it has one.
    pub fn named(
        self,
        subject: Subject,
        name: &mut dyn FnMut(u64) -> Name,
        function: &mut dyn FnMut(u64) -> (String, bool),
        mut doubts: Vec<String>,
    ) -> Sampled {
        let bytes = subject.line_bytes.clamp(16, 256);
        let functions: HashMap<u64, String> = self
            .code
            .into_iter()
            .map(|(ip, by_perf)| (ip, function_of(ip, by_perf, function)))
            .collect();
        let mut lines: BTreeMap<u64, OfLine> = BTreeMap::new();
        let mut groups: BTreeMap<(String, bool), (Hits, HashSet<u64>)> = BTreeMap::new();
        let mut total = self.beyond;
        let mut named = 0;
        for (address, at) in self.addresses {
            let name = name(address);
            let own = is_own(&name);
            total.sum(&at.hits);
            named += if name.known { at.hits.samples } else { 0 };
            let group = groups.entry((name.group.clone(), own)).or_default();
            group.0.sum(&at.hits);
            group.1.insert(address / bytes);
            let line = lines.entry(address / bytes).or_default();
            line.add(&name.line(), own, &at, &functions);
        }
        if self.beyond.samples > 0 {
            doubts.push(format!(
                "{} samples are of addresses beyond the first {ADDRESSES}, and are only in the total",
                self.beyond.samples
            ));
        }
        let mut samples = self.samples;
        samples.lines_not_understood = self.reader.strange;
        samples.repeated = self.reader.repeated;
        if let Some(example) = self.reader.example {
            doubts.push(format!(
                "{} lines of perf's text were not understood and are left out, the first of them: {example}",
                self.reader.strange
            ));
        }
        let mut lines: Vec<SampledLine> = lines
            .into_iter()
            .map(|(at, line)| line.told(at * bytes))
            .collect();
        lines.sort_by_key(|line| order(&line.hits));
        lines.truncate(LINES);
        let mut groups: Vec<SampledGroup> = groups
            .into_iter()
            .map(|((name, own), (hits, lines))| SampledGroup {
                name,
                own,
                hits,
                lines: lines.len(),
            })
            .collect();
        groups.sort_by_key(|group| order(&group.hits));
        let events: Vec<String> = self.events.into_iter().collect();
        Sampled {
            schema: SCHEMA.to_owned(),
            recorded: subject.recorded,
            target: subject.target,
            version: subject.version,
            processor: subject.processor,
            method: match events.is_empty() {
                true => subject.method,
                false => format!("{}: {}", subject.method, events.join(", ")),
            },
            seconds: subject.seconds,
            clients: subject.clients,
            workload: subject.workload,
            line_bytes: bytes,
            samples,
            named_share: named as f64 / (total.samples.max(1)) as f64,
            total,
            lines,
            groups,
            doubts,
        }
    }
}

/// What was sampled of a line.
#[derive(Default)]
struct OfLine {
    hits: Hits,
    /// Cycles and loads that they are of.
    cycles: (u64, u64),
    own: bool,
    shared: bool,
    parts: BTreeMap<String, Hits>,
    functions: BTreeMap<String, Hits>,
}

impl OfLine {
    fn add(&mut self, name: &str, own: bool, at: &At, functions: &HashMap<u64, String>) {
        self.hits.sum(&at.hits);
        self.cycles.0 = self.cycles.0.saturating_add(at.cycles.0);
        self.cycles.1 += at.cycles.1;
        self.own |= own;
        self.shared |= !own;
        self.parts.entry(name.to_owned()).or_default().sum(&at.hits);
        for (ip, hits) in &at.code {
            let function = functions.get(ip).cloned().unwrap_or_default();
            self.functions.entry(function).or_default().sum(hits);
        }
    }

    fn told(self, address: u64) -> SampledLine {
        let parts = sorted(self.parts);
        let mut functions = sorted(self.functions);
        functions.truncate(FUNCTIONS);
        SampledLine {
            address: format!("{address:#x}"),
            name: parts.first().map(|p| p.name.clone()).unwrap_or_default(),
            own: self.own && !self.shared,
            hits: self.hits,
            cycles: (self.cycles.1 > 0).then(|| self.cycles.0 as f64 / self.cycles.1 as f64),
            parts,
            functions,
        }
    }
}

fn sorted(parts: BTreeMap<String, Hits>) -> Vec<SampledPart> {
    let parts = parts
        .into_iter()
        .map(|(name, hits)| SampledPart { name, hits });
    let mut parts: Vec<SampledPart> = parts.collect();
    parts.sort_by_key(|part| order(&part.hits));
    parts
}

/// Those that other caches gave most often first.
fn order(hits: &Hits) -> std::cmp::Reverse<(u64, u64)> {
    std::cmp::Reverse((hits.transfers(), hits.samples))
}

/// Whether it is one session's own, whichever.
fn is_own(name: &Name) -> bool {
    name.own.is_some() || name.element.starts_with("of process slot ")
}

/// Ours where it has a name, as in the account; else perf's, which knows the kernel's.
fn function_of(
    ip: u64,
    by_perf: Option<String>,
    function: &mut dyn FnMut(u64) -> (String, bool),
) -> String {
    match function(ip) {
        (name, true) => name,
        (place, false) => by_perf.unwrap_or(place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Map;

    #[test]
    fn samples_become_lines_with_names() {
        let mut places = Places::default();
        places.see(
            7,
            &Map::parse("7f0000000000-7f0008000000 rw-s 00000000 00:01 1024 /dev/zero (deleted)\n"),
        );
        let mut gathering = Gathering::new(&places);
        let hitm = "629800842 |OP LOAD|LVL L3 hit|SNP HitM|TLB L1 hit|LCK No|BLK N/A";
        let hit = "229080142 |OP LOAD|LVL L1 hit|SNP N/A|TLB L1 hit|LCK N/A|BLK N/A";
        let store = "229080144 |OP STORE|LVL L1 hit|SNP N/A|TLB L1 hit|LCK N/A|BLK N/A";
        let mut line = |pid: u32, address: u64, source: &str, weight: u32, ip: u64| {
            gathering.line(&format!(
                "{pid}/{pid} 1.25: cpu/mem-loads/P: {address:x} {source} {weight} {ip:x} [unknown] (/x/postgres)"
            ));
        };
        line(7, 0x7f00_0000_0000, hitm, 300, 0x100);
        line(7, 0x7f00_0000_0008, hitm, 100, 0x100);
        line(7, 0x7f00_0000_0008, store, 9, 0x200);
        line(7, 0x7f00_0000_0100, hit, 5, 0x300);
        line(7, 0x5580_0000_0000, hit, 5, 0x300);
        line(7, 0, hit, 5, 0x300);
        line(8, 0x7f00_0000_0000, hitm, 5, 0x300);
        gathering.line("7/7 1.25: cpu/mem-lo");
        gathering.end();
        let sampled = gathering.named(
            Subject {
                method: "perf".to_owned(),
                line_bytes: 64,
                ..Subject::default()
            },
            &mut |address| Name {
                known: address != 0x7f00_0000_0100,
                field: format!("{:x}", address & 0xfff),
                ..Name::unknown("thing")
            },
            &mut |ip| (format!("f{ip:x}"), ip != 0x200),
            Vec::new(),
        );
        let samples = &sampled.samples;
        assert_eq!((samples.shared, samples.private), (4, 1));
        assert_eq!((samples.of_others, samples.without_address), (1, 1));
        assert_eq!(samples.lines_not_understood, 1);
        assert!(
            sampled.doubts[0].contains("cpu/mem-lo"),
            "{:?}",
            sampled.doubts
        );
        assert_eq!(sampled.method, "perf: cpu/mem-loads/P");
        assert_eq!((sampled.total.samples, sampled.total.hitm_local), (4, 2));
        assert_eq!(sampled.named_share, 0.75);
        let first = &sampled.lines[0];
        assert_eq!(
            (first.address.as_str(), first.name.as_str()),
            ("0x7f0000000000", "thing: 8")
        );
        assert_eq!((first.hits.loads, first.hits.stores), (2, 1));
        // The store's weight is no load's.
        assert_eq!(first.cycles, Some(200.0));
        assert_eq!(first.functions[0].name, "f100");
        assert_eq!(sampled.groups[0].lines, 2);
    }
}
