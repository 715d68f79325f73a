//! What a report says, apart from how any format shows it.
//!
//! A section is made of blocks; each format renders each kind of block, so a
//! section written once appears in all of them.

mod notes;
mod picture;

pub use notes::{Note, Notes};
pub use picture::{
    Axis, Bar, Bars, Chart, Compared, Dot, Forest, Guide, HeatColumn, HeatMap, Interval, MemoryMap,
    MemoryMark, MemoryStrip, Reach, Scale, Series, percent_label,
};

use pgassay_analysis::bottlenecks::{Finding, Severity};
use pgassay_analysis::number;
use pgassay_analysis::profile::flame::Flame;
use pgassay_analysis::profile::tree::CallTree;
use pgassay_analysis::stats::Estimate;

/// A whole report.
#[derive(Debug, Clone, Default)]
pub struct Document {
    /// What was measured on what, in one line.
    pub title: String,
    /// When, with which program, under which name.
    pub provenance: String,
    /// What must be known before anything else: not complete, not your build.
    pub alarms: Vec<String>,
    /// Judgements in a word, beside the title.
    pub badges: Vec<Badge>,
    /// The figures that most readers came for.
    pub tiles: Vec<Tile>,
    /// Pictures of the first screen, side by side.
    pub glance: Vec<Block>,
    /// What to do first, in order.
    pub first_steps: Vec<FindingBlock>,
    /// How many findings there are beyond the first steps.
    pub further_findings: usize,
    /// What qualifies the first steps; may be empty.
    pub of_steps: String,
    /// The result in plain sentences, the most important first.
    pub headline: Vec<String>,
    /// What limits the server most, with its share of the sessions' time; may be empty.
    pub limit: String,
    /// The parts, in order.
    pub sections: Vec<Section>,
    /// The questions that the parts answer, in the order of the parts; empty where they answer one.
    pub chapters: Vec<Chapter>,
    /// Every warning, numbered from 1 in the order of first mention.
    pub notes: Vec<Note>,
    /// The samples behind the flame graphs, for pages.
    pub profiles: Option<CallTree>,
}

impl Document {
    /// The questions, each with the parts that answer it.
    pub fn by_question(&self) -> impl Iterator<Item = (Question, &[Section])> {
        let mut rest = self.sections.as_slice();
        self.chapters.iter().map(move |chapter| {
            let (answers, after) = rest.split_at(chapter.sections.min(rest.len()));
            rest = after;
            (chapter.question, answers)
        })
    }

    /// What qualifies the first steps, and how many further findings there are, `place` saying where: `below`.
    pub fn below_steps(&self, place: &str) -> Option<String> {
        let more = match self.further_findings {
            0 => String::new(),
            1 => format!("One more finding is {place}."),
            n => format!("{n} more findings are {place}."),
        };
        let said = format!("{} {more}", self.of_steps);
        let said = said.trim();
        (!said.is_empty()).then(|| said.to_owned())
    }

    /// What qualifies the run as a whole and is not said above the headline
    /// already, each with its number.
    pub fn run_notes(&self) -> Vec<(usize, &Note)> {
        let said = |note: &Note| {
            let mut alarms = self.alarms.iter();
            alarms.any(|alarm| alarm.starts_with(&note.warning.text))
        };
        let numbered = self.notes.iter().enumerate();
        numbered
            .filter(|(_, note)| note.about.is_empty() && !said(note))
            .map(|(i, note)| (i + 1, note))
            .collect()
    }
}

/// How many consecutive parts answer a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chapter {
    /// The question.
    pub question: Question,
    /// How many parts answer it.
    pub sections: usize,
}

/// What a reader asks of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// How fast?
    Speed,
    /// What limits it?
    Limit,
    /// What to do?
    Remedy,
    /// How certain?
    Certainty,
    /// What machine and build is this?
    Subject,
}

