//! Machines side by side, scenario by scenario.

use pgassay_analysis::hosts::{Family, Gain, Hosts, Scenario, Side, Value};

use super::document::{
    self, Block, Cell, Column, Compared, Depth, Document, Fact, Forest, Rating, Section, Table,
};
use super::{Report, number};

/// A gain divided by something.
type Divided = fn(&Gain) -> Option<f64>;

impl Report for Hosts {
    fn document(&self) -> Document {
        let mut glance = Vec::new();
        for n in 1..self.sides.len() {
            glance.extend(forest(self, n).map(|forest| Block::Forest(Box::new(forest))));
        }
        let mut headline = vec![format!("{}.", named(&self.sides).join("; "))];
        headline.extend(self.pattern.iter().cloned());
        headline.push(format!(
            "They were recorded apart. A ratio is called a difference where its whole interval lies beyond \
             {}, by which two runs of one server may differ.",
            number::share(self.apart)
        ));
        let mut sections = vec![machines(self), scenarios(self)];
        sections.extend(plpgsql(self));
        sections.extend(differences(self));
        sections.extend(left_out(self));
        Document {
            title: format!("{} side by side", letters(&self.sides)),
            provenance: format!("Held side by side by pgassay {}", env!("CARGO_PKG_VERSION")),
            headline,
            glance,
            sections,
            ..Document::default()
        }
    }
}

/// `A, B and C`.
fn letters(sides: &[Side]) -> String {
    let labels: Vec<&str> = sides.iter().map(|side| side.label.as_str()).collect();
    match labels.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => labels.concat(),
    }
}

fn named(sides: &[Side]) -> Vec<String> {
    let name = |side: &Side| {
        if let Some(lab) = &side.lab {
            let machine = side.processors.as_deref().unwrap_or("unknown processors");
            return format!("{} is the lab {lab} on {machine}", side.label);
        }
        let server = side.server.as_deref().unwrap_or("a server");
        let server: Vec<&str> = server.split_whitespace().take(2).collect();
        let machine = side.processors.as_deref().unwrap_or("unknown processors");
        format!("{} is {} on {machine}", side.label, server.join(" "))
    };
    sides.iter().map(name).collect()
}

/// The ratios of one side to the first.
fn forest(hosts: &Hosts, side: usize) -> Option<Forest> {
    let label = &hosts.sides.get(side)?.label;
    let row = |scenario: &Scenario| {
        let gain = scenario.gains.get(side - 1)?.as_ref()?;
        let ratio = &gain.ratio;
        let (verdict, rating) = match (gain.clear, ratio.estimate > 1.0) {
            (true, true) => ("better", Some(Rating::Good)),
            (true, false) => ("worse", Some(Rating::Bad)),
            (false, _) => ("not told", None),
        };
        Some(Compared {
            label: scenario.name.clone(),
            ratio: (ratio.estimate, ratio.low, ratio.high),
            floor: None,
            change: format!("{}×", number::short(ratio.estimate)),
            ends: format!(
                "{} to {}",
                number::short(ratio.low),
                number::short(ratio.high)
            ),
            verdict: verdict.to_owned(),
            rating,
        })
    };
    let rows: Vec<Compared> = hosts.scenarios.iter().filter_map(row).collect();
    if rows.is_empty() {
        return None;
    }
    let said: Vec<String> = rows
        .iter()
        .map(|row| format!("{}: {}", row.label, row.figures()))
        .collect();
    Some(Forest {
        id: format!("gains-{label}"),
        title: format!("{label} against A, by scenario"),
        alternative: said.join("; "),
        caption: "How much better, whichever way the figure points: to the right is better. Lines are the \
                  intervals that the trials give."
            .to_owned(),
        axis: format!("{label} against A"),
        delta: hosts.apart,
        rows,
    })
}

