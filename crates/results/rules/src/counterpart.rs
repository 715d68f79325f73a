//! What a comparison sets against the server to measure what a finding costs: itself with other
//! settings, a release that changed it, or another build.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::entry::{Compared, Entry};
use super::step::Step;
use super::{major, origin};

/// B of a comparison that measures a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counterpart {
    /// What is different about it.
    pub differs: Differs,
    /// The workload under which it shows, if not under that which found it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
}

/// How B differs from the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Differs {
    /// By these settings.
    Settings(BTreeMap<String, Values>),
    /// By its major version.
    Release(String),
    /// By the variant as which the same source is built.
    Build(String),
}

/// The values of a setting on both sides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Values {
    /// A's; none where it is the server's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub a: Option<String>,
    /// B's; none where it is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub b: Option<String>,
}

/// The counterpart of a server with a bottleneck: the first that its entry names and that this remedy
/// and this version leave possible.
pub(super) fn of(entry: &Entry, remedy: &[Step], version: Option<u32>) -> Option<Counterpart> {
    let differs = entry.compare.iter().find_map(|by| match by {
        Compared::Settings => {
            let changes = remedy.iter().flat_map(origin::changes);
            let settings: BTreeMap<String, Values> = changes
                .map(|change| {
                    let b = change.value.map(str::to_owned);
                    (change.name.to_owned(), Values { a: None, b })
                })
                .collect();
            (!settings.is_empty()).then_some(Differs::Settings(settings))
        }
        Compared::Setting { name, a, b } => {
            let values = Values {
                a: a.map(str::to_owned),
                b: Some((*b).to_owned()),
            };
            let settings = [((*name).to_owned(), values)];
            Some(Differs::Settings(settings.into()))
        }
        Compared::Release => {
            let version = version?;
            // A minor release may have it, too; its number is not told from the major's.
            let newer = |since: u32| since / 10_000 > version / 10_000;
            let mut lacking = entry.changes.iter().rev();
            let newest = lacking.find(|change| !change.is_in(version) && newer(change.since));
            Some(Differs::Release(major(newest?.since)))
        }
        Compared::Build(variant) => Some(Differs::Build((*variant).to_owned())),
    })?;
    Some(Counterpart {
        differs,
        workload: entry.compare_under.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::StepKind;
    use crate::{ENTRIES, find};

    fn of_statement(id: &str, statement: &str, version: Option<u32>) -> Option<Differs> {
        let step = Step {
            kind: StepKind::Sql,
            text: statement.to_owned(),
        };
        let counterpart = of(find(id).unwrap(), &[step], version);
        counterpart.map(|counterpart| counterpart.differs)
    }

    fn settings(all: &[(&str, Option<&str>)]) -> Option<Differs> {
        let all = all.iter().map(|(name, b)| {
            let b = b.map(str::to_owned);
            ((*name).to_owned(), Values { a: None, b })
        });
        Some(Differs::Settings(all.collect()))
    }

    #[test]
    fn settings_are_those_that_the_remedy_changes() {
        let statement = "ALTER SYSTEM SET bgwriter_lru_maxpages = 1000; ALTER SYSTEM RESET \
                         bgwriter_delay; SELECT pg_reload_conf();   -- ALTER SYSTEM SET x = 1";
        assert_eq!(
            of_statement("backend-writes", statement, None),
            settings(&[
                ("bgwriter_delay", None),
                ("bgwriter_lru_maxpages", Some("1000"))
            ])
        );
        let quoted = "ALTER SYSTEM SET max_wal_size = '4GB'; SELECT pg_reload_conf();";
        assert_eq!(
            of_statement("max-wal-size-small", quoted, Some(150_000)),
            settings(&[("max_wal_size", Some("4GB"))])
        );
        // What no comparison measures, and a remedy without a setting.
        let grows = "ALTER SYSTEM SET max_connections = 100;   -- then restart";
        assert_eq!(of_statement("max-connections-unused", grows, None), None);
        assert_eq!(of_statement("max-wal-size-small", "CHECKPOINT", None), None);
    }

    #[test]
    fn a_release_is_one_that_the_server_has_not() {
        let release = |version| of(find("snapshot-scalability").unwrap(), &[], version);
        let newer = release(Some(130_012)).unwrap();
        assert_eq!(newer.differs, Differs::Release("14".to_owned()));
        assert_eq!(newer.workload.as_deref(), Some("snapshot"));
        assert_eq!((release(Some(150_000)), release(None)), (None, None));
        // 15.6 has it as well as 16: to measure it, the next major is compared.
        let minor = of(find("lwlock-wait-list").unwrap(), &[], Some(150_003)).unwrap();
        assert_eq!(minor.differs, Differs::Release("16".to_owned()));
    }

    #[test]
    fn what_an_entry_names_can_be_had() {
        for entry in ENTRIES {
            let release = entry.compare.contains(&Compared::Release);
            assert!(!release || !entry.changes.is_empty(), "{}", entry.id);
            let under = entry.compare_under.is_some();
            assert!(!under || !entry.compare.is_empty(), "{}", entry.id);
        }
    }
}
