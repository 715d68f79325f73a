//! One self-contained HTML file: no external request, no asset, and one script of ours, without
//! which the page is whole.
//!
//! Pictures are inline SVG whose colours are CSS variables, so that light, dark
//! and print are the same file. Everything foreign goes through `maud`, which
//! escapes it, after `plain::clean`.

mod bars;
mod chart;
mod flame;
mod forest;
mod heat;
mod memory;
mod profiles;
mod scale;
pub mod site;
mod svg;

use std::sync::LazyLock;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use pgassay_analysis::bottlenecks::{Step, StepKind};

use super::document::{
    Badge, Block, Cell, Column, Document, Evidence, Fact, FindingBlock, Note, Question, Section,
    Table, Tile, Value,
};
use super::{number, plain};

const STYLE: &str = include_str!("style.css");
/// One module, in pieces of one idea each; a page has it without comments and indentation.
static SCRIPT: LazyLock<String> = LazyLock::new(|| without_comments(SOURCE));
const SOURCE: &str = concat!(
    include_str!("script/view.js"),
    include_str!("script/marks.js"),
    include_str!("script/evidence.js"),
    include_str!("script/profile.js"),
    include_str!("script/flame.js"),
    include_str!("script/tables.js"),
    include_str!("script/start.js"),
);
/// Nothing may be loaded, and nothing but our script run, whatever slipped into the page.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = BASE64_STANDARD.encode(Sha256::digest(SCRIPT.as_str()));
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'; \
         base-uri 'none'; form-action 'none'"
    )
});

/// A script without its documentation (`/** ... */`), comment lines and indentation.
fn without_comments(script: &str) -> String {
    let mut code = String::with_capacity(script.len());
    let mut rest = script;
    while let Some((before, comment)) = rest.split_once("/**") {
        code.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    code.push_str(rest);
    let lines = code.lines().map(str::trim);
    let lines: Vec<&str> = lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .collect();
    lines.join("\n")
}

/// The whole page.
pub fn render(document: &Document) -> String {
    page(
        &document.title,
        skip_to(document),
        html! {
            (contents(document))
            (head_of(document))
            main id=(CONTENT) { (body_of(document)) }
            (foot_of(document))
        },
    )
}

/// Several documents on one page, one after the other.
pub fn render_all(documents: &[Document]) -> String {
    let name = |number: usize| format!("report-{number}");
    let title = format!("{} reports", documents.len());
    page(
        &title,
        CONTENT,
        html! {
            header {
                p.kicker { "pgassay" }
                nav aria-label="Reports" {
                    ul {
                        @for (i, document) in documents.iter().enumerate() {
                            li { a href={ "#" (name(i + 1)) } { (text(&document.title)) } }
                        }
                    }
                }
            }
            main id=(CONTENT) {
                @for (i, document) in documents.iter().enumerate() {
                    article id=(name(i + 1)) {
                        (in_part(&name(i + 1), &html! {
                            (contents(document))
                            (head_of(document))
                            (body_of(document))
                            (foot_of(document))
                        }))
                    }
                }
            }
        },
    )
}

/// The name of the part that holds all warnings.
const WARNINGS: &str = "warnings";
/// The part of a page that holds everything but its head.
const CONTENT: &str = "content";

/// What the skip link leads to: the results, where a page has a section of that name.
fn skip_to(document: &Document) -> &'static str {
    let results = document.sections.iter().find(|s| s.id == "results");
    results.map_or(CONTENT, |section| section.id)
}

fn page(title: &str, skip_to: &str, body: Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(*POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (text(title)) " · pgassay" }
                // A module runs when the page is read.
                script type="module" { (PreEscaped(SCRIPT.as_str())) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href={ "#" (skip_to) } {
                    @if skip_to == CONTENT { "Skip to the content" } @else { "Skip to the results" }
                }
                (body)
            }
        }
    };
    let mut page = page.into_string();
    page.push('\n');
    page
}

