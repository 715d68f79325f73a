//! Who differs from its kind, and in what kinds are divided.

use pgassay_analysis::fleet::{Fleet, Kind, OddTrait};

use super::{NAMES, beyond, named};
use crate::document::{Block, Cell, Column, Depth, Fact, Section, Table, Value};
use crate::number;

/// Rows of what differs in a kind.
const ODD: usize = 40;

/// Who differs from its kind.
pub(super) fn odd(fleet: &Fleet) -> Option<Section> {
    let mut blocks = Vec::new();
    let mut most: Vec<_> = fleet.hosts.iter().filter(|host| host.odd > 1).collect();
    most.sort_by_key(|host| std::cmp::Reverse(host.odd));
    if !most.is_empty() {
        let most = most.iter().take(NAMES);
        let most = most.map(|host| format!("{} in {}", host.name, host.odd));
        let most: Vec<String> = most.collect();
        blocks.push(Block::Text(format!("In most traits: {}.", most.join(", "))));
    }
    for kind in &fleet.kinds {
        blocks.extend(odd_of(kind));
        blocks.extend(far_off(kind));
    }
    blocks.extend(alone(fleet));
    if blocks.is_empty() {
        return None;
    }
    blocks.insert(
        0,
        Block::Text(
            "Usual is what at least nine of ten hosts of a kind have, or all but one, in kinds of seven \
             hosts and more; the share is of the hosts that have it."
                .to_owned(),
        ),
    );
    Some(Section {
        id: "odd",
        title: "Who differs from its kind",
        depth: Depth::Titled,
        blocks,
    })
}

fn odd_of(kind: &Kind) -> Vec<Block> {
    if kind.odd.is_empty() {
        return Vec::new();
    }
    let columns = vec![
        Column::words("trait", 0),
        Column::prose("hosts"),
        Column::prose("have"),
        Column::prose("usual"),
        Column::words("share", 0),
    ];
    let row = |odd: &OddTrait| {
        vec![
            Cell::plain(&odd.name),
            Cell::plain(named(&odd.on, NAMES)),
            Cell::plain(shown(&odd.value)),
            Cell::plain(shown(&odd.usual)),
            Cell::plain(format!("{} of {}", odd.usual_on.n, odd.usual_on.of)),
        ]
    };
    let mut blocks = vec![
        Block::Heading(of_kind(kind)),
        Block::Table(Table::new(
            "The rarest first.",
            columns,
            kind.odd.iter().take(ODD).map(row),
        )),
    ];
    blocks.extend(beyond(ODD.min(kind.odd.len()), kind.odd.len(), "value"));
    blocks
}

/// A value, which may be empty.
fn shown(value: &str) -> &str {
    match value {
        "" => "(empty)",
        value => value,
    }
}

fn of_kind(kind: &Kind) -> String {
    format!("{} ({})", kind.of, number::counted(kind.hosts, "host"))
}

fn far_off(kind: &Kind) -> Option<Block> {
    if kind.odd_measured.is_empty() {
        return None;
    }
    let columns = vec![
        Column::words("host", 0),
        Column::words("work", 1),
        Column::figures("throughput", "", 0),
        Column::figures("median of the kind", "", 0),
        Column::figures("hosts", "", 2),
        Column::figures("z-score", "", 1),
    ];
    let rows = kind.odd_measured.iter().map(|odd| {
        vec![
            Cell::plain(&odd.host),
            Cell::plain(&odd.work),
            Cell {
                value: Value::Estimate(odd.rate.clone()),
                marks: Vec::new(),
            },
            Cell::plain(number::single(odd.median)),
            Cell::plain(odd.of.to_string()),
            Cell::plain(number::signed(odd.score, 1)),
        ]
    });
    let caption = format!(
        "{}: the same work, and far from the median by the modified z-score (3.5 and above) and by more \
         than two runs of one server differ.",
        of_kind(kind)
    );
    Some(Block::Table(Table::new(caption, columns, rows)))
}

/// Hosts of small kinds that are one step from a large one.
fn alone(fleet: &Fleet) -> Vec<Block> {
    let lone = fleet.kinds.iter().enumerate();
    let lone: Vec<Fact> = lone
        .filter_map(|(n, kind)| {
            let (nearest, differs) = kind.nearest.as_ref()?;
            let hosts = fleet.hosts.iter().filter(|host| host.kind == n);
            let hosts: Vec<String> = hosts.map(|host| host.name.clone()).collect();
            let large = fleet.kinds.get(*nearest)?;
            let remark = format!("else as {}", of_kind(large));
            Some(Fact::new(named(&hosts, NAMES), differs.join(", ")).remark(remark))
        })
        .collect();
    match lone.is_empty() {
        true => Vec::new(),
        false => vec![
            Block::Heading("Too few of their kind, and near a larger one".to_owned()),
            Block::Facts(lone),
        ],
    }
}

/// In what each kind is divided.
pub(super) fn divided(fleet: &Fleet) -> Option<Section> {
    let mut blocks = Vec::new();
    for kind in fleet.kinds.iter().filter(|kind| !kind.divided.is_empty()) {
        let rows = kind.divided.iter().map(|divided| {
            let values = divided.values.iter();
            let values = values.map(|(value, n)| format!("{} ({n})", shown(value)));
            let values: Vec<String> = values.collect();
            vec![Cell::plain(&divided.name), Cell::plain(values.join("; "))]
        });
        let columns = vec![Column::words("trait", 0), Column::prose("values and hosts")];
        blocks.push(Block::Heading(of_kind(kind)));
        let caption = "The most frequent first.";
        blocks.push(Block::Table(Table::new(caption, columns, rows).folded()));
    }
    (!blocks.is_empty()).then_some(Section {
        id: "divided",
        title: "In what kinds are divided",
        depth: Depth::Evidence,
        blocks,
    })
}
