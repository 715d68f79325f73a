//! Takes hosts one by one, and keeps the newest of each.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use super::document::{
    Example, Fleet, FleetFinding, FleetHost, LeftOut, SCHEMA, Share, Superseded,
};
use super::groups;
use super::host::{Found, Host, Identity, KindKey, Measured, Source, Unused};
use super::kinds;
use super::member::{Member, Words};
use crate::bottlenecks::{self, Severity};

/// Things that were left out are named as far as this, and counted beyond.
const NAMED: usize = 200;

/// Hosts as they come.
#[derive(Debug, Default)]
pub struct Gathering {
    hosts: BTreeMap<Identity, Collections>,
    left_out: Vec<LeftOut>,
    left_out_counts: BTreeMap<Unused, u32>,
    words: Words,
}

/// All that was collected of a host. What counts is decided once all is there, so that it does not
/// depend on the order in which it came.
#[derive(Debug)]
struct Collections {
    /// The one that counts.
    newest: Member,
    /// Of the others what may count beside it.
    others: Vec<Older>,
}

/// A collection of a host that has another.
#[derive(Debug)]
struct Older {
    place: String,
    collected: String,
    source: Source,
    measured: Option<Measured>,
}

impl Collections {
    fn add(&mut self, mut member: Member) {
        if member.host.rank() > self.newest.host.rank() {
            std::mem::swap(&mut self.newest, &mut member);
        }
        self.others.push(member.into());
    }

    /// Adds what was collected of the host alone: it says nothing else that this one does not.
    fn add_alone(&mut self, alone: Self) {
        self.others.push(alone.newest.into());
        self.others.extend(alone.others);
    }

    /// The host with its newest measurement, which no collection makes anew, and what does not count.
    fn conclude(self) -> (Member, Vec<Superseded>) {
        let Self {
            newest: mut member,
            mut others,
        } = self;
        others.sort_by(|a, b| (&a.place, &a.collected).cmp(&(&b.place, &b.collected)));
        let at = |measured: &Option<Measured>| measured.as_ref().map(|m| m.at.clone());
        let mut last = None;
        let mut newest = at(&member.host.measured);
        for (n, other) in others.iter().enumerate() {
            if at(&other.measured) > newest {
                newest = at(&other.measured);
                last = Some(n);
            }
        }
        if let Some(n) = last {
            let other = &mut others[n];
            member.host.measured = other.measured.take();
            if other.source != Source::Facts {
                others.remove(n);
            }
        }
        let superseded = others.into_iter().map(|other| Superseded {
            host: member.host.name.clone(),
            place: other.place,
            collected: other.collected,
            by: member.host.place.clone(),
        });
        let superseded = superseded.collect();
        (member, superseded)
    }
}

impl From<Member> for Older {
    fn from(member: Member) -> Self {
        let host = member.host;
        Self {
            place: host.place,
            collected: host.collected,
            source: host.source,
            measured: host.measured,
        }
    }
}

impl Gathering {
    /// Takes a collection. Of two of one host the newer counts, but one without an audit only where
    /// there is no other.
    pub fn add(&mut self, mut host: Host) {
        let traits = std::mem::take(&mut host.traits);
        let traits = traits
            .into_iter()
            .map(|(name, value)| (self.words.number(name), self.words.number(value)))
            .collect();
        let identity = host.identity();
        let member = Member { host, traits };
        match self.hosts.entry(identity) {
            Entry::Occupied(mut known) => known.get_mut().add(member),
            Entry::Vacant(free) => {
                free.insert(Collections {
                    newest: member,
                    others: Vec::new(),
                });
            }
        }
    }

    /// Notes that something is not used.
    pub fn leave_out(&mut self, place: String, because: Unused, why: String) {
        *self.left_out_counts.entry(because).or_default() += 1;
        // What may have been a host is named before what was not.
        let named = self.left_out.len() < NAMED || because.may_be_a_host();
        if named && self.left_out.len() < 2 * NAMED {
            self.left_out.push(LeftOut {
                place,
                because,
                why,
            });
        }
    }

    /// How many hosts there are so far.
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Whether there is none yet.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// What lay there and was not used, so far.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// A host that was looked at alone says nothing that one of its servers' collections does not.
    fn drop_hosts_of_servers(&mut self) {
        let alone: Vec<(Identity, Identity)> = self
            .hosts
            .keys()
            .filter(|id| id.server.is_none() && id.machine.starts_with("machine "))
            .filter_map(|id| {
                let mut others = self.hosts.keys();
                let server = others.find(|o| o.machine == id.machine && o.server.is_some())?;
                Some((id.clone(), server.clone()))
            })
            .collect();
        for (alone, server) in alone {
            if let Some(old) = self.hosts.remove(&alone)
                && let Some(of_server) = self.hosts.get_mut(&server)
            {
                of_server.add_alone(old);
            }
        }
    }

