//! The shared memory as a map, and what lies in each of its parts.

use pgassay_report::document::{
    Block, Cell, Column, Depth, Evidence, MemoryMap, MemoryMark, MemoryStrip, Section, Table,
};

use super::{ROWS, count_columns, counted, figure};
use crate::account::{Account, Line};
use crate::segment::{Mark, Region};

/// What is said of parts that were not used.
const UNUSED_NAMED: usize = 12;

/// The map, and the lines of each part that is used.
pub(super) fn section(account: &Account) -> Option<Section> {
    let used: Vec<&Region> = account
        .regions
        .iter()
        .filter(|r| r.lines_used > 0)
        .collect();
    if used.is_empty() {
        return None;
    }
    let mut blocks = vec![Block::Memory(Box::new(map(&used)))];
    blocks.extend(unused(account).map(Block::Text));
    let evidence = used
        .iter()
        .enumerate()
        .map(|(number, region)| Block::Evidence(Box::new(of_region(account, region, number))));
    blocks.extend(evidence);
    Some(Section {
        id: "segment",
        title: "Where the lines lie",
        depth: Depth::Evidence,
        blocks,
    })
}

fn name_of(number: usize) -> String {
    format!("point-region-{number}")
}

/// `12 KiB`.
fn size(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    match value {
        value if unit == 0 || value >= 99.95 => format!("{value:.0} {}", units[unit]),
        value => format!("{value:.1} {}", units[unit]),
    }
}

fn lines_of(region: &Region) -> String {
    match region.lines_used {
        1 => "1 line used".to_owned(),
        n => format!("{n} lines used"),
    }
}

/// `12 lines used; 8.0 stores and atomics, 40.0 loads a transaction`.
fn summary(region: &Region) -> String {
    let counts = &region.counts;
    format!(
        "{}; {} stores and atomics, {} loads a transaction",
        lines_of(region),
        figure(counts.takes()),
        figure(counts.loads + counts.kernel_loads)
    )
}

fn map(used: &[&Region]) -> MemoryMap {
    let marks = || used.iter().flat_map(|region| &region.marks);
    let most_taken = marks().map(|mark| mark.takes).fold(0.0, f64::max);
    let most_read = marks().map(|mark| mark.loads).fold(0.0, f64::max);
    let strips = used.iter().enumerate().map(|(number, region)| {
        let drawn = region.marks.iter().map(|mark| MemoryMark {
            at: mark.offset_bytes as f64 / region.size_bytes.max(1) as f64,
            height: match mark.takes > 0.0 {
                true => root(mark.takes, most_taken),
                false => root(mark.loads, most_read),
            },
            kind: kind(mark),
        });
        MemoryStrip {
            label: format!("{} ({})", region.name, size(region.size_bytes)),
            tip: format!(
                "{}, {} at {}: {}",
                region.name,
                size(region.size_bytes),
                region.address,
                summary(region)
            ),
            evidence: name_of(number),
            marks: drawn.collect(),
        }
    });
    let mut hottest: Vec<&&Region> = used.iter().collect();
    hottest.sort_by(|a, b| b.counts.takes().total_cmp(&a.counts.takes()));
    let spoken = hottest
        .iter()
        .take(8)
        .map(|region| format!("{} {}", region.name, figure(region.counts.takes())));
    MemoryMap {
        id: "segment".to_owned(),
        title: "The shared memory, by address".to_owned(),
        alternative: format!(
            "Parts of the shared memory, with the stores and atomics of a transaction in each, the most \
             first: {}.",
            spoken.collect::<Vec<_>>().join("; ")
        ),
        caption: "A strip is a part of the shared memory, from its first byte to its last one, whatever \
                  its size; strokes are the lines that were used, the higher the more often (by the \
                  cube root). Click a strip for its lines, what lies on them and which functions take \
                  them."
            .to_owned(),
        kinds: ["taken, of all sessions", "taken, the session's own", "only read"],
        strips: strips.collect(),
    }
}

fn kind(mark: &Mark) -> usize {
    match (mark.takes > 0.0, mark.own) {
        (true, false) => 0,
        (true, true) => 1,
        (false, _) => 2,
    }
}

/// By the cube root: what is taken once must be seen beside what is taken a hundred times.
fn root(value: f64, most: f64) -> f64 {
    (value / most.max(f64::MIN_POSITIVE)).cbrt()
}

/// What was not used, in a sentence.
fn unused(account: &Account) -> Option<String> {
    let mut unused: Vec<&Region> = account
        .regions
        .iter()
        .filter(|r| r.lines_used == 0)
        .collect();
    if unused.is_empty() {
        return None;
    }
    unused.sort_by_key(|region| std::cmp::Reverse(region.size_bytes));
    let sum: u64 = unused.iter().map(|region| region.size_bytes).sum();
    let names: Vec<&str> = unused
        .iter()
        .take(UNUSED_NAMED)
        .map(|region| region.name.as_str())
        .collect();
    let more = match unused.len() - names.len() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Some(format!(
        "Not used, {} in all: {}{more}.",
        size(sum),
        names.join(", ")
    ))
}

/// The lines of a part, the most taken first.
fn of_region(account: &Account, region: &Region, number: usize) -> Evidence {
    let start = hexadecimal(&region.address);
    let within = |line: &&Line| {
        let at = hexadecimal(&line.address);
        at + account.line_bytes > start && at < start + region.size_bytes
    };
    let lines: Vec<&Line> = account.lines.iter().filter(within).collect();
    let mut blocks = vec![Block::Table(parts(&lines, region))];
    let takers = takers(&lines);
    if !takers.rows.is_empty() {
        blocks.push(Block::Table(takers));
    }
    Evidence {
        id: name_of(number),
        title: region.name.clone(),
        summary: format!("{}; {}", size(region.size_bytes), summary(region)),
        see: Vec::new(),
        profile: None,
        blocks,
    }
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(0)
}

fn parts(lines: &[&Line], region: &Region) -> Table {
    let mut columns = vec![Column::words("line", 0), Column::prose("what lies on it")];
    columns.extend(count_columns());
    let rows = lines.iter().take(ROWS).flat_map(|line| {
        line.parts.iter().map(|part| {
            let mut row = vec![
                Cell::plain(line.address.clone()),
                Cell::plain(part.name.clone()),
            ];
            row.extend(counted(&part.counts));
            row
        })
    });
    let more = match region.lines_used.saturating_sub(lines.len().min(ROWS)) {
        0 => String::new(),
        1 => "; one more line is not shown".to_owned(),
        n => format!("; {n} more lines are not shown"),
    };
    let caption = format!("Lines by how often they are taken, in accesses a transaction{more}.");
    Table::new(caption, columns, rows)
}

fn takers(lines: &[&Line]) -> Table {
    let mut columns = vec![
        Column::words("line", 0),
        Column::prose("function"),
        Column::prose("called by"),
    ];
    columns.extend(count_columns().into_iter().take(2));
    let rows = lines.iter().take(ROWS).flat_map(|line| {
        line.takers.iter().map(|taker| {
            let mut row = vec![
                Cell::plain(line.address.clone()),
                Cell::plain(taker.function.clone()),
                Cell::plain(taker.callers.join(" < ")),
            ];
            row.extend(counted(&taker.counts).into_iter().take(2));
            row
        })
    });
    Table::new("Code that takes these lines.", columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_words() {
        for (bytes, said) in [
            (64, "64 bytes"),
            (1536, "1.5 KiB"),
            (134_221_824, "128 MiB"),
            (1 << 40, "1024 GiB"),
        ] {
            assert_eq!(size(bytes), said);
        }
    }
}
