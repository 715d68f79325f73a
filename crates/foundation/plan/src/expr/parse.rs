//! The grammar of ruleutils.c, as far as conditions, select lists and keys use it.

use pgassay_text::sql;

use super::Expr;

/// Expressions and operands within each other that are parsed.
const DEEPEST: usize = 120;
/// Operators and casts that are parsed.
const MOST_LINKS: usize = 1000;

/// Operators of words.
const WORDS: &[&str] = &[
    "IS DISTINCT FROM",
    "IS NOT DISTINCT FROM",
    "AT TIME ZONE",
    "OVERLAPS",
    "FILTER",
    "OVER",
    "WITHIN GROUP",
];
/// What stands behind IS.
const TESTS: &[&str] = &[
    "NULL",
    "NOT NULL",
    "TRUE",
    "NOT TRUE",
    "FALSE",
    "NOT FALSE",
    "UNKNOWN",
    "NOT UNKNOWN",
];
/// Words before an operand.
const PREFIXES: &[&str] = &["WHERE", "ORDER BY", "PARTITION BY", "PARTIAL"];
/// What stands between the arguments of a call.
const BETWEEN: &[&str] = &[
    ", ",
    " FROM ",
    " FOR ",
    " IN ",
    " PLACING ",
    " USING ",
    " ORDER BY ",
];
/// What stands before the first argument.
const BEFORE: &[&str] = &["DISTINCT ", "VARIADIC "];
/// What the name of a type goes on with.
const OF_TYPES: &[&str] = &[
    " varying",
    " precision",
    " without time zone",
    " with time zone",
    "[]",
];
/// How a sort orders by a key.
const ORDERS: &[&str] = &[" DESC", " NULLS FIRST", " NULLS LAST"];
/// Characters of operators (manual, "Lexical Structure").
const OPERATOR: &str = "+-*/<>=~!@#%^&|`?";

/// The expression of a text; none where not all of it is one.
pub(super) fn parse(text: &str) -> Option<Expr> {
    let mut parser = Parser {
        rest: text,
        depth: 0,
        links: 0,
    };
    let expr = parser.list()?;
    parser.rest.is_empty().then_some(expr)
}

/// Whether a constant is a key word and no literal.
pub(super) fn is_word(text: &str) -> bool {
    matches!(text, "NULL" | "true" | "false")
}

struct Parser<'t> {
    rest: &'t str,
    depth: usize,
    links: usize,
}

