//! All files of a tree together: which candidates are findings.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use crate::facts::{Candidate, Facts, Member, When};
use crate::flags::{self, BuildFile};
use crate::guards::Region;
use crate::guards::known::{self, Processor, speaks_of_x86};
use crate::guards::truth::Truth;
use crate::porting::{Finding, Needs, NotRead, Porting, SCHEMA};
use crate::rules::{Effect, rule};
use crate::syntax::Language;
use crate::types::{Base, Ty};
use crate::{rust, walk};

mod braces;
mod headers;
mod languages;

/// What one file came to.
#[derive(Debug)]
pub enum Read {
    /// C, C++ or Rust.
    Source(Box<Facts>),
    /// A build file.
    Build(BuildFile),
    /// Assembly.
    Assembly,
    /// It is one of these, but could not be read.
    Not(&'static str),
}

/// Whether a file of this name is looked at.
pub fn is_looked_at(name: &str) -> bool {
    Language::of(name).is_some() || flags::is_build_file(name) || is_assembly(name)
}

/// Whether it matters that there is a file of this name, though it is not looked at.
pub fn is_noted(name: &str) -> bool {
    Language::of(name).is_some() || languages::of(name).is_some()
}

fn is_assembly(name: &str) -> bool {
    name.ends_with(".S") || name.ends_with(".s") || name.ends_with(".asm")
}

/// Whether an assembly source has instructions: a directive of an assembler, and a line that is none.
fn has_instructions(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines().map(str::trim);
    let directives = [
        ".text", ".globl", ".global", ".section", ".type", ".p2align", ".align", ".code", "ENTRY(",
    ];
    lines
        .clone()
        .any(|line| directives.iter().any(|d| line.starts_with(d)))
        && lines.any(|line| {
            let first = line.split_whitespace().next().unwrap_or_default();
            first.bytes().all(|b| b.is_ascii_alphanumeric()) && !first.is_empty()
        })
}

/// Reads one file; none where its name says that it is neither source nor build file.
pub fn read(name: &str, bytes: &[u8]) -> Option<Read> {
    if let Some(language) = Language::of(name) {
        let facts = match language {
            Language::Rust => rust::facts(bytes),
            _ => walk::facts(bytes, language),
        };
        return Some(match facts {
            Ok(facts) => Read::Source(Box::new(facts)),
            Err(unparsed) => Read::Not(unparsed.why()),
        });
    }
    if flags::is_build_file(name) {
        let mut build = flags::read(bytes);
        // `Makefile.x86_64`.
        if name.rsplit('/').next().is_some_and(for_a_processor) {
            build.flags.clear();
        }
        return Some(Read::Build(build));
    }
    (is_assembly(name) && has_instructions(bytes)).then_some(Read::Assembly)
}

/// The files of a tree.
#[derive(Debug, Default)]
pub struct Project {
    sources: Vec<(String, Facts)>,
    builds: Vec<(String, BuildFile)>,
    assembly: Vec<String>,
    not_read: Vec<NotRead>,
    /// Files that are there and not looked at.
    others: Vec<String>,
    binaries: Vec<(Needs, Vec<Finding>)>,
}

impl Project {
    /// Adds a file that was read.
    pub fn add(&mut self, name: &str, read: Read) {
        match read {
            Read::Source(facts) => self.sources.push((name.to_owned(), *facts)),
            Read::Build(build) => self.builds.push((name.to_owned(), build)),
            Read::Assembly => self.assembly.push(name.to_owned()),
            Read::Not(why) => self.add_unread(name, why),
        }
    }

    /// Adds a file that could not be read.
    pub fn add_unread(&mut self, path: &str, why: impl Into<String>) {
        self.not_read.push(NotRead {
            path: path.to_owned(),
            why: why.into(),
        });
    }

    /// Takes note that there is a file, which an `#include` may name.
    pub fn add_name(&mut self, path: &str) {
        self.others.push(path.to_owned());
    }

