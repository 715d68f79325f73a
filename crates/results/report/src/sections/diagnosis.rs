//! Findings with their evidence and remedy, and the CPU samples behind them.

use pgassay_analysis::Analysis;
use pgassay_analysis::diagnose::{Diagnosis, Finding, Severity};
use pgassay_analysis::profile::Summary;
use pgassay_analysis::profile::difference::Difference;
use pgassay_analysis::profile::tree::CallTree;
use pgassay_analysis::reference::Reference;

use super::findings::block;
use crate::Report;
use crate::document::{
    Block, Cell, Column, Depth, Document, Fact, FindingBlock, FlameGraph, Notes, Section, Table,
};

/// Functions that the table of a profile lists.
const FUNCTIONS: usize = 20;

impl Report for Diagnosis {
    fn document(&self) -> Document {
        document(self)
    }

    fn profiles(&self) -> Option<CallTree> {
        (!self.stacks.views.is_empty()).then(|| self.stacks.clone())
    }
}

/// What its profiles are called; the second is what the first is held against.
fn groups(diagnosis: &Diagnosis) -> Vec<String> {
    let views = diagnosis.stacks.views.iter();
    views.map(|view| view.group.clone()).collect()
}

/// A diagnosis as a document of its own.
fn document(diagnosis: &Diagnosis) -> Document {
    let mut sections = Vec::new();
    sections.extend(diagnosis.reference.as_ref().map(super::reference::section));
    sections.push(findings(diagnosis, |_| false));
    sections.extend(diagnosis.profile.as_ref().map(profile));
    if let (Some(flame), Some(section)) = (&diagnosis.flame, sections.last_mut()) {
        let groups: Vec<String> = groups(diagnosis);
        section.blocks.push(Block::Flame(Box::new(FlameGraph {
            flame: flame.clone(),
            title: "Functions by their callers".to_owned(),
            group: groups.first().cloned().unwrap_or_default(),
            against: groups.get(1).cloned(),
        })));
    }
    sections.extend(diagnosis.difference.as_ref().map(difference));
    Document {
        title: format!("Diagnosis of {}", diagnosis.subject),
        provenance: format!(
            "pgassay {}; findings rest on what was seen and nothing else",
            env!("CARGO_PKG_VERSION")
        ),
        alarms: Vec::new(),
        headline: headline(diagnosis),
        sections,
        notes: Vec::new(),
        profiles: diagnosis.profiles(),
        ..Document::default()
    }
}

/// What was found in one sentence each, the most important first.
pub fn headline(diagnosis: &Diagnosis) -> Vec<String> {
    let mut headline: Vec<String> = diagnosis
        .reference
        .iter()
        .flat_map(Reference::headline)
        .collect();
    headline.extend(of_findings(diagnosis));
    headline
}

/// The gain from which on a finding is a headline beside others.
const HEADLINE: f64 = 0.1;

fn of_findings(diagnosis: &Diagnosis) -> Vec<String> {
    let much = diagnosis
        .findings
        .iter()
        .any(|f| f.severity > Severity::Low && f.gain().is_some_and(|gain| gain >= HEADLINE));
    let weighty = || {
        let findings = diagnosis.findings.iter();
        let weighty = findings.filter(|f| f.severity > Severity::Info || !f.basis.is_measured());
        // Beside what brings much, what brings little is no headline.
        let weighty = weighty.filter(|f| !much || f.gain().is_none_or(|gain| gain >= HEADLINE));
        // What was proved is said already.
        weighty.filter(|f| !f.id.starts_with("differs-from-reference/"))
    };
    if weighty().next().is_none() {
        let proved = !diagnosis.findings.is_empty() && diagnosis.reference.is_some();
        return if proved {
            Vec::new()
        } else {
            vec![none_known(diagnosis)]
        };
    }
    weighty().map(in_short).collect()
}

/// `Commits wait for the WAL flush: 62.5 % of the sessions' time, worth 1.12 times the throughput.`
pub fn in_short(finding: &Finding) -> String {
    let share = finding.budget_share.filter(|share| *share >= 0.0005);
    let share = share.map(|share| format!("{:.1} % of the sessions' time", 100.0 * share));
    let rest: Vec<String> = share.into_iter().chain(finding.gain_in_brief()).collect();
    match rest.is_empty() {
        true => format!("{}.", finding.title),
        false => format!("{}: {}.", finding.title, rest.join(", ")),
    }
}

