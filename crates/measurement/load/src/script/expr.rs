//! Expressions in the form in which they run: a short program for a stack machine.
//!
//! A stack machine needs no recursion, so a script with ten thousand terms in one expression can
//! exhaust neither the stack of a load thread nor that of the destructor, and it evaluates without
//! allocating. Jumps are relative, so that a piece of code may be moved (`a > b` is `b < a`, with
//! the operands evaluated in that order, as pgbench does).

use bytes::BufMut;

use super::random::{self, Random};
use super::value::{EvalError, Value};

/// The place of a variable in a client's table.
pub type Slot = u32;

/// A function or operator with all operands evaluated beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the names are those of the manual
pub enum Func {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Eq,
    Ne,
    Lt,
    Le,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Not,
    Is,
    Abs,
    Debug,
    Double,
    Exp,
    Greatest,
    HashFnv1a,
    HashMurmur2,
    Int,
    Least,
    Ln,
    Permute,
    Pi,
    Pow,
    Random,
    RandomExponential,
    RandomGaussian,
    RandomZipfian,
    Sqrt,
}

/// One step of the stack machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Op {
    /// Pushes a constant.
    Push(Value),
    /// Pushes a variable's value.
    Load(Slot),
    /// Replaces the topmost operands by the function's value.
    Call(Func, u8),
    /// After the left side of AND: false and NULL stay and jump, true is dropped.
    AndThen(u32),
    /// After the left side of OR: true and NULL stay and jump, false is dropped.
    OrElse(u32),
    /// After the right side of AND and OR: a boolean or NULL is required.
    NeedBool,
    /// Drops a condition and jumps where it does not hold.
    JumpUnless(u32),
    /// Jumps.
    Jump(u32),
    /// A function with more arguments than pgbench evaluates.
    TooMany,
}

/// A compiled expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    pub(super) code: Vec<Op>,
}

/// A client's variable.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Var {
    /// Never set.
    #[default]
    Unset,
    /// Set by `\set`, `\setshell` or by the program.
    Value(Value),
    /// Set from a text, by `-D`, `\gset` or `\aset`; read as a value when an expression needs it.
    Text(Box<str>),
}

impl Var {
    /// Appends the variable's text; false where it is not set.
    pub fn write_text(&self, out: &mut impl BufMut) -> bool {
        match self {
            Var::Unset => return false,
            Var::Value(value) => value.write_text(out),
            Var::Text(text) => out.put_slice(text.as_bytes()),
        }
        true
    }
}

/// What an expression may use while it runs.
pub struct Scope<'a> {
    /// The client's variables, by slot.
    pub vars: &'a [Var],
    /// The names of the slots, for messages.
    pub names: &'a [String],
    /// The client's random stream.
    pub random: &'a mut Random,
    /// Where `debug()` shows a value.
    pub debug: &'a mut dyn FnMut(Value),
    /// Room for operands; kept between evaluations.
    pub stack: &'a mut Vec<Value>,
}

impl Expr {
    /// The variables that it may read.
    pub fn slots(&self) -> impl Iterator<Item = Slot> {
        self.code.iter().filter_map(|op| match op {
            Op::Load(slot) => Some(*slot),
            _ => None,
        })
    }

    /// The value, or why there is none.
    pub fn evaluate(&self, scope: &mut Scope<'_>) -> Result<Value, EvalError> {
        scope.stack.clear();
        let mut at = 0usize;
        while let Some(op) = self.code.get(at) {
            at += 1;
            match *op {
                Op::Push(value) => scope.stack.push(value),
                Op::Load(slot) => {
                    let value = scope.load(slot)?;
                    scope.stack.push(value);
                }
                Op::Call(func, count) => {
                    let first = scope.stack.len() - usize::from(count);
                    let value = call(func, first, scope)?;
                    scope.stack.truncate(first);
                    scope.stack.push(value);
                }
                Op::AndThen(distance) => {
                    if scope.decides(false)? {
                        at += distance as usize;
                    }
                }
                Op::OrElse(distance) => {
                    if scope.decides(true)? {
                        at += distance as usize;
                    }
                }
                Op::NeedBool => {
                    let top = scope.stack.last().copied().unwrap_or(Value::Null);
                    if top != Value::Null {
                        top.to_bool()?;
                    }
                }
                Op::JumpUnless(distance) => {
                    if !scope.stack.pop().unwrap_or(Value::Null).holds() {
                        at += distance as usize;
                    }
                }
                Op::Jump(distance) => at += distance as usize,
                Op::TooMany => return Err(EvalError::TooManyArguments),
            }
        }
        Ok(scope.stack.pop().unwrap_or(Value::Null))
    }
}

