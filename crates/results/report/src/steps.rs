//! Reports of a search for the commit, and of what each patch of a series brings.

use pgassay_analysis::search::Outcome;
use pgassay_analysis::search::conclusion::{Cause, Interval, Stretch};
use pgassay_analysis::search::steps::{Measure, Searched, Step, Traced};

use super::Report;
use super::bisect::change;
use super::document::{Block, Cell, Column, Depth, Document, Fact, Section, Table};
use super::number;

impl Report for Traced {
    fn document(&self) -> Document {
        let mut sections = Vec::new();
        for (n, search) in self.searches.iter().enumerate() {
            let (id, title) = match n {
                0 => ("causes", "What makes the difference"),
                _ => ("merged", "What a merge brought"),
            };
            sections.push(Section {
                id,
                title,
                depth: Depth::Summary,
                blocks: causes(self, search),
            });
        }
        sections.push(Section {
            id: "others",
            title: "The others",
            depth: Depth::Titled,
            blocks: self.searches.iter().flat_map(others).collect(),
        });
        sections.push(Section {
            id: "how",
            title: "How it was measured",
            depth: Depth::Titled,
            blocks: how(self),
        });
        let title = match self.each {
            true => format!("What each of the {} brings: {}", self.kind, self.workload),
            false => format!(
                "Which of the {} make the difference: {}",
                self.kind, self.workload
            ),
        };
        Document {
            title,
            provenance: format!("Measured by pgassay {}", env!("CARGO_PKG_VERSION")),
            headline: headline(self),
            sections,
            ..Document::default()
        }
    }
}

/// `abc123456 (title)`.
fn brief(step: &Step) -> String {
    format!("{} ({})", short(step), step.title)
}

fn short(step: &Step) -> &str {
    step.id.get(..9).unwrap_or(&step.id)
}

/// What is compared, in words.
fn unit(traced: &Traced, search: &Searched) -> String {
    match search.by {
        Some(Measure::Time) => traced.metric.heading.to_lowercase(),
        _ => "instructions per transaction".to_owned(),
    }
}

/// The steps of a cause, which can be several that can't be told apart.
fn named(search: &Searched, first: usize, last: usize) -> String {
    match last - first {
        0 => brief(search.at(first)),
        n => format!(
            "one or several of the {} from {} to {}",
            n + 1,
            brief(search.at(first)),
            brief(search.at(last))
        ),
    }
}

/// How many of the steps change something, how many don't, and of how many that can't be told.
fn each_in_words<'e>(
    kind: &str,
    delta: f64,
    effects: impl Iterator<Item = &'e Interval>,
) -> String {
    let (mut all, mut beyond, mut within) = (0, 0, 0);
    for effect in effects {
        all += 1;
        within += usize::from(effect.within(delta));
        beyond += usize::from(effect.low >= delta || effect.high <= -delta);
    }
    let open = all - beyond - within;
    let percent = 100.0 * delta;
    let mut text = format!(
        "Of {all} {kind}, {beyond} {} {percent} % or more, and {within} {} shown to change less",
        if beyond == 1 { "changes" } else { "change" },
        if within == 1 { "is" } else { "are" },
    );
    if open > 0 {
        text += &format!("; of {open} it can't be told");
    }
    text + "."
}

fn headline(traced: &Traced) -> Vec<String> {
    let Some(main) = traced.searches.first() else {
        return Vec::new();
    };
    let total = format!(
        "From {} to {}: {} in {}.",
        short(&main.good),
        short(main.at(main.steps.len())),
        change(&main.conclusion.total),
        unit(traced, main)
    );
    let within: Vec<&Searched> = traced.searches.iter().skip(1).collect();
    let said = match main.conclusion.outcome {
        _ if traced.each => each_in_words(
            &traced.kind,
            main.delta,
            main.each.iter().map(|each| &each.effect),
        ),
        Outcome::NoDifference => format!(
            "The ends are not shown to differ by what matters ({} %): there is nothing to search for.",
            100.0 * main.delta
        ),
        Outcome::Open => format!(
            "Not found out: the likeliest of the {} are below; --resume goes on.",
            traced.kind
        ),
        Outcome::Found => {
            let one = |cause: &Cause| {
                let own = named(main, cause.first, cause.last);
                let inner = within.iter().find(|search| {
                    cause.first == cause.last
                        && search.of_merge.as_ref() == Some(&main.at(cause.first).id)
                });
                let found = inner.filter(|search| search.conclusion.outcome == Outcome::Found);
                match found {
                    Some(search) => {
                        let causes = search.conclusion.causes.iter();
                        let all: Vec<String> =
                            causes.map(|c| named(search, c.first, c.last)).collect();
                        format!("{}, merged by {own},", all.join(" and "))
                    }
                    None => own,
                }
            };
            let all: Vec<String> = main.conclusion.causes.iter().map(one).collect();
            let verb = if all.len() == 1 { "makes" } else { "make" };
            format!("{} {verb} the difference.", all.join(" and "))
        }
    };
    vec![said, total]
}

