//! Folded stacks: a line a chain, the outermost caller first, its samples at the end.
//!
//! ```text
//! postgres;main;PostgresMain;PinBuffer;s_lock 320
//! postgres;main;PostgresMain;asm_exc_page_fault_[k];clear_page_erms_[k] 12
//! swapper;cpu_startup_entry_[k];intel_idle_[k] 900
//! ```
//! stackcollapse-perf.pl and bcc's `profile -f` begin each line with the process; pgassay's own do
//! not. Kernel functions end in `_[k]` (stackcollapse-perf.pl --kernel), follow a `-` (bcc's
//! `profile -d`), or follow a function at which the kernel is entered.

use pgassay_model::observed::stacks::KERNEL;

use super::Frame;
use super::programs::{Programs, is_postgres};
use super::tree::enters_kernel;
use super::{Profile, UNKNOWN, Unit, pasted};

/// Whether most lines are folded stacks.
pub fn looks_like(text: &str) -> bool {
    let (mut folded, mut chains, mut all) = (0usize, 0usize, 0usize);
    for line in text.lines().take(500).map(pasted::line) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        all += 1;
        if let Some(stack) = stack(line) {
            folded += 1;
            chains += usize::from(stack.names.contains(';'));
        }
    }
    chains > 0 && folded * 10 >= all * 8
}

/// Reads all stacks.
pub fn parse(text: &str) -> Profile {
    let lines = text.lines().map(pasted::line);
    let lines: Vec<_> = lines
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .collect();
    let stacks: Vec<Stack> = lines.iter().filter_map(|line| stack(line.trim())).collect();
    let unread = lines.len() - stacks.len();
    let sum: f64 = stacks.iter().map(|stack| stack.weight).sum();
    // Those of a listing are percentages.
    let unit = match stacks.iter().any(|stack| stack.weight.fract() != 0.0) && sum <= 100.5 {
        true => Unit::Percent,
        false => Unit::Samples,
    };
    let begin_with_process = stacks
        .iter()
        .any(|stack| stack.names.contains(';') && is_server(first(stack.names)));
    let mut programs = Programs::new(unit);
    for stack in &stacks {
        let mut names = stack.names.split(';').map(str::trim).peekable();
        let program = begin_with_process
            .then(|| names.next().map(process))
            .flatten();
        let mut in_kernel = false;
        let mut chain: Vec<Frame> = Vec::new();
        for name in names.filter(|name| !name.is_empty()) {
            if matches!(name, "-" | "--") {
                in_kernel = true;
                continue;
            }
            let (name, marked) = match name.strip_suffix("_[k]") {
                Some(name) => (name, true),
                None => (name, false),
            };
            let name = ["_[i]", "_[j]"]
                .iter()
                .find_map(|mark| name.strip_suffix(mark))
                .unwrap_or(name);
            in_kernel |= enters_kernel(name);
            let object = match name.strip_prefix('[').and_then(|n| n.strip_suffix(']')) {
                // `[libc.so.6]` stands for functions that nothing names.
                Some(object) => object,
                None => UNKNOWN,
            };
            chain.push(match marked || in_kernel {
                true => Frame::new(name, KERNEL),
                false if object == UNKNOWN => Frame::new(name, UNKNOWN),
                false => Frame::new(UNKNOWN, object),
            });
        }
        if chain.is_empty() {
            chain.push(Frame::new(UNKNOWN, UNKNOWN));
        }
        let mut program = program;
        if program.as_deref() == Some("swapper") {
            // The CPU's own task has no functions outside of the kernel.
            chain
                .iter_mut()
                .for_each(|frame| KERNEL.clone_into(&mut frame.object));
            program = Some("swapper".to_owned());
        }
        programs.add(program.as_deref(), chain, stack.weight);
    }
    if unread > 0 {
        programs.remarks.push(format!(
            "{unread} lines were not understood and are left out"
        ));
    }
    programs.server()
}

struct Stack<'t> {
    names: &'t str,
    weight: f64,
}

/// `main;PostgresMain;s_lock 320`.
fn stack(line: &str) -> Option<Stack<'_>> {
    let (names, weight) = line.rsplit_once([' ', '\t'])?;
    let weight: f64 = weight.replace(',', ".").parse().ok()?;
    let names = names.trim();
    let fits = weight.is_finite()
        && weight >= 0.0
        && !names.is_empty()
        // Prose has blanks, names of C++ have them within brackets.
        && names.split(';').all(|name| {
            !name.contains(' ') || name.contains(['(', '<', ':', '['])
        });
    fits.then_some(Stack { names, weight })
}

fn first(names: &str) -> &str {
    names.split(';').next().unwrap_or(names)
}

/// The process: `postgres`, `postgres-5210`, `postgres-?/5210`, `postgres:_al_db_[local]`.
fn process(name: &str) -> String {
    let digits = |text: &str| {
        text.chars()
            .all(|c| c.is_ascii_digit() || matches!(c, '/' | '?'))
    };
    let name = match name.rsplit_once('-') {
        Some((name, number)) if !name.is_empty() && digits(number) => name,
        _ => name,
    };
    super::bounded(&name.replace('_', " "))
}

fn is_server(name: &str) -> bool {
    is_postgres(&process(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
postgres;main;PostgresMain;PinBuffer;s_lock 320
postgres;main;PostgresMain;asm_exc_page_fault_[k];clear_page_erms_[k] 12
postgres-77;main;PostgresMain;asm_exc_page_fault;clear_page_erms 8
postgres:_al_db;main;[libc.so.6] 5
java;start_thread;[libjvm.so] 55
swapper;cpu_startup_entry;intel_idle 900
";

    #[test]
    fn the_process_divides_the_stacks() {
        assert!(looks_like(TEXT));
        let profile = parse(TEXT);
        assert_eq!(profile.total, 345.0);
        assert_eq!(profile.idle, 900.0);
        assert_eq!(profile.others, [("java".to_owned(), 55.0)]);
        assert_eq!(
            profile.folded(),
            "main;PostgresMain;PinBuffer;s_lock 320\n\
             main;PostgresMain;asm_exc_page_fault;clear_page_erms 20\n\
             main;[unknown] 5\n"
        );
        assert!(profile.stacks().all(|(frames, _)| {
            frames.iter().all(|f| {
                f.is_kernel()
                    == matches!(f.symbol.as_str(), "asm_exc_page_fault" | "clear_page_erms")
            })
        }));
    }

    #[test]
    fn pgassay_s_own_form_is_read_back() {
        for text in [
            "main;f:g 2\n",
            "index_getnext;PinBuffer;s_lock 15.5\ns_lock 5\n",
        ] {
            assert!(looks_like(text));
            assert_eq!(parse(text).folded(), text);
        }
        assert_eq!(parse("a;b 15.5\n").unit, Unit::Percent);
    }

    #[test]
    fn prose_and_tables_are_no_stacks() {
        for text in [
            "In 2015 we saw s_lock; the machine had 40\nIt was slow; so 3\n",
            "postgres 12\njava 13\n",
            "a;b;c\n",
            "",
        ] {
            assert!(!looks_like(text), "{text}");
        }
    }

    #[test]
    fn what_is_no_stack_is_counted() {
        let profile = parse("main;f 2\nthis is something else\n");
        assert_eq!(profile.total, 2.0);
        assert!(
            profile.remarks[0].starts_with("1 lines"),
            "{:?}",
            profile.remarks
        );
    }
}
