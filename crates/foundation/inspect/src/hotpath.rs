//! PostgreSQL's hot paths: which functions they are, under the names that each major version gives
//! them, and what they compile to in a given file.

mod instructions;
mod paths;

use std::collections::BTreeMap;

use self::instructions::{crc, delay, popcount};
use self::paths::{DELAY_FUNCTIONS, PATHS, Path};
use crate::bounds::Bounds;
use crate::elf::Image;
use crate::model::{
    Atomics, Class, Counts, Hint, HotFunction, HotPath, Machine, Ordering, Technique,
};

/// A name without the suffix of a compiler's clone (`.isra.0`, `.part.0`, `.cold`).
fn stem(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Accounts for the paths of a PostgreSQL server.
pub fn hot_paths(
    image: &Image<'_>,
    major: Option<u32>,
    bounds: &Bounds<'_>,
    atomics: &Atomics,
    hints: &[(u64, Hint)],
) -> Vec<HotPath> {
    let machine = &image.machine;
    let data = &image.data_sections();
    let mut wanted: Vec<&str> = PATHS
        .iter()
        .flat_map(|p| p.functions)
        .chain(DELAY_FUNCTIONS)
        .copied()
        .collect();
    wanted.sort_unstable();
    wanted.dedup();
    // Thousands of names, few wanted: most go by their first two letters.
    let mut begins = [0_u64; 1 << 10];
    let beginning = |name: &str| {
        let [first, second, ..] = *name.as_bytes() else {
            return None;
        };
        let both = usize::from(first) << 8 | usize::from(second);
        Some((both / 64, 1_u64 << (both % 64)))
    };
    for (word, bit) in wanted.iter().filter_map(|name| beginning(name)) {
        begins[word] |= bit;
    }
    let mut named: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, function) in bounds.functions.iter().enumerate() {
        let Some(name) = function.name else { continue };
        if beginning(name).is_none_or(|(word, bit)| begins[word] & bit == 0) {
            continue;
        }
        let behind = wanted.partition_point(|w| *w <= name);
        if let Some(candidate) = behind.checked_sub(1).map(|i| wanted[i])
            && name.starts_with(candidate)
            && stem(name) == candidate
        {
            named.entry(candidate).or_default().push(i);
        }
    }
    let hot = |names: &[&str]| -> Vec<HotFunction> {
        names
            .iter()
            .flat_map(|n| named.get(n).into_iter().flatten())
            .map(|i| {
                let function = &bounds.functions[*i];
                let found = atomics
                    .functions
                    .iter()
                    .find(|f| f.address == function.start);
                HotFunction {
                    name: function.name.unwrap_or_default().to_string(),
                    address: function.start,
                    counts: found.map(|f| f.counts.clone()).unwrap_or_default(),
                    outline_calls: found.map(|f| f.outline_calls.clone()).unwrap_or_default(),
                    named_by_callers: false,
                    inlined_into: None,
                }
            })
            .collect()
    };
    let mut paths: Vec<HotPath> = PATHS
        .iter()
        .map(|path| {
            let mut functions = hot(path.functions);
            functions.extend(by_callers(path, atomics));
            functions.extend(inlined(path, atomics, &functions));
            let mut technique = technique(&functions);
            // The first names are the path's core; where only a caller of theirs is named (ReleaseBuffer
            // in a stripped file), that it holds no atomic says nothing.
            let core = &path.functions[..path.core];
            if technique == Technique::None
                && !functions.iter().any(|f| core.contains(&stem(&f.name)))
            {
                technique = Technique::Unnamed;
            }
            if technique == Technique::None
                && !is_lwlock_before_19(path, major)
                && not_inlined(atomics).is_some()
            {
                technique = Technique::Called;
            }
            let detail = detail(path, technique, &functions, machine, atomics, major);
            HotPath {
                id: path.id.into(),
                title: path.title.into(),
                technique,
                functions,
                detail,
            }
        })
        .collect();
    paths.push(delay(bounds, hot(DELAY_FUNCTIONS), hints));
    paths.push(crc(bounds, hints, data));
    paths.push(popcount(bounds, hints));
    paths
}

/// The buffer content lock is an LWLock up to 18.
fn is_lwlock_before_19(path: &Path, major: Option<u32>) -> bool {
    path.id == "buffer-content-lock" && major.is_some_and(|m| m < 19)
}

