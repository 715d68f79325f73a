//! From an expression's text to its program, in one pass.
//!
//! Precedence, from loose to tight: OR; AND; NOT; IS, ISNULL, NOTNULL; comparisons (which do not
//! chain); `| # & << >> ~`; `+ -`; `* / %`; unary `+ -`. `~` is a prefix as loose as the other bit
//! operators, so `~1 + 2` is `~(1 + 2)`: that is how pgbench reads it.

use super::expr::{Expr, Func, Op};
use super::token::{Spanned, Token, Tokens};
use super::value::{MAX_ARGUMENTS, Value};
use super::{Mistake, Symbols};

/// How deep parentheses, CASE and prefixes may nest. pgbench's own parser gives up at 10,000
/// symbols; nobody writes 200.
const MAX_DEPTH: u32 = 200;
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Level {
    Or = 1,
    And,
    Not,
    Is,
    Compare,
    Bits,
    Sum,
    Product,
    Sign,
}

impl Level {
    fn next(self) -> Level {
        match self {
            Level::Or => Level::And,
            Level::And => Level::Not,
            Level::Not => Level::Is,
            Level::Is => Level::Compare,
            Level::Compare => Level::Bits,
            Level::Bits => Level::Sum,
            Level::Sum => Level::Product,
            Level::Product | Level::Sign => Level::Sign,
        }
    }
}

/// An expression compiled.
pub(super) struct Compiled {
    pub expr: Expr,
    /// A mistake that pgbench finds only when it evaluates the expression.
    pub deferred: Option<Mistake>,
}

/// Compiles the tokens of an expression that ends at byte `end`; `last` is the last byte that
/// pgbench has read when it has come to the end.
pub(super) fn compile(
    tokens: Tokens<'_>,
    end: usize,
    last: usize,
    symbols: &mut Symbols,
) -> Result<Compiled, Mistake> {
    let mut parser = Parser {
        tokens: &tokens.found,
        at: 0,
        end,
        last,
        depth: 0,
        code: Vec::new(),
        deferred: None,
        symbols,
    };
    let parsed = parser.whole();
    let at_the_end = parser.at >= tokens.found.len();
    let (code, deferred) = (parser.code, parser.deferred);
    match tokens.mistake {
        // What is no token is met where the tokens end.
        Some(mistake) if at_the_end => Err(mistake),
        _ => parsed.map(|()| Compiled {
            expr: Expr { code },
            deferred,
        }),
    }
}

struct Parser<'t, 's> {
    tokens: &'t [Spanned<'t>],
    at: usize,
    end: usize,
    last: usize,
    depth: u32,
    code: Vec<Op>,
    deferred: Option<Mistake>,
    symbols: &'s mut Symbols,
}

