//! Many hosts: what is wrong on how many, and who differs from its kind.

mod odd;

use pgassay_analysis::bottlenecks::{self, Severity, StepKind};
use pgassay_analysis::fleet::{Fleet, FleetFinding, Group, Grouping, Kind, Share, Superseded};
use pgassay_text::cell;

use super::document::{
    Badge, Bar, Bars, Block, Cell, Column, Depth, Document, Evidence, Rating, Section, Table, Value,
};
use super::{Report, Rows, number};

/// Findings in the picture.
const BARS: usize = 12;
/// Names in a line.
const NAMES: usize = 4;
/// Rows of a table by a trait.
const GROUPS: usize = 10;
/// Rows of kinds.
const KINDS: usize = 20;
/// Rows of hosts on a page: JSON and CSV have all.
const HOSTS: usize = 5000;
/// Names of hosts below a finding.
const ON: usize = 200;
/// Rows of what was left out.
const LEFT_OUT: usize = 40;

impl Report for Fleet {
    fn document(&self) -> Document {
        let mut sections = vec![findings(self)];
        sections.extend(odd::odd(self));
        sections.push(kinds(self));
        sections.extend(by_trait(self));
        sections.extend(left_out(self));
        sections.extend(details(self));
        sections.extend(odd::divided(self));
        sections.extend(superseded(&self.superseded));
        sections.push(hosts(self));
        Document {
            title: format!(
                "{} of {}",
                number::counted(self.hosts.len() as u64, "host"),
                number::counted(self.kinds.len() as u64, "kind")
            ),
            provenance: provenance(self),
            alarms: alarms(self),
            badges: badges(self),
            glance: picture(self)
                .map(|bars| Block::Bars(Box::new(bars)))
                .into_iter()
                .collect(),
            headline: headline(self),
            sections,
            ..Document::default()
        }
    }

    fn rows(&self) -> Option<Rows> {
        let mut rows = Rows::new([
            "host",
            "place",
            "collected",
            "cpu",
            "cpus",
            "postgres",
            "role",
            "gravest",
            "differs_in",
            "findings",
        ]);
        for host in &self.hosts {
            let of = self.kinds.get(host.kind).map(|kind| &kind.of);
            let text = |value: Option<&String>| value.map(|text| cell(text)).unwrap_or_default();
            let cpus = of.and_then(|of| of.cpus);
            rows.push(vec![
                cell(&host.name),
                cell(&host.place),
                cell(&host.collected),
                text(of.and_then(|of| of.cpu.as_ref())),
                cpus.map(|n| n.to_string()).unwrap_or_default(),
                text(of.and_then(|of| of.postgres.as_ref())),
                of.map(|of| of.role.words().to_owned()).unwrap_or_default(),
                host.gravest
                    .map(Severity::name)
                    .unwrap_or_default()
                    .to_owned(),
                host.odd.to_string(),
                cell(&host.findings.join(" ")),
            ]);
        }
        Some(rows)
    }
}

/// `2026-11-21`.
fn day(date: &str) -> &str {
    date.get(..10).unwrap_or(date)
}

fn provenance(fleet: &Fleet) -> String {
    let (oldest, newest) = (day(&fleet.oldest), day(&fleet.newest));
    let from = match oldest == newest {
        true => format!("Collected {newest}"),
        false => format!("Collected {oldest} to {newest}"),
    };
    format!(
        "{from}; held side by side by pgassay {}",
        env!("CARGO_PKG_VERSION")
    )
}

fn alarms(fleet: &Fleet) -> Vec<String> {
    let mut alarms = Vec::new();
    match fleet.missing() {
        0 => {}
        n => alarms.push(format!(
            "{} could not be read and may belong to further hosts: see what was left out.",
            number::counted(n, "file")
        )),
    }
    match fleet.incomplete() as u64 {
        0 => {}
        n => alarms.push(format!(
            "{} not examined in full: a finding that is absent there means nothing.",
            match n {
                1 => "1 host was".to_owned(),
                n => format!("{} were", number::counted(n, "host")),
            }
        )),
    }
    alarms
}

/// How many hosts have nothing of weight.
fn badges(fleet: &Fleet) -> Vec<Badge> {
    let of = fleet.hosts.len();
    let hosts = fleet.hosts.iter();
    let weighty = hosts.filter(|host| host.gravest >= Some(Severity::Medium));
    let n = weighty.count();
    vec![Badge {
        subject: "findings of weight",
        judgement: format!(
            "on {} of {}",
            number::count(n as u64),
            number::count(of as u64)
        ),
        rating: match (n, n * 10 > of) {
            (0, _) => Rating::Good,
            (_, false) => Rating::Fair,
            (_, true) => Rating::Bad,
        },
        why: String::new(),
    }]
}

