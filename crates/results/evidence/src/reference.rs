//! A server held against a reference: a throw-away server of the same version on the same machine,
//! with ordinary settings, under the same load.
//!
//! What each transaction costs is compared by part, in microseconds: waits, and CPU time by library,
//! kind of work, system call and function. So a cause has a name here even where no rule knows it.
//! Settings that differ are then tried at the reference: what makes it as slow as the server is proved.

use serde::{Deserialize, Serialize};

use pgassay_stats::Estimate;

/// What holding a server against a reference showed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reference {
    /// The comparison that was measured, by its run's name.
    pub run: String,
    /// The reference in words.
    pub target: String,
    /// Clients on each of the two.
    pub clients: u32,
    /// Throughput of the reference divided by the server's.
    pub faster: Estimate,
    /// A transaction's time by where it was spent, in microseconds.
    pub parts: Vec<Spent>,
    /// What takes a tenth of the server's time or more beyond what it takes at the reference, the
    /// largest first.
    pub named: Vec<Named>,
    /// Settings that differ.
    pub settings: Vec<Differing>,
    /// What was tried at the reference.
    pub tried: Vec<Tried>,
    /// What could not be compared or tried, and why.
    pub not_seen: Vec<String>,
}

/// A part of a transaction's time at both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spent {
    /// `on a CPU`, `LWLock:WALWrite`, `libfoo.so`, `fsync`.
    pub name: String,
    /// Microseconds of a transaction at the server.
    pub server_us: f64,
    /// The same at the reference.
    pub reference_us: f64,
}

/// Something on which the server spends more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Named {
    /// Of what kind.
    pub kind: Kind,
    /// What, and how long.
    #[serde(flatten)]
    pub spent: Spent,
    /// What the server spends on it beyond the reference, as a share of its transaction's time, 0 to 1.
    pub excess: f64,
    /// The same in a sentence.
    pub words: String,
}

/// What kind of thing time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A wait event.
    Wait,
    /// CPU time in a library.
    Library,
    /// CPU time of a kind of work.
    Class,
    /// CPU time within a system call.
    SystemCall,
    /// CPU time in a function itself.
    Function,
}

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Differing {
    /// Its name.
    pub name: String,
    /// Its value at the server.
    pub server: String,
    /// Where that comes from, in the words of `pg_settings.source`.
    pub source: String,
    /// Its value at the reference.
    pub reference: String,
}

/// Settings of the server, given to the reference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tried {
    /// Which: one, or several together.
    pub settings: Vec<(String, String)>,
    /// Throughput of the reference with them, divided by its own.
    pub throughput: Estimate,
    /// The probability of such a difference if there is none, corrected for what was tried beside it.
    pub p: f64,
}

/// What two servers with the same settings can differ by in one launch each, and pairs of slices do not
/// show: of 0.83 (0.65 to 0.96), work_mem was not the cause.
const BY_LAUNCH: f64 = 0.1;

impl Tried {
    /// Whether they were shown to cost throughput, more than a launch can by itself.
    pub fn costs(&self) -> bool {
        self.differs() && self.throughput.high < 1.0 - BY_LAUNCH
    }

    /// Whether this server was slower, be it for the settings or for its launch.
    pub fn differs(&self) -> bool {
        self.throughput.level >= 0.95 && self.throughput.high < 1.0 && self.p < 0.05
    }

    /// The part of the server's distance from the reference that they account for, on a logarithmic
    /// scale; none where there is no distance.
    pub fn part_of(&self, faster: &Estimate) -> Option<f64> {
        let distance = faster.estimate.ln();
        (faster.low > 1.0 && distance > 0.0).then(|| -self.throughput.estimate.ln() / distance)
    }
}

impl Reference {
    /// The settings that are worth trying, the likeliest first: one whose value names a library in
    /// which the server spends its time, one that bears on performance, the others.
    pub fn candidates(&self) -> Vec<(String, String)> {
        let mut candidates: Vec<&Differing> = self.settings.iter().collect();
        let libraries = self.named.iter().filter(|n| n.kind == Kind::Library);
        let libraries: Vec<&str> = libraries
            .map(|n| n.spent.name.split(".so").next().unwrap_or_default())
            .collect();
        let place = |setting: &Differing| {
            let names = |library: &&str| setting.server.contains(*library);
            let known = crate::server::RELEVANT.contains(&setting.name.as_str());
            match (libraries.iter().any(names), known) {
                (true, _) => 0,
                (_, true) => 1,
                _ => 2,
            }
        };
        candidates.sort_by_key(|setting| place(setting));
        let given = candidates.into_iter();
        given
            .map(|setting| (setting.name.clone(), setting.server.clone()))
            .collect()
    }

    /// What it comes to in sentences, the most important first.
    pub fn headline(&self) -> Vec<String> {
        let mut words = vec![self.overall()];
        words.extend(self.proved().map(|tried| self.words_of(tried)));
        words.extend(self.named.iter().take(3).map(|named| named.words.clone()));
        words
    }