/// A function of the server's atomics that stands by itself: they are `static inline`
/// (src/include/port/atomics.h), so the compiler was told not to inline.
fn not_inlined(atomics: &Atomics) -> Option<&str> {
    let names = || atomics.functions.iter().filter_map(|f| f.name.as_deref());
    let of = |start: &'static str| names().find(move |name| name.starts_with(start));
    of("pg_atomic_compare_exchange_u32").or_else(|| of("pg_atomic_"))
}

/// Functions of a path that the file does not name but their callers do.
fn by_callers(path: &Path, atomics: &Atomics) -> Vec<HotFunction> {
    let told = atomics.functions.iter().filter(|f| f.named_by_callers);
    told.filter_map(|f| Some((f, f.name.as_ref()?)))
        .filter(|(_, name)| path.functions.contains(&name.as_str()))
        .map(|(f, name)| HotFunction {
            name: name.clone(),
            address: f.address,
            counts: f.counts.clone(),
            outline_calls: f.outline_calls.clone(),
            named_by_callers: true,
            inlined_into: None,
        })
        .collect()
}

/// Functions of a path that DWARF names as inlined into others, with the atomics that came with them;
/// what is inlined within the path itself is in the account of the function around it.
fn inlined(path: &Path, atomics: &Atomics, known: &[HotFunction]) -> Vec<HotFunction> {
    // Spin locks are taken all over: they are counted, not listed.
    if path.id == "spinlock" {
        return Vec::new();
    }
    let mut found: BTreeMap<(String, u64), HotFunction> = BTreeMap::new();
    let mut note = |chain: &[String], function: Option<u32>, add: &dyn Fn(&mut HotFunction)| {
        let name = chain.iter().find(|n| path.functions.contains(&n.as_str()));
        let around = function.and_then(|f| atomics.functions.get(f as usize));
        if let (Some(name), Some(around)) = (name, around)
            && known.iter().all(|k| k.address != around.address)
        {
            let key = (name.clone(), around.address);
            add(found.entry(key).or_insert_with(|| HotFunction {
                name: name.clone(),
                address: around.address,
                counts: Counts::new(),
                outline_calls: BTreeMap::new(),
                named_by_callers: false,
                inlined_into: Some(around.label()),
            }));
        }
    };
    for a in &atomics.instructions {
        note(&a.inlined, a.function, &|f| {
            *f.counts.entry(a.class).or_insert(0) += 1;
        });
    }
    if let Some(outline) = &atomics.outline {
        for call in &outline.calls {
            let helper = &outline.helpers[call.helper as usize].name;
            note(&call.inlined, call.function, &|f| {
                *f.outline_calls.entry(helper.clone()).or_insert(0) += 1;
            });
        }
    }
    found.into_values().collect()
}

/// The technique behind the atomics of some functions.
fn technique(functions: &[HotFunction]) -> Technique {
    if functions.is_empty() {
        return Technique::Unnamed;
    }
    let mut seen: Vec<Technique> = Vec::new();
    let mut see = |t| {
        if !seen.contains(&t) {
            seen.push(t);
        }
    };
    for function in functions {
        if !function.outline_calls.is_empty() {
            see(Technique::Outline);
        }
        for class in function.counts.keys() {
            see(technique_of(*class));
        }
    }
    match seen.as_slice() {
        [] => Technique::None,
        [one] => *one,
        _ => Technique::Mixed,
    }
}

fn technique_of(class: Class) -> Technique {
    if class.is_lse() {
        return Technique::Lse;
    }
    if class.is_llsc() {
        return Technique::LlSc;
    }
    match class {
        Class::AmoSwap | Class::AmoAdd | Class::AmoLogic | Class::AmoOther | Class::AmoCas => {
            Technique::Amo
        }
        Class::CompareAndSwap
        | Class::CompareAndSwapAndStore
        | Class::LoadAndOp
        | Class::TestAndSet
        | Class::PerformLockedOperation => Technique::Interlocked,
        _ => Technique::Locked,
    }
}