fn head_of(document: &Document) -> Markup {
    html! {
        header {
            p.kicker { "pgassay" }
            h1 { (text(&document.title)) }
            @for badge in &document.badges { (self::badge(badge)) }
            (warned(&document.notes))
            @for alarm in &document.alarms {
                p.alarm role="note" { (text(alarm)) }
            }
            (tiles(&document.tiles))
            @if !document.limit.is_empty() {
                p.limit { strong { (Question::Limit.title()) } " " (text(&document.limit)) }
            }
            (glance(&document.glance))
            (first_steps(document))
            div.headline {
                @for sentence in &document.headline { p { (text(sentence)) } }
            }
            (run_notes(document))
        }
    }
}

fn badge(badge: &Badge) -> Markup {
    html! {
        p.badge {
            span class=(badge.rating.name()) { (badge.subject) ": " (text(&badge.judgement)) }
            @if !badge.why.is_empty() { " " (text(&badge.why)) }
        }
    }
}

/// The names of the warnings, which lead to their texts.
fn warned(notes: &[Note]) -> Markup {
    html! {
        @if !notes.is_empty() {
            p.badge {
                "Warnings:"
                @for (i, note) in notes.iter().enumerate() {
                    " " a href={ "#warning-" (i + 1) } { (text(&note.warning.id)) }
                }
            }
        }
    }
}

fn tiles(tiles: &[Tile]) -> Markup {
    html! {
        @if !tiles.is_empty() {
            dl.tiles {
                @for tile in tiles {
                    @let shown = number::shown(&tile.value);
                    div {
                        dt { (text(&tile.name)) }
                        dd {
                            @match &tile.evidence {
                                Some(to) => a.figure href={ "#" (to) } { (shown.value) },
                                None => span.figure { (shown.value) },
                            }
                            " " (tile.unit)
                            @if let Some(interval) = shown.interval {
                                " " span.interval title=(interval.short) { (interval.ends) }
                            }
                            @if !tile.remark.is_empty() { " " span.remark { (text(&tile.remark)) } }
                        }
                    }
                }
            }
        }
    }
}

/// The pictures of the first screen, side by side where there is room for two.
fn glance(blocks: &[Block]) -> Markup {
    let room = match blocks.len() {
        0 | 1 => &svg::ALONE,
        _ => &svg::BESIDE,
    };
    html! {
        @if !blocks.is_empty() {
            section.glance aria-labelledby="glance-heading" {
                h2.unseen id="glance-heading" { "At a glance" }
                @for block in blocks {
                    @match block {
                        Block::Chart(chart) => (chart::figure(chart, room)),
                        Block::Bars(bars) => (bars::figure(bars, room)),
                        Block::Forest(forest) => (forest::figure(forest)),
                        _ => {},
                    }
                }
            }
        }
    }
}

/// What to do first, a line or two each; the rest of a finding is in its section.
fn first_steps(document: &Document) -> Markup {
    html! {
        @if !document.first_steps.is_empty() {
            section.first aria-labelledby="first-heading" {
                h2 id="first-heading" { "Do these first" }
                ol {
                    @for block in &document.first_steps {
                        li {
                            strong { (text(&block.finding.title)) }
                            " " span.remark { (text(&block.in_brief())) }
                            @if let Some(step) = block.finding.remedy.first() { div { (self::step(step)) } }
                            (measure(block))
                        }
                    }
                }
                @if let Some(more) = document.below_steps("below") { p.remark { (more) } }
            }
        }
    }
}

/// The command that would measure what a finding costs.
fn measure(block: &FindingBlock) -> Markup {
    html! {
        @if let Some(command) = &block.measure {
            div.measure { span.remark { "Measure it: " } code { (plain::clean(command)) } }
        }
    }
}

fn step(step: &Step) -> Markup {
    html! {
        // A command stays as it is typed.
        @if step.kind == StepKind::Advice { (text(&step.text)) } @else { code { (plain::clean(&step.text)) } }
    }
}

fn body_of(document: &Document) -> Markup {
    html! {
        @if document.chapters.is_empty() {
            @for section in &document.sections { (self::section(section, &document.notes)) }
            @if !document.notes.is_empty() {
                section id=(WARNINGS) aria-labelledby="warnings-heading" {
                    h2 id="warnings-heading" { "Warnings" }
                    (all_notes(&document.notes))
                }
            }
        }
        @for (question, sections) in answered(document) { (chapter(question, sections, &document.notes)) }
        @if let Some(tree) = &document.profiles {
            script.profiles type="text/plain" { (profiles::page(tree, &document.title)) }
        }
    }
}

