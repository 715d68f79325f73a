//! The summary for a terminal, from 20 columns up.
//!
//! A table that does not fit gives up precision of layout before it gives up
//! figures: ranges become percentages, then columns are left out by rank (and
//! named), and where not even the indispensable ones fit, rows are stacked.
//! Sections of [`Depth::Evidence`] are left out; they are in the other formats.

use std::collections::BTreeSet;

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Row, Table as Grid, presets,
};
use owo_colors::OwoColorize;

use pgassay_analysis::bottlenecks::{Step, StepKind};

use super::document::{
    Badge, Block, Cell, Chart, Depth, Document, Fact, FindingBlock, Note, Question, Rating, Table,
    Tile, Value,
};
use super::{forest, number, plain};

/// What the reader's terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextStyle {
    /// Columns.
    pub width: usize,
    /// Whether to use ANSI colours; NO_COLOR is the caller's to honour.
    pub color: bool,
    /// Whether it shows more than ASCII.
    pub unicode: bool,
}

/// The narrowest layout that is attempted.
const NARROWEST: usize = 20;
/// Running text wider than this is hard to follow.
const READABLE: usize = 100;

/// The whole summary; a run's ends with its answer, which is what a terminal shows last.
pub fn render(document: &Document, style: &TextStyle) -> String {
    let mut page = Page::new(style);
    page.paragraph(&document.title, Tone::Strong);
    let answered = !document.chapters.is_empty();
    match answered {
        true => page.caveats(document),
        false => page.head(document),
    }
    let shown = document.sections.iter();
    for section in shown.filter(|s| s.depth != Depth::Evidence) {
        page.gap();
        if section.depth == Depth::Titled {
            page.paragraph(section.title, Tone::Strong);
        }
        for (i, block) in section.blocks.iter().enumerate() {
            if i > 0 && matches!(block, Block::Heading(_)) {
                page.blank();
            }
            page.block(block);
        }
    }
    page.notes(&document.notes);
    page.blank();
    page.paragraph(&document.provenance, Tone::Quiet);
    if answered {
        page.blank();
        page.answer(document);
    }
    page.out
}

/// The answer of a run alone: how fast, what limits it, what to do, how certain; about 20 lines at 80 columns.
pub fn answer(document: &Document, style: &TextStyle) -> String {
    let mut page = Page::new(style);
    page.paragraph(&document.title, Tone::Strong);
    page.answer(document);
    page.out
}

/// Warnings about the whole run that an answer has room for; it names the others.
const MOST_NOTES: usize = 2;
/// Sentences of the headline that an answer has room for.
const MOST_SENTENCES: usize = 5;

/// How a line is coloured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tone {
    Normal,
    Strong,
    Quiet,
    Alarm,
}

struct Page {
    out: String,
    style: TextStyle,
}

impl Page {
    fn new(style: &TextStyle) -> Self {
        Self {
            out: String::new(),
            style: TextStyle {
                width: style.width.max(NARROWEST),
                ..*style
            },
        }
    }

    /// What must be known before any figure is read, and the pictures that a terminal has.
    fn caveats(&mut self, document: &Document) {
        for alarm in &document.alarms {
            self.paragraph(alarm, Tone::Alarm);
        }
        document.glance.iter().for_each(|block| self.block(block));
    }

    /// What stands before the sections.
    fn head(&mut self, document: &Document) {
        for badge in &document.badges {
            self.badge(badge);
        }
        for alarm in &document.alarms {
            self.paragraph(alarm, Tone::Alarm);
        }
        self.blank();
        if !document.tiles.is_empty() {
            let tiles: Vec<Fact> = document.tiles.iter().map(Tile::as_fact).collect();
            self.facts(&tiles);
        }
        document.glance.iter().for_each(|block| self.block(block));
        let before = !(document.tiles.is_empty() && document.glance.is_empty());
        if before && !document.headline.is_empty() {
            self.blank();
        }
        for sentence in &document.headline {
            self.paragraph(sentence, Tone::Normal);
        }
    }

