//! The text of `perf script`: a header line a sample, then its chain, innermost first.
//!
//! ```text
//! postgres 30400 11622.607994:    2004008 cpu-clock:
//!           166d00 s_lock+0x40 (/usr/lib/postgresql/15/bin/postgres)
//!         ffffffff813dd850 up_read+0x30 ([kernel.kallsyms])
//!
//! ```
//! Without `-g` the function stands on the header line itself. Both forms are
//! described in perf-script(1); the fields before the event differ with `-F` and
//! are not looked at.

use super::{Frame, Profile, Unit};

/// Whether the text has the form of `perf script`: a line of a chain, or a
/// header that ends with its event and the function.
pub fn looks_like(text: &str) -> bool {
    let mut header = false;
    for line in text.lines().take(2000) {
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

/// Reads all samples. Lines that are none are passed over and counted.
pub fn parse(text: &str) -> Profile {
    let mut profile = Profile::new(Unit::Samples);
    // Innermost first, as it is printed.
    let mut chain: Option<Vec<Frame>> = None;
    let mut strange = 0u64;
    for line in text.lines() {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            finish(&mut profile, chain.take());
        } else if line.starts_with([' ', '\t'])
            && let Some(frame) = chain_line(line)
        {
            match &mut chain {
                Some(chain) if chain.len() < 4 * super::DEEPEST => chain.push(frame),
                Some(_) => {}
                None => strange += 1,
            }
        } else if let Some(frame) = flat_line(line) {
            finish(&mut profile, chain.take());
            profile.add([frame], 1.0);
        } else if is_header(line) {
            finish(&mut profile, chain.take());
            chain = Some(Vec::new());
        } else {
            strange += 1;
        }
    }
    if let Some(chain) = chain {
        // perf ends each sample with an empty line: without it the text was cut.
        if !chain.is_empty() {
            profile.remark("the last sample was cut short and is left out");
        }
    }
    if strange > 0 {
        profile.remark(&format!(
            "{strange} lines were not understood and are left out"
        ));
    }
    profile
}

fn finish(profile: &mut Profile, chain: Option<Vec<Frame>>) {
    if let Some(mut chain) = chain.filter(|chain| !chain.is_empty()) {
        chain.reverse();
        profile.add(chain, 1.0);
    }
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
    Some(Frame::new(&body[..at], &body[at + 2..]))
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
        assert_eq!(parse(text).folded(), "native_write_msr 1\nPinBuffer 1\n");
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