/// The questions that the page has an answer to.
fn answered(document: &Document) -> impl Iterator<Item = (Question, &[Section])> {
    document.by_question().filter(|(question, sections)| {
        !sections.is_empty() || has_warnings(*question, &document.notes)
    })
}

/// Whether the warnings are among the answers to a question.
fn has_warnings(question: Question, notes: &[Note]) -> bool {
    question == Question::Certainty && !notes.is_empty()
}

/// A question and its parts, each of which opens on demand: by its name, by a link into it and by a
/// search in the page, without a script.
fn chapter(question: Question, sections: &[Section], notes: &[Note]) -> Markup {
    let heading = format!("{}-heading", question.id());
    html! {
        section.chapter id=(question.id()) aria-labelledby=(heading) {
            h2 id=(heading) { (question.title()) }
            @if has_warnings(question, notes) {
                (part(WARNINGS, &format!("Warnings ({})", notes.len()), &all_notes(notes)))
            }
            @for section in sections {
                (part(section.id, section.title, &blocks(&section.blocks, section.id, notes)))
            }
        }
    }
}

/// Parts that are printed with the first screen; others where they are open.
const PRINTED: [&str; 3] = ["results", WARNINGS, "summary"];

/// What it holds has the name: a link opens what it leads into, not what it leads to.
fn part(id: &str, title: &str, content: &Markup) -> Markup {
    html! {
        details.part .printed[PRINTED.contains(&id)] {
            summary { h3 { (title) } }
            div id=(id) { (PreEscaped(content.0.replace("<h3", "<h4").replace("</h3>", "</h4>"))) }
        }
    }
}

fn foot_of(document: &Document) -> Markup {
    html! {
        footer {
            @if !document.chapters.is_empty() {
                p.on-paper { "Further parts are printed where they are open in the page." }
            }
            p { (text(&document.provenance)) "." }
        }
    }
}

/// The same markup with a prefix at every name that it gives or refers to, so that several
/// documents have none in common. Foreign text holds no bare quotation mark: it is escaped.
fn in_part(prefix: &str, markup: &Markup) -> Markup {
    let mut out = String::with_capacity(markup.0.len() + markup.0.len() / 16);
    let mut rest = markup.0.as_str();
    const GIVEN: [&str; 6] = [
        " data-evidence=\"",
        " data-see=\"",
        " id=\"",
        " href=\"#",
        " aria-labelledby=\"",
        " aria-describedby=\"",
    ];
    while let Some((at, attribute)) = GIVEN
        .iter()
        .filter_map(|attribute| Some((rest.find(attribute)?, attribute)))
        .min()
    {
        let (before, names) = rest.split_at(at + attribute.len());
        let (names, after) = names.split_at(names.find('"').unwrap_or(names.len()));
        out.push_str(before);
        let names: Vec<String> = names
            .split(' ')
            .map(|name| format!("{prefix}-{name}"))
            .collect();
        out.push_str(&names.join(" "));
        rest = after;
    }
    out.push_str(rest);
    PreEscaped(out)
}

/// Foreign text: one line, no control characters; maud escapes it.
fn text(text: &str) -> String {
    plain::clean(text)
}

/// Where the page has what: by question, or by part where it answers only one.
fn contents(document: &Document) -> Markup {
    let warnings = document.notes.len();
    html! {
        nav.contents aria-label="Contents" {
            ul {
                @if document.chapters.is_empty() {
                    @for section in &document.sections {
                        li { a href={ "#" (section.id) } { (section.title) } }
                    }
                    @if warnings > 0 { li { a href={ "#" (WARNINGS) } { "Warnings (" (warnings) ")" } } }
                }
                @for (question, _) in answered(document) {
                    li { a href={ "#" (question.id()) } { (question.title()) } }
                }
            }
        }
    }
}

fn section(section: &Section, notes: &[Note]) -> Markup {
    let heading = format!("{}-heading", section.id);
    html! {
        section id=(section.id) aria-labelledby=(heading) {
            h2 id=(heading) { (section.title) }
            (blocks(&section.blocks, section.id, notes))
        }
    }
}

