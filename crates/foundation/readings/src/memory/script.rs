//! The text of `perf script` for samples of memory accesses, a line each:
//!
//! ```text
//! 46572/46572 544966.882384: cpu/mem-loads,ldlat=30/P: 7ffdf1391b0c 10268100142 |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A 5 7fad7c47425d PinBuffer (/usr/…/postgres)
//! ```
//!
//! Which fields stand there depends on `-F`; needed are process, time, event, addr and data_src, in the order
//! in which perf prints them. Further fields, the command's name and call chains may be there.

use super::source::Source;

/// The fields that pgassay has perf print.
pub const FIELDS: &str = "pid,tid,time,event,addr,data_src,weight,ip,sym,dso";
/// The longest line that is looked at: names of C++ functions can have some thousand bytes.
const LONGEST: usize = 1 << 16;
/// Events that perf makes of one access beside its `memory` event, where it reads a trace of Arm's SPE with
/// nothing else said.
const SAME_ACCESS: &[&str] = &[
    "l1d-miss",
    "l1d-access",
    "l2d-miss",
    "l2d-access",
    "llc-miss",
    "llc-access",
    "tlb-miss",
    "tlb-access",
    "branch",
    "branch-miss",
    "remote-access",
    "simd-fp",
    "instructions",
];

/// A sampled access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// The process.
    pub pid: u32,
    /// The event that sampled it.
    pub event: String,
    /// What it accessed; 0 where the processor did not tell.
    pub address: u64,
    /// Where its data came from.
    pub source: Source,
    /// Cycles that it took, where the processor tells: perf's weight.
    pub cycles: Option<u64>,
    /// The instruction.
    pub ip: Option<u64>,
    /// The function, where perf knew it.
    pub function: Option<String>,
}

/// Reads line by line, whatever is between the samples.
#[derive(Debug, Default)]
pub struct Reader {
    /// Printed in full, but for its code, which a call chain would give.
    pending: Option<Sample>,
    /// Lines that are neither a sample nor known to go with one.
    pub strange: u64,
    /// The first of them, shortened.
    pub example: Option<String>,
    /// Samples that tell of an access a second time.
    pub repeated: u64,
}

impl Reader {
    /// The sample that is complete with this line.
    pub fn line(&mut self, line: &str) -> Option<Sample> {
        let line = line.trim_end();
        if line.starts_with('#') {
            return None;
        }
        if line.is_empty() {
            return self.pending.take();
        }
        if line.len() <= LONGEST {
            // A line of a call chain, the innermost first.
            if let Some(pending) = &mut self.pending
                && line.starts_with([' ', '\t'])
                && let Some((ip, function)) = code(line.trim())
            {
                if pending.ip.is_none() {
                    pending.ip = Some(ip);
                    pending.function = function;
                }
                return None;
            }
            if let Some(sample) = sample(line) {
                let before = self.pending.take();
                if SAME_ACCESS.contains(&sample.event.as_str()) {
                    self.repeated += 1;
                } else {
                    self.pending = Some(sample);
                }
                return before;
            }
        }
        self.strange += 1;
        if self.example.is_none() {
            self.example = Some(line.chars().take(120).collect());
        }
        self.pending.take()
    }

    /// The last sample.
    pub fn end(&mut self) -> Option<Sample> {
        self.pending.take()
    }
}

