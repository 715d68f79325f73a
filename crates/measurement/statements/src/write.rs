//! A workload file: scripts by weight, each with the values that its statements are given.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::made::{Made, MadeScript};
use crate::template::{Seen, Template};

/// Most scripts of a workload; pgbench takes 128.
pub const MOST_SCRIPTS: usize = 120;

/// A script to be.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// Its statements.
    pub steps: Vec<Template>,
    /// How often it was seen.
    pub count: u64,
    /// Its share of the server's time, 0 to 1, where that is known.
    pub time_share: Option<f64>,
    /// Where its variables' values come from.
    pub values: Values,
    /// Milliseconds between the transaction before it and it.
    pub think_ms: Option<u32>,
}

/// Where the values of a script's variables come from.
#[derive(Debug, Clone)]
pub enum Values {
    /// Rows as they were seen, of all statements' values side by side.
    Rows(Vec<Vec<Seen>>),
    /// By variable of the one statement, drawn from tables and statistics.
    Drawn(Vec<Source>),
}

/// Where variables' values are drawn from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Rows of values of these variables.
    Rows {
        /// The variables, from 0.
        variables: Vec<usize>,
        /// Their values.
        rows: Vec<Vec<Seen>>,
    },
    /// Whole numbers: a range is drawn, then a number in it.
    Ranges {
        /// The variable.
        variable: usize,
        /// First and last of each.
        ranges: Vec<(i64, i64)>,
    },
    /// An expression of pgbench's.
    Expression {
        /// The variable.
        variable: usize,
        /// The expression.
        text: String,
    },
}

impl Source {
    fn write(&self, text: &mut String) {
        match self {
            Self::Rows { variables, rows } => {
                let names = variables
                    .iter()
                    .map(|variable| format!("p{}", variable + 1));
                draw(
                    text,
                    names,
                    rows.iter().map(|row| row.iter().map(Seen::written)),
                );
            }
            Self::Ranges { variable, ranges } => {
                let names = ["low".to_owned(), "high".to_owned()];
                let rows = ranges
                    .iter()
                    .map(|(low, high)| [low.to_string(), high.to_string()]);
                draw(text, names.into_iter(), rows);
                let _ = writeln!(text, "\\set p{} random(:low, :high)", variable + 1);
            }
            Self::Expression {
                variable,
                text: expression,
            } => {
                let _ = writeln!(text, "\\set p{} {expression}", variable + 1);
            }
        }
    }
}

/// Writes a `\draw`.
fn draw<R: IntoIterator<Item = String>>(
    text: &mut String,
    names: impl Iterator<Item = String>,
    rows: impl Iterator<Item = R>,
) {
    text.push_str("\\draw");
    for name in names {
        text.push(' ');
        text.push_str(&name);
    }
    text.push_str(" from");
    for row in rows {
        text.push_str(" \\\n ");
        for value in row {
            text.push(' ');
            text.push_str(&value);
        }
    }
    text.push('\n');
}

impl Default for Values {
    fn default() -> Self {
        Self::Rows(Vec::new())
    }
}

/// What the file says about itself.
#[derive(Debug, Clone, Default)]
pub struct About {
    /// What it does, one sentence.
    pub explanation: String,
    /// How the statements travelled: `simple` or `prepared`.
    pub protocol: &'static str,
    /// The file beside it that has the sessions, where there is one.
    pub sessions: Option<String>,
}

/// The drafts that become scripts, by their places, in the order of these: the most frequent first.
pub fn order(drafts: &[Draft]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..drafts.len())
        .filter(|place| drafts[*place].count > 0)
        .collect();
    order.sort_by_key(|place| std::cmp::Reverse(drafts[*place].count));
    order.truncate(MOST_SCRIPTS);
    order
}