/// What a part says; `id` begins the names of what it holds.
fn blocks(blocks: &[Block], id: &str, notes: &[Note]) -> Markup {
    html! {
        @for (i, block) in blocks.iter().enumerate() {
            @match block {
                    Block::Text(paragraph) => p { (text(paragraph)) },
                    Block::Heading(heading) => h3 { (text(heading)) },
                    Block::Facts(facts) => (self::facts(facts)),
                    Block::Table(table) => (self::table(table, &format!("{id}-{i}"), notes)),
                    Block::Chart(chart) => (chart::figure(chart, &svg::IN_TEXT)),
                    Block::Charts(charts) => (chart::small_figures(charts)),
                    Block::Flame(graph) => (flame::figure(graph, &format!("{id}-{i}"))),
                    Block::HeatMap(map) => (heat::figure(map)),
                    Block::Memory(map) => (memory::figure(map)),
                    Block::Bars(bars) => (bars::figure(bars, &svg::IN_TEXT)),
                    Block::Forest(forest) => (forest::figure(forest)),
                    Block::Commands(commands) => (self::commands(commands)),
                    Block::Finding(finding) => (self::finding(finding)),
                    Block::Evidence(evidence) => (self::evidence(evidence, notes)),
            }
        }
    }
}

/// The evidence of a point, on demand: a link to it unfolds it.
fn evidence(evidence: &Evidence, notes: &[Note]) -> Markup {
    html! {
        details.evidence {
            summary { (text(&evidence.title)) ": " (text(&evidence.summary)) }
            div id=(evidence.id) tabindex="-1" data-profile=[evidence.profile.as_deref().map(text)] {
                @for (words, to) in &evidence.see {
                    p { a href={ "#" (to) } data-see=(to) { (text(words)) } }
                }
                (blocks(&evidence.blocks, &evidence.id, notes))
            }
        }
    }
}

/// How to read a picture; on demand where room is short.
fn caption(caption: &str, folded: bool) -> Markup {
    html! {
        figcaption {
            @if folded {
                details { summary { "How to read it" } (text(caption)) }
            } @else {
                (text(caption))
            }
        }
    }
}

fn facts(facts: &[Fact]) -> Markup {
    html! {
        dl.facts {
            @for fact in facts {
                div {
                    dt { (text(&fact.name)) }
                    dd {
                        (text(&fact.value))
                        @if !fact.remark.is_empty() { " " span.remark { (text(&fact.remark)) } }
                    }
                }
            }
        }
    }
}

/// A finding: what was seen and what to do at once, the reasons on demand.
fn finding(block: &FindingBlock) -> Markup {
    let finding = &block.finding;
    html! {
        article class={ "finding " (block.weight()) } {
            p.weight {
                strong { (block.weight()) } " · " (block.confidence()) " · " code { (text(&finding.id)) }
            }
            p.saw { (text(&block.saw())) }
            @if block.in_full && !finding.evidence.is_empty() {
                ul.evidence { @for seen in &finding.evidence { li { (text(seen)) } } }
            }
            @if !finding.remedy.is_empty() {
                ol.steps {
                    @for step in &finding.remedy {
                        li { (self::step(step)) }
                    }
                }
            }
            (measure(block))
            details {
                summary { "Why it matters, and how much" }
                p { (text(&finding.why)) }
                p { (text(&block.impact())) }
                ul.sources { @for source in &finding.sources { li { (text(source)) } } }
            }
        }
    }
}

fn commands(commands: &[String]) -> Markup {
    let lines: Vec<String> = commands.iter().map(|c| text(c)).collect();
    html! { pre tabindex="0" aria-label="Commands" { code { (lines.join("\n")) } } }
}

