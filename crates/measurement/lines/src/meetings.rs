//! Unrelated things that meet on one cache line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::gathered::{Bytes, Gathered, rounded};

/// Unrelated things on one line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Meeting {
    /// `false-sharing`: sessions use different bytes, and write. `neighbours`: what the session
    /// writes of its own lies on a line with other sessions' own. `read-beside-written`: what all
    /// only read lies beside what is written.
    pub kind: String,
    /// What meets.
    pub parts: Vec<String>,
    /// Lines on which it does.
    pub lines: usize,
    /// The address of the one that is taken most.
    pub address: String,
    /// Times a transaction that they are taken.
    pub takes: f64,
}

fn overlap(a: &Bytes, b: &Bytes) -> bool {
    a.iter().zip(b).any(|(a, b)| a & b != 0)
}

fn any(a: &Bytes) -> bool {
    a.iter().any(|word| *word != 0)
}

/// Lines on which unrelated things meet, those of one kind together.
pub(crate) fn meetings(lines: &[(u64, Gathered)], line: u64) -> Vec<Meeting> {
    let mut meetings: BTreeMap<(&'static str, Vec<String>), Meeting> = BTreeMap::new();
    for (at, gathered) in lines {
        let Some((kind, parts)) = meeting(gathered, line) else {
            continue;
        };
        let takes = gathered.counts.takes();
        let known = meetings.entry((kind, parts.clone())).or_insert(Meeting {
            kind: kind.to_owned(),
            parts,
            lines: 0,
            // The most taken comes first.
            address: format!("{:#x}", at * line),
            takes: 0.0,
        });
        known.lines += 1;
        known.takes = rounded(known.takes + takes);
    }
    let mut meetings: Vec<Meeting> = meetings.into_values().collect();
    meetings.sort_by(|a, b| b.takes.total_cmp(&a.takes));
    meetings
}

/// What meets on a line.
fn meeting(gathered: &Gathered, line: u64) -> Option<(&'static str, Vec<String>)> {
    let named = |(group, field): &(String, String)| match field.as_str() {
        "" => group.clone(),
        field => format!("{group}: {field}"),
    };
    if !gathered.rows.is_empty() {
        let crowded = gathered.rows.iter().map(|(structure, stride)| {
            let each = if *stride < line {
                format!("{} on a line", line / stride.max(&1))
            } else {
                "a line holds the end of one and the beginning of the next".to_owned()
            };
            format!("{structure}, {stride} bytes for each session: {each}")
        });
        return Some(("neighbours", crowded.collect()));
    }
    if falsely_shared(gathered) {
        return Some(("false-sharing", gathered.kinds.keys().map(named).collect()));
    }
    // What is only read, beside something else that is written. Members of one structure, such as a
    // lock and what it protects, are wanted together.
    let written: Vec<_> = gathered
        .kinds
        .iter()
        .filter(|(_, c)| c.takes() > 0.0)
        .collect();
    let read: Vec<_> = gathered
        .kinds
        .iter()
        .filter(|((group, _), counts)| {
            counts.takes() == 0.0 && written.iter().all(|((other, _), _)| other != group)
        })
        .collect();
    if !gathered.shared || read.is_empty() || written.is_empty() {
        return None;
    }
    let written = written
        .iter()
        .map(|(kind, _)| format!("written: {}", named(kind)));
    let read = read
        .iter()
        .map(|(kind, _)| format!("read: {}", named(kind)));
    Some(("read-beside-written", written.chain(read).collect()))
}

/// Whether two sessions use no byte of the line together, and one of them writes.
fn falsely_shared(gathered: &Gathered) -> bool {
    let sessions: Vec<&(Bytes, Bytes)> = gathered.bytes.values().collect();
    sessions.iter().enumerate().any(|(at, (read, written))| {
        sessions[at + 1..]
            .iter()
            .any(|(other_read, other_written)| {
                let apart = !overlap(written, other_written)
                    && !overlap(written, other_read)
                    && !overlap(read, other_written);
                let mine = any(written) && (any(other_written) || any(other_read));
                let others = any(other_written) && any(read);
                apart && (mine || others)
            })
    })
}
