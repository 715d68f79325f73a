//! The structure of a page: its elements without wording, coordinates, style and script.

use std::fmt;

/// An element of a page.
#[derive(Default)]
pub struct Element<'a> {
    pub name: &'a str,
    pub attributes: Vec<(&'a str, &'a str)>,
    children: Vec<Element<'a>>,
}

impl<'a> Element<'a> {
    fn of(tag: &'a str) -> Self {
        let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
        let mut attributes = vec![];
        while let Some((attribute, after)) = rest.split_once("=\"") {
            let (value, after) = after.split_once('"').expect("every value ends");
            attributes.push((attribute.trim_start(), value));
            rest = after;
        }
        assert_eq!(rest, "", "an attribute without a value in <{tag}>");
        Self {
            name,
            attributes,
            children: vec![],
        }
    }

    pub fn attribute(&self, name: &str) -> Option<&'a str> {
        let mut attributes = self.attributes.iter();
        attributes
            .find(|(n, _)| *n == name)
            .map(|(_, value)| *value)
    }

    /// The element and all within it, in the page's order.
    pub fn all(&self) -> Vec<&Self> {
        let within = self.children.iter().flat_map(Self::all);
        std::iter::once(self).chain(within).collect()
    }
}

/// `tag#id.class role=img aria-label`: values that are names, and of the others that they are there.
impl fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        for (name, value) in &self.attributes {
            match *name {
                "id" => write!(f, "#{}", numberless(value))?,
                "class" if value.is_empty() => {}
                "class" => write!(f, ".{}", value.replace(' ', "."))?,
                "href" | "aria-labelledby" => write!(f, " {name}={}", numberless(value))?,
                "role" | "scope" | "tabindex" | "aria-hidden" | "lang" | "name" => {
                    write!(f, " {name}={value}")?;
                }
                name if name.starts_with("aria-") || name.starts_with("data-") => {
                    write!(f, " {name}")?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// A name with each number in it replaced, so that the names of a series are one.
fn numberless(name: &str) -> String {
    name.chars().fold(String::new(), |mut out, c| {
        match c.is_ascii_digit() {
            true if out.ends_with('N') => {}
            true => out.push('N'),
            false => out.push(c),
        }
        out
    })
}

/// The tree of a page, which is well-formed: every element ends, the innermost first.
pub fn parse(page: &str) -> Element<'_> {
    const VOID: [&str; 2] = ["meta", "br"];
    let mut open = vec![Element::default()];
    let mut rest = page
        .strip_prefix("<!DOCTYPE html>")
        .expect("a document type");
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, after) = after.split_once('>').expect("every tag ends");
        rest = after;
        let done = match tag.strip_prefix('/') {
            Some(name) => {
                let ended = open.pop().expect("the page is open");
                assert_eq!(ended.name, name, "another element ends");
                ended
            }
            None => Element::of(tag),
        };
        if tag.starts_with('/') || VOID.contains(&done.name) {
            let around = open.last_mut().expect("an end without a beginning");
            around.children.push(done);
            continue;
        }
        if ["script", "style"].contains(&done.name) {
            let end = rest.find(&format!("</{}>", done.name));
            rest = &rest[end.expect("it ends")..];
        }
        open.push(done);
    }
    let page = open.pop().expect("the page is open");
    assert!(open.is_empty(), "left open: {}", page.name);
    page
}

/// A line for each element, indented by its depth; an only child stands on its parent's line.
/// Equal neighbours are one line with their number, and what they hold is counted together, as is
/// what a picture holds.
pub fn outline(page: &str) -> String {
    let mut out = String::new();
    push(&[&parse(page)], 0, false, &mut out);
    out.trim_start_matches([' ', '>']).to_owned() + "\n"
}

fn push(elements: &[&Element], depth: usize, in_any_order: bool, out: &mut String) {
    let mut groups: Vec<(String, Vec<&Element>)> = vec![];
    for element in elements.iter().flat_map(|e| &e.children) {
        let head = element.to_string();
        let mut known = groups.iter_mut().rev();
        let equal = match in_any_order {
            true => known.find(|group| group.0 == head),
            false => known.next().filter(|group| group.0 == head),
        };
        match equal {
            Some(group) => group.1.push(element),
            None => groups.push((head, vec![element])),
        }
    }
    let only = groups.len() == 1;
    for (head, equal) in groups {
        let head = match equal.len() {
            1 => head,
            n => format!("{head} × {n}"),
        };
        match only {
            true => *out += &format!(" > {head}"),
            false => *out += &format!("\n{}{head}", "  ".repeat(depth)),
        }
        let in_any_order = in_any_order || equal.len() > 1 || equal[0].name == "svg";
        push(&equal, depth + usize::from(!only), in_any_order, out);
    }
}
