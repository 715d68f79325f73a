//! What is shown of it, in every format.

use pgassay_report::document::{Block, Cell, Column, Depth, Fact, Section, Table};
use pgassay_report::{Document, Report, Rows};

use pgassay_text::cell;

use crate::porting::{Finding, Needs, Porting};
use crate::rules::{Effect, rule};

/// Places shown of one rule; JSON and CSV have all.
const SHOWN: usize = 40;
/// Files shown that could not be read.
const UNREAD_SHOWN: usize = 20;

/// A number with its noun: `1 file`, `2 files`.
fn counted(n: usize, noun: &str) -> String {
    pgassay_report::number::counted(n as u64, noun)
}

impl Report for Porting {
    fn document(&self) -> Document {
        let mut sections = vec![Section {
            id: "looked-at",
            title: "Looked at",
            depth: Depth::Summary,
            blocks: vec![Block::Facts(looked_at(self))],
        }];
        let effects = [
            (Effect::Breaks, "breaks", "Breaks"),
            (Effect::Slow, "slow", "Runs by a slower path"),
            (Effect::Check, "check", "To be checked by a reader"),
        ];
        for (effect, id, title) in effects {
            let blocks = findings(self, effect);
            if !blocks.is_empty() {
                sections.push(Section {
                    id,
                    title,
                    depth: Depth::Titled,
                    blocks,
                });
            }
        }
        if !self.binaries.is_empty() {
            let blocks = self.binaries.iter().flat_map(binary).collect();
            sections.push(Section {
                id: "extensions",
                title: "What binaries use",
                depth: Depth::Titled,
                blocks,
            });
        }
        if !self.not_read.is_empty() {
            let shown = self.not_read.iter().take(UNREAD_SHOWN);
            let mut blocks = vec![Block::Facts(
                shown.map(|one| Fact::new(&one.path, &one.why)).collect(),
            )];
            if let Some(more) = self
                .not_read
                .len()
                .checked_sub(UNREAD_SHOWN)
                .filter(|n| *n > 0)
            {
                blocks.push(Block::Text(format!("And {more} more.")));
            }
            sections.push(Section {
                id: "not-read",
                title: "Not read",
                depth: Depth::Titled,
                blocks,
            });
        }
        Document {
            title: format!("{}: porting to {}", self.target, self.processor.name()),
            provenance: format!(
                "Read by pgassay {}; nothing was compiled",
                self.pgassay_version
            ),
            headline: headline(self),
            sections,
            ..Document::default()
        }
    }

    fn rows(&self) -> Option<Rows> {
        let header = [
            "rule",
            "effect",
            "path",
            "line",
            "within",
            "code",
            "more",
            "condition",
        ];
        let mut rows = Rows::new(header);
        for finding in &self.findings {
            rows.push(vec![
                finding.rule.to_owned(),
                finding.effect.name().to_owned(),
                cell(&finding.path),
                finding
                    .line
                    .map(|line| line.to_string())
                    .unwrap_or_default(),
                cell(finding.within.as_deref().unwrap_or_default()),
                cell(&finding.code),
                finding.more.to_string(),
                cell(finding.condition.as_deref().unwrap_or_default()),
            ]);
        }
        Some(rows)
    }
}

fn headline(porting: &Porting) -> Vec<String> {
    let (breaks, slow, check) = (
        porting.count(Effect::Breaks),
        porting.count(Effect::Slow),
        porting.count(Effect::Check),
    );
    let mut sentences = Vec::new();
    sentences.push(match breaks {
        0 if !porting.read_code() => {
            "No source or binary was read: nothing is known of the code.".to_owned()
        }
        0 => format!(
            "Nothing was found that breaks on {}.",
            porting.processor.name()
        ),
        1 => "One place breaks.".to_owned(),
        n => format!("{n} places break."),
    });
    if slow > 0 {
        sentences.push(format!(
            "{} by a slower path.",
            if slow == 1 {
                "One place runs".to_owned()
            } else {
                format!("{slow} places run")
            }
        ));
    }
    if check > 0 {
        sentences.push(format!(
            "{} to be checked by a reader.",
            if check == 1 {
                "One place is".to_owned()
            } else {
                format!("{check} places are")
            }
        ));
    }
    if !porting.not_analysed.is_empty() {
        let languages: Vec<&str> = porting
            .not_analysed
            .iter()
            .map(|one| one.language)
            .collect();
        sentences.push(format!("Not analysed: {}.", languages.join(", ")));
    }
    sentences
}