/// The diagnosis of a run, load by load, without the findings that the section of findings shows; none where nothing is
/// left.
pub fn section(analysis: &Analysis, _notes: &mut Notes) -> Option<Section> {
    let loads = std::iter::once(analysis.main()).chain(analysis.further_loads());
    let diagnosed: Vec<_> = loads
        .filter_map(|load| Some((&load.plan.workload.name, load.diagnosis.as_ref()?)))
        .collect();
    let several = diagnosed.len() > 1;
    let elsewhere = super::findings::of_causes(analysis);
    let mut parts = diagnosed.into_iter().map(|(load, diagnosis)| {
        let is_elsewhere = |f: &Finding| {
            let same = |b: &FindingBlock| b.finding.id == f.id && b.under.as_ref() == Some(load);
            elsewhere.iter().any(same)
        };
        let mut section = findings(diagnosis, is_elsewhere);
        if several {
            let heading = Block::Heading(format!("Under {load}"));
            section.blocks.insert(0, heading);
        }
        section
    });
    let mut section = parts.next()?;
    section
        .blocks
        .extend(parts.flat_map(|further| further.blocks));
    (!section.blocks.is_empty()).then_some(section)
}

/// What is said where nothing of weight was found: how much of the time that leaves unexplained.
pub fn none_known(diagnosis: &Diagnosis) -> String {
    match diagnosis.explained {
        Some(share) => format!(
            "No known bottleneck; {:.0} % of session time is unexplained.",
            100.0 * (1.0 - share)
        ),
        None => "No known bottleneck; the sessions' time could not be accounted for.".to_owned(),
    }
}

/// The findings, but for those that stand elsewhere, and what could not be judged.
pub fn findings(diagnosis: &Diagnosis, is_elsewhere: impl Fn(&Finding) -> bool) -> Section {
    let mut blocks: Vec<Block> = diagnosis.time.iter().cloned().map(Block::Text).collect();
    if diagnosis
        .findings
        .iter()
        .all(|f| f.severity == Severity::Info)
    {
        blocks.push(Block::Text(none_known(diagnosis)));
    }
    let (slight, weighty): (Vec<_>, Vec<_>) = diagnosis
        .findings
        .iter()
        .filter(|f| !is_elsewhere(f))
        .partition(|f| f.severity == Severity::Info && f.basis.is_measured());
    blocks.extend(weighty.into_iter().map(|f| block(f, None, true)));
    if !slight.is_empty() {
        blocks.push(Block::Heading(
            "What else takes much of the CPU time".to_owned(),
        ));
        let fact = |f: &Finding| Fact::new(&f.title, &f.saw);
        blocks.push(Block::Facts(slight.into_iter().map(fact).collect()));
    }
    if !diagnosis.not_seen.is_empty() {
        blocks.push(Block::Heading("What could not be seen".to_owned()));
        blocks.extend(
            diagnosis
                .not_seen
                .iter()
                .map(|text| Block::Text(sentence(text))),
        );
    }
    Section {
        id: "diagnosis",
        title: "Diagnosis",
        depth: Depth::Summary,
        blocks,
    }
}

/// With a capital and a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars
        .next()
        .into_iter()
        .flat_map(char::to_uppercase)
        .collect();
    format!("{first}{}.", chars.as_str().trim_end_matches('.'))
}

/// A profile by class, by function and by lock.
pub fn profile(summary: &Summary) -> Section {
    Section {
        id: "profile",
        title: "Where the CPU time goes",
        depth: Depth::Summary,
        blocks: profile_blocks(summary, None),
    }
}

fn percent(share: f64) -> Cell {
    Cell::plain(format!("{:.1}", 100.0 * share))
}