impl Scope<'_> {
    fn load(&self, slot: Slot) -> Result<Value, EvalError> {
        let name = || self.names.get(slot as usize).map_or("", String::as_str);
        match self.vars.get(slot as usize) {
            Some(Var::Value(value)) => Ok(*value),
            Some(Var::Text(text)) => Value::from_text(name(), text),
            Some(Var::Unset) | None => Err(EvalError::Undefined(name().to_owned())),
        }
    }

    /// Whether the left side alone decides; where not, it is dropped.
    fn decides(&mut self, deciding: bool) -> Result<bool, EvalError> {
        let left = self.stack.last().copied().unwrap_or(Value::Null);
        if left == Value::Null || left.to_bool()? == deciding {
            return Ok(true);
        }
        self.stack.pop();
        Ok(false)
    }
}

fn call(func: Func, first: usize, scope: &mut Scope<'_>) -> Result<Value, EvalError> {
    let args = &scope.stack[first..];
    // What most scripts do most.
    if let [Value::Int(left), Value::Int(right)] = *args {
        match func {
            Func::Mul => {
                if let Some(product) = left.checked_mul(right) {
                    return Ok(Value::Int(product));
                }
            }
            Func::Random => return draw(func, left, right, Value::Null, scope.random),
            _ => {}
        }
    }
    if args.contains(&Value::Null) && !matches!(func, Func::Is | Func::Debug) {
        return Ok(Value::Null);
    }
    let arg = |i: usize| args.get(i).copied().unwrap_or(Value::Null);
    match func {
        Func::Add | Func::Sub | Func::Mul | Func::Div => arithmetic(func, arg(0), arg(1)),
        Func::Eq | Func::Ne | Func::Lt | Func::Le => compare(func, arg(0), arg(1)),
        Func::Mod => modulo(arg(0).to_int()?, arg(1).to_int()?),
        Func::BitAnd | Func::BitOr | Func::BitXor | Func::ShiftLeft | Func::ShiftRight => {
            let (left, right) = (arg(0).to_int()?, arg(1).to_int()?);
            Ok(Value::Int(match func {
                Func::BitAnd => left & right,
                Func::BitOr => left | right,
                Func::BitXor => left ^ right,
                // The count is taken modulo 64, as x86-64 and A64 do for pgbench's C.
                Func::ShiftLeft => left.wrapping_shl(right as u32),
                _ => left.wrapping_shr(right as u32),
            }))
        }
        Func::Not => Ok(Value::Bool(!arg(0).to_bool()?)),
        Func::Is => Ok(Value::Bool(arg(0) == arg(1))),
        Func::Abs => match arg(0) {
            Value::Int(i) => Ok(Value::Int(i.wrapping_abs())),
            other => Ok(Value::Double(other.to_double()?.abs())),
        },
        Func::Debug => {
            let value = arg(0);
            (scope.debug)(value);
            Ok(value)
        }
        Func::Double => Ok(Value::Double(arg(0).to_double()?)),
        Func::Exp => Ok(Value::Double(arg(0).to_double()?.exp())),
        Func::Ln => Ok(Value::Double(arg(0).to_double()?.ln())),
        Func::Sqrt => Ok(Value::Double(arg(0).to_double()?.sqrt())),
        Func::Pow => Ok(Value::Double(arg(0).to_double()?.powf(arg(1).to_double()?))),
        Func::Pi => Ok(Value::Double(std::f64::consts::PI)),
        Func::Int => Ok(Value::Int(arg(0).to_int()?)),
        Func::Greatest => extremum(args, |new, old| new > old, |new, old| new > old),
        Func::Least => extremum(args, |new, old| new < old, |new, old| new < old),
        Func::HashFnv1a => Ok(Value::Int(random::hash_fnv1a(
            arg(0).to_int()?,
            arg(1).to_int()?,
        ))),
        Func::HashMurmur2 => Ok(Value::Int(random::hash_murmur2(
            arg(0).to_int()?,
            arg(1).to_int()?,
        ))),
        Func::Permute => {
            let (value, size, seed) = (arg(0).to_int()?, arg(1).to_int()?, arg(2).to_int()?);
            if size <= 0 {
                return Err(EvalError::Parameter(
                    "permute size parameter must be greater than zero".to_owned(),
                ));
            }
            Ok(Value::Int(random::permute(value, size, seed)))
        }
        Func::Random | Func::RandomExponential | Func::RandomGaussian | Func::RandomZipfian => {
            let (low, high, parameter) = (arg(0).to_int()?, arg(1).to_int()?, arg(2));
            draw(func, low, high, parameter, scope.random)
        }
    }
}