fn causes(traced: &Traced, search: &Searched) -> Vec<Block> {
    if traced.each {
        return each(search);
    }
    let conclusion = &search.conclusion;
    if conclusion.outcome == Outcome::NoDifference {
        let text = match &search.of_merge {
            Some(_) => {
                "None of the merged commits is shown to do it by itself: it is the merge, or they and \
                 what they were merged with."
            }
            None => return Vec::new(),
        };
        return vec![Block::Text(text.to_owned())];
    }
    let rows = conclusion.causes.iter().map(|cause| {
        vec![
            Cell::plain(named(search, cause.first, cause.last)),
            Cell::plain(change(&cause.effect)),
            Cell::plain(format!(
                "{:.0} % [{:.0} to {:.0}]",
                100.0 * cause.share.estimate,
                100.0 * cause.share.low,
                100.0 * cause.share.high
            )),
            Cell::plain(format!("{:.1} %", 100.0 * cause.probability)),
        ]
    });
    let columns = vec![
        Column::prose("step"),
        Column::words("effect", 0),
        Column::words("share", 0),
        Column::words("probability", 0),
    ];
    let caption = format!(
        "{}: {} steps. With 95 % intervals; the share is of the whole difference.",
        unit(traced, search),
        search.steps.len()
    );
    let mut blocks = vec![Block::Table(Table::new(caption, columns, rows))];
    for cause in &conclusion.causes {
        blocks.extend(functions(search, cause.first, cause.last));
    }
    blocks
}

/// What a step changed, function by function.
fn functions(search: &Searched, first: usize, last: usize) -> Option<Block> {
    let differing = search.functions(first, last);
    if differing.is_empty() {
        return None;
    }
    let rows = differing.iter().map(|function| {
        vec![
            Cell::plain(&function.name),
            Cell::plain(format!("{:.0}", function.a)),
            Cell::plain(format!("{:.0}", function.b)),
            Cell::plain(number::signed(function.b - function.a, 0)),
        ]
    });
    let columns = vec![
        Column::prose("function"),
        Column::figures("before", "", 0),
        Column::figures("after", "", 0),
        Column::figures("change", "", 0),
    ];
    let caption = format!(
        "Instructions per transaction of the functions that {} changed most",
        short(search.at(last))
    );
    Some(Block::Table(Table::new(caption, columns, rows)))
}

fn each(search: &Searched) -> Vec<Block> {
    let rows = search.each.iter().map(|stretch| {
        vec![
            Cell::plain(named(search, stretch.first, stretch.last)),
            Cell::plain(change(&stretch.effect)),
        ]
    });
    let columns = vec![Column::prose("step"), Column::words("effect", 0)];
    let caption = "Each on top of those above it, with its 95 % interval.";
    let mut blocks = vec![Block::Table(Table::new(caption, columns, rows))];
    let matter = |stretch: &&Stretch| !stretch.effect.within(search.delta);
    for stretch in search.each.iter().filter(matter) {
        blocks.extend(functions(search, stretch.first, stretch.last));
    }
    blocks
}

fn others(search: &Searched) -> Vec<Block> {
    let rows = search.conclusion.others.iter().map(|stretch| {
        let last = stretch.last.min(search.steps.len());
        let steps = match last.saturating_sub(stretch.first) {
            0 => brief(search.at(last)),
            n => format!(
                "{} from {} to {}",
                n + 1,
                brief(search.at(stretch.first)),
                brief(search.at(last))
            ),
        };
        vec![Cell::plain(steps), Cell::plain(change(&stretch.effect))]
    });
    let mut blocks = Vec::new();
    if !search.conclusion.others.is_empty() {
        let columns = vec![Column::prose("no cause"), Column::words("together", 0)];
        blocks.push(Block::Table(Table::new("", columns, rows)));
    }
    blocks.extend(search.unbuildable.iter().map(|(position, why)| {
        Block::Text(format!(
            "Passed over: {}: {}",
            brief(search.at(*position)),
            why.lines().map(str::trim).collect::<Vec<_>>().join(" ")
        ))
    }));
    blocks
}

fn how(traced: &Traced) -> Vec<Block> {
    let mut facts = vec![Fact::new("source", &traced.source)];
    for search in &traced.searches {
        let measured = match search.by {
            Some(Measure::Time) => {
                format!("{} blocks of {} pairs", search.blocks.len(), traced.pairs)
            }
            _ => format!(
                "{} of {} positions counted",
                search.counted.len(),
                search.steps.len() + 1
            ),
        };
        let took = format!(
            "{measured}, {} builds, in {}",
            search.builds,
            number::duration(search.seconds)
        );
        let said = search.forecast.map_or_else(String::new, |cost| {
            format!(
                "expected: {:.0} builds, {}",
                cost.builds,
                number::duration(cost.seconds)
            )
        });
        facts.push(Fact::new("measured", took).remark(said));
    }
    let mut blocks = vec![Block::Facts(facts)];
    blocks.extend(traced.notes.iter().map(|note| Block::Text(note.clone())));
    if traced
        .searches
        .iter()
        .any(|s| s.by == Some(Measure::Instructions))
    {
        blocks.push(Block::Text(
            "Counts do not show cache misses, waiting for locks, or the kernel's part.".to_owned(),
        ));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_step_brings_is_said_in_a_sentence() {
        let of = |low: f64, high: f64| Interval {
            estimate: (low + high) / 2.0,
            low,
            high,
        };
        let three = [of(0.05, 0.051), of(-0.001, 0.001), of(-0.002, 0.004)];
        assert_eq!(
            each_in_words("patches", 0.005, three.iter()),
            "Of 3 patches, 1 changes 0.5 % or more, and 2 are shown to change less."
        );
        let open = [of(-0.05, 0.01), of(-0.02, -0.01)];
        assert_eq!(
            each_in_words("commits", 0.005, open.iter()),
            "Of 2 commits, 1 changes 0.5 % or more, and 0 are shown to change less; of 1 it can't be told."
        );
    }
}
