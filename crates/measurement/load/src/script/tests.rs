//! What scripts compile to, and what is refused with which place.

use super::*;

fn compile(text: &str) -> Result<Program, ScriptError> {
    let mut program = Program::new();
    program.add("t.sql", text, 1)?;
    Ok(program)
}

/// The value of an expression with `:x` = 7, and what debug() showed.
fn value(expression: &str) -> Result<Value, String> {
    let program = compile(&format!("\\set r {expression}\n")).map_err(|e| e.to_string())?;
    let mut vars = vec![Var::Unset; program.symbols().names().len()];
    for (name, value) in [("x", 7), ("default_seed", 5)] {
        if let Some(slot) = program.symbols().find(name) {
            vars[slot as usize] = Var::Value(Value::Int(value));
        }
    }
    let Command::Set(_, expr) = &program.scripts()[0].commands[0] else {
        return Err("no \\set".to_owned());
    };
    let mut scope = Scope {
        vars: &vars,
        names: program.symbols().names(),
        random: &mut Random::new(1),
        debug: &mut |_| {},
        stack: &mut Vec::new(),
    };
    expr.evaluate(&mut scope).map_err(|e| e.to_string())
}

#[test]
fn precedence_and_associativity() {
    for (expression, expected) in [
        ("1 + 2 * 3", Value::Int(7)),
        ("(1 + 2) * 3", Value::Int(9)),
        ("10 - 3 - 2", Value::Int(5)),
        ("-2 * -3", Value::Int(6)),
        ("~1 + 2", Value::Int(!3)),
        ("~1 | 2", Value::Int(!1 | 2)),
        ("1 * ~2 + 3", Value::Int(!5)),
        ("1 << 2 + 1", Value::Int(8)),
        ("5 # 3 & 1", Value::Int((5 ^ 3) & 1)),
        ("not 1 = 2", Value::Bool(true)),
        ("not true or true", Value::Bool(true)),
        ("true or false and false", Value::Bool(true)),
        ("1 = 1 is true", Value::Bool(true)),
        ("null is null", Value::Bool(true)),
        ("1 is not null", Value::Bool(true)),
        ("1 isnull", Value::Bool(false)),
        ("null notnull", Value::Bool(false)),
        ("3 > 2", Value::Bool(true)),
        ("2 >= 3", Value::Bool(false)),
        ("1 != 2", Value::Bool(true)),
        ("-9223372036854775808", Value::Int(i64::MIN)),
        ("7 / 2", Value::Int(3)),
        ("-7 / 2", Value::Int(-3)),
        ("-7 % 3", Value::Int(-1)),
        ("7 / 2.0", Value::Double(3.5)),
        ("7.6 % 4", Value::Int(0)),
        (".5e1", Value::Double(5.0)),
        ("5.", Value::Double(5.0)),
        (":x + 1", Value::Int(8)),
        ("greatest(1, 2.5, -3)", Value::Double(2.5)),
        ("LEAST(4, 2, 3)", Value::Int(2)),
        (
            "case when :x > 9 then 1 when :x > 6 then 2 else 3 end",
            Value::Int(2),
        ),
        ("case when null then 1 end", Value::Null),
        ("case when 0.0 then 1 else 2 end", Value::Int(2)),
        ("null + 1", Value::Null),
        ("null and false", Value::Null),
        ("false and null", Value::Bool(false)),
        ("true or null", Value::Bool(true)),
        ("hash(0, 5) = hash(0)", Value::Bool(true)),
        ("permute(3, 10, 5) = permute(3, 10)", Value::Bool(true)),
        ("-9223372036854775807 - 1", Value::Int(i64::MIN)),
        ("mod(17, 5)", Value::Int(2)),
        ("abs(-2.5)", Value::Double(2.5)),
        ("pow(2, 10)", Value::Double(1024.0)),
        ("int(2.5)", Value::Int(2)),
    ] {
        assert_eq!(value(expression), Ok(expected), "{expression}");
    }
}