    fn overall(&self) -> String {
        let Estimate {
            estimate,
            low,
            high,
            ..
        } = self.faster;
        let under = format!(
            "Under the same load, a reference with ordinary settings ({})",
            self.target
        );
        if low > 1.0 {
            format!(
                "{under} completes {estimate:.2} times as many transactions as the server ({low:.2} to {high:.2})."
            )
        } else if high < 1.0 {
            format!(
                "{under} is slower than the server: {estimate:.2} times as many transactions ({low:.2} to {high:.2})."
            )
        } else {
            format!(
                "{under} is not shown to be faster ({estimate:.2} times as many transactions, {low:.2} to {high:.2}): \
                 what holds the server back lies in the load or the machine, which both have."
            )
        }
    }

    /// The single settings that were shown to cost throughput, the costliest first; several together
    /// only where none of them does alone.
    pub fn proved(&self) -> impl Iterator<Item = &Tried> {
        let shown = self.tried.iter().filter(|tried| tried.costs());
        let (mut alone, together): (Vec<&Tried>, Vec<&Tried>) =
            shown.partition(|tried| tried.settings.len() == 1);
        if alone.is_empty() {
            alone = together;
        }
        alone.sort_by(|a, b| a.throughput.estimate.total_cmp(&b.throughput.estimate));
        alone.into_iter()
    }

    /// What a trial of settings says.
    pub fn words_of(&self, tried: &Tried) -> String {
        let Estimate {
            estimate,
            low,
            high,
            ..
        } = tried.throughput;
        let settings: Vec<String> = tried
            .settings
            .iter()
            .map(|(n, v)| format!("{n} = {v}"))
            .collect();
        let (what, verb) = match settings.as_slice() {
            [one] => (format!("{one} alone"), "leaves"),
            several => (format!("{} together", several.join(", ")), "leave"),
        };
        let percent = |share: f64| match 100.0 * share {
            percent if percent < 9.95 => format!("{percent:.1}"),
            percent => format!("{percent:.0}"),
        };
        let mut words = format!(
            "{what}, given to the reference, {verb} {} % of its throughput ({} to {} %)",
            percent(estimate),
            percent(low),
            percent(high)
        );
        if let Some(part) = tried.part_of(&self.faster).filter(|part| *part > 0.05) {
            words += &match part {
                part if part > 0.9 => ": the whole difference between the two".to_owned(),
                part => format!(": {:.0} % of the difference between the two", 100.0 * part),
            };
        }
        words + "."
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(estimate: f64, low: f64, high: f64) -> Estimate {
        Estimate {
            estimate,
            low,
            high,
            level: 0.95,
            n: 6,
            warnings: Vec::new(),
        }
    }

    fn reference(faster: Estimate, tried: Vec<Tried>) -> Reference {
        Reference {
            run: "r".to_owned(),
            target: "PostgreSQL 15".to_owned(),
            clients: 2,
            faster,
            parts: Vec::new(),
            named: Vec::new(),
            settings: Vec::new(),
            tried,
            not_seen: Vec::new(),
        }
    }

    fn tried(names: &[&str], throughput: Estimate) -> Tried {
        Tried {
            settings: names
                .iter()
                .map(|n| ((*n).to_owned(), "1".to_owned()))
                .collect(),
            throughput,
            p: 0.01,
        }
    }

    #[test]
    fn a_setting_is_blamed_only_where_the_reference_was_slower_with_it() {
        let all = vec![
            tried(&["a", "b", "c"], estimate(0.25, 0.24, 0.26)),
            tried(&["a"], estimate(0.97, 0.94, 1.01)),
            tried(&["b"], estimate(0.5, 0.48, 0.52)),
            tried(&["c"], estimate(0.26, 0.25, 0.27)),
        ];
        let reference = reference(estimate(4.0, 3.9, 4.1), all);
        let proved: Vec<&str> = reference
            .proved()
            .map(|t| t.settings[0].0.as_str())
            .collect();
        assert_eq!(proved, ["c", "b"]);
        let words = reference.headline();
        assert!(
            words[1].ends_with(": the whole difference between the two."),
            "{words:?}"
        );
        assert!(
            words[2].ends_with(": 50 % of the difference between the two."),
            "{words:?}"
        );
    }

    #[test]
    fn settings_that_cost_only_together_are_said_together() {
        let all = vec![
            tried(&["a", "b"], estimate(0.5, 0.4, 0.6)),
            tried(&["a"], estimate(0.99, 0.9, 1.1)),
        ];
        let reference = reference(estimate(2.0, 1.9, 2.1), all);
        let words = reference.headline();
        assert!(
            words[1].starts_with("a = 1, b = 1 together, given to the reference, leave 50 %"),
            "{words:?}"
        );
    }

    #[test]
    fn without_a_difference_the_load_and_the_machine_are_left() {
        let words = reference(estimate(1.01, 0.98, 1.04), Vec::new()).headline();
        assert!(words[0].contains("is not shown to be faster"), "{words:?}");
    }

    #[test]
    fn one_of_several_that_may_be_chance_is_not_proved() {
        let mut one = tried(&["a"], estimate(0.8, 0.75, 0.89));
        assert!(one.costs());
        one.p = 0.06;
        assert!(!one.costs());
    }

    #[test]
    fn what_a_launch_can_differ_by_is_not_proved() {
        let seen = tried(&["work_mem"], estimate(0.83, 0.65, 0.96));
        assert!(seen.differs() && !seen.costs());
    }
}
