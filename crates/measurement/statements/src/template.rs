//! A statement with variables in the places of what varies, as a script has it.

use std::ops::Range;

use pgassay_text::normalise::normalise;

/// Longest statement that is taken, in bytes.
pub const LONGEST: usize = 64 << 10;
/// Most variables of a statement; pgbench takes 255.
const MOST_VARIABLES: usize = 250;

/// A value that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Seen {
    /// SQL's NULL.
    Null,
    /// A number, as written.
    Number(String),
    /// A text, without its quotes.
    Text(String),
}

impl Seen {
    /// A parameter's value: what reads as a number is written as one.
    pub fn parameter(value: Option<&str>) -> Self {
        match value {
            None => Self::Null,
            Some(value) if pgassay_load::script::is_number(value) => Self::Number(value.to_owned()),
            Some(value) => Self::Text(value.to_owned()),
        }
    }

    /// As it stands among the values of `\draw`.
    pub fn written(&self) -> String {
        match self {
            Self::Null => "NULL".to_owned(),
            Self::Number(text) => text.clone(),
            Self::Text(text) => pgassay_load::script::quoted(text),
        }
    }

    /// Bytes of memory that it takes: of a short value its text is the least part.
    pub fn bytes(&self) -> usize {
        let text = match self {
            Self::Null => 0,
            Self::Number(text) | Self::Text(text) => text.len().next_multiple_of(16) + 16,
        };
        size_of::<Self>() + text
    }
}

/// A statement's text around its variables.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Template {
    /// What stands before, between and behind the variables.
    texts: Vec<String>,
    /// Which variable stands in each place, from 0.
    places: Vec<usize>,
}

/// Why a statement can't be a part of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unfit {
    /// The server cut its text.
    Cut,
    /// Several statements in one message.
    Several,
    /// Its text is longer than [`LONGEST`].
    Long,
    /// More variables than a statement can have.
    Variables,
    /// A parameter whose value was not logged.
    Unlogged,
    /// A quoted name in which a script would see a variable.
    Quoting,
}

impl Unfit {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Cut => "text cut off",
            Self::Several => "several statements in one message",
            Self::Long => "statement longer than 64 KiB",
            Self::Variables => "more than 250 values",
            Self::Unlogged => "parameters without logged values",
            Self::Quoting => "a quoted name with a colon or a backslash",
        }
    }
}

impl Template {
    /// A text without variables.
    pub fn plain(text: String) -> Self {
        Self {
            texts: vec![text],
            places: Vec::new(),
        }
    }

    /// The template of a statement whose literals stand in its text, and their values. The text itself stays
    /// what it was but for its comments.
    ///
    /// # Errors
    /// Where it fits no script.
    pub fn of_literals(sql: &str) -> Result<(Self, Vec<Seen>), Unfit> {
        let (made, sql) = fit(sql)?;
        let mut seen = Vec::new();
        let mut values = Vec::new();
        for span in made.values {
            let literal = &sql[span.clone()];
            if is_fixed(&sql[..span.start]) {
                continue;
            }
            if let Some(value) = literal_value(literal) {
                seen.push(value);
                values.push((span, seen.len() - 1));
            }
        }
        if values.len() > MOST_VARIABLES {
            return Err(Unfit::Variables);
        }
        Self::cut(sql, &values, &made.comments).map(|template| (template, seen))
    }

    /// The template of a statement with `$1`, `$2` …, whose literals stay.
    ///
    /// # Errors
    /// Where it fits no script, or has more parameters than `parameters`.
    pub fn of_parameters(sql: &str, parameters: usize) -> Result<Self, Unfit> {
        let (made, sql) = fit(sql)?;
        if made.parameters as usize > parameters {
            return Err(Unfit::Unlogged);
        }
        if made.parameters as usize > MOST_VARIABLES {
            return Err(Unfit::Variables);
        }
        let mut values = Vec::new();
        for span in made.values {
            if let Some(number) = sql[span.clone()]
                .strip_prefix('$')
                .and_then(|n| n.parse::<usize>().ok())
            {
                values.push((span, number.saturating_sub(1)));
            }
        }
        Self::cut(sql, &values, &made.comments)
    }

    fn cut(
        sql: &str,
        values: &[(Range<usize>, usize)],
        comments: &[Range<usize>],
    ) -> Result<Self, Unfit> {
        let mut texts = Vec::new();
        let mut from = 0;
        for (span, _) in values {
            texts.push(fixed(sql, from..span.start, comments)?);
            from = span.end;
        }
        texts.push(fixed(sql, from..sql.len(), comments)?.trim_end().to_owned());
        Ok(Self {
            texts,
            places: values.iter().map(|(_, variable)| *variable).collect(),
        })
    }