impl Question {
    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Speed => "How fast?",
            Self::Limit => "What limits it?",
            Self::Remedy => "What to do?",
            Self::Certainty => "How certain?",
            Self::Subject => "What machine and build is this?",
        }
    }

    /// Stable name, used for links within a page.
    pub fn id(self) -> &'static str {
        match self {
            Self::Speed => "how-fast",
            Self::Limit => "what-limits",
            Self::Remedy => "what-to-do",
            Self::Certainty => "how-certain",
            Self::Subject => "subject",
        }
    }
}

/// A judgement in a word, and why.
#[derive(Debug, Clone)]
pub struct Badge {
    /// What is judged, such as `measurement`.
    pub subject: &'static str,
    /// The judgement, such as `poor`.
    pub judgement: String,
    /// How a reader is to take it.
    pub rating: Rating,
    /// Why, in one clause; may be empty.
    pub why: String,
}

impl Badge {
    /// `measurement: poor (why)`, for formats without colours.
    pub fn line(&self) -> String {
        match self.why.as_str() {
            "" => format!("{}: {}", self.subject, self.judgement),
            why => format!("{}: {} ({why})", self.subject, self.judgement),
        }
    }
}

/// How a judgement is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rating {
    /// As one would wish.
    Good,
    /// With care.
    Fair,
    /// Something is wrong.
    Bad,
}

impl Rating {
    /// `good`, `fair`, `bad`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Fair => "fair",
            Self::Bad => "bad",
        }
    }
}

/// A figure on the first screen.
#[derive(Debug, Clone)]
pub struct Tile {
    /// What it is.
    pub name: String,
    /// The figure, with its interval.
    pub value: Estimate,
    /// Its unit.
    pub unit: &'static str,
    /// Where it was measured, in few words; may be empty.
    pub remark: String,
    /// Where its evidence is.
    pub evidence: Option<String>,
}

impl Tile {
    /// The same in words, for formats without tiles.
    pub fn as_fact(&self) -> Fact {
        let shown = number::shown(&self.value);
        let interval = shown.interval.map(|interval| interval.ends);
        let remarks = interval.into_iter().chain(match self.remark.as_str() {
            "" => None,
            remark => Some(remark.to_owned()),
        });
        let remarks: Vec<String> = remarks.collect();
        Fact::new(&self.name, format!("{} {}", shown.value, self.unit)).remark(remarks.join(", "))
    }
}

/// A part of a report under a heading of its own.
#[derive(Debug, Clone)]
pub struct Section {
    /// Stable name, used for links within a page.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// Whether a terminal's summary has room for it.
    pub depth: Depth,
    /// What it says.
    pub blocks: Vec<Block>,
}

/// How much a reader has to want to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Shown everywhere; a terminal leaves its title out.
    Summary,
    /// Shown everywhere with its title.
    Titled,
    /// Left out of a terminal's summary.
    Evidence,
}

/// One kind of content.
#[derive(Debug, Clone)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// Names and values.
    Facts(Vec<Fact>),
    /// Figures in rows.
    Table(Table),
    /// A picture; formats without pictures leave it out, its table stands beside it.
    Chart(Box<Chart>),
    /// Small ones side by side that are read alike: one legend, the first's, stands for all.
    Charts(Vec<Chart>),
    /// Functions by who called them; formats without pictures leave it out.
    Flame(Box<FlameGraph>),
    /// Another kind of picture, likewise.
    HeatMap(Box<HeatMap>),
    /// What lies where in memory, likewise.
    Memory(Box<MemoryMap>),
    /// Stacked bars, likewise.
    Bars(Box<Bars>),
    /// Ratios with their intervals; in characters where there are no pictures.
    Forest(Box<Forest>),
    /// Commands to type.
    Commands(Vec<String>),
    /// The evidence of one point.
    Evidence(Box<Evidence>),
    /// A heading within the section, and what follows it.
    Heading(String),
    /// Something that holds the server back, and what to do about it.
    Finding(Box<FindingBlock>),
}

/// What one point of a chart, or one row of a table, rests on.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// Stable name, unique in the document.
    pub id: String,
    /// What it is of.
    pub title: String,
    /// Its figures in a line.
    pub summary: String,
    /// What else of the document is about it: words, and the name of the part.
    pub see: Vec<(String, String)>,
    /// Which of the document's profiles are its CPU samples, by name.
    pub profile: Option<String>,
    /// What it is.
    pub blocks: Vec<Block>,
}