    /// Adds an ELF file with what was found in it.
    pub fn add_binary(&mut self, needs: Needs, findings: Vec<Finding>) {
        self.binaries.push((needs, findings));
    }

    /// How many files there are, read or not.
    pub fn files(&self) -> usize {
        self.sources.len()
            + self.builds.len()
            + self.assembly.len()
            + self.not_read.len()
            + self.binaries.len()
    }

    /// Says what keeps them from `processor`.
    pub fn finish(mut self, target: &str, processor: Processor) -> Porting {
        self.sources.sort_by(|a, b| a.0.cmp(&b.0));
        let signed_char = self.builds.iter().any(|(_, build)| build.signed_char);
        let unread = self.not_read.iter().map(|one| one.path.as_str());
        let names = self.others.iter().map(String::as_str).chain(unread);
        let names: Vec<&str> = names.collect();
        let resolver = Resolver::new(&self.sources, &names, processor);
        let mut findings = Vec::new();
        for (n, (path, facts)) in self.sources.iter().enumerate() {
            for candidate in &facts.candidates {
                let of_char = candidate.rule.starts_with("char-");
                if !(of_char && signed_char) {
                    findings.extend(resolver.finding(n, path, candidate));
                }
            }
            findings.extend(resolver.no_vector_path(n, path, facts));
            findings.extend(resolver.missing_headers(n, path, facts));
        }
        for (path, build) in &self.builds {
            let flags = build.flags.iter();
            let refused = flags.filter(|flag| !flag.elsewhere.contains(&processor));
            findings.extend(refused.map(|flag| Finding {
                rule: flag.rule,
                effect: if flag.condition.is_some() {
                    Effect::Check
                } else {
                    rule(flag.rule).effect
                },
                path: path.clone(),
                line: Some(flag.line),
                within: None,
                code: flag.code.clone(),
                more: 0,
                condition: flag.condition.clone(),
            }));
        }
        findings.extend(
            self.assembly
                .iter()
                .filter(|path| !for_a_processor(path))
                .map(|path| Finding {
                    rule: "assembly-file",
                    effect: rule("assembly-file").effect,
                    path: path.clone(),
                    line: Some(1),
                    within: None,
                    code: String::new(),
                    more: 0,
                    condition: None,
                }),
        );
        let unbalanced = self.sources.iter().filter(|(_, facts)| facts.unbalanced);
        let unbalanced = unbalanced.map(|(path, _)| path.clone()).collect();
        let of_rust = |path: &str| Language::of(path) == Some(Language::Rust);
        let (mut c, mut rust) = ((0, 0), (0, 0));
        for (path, facts) in &self.sources {
            let (files, lines) = if of_rust(path) { &mut rust } else { &mut c };
            *files += 1;
            *lines += u64::from(facts.lines);
        }
        let mut binaries = Vec::new();
        for (needs, mut found) in self.binaries {
            binaries.push(needs);
            findings.append(&mut found);
        }
        findings.sort_by(|a, b| {
            let order = |f: &Finding| (std::cmp::Reverse(f.effect), f.rule);
            order(a)
                .cmp(&order(b))
                .then_with(|| (&a.path, a.line, &a.code).cmp(&(&b.path, b.line, &b.code)))
        });
        let ids: BTreeSet<&str> = findings.iter().map(|finding| finding.rule).collect();
        Porting {
            schema: SCHEMA,
            pgassay_version: env!("CARGO_PKG_VERSION"),
            target: target.to_owned(),
            processor,
            source_files: c.0,
            source_lines: c.1,
            rust_files: rust.0,
            rust_lines: rust.1,
            not_analysed: languages::counted(&self.others),
            build_files: self.builds.len() as u64,
            binaries,
            rules: ids.into_iter().map(|id| *rule(id)).collect(),
            findings,
            not_read: self.not_read,
            unbalanced,
            signed_char,
        }
    }
}

/// What an `#include` and the file that it names have in common: the last part of the path; of the
/// files of Rust's modules that are all called `mod.rs` the last two.
fn key(path: &str) -> &str {
    let parts = if path.ends_with("/mod.rs") { 2 } else { 1 };
    let start = path.rmatch_indices('/').nth(parts - 1);
    start.map_or(path, |(at, _)| &path[at + 1..])
}

/// A path that names a processor: the build chooses by it.
fn for_a_processor(path: &str) -> bool {
    path.split(['/', '.', '-']).any(known::speaks_of_processor)
}

/// A part of a path that names a system other than Linux.
fn is_of_another_system(part: &str) -> bool {
    let names = [
        "win32", "win64", "windows", "msvc", "mingw", "cygwin", "darwin", "macos", "solaris",
        "freebsd",
    ];
    names.iter().any(|name| part.eq_ignore_ascii_case(name))
}

/// What is known of names across files.
struct Resolver<'a> {
    sources: &'a [(String, Facts)],
    processor: Processor,
    /// The files that define a macro.
    defined_in: BTreeMap<&'a str, Vec<usize>>,
    /// The files that include one of this name.
    included_by: BTreeMap<&'a str, Vec<usize>>,
    fields: BTreeMap<&'a str, BTreeSet<&'a Ty>>,
    /// Members by the names of structs and classes, of each declaration.
    members: BTreeMap<&'a str, Vec<&'a [Member]>>,
    tree: headers::Tree<'a>,
    /// Files with the same name but for the processor in it.
    groups: BTreeMap<String, Vec<usize>>,
    /// Macros that are being asked for.
    asked: RefCell<BTreeSet<String>>,
    /// Whether any file defines a macro on this processor, for those that were asked for.
    anywhere: RefCell<BTreeMap<String, Truth>>,
    /// Whether a file defines a macro before a line, for those that were asked for.
    before: RefCell<BTreeMap<(usize, String, u32), Option<Truth>>>,
    bases: RefCell<BTreeMap<usize, Truth>>,
}