    /// The questions of a run, each with its answer.
    fn answer(&mut self, document: &Document) {
        for alarm in &document.alarms {
            self.paragraph(alarm, Tone::Alarm);
        }
        let tiles = document.tiles.iter().map(|tile| {
            let Fact {
                name,
                value,
                remark,
            } = tile.as_fact();
            match remark.as_str() {
                "" => format!("{name} {value}"),
                remark => format!("{name} {value} ({remark})"),
            }
        });
        let sentences = document.headline.iter().take(MOST_SENTENCES).cloned();
        let left_out = document.headline.len().saturating_sub(MOST_SENTENCES);
        let left_out = (left_out > 0).then(|| format!("And {left_out} more in the report."));
        self.answered(Question::Speed, tiles.chain(sentences).chain(left_out));
        let limit = Some(document.limit.clone()).filter(|limit| !limit.is_empty());
        self.answered(Question::Limit, limit.into_iter());
        let steps = document.first_steps.iter().enumerate();
        let mut steps = steps.map(|(i, block)| format!("{}. {}", i + 1, block.finding.title));
        self.answered(Question::Remedy, steps.next().into_iter());
        let first = document.first_steps.first();
        if let Some(step) = first.and_then(|block| block.finding.remedy.first()) {
            self.step(step);
        }
        self.answers("", steps.chain(document.below_steps("in the report")));
        let badges = document.badges.iter().map(Badge::line);
        let mut said = BTreeSet::new();
        let warnings = document.notes.iter().map(|note| note.warning.id.as_str());
        let warnings: Vec<&str> = warnings.filter(|id| said.insert(*id)).collect();
        let warned = (!warnings.is_empty()).then(|| format!("warnings: {}", warnings.join(", ")));
        let of_run = document.run_notes().into_iter().take(MOST_NOTES);
        let of_run = of_run.map(|(_, note)| note.warning.sentence());
        self.answered(Question::Certainty, badges.chain(of_run).chain(warned));
    }

    fn answered(&mut self, question: Question, answers: impl Iterator<Item = String>) {
        self.answers(question.title(), answers);
    }

    /// A line or more an answer, after the question and below it.
    fn answers(&mut self, question: &str, answers: impl Iterator<Item = String>) {
        const QUESTION: usize = 15;
        let width = self.style.width.min(READABLE);
        for (i, answer) in answers.enumerate() {
            let asked = if i == 0 { question } else { "" };
            if width < 3 * QUESTION {
                let both = format!("{asked} {answer}");
                self.paragraph(both.trim_start(), Tone::Normal);
                continue;
            }
            let row = vec![format!("{asked:QUESTION$}"), self.leaf(&answer)];
            for line in wrapped(vec![row], width) {
                self.line(&line, Tone::Normal);
            }
        }
    }

    fn blank(&mut self) {
        self.out.push('\n');
    }

    /// An empty line, unless there is one already.
    fn gap(&mut self) {
        if !self.out.ends_with("\n\n") {
            self.blank();
        }
    }

    fn line(&mut self, line: &str, tone: Tone) {
        let line = line.trim_end();
        let line = match (self.style.color, tone) {
            (false, _) | (true, Tone::Normal) => line.to_owned(),
            (true, Tone::Strong) => line.bold().to_string(),
            (true, Tone::Quiet) => line.dimmed().to_string(),
            (true, Tone::Alarm) => line.yellow().bold().to_string(),
        };
        self.out.push_str(&line);
        self.out.push('\n');
    }

    /// Foreign text, cleaned and in the characters that the terminal has.
    fn leaf(&self, text: &str) -> String {
        let text = plain::clean(text);
        match self.style.unicode {
            true => text,
            false => plain::ascii(&text),
        }
    }

    fn paragraph(&mut self, text: &str, tone: Tone) {
        let width = self.style.width.min(READABLE);
        for line in wrapped(vec![vec![self.leaf(text)]], width) {
            self.line(&line, tone);
        }
    }

    fn badge(&mut self, badge: &Badge) {
        let tone = match badge.rating {
            Rating::Good => Tone::Quiet,
            Rating::Fair => Tone::Normal,
            Rating::Bad => Tone::Alarm,
        };
        self.paragraph(&badge.line(), tone);
    }

    fn step(&mut self, step: &Step) {
        if step.kind != StepKind::Advice {
            return self.command("", &step.text);
        }
        let width = self.style.width.min(READABLE);
        let text = self.leaf(&step.text);
        for line in wrapped(vec![vec!["  -".to_owned(), text]], width) {
            self.line(&line, Tone::Normal);
        }
    }