#[test]
fn what_has_no_value_says_why() {
    for (expression, message) in [
        ("1 / 0", "division by zero"),
        ("mod(1, 0)", "division by zero"),
        ("9223372036854775807 + 1", "bigint add out of range"),
        ("(-9223372036854775808) / -1", "bigint div out of range"),
        ("9223372036854775807 * 2", "bigint mul out of range"),
        (":nowhere", "undefined variable \"nowhere\""),
        ("true + 1", "cannot coerce boolean to int"),
        ("true + 1.0", "cannot coerce boolean to double"),
        ("1 and true", "cannot coerce int to boolean"),
        ("true and 1", "cannot coerce int to boolean"),
        ("not 0.5", "cannot coerce double to boolean"),
        (
            "int(1e19)",
            "double to int overflow for 10000000000000000000.000000",
        ),
        ("random(2, 1)", "empty range given to random"),
        (
            "random(-9223372036854775808, 0)",
            "random range is too large",
        ),
        (
            "random_gaussian(1, 2, 1.5)",
            "gaussian parameter must be at least 2.000000 (not 1.500000)",
        ),
        (
            "random_zipfian(1, 2, 1)",
            "zipfian parameter must be in range [1.001, 1000] (not 1.000000)",
        ),
        (
            "random_exponential(1, 2, 0)",
            "exponential parameter must be greater than zero (not 0.000000)",
        ),
        (
            "permute(1, 0)",
            "permute size parameter must be greater than zero",
        ),
    ] {
        assert_eq!(value(expression), Err(message.to_owned()), "{expression}");
    }
}

#[test]
fn very_long_expressions_run_and_very_deep_ones_are_refused() {
    let long = vec!["1"; 20_000].join(" + ");
    assert_eq!(value(&long), Ok(Value::Int(20_000)));
    let ands = vec!["true"; 20_000].join(" and ");
    assert_eq!(value(&ands), Ok(Value::Bool(true)));
    let deep = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(value(&deep).unwrap_err().contains("nests deeper"));
    assert!(value(&"-".repeat(100_000)).is_err());
}

/// Each line: the script, then line, column and a piece of the message.
#[test]
fn mistakes_have_a_place() {
    for (text, line, column, message) in [
        ("SELECT 1;\n\\set a 1 +\n", 2, 11, "expected a value"),
        ("\\set a 1 2", 1, 10, "not 2"),
        ("\\set a 1 = 2 = 3", 1, 14, "do not chain"),
        ("\\set a foo(1)", 1, 8, "unexpected function name (foo)"),
        (
            "\\set a sqrt(1, 2)",
            1,
            8,
            "unexpected number of arguments (sqrt)",
        ),
        ("\\set a least()", 1, 8, "at least one argument"),
        ("\\set a 1 $ 2", 1, 10, "unexpected character ($)"),
        (
            "\\set a 99999999999999999999",
            1,
            8,
            "bigint constant overflow",
        ),
        ("\\set a 1e999", 1, 8, "double constant overflow"),
        (
            "\\set a 9223372036854775808",
            1,
            8,
            "beyond the largest integer",
        ),
        ("\\set a (1", 1, 10, "expected )"),
        ("\\set a case when 1 end", 1, 20, "expected THEN"),
        ("\\set a case 1 end", 1, 13, "expected WHEN"),
        ("\\set a\n", 1, 7, "expected a value"),
        ("\\set\n", 1, 5, "missing argument"),
        ("\\set 1a 2", 1, 6, "invalid variable name"),
        ("\\set a 1 +\\\n  \\\n  )\n", 3, 3, "expected a value"),
        ("\\nosuch", 1, 1, "invalid command in \\nosuch"),
        ("\\sleep", 1, 7, "missing argument"),
        ("\\sleep 1 week", 1, 10, "unrecognized time unit"),
        ("\\sleep 1 s s", 1, 12, "too many arguments"),
        (
            "\\if true\nSELECT 1;",
            1,
            1,
            "\\if without matching \\endif",
        ),
        ("\\endif", 1, 1, "\\endif without matching \\if"),
        ("\\else", 1, 1, "\\else without matching \\if"),
        ("\\elif true", 1, 1, "\\elif without matching \\if"),
        (
            "\\if true\n\\else\n\\else\n\\endif",
            3,
            1,
            "\\else after \\else",
        ),
        (
            "\\if true\n\\else\n\\elif true\n\\endif",
            3,
            1,
            "\\elif after \\else",
        ),
        ("\\if\n\\endif", 1, 4, "expected a value"),
        ("\\endif 1", 1, 8, "unexpected argument in \\endif"),
        ("\\gset", 1, 1, "must follow an SQL command"),
        (
            "SELECT 1 \\gset\n\\gset",
            2,
            1,
            "must follow an SQL command",
        ),
        ("SELECT 1 \\gset a b", 1, 18, "too many arguments"),
        (
            "\\startpipeline\nSELECT 1 \\gset\n\\endpipeline",
            2,
            10,
            "not allowed in pipeline mode",
        ),
        ("\\shell", 1, 7, "missing command"),
        ("\\setshell a", 1, 12, "missing argument in \\setshell"),
        ("-- nothing\n", 2, 1, "empty command list"),
        ("", 1, 1, "empty command list"),
        ("SELECT 'é'; \\set é§ 1 +", 1, 24, "expected a value"),
    ] {
        let error = compile(text).expect_err(text);
        assert_eq!((error.line, error.column), (line, column), "{error}");
        assert!(error.message.contains(message), "{error}");
    }
}