fn looked_at(porting: &Porting) -> Vec<Fact> {
    let mut facts = Vec::new();
    if porting.source_files > 0 {
        let lines = counted(
            usize::try_from(porting.source_lines).unwrap_or(usize::MAX),
            "line",
        );
        facts.push(
            Fact::new("C and C++", counted(porting.source_files as usize, "file")).remark(lines),
        );
    }
    if porting.rust_files > 0 {
        let lines = usize::try_from(porting.rust_lines).unwrap_or(usize::MAX);
        let files = counted(porting.rust_files as usize, "file");
        facts.push(Fact::new("Rust", files).remark(counted(lines, "line")));
    }
    for one in &porting.not_analysed {
        let files = counted(one.files as usize, "file");
        facts.push(Fact::new(one.language, files).remark("not analysed"));
    }
    if porting.build_files > 0 {
        facts.push(Fact::new("build files", porting.build_files.to_string()));
    }
    if !porting.binaries.is_empty() {
        facts.push(Fact::new("binaries", porting.binaries.len().to_string()));
    }
    if porting.signed_char {
        facts.push(
            Fact::new("sign of char", "not looked at").remark("the build sets -fsigned-char"),
        );
    }
    if !porting.unbalanced.is_empty() {
        let files = porting
            .unbalanced
            .iter()
            .take(4)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        facts.push(
            Fact::new(
                "#if without #endif",
                counted(porting.unbalanced.len(), "file"),
            )
            .remark(files),
        );
    }
    facts
}

fn findings(porting: &Porting, effect: Effect) -> Vec<Block> {
    let mut blocks = Vec::new();
    for one in &porting.rules {
        let of_rule: Vec<&Finding> = porting
            .findings
            .iter()
            .filter(|f| f.rule == one.id && f.effect == effect)
            .collect();
        if of_rule.is_empty() {
            continue;
        }
        let rule = rule(one.id);
        blocks.push(Block::Heading(format!("{} ({})", rule.title, rule.id)));
        blocks.push(Block::Facts(vec![
            Fact::new("why", rule.why),
            Fact::new("remedy", rule.remedy),
            Fact::new("source", rule.reference),
        ]));
        let rows: Vec<Vec<Cell>> = of_rule
            .iter()
            .take(SHOWN)
            .map(|finding| row(finding))
            .collect();
        let caption = match of_rule.len() {
            n if n > SHOWN => format!("{SHOWN} of {n} places; --json has all."),
            n => format!("{}.", counted(n, "place")),
        };
        let columns = vec![
            Column::words("place", 0),
            Column::prose("in"),
            Column::prose("code"),
        ];
        blocks.push(Block::Table(Table::new(caption, columns, rows)));
    }
    blocks
}

fn row(finding: &Finding) -> Vec<Cell> {
    let place = match finding.line {
        Some(line) => format!("{}:{line}", finding.path),
        None => finding.path.clone(),
    };
    let mut code = finding.code.clone();
    if finding.more > 0 {
        code = format!("{code} (and {} more)", finding.more);
    }
    if let Some(condition) = &finding.condition {
        code = format!("{code}, under {condition}");
    }
    vec![
        Cell::plain(place),
        Cell::plain_or_missing(finding.within.as_deref()),
        Cell::plain(code),
    ]
}

fn binary(needs: &Needs) -> Vec<Block> {
    let mut blocks = vec![Block::Heading(format!(
        "{} ({})",
        needs.path, needs.machine
    ))];
    let checks = match needs.checks.as_slice() {
        [] => "none was found".to_owned(),
        checks => checks.join(", "),
    };
    blocks.push(Block::Facts(vec![Fact::new("check at run time", checks)]));
    let rows = needs.extensions.iter().map(|extension| {
        let baseline = if extension.baseline { "yes" } else { "no" };
        let named = extension.named.join(", ");
        [
            extension.name.clone(),
            baseline.to_owned(),
            extension.instructions.to_string(),
            extension.functions.to_string(),
            named,
        ]
        .into_iter()
        .map(Cell::plain)
        .collect::<Vec<Cell>>()
    });
    let columns = vec![
        Column::words("extension", 0),
        Column::words("baseline", 1),
        Column::figures("instructions", "", 1),
        Column::figures("functions", "", 0),
        Column::prose("such as"),
    ];
    blocks.push(Block::Table(Table::new(
        "Extensions by function.",
        columns,
        rows.collect::<Vec<Vec<Cell>>>(),
    )));
    blocks
}
