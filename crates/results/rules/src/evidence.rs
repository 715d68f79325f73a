//! What a run or a profile shows, as detectors look at it.

use super::finding::{Circumstances, FULL};
use super::wait_events::{WAL_FLUSH, is_of};
use pgassay_evidence::host::HostSummary;
use pgassay_evidence::measured::{ArmAnalysis, PointAnalysis, StageArm};
use pgassay_evidence::observed::statements::Elsewhere;
use pgassay_evidence::observed::{Budget, PointObserved, WaitAnalysis};
use pgassay_evidence::profile::Summary;
use pgassay_evidence::server::{Setting, SettingsOf};
use pgassay_evidence::{metrics, number};
use pgassay_model::observed::growth::Grown;
use pgassay_model::workload::{Pace, WorkloadPlan};
use pgassay_stats::scaling::Scaling;

/// Other programs' share of the CPUs from which on it is no longer the machine's own housekeeping.
pub(super) const OTHERS: f64 = 0.1;

/// Sightings that must be missing for statements to be other sessions': by chance that many are in one case of 150.
const MISSED: f64 = 5.0;

/// What is known of a server under load.
#[derive(Debug, Clone, Copy, Default)]
pub struct Evidence<'a> {
    /// `server_version_num`, 150018 for 15.18 and 90404 for 9.4.4.
    pub version: Option<u32>,
    /// CPU samples.
    pub profile: Option<&'a Summary>,
    /// A recorded run.
    pub run: Option<RunEvidence<'a>>,
}

impl Evidence<'_> {
    /// The part of the sessions' time in which they ran, or were ready to: of the budget. Without
    /// one, of the time of sessions in a statement by samples, which see too few of them.
    pub fn running(&self) -> Option<f64> {
        if let Some(budget) = self.run?.budget() {
            return Some(budget.running());
        }
        let waits = self.run?.waits()?;
        (waits.active_sessions > 0.0).then(|| waits.running_sessions / waits.active_sessions)
    }

    /// What the circumstances make of what detectors see.
    pub(super) fn circumstances(&self) -> Circumstances {
        let run = self.run.as_ref();
        let budget = run.and_then(RunEvidence::budget);
        let busy = run.and_then(RunEvidence::busy);
        Circumstances {
            version: self.version,
            running: self.running(),
            on_cpu: budget.map(|budget| budget.share(budget.on_cpu)),
            in_transactions: run.and_then(RunEvidence::in_transactions),
            busy,
            server_of_busy: run.and_then(|run| {
                let server = run.point.estimate(metrics::SERVER_CPUS)?.estimate;
                // What others do gives way, or is there with the cause and without it.
                let client = run.point.estimate(metrics::CLIENT_CPUS);
                let both = server + client.map_or(0.0, |client| client.estimate);
                (both > 0.0).then(|| (server / both).min(1.0))
            }),
            flushing: budget.and_then(|budget| {
                budget.share_with_woken(|kind, event| is_of(kind, event, WAL_FLUSH))
            }),
        }
    }

    /// A setting's value and where it comes from, as far as they are known.
    pub(super) fn value_and_source(&self, name: &str) -> Option<(&str, &str)> {
        let found = self.run?.known_setting(name)?;
        Some((&found.value, &found.source))
    }

    /// Whose settings they are, as far as that is known.
    pub(super) fn place(&self) -> Option<&SettingsOf> {
        Some(&self.run?.arm.server.as_ref()?.place)
    }

    /// Whether the server's version is known to be older than this.
    pub(super) fn is_before(&self, version: u32) -> bool {
        self.version.is_some_and(|v| v < version)
    }
}

/// What a run shows of one server, at its largest client count.
#[derive(Debug, Clone, Copy)]
pub struct RunEvidence<'a> {
    /// The load's name.
    pub workload: &'a str,
    /// What our clients do; none where the load is the server's own.
    pub ours: Option<&'a WorkloadPlan>,
    /// The machine.
    pub host: &'a HostSummary,
    /// The server.
    pub arm: &'a ArmAnalysis,
    /// How it did under the load.
    pub load: &'a StageArm,
    /// The largest client count that was measured.
    pub point: &'a PointAnalysis,
    /// What observers saw there.
    pub observed: Option<&'a PointObserved>,
    /// The scaling law over all client counts, if it holds.
    pub scaling: Option<&'a Scaling>,
}