/// A flame graph as shown.
#[derive(Debug, Clone)]
pub struct FlameGraph {
    /// The picture.
    pub flame: Flame,
    /// Its title.
    pub title: String,
    /// Which of the document's profiles it shows, by group.
    pub group: String,
    /// Which it is held against.
    pub against: Option<String>,
}

/// A finding as shown.
#[derive(Debug, Clone)]
pub struct FindingBlock {
    /// What was found.
    pub finding: Finding,
    /// The load that showed it.
    pub under: Option<String>,
    /// The command that would measure what it costs.
    pub measure: Option<String>,
    /// With its evidence, and with why and sources even where space is short.
    pub in_full: bool,
}

impl FindingBlock {
    /// `high`, `medium`, `low`, `info`; `measured` for what a load showed.
    pub fn weight(&self) -> &'static str {
        if self.finding.basis.is_measured() {
            "measured"
        } else {
            self.finding.severity.name()
        }
    }

    /// Whether it is shown as an alarm.
    pub fn is_grave(&self) -> bool {
        self.finding.basis.is_measured() || self.finding.severity >= Severity::Medium
    }

    /// `high confidence`.
    pub fn confidence(&self) -> String {
        format!("{} confidence", self.finding.confidence.name())
    }

    /// `select-only, high confidence, worth 1.30 times the throughput`: what qualifies it in a list.
    pub fn in_brief(&self) -> String {
        let seen_by = match self.finding.basis.is_measured() {
            true => self.under.clone(),
            false => Some(format!("by the audit, {} severity", self.weight())),
        };
        let parts = seen_by.into_iter().chain([self.confidence()]);
        let parts: Vec<String> = parts.chain(self.finding.gain_in_brief()).collect();
        parts.join(", ")
    }

    /// What was seen, and under which load.
    pub fn saw(&self) -> String {
        match &self.under {
            Some(workload) => format!("Under {workload}: {}", self.finding.saw),
            None => self.finding.saw.clone(),
        }
    }

    /// How much it matters: as measured, else as known.
    pub fn impact(&self) -> String {
        match self.finding.gain_in_words() {
            Some(gain) => match &self.finding.gain_rests_on {
                Some(rests_on) => {
                    format!("An estimate from this measurement: {gain}. It rests on: {rests_on}.")
                }
                None if self.finding.gain() >= Some(0.95) => {
                    format!("From this measurement: {gain}.")
                }
                None => format!(
                    "From this measurement: {gain}. A remedy that spares other work, too, wins more."
                ),
            },
            None => self.finding.impact.clone(),
        }
    }
}

/// A named fact.
#[derive(Debug, Clone)]
pub struct Fact {
    /// What it is.
    pub name: String,
    /// Its value, with the unit.
    pub value: String,
    /// Where it comes from or what it means, in few words; may be empty.
    pub remark: String,
}

impl Fact {
    /// A fact that needs no remark.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
            remark: String::new(),
        }
    }

    /// The same with a remark.
    pub fn remark(mut self, remark: impl Into<String>) -> Self {
        self.remark = remark.into();
        self
    }
}

/// A table whose first column names its rows.
#[derive(Debug, Clone)]
pub struct Table {
    /// What the table shows, units and intervals explained.
    pub caption: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows; each has one cell a column.
    pub rows: Vec<Vec<Cell>>,
    /// Long raw detail that a page may keep folded.
    pub folded: bool,
    /// Numbers of the notes that qualify every figure in it.
    pub marks: Vec<usize>,
}

/// A column of a table.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its heading.
    pub head: String,
    /// The unit of its figures; may be empty.
    pub unit: String,
    /// Where room is short columns of the highest rank go first; 0 always stays.
    pub rank: u8,
    /// Figures stand to the right, words to the left.
    pub figures: bool,
    /// Its words wrap where room is short; those of other columns are cut.
    pub wraps: bool,
}

impl Column {
    /// A column of figures.
    pub fn figures(head: &str, unit: &str, rank: u8) -> Self {
        Self {
            head: head.to_owned(),
            unit: unit.to_owned(),
            rank,
            figures: true,
            wraps: false,
        }
    }