/// A line that begins a sample.
fn sample(line: &str) -> Option<Sample> {
    // The words of data_src, which need not be understood, separate what is before from what is behind them.
    let (before, words) = line.split_once('|')?;
    // What the words of the snoop are called has not changed; without them it is another kind of line.
    if !words.contains("SNP ") {
        return None;
    }
    let (head, data) = before.rsplit_once(": ")?;
    let mut data = data.split_ascii_whitespace();
    let address = u64::from_str_radix(data.next()?, 16).ok()?;
    let source = u64::from_str_radix(data.next()?, 16).ok()?;
    let mut head = head.split_ascii_whitespace().rev();
    let event = head.next()?.to_owned();
    // Before the event, its period may stand.
    let of_time = |word: &str| {
        let time = word.strip_suffix(':').and_then(|time| time.split_once('.'));
        time.is_some_and(|(a, b)| number(a).is_some() && number(b).is_some())
    };
    head.by_ref().take(2).find(|word| of_time(word))?;
    let cpu = |word: &&str| word.starts_with('[') && word.ends_with(']');
    let process = head.find(|word| !cpu(word))?;
    let pid = process.split('/').next()?.parse().ok()?;
    let (behind, cycles) = behind(words);
    let (ip, function) = behind.map_or((None, None), |(ip, function)| (Some(ip), function));
    Some(Sample {
        pid,
        event,
        address,
        source: Source(source),
        cycles,
        ip,
        function,
    })
}

fn number(word: &str) -> Option<u64> {
    let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| word.parse().ok()).flatten()
}

/// The code, and the first of the weights, behind the words of data_src: `N/A   5   7   0   7fad7c47425d f (o)`.
#[allow(clippy::type_complexity)] // two results, of which each may be missing
fn behind(words: &str) -> (Option<(u64, Option<String>)>, Option<u64>) {
    let last = words.rsplit('|').next().unwrap_or_default();
    // From the last word on: weights are numbers, too.
    let starts = last
        .char_indices()
        .filter(|(at, c)| {
            !c.is_whitespace() && (*at == 0 || last[..*at].ends_with(char::is_whitespace))
        })
        .map(|(at, _)| at);
    let starts: Vec<usize> = starts.collect();
    let found = starts
        .iter()
        .rev()
        .find_map(|at| code(&last[*at..]).map(|code| (*at, code)));
    let end = found.as_ref().map_or(last.len(), |(at, _)| *at);
    let cycles = last[..end].split_ascii_whitespace().find_map(number);
    (found.map(|(_, code)| code), cycles)
}