impl<'a> RunEvidence<'a> {
    /// How a table's counters grew.
    pub fn table(&self, name: &str) -> Option<&'a Grown> {
        let growth = self.observed?.growth.as_ref()?;
        growth.tables.iter().find(|table| table.name == name)
    }

    /// The wait samples.
    pub fn waits(&self) -> Option<&'a WaitAnalysis> {
        self.observed?.waits.as_ref()
    }

    /// Where the sessions' time went.
    pub fn budget(&self) -> Option<&'a Budget> {
        self.observed?.budget.as_ref()
    }

    /// The part of the load's whole time that its sessions were in transactions.
    fn in_transactions(&self) -> Option<f64> {
        let budget = self.budget()?;
        let within = budget.in_transactions();
        let between = (f64::from(self.point.point.clients) - within).max(0.0);
        let between = self
            .clients_work(budget)
            .map_or(between, |work| between.min(work));
        let all = within + between;
        (all > 0.0).then(|| within / all)
    }

    /// How long our clients take between transactions if nothing makes them wait: what they use of the
    /// CPUs, and while they wait for these as the server's sessions do. On full CPUs a client that has its
    /// answer waits behind the sessions whose work is the question. None where CPUs are free, or clients
    /// wait because they are told to.
    fn clients_work(&self, budget: &Budget) -> Option<f64> {
        let machine = self.point.estimate(metrics::MACHINE_CPUS)?.estimate;
        // Only then the client is known to be on the server's machine.
        self.point.estimate(metrics::SERVER_CPUS)?;
        let full = machine >= FULL * f64::from(self.host.cpus?);
        let client = self.point.estimate(metrics::CLIENT_CPUS)?.estimate;
        let stretched = (budget.on_cpu + budget.ready) / budget.on_cpu.max(f64::MIN_POSITIVE);
        (full && self.is_closed()).then_some(client * stretched)
    }

    /// Whether clients of ours begin a transaction as soon as the one before has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.ours.is_some_and(|work| {
            let dials = &work.dials;
            let sleeps = work.scripts.iter().any(|s| s.text.contains("\\sleep"));
            let waits = work
                .replay
                .as_ref()
                .is_some_and(|replay| replay.pace != Pace::Closed);
            dials.rate_tps.is_none() && !dials.think_times && !sleeps && !waits
        })
    }

    /// Whether clients of ours have their statements parsed once.
    pub(super) fn prepares(&self) -> bool {
        self.ours.is_some_and(|work| work.protocol == "prepared")
    }

    /// A share of the time in transactions as one of the load's whole time.
    pub(super) fn of_cycle(&self, share: f64) -> f64 {
        share * self.in_transactions().unwrap_or(1.0)
    }

    /// CPUs that the server kept busy; 0 where that is not seen.
    pub(super) fn server_cpus(&self) -> f64 {
        let seen = self.point.estimate(metrics::SERVER_CPUS);
        seen.map_or(0.0, |server| server.estimate)
    }

    /// CPUs that neither server nor client kept busy, but something else; none where the server's
    /// are not seen.
    pub(super) fn other_cpus(&self) -> Option<f64> {
        self.point.other_cpus
    }

    /// The share of the CPUs that was busy, or stolen: of the machine's, or of the quota that
    /// server and client have, whichever is nearer to full. Much work of others counts for
    /// nothing: it would give way to the server, or may be gone next time. So does work that the load can't
    /// have caused, since it is more than its own: there is no more of it where the load is larger. None where
    /// the server's CPUs are not seen.
    fn busy(&self) -> Option<f64> {
        let cpus = f64::from(self.host.cpus?);
        let machine = self.point.estimate(metrics::MACHINE_CPUS)?.estimate;
        let others = self.other_cpus()?;
        let counted = if others > OTHERS * cpus || others > machine - others {
            machine - others
        } else {
            machine
        };
        let stolen = self
            .point
            .estimate(metrics::STEAL)
            .map_or(0.0, |s| s.estimate);
        let quota = self
            .host
            .cpu_quota
            .map_or(0.0, |quota| (machine - others) / quota);
        Some((counted / cpus + stolen).max(quota).clamp(0.0, 1.0))
    }

    /// The share of the sessions' time at the wait events that `pick` picks by type and name:
    /// of the budget, else of the time of sessions in a statement by samples.
    pub(super) fn wait_share(&self, pick: impl Fn(&str, &str) -> bool) -> Option<f64> {
        if let Some(budget) = self.budget()
            && let Some(sessions) = budget.at(&pick)
        {
            return Some(budget.share(sessions));
        }
        Some(self.waits()?.share(|e| pick(&e.kind, &e.event)))
    }

    /// The share of the sessions' time that would be gone with these waits: with that of the sessions that were
    /// woken from them and waited for a CPU. Without a budget it is the share itself.
    pub(super) fn share_without(&self, pick: impl Fn(&str, &str) -> bool) -> Option<f64> {
        let of_budget = self
            .budget()
            .and_then(|budget| budget.share_with_woken(&pick));
        of_budget.or_else(|| self.wait_share(pick))
    }

    /// What shares of waits are shares of.
    pub(super) fn whole(&self) -> &'static str {
        match self.budget() {
            Some(budget) if budget.off.is_some() => match self.elsewhere() {
                Some(_) => "the time in transactions of the load's sessions",
                None => "the sessions' time in transactions",
            },
            _ => "the time of sessions in a statement",
        }
    }

    /// Statements of other sessions than the load's, where they have a part of the execution time that shows.
    pub(super) fn elsewhere(&self) -> Option<&'a Elsewhere> {
        // Statements within functions are counted with the one that calls them, and once more.
        if self.setting("pg_stat_statements.track") == Some("all") || self.is_own_load() {
            return None;
        }
        let statements = self.observed?.statements.as_ref()?;
        let elsewhere = statements.elsewhere.as_ref()?;
        // Of the load's own those would have been seen.
        let missed = elsewhere.share * statements.sightings as f64;
        (elsewhere.share >= OTHERS && missed >= MISSED).then_some(elsewhere)
    }

    /// `Other programs kept 0.45 of 2 CPUs busy meanwhile …`, where they did so that it shows.
    pub fn disturbed(&self) -> Option<String> {
        let cpus = f64::from(self.host.cpus?);
        let others = self.other_cpus()?;
        (others >= OTHERS * cpus).then(|| {
            format!(
                "Other programs kept {others:.2} of {cpus:.0} CPUs busy meanwhile: these are figures of a disturbed machine."
            )
        })
    }

    /// The value of one of the server's settings.
    pub(super) fn setting(&self, name: &str) -> Option<&'a str> {
        Some(&self.known_setting(name)?.value)
    }

    fn known_setting(&self, name: &str) -> Option<&'a Setting> {
        let server = self.arm.server.as_ref()?;
        let mut all = server.all_settings.iter().chain(&server.settings);
        all.find(|s| s.name == name)
    }

    /// Whether nobody of ours loaded the server.
    pub fn is_own_load(&self) -> bool {
        self.observed.is_some_and(|observed| observed.own_load)
    }

    /// CPUs that the quota of its control group kept from the server, where that is worth naming. What
    /// waits for it can't be told from what waits for a CPU that others have.
    pub fn held_back(&self) -> Option<f64> {
        let throttled = self.point.estimate(metrics::CPU_THROTTLED)?.estimate;
        (throttled >= 0.05).then_some(throttled)
    }

    /// `8 clients`: how many there were, or sessions of the server's own load.
    pub fn clients(&self) -> String {
        match self.observed.filter(|observed| observed.own_load) {
            Some(observed) => observed.how_many(),
            None => number::counted(self.point.point.clients, "client"),
        }
    }
}