    /// The text with a name for each variable.
    pub fn text(&self, name: impl Fn(usize) -> String) -> String {
        let mut text = String::new();
        for (n, piece) in self.texts.iter().enumerate() {
            text.push_str(piece);
            if let Some(variable) = self.places.get(n) {
                text.push(':');
                text.push_str(&name(*variable));
                // What goes on like a name would be one with it.
                let next = self.texts.get(n + 1).and_then(|text| text.bytes().next());
                if next.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_') {
                    text.push(' ');
                }
            }
        }
        text
    }

    /// The statement with these values in its text; none where the text would be more than a statement to a script.
    pub fn filled(&self, values: &[Seen]) -> Option<Self> {
        let mut text = String::new();
        for (n, piece) in self.texts.iter().enumerate() {
            text.push_str(piece);
            if let Some(variable) = self.places.get(n) {
                let value = values.get(*variable)?.written();
                let plain = !value.starts_with('E') && !value.contains([':', '\\', '\n']);
                text.push_str(plain.then_some(&value)?);
            }
        }
        Some(Self::plain(text))
    }

    /// Replaces the literals of texts that are part of the statement.
    pub fn replace_texts(&mut self, by: impl Fn(&str) -> String) {
        for piece in &mut self.texts {
            let mut text = String::with_capacity(piece.len());
            let mut at = 0;
            for span in normalise(piece).values {
                let literal = &piece[span.clone()];
                text.push_str(&piece[at..span.start]);
                match literal_value(literal) {
                    Some(Seen::Text(inside)) => text.push_str(&Seen::Text(by(&inside)).written()),
                    _ => text.push_str(literal),
                }
                at = span.end;
            }
            text.push_str(&piece[at..]);
            *piece = text;
        }
    }

    /// How many variables it has.
    pub fn variables(&self) -> usize {
        self.places.iter().max().map_or(0, |most| most + 1)
    }

    /// The first words of it, in lower case.
    pub fn words(&self) -> impl Iterator<Item = String> {
        let words = self.texts.iter().flat_map(|text| {
            text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '"')))
        });
        words.filter(|word| !word.is_empty()).map(str::to_lowercase)
    }
}

/// Types whose names stand before their literals.
const TYPES: &[&str] = &[
    "interval",
    "date",
    "time",
    "timetz",
    "timestamp",
    "timestamptz",
    "zone",
];

/// The last word of a text.
fn last_word(text: &str) -> &str {
    let text = text.trim_end();
    &text[text
        .trim_end_matches(|c: char| c.is_alphanumeric() || c == '_')
        .len()..]
}

/// Whether a literal behind this text is a part of the statement's form: of `interval '1 day'`, of `ORDER BY 1`.
fn is_fixed(before: &str) -> bool {
    let word = last_word(before);
    TYPES.iter().any(|name| word.eq_ignore_ascii_case(name)) || word.eq_ignore_ascii_case("by")
}

/// `interval $1`, which is none, as `$1::interval`: pg_stat_statements replaces the literal of a typed constant.
pub fn cast_typed(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len());
    let mut at = 0;
    for span in normalise(sql).values {
        let before = &sql[at..span.start];
        let word = last_word(before);
        let typed = TYPES
            .iter()
            .any(|name| word.eq_ignore_ascii_case(name) && *name != "zone");
        if typed && sql[span.clone()].starts_with('$') {
            let kept = before.trim_end();
            text.push_str(&kept[..kept.len() - word.len()]);
            text.push_str(&sql[span.clone()]);
            text.push_str("::");
            text.push_str(word);
        } else {
            text.push_str(before);
            text.push_str(&sql[span.clone()]);
        }
        at = span.end;
    }
    text.push_str(&sql[at..]);
    text
}

fn fit(sql: &str) -> Result<(pgassay_text::normalise::Normalised, &str), Unfit> {
    let sql = sql.trim().trim_end_matches(';').trim_end();
    if sql.len() > LONGEST {
        return Err(Unfit::Long);
    }
    let made = normalise(sql);
    match (made.cut, made.several) {
        (true, _) => Err(Unfit::Cut),
        (_, true) => Err(Unfit::Several),
        _ => Ok((made, sql)),
    }
}

/// A piece of a text that stays, without the comments and without what a script would take for a variable
/// or a command of its own.
fn fixed(sql: &str, span: Range<usize>, comments: &[Range<usize>]) -> Result<String, Unfit> {
    let mut text = String::new();
    let mut at = span.start;
    for comment in comments
        .iter()
        .filter(|c| c.start >= span.start && c.end <= span.end)
    {
        text.push_str(&sql[at..comment.start]);
        text.push(' ');
        at = comment.end;
    }
    text.push_str(&sql[at..span.end]);
    let mut safe = String::with_capacity(text.len());
    let mut quote: Option<char> = None;
    let mut last = ' ';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        safe.push(c);
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('\\' | '\n', Some(_)) => return Err(Unfit::Quoting),
            ('\\', None) => return Err(Unfit::Quoting),
            (':', quote) => {
                let name = chars.peek().is_some_and(|c| c.is_alphabetic() || *c == '_');
                match (name && last != ':', quote) {
                    (true, Some(_)) => return Err(Unfit::Quoting),
                    // A slice, `a[1:n]`.
                    (true, None) => safe.push(' '),
                    _ => {}
                }
            }
            _ => {}
        }
        last = c;
    }
    Ok(safe)
}