    /// A command, with what it is for: whole if there is room, so that it can be copied.
    fn command(&mut self, what: &str, command: &str) {
        let width = self.style.width.min(READABLE);
        let text = format!("{what}{}", self.leaf(command));
        let lines = match text.chars().count() + 5 <= self.style.width {
            true => vec![format!("     {text}")],
            false => wrapped(vec![vec!["   ".to_owned(), text]], width),
        };
        for line in lines {
            self.line(&line, Tone::Normal);
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Text(text) => self.paragraph(text, Tone::Normal),
            Block::Heading(text) => self.paragraph(text, Tone::Strong),
            Block::Facts(facts) => self.facts(facts),
            Block::Table(table) => self.table(table),
            Block::Chart(chart) => self.sparklines(chart),
            Block::Charts(charts) => charts.iter().for_each(|chart| self.sparklines(chart)),
            Block::Forest(forest) => {
                let lines = forest::lines(forest, self.style.width, self.style.unicode);
                lines.iter().for_each(|line| self.line(line, Tone::Normal));
            }
            Block::Flame(_) | Block::HeatMap(_) | Block::Memory(_) | Block::Bars(_) => {}
            Block::Finding(finding) => self.finding(finding),
            Block::Evidence(evidence) => {
                let what = format!("{}: {}", evidence.title, evidence.summary);
                self.paragraph(&what, Tone::Strong);
                evidence.blocks.iter().for_each(|block| self.block(block));
            }
            Block::Commands(commands) => {
                for command in commands {
                    let command = self.leaf(command);
                    self.line(&format!("  {command}"), Tone::Normal);
                }
            }
        }
    }

    /// What was seen and what to do; unless it is shown in full, why it matters is in the
    /// other formats and in `pgassay check --explain`.
    fn finding(&mut self, block: &FindingBlock) {
        let finding = &block.finding;
        let tone = match block.is_grave() {
            true => Tone::Alarm,
            false => Tone::Strong,
        };
        let (weight, confidence) = (block.weight(), block.confidence());
        self.paragraph(&format!("{weight}  {}  ({confidence})", finding.id), tone);
        let width = self.style.width.min(READABLE);
        let mut lines = wrapped(vec![vec![" ".to_owned(), self.leaf(&block.saw())]], width);
        let mut item = |mark: &str, text: &str| {
            lines.extend(wrapped(vec![vec![mark.to_owned(), text.to_owned()]], width));
        };
        if block.in_full {
            for seen in &finding.evidence {
                item("   ", &self.leaf(seen));
            }
            item(" ", &self.leaf(&finding.why));
            item(" ", &self.leaf(&block.impact()));
        }
        for line in lines {
            self.line(&line, Tone::Normal);
        }
        finding.remedy.iter().for_each(|step| self.step(step));
        if let Some(command) = &block.measure {
            self.command("measure it: ", command);
        }
        for source in finding.sources.iter().filter(|_| block.in_full) {
            for line in wrapped(vec![vec![" ".to_owned(), self.leaf(source)]], width) {
                self.line(&line, Tone::Normal);
            }
        }
        self.blank();
    }

    fn facts(&mut self, facts: &[Fact]) {
        let rows = facts
            .iter()
            .map(|fact| {
                let value = match fact.remark.as_str() {
                    "" => fact.value.clone(),
                    remark => format!("{} ({remark})", fact.value),
                };
                vec![self.leaf(&fact.name), self.leaf(&value)]
            })
            .collect();
        for line in wrapped(rows, self.style.width) {
            self.line(&line, Tone::Normal);
        }
    }

    /// The course of each series of estimates, one character a point.
    fn sparklines(&mut self, chart: &Chart) {
        const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let several = chart.series.len() > 1;
        let mut rows = Vec::new();
        for series in &chart.series {
            let values = || series.estimates.iter().map(|e| e.y);
            let top = values().fold(0.0, f64::max);
            let all_drawable = values().all(|v| v.is_finite() && v >= 0.0);
            if !self.style.unicode || series.estimates.len() < 2 || top <= 0.0 || !all_drawable {
                continue;
            }
            let bar = |v: f64| BARS[((v / top * 8.0).ceil() as usize).clamp(1, 8) - 1];
            let name = match several {
                true => format!("{}: {}", chart.title, series.label),
                false => chart.title.clone(),
            };
            rows.push(vec![self.leaf(&name), values().map(bar).collect()]);
        }
        if rows.is_empty() {
            return;
        }
        for line in wrapped(rows, self.style.width) {
            self.line(&line, Tone::Normal);
        }
    }