/// A row a machine.
fn machines(hosts: &Hosts) -> Section {
    let columns = vec![
        Column::words("side", 0),
        Column::prose("processors"),
        Column::figures("cores", "", 0),
        Column::figures("clock", "GHz", 1),
        Column::figures("price", "", 1),
        Column::prose("server"),
        Column::prose("atomics"),
        Column::words("measurement", 1),
        Column::words("runs", 2),
        Column::words("first begun", 2),
    ];
    let row = |side: &Side| {
        let price = side.price.as_ref();
        let price = price.map(|price| format!("{} {}", number::short(price.amount), price.unit));
        let server = side.server.as_deref();
        let server = server.map(|text| text.split(" on ").next().unwrap_or(text));
        vec![
            Cell::plain(&side.label),
            Cell::plain_or_missing(side.processors.clone()),
            Cell::plain_or_missing(side.cores.map(|n| n.to_string())),
            Cell::plain_or_missing(side.ghz.map(number::short)),
            Cell::plain_or_missing(price),
            Cell::plain_or_missing(server),
            Cell::plain_or_missing(side.build.clone()),
            Cell::plain_or_missing(side.quality.clone()),
            Cell::plain(side.runs.join(", ")),
            Cell::plain(
                side.started
                    .get(..16)
                    .unwrap_or(&side.started)
                    .replace('T', " "),
            ),
        ]
    };
    Section {
        id: "machines",
        title: "Machines",
        depth: Depth::Titled,
        blocks: vec![Block::Table(Table::new(
            "Cores are physical ones; where these are not known, logical CPUs.",
            columns,
            hosts.sides.iter().map(row),
        ))],
    }
}

/// Every scenario: the figures, and the ratios by what they may be divided by.
fn scenarios(hosts: &Hosts) -> Section {
    let mut blocks = vec![Block::Text(
        "Each ratio says how much better a side is than A, above 1 for better. Per core: divided by the \
         ratio of cores, where a scenario uses all of them. Per GHz: by the ratio of clocks, times that of \
         cores where all are used. Per price: by the ratio of prices."
            .to_owned(),
    )];
    for family in Family::ALL {
        let of: Vec<&Scenario> = hosts
            .scenarios
            .iter()
            .filter(|s| s.family == family)
            .collect();
        if of.is_empty() {
            continue;
        }
        let mut columns = vec![Column::prose("scenario"), Column::words("unit", 1)];
        for side in &hosts.sides {
            columns.push(Column::figures(&side.label, "", 0));
        }
        // What is the same on all sides divides nothing.
        let divided = |of_gain: Divided| {
            let mut gains = of.iter().flat_map(|s| s.gains.iter().flatten());
            gains.any(|gain| {
                let other = |by: f64| (by / gain.ratio.estimate - 1.0).abs() > 0.002;
                of_gain(gain).is_some_and(other)
            })
        };
        let kinds: Vec<(&str, Divided)> = [
            (
                "per core",
                (|g: &Gain| g.per_core) as fn(&Gain) -> Option<f64>,
            ),
            ("per GHz", |g| g.per_ghz),
            ("per price", |g| g.per_price),
        ]
        .into_iter()
        .filter(|(_, of_gain)| divided(*of_gain))
        .collect();
        for side in &hosts.sides[1..] {
            columns.push(Column::figures(&format!("{}/A", side.label), "", 0));
            for (name, _) in &kinds {
                columns.push(Column::figures(&format!("{}/A {name}", side.label), "", 1));
            }
        }
        let rows = of.iter().map(|scenario| {
            let mut row = vec![
                Cell::plain(named_with_sessions(scenario, &hosts.sides)),
                Cell::plain(&scenario.unit),
            ];
            row.extend(scenario.values.iter().map(|v| value(v.as_ref())));
            for gain in &scenario.gains {
                row.push(match gain {
                    Some(gain) => Cell {
                        value: document::Value::Estimate(gain.ratio.clone()),
                        marks: Vec::new(),
                    },
                    None => Cell::missing(),
                });
                for (_, of_gain) in &kinds {
                    let divided = gain.as_ref().and_then(*of_gain);
                    row.push(Cell::plain_or_missing(divided.map(number::short)));
                }
            }
            row
        });
        let words = family.words();
        let mut title = words.to_owned();
        if let Some(first) = title.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let caption = "With intervals over trials, or over runs where a side has several.";
        blocks.push(Block::Heading(title));
        blocks.push(Block::Table(Table::new(caption, columns, rows)));
    }
    Section {
        id: "scenarios",
        title: "Scenario by scenario",
        depth: Depth::Titled,
        blocks,
    }
}