fn headline(fleet: &Fleet) -> Vec<String> {
    let mut said = Vec::new();
    let grave = fleet
        .findings
        .iter()
        .filter(|f| f.severity == Severity::High);
    let widest = grave.max_by_key(|finding| finding.hosts.n);
    match widest.or(fleet.findings.first()) {
        Some(finding) => said.push(format!(
            "{}: {}, the most frequent finding of {} weight.",
            finding.title,
            on(finding.hosts),
            finding.severity.name()
        )),
        None => said.push("Nothing was found on any of them.".to_owned()),
    }
    let odd = fleet.hosts.iter().filter(|host| host.odd > 0).count();
    let lone = fleet.kinds.iter().filter(|kind| kind.nearest.is_some());
    let lone: u32 = lone.map(|kind| kind.hosts).sum();
    said.push(match odd {
        0 => "No host differs from what is usual in its kind.".to_owned(),
        1 => "1 host differs from what is usual in its kind.".to_owned(),
        n => format!(
            "{} differ from what is usual in their kind.",
            number::counted(n as u64, "host")
        ),
    });
    if lone > 0 {
        said.push(format!(
            "{} of a kind too small to judge, and one step away from a larger one.",
            match lone {
                1 => "1 host is".to_owned(),
                n => format!("{} are", number::counted(n, "host")),
            }
        ));
    }
    said
}

/// `412 of 980 hosts (42 %)`.
fn on(share: Share) -> String {
    format!(
        "{} of {} ({})",
        number::count(u64::from(share.n)),
        number::counted(share.of, "host"),
        number::percent_of_one(share.value())
    )
}

/// `db1, db17, db3 and 12 more`.
fn named(names: &[String], most: usize) -> String {
    let shown: Vec<&str> = names.iter().take(most).map(String::as_str).collect();
    match names.len().saturating_sub(most) {
        0 => shown.join(", "),
        more => format!(
            "{} and {} more",
            shown.join(", "),
            number::count(more as u64)
        ),
    }
}

/// What lies beyond the rows of a table.
fn beyond(shown: usize, all: usize, what: &str) -> Option<Block> {
    let more = all.checked_sub(shown).filter(|more| *more > 0)?;
    let more = number::counted(more as u64, what);
    Some(Block::Text(format!("{more} more: --json has all.")))
}

/// The weightiest findings, by how many hosts have them.
fn picture(fleet: &Fleet) -> Option<Bars> {
    let found = fleet
        .findings
        .iter()
        .filter(|f| f.severity > Severity::Info);
    let rows: Vec<Bar> = found
        .take(BARS)
        .map(|finding| Bar {
            label: finding.id.clone(),
            parts: vec![f64::from(finding.hosts.n)],
            evidence: Some(anchor(finding)),
        })
        .collect();
    if rows.is_empty() || fleet.hosts.len() < 2 {
        return None;
    }
    let said = fleet.findings.iter().take(BARS);
    let said: Vec<String> = said
        .map(|f| format!("{}: {}", f.title, on(f.hosts)))
        .collect();
    Some(Bars {
        id: "hosts-by-finding".to_owned(),
        title: "Hosts by finding".to_owned(),
        alternative: said.join("; "),
        caption: "The gravest first; the table says of how many hosts that could be judged."
            .to_owned(),
        axis: "hosts".to_owned(),
        unit: "hosts".to_owned(),
        parts: vec!["hosts that have it".to_owned()],
        rows,
        absolute: true,
    })
}

/// The name of a finding's details.
fn anchor(finding: &FleetFinding) -> String {
    format!("finding-{}", finding.id)
}

fn findings(fleet: &Fleet) -> Section {
    let columns = vec![
        Column::words("finding", 0),
        Column::words("weight", 0),
        Column::figures("hosts", "", 0),
        Column::figures("of judged", "", 1),
        Column::figures("share", "", 1),
        Column::words("such as", 2),
    ];
    let row = |finding: &FleetFinding| {
        let count = |n: u32| Cell::plain(number::count(u64::from(n)));
        vec![
            link(&finding.id, anchor(finding)),
            Cell::plain(finding.severity.name()),
            count(finding.hosts.n),
            count(finding.hosts.of),
            Cell::plain(number::percent_of_one(finding.hosts.value())),
            Cell::plain(&finding.example.host),
        ]
    };
    let blocks = match fleet.findings.is_empty() {
        true => vec![Block::Text("Nothing was found.".to_owned())],
        false => vec![Block::Table(Table::new(
            "The gravest first; pgassay check --explain says why each matters.",
            columns,
            fleet.findings.iter().map(row),
        ))],
    };
    Section {
        id: "findings",
        title: "What is wrong on how many hosts",
        depth: Depth::Titled,
        blocks,
    }
}

