//! GitHub-flavoured markdown: for issues, mailing lists and wikis.
//!
//! Tables carry every figure, so pictures are left out, but for those that characters can draw.

use pgassay_analysis::bottlenecks::{Step, StepKind};

use super::document::{
    Block, Cell, Document, Fact, FindingBlock, Forest, Note, Question, Section, Table, Tile, Value,
};
use super::plain::markdown as escape;
use super::{forest, number, plain};

/// The whole report.
pub fn render(document: &Document) -> String {
    let mut out = format!("# {}\n\n", escape(&document.title));
    for alarm in &document.alarms {
        out.push_str(&format!("> **{}**\n\n", escape(alarm)));
    }
    for badge in &document.badges {
        out.push_str(&format!("{}\n\n", escape(&badge.line())));
    }
    if !document.tiles.is_empty() {
        let tiles: Vec<Fact> = document.tiles.iter().map(Tile::as_fact).collect();
        push_facts(&mut out, &tiles);
    }
    for block in &document.glance {
        if let Block::Forest(forest) = block {
            push_forest(&mut out, forest);
        }
    }
    if !document.limit.is_empty() {
        let question = Question::Limit.title();
        out.push_str(&format!("**{question}** {}\n\n", escape(&document.limit)));
    }
    push_first_steps(&mut out, document);
    for sentence in &document.headline {
        out.push_str(&format!("{}\n\n", escape(sentence)));
    }
    for (number, note) in document.run_notes() {
        out.push_str(&format!("> {}\n\n", note_line(number, note)));
    }
    for section in &document.sections {
        push_section(&mut out, section, &document.notes);
    }
    push_notes(&mut out, &document.notes);
    out.push_str(&format!("---\n\n{}\n", escape(&document.provenance)));
    out
}

fn push_first_steps(out: &mut String, document: &Document) {
    if document.first_steps.is_empty() {
        return;
    }
    out.push_str("## Do these first\n\n");
    for (i, block) in document.first_steps.iter().enumerate() {
        let (title, brief) = (escape(&block.finding.title), escape(&block.in_brief()));
        out.push_str(&format!("{}. **{title}** ({brief})", i + 1));
        if let Some(step) = block.finding.remedy.first() {
            out.push_str(&format!("<br>{}", self::step(step)));
        }
        if let Some(command) = &block.measure {
            out.push_str(&format!("<br>Measure it: {}", code(command)));
        }
        out.push('\n');
    }
    out.push('\n');
    if let Some(more) = document.below_steps("below") {
        out.push_str(&format!("{more}\n\n"));
    }
}

fn step(step: &Step) -> String {
    match step.kind {
        StepKind::Advice => escape(&step.text),
        _ => code(&step.text),
    }
}

fn push_section(out: &mut String, section: &Section, notes: &[Note]) {
    out.push_str(&format!("## {}\n\n", section.title));
    push_blocks(out, &section.blocks, notes);
}

fn push_blocks(out: &mut String, blocks: &[Block], notes: &[Note]) {
    for block in blocks {
        match block {
            Block::Text(text) => out.push_str(&format!("{}\n\n", escape(text))),
            Block::Heading(text) => out.push_str(&format!("### {}\n\n", escape(text))),
            Block::Facts(facts) => push_facts(out, facts),
            Block::Table(table) => push_table(out, table, notes),
            Block::Chart(_)
            | Block::Charts(_)
            | Block::Flame(_)
            | Block::HeatMap(_)
            | Block::Memory(_)
            | Block::Bars(_) => {}
            Block::Forest(forest) => push_forest(out, forest),
            Block::Finding(finding) => push_finding(out, finding),
            Block::Evidence(evidence) => {
                let (title, summary) = (escape(&evidence.title), escape(&evidence.summary));
                out.push_str(&format!("### {title}\n\n{summary}\n\n"));
                push_blocks(out, &evidence.blocks, notes);
            }
            Block::Commands(commands) => {
                // a fence longer than any run of backticks within
                let fence = "`".repeat(3.max(longest_run(commands, '`') + 1));
                let commands: Vec<String> = commands.iter().map(|c| plain::clean(c)).collect();
                out.push_str(&format!("{fence}sh\n{}\n{fence}\n\n", commands.join("\n")));
            }
        }
    }
}