fn arithmetic(func: Func, left: Value, right: Value) -> Result<Value, EvalError> {
    if matches!(left, Value::Double(_)) || matches!(right, Value::Double(_)) {
        let (l, r) = (left.to_double()?, right.to_double()?);
        return Ok(Value::Double(match func {
            Func::Add => l + r,
            Func::Sub => l - r,
            Func::Mul => l * r,
            _ => l / r,
        }));
    }
    let (l, r) = (left.to_int()?, right.to_int()?);
    let (result, name) = match func {
        Func::Add => (l.checked_add(r), "add"),
        Func::Sub => (l.checked_sub(r), "sub"),
        Func::Mul => (l.checked_mul(r), "mul"),
        _ if r == 0 => return Err(EvalError::DivisionByZero),
        _ => (l.checked_div(r), "div"),
    };
    result.map(Value::Int).ok_or(EvalError::IntOverflow(name))
}

fn modulo(left: i64, right: i64) -> Result<Value, EvalError> {
    if right == 0 {
        Err(EvalError::DivisionByZero)
    } else {
        Ok(Value::Int(left.wrapping_rem(right)))
    }
}

fn compare(func: Func, left: Value, right: Value) -> Result<Value, EvalError> {
    let holds = if matches!(left, Value::Double(_)) || matches!(right, Value::Double(_)) {
        let (l, r) = (left.to_double()?, right.to_double()?);
        match func {
            Func::Eq => l == r,
            Func::Ne => l != r,
            Func::Lt => l < r,
            _ => l <= r,
        }
    } else {
        let (l, r) = (left.to_int()?, right.to_int()?);
        match func {
            Func::Eq => l == r,
            Func::Ne => l != r,
            Func::Lt => l < r,
            _ => l <= r,
        }
    };
    Ok(Value::Bool(holds))
}

/// least() and greatest(): doubles as soon as one argument is a double.
fn extremum(
    args: &[Value],
    better_int: fn(i64, i64) -> bool,
    better_double: fn(f64, f64) -> bool,
) -> Result<Value, EvalError> {
    if args.iter().any(|a| matches!(a, Value::Double(_))) {
        let mut best: Option<f64> = None;
        for arg in args {
            let new = arg.to_double()?;
            // A NaN compares false with everything: C's Min and Max then take the newer value.
            best = Some(match best {
                Some(old) if better_double(old, new) => old,
                _ => new,
            });
        }
        return Ok(best.map_or(Value::Null, Value::Double));
    }
    let mut best: Option<i64> = None;
    for arg in args {
        let new = arg.to_int()?;
        best = Some(match best {
            Some(old) if !better_int(new, old) => old,
            _ => new,
        });
    }
    Ok(best.map_or(Value::Null, Value::Int))
}

fn draw(
    func: Func,
    low: i64,
    high: i64,
    parameter: Value,
    random: &mut Random,
) -> Result<Value, EvalError> {
    let refuse = |text: String| Err(EvalError::Parameter(text));
    if low > high {
        return refuse("empty range given to random".to_owned());
    }
    if high
        .checked_sub(low)
        .and_then(|span| span.checked_add(1))
        .is_none()
    {
        return refuse("random range is too large".to_owned());
    }
    if func == Func::Random {
        return Ok(Value::Int(random.uniform(low, high)));
    }
    let p = parameter.to_double()?;
    Ok(Value::Int(match func {
        Func::RandomGaussian => {
            if p < random::MIN_GAUSSIAN {
                return refuse(format!(
                    "gaussian parameter must be at least {:.6} (not {p:.6})",
                    random::MIN_GAUSSIAN
                ));
            }
            random.gaussian(low, high, p)
        }
        Func::RandomZipfian => {
            if !(random::MIN_ZIPFIAN..=random::MAX_ZIPFIAN).contains(&p) {
                return refuse(format!(
                    "zipfian parameter must be in range [{:.3}, {:.0}] (not {p:.6})",
                    random::MIN_ZIPFIAN,
                    random::MAX_ZIPFIAN
                ));
            }
            random.zipfian(low, high, p)
        }
        _ => {
            if p <= 0.0 {
                return refuse(format!(
                    "exponential parameter must be greater than zero (not {p:.6})"
                ));
            }
            random.exponential(low, high, p)
        }
    }))
}