fn link(words: &str, to: String) -> Cell {
    Cell {
        value: Value::Link(words.to_owned(), to),
        marks: Vec::new(),
    }
}

/// Each finding: what it is, what to do, and who has it.
fn details(fleet: &Fleet) -> Option<Section> {
    let blocks = fleet.findings.iter().map(|finding| {
        let example = &finding.example;
        let mut blocks = vec![Block::Text(format!("On {}: {}", example.host, example.saw))];
        if let Some(entry) = bottlenecks::find(&finding.id) {
            blocks.push(Block::Text(entry.why.to_owned()));
        }
        let commands = example.remedy.iter().filter(|s| s.kind != StepKind::Advice);
        let commands: Vec<String> = commands.map(|step| step.text.clone()).collect();
        let advice = example.remedy.iter().filter(|s| s.kind == StepKind::Advice);
        blocks.extend(advice.map(|step| Block::Text(step.text.clone())));
        if !commands.is_empty() {
            let whose = match (example.cures_all, finding.hosts.n) {
                (_, 1) => "There:",
                (true, _) => "On each of them:",
                (false, _) => "There; on others the values differ, and pgassay check says them:",
            };
            blocks.push(Block::Text(whose.to_owned()));
            blocks.push(Block::Commands(commands));
        }
        blocks.push(Block::Text(format!("Hosts: {}.", named(&finding.on, ON))));
        let measured = match finding.measured {
            0 => String::new(),
            n => format!("; a load showed it on {}", number::count(u64::from(n))),
        };
        Block::Evidence(Box::new(Evidence {
            id: anchor(finding),
            title: finding.title.clone(),
            summary: format!(
                "{}, {}{measured}",
                finding.severity.name(),
                on(finding.hosts)
            ),
            see: Vec::new(),
            profile: None,
            blocks,
        }))
    });
    let blocks: Vec<Block> = blocks.collect();
    (!blocks.is_empty()).then_some(Section {
        id: "details",
        title: "Each finding, and who has it",
        depth: Depth::Evidence,
        blocks,
    })
}

fn kinds(fleet: &Fleet) -> Section {
    let columns = vec![
        Column::prose("CPU"),
        Column::figures("CPUs", "", 0),
        Column::words("PostgreSQL", 0),
        Column::words("role", 0),
        Column::figures("hosts", "", 0),
        Column::figures("odd values", "", 1),
        Column::figures("divided in", "", 1),
    ];
    let row = |kind: &Kind| {
        let count = |n: usize| Cell::plain(number::count(n as u64));
        let judged = |n: usize| match kind.judged {
            true => count(n),
            false => Cell::missing(),
        };
        vec![
            Cell::plain_or_missing(kind.of.cpu.clone()),
            Cell::plain_or_missing(kind.of.cpus.map(|n| n.to_string())),
            Cell::plain_or_missing(kind.of.postgres.clone()),
            Cell::plain(kind.of.role.words()),
            count(kind.hosts as usize),
            judged(kind.odd.len() + kind.odd_measured.len()),
            count(kind.divided.len()),
        ]
    };
    let mut blocks = vec![Block::Table(Table::new(
        "Hosts with the same CPU, number of CPUs, major version and role. In kinds of fewer than seven \
         nobody is called odd.",
        columns,
        fleet.kinds.iter().take(KINDS).map(row),
    ))];
    let all = fleet.kinds.len();
    blocks.extend(beyond(KINDS.min(all), all, "kind"));
    Section {
        id: "kinds",
        title: "Kinds",
        depth: Depth::Titled,
        blocks,
    }
}

/// A table a trait.
fn by_trait(fleet: &Fleet) -> Option<Section> {
    let blocks: Vec<Block> = fleet.by.iter().flat_map(grouping).collect();
    let intro = "Of weight: hosts with a finding of medium or high weight.";
    let intro = std::iter::once(Block::Text(intro.to_owned()));
    (!blocks.is_empty()).then(|| Section {
        blocks: intro.chain(blocks).collect(),
        id: "by",
        title: "By processor, kernel, version and build",
        depth: Depth::Titled,
    })
}