impl<'t> Parser<'t, '_> {
    fn whole(&mut self) -> Result<(), Mistake> {
        self.expression(Level::Or)?;
        if self.at < self.tokens.len() {
            return Err(self.unexpected("expected an operator or the end of the line"));
        }
        Ok(())
    }

    fn peek(&self) -> Option<Token<'t>> {
        self.tokens.get(self.at).map(|t| t.token)
    }

    fn accept(&mut self, token: Token<'_>) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, token: Token<'_>, what: &str) -> Result<(), Mistake> {
        if self.accept(token) {
            Ok(())
        } else {
            Err(self.unexpected(what))
        }
    }

    fn offset(&self) -> usize {
        self.tokens.get(self.at).map_or(self.end, |t| t.offset)
    }

    fn unexpected(&self, wanted: &str) -> Mistake {
        let (caret, hint) = match self.tokens.get(self.at) {
            Some(found) => (found.end - 1, format!("{wanted}, not {}", found.token)),
            None => (self.last, wanted.to_owned()),
        };
        Mistake::new(self.offset(), "syntax error")
            .hint(hint)
            .caret(caret)
    }

    /// The last byte of the token before.
    fn last_read(&self) -> usize {
        let before = self.tokens.get(self.at.wrapping_sub(1));
        before.map_or(self.last, |token| token.end - 1)
    }

    fn nested(&mut self, level: Level) -> Result<(), Mistake> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Mistake::new(
                self.offset(),
                format!("the expression nests deeper than {MAX_DEPTH} levels"),
            ));
        }
        let result = self.expression(level);
        self.depth -= 1;
        result
    }

    /// Parses operators at least as tight as `least`.
    fn expression(&mut self, least: Level) -> Result<(), Mistake> {
        let start = self.code.len();
        self.operand()?;
        let mut compared = false;
        while let Some(token) = self.peek() {
            let Some((level, operator)) = binary(token) else {
                break;
            };
            if level < least {
                break;
            }
            if level == Level::Compare {
                // After a comparison only a looser operator may follow.
                if compared {
                    return Err(self.unexpected("comparisons do not chain, use parentheses"));
                }
                compared = true;
            } else if level < Level::Compare {
                compared = false;
            }
            self.at += 1;
            match operator {
                Operator::Is => self.is_what()?,
                Operator::IsNull => self.is(Value::Null, false),
                Operator::NotNull => self.is(Value::Null, true),
                Operator::Call(func) => {
                    self.nested(level.next())?;
                    self.code.push(Op::Call(func, 2));
                }
                Operator::Swapped(func) => {
                    let middle = self.code.len();
                    self.nested(level.next())?;
                    self.code[start..].rotate_left(middle - start);
                    self.code.push(Op::Call(func, 2));
                }
                Operator::And | Operator::Or => {
                    let jump = self.code.len();
                    self.code.push(Op::NeedBool); // holds the place
                    self.nested(level.next())?;
                    self.code.push(Op::NeedBool);
                    let distance = (self.code.len() - jump - 1) as u32;
                    self.code[jump] = match operator {
                        Operator::And => Op::AndThen(distance),
                        _ => Op::OrElse(distance),
                    };
                }
            }
        }
        Ok(())
    }

    fn is(&mut self, value: Value, negated: bool) {
        self.code.push(Op::Push(value));
        self.code.push(Op::Call(Func::Is, 2));
        if negated {
            self.code.push(Op::Call(Func::Not, 1));
        }
    }

    fn is_what(&mut self) -> Result<(), Mistake> {
        let negated = self.accept(Token::Not);
        let value = match self.peek() {
            Some(Token::Null) => Value::Null,
            Some(Token::Bool(b)) => Value::Bool(b),
            _ => return Err(self.unexpected("expected NULL, TRUE or FALSE after IS")),
        };
        self.at += 1;
        self.is(value, negated);
        Ok(())
    }

    fn operand(&mut self) -> Result<(), Mistake> {
        let Some(token) = self.peek() else {
            return Err(self.unexpected("expected a value"));
        };
        let here = self.at;
        self.at += 1;
        match token {
            Token::Null => self.code.push(Op::Push(Value::Null)),
            Token::Bool(b) => self.code.push(Op::Push(Value::Bool(b))),
            Token::Int(i) => self.code.push(Op::Push(Value::Int(i))),
            Token::Double(d) => self.code.push(Op::Push(Value::Double(d))),
            Token::Variable(name) => {
                let slot = self.symbols.slot(name);
                self.code.push(Op::Load(slot));
            }
            Token::LeftParen => {
                self.nested(Level::Or)?;
                self.expect(Token::RightParen, "expected )")?;
            }
            Token::Plus => self.nested(Level::Sign)?,
            Token::Minus if self.accept(Token::IntLimit) => {
                self.code.push(Op::Push(Value::Int(i64::MIN)));
            }
            Token::Minus => {
                self.code.push(Op::Push(Value::Int(0)));
                self.nested(Level::Sign)?;
                self.code.push(Op::Call(Func::Sub, 2));
            }
            Token::Tilde => {
                self.code.push(Op::Push(Value::Int(-1)));
                self.nested(Level::Bits.next())?;
                self.code.push(Op::Call(Func::BitXor, 2));
            }
            Token::Not => {
                self.nested(Level::Not)?;
                self.code.push(Op::Call(Func::Not, 1));
            }
            Token::Case => self.case()?,
            Token::Name(name) => self.function(name, here)?,
            _ => {
                self.at = here;
                return Err(self.unexpected("expected a value"));
            }
        }
        Ok(())
    }

    fn case(&mut self) -> Result<(), Mistake> {
        let mut exits = Vec::new();
        self.expect(Token::When, "expected WHEN")?;
        loop {
            self.nested(Level::Or)?;
            self.expect(Token::Then, "expected THEN")?;
            let skip = self.code.len();
            self.code.push(Op::JumpUnless(0));
            self.nested(Level::Or)?;
            exits.push(self.code.len());
            self.code.push(Op::Jump(0));
            self.code[skip] = Op::JumpUnless((self.code.len() - skip - 1) as u32);
            if !self.accept(Token::When) {
                break;
            }
        }
        if self.accept(Token::Else) {
            self.nested(Level::Or)?;
        } else {
            self.code.push(Op::Push(Value::Null));
        }
        self.expect(Token::End, "expected WHEN, ELSE or END")?;
        for exit in exits {
            self.code[exit] = Op::Jump((self.code.len() - exit - 1) as u32);
        }
        Ok(())
    }

    fn function(&mut self, name: &str, name_at: usize) -> Result<(), Mistake> {
        let name_offset = self.tokens[name_at].offset;
        let Some(&(known, func, arity)) = FUNCTIONS
            .iter()
            .find(|(known, ..)| known.eq_ignore_ascii_case(name))
        else {
            return Err(Mistake::new(name_offset, "unexpected function name")
                .detail(name)
                .caret(self.last_read()));
        };
        self.expect(Token::LeftParen, "expected ( after the function's name")?;
        let mut count = 0usize;
        // pgbench's grammar takes an empty first argument: f(, 1) has one argument. So do we.
        if !matches!(self.peek(), Some(Token::RightParen | Token::Comma)) {
            self.nested(Level::Or)?;
            count = 1;
        }
        while self.accept(Token::Comma) {
            self.nested(Level::Or)?;
            count += 1;
        }
        self.expect(Token::RightParen, "expected , or )")?;
        let (fits, takes) = match arity {
            Arity::Exactly(n) => (count == n, n.to_string()),
            Arity::AtLeastOne => (count >= 1, String::new()),
            Arity::Hash => (count == 1 || count == 2, "1 or 2".to_owned()),
            Arity::Permute => (count == 2 || count == 3, "2 or 3".to_owned()),
        };
        if !fits {
            let what = match arity {
                Arity::AtLeastOne => "at least one argument expected",
                _ => "unexpected number of arguments",
            };
            let mut mistake = Mistake::new(name_offset, what).detail(known);
            if !takes.is_empty() {
                mistake = mistake.hint(format!("it takes {takes}, not {count}"));
            }
            return Err(mistake.caret(self.last_read()));
        }
        if count > MAX_ARGUMENTS {
            // pgbench finds out when it evaluates the function.
            self.code.push(Op::TooMany);
            self.deferred.get_or_insert_with(|| {
                let what = format!("too many function arguments, maximum is {MAX_ARGUMENTS}");
                Mistake::new(name_offset, what)
            });
            return Ok(());
        }
        // The optional seed is the variable default_seed.
        if (arity == Arity::Hash && count == 1) || (arity == Arity::Permute && count == 2) {
            let slot = self.symbols.slot("default_seed");
            self.code.push(Op::Load(slot));
            count += 1;
        }
        self.code.push(Op::Call(func, count as u8));
        Ok(())
    }
}

