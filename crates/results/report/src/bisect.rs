//! Reports of a search for what makes the difference between two servers.

use pgassay_analysis::search::differences::{Alone, SetCause};
use pgassay_analysis::search::document::{Bisected, Difference, DifferenceKind};
use pgassay_analysis::search::{Interval, Outcome};

use super::Report;
use super::document::{Block, Cell, Column, Depth, Document, Fact, Section, Table};

/// `−4.8 % [−5.6 to −4.0]`.
pub fn change(interval: &Interval) -> String {
    let percent = |share: f64| {
        if share.is_finite() {
            super::number::signed(100.0 * share, 1)
        } else {
            "?".to_owned()
        }
    };
    format!(
        "{} % [{} to {}]",
        percent(interval.estimate),
        percent(interval.low),
        percent(interval.high)
    )
}

impl Report for Bisected {
    fn document(&self) -> Document {
        let mut sections = vec![Section {
            id: "causes",
            title: "What makes the difference",
            depth: Depth::Summary,
            blocks: causes(self),
        }];
        sections.push(Section {
            id: "others",
            title: "The others",
            depth: Depth::Titled,
            blocks: others(self),
        });
        Document {
            title: format!(
                "Which {}s make the difference: {} at {} clients",
                self.noun(),
                self.workload,
                self.clients
            ),
            provenance: format!("Measured by pgassay {}", env!("CARGO_PKG_VERSION")),
            headline: headline(self),
            sections,
            ..Document::default()
        }
    }
}

fn headline(found: &Bisected) -> Vec<String> {
    let total = format!(
        "B against A in {}: {}.",
        found.metric.heading,
        change(&found.conclusion.total)
    );
    let count = found.differences.len();
    let said = match found.conclusion.outcome {
        Outcome::NoDifference => format!(
            "A and B are not shown to differ by what matters ({:.1} %): there is nothing to search for.",
            100.0 * found.delta
        ),
        Outcome::Found => format!(
            "Of {count} {}s that differ {} the difference.",
            found.noun(),
            match found.causes.as_slice() {
                [one] => format!("{} makes", in_brief(found, one)),
                all => {
                    let all: Vec<String> = all.iter().map(|c| in_brief(found, c)).collect();
                    format!("{} make", all.join(" and "))
                }
            }
        ),
        Outcome::Open => format!(
            "Not found out after {} blocks: the likeliest {}s are below.",
            found.blocks.len(),
            found.noun()
        ),
    };
    vec![said, total]
}

fn causes(found: &Bisected) -> Vec<Block> {
    if found.conclusion.outcome == Outcome::NoDifference || found.causes.is_empty() {
        return Vec::new();
    }
    let rows = found.causes.iter().map(|cause| {
        vec![
            Cell::plain(names(found, cause)),
            Cell::plain(change(&cause.cause.effect)),
            Cell::plain(format!("{:.0} %", 100.0 * cause.cause.share.estimate)),
            Cell::plain(format!("{:.1} %", 100.0 * cause.cause.probability)),
            Cell::plain(cause.effect_alone.as_ref().map_or_else(String::new, change)),
        ]
    });
    let columns = vec![
        Column::prose(found.noun()),
        Column::words("effect", 0),
        Column::words("share", 0),
        Column::words("probability", 0),
        Column::words("effect alone", 1),
    ];
    let caption =
        "With 95 % intervals. The effect is beside those above it in the order of the search.";
    let mut blocks = vec![Block::Table(Table::new(caption, columns, rows))];
    blocks.extend(found.causes.iter().filter_map(|cause| {
        let name = names(found, cause);
        let said = match &cause.alone {
            Alone::Same | Alone::NotTold => return None,
            Alone::Refused => format!("{name}: the server does not start with it alone."),
            Alone::With(with) if with.is_empty() => format!(
                "{name} interacts with other {}s: its effect alone is another. With which could \
                 not be told.",
                found.noun()
            ),
            Alone::With(with) => {
                let with: Vec<&str> = with
                    .iter()
                    .filter_map(|n| Some(found.differences.get(*n)?.name.as_str()))
                    .collect();
                format!(
                    "{name} interacts with {}: its effect alone is another.",
                    with.join(", ")
                )
            }
        };
        Some(Block::Text(said))
    }));
    blocks
}

/// `enable_indexscan (together with enable_bitmapscan)`.
fn in_brief(found: &Bisected, cause: &SetCause) -> String {
    let names = |differences: &[usize], by: &str| {
        let of = differences.iter().filter_map(|n| found.differences.get(*n));
        of.map(|d| d.name.as_str()).collect::<Vec<_>>().join(by)
    };
    let own = names(&cause.differences, " or ");
    match &cause.alone {
        Alone::With(with) if !with.is_empty() => {
            format!("{own} (together with {})", names(with, ", "))
        }
        _ => own,
    }
}

fn names(found: &Bisected, cause: &SetCause) -> String {
    let of = cause
        .differences
        .iter()
        .filter_map(|n| found.differences.get(*n));
    let all: Vec<String> = of.map(described).collect();
    match all.len() {
        1 => all.concat(),
        n if n > 4 => format!("one of {n}, from {} to {}", all[0], all[n - 1]),
        _ => format!("one or several of {}", all.join("; ")),
    }
}

/// `work_mem: 4MB → 64kB`.
fn described(difference: &Difference) -> String {
    let missing = match difference.kind {
        DifferenceKind::Setting => "default",
        DifferenceKind::Cpus => "all",
        DifferenceKind::Server | DifferenceKind::Environment | DifferenceKind::Wrap => "none",
    };
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| missing.to_owned());
    format!(
        "{}: {} → {}",
        difference.name,
        value(&difference.a),
        value(&difference.b)
    )
}

/// The server of both; of each where they differ in it.
fn server(found: &Bisected) -> String {
    let differs = found
        .differences
        .iter()
        .find(|d| d.kind == DifferenceKind::Server);
    match differs {
        Some(Difference {
            a: Some(a),
            b: Some(b),
            ..
        }) => format!("{a} and {b}"),
        _ => found.target.clone(),
    }
}

fn others(found: &Bisected) -> Vec<Block> {
    let mut facts = vec![
        Fact::new("server", server(found)),
        Fact::new(
            "measured",
            format!(
                "{} blocks of {} pairs in {}",
                found.blocks.len(),
                found.pairs,
                super::number::duration(found.seconds)
            ),
        ),
    ];
    if !found.conclusion.others.is_empty() {
        facts.push(
            Fact::new("all others together", change(&found.conclusion.rest))
                .remark("each of them is bounded so, unless several cancel out"),
        );
    }
    let mut blocks = vec![Block::Facts(facts)];
    let rows = found.conclusion.others.iter().map(|stretch| {
        let last = stretch.last.min(found.differences.len());
        let names: Vec<&str> = found.differences[stretch.first.saturating_sub(1).min(last)..last]
            .iter()
            .map(|difference| difference.name.as_str())
            .collect();
        vec![
            Cell::plain(names.join(", ")),
            Cell::plain(change(&stretch.effect)),
        ]
    });
    let columns = vec![Column::prose("no cause"), Column::words("together", 0)];
    if !found.conclusion.others.is_empty() {
        blocks.push(Block::Table(Table::new("", columns, rows)));
    }
    blocks.extend(found.refused.iter().map(|refused| {
        Block::Text(format!(
            "Passed over, as the server did not start with {} of B's {}s: {}",
            refused.set.len(),
            found.noun(),
            refused.why
        ))
    }));
    blocks
}