/// In characters, within a fence that nothing in it ends.
fn push_forest(out: &mut String, forest: &Forest) {
    let lines = forest::lines(forest, 120, true);
    if lines.is_empty() {
        return;
    }
    let fence = "`".repeat(3.max(longest_run(&lines, '`') + 1));
    out.push_str(&format!("{fence}text\n{}\n{fence}\n\n", lines.join("\n")));
    out.push_str(&format!("{}\n\n", escape(&forest.caption)));
}

fn push_finding(out: &mut String, block: &FindingBlock) {
    let finding = &block.finding;
    out.push_str(&format!(
        "### {} ({}, {})\n\n{}\n\n",
        escape(&finding.id),
        block.weight(),
        block.confidence(),
        escape(&block.saw())
    ));
    if block.in_full && !finding.evidence.is_empty() {
        for seen in &finding.evidence {
            out.push_str(&format!("- {}\n", escape(seen)));
        }
        out.push('\n');
    }
    for (n, step) in finding.remedy.iter().enumerate() {
        out.push_str(&format!("{}. {}\n", n + 1, self::step(step)));
    }
    if let Some(command) = &block.measure {
        out.push_str(&format!("\nMeasure it: {}\n", code(command)));
    }
    out.push_str(&format!(
        "\n{} {}\n\n",
        escape(&finding.why),
        escape(&block.impact())
    ));
    for source in &finding.sources {
        out.push_str(&format!("- {}\n", escape(source)));
    }
    out.push('\n');
}

/// A command within a line, its backticks kept.
fn code(command: &str) -> String {
    let command = [plain::clean(command)];
    let fence = "`".repeat(longest_run(&command, '`') + 1);
    format!("{fence} {} {fence}", command[0])
}

fn push_facts(out: &mut String, facts: &[Fact]) {
    out.push_str("| | | |\n|---|---|---|\n");
    for fact in facts {
        out.push_str(&format!(
            "| {} | {} | {} |\n",
            escape(&fact.name),
            escape(&fact.value),
            escape(&fact.remark)
        ));
    }
    out.push('\n');
}

fn push_table(out: &mut String, table: &Table, notes: &[Note]) {
    let heads: Vec<String> = table
        .columns
        .iter()
        .map(|c| match c.unit.as_str() {
            "" => escape(&c.head),
            unit => format!("{} ({})", escape(&c.head), escape(unit)),
        })
        .collect();
    out.push_str(&format!("| {} |\n|", heads.join(" | ")));
    for column in &table.columns {
        out.push_str(if column.figures { "---:|" } else { "---|" });
    }
    out.push('\n');
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(cell).collect();
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    out.push_str(&format!("\n{}\n\n", escape(&table.caption)));
    for mark in table.all_marks() {
        if let Some(note) = notes.get(mark - 1) {
            out.push_str(&format!("{}\n\n", note_line(mark, note)));
        }
    }
}

fn cell(cell: &Cell) -> String {
    let mut text = match &cell.value {
        Value::Plain(text) => escape(text),
        Value::Link(text, _) => escape(text),
        Value::Missing => number::NONE.to_owned(),
        Value::Estimate(estimate) => {
            let shown = number::shown(estimate);
            match shown.interval {
                Some(interval) => format!("{} ({})", shown.value, interval.ends),
                None => shown.value,
            }
        }
    };
    for mark in &cell.marks {
        text.push_str(&format!(" \\[{mark}\\]"));
    }
    text
}

fn push_notes(out: &mut String, notes: &[Note]) {
    if notes.is_empty() {
        return;
    }
    out.push_str("## Warnings\n\n");
    for (i, note) in notes.iter().enumerate() {
        out.push_str(&format!(
            "- {} *({})*\n",
            note_line(i + 1, note),
            escape(&note.places())
        ));
    }
    out.push('\n');
}

fn note_line(number: usize, note: &Note) -> String {
    let warning = &note.warning;
    format!(
        "\\[{number}\\] **{}**: {}",
        escape(&warning.id),
        escape(&warning.in_words())
    )
}

fn longest_run(texts: &[String], wanted: char) -> usize {
    let (mut longest, mut run) = (0, 0);
    for c in texts.iter().flat_map(|t| t.chars()) {
        run = if c == wanted { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}