/// Writes the drafts as a workload file, the most frequent first, and says what it holds.
pub fn write(drafts: &[Draft], about: &About, made: &mut Made) -> String {
    let order: Vec<&Draft> = order(drafts)
        .into_iter()
        .map(|place| &drafts[place])
        .collect();
    let all: u64 = drafts.iter().map(|draft| draft.count).sum();
    let rare = all - order.iter().map(|draft| draft.count).sum::<u64>();
    if rare > 0 {
        let why =
            format!("kinds of transactions that are rarer than the {MOST_SCRIPTS} most frequent");
        let all: f64 = drafts.iter().filter_map(|draft| draft.time_share).sum();
        let kept: f64 = order.iter().filter_map(|draft| draft.time_share).sum();
        let covered = made.time_covered.filter(|_| all > 0.0);
        made.leave_out(why, rare, covered.map(|share| share * (1.0 - kept / all)));
        made.time_covered = covered.map(|share| share * kept / all);
    }
    // Weights are 32 bits each in pgbench.
    let most = order.first().map_or(1, |draft| draft.count);
    let unit = most.div_ceil(1_000_000_000).max(1);
    let mut names = Names::default();
    let scripts: Vec<(String, u64, &Draft)> = order
        .into_iter()
        .map(|draft| (names.of(draft), (draft.count / unit).max(1), draft))
        .collect();
    let mut text = String::new();
    let _ = writeln!(text, "-- {}", about.explanation);
    let _ = writeln!(
        text,
        "-- @reason Your own statements, as {} had them.",
        made.source
    );
    let _ = writeln!(text, "-- @protocol {}", about.protocol);
    if let Some(file) = &about.sessions {
        let _ = writeln!(text, "-- @sessions {file}");
    }
    if scripts.iter().all(|(_, _, draft)| !names_pgbench(draft)) {
        text.push_str("-- @without-pgbench-tables\n");
    }
    for (name, _, draft) in &scripts {
        if let Some(think) = draft.think_ms {
            let _ = writeln!(text, "-- @pause {name} 0 {think}");
        }
    }
    for (name, weight, draft) in scripts {
        let _ = writeln!(text, "-- @script {name} {weight}");
        script(&mut text, draft);
        made.scripts.push(MadeScript {
            name,
            weight,
            share: draft.count as f64 / all.max(1) as f64,
            time_share: draft.time_share,
            statements: draft.steps.len(),
            value_rows: match &draft.values {
                Values::Rows(rows) => Some(rows.len()),
                Values::Drawn(_) => None,
            },
            first: first_line(draft),
        });
    }
    text
}

fn script(text: &mut String, draft: &Draft) {
    match &draft.values {
        Values::Drawn(sources) => {
            for source in sources {
                source.write(text);
            }
        }
        Values::Rows(rows) => {
            let width: usize = draft.steps.iter().map(Template::variables).sum();
            let rows: Vec<&Vec<Seen>> = rows.iter().filter(|row| row.len() == width).collect();
            if width > 0 && !rows.is_empty() {
                let names = (1..=width).map(|n| format!("p{n}"));
                draw(
                    text,
                    names,
                    rows.into_iter().map(|row| row.iter().map(Seen::written)),
                );
            }
        }
    }
    let mut before = 0;
    for step in &draft.steps {
        text.push_str(&step.text(|variable| format!("p{}", before + variable + 1)));
        text.push_str(";\n");
        before += step.variables();
    }
}

fn names_pgbench(draft: &Draft) -> bool {
    let mut words = draft.steps.iter().flat_map(Template::words);
    words.any(|word| word.contains("pgbench_"))
}

/// The first statement that is more than BEGIN, on one line.
fn first_line(draft: &Draft) -> String {
    let work = draft
        .steps
        .iter()
        .find(|step| !matches!(step.words().next().as_deref(), Some("begin" | "start")));
    let text = work.map_or_else(String::new, |step| step.text(|n| format!("p{}", n + 1)));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Names of scripts: what the first statement does to which table.
#[derive(Default)]
struct Names(HashMap<String, u32>);

impl Names {
    fn of(&mut self, draft: &Draft) -> String {
        let steps: Vec<&Template> = draft
            .steps
            .iter()
            .filter(|step| {
                !matches!(
                    step.words().next().as_deref(),
                    Some("begin" | "start" | "commit" | "end")
                )
            })
            .collect();
        let mut name = steps
            .first()
            .map_or_else(|| "script".to_owned(), |step| verb_and_table(step));
        if steps.len() > 1 {
            let _ = write!(name, "-and-{}-more", steps.len() - 1);
        }
        let n = self.0.entry(name.clone()).or_default();
        *n += 1;
        match *n {
            1 => name,
            n => format!("{name}-{n}"),
        }
    }
}

fn verb_and_table(step: &Template) -> String {
    let words: Vec<String> = step.words().take(400).collect();
    let verb = words.first().map_or("script", String::as_str);
    let before = match verb {
        "insert" | "merge" => "into",
        "update" => "update",
        _ => "from",
    };
    let at = words.iter().position(|word| word == before);
    let table = at.and_then(|at| words[at + 1..].iter().find(|word| *word != "only"));
    let clean = |word: &str| -> String {
        let word = word.rsplit('.').next().unwrap_or(word);
        word.chars()
            .filter(|c| c.is_alphanumeric() || *c == '_')
            .take(40)
            .collect()
    };
    match table
        .map(|table| clean(table))
        .filter(|table| !table.is_empty())
    {
        Some(table) => format!("{}-{table}", clean(verb)),
        None => clean(verb),
    }
}
