//! The text of `perf script`: a header line a sample, then its chain, innermost first.
//!
//! ```text
//! postgres 30400 11622.607994:    2004008 cpu-clock:
//!           166d00 s_lock+0x40 (/usr/lib/postgresql/15/bin/postgres)
//!         ffffffff813dd850 up_read+0x30 ([kernel.kallsyms])
//!
//! ```
//! Without `-g` the function stands on the header line itself. Both forms are
//! described in perf-script(1); of the fields before the event, which differ with
//! `-F`, only the process is read.

use super::programs::Programs;
use super::{Frame, Profile, Unit, pasted};

/// Whether the text has the form of `perf script`: a line of a chain, or a
/// header that ends with its event and the function.
pub fn looks_like(text: &str) -> bool {
    let mut header = false;
    for line in text.lines().take(2000).map(pasted::line) {
        let line = line.as_ref();
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if header && chain_line(line).is_some() {
            return true;
        }
        if flat_line(line).is_some() {
            return true;
        }
        header = is_header(line);
    }
    false
}

/// A sample as it is read: its process, and its chain, innermost first as it is printed.
struct Sample {
    program: Option<String>,
    chain: Vec<Frame>,
}

/// Reads all samples. Lines that are none are passed over and counted.
pub fn parse(text: &str) -> Profile {
    let mut programs = Programs::new(Unit::Samples);
    let mut sample: Option<Sample> = None;
    let (mut strange, mut empty) = (0u64, 0u64);
    for line in text.lines().map(pasted::line) {
        let line = line.as_ref();
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            empty += u64::from(!finish(&mut programs, sample.take()));
        } else if line.starts_with([' ', '\t'])
            && let Some(frame) = chain_line(line)
        {
            match &mut sample {
                Some(sample) if sample.chain.len() < 4 * super::DEEPEST => sample.chain.push(frame),
                Some(_) => {}
                None => strange += 1,
            }
        } else if let Some(frame) = flat_line(line) {
            empty += u64::from(!finish(&mut programs, sample.take()));
            programs.add(process(line).as_deref(), vec![frame], 1.0);
        } else if is_header(line) {
            empty += u64::from(!finish(&mut programs, sample.take()));
            sample = Some(Sample {
                program: process(line),
                chain: Vec::new(),
            });
        } else {
            strange += 1;
        }
    }
    // perf ends each sample with an empty line: without it the text was cut.
    if sample.is_some_and(|sample| !sample.chain.is_empty()) {
        let cut = "the last sample was cut short and is left out";
        programs.remarks.push(cut.to_owned());
    }
    if empty > 0 {
        programs
            .remarks
            .push(format!("{empty} samples name no function and are left out"));
    }
    if strange > 0 {
        programs.remarks.push(format!(
            "{strange} lines were not understood and are left out"
        ));
    }
    programs.server()
}

/// Adds a sample that is complete; false where it has no function.
fn finish(programs: &mut Programs, sample: Option<Sample>) -> bool {
    let Some(Sample { program, mut chain }) = sample else {
        return true;
    };
    if chain.is_empty() {
        return false;
    }
    chain.reverse();
    programs.add(program.as_deref(), chain, 1.0);
    true
}

/// The process of a header: what stands before its number. Names of processes hold blanks, and
/// those of the server hold numbers: the process' own number is the last one before the time.
fn process(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_ascii_whitespace().take(64).collect();
    let digits = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
    let is_number = |word: &str| match word.split_once('/') {
        Some((process, thread)) => digits(process) && digits(thread),
        None => digits(word),
    };
    let is_time = |word: &&str| {
        word.strip_suffix(':')
            .and_then(|time| time.split_once('.'))
            .is_some_and(|(seconds, fraction)| digits(seconds) && digits(fraction))
    };
    let number = match words.iter().position(is_time) {
        Some(time) => words[..time].iter().rposition(|word| is_number(word)),
        None => words.iter().position(|word| is_number(word)),
    };
    let Some(number) = number else {
        return is_name_alone(line).then(|| super::bounded(line.trim()));
    };
    (number > 0).then(|| super::bounded(&words[..number].join(" ")))
}

/// `166d00 name+0x40 (object)`.
fn chain_line(line: &str) -> Option<Frame> {
    let line = line.trim();
    let (address, rest) = line.split_once(' ')?;
    if !is_address(address) {
        return None;
    }
    named(rest)
}

/// `name+0x40 (object)`; the name may hold spaces and parentheses (C++).
fn named(text: &str) -> Option<Frame> {
    let text = text.trim();
    let body = text.strip_suffix(')')?;
    let at = body.rfind(" (")?;
    // `[unknown] ([unknown])`, `f+0x3 (/path (deleted))`
    let at = match body[..at].rfind(" (") {
        Some(earlier) if body.ends_with("(deleted)") => earlier,
        _ => at,
    };
    let object = &body[at + 2..];
    // Other text may stand in brackets: `(target_pid: 5210)`.
    let is_object = object.starts_with(['/', '[']) || !object.contains(' ');
    is_object.then(|| Frame::new(&body[..at], object))
}

