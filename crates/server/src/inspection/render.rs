//! The document as text for a terminal and as markdown: one account, two shapes.

use super::account::{Block, blocks};
use super::document::Document;
use comfy_table::{ContentArrangement, Table as Grid, presets};
use pgassay_text::markdown as escape;

/// Text for a terminal of `width` columns.
pub fn text(document: &Document, addresses: bool, width: usize) -> String {
    let mut out = String::new();
    for block in blocks(document, addresses) {
        match block {
            Block::Heading(title) => {
                if !out.is_empty() {
                    out.push('\n');
                }
                out.push_str(&title);
                out.push('\n');
            }
            Block::Text(text) => {
                for line in wrap(&text, width.saturating_sub(2)) {
                    out.push_str(&format!("  {line}\n"));
                }
            }
            Block::Facts(facts) => {
                let name = facts
                    .iter()
                    .map(|(n, _)| n.len())
                    .max()
                    .unwrap_or(0)
                    .min(24);
                for (n, value) in facts {
                    let room = width.saturating_sub(name + 4).max(20);
                    let mut lines = wrap(&value, room).into_iter();
                    out.push_str(&format!(
                        "  {n:<name$}  {}\n",
                        lines.next().unwrap_or_default()
                    ));
                    for line in lines {
                        out.push_str(&format!("  {:name$}  {line}\n", ""));
                    }
                }
            }
            Block::Table(columns, rows) => {
                let mut grid = Grid::new();
                grid.load_style(presets::NOTHING)
                    .set_content_arrangement(ContentArrangement::Dynamic)
                    .set_width(u16::try_from(width.saturating_sub(2).max(20)).unwrap_or(u16::MAX))
                    .set_header(columns);
                for row in rows {
                    grid.add_row(row);
                }
                for line in grid.lines() {
                    out.push_str(&format!("  {}\n", line.trim_end()));
                }
            }
        }
    }
    out
}

/// Markdown.
pub fn markdown(document: &Document, addresses: bool) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = String::new();
    for block in blocks(document, addresses) {
        match block {
            Block::Heading(title) => out.push_str(&format!("\n## {}\n\n", escape(&title))),
            Block::Text(text) => out.push_str(&format!("{}\n\n", escape(&text))),
            Block::Facts(facts) => {
                for (name, value) in facts {
                    out.push_str(&format!("- **{}**: {}\n", escape(&name), escape(&value)));
                }
                out.push('\n');
            }
            Block::Table(columns, rows) => {
                out.push_str(&line(columns.iter().map(|c| escape(c)).collect()));
                out.push_str(&format!("|{}\n", " --- |".repeat(columns.len())));
                for row in rows {
                    out.push_str(&line(row.iter().map(|c| escape(c)).collect()));
                }
                out.push('\n');
            }
        }
    }
    out.trim_start().to_string()
}

/// Lines of at most `width` characters, cut at blanks; a longer word stands alone.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("one line at least");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_string());
        }
    }
    lines
}