    fn table(&mut self, table: &Table) {
        if table.columns.iter().any(|c| c.wraps) {
            return self.prose(table);
        }
        let highest = table.columns.iter().map(|c| c.rank).max().unwrap_or(0);
        let percents = (0..=highest).rev().map(|rank| (Form::Short, rank));
        let layouts = std::iter::once((Form::Range, highest)).chain(percents);
        let fitting = layouts
            .map(|(form, rank)| (rank, self.grid(table, form, rank)))
            .find(|(_, grid)| natural_width(grid) <= self.style.width);
        let Some((rank, grid)) = fitting else {
            return self.stacked(table);
        };
        let heads = table
            .columns
            .iter()
            .filter(|c| c.rank <= rank && !c.unit.is_empty());
        let head_lines = 1 + heads.count().min(1);
        for (i, line) in grid.lines().enumerate() {
            let tone = match i < head_lines {
                true => Tone::Quiet,
                false => Tone::Normal,
            };
            self.line(&line, tone);
        }
        let left_out: Vec<&str> = table
            .columns
            .iter()
            .filter(|c| c.rank > rank)
            .map(|c| c.head.as_str())
            .collect();
        let mut caption = table.caption.clone();
        if !left_out.is_empty() {
            caption.push_str(&format!(
                " Left out at this width: {}.",
                left_out.join(", ")
            ));
        }
        self.paragraph(&caption, Tone::Quiet);
    }

