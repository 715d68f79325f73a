//! Warnings of a report: numbered, each with the values that it qualifies.

use std::ops::Range;

use pgassay_analysis::stats::Estimate;
use pgassay_model::warning::Warning;

use super::{Cell, Value};

/// A warning with its number and what it is about.
#[derive(Debug, Clone)]
pub struct Note {
    /// The warning.
    pub warning: Warning,
    /// The values that it qualifies, in words; empty for the whole run.
    pub about: Vec<String>,
}

impl Note {
    /// The values that it qualifies, as a list that stays readable.
    pub fn places(&self) -> String {
        const NAMED: usize = 4;
        match self.about.as_slice() {
            [] => "the whole run".to_owned(),
            few if few.len() <= NAMED + 1 => few.join("; "),
            many => format!(
                "{} and {} other figures",
                many[..NAMED].join("; "),
                many.len() - NAMED
            ),
        }
    }
}

/// Collects the warnings while sections are made, and numbers them.
#[derive(Debug, Default)]
pub struct Notes {
    notes: Vec<Note>,
}

impl Notes {
    /// The numbers of these warnings. The same warning keeps its number, and one that differs from
    /// it by measured figures only takes it, too: the note then says from where to where they go.
    pub fn marks(&mut self, warnings: &[Warning], about: &str) -> Vec<usize> {
        let mut marks: Vec<usize> = Vec::new();
        for warning in warnings {
            let mark = self.mark(warning, about);
            if !marks.contains(&mark) {
                marks.push(mark);
            }
        }
        marks
    }

    fn mark(&mut self, warning: &Warning, about: &str) -> usize {
        let like = |note: &Note| {
            let known = &note.warning;
            known.id == warning.id
                && known.remedy == warning.remedy
                // What qualifies the whole run is told by itself.
                && (known.text == warning.text || !about.is_empty() && !note.about.is_empty())
        };
        let mut known = self.notes.iter_mut().enumerate();
        let found = known.find_map(|(index, note)| {
            let text = like(note).then(|| merged(&note.warning.text, &warning.text))??;
            note.warning.text = text;
            Some(index)
        });
        let index = found.unwrap_or_else(|| {
            self.notes.push(Note {
                warning: warning.clone(),
                about: Vec::new(),
            });
            self.notes.len() - 1
        });
        let about = about.to_owned();
        if !about.is_empty() && !self.notes[index].about.contains(&about) {
            self.notes[index].about.push(about);
        }
        index + 1
    }

    /// A cell that holds an estimate, its warnings noted.
    pub fn estimate(&mut self, estimate: &Estimate, about: &str) -> Cell {
        Cell {
            value: Value::Estimate(estimate.clone()),
            marks: self.marks(&estimate.warnings, about),
        }
    }

    /// The same for an estimate that may be missing.
    pub fn maybe(&mut self, estimate: Option<&Estimate>, about: &str) -> Cell {
        match estimate {
            Some(estimate) => self.estimate(estimate, about),
            None => Cell::missing(),
        }
    }

    /// All notes, in the order of their numbers.
    pub fn into_notes(self) -> Vec<Note> {
        self.notes
    }
}

/// Two texts as one, where they differ by figures only: `took 30–62 %`. `known` may hold such ranges
/// already.
fn merged(known: &str, text: &str) -> Option<String> {
    if known == text {
        return Some(known.to_owned());
    }
    let (ours, theirs) = (figures(known), figures(text));
    if ours.len() != theirs.len() {
        return None;
    }
    let mut whole = String::new();
    let (mut at, mut beside) = (0, 0);
    for (a, b) in ours.into_iter().zip(theirs) {
        if known[at..a.start] != text[beside..b.start] {
            return None;
        }
        whole.push_str(&known[at..a.start]);
        whole.push_str(&range(&known[a.clone()], &text[b.clone()])?);
        (at, beside) = (a.end, b.end);
    }
    (known[at..] == text[beside..]).then(|| whole + &known[at..])
}

/// From the least to the most of two figures, or ranges of them, as they are written.
fn range(a: &str, b: &str) -> Option<String> {
    let mut all: Vec<(f64, &str)> = Vec::new();
    for end in a.split('–').chain(b.split('–')) {
        all.push((end.replace(',', "").parse().ok()?, end));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((low, least), (high, most)) = (all.first()?, all.last()?);
    Some(match low == high {
        true => (*least).to_owned(),
        false => format!("{least}–{most}"),
    })
}

/// Where figures, or ranges of them, stand in a text; digits of a name such as `p99` are none.
fn figures(text: &str) -> Vec<Range<usize>> {
    let of_figure = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '–');
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find(|c: char| c.is_ascii_digit()) {
        let start = from + start;
        let rest = &text[start..];
        let length = rest.find(|c| !of_figure(c)).unwrap_or(rest.len());
        let figure = rest[..length].trim_end_matches(['.', ',', '–']);
        let end = start + figure.len();
        let joined = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || "_-/".contains(c));
        if !joined(text[..start].chars().next_back()) && !joined(text[end..].chars().next()) {
            found.push(start..end);
        }
        from = start + length;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tried: one warning for each client count, in the same words.
    #[test]
    fn a_warning_of_several_points_is_told_once_with_its_range() {
        let busy = |percent: u32| {
            let text = format!("other work took {percent} % of the CPU time: p99 is too high");
            Warning::new("others-busy", text).with_remedy("measure again")
        };
        let mut notes = Notes::default();
        assert_eq!(notes.marks(&[busy(50)], "1 client"), [1]);
        assert_eq!(notes.marks(&[busy(62)], "2 clients"), [1]);
        assert_eq!(notes.marks(&[busy(30), busy(41)], "8 clients"), [1]);
        let other = Warning::new("others-busy", "other work took all of it");
        assert_eq!(notes.marks(&[other], "4 clients"), [2]);
        assert_eq!(notes.marks(&[busy(70)], ""), [3]);
        let notes = notes.into_notes();
        let text = &notes[0].warning.text;
        assert_eq!(
            text,
            "other work took 30–62 % of the CPU time: p99 is too high"
        );
        assert_eq!(notes[0].places(), "1 client; 2 clients; 8 clients");
    }

    #[test]
    fn only_figures_are_merged() {
        assert_eq!(merged("at p50", "at p99"), None);
        assert_eq!(
            merged("in 3 trials", "in 3 trials"),
            Some("in 3 trials".to_owned())
        );
        assert_eq!(
            merged("1,200 of 5.", "900 of 5."),
            Some("900–1,200 of 5.".to_owned())
        );
        assert_eq!(
            merged("900–1,200 µs", "1,100 µs"),
            Some("900–1,200 µs".to_owned())
        );
        assert_eq!(merged("20 ms late", "20 ms early"), None);
        assert_eq!(merged("build-17 is 1", "build-18 is 1"), None);
        assert_eq!(merged("é 1", "é 2"), Some("é 1–2".to_owned()));
    }
}