fn table(table: &Table, id: &str, notes: &[Note]) -> Markup {
    let caption = format!("{id}-caption");
    let turned = turned(table);
    let counted = format!(
        "--columns:{};--rows:{}",
        table.columns.len(),
        table.rows.len()
    );
    let grid = html! {
        div.scroll .turned[turned] role="region" aria-labelledby=(caption) tabindex="0" {
            table style=[turned.then_some(counted)] {
                caption { span id=(caption) { (text(&table.caption)) (marks(&table.marks)) } }
                thead { tr { @for column in &table.columns { (head(column)) } } }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (i, (cell, column)) in row.iter().zip(&table.columns).enumerate() {
                                (self::cell(cell, column, i == 0))
                            }
                        }
                    }
                }
            }
        }
        (own_notes(table, notes))
    };
    html! {
        @if table.folded {
            details {
                summary { (first_clause(&table.caption)) " (" (table.rows.len()) " rows)" }
                (grid)
            }
        } @else {
            (grid)
        }
    }
}

/// Whether a phone shows the rows as columns. A table much wider than it is long would have to be
/// pushed sideways to be read at all; turned it can be compared.
fn turned(table: &Table) -> bool {
    table.columns.len() >= 5 && 2 * table.rows.len() <= table.columns.len()
}

/// What a folded table is called: its caption up to the first stop.
fn first_clause(caption: &str) -> String {
    let end = caption.find(['.', ',', ';']).unwrap_or(caption.len());
    text(&caption[..end])
}

fn head(column: &Column) -> Markup {
    let figures = column.figures.then_some("n");
    html! {
        th scope="col" class=[figures] {
            (text(&column.head))
            @if !column.unit.is_empty() { " " span.unit { (text(&column.unit)) } }
        }
    }
}

fn cell(cell: &Cell, column: &Column, names_row: bool) -> Markup {
    let content = value(&cell.value, &marks(&cell.marks));
    let figures = column.figures.then_some("n");
    html! {
        @if names_row {
            th scope="row" class=[figures] { (content) }
        } @else {
            td class=[figures] { (content) }
        }
    }
}

/// The figure with its marks at its side and its interval beneath.
fn value(value: &Value, marks: &Markup) -> Markup {
    match value {
        Value::Plain(plain) => html! { (text(plain)) (marks) },
        Value::Link(plain, to) => html! { a href={ "#" (to) } { (text(plain)) } (marks) },
        Value::Missing => {
            html! { span.missing title="could not be seen" { (number::NONE) } (marks) }
        }
        Value::Estimate(estimate) => {
            let shown = number::shown(estimate);
            html! {
                (shown.value) (marks)
                @if let Some(interval) = shown.interval {
                    " " span.interval title=(interval.short) { (interval.ends) }
                }
            }
        }
    }
}

/// Links to the notes, small and raised.
fn marks(marks: &[usize]) -> Markup {
    html! {
        @for mark in marks {
            sup { a.mark href={ "#warning-" (mark) } aria-label={ "warning " (mark) } { (mark) } }
        }
    }
}

/// The notes of a table, right under it.
fn own_notes(table: &Table, notes: &[Note]) -> Markup {
    let marks = table.all_marks();
    let own = marks
        .iter()
        .filter_map(|m| Some((*m, notes.get(m.checked_sub(1)?)?)));
    let own: Vec<(usize, &Note)> = own.collect();
    html! {
        @if !own.is_empty() {
            ol.notes {
                @for (number, note) in own {
                    li value=(number) { (warning(note)) }
                }
            }
        }
    }
}

/// What qualifies the run as a whole stands with its headline.
fn run_notes(document: &Document) -> Markup {
    let notes = document.run_notes();
    html! {
        @if !notes.is_empty() {
            ol.notes.run {
                @for (number, note) in notes {
                    li value=(number) { (warning(note)) }
                }
            }
        }
    }
}

fn all_notes(notes: &[Note]) -> Markup {
    html! {
        p { "Each is also marked next to the values that it qualifies." }
        ol.notes {
            @for (i, note) in notes.iter().enumerate() {
                li id={ "warning-" (i + 1) } value=(i + 1) {
                    (warning(note)) " "
                    span.remark { "Qualifies: " (text(&note.places())) "." }
                }
            }
        }
    }
}

fn warning(note: &Note) -> Markup {
    let warning = &note.warning;
    html! {
        strong { (text(&warning.id)) } ": " (text(&warning.sentence()))
        @if let Some(remedy) = &warning.remedy { " " em { "What to do:" } " " (text(remedy)) }
    }
}
