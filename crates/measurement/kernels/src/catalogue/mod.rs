//! The forms there are, as data: a file for each kind.

mod locks;
mod others;
mod words;

use crate::kernel::Kernel;

/// Whose form it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// PostgreSQL's, in these releases.
    Released(&'static str),
    /// Proposed to PostgreSQL, by whom and when; written anew from the description.
    Proposed(&'static str),
    /// A yardstick, from where.
    Yardstick(&'static str),
}

/// The processors that have a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// All: the compiler makes what it needs of each.
    Any,
    /// arm64's.
    Arm64,
    /// Those of them with LSE, from ARMv8.1 on.
    Arm64Lse,
    /// POWER's.
    Power,
}

impl Of {
    /// The processor's name, as `uname -m` has it; none if all have the form.
    pub fn processor(self) -> Option<&'static str> {
        match self {
            Self::Any => None,
            Self::Arm64 | Self::Arm64Lse => Some("aarch64"),
            Self::Power => Some("ppc64le"),
        }
    }
}

/// What makes a form's memory for so many threads.
type Make = fn(usize) -> Box<dyn Kernel>;

/// One way of doing one thing.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    /// What is done: `spinlock`.
    pub family: &'static str,
    /// In which way: `test first`.
    pub name: &'static str,
    /// What an operation is, one sentence.
    pub operation: &'static str,
    /// Whose it is.
    pub standing: Standing,
    /// The primitive inside the server that does the same, as `run` and `compare` name it.
    pub primitive: Option<&'static str>,
    /// The processors that have it.
    pub of: Of,
    /// None where this program is for another processor.
    make: Option<Make>,
}

/// What entries are made of: a family's rest.
const ENTRY: Form = Form {
    family: "",
    name: "",
    operation: "",
    standing: Standing::Yardstick(""),
    primitive: None,
    of: Of::Any,
    make: None,
};

/// What makes a form of arm64's, in a program for it.
macro_rules! on_arm64 {
    ($make:expr) => {{
        #[cfg(all(target_arch = "aarch64", not(feature = "loom")))]
        const MAKE: Option<$crate::catalogue::Make> = Some($make);
        #[cfg(not(all(target_arch = "aarch64", not(feature = "loom"))))]
        const MAKE: Option<$crate::catalogue::Make> = None;
        MAKE
    }};
}

/// What makes a form of POWER's, in a program for it.
macro_rules! on_power {
    ($make:expr) => {{
        #[cfg(all(target_arch = "powerpc64", not(feature = "loom")))]
        const MAKE: Option<$crate::catalogue::Make> = Some($make);
        #[cfg(not(all(target_arch = "powerpc64", not(feature = "loom"))))]
        const MAKE: Option<$crate::catalogue::Make> = None;
        MAKE
    }};
}
use {on_arm64, on_power};

/// All forms, by family: those of other processors, too.
pub fn forms() -> impl Iterator<Item = &'static Form> + Clone {
    [
        words::WORDS,
        locks::SPINLOCKS,
        locks::LWLOCKS,
        others::PINS,
        others::CLOCKS,
        others::SNAPSHOTS,
        others::WAL,
    ]
    .into_iter()
    .flatten()
}

/// The forms of that family, or the one of that family and name (`spinlock:MCS`); empty if there is none.
pub fn find(name: &str) -> Vec<&'static Form> {
    let (family, form) = name
        .split_once(':')
        .map_or((name, None), |(family, form)| (family, Some(form)));
    let wanted = |of: &&Form| of.family == family && form.is_none_or(|form| of.name == form);
    forms().filter(wanted).collect()
}

impl Form {
    /// `spinlock, MCS`.
    pub fn title(&self) -> String {
        format!("{}, {}", self.family, self.name)
    }

    /// Whether this processor has it.
    pub fn is_here(&self) -> bool {
        let has = match self.of {
            #[cfg(all(target_arch = "aarch64", not(feature = "loom")))]
            Of::Arm64Lse => pgassay_sys::exclusive::lse::here(),
            _ => true,
        };
        has && self.make.is_some()
    }

    /// Makes it for so many threads; none where [this processor](Self::is_here) does not have it.
    pub fn make(&self, threads: usize) -> Option<Box<dyn Kernel>> {
        let make = self.make.filter(|_| self.is_here())?;
        Some(make(threads))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_found_by_family_and_by_name() {
        assert!(find("spinlock").len() >= 5);
        let [ticket] = find("spinlock:ticket")[..] else {
            panic!("one form has that name");
        };
        assert_eq!(ticket.title(), "spinlock, ticket");
        assert!(find("spinlock:nonsense").is_empty() && find("nonsense").is_empty());
    }

    #[test]
    fn no_two_forms_have_one_name() {
        let mut titles: Vec<String> = forms().map(Form::title).collect();
        let all = titles.len();
        titles.sort_unstable();
        titles.dedup();
        assert_eq!(titles.len(), all);
    }

    #[test]
    fn forms_of_other_processors_are_known_and_not_made() {
        let here = |form: &Form| form.of.processor() == Some(std::env::consts::ARCH);
        for form in forms().filter(|form| form.of != Of::Any && !here(form)) {
            // ppc64le is powerpc64 to the compiler.
            let own = cfg!(target_arch = "powerpc64") && form.of == Of::Power;
            assert_eq!(form.make(1).is_some(), own, "{}", form.title());
        }
        assert!(forms().filter(|form| form.of == Of::Any).all(Form::is_here));
        assert!(forms().any(|form| form.of == Of::Power));
    }
}