/// Each line: the script, and what pgbench 15 prints.
#[test]
fn mistakes_are_told_in_pgbenchs_words() {
    for (text, told) in [
        (
            "\\set i 1 +\n",
            "t.sql:1: syntax error in command \"set\"\n\\set i 1 +\n          ^ error found here",
        ),
        (
            "select 1;\n\\set i noSuchFunction()",
            "t.sql:2: unexpected function name (noSuchFunction) in command \"set\"\n\\set i noSuchFunction()\n                    ^ error found here",
        ),
        (
            "\\if",
            "t.sql:1: syntax error in command \"if\"\n\\if\n  ^ error found here",
        ),
        ("\\set", "t.sql:1: missing argument in command \"set\""),
        (
            "\\setshell var",
            "t.sql:1: missing argument in command \"setshell\"\n\\setshell var",
        ),
        (
            "\\set i greatest())",
            "t.sql:1: at least one argument expected (greatest) in command \"set\"\n\\set i greatest())\n                ^ error found here",
        ),
        (
            "\\set i 1 1 ;",
            "t.sql:1: syntax error in command \"set\"\n\\set i 1 1 ;\n         ^ error found here",
        ),
        (
            "\\sleep 1 week",
            "t.sql:1: unrecognized time unit, must be us, ms or s (week) in command \"sleep\"\n\\sleep 1 week\n         ^ error found here",
        ),
        (
            "\\nosuch",
            "t.sql:1: invalid command in command \"nosuch\"\n\\nosuch",
        ),
        ("\\gset", "t.sql:1: \\gset must follow an SQL command"),
        (
            "\\if 1\n",
            "condition error in script \"t.sql\" command 2: \\if without matching \\endif",
        ),
        (
            "\\if 0\n\\else\n\\else\n\\endif",
            "condition error in script \"t.sql\" command 3: \\else after \\else",
        ),
        ("", "empty command list for script \"t.sql\""),
        (
            &format!("\\shell echo {}", "arg ".repeat(255)),
            "t.sql:1: too many arguments in command \"shell\"",
        ),
    ] {
        let error = Program::new().add_deferring("t.sql", text, 1).unwrap_err();
        assert_eq!(&*error.as_pgbench, told);
    }
}

#[test]
fn what_pgbench_refuses_when_it_executes_it_is_refused_before_or_kept() {
    for text in [
        "\\set . 1",
        "\\set a least(0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16)",
        "\\startpipeline\nselect 1 \\gset a\n\\endpipeline",
        "select 1 \\gset 1a",
    ] {
        assert!(compile(text).is_err(), "{text}");
        let mut program = Program::new();
        program.add_deferring("t.sql", text, 1).unwrap();
        assert_eq!(program.scripts().len(), 1);
    }
}

#[test]
fn a_mistake_in_the_hundredth_line_is_shown() {
    let text = "SELECT 1;\n".repeat(99) + "\\set x (1 + \n";
    let shown = compile(&text).unwrap_err().to_string();
    assert_eq!(
        shown,
        "t.sql:100:13: syntax error in \\set: expected a value\n    \\set x (1 + \n                ^"
    );
}

#[test]
fn statements_take_variables_as_the_protocols_need_them() {
    let program = compile("SELECT :a::int, ':b', 'x'::text, :1, ::y WHERE z=:a;").unwrap();
    let Command::Sql(sql) = &program.scripts()[0].commands[0] else {
        panic!()
    };
    assert_eq!(
        sql.parametrized,
        "SELECT $1::int, '$2', 'x'::text, :1, ::y WHERE z=$3;"
    );
    let names: Vec<&str> = sql
        .params
        .iter()
        .map(|s| program.symbols().names()[*s as usize].as_str())
        .collect();
    assert_eq!(names, ["a", "b", "a"]);
    assert_eq!(
        sql.parts
            .iter()
            .filter(|p| matches!(p, Part::Var(..)))
            .count(),
        3
    );
}

#[test]
fn too_many_parameters_are_refused() {
    let fits = "SELECT ".to_owned() + &vec![":a"; 255].join(",");
    assert!(compile(&fits).is_ok());
    let error = compile(&(fits + ",:a")).unwrap_err();
    assert!(error.message.contains("maximum is 255"));
}