/// `166d00 name+0x40 (object)`; a function that perf does not know is `[unknown]`.
fn code(text: &str) -> Option<(u64, Option<String>)> {
    let (address, rest) = text.split_once(' ')?;
    if !(1..=16).contains(&address.len()) {
        return None;
    }
    let ip = u64::from_str_radix(address, 16).ok()?;
    let body = rest.trim().strip_suffix(')')?;
    let body = body.strip_suffix(" (deleted)").unwrap_or(body);
    let (name, _) = body.rsplit_once(" (")?;
    let name = name.trim();
    let name = match name.rsplit_once("+0x") {
        Some((name, offset)) if u64::from_str_radix(offset, 16).is_ok() => name,
        _ => name,
    };
    let known = !name.is_empty() && name != "[unknown]";
    Some((ip, known.then(|| name.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<Sample>, Reader) {
        let mut reader = Reader::default();
        let mut samples: Vec<Sample> = text.lines().filter_map(|l| reader.line(l)).collect();
        samples.extend(reader.end());
        (samples, reader)
    }

    /// The forms of several versions: with the command's name, CPU, period, further weights; without weights;
    /// without the operation (perf up to 5.12); with what Linux 7 adds.
    #[test]
    fn forms_of_perf() {
        let (samples, reader) = read("\
# ========
chromium-browse   46572 [002] 544966.882384:      10000 \tcpu_core/MEM_UOPS_RETIRED.LOAD_LATENCY/: 7ffdf1391b0c     10268100142  |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK    N/A    5   7    0   7fad7c47425d [unknown] (/usr/lib64/libglib-2.0.so.0.8000.3)
       memstress  3603 [020]   122.463754:          1          l1d-access:                0       8688000842 |OP LOAD|LVL L3 or L3 hit|SNP Peer|TLB Walker hit|LCK No|BLK  N/A               aaaac17c3e88 [unknown] (/home/ubuntu/memstress)
       memstress  3603 [020]   122.463754:          1              memory:     ffff9d3e0040       8688000842 |OP LOAD|LVL L3 or L3 hit|SNP Peer|TLB Walker hit|LCK No|BLK  N/A               aaaac17c3e88 main+0x1c (/home/ubuntu/memstress (deleted))
30400/30400 11622.607994: cpu/mem-loads,ldlat=30/P: 7f20a4c0ff80 88000182 L1 miss|SNP N/A|TLB Walker hit|LCK No 47 5633aa operator()(int, char) const (/x/postgres)
30400/30401 11622.607995: ibs_op//: 7f20a4c0ff80 444000288100144 |OP STORE SIMD|LVL L1 hit|SNP None|TLB Walker hit|LCK No|BLK  N/A|AFF PRED SG
");
        assert_eq!((reader.strange, reader.repeated), (0, 1));
        let told: Vec<_> = samples
            .iter()
            .map(|s| (s.pid, s.address, s.cycles, s.ip, s.function.as_deref()))
            .collect();
        assert_eq!(
            told,
            [
                (
                    46572,
                    0x7ffd_f139_1b0c,
                    Some(5),
                    Some(0x7fad_7c47_425d),
                    None
                ),
                (
                    3603,
                    0xffff_9d3e_0040,
                    None,
                    Some(0xaaaa_c17c_3e88),
                    Some("main")
                ),
                (
                    30400,
                    0x7f20_a4c0_ff80,
                    Some(47),
                    Some(0x5633aa),
                    Some("operator()(int, char) const")
                ),
                (30400, 0x7f20_a4c0_ff80, None, None, None),
            ]
        );
        assert_eq!(samples[1].event, "memory");
        assert!(samples[1].source.transfer().is_some() && samples[3].source.stores());
        assert_eq!(samples[2].event, "cpu/mem-loads,ldlat=30/P");
    }

    #[test]
    fn a_call_chain_gives_the_code() {
        let (samples, reader) = read(
            "\
postgres 7/7 1.5: ibs_op//: 7f00 142 |OP LOAD|LVL L1 hit|SNP None|TLB L1 hit|LCK No|BLK  N/A 12
\t  5633aa UnpinBuffer+0x1a (/x/postgres)
\t  166d00 ReleaseBuffer (/x/postgres)

postgres 8/8 1.6: ibs_op//: 7f40 142 |OP LOAD|LVL L1 hit|SNP None|TLB L1 hit|LCK No|BLK  N/A 13
",
        );
        assert_eq!((samples.len(), reader.strange), (2, 0));
        assert_eq!(samples[0].function.as_deref(), Some("UnpinBuffer"));
        assert_eq!((samples[0].cycles, samples[1].ip), (Some(12), None));
    }

    /// What is cut or made up costs itself and nothing beside it.
    #[test]
    fn what_is_not_understood_is_counted() {
        let good = "7/7 1.5: ibs_op//: 7f00 142 |OP LOAD|LVL L1 hit|SNP None|TLB L1 hit|LCK No|BLK  N/A 12 5633aa f (/x)";
        let mut text = String::new();
        let bad = [
            &good[..30],
            "7/7 1.5: ibs_op//: zz 142 |OP LOAD|LVL L1 hit|SNP None|TLB L1 hit|LCK No|BLK  N/A",
            "99999999999/7 1.5: ibs_op//: 7f00 142 |OP LOAD|LVL L1 hit|SNP None|",
            "7/7 1.5: ibs_op//: 7f00 11112222333344445 |OP LOAD|LVL L1 hit|SNP None|",
            "|SNP ",
            ": |SNP ",
            "ü: ü: ü | SNP ü|",
            "\u{0}\u{1b}[2J",
        ];
        for bad in bad {
            text += &format!("{bad}\n{good}\n");
        }
        text += &format!("{}|SNP \n{good}\n", "x".repeat(LONGEST));
        let (samples, reader) = read(&text);
        assert_eq!(samples.len(), bad.len() + 1, "{samples:?}");
        assert_eq!(reader.strange, bad.len() as u64 + 1);
        assert_eq!(reader.example.as_deref(), Some(&good[..30]));
        // Cut anywhere, a line is a sample without its end, or none.
        for end in 0..good.len() {
            read(&good[..end]);
        }
    }
}