    /// Concludes.
    pub fn conclude(mut self) -> Fleet {
        self.drop_hosts_of_servers();
        let (mut members, superseded): (Vec<Member>, Vec<Vec<Superseded>>) =
            self.hosts.into_values().map(Collections::conclude).unzip();
        for member in &mut members {
            let weight = |found: &Found| (std::cmp::Reverse(found.severity), found.id.clone());
            member.host.found.sort_by_key(weight);
            member.traits.sort_unstable();
        }
        members.sort_by(|a, b| (&a.host.name, &a.host.place).cmp(&(&b.host.name, &b.host.place)));
        tell_apart(&mut members);
        let kinds = kinds::of(&members, &self.words);
        let numbers: HashMap<&KindKey, usize> = kinds
            .iter()
            .enumerate()
            .map(|(n, kind)| (&kind.of, n))
            .collect();
        let mut odd: HashMap<&str, u32> = HashMap::new();
        for kind in &kinds {
            let by_trait = kind.odd.iter().flat_map(|odd| odd.on.iter());
            let measured = kind.odd_measured.iter().map(|odd| &odd.host);
            for host in by_trait.chain(measured) {
                *odd.entry(host).or_default() += 1;
            }
        }
        let hosts = members.iter().map(|member| {
            let host = &member.host;
            FleetHost {
                name: host.name.clone(),
                place: host.place.clone(),
                source: host.source,
                collected: host.collected.clone(),
                kind: numbers.get(&host.kind).copied().unwrap_or_default(),
                findings: host.found.iter().map(|found| found.id.clone()).collect(),
                gravest: host.found.iter().map(|found| found.severity).max(),
                odd: odd.get(host.name.as_str()).copied().unwrap_or_default(),
                incomplete: match host.audited {
                    true => host.incomplete.clone(),
                    false => Some("no audit was made".to_owned()),
                },
            }
        });
        let hosts: Vec<FleetHost> = hosts.collect();
        let mut dates: Vec<&str> = hosts.iter().map(|host| host.collected.as_str()).collect();
        dates.sort_unstable();
        let date = |at: Option<&&str>| at.map(|date| (*date).to_owned()).unwrap_or_default();
        let (oldest, newest) = (date(dates.first()), date(dates.last()));
        let mut superseded = superseded.concat();
        superseded.sort_by(|a, b| (&a.host, &a.place).cmp(&(&b.host, &b.place)));
        let mut left_out = self.left_out;
        left_out.sort_by(|a, b| {
            let key = |out: &LeftOut| (!out.because.may_be_a_host(), out.place.clone());
            key(a).cmp(&key(b))
        });
        left_out.truncate(NAMED);
        Fleet {
            schema: SCHEMA.to_owned(),
            oldest,
            newest,
            findings: findings(&members),
            by: groups::of(&members, &self.words),
            hosts,
            kinds,
            superseded,
            left_out,
            left_out_counts: self.left_out_counts.into_iter().collect(),
        }
    }
}

/// Different hosts of one name, from different directories, are named with what they were read from.
fn tell_apart(members: &mut [Member]) {
    let mut counts: HashMap<String, u32> = HashMap::new();
    for member in members.iter() {
        *counts.entry(member.host.name.clone()).or_default() += 1;
    }
    for host in members.iter_mut().map(|member| &mut member.host) {
        if counts.get(&host.name).is_some_and(|n| *n > 1) {
            host.name = format!("{} ({})", host.name, host.place);
        }
    }
}

/// What is wrong, on how many hosts.
fn findings(members: &[Member]) -> Vec<FleetFinding> {
    let mut on: BTreeMap<&str, Vec<(&Host, &Found)>> = BTreeMap::new();
    for member in members {
        for found in &member.host.found {
            on.entry(&found.id).or_default().push((&member.host, found));
        }
    }
    let mut all: Vec<FleetFinding> = on
        .into_iter()
        .filter_map(|(id, mut on)| {
            on.sort_by_key(|(host, found)| (std::cmp::Reverse(found.severity), &host.name));
            let (host, first) = *on.first()?;
            let entry = bottlenecks::find(id);
            // What only a load shows is not there where a load was looked at and did not show it.
            let by_load = entry.is_some_and(|entry| entry.needs.is_empty());
            let found = |host: &Host| host.found.iter().any(|found| found.id == id);
            let passed = members.iter().map(|member| &member.host).filter(|host| {
                host.passed.contains(id) || (by_load && host.diagnosed && !found(host))
            });
            let n = on.len() as u32;
            let commands = first.commands();
            Some(FleetFinding {
                id: id.to_owned(),
                title: entry.map_or_else(|| id.to_owned(), |entry| entry.title.to_owned()),
                family: entry.map(|entry| entry.family),
                severity: first.severity,
                hosts: Share {
                    n,
                    of: n + passed.count() as u32,
                },
                measured: on.iter().filter(|(_, f)| f.under.is_some()).count() as u32,
                on: on.iter().map(|(host, _)| host.name.clone()).collect(),
                example: Example {
                    host: host.name.clone(),
                    saw: first.saw.clone(),
                    remedy: first.remedy.clone(),
                    cures_all: on.iter().all(|(_, found)| found.commands() == commands),
                },
            })
        })
        .collect();
    let weight = |finding: &FleetFinding| {
        let gravest: std::cmp::Reverse<Severity> = std::cmp::Reverse(finding.severity);
        (gravest, std::cmp::Reverse(finding.hosts.n))
    };
    all.sort_by_key(weight);
    all
}