fn detail(
    path: &Path,
    technique: Technique,
    functions: &[HotFunction],
    machine: &Machine,
    atomics: &Atomics,
    major: Option<u32>,
) -> String {
    let mut text = match technique {
        Technique::Unnamed | Technique::None if is_lwlock_before_19(path, major) => {
            "an LWLock in this version".into()
        }
        Technique::Unnamed => format!(
            "none of {} can be named here: static functions, stripped; their instructions are in the totals",
            path.functions[..path.core.min(3)].join(", ")
        ),
        Technique::None => {
            "named, and holds no atomic of its own (inlined elsewhere or called)".into()
        }
        Technique::Called => format!(
            "holds no atomic of its own: {} stands by itself and is called, so this was compiled without \
             inlining",
            not_inlined(atomics).unwrap_or("pg_atomic_*")
        ),
        _ => {
            let mut parts: Vec<(String, usize)> = Vec::new();
            for f in functions
                .iter()
                .filter(|f| !f.counts.is_empty() || !f.outline_calls.is_empty())
            {
                let counts = f.counts.iter().map(|(c, n)| format!("{n} {}", c.name()));
                let calls = f.outline_calls.iter().map(|(h, n)| {
                    format!(
                        "{n} call{} of {}",
                        if *n == 1 { "" } else { "s" },
                        h.trim_start_matches("__aarch64_")
                    )
                });
                let how = match &f.inlined_into {
                    Some(place) => format!(" (inlined into {place})"),
                    None if f.named_by_callers => " (nameless; known by its callers)".into(),
                    None => String::new(),
                };
                let part = format!(
                    "{}{how}: {}",
                    f.name,
                    counts.chain(calls).collect::<Vec<_>>().join(", ")
                );
                // A static function has a copy in each file that includes it.
                match parts.iter_mut().find(|(known, _)| *known == part) {
                    Some((_, copies)) => *copies += 1,
                    None => parts.push((part, 1)),
                }
            }
            let parts: Vec<String> = parts
                .into_iter()
                .map(|(part, copies)| match copies {
                    1 => part,
                    _ => format!("{part} in each of {copies} copies"),
                })
                .collect();
            parts.join("; ")
        }
    };
    let missing: Vec<&str> = path
        .essential
        .iter()
        .copied()
        .filter(|e| !functions.iter().any(|f| stem(&f.name) == *e))
        .collect();
    if technique != Technique::Unnamed && !missing.is_empty() && !text.starts_with("an LWLock") {
        text.push_str(&format!(
            "; {} can't be named here (static, stripped or inlined): what it holds is in the totals",
            missing.join(", ")
        ));
    }
    if path.id == "spinlock" {
        text.push_str(&format!("; {}", inlined_tas(machine, atomics)));
    }
    text
}

/// How many test-and-set sites are inlined at `SpinLockAcquire`, where the instruction tells.
fn inlined_tas(machine: &Machine, atomics: &Atomics) -> String {
    let told = |chain: &Vec<String>| chain.iter().any(|n| n == "tas");
    let calls = atomics.outline.iter().flat_map(|o| &o.calls);
    let chains = atomics.instructions.iter().map(|a| &a.inlined);
    let sites = chains
        .chain(calls.map(|c| &c.inlined))
        .filter(|c| told(c))
        .count();
    if sites > 0 {
        return format!("{sites} instructions or calls of tas() inlined elsewhere, as DWARF says");
    }
    let count = |class, width, ordering: Option<Ordering>| {
        atomics
            .instructions
            .iter()
            .filter(|a| {
                a.class == class
                    && a.width_bits == width
                    && ordering.is_none_or(|o| o == a.ordering)
            })
            .count()
    };
    match machine {
        Machine::X86_64 => {
            format!(
                "{} byte-wide xchg (TAS) in the file",
                count(Class::Xchg, 8, None)
            )
        }
        Machine::Aarch64 => {
            // __sync_lock_test_and_set calls the `_sync` helper, __atomic_exchange with acquire the
            // `_acq` one.
            let swaps: Vec<_> = atomics
                .outline
                .iter()
                .flat_map(|o| &o.helpers)
                .filter(|h| {
                    matches!(
                        h.name.as_str(),
                        "__aarch64_swp4_acq" | "__aarch64_swp4_sync"
                    )
                })
                .collect();
            let calls: u64 = swaps.iter().map(|h| h.call_sites).sum();
            let inline = count(Class::LseSwp, 32, None).saturating_sub(swaps.len());
            format!(
                "TAS in the file: {calls} calls of the swp4 helper, {inline} inline 32-bit swaps"
            )
        }
        Machine::Riscv64 => format!(
            "{} amoswap.w.aq (TAS) in the file",
            count(Class::AmoSwap, 32, Some(Ordering::Acquire))
        ),
        _ => "inlined TAS can't be told from other loops on this machine".into(),
    }
}
