//! Throughput over what was varied beside clients: a picture where values are numbers, and a table.

use pgassay_analysis::Analysis;
use pgassay_analysis::axes::Course;

use super::{interval, levels};
use crate::document::{
    Axis, Block, Cell, Chart, Column, Depth, Notes, Scale, Section, Series, Table,
};

/// One chart and one table an axis.
pub fn section(analysis: &Analysis, notes: &mut Notes) -> Option<Section> {
    let mut ids: Vec<&str> = analysis.axes.iter().map(|c| c.axis.as_str()).collect();
    ids.dedup();
    let mut blocks = Vec::new();
    for id in ids {
        let courses: Vec<&Course> = analysis.axes.iter().filter(|c| c.axis == id).collect();
        let Some(first) = courses.first() else {
            continue;
        };
        blocks.push(Block::Heading(format!("Over {}", first.name)));
        blocks.extend(chart(&courses).map(|chart| Block::Chart(Box::new(chart))));
        blocks.push(Block::Table(table(&courses, notes)));
    }
    (!blocks.is_empty()).then_some(Section {
        id: "axes",
        title: "What was varied beside clients",
        depth: Depth::Summary,
        blocks,
    })
}

/// Lines of one axis over its numbers; none where its values are names.
fn chart(courses: &[&Course]) -> Option<Chart> {
    let first = courses.first()?;
    let mut ticks: Vec<f64> = courses
        .iter()
        .flat_map(|course| course.points.iter().map(|point| point.number))
        .collect::<Option<_>>()?;
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    // A logarithmic axis has no 0, as a memory node may be.
    if ticks.first().is_none_or(|least| *least <= 0.0) {
        return None;
    }
    let lanes = courses.len();
    let series: Vec<Series> = courses
        .iter()
        .enumerate()
        .map(|(look, course)| Series {
            label: course.at(),
            look,
            lane: (look, lanes),
            evidence: None,
            estimates: course
                .points
                .iter()
                .filter_map(|point| {
                    let at = format!("{}, {} {}", course.at(), course.name, point.value);
                    Some(interval(point.number?, &point.throughput_tps, &at, "tps"))
                })
                .collect(),
            dots: Vec::new(),
        })
        .collect();
    let spoken = series.iter().flat_map(|s| &s.estimates);
    let spoken: Vec<&str> = spoken.map(|e| e.tip.as_str()).collect();
    Some(Chart {
        id: format!("over-{}", first.axis),
        title: format!("Throughput over {}", first.name),
        alternative: format!("{}.", spoken.join("; ")),
        caption: "Bars are intervals over trials. The servers were up at once and loaded in turn."
            .to_owned(),
        x: Axis {
            label: format!("{}, logarithmic", first.name),
            scale: Scale::Log,
            ticks,
        },
        y: Axis {
            label: "transactions a second".to_owned(),
            scale: Scale::FromZero,
            ticks: Vec::new(),
        },
        series,
        guides: Vec::new(),
    })
}

/// A row a value, a column a number of clients; where other axes were varied, a row each of theirs.
fn table(courses: &[&Course], notes: &mut Notes) -> Table {
    let mut counts: Vec<u32> = courses.iter().map(|course| course.clients).collect();
    counts.sort_unstable();
    counts.dedup();
    let mut rows_of: Vec<(&str, &str)> = Vec::new();
    for course in courses {
        for point in &course.points {
            let row = (course.with.as_str(), point.value.as_str());
            if !rows_of.contains(&row) {
                rows_of.push(row);
            }
        }
    }
    let points = courses.iter().flat_map(|course| &course.points);
    let estimates = points.map(|point| &point.throughput_tps);
    let others = courses.iter().any(|course| !course.with.is_empty());
    let name = courses.first().map_or("", |course| course.name.as_str());
    let mut columns = vec![Column::words(name, 0)];
    if others {
        columns.push(Column::words("with", 0));
    }
    let heads = counts.iter().map(|clients| match clients {
        1 => "1 client".to_owned(),
        n => format!("{n} clients"),
    });
    columns.extend(heads.map(|head| Column::figures(&head, "tps", 0)));
    let rows: Vec<Vec<Cell>> = rows_of
        .iter()
        .map(|(with, value)| {
            let mut row = vec![Cell::plain(*value)];
            if others {
                row.push(Cell::plain(*with));
            }
            row.extend(counts.iter().map(|clients| {
                let course = courses
                    .iter()
                    .find(|course| course.clients == *clients && course.with == *with);
                let point = course.and_then(|c| c.points.iter().find(|p| p.value == *value));
                let at = format!("{name} {value} at {clients} clients");
                notes.maybe(point.map(|point| &point.throughput_tps), &at)
            }));
            row
        })
        .collect();
    Table::new(
        format!("Transactions a second. {}", levels(estimates)),
        columns,
        rows,
    )
}
