//! Whatever a script holds, it compiles or is refused with a place inside of it; what compiles can
//! be evaluated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgassay_load::script::{Command, Program, Random, Scope, Value, Var};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut program = Program::new();
    if let Err(error) = program.add("fuzz", text, 1) {
        assert!(error.line >= 1 && error.line <= text.matches('\n').count() + 1);
        assert!(error.column >= 1);
        return;
    }
    let mut vars = vec![Var::Value(Value::Int(3)); program.symbols().names().len()];
    let mut random = Random::new(1);
    for command in &program.scripts()[0].commands {
        let (expr, into) = match command {
            Command::Set(slot, expr) => (expr, Some(*slot)),
            Command::If { condition, otherwise } => {
                assert!(*otherwise < program.scripts()[0].commands.len());
                (condition, None)
            }
            _ => continue,
        };
        let mut scope = Scope {
            vars: &vars,
            names: program.symbols().names(),
            random: &mut random,
            debug: &mut |_| {},
            stack: &mut Vec::new(),
        };
        let value = expr.evaluate(&mut scope);
        if let (Ok(value), Some(slot)) = (value, into) {
            vars[slot as usize] = Var::Value(value);
        }
    }
});
