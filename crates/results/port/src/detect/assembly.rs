//! Inline assembly: what its instructions are of, and barriers that hold the compiler only.

use tree_sitter::Node;

use crate::context::Context;
use crate::facts::When;
use crate::guards::known::Processor;

/// Instructions for which there is a rule of their own.
const RULES: &[(&str, &str)] = &[
    ("pause", "x86-pause"),
    ("rep", "x86-pause"),
    ("popcnt", "x86-popcount"),
    ("popcntq", "x86-popcount"),
    ("popcntl", "x86-popcount"),
    ("mfence", "x86-fence"),
    ("lfence", "x86-fence"),
    ("sfence", "x86-fence"),
    ("crc32", "x86-crc32"),
    ("crc32q", "x86-crc32"),
    ("crc32b", "x86-crc32"),
    ("crc32l", "x86-crc32"),
    ("rdtsc", "x86-clock"),
    ("rdtscp", "x86-clock"),
    ("cpuid", "x86-cpuid"),
    ("xgetbv", "x86-cpuid"),
];

/// First instructions by which another processor's assembly is known.
const OTHERS: &[(&str, Processor)] = &[
    ("isb", Processor::Aarch64),
    ("yield", Processor::Aarch64),
    ("wfe", Processor::Aarch64),
    ("dmb", Processor::Aarch64),
    ("dsb", Processor::Aarch64),
    ("mrs", Processor::Aarch64),
    ("ldxr", Processor::Aarch64),
    ("ldaxr", Processor::Aarch64),
    ("prfm", Processor::Aarch64),
    ("lwsync", Processor::Ppc64le),
    ("isync", Processor::Ppc64le),
    ("lwarx", Processor::Ppc64le),
    ("ldarx", Processor::Ppc64le),
    ("mftb", Processor::Ppc64le),
    ("fence", Processor::Riscv64),
    ("rdtime", Processor::Riscv64),
    ("rdcycle", Processor::Riscv64),
    ("bcr", Processor::S390x),
    ("stck", Processor::S390x),
    ("stckf", Processor::S390x),
];

/// `asm (…)`.
pub fn asm(context: &mut Context<'_>, node: Node<'_>) {
    let Some(code) = node.child_by_field_name("assembly_code") else {
        return;
    };
    if !of_instructions(context, node, &template(context.words(code))) {
        empty(context, node);
    }
}

/// `asm!(…)` of Rust: each string is a line, those of the instructions come before those of operands.
pub fn template_of(context: &mut Context<'_>, node: Node<'_>) {
    let lines: Vec<&str> = context.words(node).split('"').skip(1).step_by(2).collect();
    of_instructions(context, node, &lines.join("\n"));
}

/// Whether a template has instructions at all; its first decides whose they are.
fn of_instructions(context: &mut Context<'_>, node: Node<'_>, template: &str) -> bool {
    let mut instructions = template.split(['\n', ';']).filter_map(|line| {
        line.split_whitespace()
            .find(|word| !word.ends_with(':') && !word.starts_with('.'))
    });
    let Some(first) = instructions.next().map(str::to_ascii_lowercase) else {
        return false;
    };
    if first == "nop" || first.starts_with('#') {
        return true;
    }
    if let Some((_, processor)) = OTHERS.iter().find(|(name, _)| *name == first) {
        context.facts.paths.insert(*processor);
        context.found_once(
            "inline-assembly",
            node,
            When::ForProcessor(Some(*processor)),
        );
        return true;
    }
    let rule = RULES
        .iter()
        .find(|(name, _)| *name == first)
        .map_or("inline-assembly", |(_, rule)| rule);
    context.found_once(rule, node, When::ForProcessor(None));
    true
}

/// The strings of a template put together, without their quotes.
fn template(words: &str) -> String {
    let mut text = String::new();
    for part in words.split('"').skip(1).step_by(2) {
        text.push_str(part);
    }
    text.replace("\\n", "\n").replace("\\t", " ")
}

/// No instruction at all: a barrier for the compiler, which must not be named as one for processors.
fn empty(context: &mut Context<'_>, node: Node<'_>) {
    let words = context.words(node);
    let Some(name) = context.within.as_deref().map(str::to_ascii_lowercase) else {
        return;
    };
    let parts: Vec<&str> = name.split('_').collect();
    let is = |word: &str| parts.contains(&word);
    let barrier = is("barrier")
        || is("fence")
        || is("membar")
        || is("mb")
        || is("rmb")
        || is("wmb")
        || is("smp");
    let of_compiler =
        is("compiler") || is("cc") || is("signal") || is("optimizer") || is("optimization");
    if words.contains("memory") && barrier && !of_compiler {
        context.found("compiler-barrier", node, When::Always);
    }
}