    /// A table with columns of running words, which take the room that the others leave.
    fn prose(&mut self, table: &Table) {
        const LEAST: usize = 16;
        let width = self.style.width;
        let mut grid = self.grid(table, Form::Short, u8::MAX);
        let natural = grid.column_max_content_widths();
        let room: usize = (table.columns.iter().zip(&natural))
            .map(|(column, width)| match column.wraps {
                true => LEAST.min(usize::from(*width)) + 2,
                false => usize::from(*width) + 2,
            })
            .sum();
        if room > width + 2 {
            return self.stacked(table);
        }
        grid.set_content_arrangement(ContentArrangement::Dynamic);
        grid.set_width(u16::try_from(width).unwrap_or(u16::MAX));
        for (i, column) in table.columns.iter().enumerate() {
            if let (false, Some(placed)) = (column.wraps, grid.column_mut(i)) {
                placed.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        for (i, line) in grid.lines().enumerate() {
            self.line(&line, if i == 0 { Tone::Quiet } else { Tone::Normal });
        }
        if !table.caption.is_empty() {
            self.paragraph(&table.caption, Tone::Quiet);
        }
    }

    fn grid(&self, table: &Table, form: Form, rank: u8) -> Grid {
        let whole = table.columns.iter().any(|c| c.wraps);
        let shown = |i: &usize| table.columns[*i].rank <= rank;
        let indices: Vec<usize> = (0..table.columns.len()).filter(shown).collect();
        let noted = table.rows.iter().flatten().any(|c| !c.marks.is_empty());
        let mut head: Vec<String> = indices
            .iter()
            .map(|i| {
                let column = &table.columns[*i];
                self.leaf(&column.head) + "\n" + &self.leaf(&column.unit)
            })
            .map(|head| head.trim_end().to_owned())
            .collect();
        if noted {
            head.push("note".to_owned());
        }
        let rows = table.rows.iter().map(|row| {
            let cells = indices.iter().filter_map(|i| row.get(*i));
            let mut cells: Vec<String> = cells.map(|c| self.cell(c, form, whole)).collect();
            if noted {
                cells.push(marks(row));
            }
            cells
        });
        let mut grid = bare();
        grid.set_header(Row::from(head));
        for row in rows {
            grid.add_row(Row::from(row));
        }
        gaps(&mut grid);
        for (place, i) in indices.iter().enumerate() {
            if let Some(column) = grid.column_mut(place) {
                column.set_cell_alignment(match table.columns[*i].figures {
                    true => CellAlignment::Right,
                    false => CellAlignment::Left,
                });
            }
        }
        grid
    }

    fn cell(&self, cell: &Cell, form: Form, whole: bool) -> String {
        let text = match &cell.value {
            Value::Plain(text) if whole => text.clone(),
            Value::Plain(text) => shortened(text),
            Value::Link(text, _) => text.clone(),
            Value::Missing => number::NONE.to_owned(),
            Value::Estimate(estimate) => {
                let shown = number::shown(estimate);
                match (shown.interval, form) {
                    (None, _) => shown.value,
                    (Some(i), Form::Range) => format!("{} ({})", shown.value, i.ends),
                    (Some(i), Form::Short) => format!("{} {}", shown.value, i.short),
                }
            }
        };
        self.leaf(&text)
    }

    /// One block a row, one line a figure: for very narrow terminals.
    fn stacked(&mut self, table: &Table) {
        let whole = table.columns.iter().any(|c| c.wraps);
        for row in &table.rows {
            let mut lines = Vec::new();
            for (column, cell) in table.columns.iter().zip(row) {
                let name = match column.unit.as_str() {
                    "" => column.head.clone(),
                    unit => format!("{}, {unit}", column.head),
                };
                lines.push(vec![self.leaf(&name), self.cell(cell, Form::Short, whole)]);
            }
            let marks = marks(row);
            if !marks.is_empty() {
                lines.push(vec!["note".to_owned(), marks]);
            }
            for line in wrapped(lines, self.style.width) {
                self.line(&line, Tone::Normal);
            }
            self.blank();
        }
        self.paragraph(&table.caption, Tone::Quiet);
    }

    fn notes(&mut self, notes: &[Note]) {
        if notes.is_empty() {
            return;
        }
        self.blank();
        self.line("Warnings", Tone::Alarm);
        let rows = notes
            .iter()
            .enumerate()
            .map(|(i, note)| {
                let warning = &note.warning;
                let text = format!("{}: {} ({})", warning.id, warning.in_words(), note.places());
                vec![format!("{}", i + 1), self.leaf(&text)]
            })
            .collect();
        for line in wrapped(rows, self.style.width.min(READABLE)) {
            self.line(&line, Tone::Normal);
        }
    }
}

/// How much room an interval takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Both ends.
    Range,
    /// The larger distance as a percentage, or both ends beyond a half.
    Short,
}

/// Numbers of the notes that a row's cells point to.
fn marks(row: &[Cell]) -> String {
    let mut marks: Vec<usize> = row.iter().flat_map(|c| c.marks.iter().copied()).collect();
    marks.sort_unstable();
    marks.dedup();
    let marks: Vec<String> = marks.iter().map(usize::to_string).collect();
    marks.join(",")
}

/// A long name must not push the figures off the screen; what tells it from the others is often its
/// end.
fn shortened(text: &str) -> String {
    const LONGEST: usize = 24;
    const END: usize = 9;
    let long = text.chars().count();
    if long <= LONGEST {
        return text.to_owned();
    }
    let begin = text.chars().take(LONGEST - 1 - END);
    begin
        .chain(['…'])
        .chain(text.chars().skip(long - END))
        .collect()
}

/// A grid without lines that leaves its width to the content.
fn bare() -> Grid {
    let mut grid = Grid::new();
    grid.load_style(presets::NOTHING);
    grid.set_content_arrangement(ContentArrangement::Disabled);
    grid
}

/// Two spaces between columns, none outside.
fn gaps(grid: &mut Grid) {
    let last = grid.column_count().saturating_sub(1);
    for i in 0..=last {
        if let Some(column) = grid.column_mut(i) {
            column.set_padding((0, if i == last { 0 } else { 2 }));
        }
    }
}

fn natural_width(grid: &Grid) -> usize {
    let widths = grid.column_max_content_widths();
    let gaps = widths.len().saturating_sub(1) * 2;
    widths.iter().map(|w| usize::from(*w)).sum::<usize>() + gaps
}

/// Rows whose last column wraps within the width.
fn wrapped(rows: Vec<Vec<String>>, width: usize) -> Vec<String> {
    let mut grid = bare();
    grid.set_content_arrangement(ContentArrangement::Dynamic);
    grid.set_width(width.min(usize::from(u16::MAX)) as u16);
    for row in rows {
        grid.add_row(Row::from(row));
    }
    gaps(&mut grid);
    grid.lines().collect()
}