enum Operator {
    Call(Func),
    Swapped(Func),
    And,
    Or,
    Is,
    IsNull,
    NotNull,
}

fn binary(token: Token<'_>) -> Option<(Level, Operator)> {
    use Operator::{Call, Swapped};
    Some(match token {
        Token::Or => (Level::Or, Operator::Or),
        Token::And => (Level::And, Operator::And),
        Token::Is => (Level::Is, Operator::Is),
        Token::IsNull => (Level::Is, Operator::IsNull),
        Token::NotNull => (Level::Is, Operator::NotNull),
        Token::Equal => (Level::Compare, Call(Func::Eq)),
        Token::NotEqual => (Level::Compare, Call(Func::Ne)),
        Token::Less => (Level::Compare, Call(Func::Lt)),
        Token::LessEqual => (Level::Compare, Call(Func::Le)),
        Token::Greater => (Level::Compare, Swapped(Func::Lt)),
        Token::GreaterEqual => (Level::Compare, Swapped(Func::Le)),
        Token::Bar => (Level::Bits, Call(Func::BitOr)),
        Token::Hash => (Level::Bits, Call(Func::BitXor)),
        Token::Ampersand => (Level::Bits, Call(Func::BitAnd)),
        Token::ShiftLeft => (Level::Bits, Call(Func::ShiftLeft)),
        Token::ShiftRight => (Level::Bits, Call(Func::ShiftRight)),
        Token::Plus => (Level::Sum, Call(Func::Add)),
        Token::Minus => (Level::Sum, Call(Func::Sub)),
        Token::Star => (Level::Product, Call(Func::Mul)),
        Token::Slash => (Level::Product, Call(Func::Div)),
        Token::Percent => (Level::Product, Call(Func::Mod)),
        _ => return None,
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Arity {
    Exactly(usize),
    AtLeastOne,
    /// A value and, optionally, a seed.
    Hash,
    /// A value, a size and, optionally, a seed.
    Permute,
}

/// Every function of the manual's table, with what it takes.
const FUNCTIONS: &[(&str, Func, Arity)] = &[
    ("abs", Func::Abs, Arity::Exactly(1)),
    ("debug", Func::Debug, Arity::Exactly(1)),
    ("double", Func::Double, Arity::Exactly(1)),
    ("exp", Func::Exp, Arity::Exactly(1)),
    ("greatest", Func::Greatest, Arity::AtLeastOne),
    ("hash", Func::HashMurmur2, Arity::Hash),
    ("hash_fnv1a", Func::HashFnv1a, Arity::Hash),
    ("hash_murmur2", Func::HashMurmur2, Arity::Hash),
    ("int", Func::Int, Arity::Exactly(1)),
    ("least", Func::Least, Arity::AtLeastOne),
    ("ln", Func::Ln, Arity::Exactly(1)),
    ("mod", Func::Mod, Arity::Exactly(2)),
    ("permute", Func::Permute, Arity::Permute),
    ("pi", Func::Pi, Arity::Exactly(0)),
    ("pow", Func::Pow, Arity::Exactly(2)),
    ("power", Func::Pow, Arity::Exactly(2)),
    ("random", Func::Random, Arity::Exactly(2)),
    (
        "random_exponential",
        Func::RandomExponential,
        Arity::Exactly(3),
    ),
    ("random_gaussian", Func::RandomGaussian, Arity::Exactly(3)),
    ("random_zipfian", Func::RandomZipfian, Arity::Exactly(3)),
    ("sqrt", Func::Sqrt, Arity::Exactly(1)),
];