/// The value of a literal; none of those that stay as they are: parameters, bit strings, Unicode escapes.
fn literal_value(literal: &str) -> Option<Seen> {
    let bytes = literal.as_bytes();
    match bytes.first()? {
        b'\'' => Some(Seen::Text(inner(literal, 1)?.replace("''", "'"))),
        b'e' | b'E' => Some(Seen::Text(unescaped(inner(literal, 2)?)?)),
        b'$' if bytes.get(1).is_some_and(u8::is_ascii_digit) => None,
        b'$' => {
            let tag = literal[1..].find('$')? + 2;
            let end = literal.len().checked_sub(tag)?;
            Some(Seen::Text(literal.get(tag..end)?.to_owned()))
        }
        _ if pgassay_load::script::is_number(literal) => Some(Seen::Number(literal.to_owned())),
        _ => None,
    }
}

fn inner(literal: &str, prefix: usize) -> Option<&str> {
    literal.get(prefix..literal.len().checked_sub(1)?)
}

/// The text of an E'…' string; none where it has escapes of bytes, which depend on the encoding.
fn unescaped(inner: &str) -> Option<String> {
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\'' => {
                chars.next();
                text.push('\'');
            }
            '\\' => text.push(match chars.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                c if c.is_ascii_alphanumeric() => return None,
                c => c,
            }),
            c => text.push(c),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(template: &Template) -> String {
        template.text(|n| format!("p{}", n + 1))
    }

    #[test]
    fn literals_become_variables_and_keep_their_values() {
        let sql = "SELECT a[1:n], b::text FROM t /* trace */ WHERE k = 42 AND s = 'it''s' AND x = E'a\\n' LIMIT 10;";
        let (template, seen) = Template::of_literals(sql).unwrap();
        assert_eq!(
            text(&template),
            "SELECT a[:p1: n], b::text FROM t   WHERE k = :p2 AND s = :p3 AND x = :p4 LIMIT :p5"
        );
        let expected = [
            Seen::Number("1".to_owned()),
            Seen::Number("42".to_owned()),
            Seen::Text("it's".to_owned()),
            Seen::Text("a\n".to_owned()),
            Seen::Number("10".to_owned()),
        ];
        assert_eq!(seen, expected);
        let other = Template::of_literals(&sql.replace("42", "7")).unwrap().0;
        assert_eq!(template, other);
    }

    #[test]
    fn values_go_back_into_the_text() {
        let (template, values) =
            Template::of_literals("SELECT a - 1 FROM t WHERE b = 'it''s'").unwrap();
        let filled = template.filled(&values).unwrap();
        assert_eq!(text(&filled), "SELECT a - 1 FROM t WHERE b = 'it''s'");
        let (template, values) = Template::of_literals("SELECT 'a:b'").unwrap();
        assert!(template.filled(&values).is_none());
    }

    #[test]
    fn typed_constants_and_places_keep_their_form() {
        let sql = "SELECT a, now() - interval '1 day' FROM t WHERE b > 3 ORDER BY 1";
        let template = Template::of_literals(sql).unwrap().0;
        assert_eq!(
            text(&template),
            "SELECT a, now() - interval '1 day' FROM t WHERE b > :p1 ORDER BY 1"
        );
        assert_eq!(
            cast_typed("SELECT now() - interval $1, date $2 WHERE a = $3 AND date = 'x'"),
            "SELECT now() - $1::interval, $2::date WHERE a = $3 AND date = 'x'"
        );
    }

    #[test]
    fn parameters_keep_their_numbers() {
        let template =
            Template::of_parameters("SELECT $2, $1::int, $2 FROM t WHERE a='x'", 2).unwrap();
        assert_eq!(
            text(&template),
            "SELECT :p2, :p1::int, :p2 FROM t WHERE a='x'"
        );
        assert_eq!(template.variables(), 2);
        assert_eq!(
            Template::of_parameters("SELECT $3", 2),
            Err(Unfit::Unlogged)
        );
    }

    #[test]
    fn what_fits_no_script_says_why() {
        assert_eq!(
            Template::of_literals("SELECT 1; SELECT 2").unwrap_err(),
            Unfit::Several
        );
        assert_eq!(Template::of_literals("SELECT 'a").unwrap_err(), Unfit::Cut);
        assert_eq!(
            Template::of_literals("SELECT \"a:b\"").unwrap_err(),
            Unfit::Quoting
        );
        assert_eq!(
            Template::of_parameters("SELECT 'a:b' WHERE x=$1", 1).unwrap_err(),
            Unfit::Quoting
        );
        let many = format!("SELECT {}", vec!["1"; 300].join(","));
        assert_eq!(Template::of_literals(&many).unwrap_err(), Unfit::Variables);
        let long = format!("SELECT '{}'", "x".repeat(LONGEST));
        assert_eq!(Template::of_literals(&long).unwrap_err(), Unfit::Long);
    }
}
