//! A workload in the forms of other programs.

pub mod pgbench;
pub mod pgreplay;

use pgassay_load::script::{Drawn, Part, Slot, Sql};

/// A statement's text, with what `value` gives in its variables' places; a variable for which it gives nothing stays one.
fn text(sql: &Sql, value: impl Fn(Slot) -> Option<String>) -> String {
    let mut text = String::new();
    for part in &sql.parts {
        match part {
            Part::Text(piece) => text.push_str(piece),
            Part::Var(slot, name) => match value(*slot) {
                Some(value) => text.push_str(&value),
                None => {
                    text.push(':');
                    text.push_str(name);
                }
            },
        }
    }
    text.trim().trim_end_matches(';').trim_end().to_owned()
}

/// The value of a variable among those that were drawn together.
fn among<'a>(slots: &[Slot], row: &'a [Drawn], slot: Slot) -> Option<&'a Drawn> {
    let at = slots.iter().position(|known| *known == slot)?;
    row.get(at)
}