impl<'t> Parser<'t> {
    fn eat(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// The same where no word goes on behind it.
    fn eat_word(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        let rest = rest.filter(|rest| sql::word(rest.as_bytes()) == 0);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    fn link(&mut self) -> Option<()> {
        self.links += 1;
        (self.links <= MOST_LINKS).then_some(())
    }

    /// A part up to a comma or the end of what it stands in; one that is not known as its text.
    fn part(&mut self) -> Option<Expr> {
        let begin = self.rest;
        let ends = |rest: &str| rest.is_empty() || rest.starts_with([',', ')', ']']);
        if let Some(key) = self.key().filter(|_| ends(self.rest)) {
            return Some(key);
        }
        self.rest = begin;
        let text = self.take(balanced(begin)?);
        (!text.is_empty()).then(|| Expr::Raw(text.to_owned()))
    }

    fn list(&mut self) -> Option<Expr> {
        let first = self.part()?;
        let mut parts = vec![first];
        while self.eat(", ") {
            parts.push(self.part()?);
        }
        match parts.len() {
            1 => parts.pop(),
            _ => Some(Expr::List(parts)),
        }
    }

    /// An expression, and how a sort orders by it.
    fn key(&mut self) -> Option<Expr> {
        let expr = self.expr()?;
        let begin = self.rest;
        while ORDERS.iter().any(|order| self.eat_word(order)) {}
        let order = &begin[..begin.len() - self.rest.len()];
        Some(match order {
            "" => expr,
            order => Expr::Key(Box::new(expr), order.to_owned()),
        })
    }

    fn expr(&mut self) -> Option<Expr> {
        self.joined(" OR ", Expr::Or, |parser| {
            parser.joined(" AND ", Expr::And, Self::not)
        })
    }

    fn joined(
        &mut self,
        word: &str,
        of: fn(Vec<Expr>) -> Expr,
        part: impl Fn(&mut Self) -> Option<Expr>,
    ) -> Option<Expr> {
        let mut parts = vec![part(self)?];
        while self.eat(word) {
            parts.push(part(self)?);
        }
        match parts.len() {
            1 => parts.pop(),
            _ => Some(of(parts)),
        }
    }

    /// What `of` parses one level deeper; none where that is too deep.
    fn nested(&mut self, of: fn(&mut Self) -> Option<Expr>) -> Option<Expr> {
        self.depth += 1;
        let found = (self.depth <= DEEPEST).then(|| of(self)).flatten();
        self.depth -= 1;
        found
    }

    fn not(&mut self) -> Option<Expr> {
        match self.eat("NOT ") {
            true => {
                let of = self.nested(Self::not)?;
                Some(Expr::Not(Box::new(of)))
            }
            false => self.nested(Self::operation),
        }
    }

    fn operation(&mut self) -> Option<Expr> {
        let mut left = self.operand()?;
        loop {
            let begin = self.rest;
            if let Some(operator) = self.operator() {
                self.link()?;
                let right = self.operand()?;
                left = Expr::Op(Box::new(left), operator.to_owned(), Box::new(right));
            } else if self.eat(" IS ") {
                let mut tests = TESTS.iter();
                let test = tests.find(|test| self.eat_word(test))?;
                self.link()?;
                left = Expr::Is(Box::new(left), test);
            } else {
                self.rest = begin;
                return Some(left);
            }
        }
    }

    /// An operator between blanks.
    fn operator(&mut self) -> Option<&'t str> {
        let text = self.rest.strip_prefix(' ')?;
        let symbols = text.find(|c| !OPERATOR.contains(c)).unwrap_or(text.len());
        let is = |word: &&&str| {
            let rest = text.strip_prefix(**word);
            rest.is_some_and(|rest| rest.starts_with(' '))
        };
        let length = match text.strip_prefix("OPERATOR(") {
            Some(inner) => {
                let mut path = Self {
                    rest: inner,
                    ..*self
                };
                while path.name().is_some() {
                    path.eat(".").then_some(())?;
                }
                let symbol = path.rest.find(|c| !OPERATOR.contains(c))?;
                (symbol > 0).then_some(())?;
                path.take(symbol);
                path.eat(")").then_some(text.len() - path.rest.len())?
            }
            None => WORDS.iter().find(is).map_or(symbols, |word| word.len()),
        };
        let operator = &text[..length];
        let comment = operator.contains("--") || operator.contains("/*");
        let rest = text[length..].strip_prefix(' ')?;
        (length > 0 && !comment).then(|| {
            self.rest = rest;
            operator
        })
    }

    /// A primary with its casts, subscripts, fields and collation.
    fn operand(&mut self) -> Option<Expr> {
        let mut of = self.nested(Self::primary)?;
        loop {
            if self.eat("::") {
                of = Expr::Cast(Box::new(of), self.type_name()?);
            } else if self.eat("[") {
                let index = self.part()?;
                of = Expr::Element(Box::new(of), Box::new(index));
                self.eat("]").then_some(())?;
            } else if matches!(of, Expr::Paren(_)) && self.eat(".") {
                of = Expr::Field(Box::new(of), self.name()?);
            } else if self.eat(" COLLATE ") {
                of = Expr::Collate(Box::new(of), self.path()?.join("."));
            } else {
                return Some(of);
            }
            self.link()?;
        }
    }

    fn primary(&mut self) -> Option<Expr> {
        let first = *self.rest.as_bytes().first()?;
        let second = self.rest.as_bytes().get(1).copied().unwrap_or(0);
        match first {
            b'(' => {
                self.eat("(");
                let inner = self.list()?;
                self.eat(")").then(|| Expr::Paren(Box::new(inner)))
            }
            b'$' => {
                let digits = self.rest[1..].find(|c: char| !c.is_ascii_digit());
                let text = self.take(digits.map_or(self.rest.len(), |digits| 1 + digits));
                text[1..].parse().ok().map(Expr::Param)
            }
            b'\'' => self.string(0),
            b'e' | b'E' | b'b' | b'B' | b'x' | b'X' if second == b'\'' => self.string(1),
            b'0'..=b'9' => Some(self.number()),
            b'-' if second.is_ascii_digit() => Some(self.number()),
            b'.' if self.eat("...") => Some(Expr::Raw("...".to_owned())),
            b'*' if self.eat("*") => Some(Expr::Raw("*".to_owned())),
            b'"' => self.named(),
            first if sql::begins_word(first) => self.word(),
            _ => {
                let end = self.rest.find(|c| !OPERATOR.contains(c))?;
                let operator = self.take(end);
                let fine = end > 0 && operator != "--" && self.eat(" ");
                fine.then_some(())?;
                self.link()?;
                Some(Expr::Prefix(operator.to_owned(), Box::new(self.operand()?)))
            }
        }
    }

    /// What begins with a word.
    fn word(&mut self) -> Option<Expr> {
        if self.eat("CASE") {
            return self.case();
        }
        if self.eat("ARRAY[") {
            let mut parts = Vec::new();
            while !self.eat("]") {
                (parts.is_empty() || self.eat(", ")).then_some(())?;
                parts.push(self.part()?);
            }
            return Some(Expr::Array(parts));
        }
        for (word, all) in [("ANY ", false), ("ALL ", true)] {
            if self.eat(word) {
                let of = Box::new(self.nested(Self::primary)?);
                return Some(Expr::Quantified { all, of });
            }
        }
        if let Some((hashed, name)) = subplan(self.rest) {
            self.take(if hashed { HASHED.len() } else { 0 } + name.len());
            let name = name.to_owned();
            return Some(Expr::SubPlan { hashed, name });
        }
        for prefix in PREFIXES {
            if self.eat_word(prefix) {
                self.eat(" ").then_some(())?;
                self.link()?;
                let of = Box::new(self.key()?);
                return Some(Expr::Prefix((*prefix).to_owned(), of));
            }
        }
        self.named()
    }

    /// Behind `CASE`.
    fn case(&mut self) -> Option<Expr> {
        let mut parts = Vec::new();
        loop {
            let mut words = [" WHEN ", " THEN ", " ELSE "].into_iter();
            let before = match () {
                () if self.eat_word(" END") => return Some(Expr::Case(parts)),
                () => words.find(|word| self.eat(word)),
            };
            let before = before.or_else(|| (parts.is_empty() && self.eat(" ")).then_some(" "))?;
            parts.push((before, self.expr()?));
        }
    }

    /// A column, a call, or a word that stands for a value.
    fn named(&mut self) -> Option<Expr> {
        let path = self.path()?;
        if self.eat("(") {
            return self
                .arguments()
                .map(|arguments| Expr::Call(path, arguments));
        }
        Some(match path.as_slice() {
            [only] if is_word(only) => Expr::Const(only.clone()),
            _ => Expr::Column(path),
        })
    }

    fn arguments(&mut self) -> Option<Vec<(&'static str, Expr)>> {
        let mut arguments = Vec::new();
        let mut before = BEFORE.iter().find(|word| self.eat(word)).copied();
        while !self.eat(")") {
            let between = || BETWEEN.iter();
            let first = arguments.is_empty();
            let lead = match before.take() {
                Some(before) => before,
                None if first => "",
                None => between().find(|word| self.eat(word))?,
            };
            let begin = self.rest;
            let ends = |rest: &str| rest.starts_with(')') || between().any(|w| rest.starts_with(w));
            let argument = self.key().filter(|_| ends(self.rest));
            let argument = match argument {
                Some(argument) => argument,
                None => {
                    self.rest = begin;
                    let text = self.take(balanced(begin)?);
                    (!text.is_empty()).then(|| Expr::Raw(text.to_owned()))?
                }
            };
            arguments.push((lead, argument));
        }
        Some(arguments)
    }

    fn path(&mut self) -> Option<Vec<String>> {
        let mut path = vec![self.name()?];
        while self.eat(".") {
            path.push(match self.eat("*") {
                true => "*".to_owned(),
                false => self.name()?,
            });
        }
        Some(path)
    }

    fn name(&mut self) -> Option<String> {
        let bytes = self.rest.as_bytes();
        let length = match bytes.first()? {
            b'"' => sql::quoted(bytes, false)?,
            first if sql::begins_word(*first) => sql::word(bytes),
            _ => return None,
        };
        Some(self.take(length).to_owned())
    }

    fn type_name(&mut self) -> Option<String> {
        let begin = self.rest;
        self.path()?;
        while OF_TYPES.iter().any(|more| self.eat(more)) || self.eat("(") {
            if begin[..begin.len() - self.rest.len()].ends_with('(') {
                let inner = self.rest.find(['(', ')', '\'', '"'])?;
                self.take(inner);
                self.eat(")").then_some(())?;
            }
        }
        Some(begin[..begin.len() - self.rest.len()].to_owned())
    }

    fn string(&mut self, prefix: usize) -> Option<Expr> {
        let escapes = prefix > 0 && self.rest.starts_with(['e', 'E']);
        let length = sql::quoted(&self.rest.as_bytes()[prefix..], escapes)?;
        let text = self.rest.get(..prefix + length)?;
        self.take(text.len());
        Some(Expr::Const(text.to_owned()))
    }

    fn number(&mut self) -> Expr {
        let minus = usize::from(self.rest.starts_with('-'));
        let of_number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
        let end = self.rest[minus..].find(|c| !of_number(c));
        let text = self.take(end.map_or(self.rest.len(), |end| minus + end));
        Expr::Const(text.to_owned())
    }
}

/// Before a subquery whose rows are put into a hash table.
const HASHED: &str = "hashed ";

/// The subquery with whose name a text begins, and whether it is hashed.
fn subplan(text: &str) -> Option<(bool, &str)> {
    let hashed = text.strip_prefix(HASHED);
    let text = hashed.unwrap_or(text);
    let kind = ["SubPlan ", "InitPlan "];
    let kind = kind.into_iter().find(|kind| text.starts_with(kind))?;
    let behind = text[kind.len()..].strip_prefix('$');
    let dollar = usize::from(behind.is_some());
    let number = &text[kind.len() + dollar..];
    let length = number.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let length = length.unwrap_or(number.len());
    (length > 0).then(|| (hashed.is_some(), &text[..kind.len() + dollar + length]))
}

/// Bytes up to a comma or the end of what a text stands in; none where a quote does not end.
fn balanced(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b',' | b')' | b']' if depth == 0 => break,
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            _ => {}
        }
        at += token(bytes, at)?;
    }
    Some(at)
}

