//! A forest plot in characters, for a terminal and for markdown.

use super::document::{Compared, Forest, Reach, percent_label};
use super::plain;

/// Columns that the picture has at most and at least.
const WIDEST: usize = 48;
const NARROWEST: usize = 16;

/// What the picture is drawn with.
struct Signs {
    noise: char,
    none: char,
    delta: char,
    line: char,
    estimate: char,
    cut: (char, char),
}

const UNICODE: Signs = Signs {
    noise: '░',
    none: '│',
    delta: '┊',
    line: '─',
    estimate: '●',
    cut: ('◂', '▸'),
};
const ASCII: Signs = Signs {
    noise: '.',
    none: '|',
    delta: ':',
    line: '-',
    estimate: 'o',
    cut: ('<', '>'),
};

/// One line a row, the axis below; nothing where so many columns have no room for a picture.
pub fn lines(forest: &Forest, width: usize, unicode: bool) -> Vec<String> {
    let leaf = |text: &str| match unicode {
        true => plain::clean(text),
        false => plain::ascii(&plain::clean(text)),
    };
    let wide = |text: &str| text.chars().count();
    let labels: Vec<String> = forest.rows.iter().map(|row| leaf(&row.label)).collect();
    let said: Vec<String> = (forest.rows.iter())
        .map(|row| leaf(&format!("{}  {}", row.verdict, row.figures())))
        .collect();
    let left = labels.iter().map(|l| wide(l)).max().unwrap_or(0);
    let right = said.iter().map(|s| wide(s)).max().unwrap_or(0);
    let room = width.saturating_sub(left + right + 4).min(WIDEST);
    if room < NARROWEST || forest.rows.is_empty() {
        return Vec::new();
    }
    let (reach, signs) = (forest.reach(), if unicode { &UNICODE } else { &ASCII });
    let mut lines = Vec::new();
    for ((row, label), said) in forest.rows.iter().zip(labels).zip(said) {
        let picture: String = picture(row, forest.delta, reach, room, signs);
        lines.push(format!("{label:left$}  {picture}  {said}"));
    }
    let axis = match unicode {
        true => axis(reach, room),
        false => plain::ascii(&axis(reach, room)),
    };
    lines.push(format!("{:left$}  {axis}", "").trim_end().to_owned());
    lines
}

fn picture(row: &Compared, delta: f64, reach: Reach, room: usize, signs: &Signs) -> String {
    let place = |ratio: f64| (reach.at(ratio) * (room - 1) as f64).round() as usize;
    let mut drawn = vec![' '; room];
    if let Some(floor) = row.floor {
        drawn[place(1.0 / (1.0 + floor))..=place(1.0 + floor)].fill(signs.noise);
    }
    if delta > 0.0 {
        drawn[place((1.0 - delta).max(0.0))] = signs.delta;
        drawn[place(1.0 + delta)] = signs.delta;
    }
    drawn[place(1.0)] = signs.none;
    let (estimate, low, high) = row.ratio;
    if low <= high {
        drawn[place(low)..=place(high)].fill(signs.line);
        if !reach.holds(low) {
            drawn[place(low)] = signs.cut.0;
        }
        if !reach.holds(high) {
            drawn[place(high)] = signs.cut.1;
        }
    }
    if estimate.is_finite() {
        drawn[place(estimate)] = signs.estimate;
    }
    drawn.into_iter().collect()
}

/// Labels under their places, as many as stand apart.
fn axis(reach: Reach, room: usize) -> String {
    let mut line = vec![' '; room];
    let mut free_from = 0;
    for tick in reach.ticks(room / 10) {
        let label: Vec<char> = percent_label(tick).chars().collect();
        let middle = (reach.at(tick) * (room - 1) as f64).round() as usize;
        let from = middle
            .saturating_sub(label.len() / 2)
            .min(room - label.len().min(room));
        if from >= free_from && from + label.len() <= room {
            free_from = from + label.len() + 1;
            line[from..from + label.len()].copy_from_slice(&label);
        }
    }
    line.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forest() -> Forest {
        let row = |label: &str, ratio, floor, verdict: &str| Compared {
            label: label.to_owned(),
            ratio,
            floor,
            change: "+4.0 %".to_owned(),
            ends: "a to b".to_owned(),
            verdict: verdict.to_owned(),
            rating: None,
        };
        Forest {
            id: String::new(),
            title: String::new(),
            alternative: String::new(),
            caption: String::new(),
            axis: String::new(),
            delta: 0.01,
            rows: vec![
                row("1 client", (1.04, 1.03, 1.05), Some(0.02), "faster"),
                row(
                    "16 clients",
                    (1.0, 0.0, f64::INFINITY),
                    None,
                    "inconclusive",
                ),
            ],
        }
    }

    #[test]
    fn intervals_stand_over_the_noise_and_no_difference() {
        let lines = lines(&forest(), 80, true);
        assert_eq!(lines.len(), 3);
        let at = |line: &str, sign: char| line.chars().position(|c| c == sign);
        assert!(lines[0].starts_with("1 client    "), "{}", lines[0]);
        assert!(at(&lines[0], '░') < at(&lines[0], '│'), "{}", lines[0]);
        assert!(at(&lines[0], '│') < at(&lines[0], '●'), "{}", lines[0]);
        assert!(at(&lines[0], '─') < at(&lines[0], '●'), "{}", lines[0]);
        // Without bound: cut on either side.
        assert!(
            lines[1].contains('◂') && lines[1].contains('▸'),
            "{}",
            lines[1]
        );
        // No difference is labelled under its line.
        assert_eq!(at(&lines[0], '│'), at(&lines[2], '0'), "{}", lines[2]);
    }

    #[test]
    fn a_terminal_gets_what_it_can_show() {
        let plain = lines(&forest(), 80, false);
        assert!(plain.iter().all(|line| line.is_ascii()), "{plain:?}");
        assert!(lines(&forest(), 40, true).is_empty());
        for width in 40..200 {
            for line in lines(&forest(), width, true) {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
        }
    }
}