/// The tables of a profile; `under` names its load where there are several.
pub fn profile_blocks(summary: &Summary, under: Option<&str>) -> Vec<Block> {
    let mut blocks = vec![Block::Text(basis(summary, under))];
    blocks.push(Block::Table(Table {
        caption: "CPU samples by what they were spent on, per cent of all samples.".to_owned(),
        columns: vec![
            Column::words("spent on", 0),
            Column::figures("samples", "%", 0),
        ],
        rows: summary
            .classes
            .iter()
            .filter(|c| c.share >= 0.0005)
            .map(|c| vec![Cell::plain(c.class.title()), percent(c.share)])
            .collect(),
        folded: false,
        marks: Vec::new(),
    }));
    blocks.push(Block::Table(Table {
        caption: "The hottest functions, per cent of all samples: in the function itself, and in \
                  it or what it called."
            .to_owned(),
        columns: vec![
            Column::words("function", 0),
            Column::figures("own", "%", 0),
            Column::figures("with callees", "%", 2),
            Column::words("spent on", 1),
            Column::words("in", 3),
        ],
        rows: summary
            .functions
            .iter()
            .take(FUNCTIONS)
            .map(|f| {
                vec![
                    Cell::plain(&f.symbol),
                    percent(f.own_share),
                    percent(f.total_share),
                    Cell::plain(f.class.title()),
                    Cell::plain(&f.object),
                ]
            })
            .collect(),
        folded: false,
        marks: Vec::new(),
    }));
    let locks: Vec<Vec<Cell>> = summary
        .locks
        .iter()
        .filter(|l| l.share >= 0.0005)
        .map(|l| {
            let callers: Vec<String> = l
                .callers
                .iter()
                .map(|(name, share)| format!("{name} {:.1}", 100.0 * share))
                .collect();
            vec![
                Cell::plain(&l.function),
                Cell::plain(l.lock.title()),
                percent(l.share),
                Cell::plain(callers.join(", ")),
            ]
        })
        .collect();
    if !locks.is_empty() {
        blocks.push(Block::Table(Table {
            caption: "Lock functions by the lock that they were called for, with their callers; \
                      per cent of all samples."
                .to_owned(),
            columns: vec![
                Column::words("function", 0),
                Column::words("lock", 0),
                Column::figures("samples", "%", 0),
                Column::words("called by", 1),
            ],
            rows: locks,
            folded: false,
            marks: Vec::new(),
        }));
    }
    blocks
}

/// What the shares rest on.
fn basis(summary: &Summary, under: Option<&str>) -> String {
    let mut text = match summary.samples {
        Some(n) => format!("{} CPU samples", crate::number::count(n)),
        None => format!(
            "A listing that accounts for {:.1} % of the server's samples",
            100.0 * summary.accounted_share
        ),
    };
    text.extend(under.map(|load| format!(" under {load}")));
    text.push_str(if summary.call_chains {
        ", with callers."
    } else {
        ", without callers."
    });
    if summary.unnamed_share >= 0.01 {
        text.push_str(&format!(
            " {:.0} % of them have no symbol.",
            100.0 * summary.unnamed_share
        ));
    }
    text.extend(machine(summary));
    text
}

/// Other programs that are named.
const PROGRAMS: usize = 4;

/// What else was sampled on the machine.
fn machine(summary: &Summary) -> Option<String> {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    let mut parts = Vec::new();
    if summary.idle_share > 0.0 {
        parts.push(format!("{} are of idle CPUs", percent(summary.idle_share)));
    }
    let others: f64 = summary.others.iter().map(|other| other.share).sum();
    if others > 0.0 {
        let named = summary.others.iter().take(PROGRAMS);
        let mut named: Vec<String> = named
            .map(|other| format!("{} {}", other.program, percent(other.share)))
            .collect();
        if summary.others.len() > PROGRAMS {
            named.push("and more".to_owned());
        }
        parts.push(format!(
            "{} of other programs ({})",
            percent(others),
            named.join(", ")
        ));
    }
    (!parts.is_empty()).then(|| {
        format!(
            " Of all samples of the machine {}; shares are of PostgreSQL's.",
            parts.join(", ")
        )
    })
}

/// What changed from another profile.
fn difference(difference: &Difference) -> Section {
    let rows = |names: Vec<(String, f64, f64)>| -> Vec<Vec<Cell>> {
        names
            .into_iter()
            .filter(|(_, before, after)| (after - before).abs() >= 0.0005)
            .take(FUNCTIONS)
            .map(|(name, before, after)| {
                vec![
                    Cell::plain(name),
                    percent(before),
                    percent(after),
                    Cell::plain(crate::number::signed(100.0 * (after - before), 1)),
                ]
            })
            .collect()
    };
    let table = |caption: &str, head: &str, rows| {
        Block::Table(Table {
            caption: caption.to_owned(),
            columns: vec![
                Column::words(head, 0),
                Column::figures("before", "%", 1),
                Column::figures("after", "%", 1),
                Column::figures("change", "points", 0),
            ],
            rows,
            folded: false,
            marks: Vec::new(),
        })
    };
    let classes = difference.classes.iter();
    let functions = difference.functions.iter();
    Section {
        id: "difference",
        title: "What changed",
        depth: Depth::Summary,
        blocks: vec![
            table(
                "Shares of all samples by what they were spent on, the largest change first. Shares, \
                 not times: a cost that stands still has a larger share where another went.",
                "spent on",
                rows(
                    classes
                        .map(|c| (c.of.title().to_owned(), c.before, c.after))
                        .collect(),
                ),
            ),
            table(
                "The same by function, own samples.",
                "function",
                rows(
                    functions
                        .map(|c| (c.of.clone(), c.before, c.after))
                        .collect(),
                ),
            ),
        ],
    }
}