/// The value of a side with its interval.
fn value(of: Option<&Value>) -> Cell {
    of.map_or_else(Cell::missing, |of| Cell {
        value: document::Value::Estimate(of.value.clone()),
        marks: Vec::new(),
    })
}

/// `select-only, most (A at 16, B at 64)`: where the values were measured, if there was a choice.
fn named_with_sessions(scenario: &Scenario, sides: &[Side]) -> String {
    let many = |value: &Option<Value>| Some(value.as_ref()?.sessions? > 1);
    if !scenario
        .values
        .iter()
        .any(|value| many(value) == Some(true))
    {
        return scenario.name.clone();
    }
    let at = sides
        .iter()
        .zip(&scenario.values)
        .filter_map(|(side, value)| {
            let value = value.as_ref()?;
            let bound = value.limited.as_ref().map_or("", |_| ", client-bound");
            let poor = value.disturbed.as_ref().map_or("", |_| ", disturbed");
            Some(format!(
                "{} at {}{bound}{poor}",
                side.label, value.sessions?
            ))
        });
    let at: Vec<String> = at.collect();
    format!("{} ({})", scenario.name, at.join("; "))
}

/// Where the CPU time of plpgsql's loop goes.
fn plpgsql(hosts: &Hosts) -> Option<Section> {
    if hosts.plpgsql.is_empty() {
        return None;
    }
    let mut columns = vec![Column::words("stage", 0)];
    for side in &hosts.sides {
        columns.push(Column::figures(&side.label, "µs/query", 0));
    }
    for side in &hosts.sides[1..] {
        columns.push(Column::figures(
            &format!("{} − A", side.label),
            "µs/query",
            0,
        ));
    }
    let signed = |value: f64| format!("{value:+.2}");
    let rows = hosts.plpgsql.iter().map(|stage| {
        let mut row = vec![Cell::plain(&stage.stage)];
        let of = &stage.us_per_query;
        row.extend(
            of.iter()
                .map(|us| Cell::plain_or_missing(us.map(number::single))),
        );
        let first = of.first().copied().flatten();
        row.extend(of.iter().skip(1).map(|us| {
            let both = us.zip(first);
            Cell::plain_or_missing(both.map(|(us, of_a)| signed(us - of_a)))
        }));
        row
    });
    Some(Section {
        id: "plpgsql",
        title: "PL/pgSQL by stage",
        depth: Depth::Titled,
        blocks: vec![Block::Table(Table::new(
            "CPU time of the server for a query of plpgsql-loop, by samples.",
            columns,
            rows,
        ))],
    })
}

fn differences(hosts: &Hosts) -> Option<Section> {
    if hosts.differences.is_empty() {
        return None;
    }
    let mut columns = vec![Column::words("what", 0)];
    columns.extend(hosts.sides.iter().map(|side| Column::prose(&side.label)));
    let rows = hosts.differences.iter().map(|difference| {
        let values = difference
            .values
            .iter()
            .cloned()
            .map(Cell::plain_or_missing);
        [Cell::plain(&difference.what)]
            .into_iter()
            .chain(values)
            .collect()
    });
    Some(Section {
        id: "differences",
        title: "What differs",
        depth: Depth::Titled,
        blocks: vec![Block::Table(Table::new(
            "All of it is in the ratios.",
            columns,
            rows,
        ))],
    })
}

fn left_out(hosts: &Hosts) -> Option<Section> {
    if hosts.left_out.is_empty() {
        return None;
    }
    let facts = hosts
        .left_out
        .iter()
        .map(|out| Fact::new(&out.scenario, format!("{}: {}", out.side, out.why)));
    Some(Section {
        id: "left-out",
        title: "Without a ratio",
        depth: Depth::Evidence,
        blocks: vec![Block::Facts(facts.collect())],
    })
}
