//! Two servers by counted instructions.

use pgassay_analysis::counts::Counts;
use pgassay_analysis::stats::Verdict;
use pgassay_model::warning::Warning;

use crate::csv::figure;
use crate::document::{Block, Cell, Column, Depth, Document, Fact, Notes, Section, Table};
use crate::{Report, Rows, number};

impl Report for Counts {
    fn document(&self) -> Document {
        let mut notes = Notes::default();
        let limits = self.counted.warnings.iter();
        let limits: Vec<Warning> = limits
            .map(|text| Warning::new("counts", format!("{text}.")))
            .collect();
        notes.marks(&limits, "");
        let target =
            |label: &str, target: &str, version: &str| Fact::new(label, target).remark(version);
        let mut facts = vec![
            Fact::new("verdict", self.counted.verdict.to_string()),
            target("A", &self.targets.0, &self.versions.0),
            target("B", &self.targets.1, &self.versions.1),
        ];
        if let Some((a, b)) = &self.hosts {
            let of = if a == b {
                a.clone()
            } else {
                format!("{a} and {b}")
            };
            facts.push(Fact::new("processor", of).remark("emulated: counts, not time"));
        }
        let mut blocks = vec![Block::Facts(facts), Block::Table(totals(self))];
        if !self.functions.is_empty() {
            blocks.push(Block::Table(functions(self)));
        }
        Document {
            title: format!("{}: instructions of A and B", self.workload),
            provenance: format!(
                "Counted by {}; {} rounds from seed {}; pgassay {}",
                self.method,
                self.rounds.len(),
                self.seed,
                env!("CARGO_PKG_VERSION")
            ),
            alarms: Vec::new(),
            headline: vec![answer(self)],
            sections: vec![Section {
                id: "counts",
                title: "Instructions",
                depth: Depth::Summary,
                blocks,
            }],
            notes: notes.into_notes(),
            ..Document::default()
        }
    }

    /// One row a round.
    fn rows(&self) -> Option<Rows> {
        let mut rows = Rows::new(["round", "seed", "a", "b", "a_again"]);
        for (number, round) in self.rounds.iter().enumerate() {
            let counts = [&round.a, &round.b, &round.a_again];
            let counts = counts.map(|count| figure(Some(count.per_transaction())));
            let mut row = vec![(number + 1).to_string(), round.seed.to_string()];
            row.extend(counts);
            rows.push(row);
        }
        Some(rows)
    }
}

fn answer(counts: &Counts) -> String {
    let counted = &counts.counted;
    let percent = |share: f64| format!("{} %", number::signed(share * 100.0, 2));
    let answer = match counted.verdict {
        Verdict::Slower => "B executes more instructions than A",
        Verdict::Faster => "B executes fewer instructions than A",
        Verdict::Equivalent => "A and B execute equally many instructions",
        Verdict::Inconclusive | Verdict::NotComparable => {
            "whether A and B differ by what matters is not decided"
        }
    };
    format!(
        "{answer}: {} ({} to {}), where {:.2} % matters.",
        percent(counted.difference.estimate),
        percent(counted.difference.low),
        percent(counted.difference.high),
        counted.delta * 100.0,
    )
}

fn pair(name: &str, (a, b): (f64, f64)) -> Vec<Cell> {
    let figure = |value: f64| Cell::plain(format!("{value:.1}"));
    vec![Cell::plain(name), figure(a), figure(b)]
}

fn columns(what: &str) -> Vec<Column> {
    vec![
        Column::prose(what),
        Column::figures("A", "", 0),
        Column::figures("B", "", 0),
    ]
}

fn totals(counts: &Counts) -> Table {
    let counted = &counts.counted;
    let mut rows = vec![pair("instructions", counted.instructions)];
    let atomics = [
        ("locked instructions", counted.locked),
        ("exclusive or reserving loads", counted.exclusive),
        ("atomics of one instruction", counted.single),
    ];
    rows.extend(
        atomics
            .iter()
            .filter_map(|(name, both)| Some(pair(name, (*both)?))),
    );
    Table::new(
        format!(
            "Medians of the rounds, for each transaction. A differs from itself by at most {:.3} %.",
            counted.noise * 100.0
        ),
        columns("per transaction"),
        rows,
    )
}

fn functions(counts: &Counts) -> Table {
    let rows = counts.functions.iter().map(|f| pair(&f.name, (f.a, f.b)));
    Table::new(
        "Functions that differ most, in instructions of their own for each transaction.",
        columns("function"),
        rows,
    )
}