/// Bytes of the token at a place, as far as quotes, numbers and words matter.
fn token(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    let while_is = |is: fn(&u8) -> bool| rest[1..].iter().take_while(|b| is(b)).count();
    match rest {
        [b'e' | b'E', b'\'', ..] => sql::quoted(&rest[1..], true).map(|length| 1 + length),
        [b'\'' | b'"', ..] => sql::quoted(rest, false),
        [b'$', ..] => Some(1 + while_is(u8::is_ascii_digit)),
        [b'0'..=b'9', ..] => {
            let of_number = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_');
            Some(1 + while_is(of_number))
        }
        [first, ..] if sql::begins_word(*first) => Some(sql::word(rest)),
        _ => Some(1),
    }
}

/// Whether a text has no comments and no strings in dollars, which ruleutils.c never prints, and no quote is left open.
pub(super) fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let odd = match rest {
            [b'-', b'-', ..] | [b'/', b'*', ..] => true,
            [b'$', next, ..] => !next.is_ascii_digit(),
            _ => rest == b"$",
        };
        match token(bytes, at) {
            Some(length) if !odd => at += length,
            _ => return false,
        }
    }
    true
}

/// The names in a text that is not parsed, of functions that are called or of all else, each with what qualifies it.
pub(super) fn names(text: &str, called: bool) -> Vec<Vec<String>> {
    let bytes = text.as_bytes();
    let mut found: Vec<Vec<String>> = Vec::new();
    let (mut at, mut path) = (0, Vec::new());
    while let Some(length) = bytes.get(at).and_then(|_| token(bytes, at)) {
        let is_name =
            bytes[at] == b'"' || sql::begins_word(bytes[at]) && bytes[at + length - 1] != b'\'';
        let next = bytes.get(at + length).copied();
        if is_name && let Some(name) = text.get(at..at + length) {
            path.push(name.to_owned());
            if next != Some(b'.') {
                let name = std::mem::take(&mut path);
                found.extend(Some(name).filter(|_| called == (next == Some(b'('))));
            }
        } else if bytes[at] != b'.' {
            path.clear();
        }
        at += length;
    }
    found
}

/// The parameters in a text that is not parsed.
pub(super) fn params(text: &str) -> Vec<u32> {
    let bytes = text.as_bytes();
    let (mut at, mut found) = (0, Vec::new());
    while let Some(length) = bytes.get(at).and_then(|_| token(bytes, at)) {
        if bytes[at] == b'$' {
            found.extend(text[at + 1..at + length].parse::<u32>());
        }
        at += length;
    }
    found
}

/// The subqueries in a text that is not parsed.
pub(super) fn subplans(text: &str) -> Vec<(bool, &str)> {
    let begins = text.char_indices().map(|(at, _)| &text[at..]);
    let mut found: Vec<_> = begins.filter_map(subplan).collect();
    // What is hashed was found by its bare name, too.
    for at in (1..found.len()).rev() {
        if found[at - 1] == (true, found[at].1) {
            found.remove(at);
        }
    }
    found
}