/// Definitions of one macro that are looked at; beyond, nothing is known of it.
const MOST_DEFINITIONS: usize = 64;

impl<'a> Resolver<'a> {
    fn new(sources: &'a [(String, Facts)], others: &[&'a str], processor: Processor) -> Self {
        let names = sources.iter().map(|(path, _)| path.as_str());
        let mut resolver = Self {
            sources,
            processor,
            defined_in: BTreeMap::new(),
            included_by: BTreeMap::new(),
            fields: BTreeMap::new(),
            members: BTreeMap::new(),
            tree: headers::Tree::new(names.chain(others.iter().copied())),
            groups: BTreeMap::new(),
            asked: RefCell::default(),
            anywhere: RefCell::default(),
            before: RefCell::default(),
            bases: RefCell::default(),
        };
        for (n, (path, facts)) in sources.iter().enumerate() {
            for name in facts.definitions.keys() {
                resolver.defined_in.entry(name).or_default().push(n);
            }
            for include in &facts.includes {
                let by = resolver.included_by.entry(key(&include.path)).or_default();
                by.push(n);
            }
            for (name, members) in &facts.members {
                resolver.members.entry(name).or_default().push(members);
            }
            for (name, types) in &facts.fields {
                resolver.fields.entry(name).or_default().extend(types);
            }
            resolver.groups.entry(stem(path)).or_default().push(n);
        }
        resolver
    }

    /// Whether a macro is defined at a line of a file.
    fn defined(&self, file: usize, name: &str, line: u32) -> Truth {
        let known = known::defined(name, self.processor);
        if known != Truth::Unknown {
            return known;
        }
        let Some(files) = self.defined_in.get(name) else {
            return Truth::Unknown;
        };
        if self.sources[file].1.own_guard.as_deref() == Some(name) {
            return Truth::No;
        }
        let here = self.sources[file].1.definitions.get(name);
        let before = here.into_iter().flatten().take(MOST_DEFINITIONS);
        let before = before.filter(|definition| definition.line < line);
        if self.asked.borrow().len() > 12 || !self.asked.borrow_mut().insert(name.to_owned()) {
            return Truth::Unknown;
        }
        let key = (file, name.to_owned(), line);
        let known = self.before.borrow().get(&key).copied();
        let sure = known.unwrap_or_else(|| {
            before
                .map(|definition| self.truth(file, definition.region.as_deref()))
                .max()
        });
        self.before.borrow_mut().insert(key, sure);
        let known = self.anywhere.borrow().get(name).copied();
        let anywhere = known.unwrap_or_else(|| {
            let all = files.iter().flat_map(|n| {
                let definitions = self.sources[*n].1.definitions.get(name);
                definitions
                    .into_iter()
                    .flatten()
                    .map(move |definition| (*n, definition))
            });
            let mut truth = Truth::No;
            for (k, (n, definition)) in all.enumerate() {
                if truth != Truth::No || k >= MOST_DEFINITIONS {
                    truth = truth.max(Truth::Unknown);
                    break;
                }
                truth = truth.max(self.truth(n, definition.region.as_deref()));
            }
            self.anywhere.borrow_mut().insert(name.to_owned(), truth);
            truth
        });
        self.asked.borrow_mut().remove(name);
        match (sure, anywhere) {
            (Some(Truth::Yes), _) => Truth::Yes,
            (_, Truth::No) => Truth::No,
            _ => Truth::Unknown,
        }
    }

    /// Whether a region of a file is compiled.
    fn truth(&self, file: usize, region: Option<&Region>) -> Truth {
        let own = region.map_or(Truth::Yes, |region| {
            region.truth(&|name, line| self.defined(file, name, line))
        });
        if own == Truth::No {
            own
        } else {
            own.min(self.base(file))
        }
    }

    /// Whether a file is compiled at all, by its name and by who includes it.
    fn base(&self, file: usize) -> Truth {
        if let Some(known) = self.bases.borrow().get(&file) {
            return *known;
        }
        // Circles of includes end here.
        self.bases.borrow_mut().insert(file, Truth::Yes);
        let path = &self.sources[file].0;
        let last = key(path);
        let mut base = match path.split(['/', '.', '-', '_']).any(is_of_another_system) {
            true => Truth::No,
            false => Truth::Yes,
        };
        if path.split(['/', '.', '-']).any(speaks_of_x86) {
            let alone = self
                .groups
                .get(&stem(path))
                .is_none_or(|group| group.len() < 2);
            base = base.min(if alone { Truth::Unknown } else { Truth::No });
        }
        if base != Truth::No
            && let Some(by) = self.included_by.get(last)
        {
            let includes = by.iter().take(MOST_DEFINITIONS).flat_map(|n| {
                let includes = self.sources[*n].1.includes.iter();
                includes
                    .filter(|include| key(&include.path) == last)
                    .map(move |include| (*n, &include.region))
            });
            let truth = includes
                .map(|(n, region)| self.truth(n, region.as_deref()))
                .max();
            base = base.min(truth.unwrap_or(Truth::Yes));
        }
        self.bases.borrow_mut().insert(file, base);
        base
    }

    /// Whether a field is a plain char behind so many pointers wherever it is declared.
    fn is_char_field(&self, name: &str, pointers: i8) -> bool {
        self.fields.get(name).is_some_and(|types| {
            types
                .iter()
                .all(|ty| ty.base == Base::Char && ty.pointers == pointers)
        })
    }

    fn finding(&self, file: usize, path: &str, candidate: &Candidate) -> Option<Finding> {
        let truth = self.truth(file, candidate.region.as_deref());
        if truth == Truth::No {
            return None;
        }
        let rule = rule(candidate.rule);
        let mut effect = rule.effect;
        match &candidate.when {
            When::Always => {}
            When::CharField(name, pointers) if !self.is_char_field(name, *pointers) => return None,
            When::CharFields(fields)
                if !fields
                    .iter()
                    .all(|(name, pointers)| self.is_char_field(name, *pointers)) =>
            {
                return None;
            }
            When::Initialises(position) if !self.initialises_char(position) => return None,
            When::MapsPages if !self.sources[file].1.maps_pages => return None,
            When::CharField(..) | When::CharFields(_) | When::MapsPages | When::Initialises(_) => {}
            When::ForProcessor(of) => {
                if *of == Some(self.processor)
                    || self.asks_for_processor(candidate)
                    || self.sources[file].1.translates
                {
                    return None;
                }
                if truth == Truth::Unknown {
                    effect = Effect::Check;
                }
            }
        }
        if candidate.rule == "unknown-processor" && truth != Truth::Yes {
            return None;
        }
        let open = candidate
            .region
            .as_deref()
            .filter(|_| truth == Truth::Unknown);
        let condition = open
            .and_then(|region| region.open_condition(&|name, line| self.defined(file, name, line)));
        Some(Finding {
            rule: candidate.rule,
            effect,
            path: path.to_owned(),
            line: Some(candidate.line),
            within: candidate.within.clone(),
            code: candidate.code.clone(),
            more: candidate.more,
            condition: condition.map(str::to_owned),
        })
    }

    /// A condition around asks for the processor itself: what stands there is meant for it.
    fn asks_for_processor(&self, candidate: &Candidate) -> bool {
        let own = |name: &str| {
            known::speaks_of_processor(name)
                && known::defined(name, self.processor) != Truth::No
                && !speaks_of_x86(name)
        };
        candidate
            .region
            .as_deref()
            .is_some_and(|region| region.names(&own))
    }

    /// Vector code for x86 without any for this processor, where it is no error.
    fn no_vector_path(&self, file: usize, path: &str, facts: &Facts) -> Option<Finding> {
        let of_vectors = |candidate: &&Candidate| {
            matches!(candidate.rule, "x86-intrinsic" | "x86-crc32")
                || candidate.rule == "x86-popcount" && !facts.builtin_popcount
        };
        let mut left_out = facts
            .candidates
            .iter()
            .filter(of_vectors)
            .filter(|candidate| candidate.within.is_some())
            .filter(|candidate| self.truth(file, candidate.region.as_deref()) == Truth::No);
        let first = left_out.next()?;
        let places = 1 + first.more + left_out.map(|candidate| 1 + candidate.more).sum::<u32>();
        let group = self.groups.get(&stem(path)).into_iter().flatten();
        let beside = group.clone().any(|n| {
            let other = &self.sources[*n].1;
            other.paths.contains(&self.processor) || other.translates
        });
        if beside {
            return None;
        }
        Some(Finding {
            rule: "no-vector-path",
            effect: Effect::Slow,
            path: path.to_owned(),
            line: Some(first.line),
            within: first.within.clone(),
            code: first.code.clone(),
            more: places - 1,
            condition: None,
        })
    }
}

/// A path without its extension and without the words that speak of a processor: `crc/crc` of
/// `crc/crc_sse42.c`, `crc/x86/crc.c` and `crc/crc_armv8.c`.
fn stem(path: &str) -> String {
    let (body, _) = path.rsplit_once('.').unwrap_or((path, ""));
    let general = [
        "sb8", "choose", "generic", "default", "portable", "scalar", "c", "soft", "software",
        "common", "base", "ref",
    ];
    let parts = body.split('/').map(|part| {
        let words: Vec<&str> = part.split(['_', '-', '.']).collect();
        let kept = words.iter().enumerate().filter(|(n, word)| {
            !(known::speaks_of_processor(word)
                || *n > 0 && general.contains(word) && words.len() > 1)
        });
        kept.map(|(_, word)| *word).collect::<Vec<_>>().join("_")
    });
    parts
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("/")
}