fn grouping(by: &Grouping) -> Vec<Block> {
    let columns = vec![
        Column::prose(&by.by),
        Column::figures("hosts", "", 0),
        Column::figures("of weight", "", 0),
        Column::figures("findings a host", "", 1),
        Column::prose("most frequent"),
    ];
    let row = |group: &Group| {
        let most = group.most.iter().take(3);
        let most: Vec<String> = most.map(|(id, n)| format!("{id} {n}")).collect();
        let each = f64::from(group.findings) / f64::from(group.hosts.max(1));
        vec![
            Cell::plain_or_missing(group.value.clone()),
            Cell::plain(number::count(u64::from(group.hosts))),
            Cell::plain(number::count(u64::from(group.weighty))),
            Cell::plain(format!("{each:.1}")),
            Cell::plain(most.join(", ")),
        ]
    };
    let mut title = by.by.clone();
    if let Some(first) = title.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    let caption = "That of most hosts first.";
    let rows = by.groups.iter().take(GROUPS).map(row);
    let mut blocks = vec![
        Block::Heading(title),
        Block::Table(Table::new(caption, columns, rows)),
    ];
    let all = by.groups.len();
    blocks.extend(beyond(GROUPS.min(all), all, "value"));
    blocks
}

fn left_out(fleet: &Fleet) -> Option<Section> {
    if fleet.left_out_counts.is_empty() {
        return None;
    }
    let counts = fleet.left_out_counts.iter();
    let counts: Vec<String> = counts
        .map(|(why, n)| format!("{} {}", number::count(u64::from(*n)), why.words()))
        .collect();
    let rows = fleet.left_out.iter().take(LEFT_OUT).map(|out| {
        vec![
            Cell::plain(&out.place),
            Cell::plain(out.because.words()),
            Cell::plain(&out.why),
        ]
    });
    let columns = vec![
        Column::prose("file"),
        Column::words("because", 0),
        Column::prose("why"),
    ];
    let caption = "What may have been a host's comes first.";
    let mut blocks = vec![
        Block::Text(format!("Not used: {}.", counts.join(", "))),
        Block::Table(Table::new(caption, columns, rows)),
    ];
    let all: u32 = fleet.left_out_counts.iter().map(|(_, n)| n).sum();
    let shown = LEFT_OUT.min(fleet.left_out.len());
    if let Some(more) = (all as usize).checked_sub(shown).filter(|more| *more > 0) {
        let more = number::counted(more as u64, "file");
        blocks.push(Block::Text(format!("{more} more.")));
    }
    Some(Section {
        id: "left-out",
        title: "What was left out",
        depth: Depth::Titled,
        blocks,
    })
}

fn superseded(all: &[Superseded]) -> Option<Section> {
    if all.is_empty() {
        return None;
    }
    let rows = all.iter().take(HOSTS).map(|old| {
        vec![
            Cell::plain(&old.host),
            Cell::plain(&old.place),
            Cell::plain(old.collected.get(..16).unwrap_or(&old.collected)),
            Cell::plain(&old.by),
        ]
    });
    let columns = vec![
        Column::words("host", 0),
        Column::prose("older"),
        Column::words("from", 1),
        Column::prose("counts"),
    ];
    let caption = "Of several collections of a host the newest counts.";
    Some(Section {
        id: "superseded",
        title: "Older collections",
        depth: Depth::Evidence,
        blocks: vec![Block::Table(Table::new(caption, columns, rows).folded())],
    })
}

fn hosts(fleet: &Fleet) -> Section {
    let columns = vec![
        Column::words("host", 0),
        Column::words("gravest", 0),
        Column::figures("findings", "", 0),
        Column::figures("differs in", "", 0),
        Column::prose("kind"),
        Column::words("collected", 2),
        Column::words("not whole", 3),
    ];
    let rows = fleet.hosts.iter().take(HOSTS).map(|host| {
        let kind = fleet.kinds.get(host.kind).map(|kind| kind.of.to_string());
        vec![
            Cell::plain(&host.name),
            Cell::plain_or_missing(host.gravest.map(Severity::name)),
            Cell::plain(host.findings.len().to_string()),
            Cell::plain(host.odd.to_string()),
            Cell::plain_or_missing(kind),
            Cell::plain(
                host.collected
                    .get(..16)
                    .unwrap_or(&host.collected)
                    .replace('T', " "),
            ),
            Cell::plain(host.incomplete.clone().unwrap_or_default()),
        ]
    });
    let caption = "All hosts that were looked at.";
    let mut blocks = vec![Block::Table(Table::new(caption, columns, rows).folded())];
    let all = fleet.hosts.len();
    blocks.extend(beyond(HOSTS.min(all), all, "host"));
    Section {
        id: "hosts",
        title: "Hosts",
        depth: Depth::Evidence,
        blocks,
    }
}