#[test]
fn conditionals_become_jumps() {
    let program = compile(
        "\\if 1\n\\set a 1\n\\elif 2\n\\set a 2\n\\else\n\\set a 3\n\\endif\n\\if 3\n\\endif\n",
    )
    .unwrap();
    let targets: Vec<_> = program.scripts()[0]
        .commands
        .iter()
        .map(|c| match c {
            Command::If { otherwise, .. } => (Some(*otherwise), None),
            Command::Elif { otherwise, end, .. } => (Some(*otherwise), Some(*end)),
            Command::Else { end } => (None, Some(*end)),
            _ => (None, None),
        })
        .collect();
    assert_eq!(targets[0], (Some(2), None));
    assert_eq!(targets[2], (Some(4), Some(6)));
    assert_eq!(targets[4], (None, Some(6)));
    assert_eq!(targets[7], (Some(8), None));
}

#[test]
fn sleeps_have_units() {
    let time = |text: &str| match &compile(text).unwrap().scripts()[0].commands[0] {
        Command::Sleep(time) => time.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(time("\\sleep 2"), SleepTime::Micros(2_000_000));
    assert_eq!(time("\\sleep 2ms"), SleepTime::Micros(2_000));
    assert_eq!(time("\\sleep 2 US"), SleepTime::Micros(2));
    assert!(matches!(time("\\sleep :t ms"), SleepTime::Var(_, 1000)));
}

#[test]
fn scripts_are_chosen_by_weight() {
    let mut program = Program::new();
    program.add("a", "SELECT 1", 1).unwrap();
    program.add("b", "SELECT 2", 3).unwrap();
    let mut random = Random::new(9);
    let second = (0..10_000)
        .filter(|_| program.choose(&mut random) == 1)
        .count();
    assert!((7_300..7_700).contains(&second), "{second}");
}

#[test]
fn the_builtin_scripts_compile() {
    for builtin in BUILTINS {
        assert!(Program::builtin(builtin.name).is_ok());
    }
    assert!(find_builtin("s").unwrap_err().contains("ambiguous"));
    assert_eq!(find_builtin("tp").unwrap().name, "tpcb-like");
}

mod properties {
    use super::*;
    use proptest::prelude::*;

    /// Pieces of which scripts are made, and what does not belong into one.
    const PIECES: &[&str] = &[
        "\\set ",
        "\\if ",
        "\\elif ",
        "\\else",
        "\\endif",
        "\\sleep ",
        "\\gset ",
        "\\aset",
        "\\shell ",
        "\\setshell ",
        "\\startpipeline",
        "\\syncpipeline",
        "\\endpipeline",
        "\n",
        "\\\n",
        ";",
        "\\;",
        "SELECT ",
        ":a",
        "::",
        ":",
        "'",
        "\"",
        "$$",
        "$x$",
        "/*",
        "*/",
        "--",
        "(",
        ")",
        "1",
        "9e9",
        ".5",
        " + ",
        "-",
        "case when ",
        " then ",
        " end ",
        "abs(",
        "random(",
        ",",
        " is null",
        "not ",
        "~",
        "BEGIN ATOMIC ",
        "create function ",
        "END",
        "é",
        "\0",
        "\r\n",
        "\t",
        "a",
        "E'\\''",
        "1000us",
    ];

    proptest! {
        #[test]
        fn whatever_a_script_holds_it_compiles_or_says_where_not(
            picks in prop::collection::vec(prop::sample::select(PIECES), 0..40),
        ) {
            let text = picks.concat();
            match compile(&text) {
                Err(error) => {
                    prop_assert!(error.line >= 1 && error.line <= text.matches('\n').count() + 1);
                    prop_assert!(error.column >= 1);
                }
                Ok(program) => {
                    let commands = &program.scripts()[0].commands;
                    for command in commands {
                        if let Command::If { otherwise, .. } | Command::Elif { otherwise, .. } = command {
                            prop_assert!(*otherwise < commands.len());
                        }
                    }
                }
            }
        }
    }
}

/// Attack D19: each statement counted the lines before it anew, 22 seconds for 50,000 of them.
#[test]
fn many_statements_know_their_lines() {
    let text = "\\set a 1\n-- a word\nSELECT :a\n, 2;\n".repeat(50_000);
    let program = compile(&text).unwrap();
    let commands = &program.scripts()[0].commands;
    assert_eq!(commands.len(), 100_000);
    for (n, pair) in commands.chunks(2).enumerate() {
        let Command::Sql(sql) = &pair[1] else {
            panic!("a statement stands there");
        };
        assert_eq!(sql.line, 4 * n + 3);
    }
}