/// `postgres 30400 11622.607994: 2004008 cpu-clock: 166d00 s_lock+0x40 (/…/postgres)`.
fn flat_line(line: &str) -> Option<Frame> {
    if line.starts_with([' ', '\t']) && chain_line(line).is_some() {
        return None;
    }
    // After the event's colon: an address, a name, an object.
    let mut from = 0;
    let mut candidate = None;
    while let Some(at) = line[from..].find(": ") {
        from += at + 2;
        if let Some(frame) = chain_line(&line[from..]) {
            // The last that fits: what stands before it are the fields.
            candidate = Some(frame);
        }
    }
    candidate
}

fn is_address(word: &str) -> bool {
    (1..=16).contains(&word.len()) && word.chars().all(|c| c.is_ascii_hexdigit())
}

/// The name of a process, of which the kernel keeps 15 characters: all that `-F comm,ip,sym,dso` prints before a chain.
fn is_name_alone(line: &str) -> bool {
    let name = line.trim_end();
    !name.is_empty() && name.len() <= 15 && !name.starts_with([' ', '\t']) && !name.ends_with(':')
}

/// `comm pid … time: … event:`: it ends with a colon and holds a number before.
fn is_header(line: &str) -> bool {
    let line = line.trim_end();
    !line.starts_with([' ', '\t'])
        && line.ends_with(':')
        && line
            .split_ascii_whitespace()
            .skip(1)
            .any(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        || (line.starts_with([' ']) && line.ends_with(':') && line.matches(": ").count() >= 1)
        || is_name_alone(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
postgres 30400 11622.607994:    2004008 cpu-clock: 
\t          166d00 s_lock+0x40 (/usr/lib/postgresql/15/bin/postgres)
\t          3016aa UnpinBuffer.constprop.0+0x1a (/usr/lib/postgresql/15/bin/postgres)

postgres: a b(c) 30411 [001] 11622.634146:    2004008 cpu-clock: 
\tffffffff813dd850 up_read+0x30 ([kernel.kallsyms])
\t           f786a operator()(int, char) const+0xa (/tmp/x (deleted))
\t6f632d667265702f [unknown] ([unknown])

";

    #[test]
    fn chains_stand_from_the_outermost_caller() {
        assert!(looks_like(TEXT));
        let profile = parse(TEXT);
        assert_eq!(profile.total, 2.0);
        assert_eq!(
            profile.folded(),
            "UnpinBuffer;s_lock 1\n[unknown];operator()(int, char) const;up_read 1\n"
        );
        let objects: Vec<String> = profile
            .stacks()
            .flat_map(|(frames, _)| {
                frames
                    .into_iter()
                    .map(|f| f.object.clone())
                    .collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(
            objects,
            ["postgres", "postgres", "[unknown]", "x", "[kernel]"]
        );
        assert!(profile.remarks.is_empty(), "{:?}", profile.remarks);
    }

    #[test]
    fn without_call_graphs_the_function_stands_on_the_line() {
        let text = "perf 30399 11622.6:      1 cycles: ffffffff8132cdc4 native_write_msr+0x4 ([kernel.kallsyms])\n\
                    postgres 1 [000] 2.5: 1 cycles:u:     3016aa PinBuffer+0x1 (/x/postgres)\n";
        assert!(looks_like(text));
        let profile = parse(text);
        assert_eq!(profile.folded(), "PinBuffer 1\n");
        assert_eq!(profile.others, [("perf".to_owned(), 1.0)]);
    }

    #[test]
    fn the_name_of_the_process_is_enough_before_a_chain() {
        let text = "postgres \n\t166d00 s_lock (/usr/bin/postgres)\n\njava \n\t7d00 x (/usr/lib/libjvm.so)\n\n";
        assert!(looks_like(text));
        let profile = parse(text);
        assert_eq!((profile.total, profile.others.len()), (1.0, 1));
        assert!(profile.remarks.is_empty(), "{:?}", profile.remarks);
        assert!(!looks_like("postgres\njava\n"));
    }

    #[test]
    fn the_heading_of_perf_top_is_no_sample() {
        assert!(!looks_like(
            "PerfTop: 1060 irqs/sec kernel: 0.0% exact: 0.0% (target_pid: 273361)\n"
        ));
    }

    #[test]
    fn the_process_stands_before_its_number() {
        for (line, name) in [
            (
                "postgres 30400 11622.607994:    2004008 cpu-clock: ",
                Some("postgres"),
            ),
            (
                "        postgres 30400/30401 [001] 2.5:  1 cycles:u: ",
                Some("postgres"),
            ),
            (
                "postgres: al 5 idle 30411 [001] 2.5: 1 cycles: ",
                Some("postgres: al 5 idle"),
            ),
            (
                "postgres: logger 30411 [001] d..3. 2.5: 1 cycles: ",
                Some("postgres: logger"),
            ),
            ("swapper     0 [000]  2.5:   1 cycles: ", Some("swapper")),
            ("java 7 cycles: ", Some("java")),
            ("30400 2.5: 1 cycles: ", None),
            ("cycles: ", None),
        ] {
            assert_eq!(process(line).as_deref(), name, "{line}");
        }
    }

    #[test]
    fn a_text_cut_short_loses_its_last_sample_and_says_so() {
        let cut = &TEXT[..TEXT.len() - 30];
        let profile = parse(cut);
        assert_eq!(profile.total, 1.0);
        assert!(
            profile.remarks[0].contains("cut short"),
            "{:?}",
            profile.remarks
        );
    }
}