    /// A column of words.
    pub fn words(head: &str, rank: u8) -> Self {
        Self {
            head: head.to_owned(),
            unit: String::new(),
            rank,
            figures: false,
            wraps: false,
        }
    }

    /// A column of words of any length, none of which is left out.
    pub fn prose(head: &str) -> Self {
        Self {
            wraps: true,
            ..Self::words(head, 0)
        }
    }
}

/// A cell of a table.
#[derive(Debug, Clone)]
pub struct Cell {
    /// What stands in it.
    pub value: Value,
    /// Numbers of the notes that qualify it.
    pub marks: Vec<usize>,
}

/// What stands in a cell.
#[derive(Debug, Clone)]
pub enum Value {
    /// Words, or a figure that is exact.
    Plain(String),
    /// A figure with its interval.
    Estimate(Estimate),
    /// Words that lead to a part of the document, by its name.
    Link(String, String),
    /// It could not be seen.
    Missing,
}

impl Cell {
    /// A cell without marks.
    pub fn plain(text: impl Into<String>) -> Self {
        Self {
            value: Value::Plain(text.into()),
            marks: Vec::new(),
        }
    }

    /// A cell for what could not be seen.
    pub fn missing() -> Self {
        Self {
            value: Value::Missing,
            marks: Vec::new(),
        }
    }

    /// A cell for what may not have been seen.
    pub fn plain_or_missing(text: Option<impl Into<String>>) -> Self {
        text.map_or_else(Self::missing, Self::plain)
    }

    /// Whether it holds a figure with an interval.
    pub fn is_estimate(&self) -> bool {
        matches!(self.value, Value::Estimate(_))
    }

    /// The same with the notes that qualify it.
    pub fn marked(mut self, marks: Vec<usize>) -> Self {
        self.marks.extend(marks);
        self
    }
}

impl Table {
    /// A table that is shown whole.
    pub fn new(
        caption: impl Into<String>,
        columns: Vec<Column>,
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Self {
        Self {
            caption: caption.into(),
            columns,
            rows: rows.into_iter().collect(),
            folded: false,
            marks: Vec::new(),
        }
    }

    /// The same as long raw detail that a page may keep folded.
    pub fn folded(mut self) -> Self {
        self.folded = true;
        self
    }

    /// All notes that it or its cells point to, ascending.
    pub fn all_marks(&self) -> Vec<usize> {
        let cells = self.rows.iter().flatten().flat_map(|cell| &cell.marks);
        let mut marks: Vec<usize> = self.marks.iter().chain(cells).copied().collect();
        marks.sort_unstable();
        marks.dedup();
        marks
    }

    /// Says once what every figure of a row, or every row, would repeat: a note
    /// on all figures of a row moves to the row's name, one on all rows' names
    /// to the table.
    pub fn gather_marks(&mut self) {
        for row in &mut self.rows {
            let common = common_marks(row.iter().filter(|c| c.is_estimate()));
            for cell in row.iter_mut().filter(|c| c.is_estimate()) {
                cell.marks.retain(|mark| !common.contains(mark));
            }
            if let Some(name) = row.first_mut() {
                name.marks.extend(common);
                name.marks.sort_unstable();
                name.marks.dedup();
            }
        }
        let names = || self.rows.iter().filter_map(|row| row.first());
        self.marks = common_marks(names());
        for name in self.rows.iter_mut().filter_map(|row| row.first_mut()) {
            name.marks.retain(|mark| !self.marks.contains(mark));
        }
    }
}

/// The marks that at least two cells share with all others; none of fewer cells.
fn common_marks<'a>(mut cells: impl Iterator<Item = &'a Cell>) -> Vec<usize> {
    let Some(first) = cells.next() else {
        return Vec::new();
    };
    let mut common = first.marks.clone();
    let mut others = 0;
    for cell in cells {
        others += 1;
        common.retain(|mark| cell.marks.contains(mark));
    }
    match others {
        0 => Vec::new(),
        _ => common,
    }
}
