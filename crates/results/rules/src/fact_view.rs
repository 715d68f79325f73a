//! The facts as detectors ask for them: each question gives an answer, or the reason why
//! there is none, which ends the detector.

use std::collections::HashMap;

use pgassay_inspect::{Binary, Machine};
use pgassay_model::facts::{self, Facts, Library, Place};
use pgassay_model::reading::{Reading, Sample};
use pgassay_model::server::Origin;
use pgassay_model::storage::Directory;
use pgassay_readings::samples;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::finding::{NotJudged, could_not_see, not_applicable};
use pgassay_evidence::host::{self, HostSummary};
use pgassay_evidence::server::SettingsOf;

/// A row of one of the server's answers.
pub type Row = Map<String, Value>;

/// Settings whose rows `pg_settings` hides from who may not read all settings
/// (GUC_SUPERUSER_ONLY in the server's guc_tables.c).
const HIDDEN: &[&str] = &[
    "data_directory",
    "config_file",
    "shared_preload_libraries",
    "session_preload_libraries",
    "dynamic_library_path",
];

/// What can be asked of recorded facts.
#[derive(Debug)]
pub struct FactView<'a> {
    facts: &'a Facts,
    summary: HostSummary,
    settings: Result<HashMap<String, Setting>, NotJudged>,
}

/// What the CPUs did for about a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// The share of the machine's CPUs that was busy, 0 to 1.
    pub busy: f64,
    /// CPUs that the server kept busy.
    pub server: f64,
    /// Processes of the server that were ready and waited for a CPU, on average.
    pub ready: f64,
}

/// A row of `pg_settings`.
#[derive(Debug, Clone, Deserialize)]
pub struct Setting {
    name: String,
    setting: Option<String>,
    unit: Option<String>,
    /// `default`, `configuration file`, `command line` …
    #[serde(default)]
    pub source: Option<String>,
    /// A change waits for a restart (from 9.5 on).
    #[serde(default)]
    pub pending_restart: Option<bool>,
}

impl<'a> FactView<'a> {
    /// Reads the facts once.
    pub fn new(facts: &'a Facts) -> Self {
        Self {
            facts,
            summary: host::summarise(&facts.host),
            settings: settings(facts),
        }
    }

    // The host.

    /// Refuses where the host that was looked at is not the server's.
    fn host(&self) -> Result<(), NotJudged> {
        match &self.facts.place {
            Place::Here(_) | Place::NoServer => Ok(()),
            Place::Elsewhere(why) => could_not_see(format!("the server's host: {why}")),
        }
    }

    /// A recorded text of the host, trimmed.
    pub fn text(&self, source: &str) -> Result<&'a str, NotJudged> {
        self.host()?;
        reading(&self.facts.host, source)
    }

    /// Recorded texts of the host whose source begins and ends so.
    pub fn texts(
        &self,
        start: &str,
        end: &str,
    ) -> Result<impl Iterator<Item = (&'a str, &'a str)>, NotJudged> {
        self.host()?;
        let (start, end) = (start.to_owned(), end.to_owned());
        Ok(self
            .facts
            .host
            .iter()
            .filter(move |(source, _)| source.starts_with(&start) && source.ends_with(&end))
            .filter_map(|(source, reading)| Some((source.as_str(), reading.text()?.trim()))))
    }

    /// One of the facts that the host's summary holds.
    pub fn of_host<T>(
        &self,
        what: &str,
        pick: impl FnOnce(&HostSummary) -> Option<T>,
    ) -> Result<T, NotJudged> {
        self.host()?;
        pick(&self.summary).map_or_else(|| could_not_see(format!("{what} is unavailable")), Ok)
    }

    /// The host in short; empty where it is not the server's.
    pub fn host_summary(&self) -> HostSummary {
        match self.host() {
            Ok(()) => self.summary.clone(),
            Err(_) => HostSummary::default(),
        }
    }

    /// Memory that the server may use, in bytes.
    pub fn memory(&self) -> Result<u64, NotJudged> {
        self.of_host("the memory's size", HostSummary::usable_memory_bytes)
    }

    /// CPUs that the server may run on.
    pub fn cpus(&self) -> Result<u32, NotJudged> {
        self.of_host("the number of CPUs", |h| h.cpus)
    }

    /// A line `name value` of a text of the kernel's counters.
    pub fn counter(&self, source: &str, name: &str) -> Result<u64, NotJudged> {
        let value = self.text(source)?.lines().find_map(|line| {
            let (key, value) = line.split_once(char::is_whitespace)?;
            (key.trim_end_matches(':') == name).then(|| value.split_whitespace().next())?
        });
        match value.and_then(|v| v.parse().ok()) {
            Some(value) => Ok(value),
            None => could_not_see(format!("{source} has no {name}")),
        }
    }

    /// The server's machine: `x86_64`, `aarch64` …
    pub fn machine(&self) -> Result<&str, NotJudged> {
        if let Some(Ok(binary)) = &self.facts.binary {
            return Ok(match &binary.machine {
                Machine::X86_64 => "x86_64",
                other => other.name(),
            });
        }
        if let Some(version) = self.version_text() {
            // `… on aarch64-unknown-linux-gnu, compiled by …`
            let triple = version.split(" on ").nth(1).unwrap_or_default();
            if let Some((machine, _)) = triple.split_once('-') {
                return Ok(match machine {
                    "powerpc64le" => "ppc64le",
                    other => other,
                });
            }
        }
        self.of_host("the machine's architecture", |_| {
            self.summary.architecture.as_deref()
        })
    }

    /// The directories of the server's files.
    pub fn directories(&self) -> Result<&'a [Directory], NotJudged> {
        self.host()?;
        match self.facts.directories.as_slice() {
            [] => {
                could_not_see("how the directories of the server's files are mounted is not seen")
            }
            known => Ok(known),
        }
    }

    // The server.

    /// The rows of an answer.
    pub fn rows(&self, question: &str) -> Result<Vec<Row>, NotJudged> {
        rows(self.facts, question)
    }

    /// The only row of an answer.
    pub fn row(&self, question: &str) -> Result<Row, NotJudged> {
        match self.rows(question)?.into_iter().next() {
            Some(row) => Ok(row),
            None => could_not_see(format!("the server's answer on {question} is empty")),
        }
    }

    /// An entry of `pg_config`, as the server tells it.
    pub fn built(&self, name: &str) -> Result<String, NotJudged> {
        let rows = self.rows("build")?;
        let row = rows.iter().find(|row| word(row, "name") == Some(name));
        match row.and_then(|row| word(row, "setting")) {
            Some(text) => Ok(text.to_owned()),
            None => could_not_see(format!("the server's pg_config has no {name}")),
        }
    }

    /// `version()`.
    pub fn version_text(&self) -> Option<&'a str> {
        let text = self.facts.server.get("version")?.text()?;
        // Kept as the text itself, not as rows: it is shown everywhere.
        Some(text.trim())
    }

    /// `server_version_num`: 150018 for 15.18, 90624 for 9.6.24.
    pub fn version(&self) -> Result<u32, NotJudged> {
        match self.number("server_version_num") {
            Ok(number) => u32::try_from(number)
                .or_else(|_| could_not_see("the server's version is no number")),
            Err(NotJudged::NotApplicable(why) | NotJudged::CouldNotSee(why)) => could_not_see(why),
        }
    }

    /// A setting's row.
    pub fn setting(&self, name: &str) -> Result<&Setting, NotJudged> {
        let settings = self.settings.as_ref().map_err(Clone::clone)?;
        match settings.get(name) {
            Some(setting) => Ok(setting),
            None if HIDDEN.contains(&name) => could_not_see(format!(
                "{name} is shown to members of pg_read_all_settings only"
            )),
            None => not_applicable(format!("this server has no setting {name}")),
        }
    }

    /// A setting's value as `pg_settings` has it, without its unit.
    pub fn value(&self, name: &str) -> Result<&str, NotJudged> {
        match self.setting(name)?.setting.as_deref() {
            Some(value) => Ok(value),
            None => could_not_see(format!("the value of {name} was not recorded")),
        }
    }

    /// A setting's value and where it comes from, as far as they are known.
    pub(super) fn value_and_source(&self, name: &str) -> Option<(&str, &str)> {
        let setting = self.settings.as_ref().ok()?.get(name)?;
        Some((setting.setting.as_deref()?, setting.source.as_deref()?))
    }

    /// The role and the database that the settings are those of, as far as they are known.
    pub(super) fn place(&self) -> SettingsOf {
        let row = self.row("role").unwrap_or_default();
        let of = |key: &str| word(&row, key).map(str::to_owned);
        SettingsOf {
            role: of("name"),
            database: of("database"),
        }
    }

    /// ` (set for this role)` and the like, where a setting holds by more than the server's files.
    pub fn set_where(&self, name: &str) -> &'static str {
        match self.source_of(name) {
            "database" => " (set for this database)",
            "user" => " (set for this role)",
            "database user" => " (set for this role in this database)",
            _ => "",
        }
    }

    fn source_of(&self, name: &str) -> &str {
        let setting = self.setting(name).ok();
        setting
            .and_then(|s| s.source.as_deref())
            .unwrap_or_default()
    }

    /// Whether a boolean setting is on.
    pub fn on(&self, name: &str) -> Result<bool, NotJudged> {
        Ok(self.value(name)? == "on")
    }

    /// A setting's number, in its own unit.
    pub fn number(&self, name: &str) -> Result<i64, NotJudged> {
        let value = self.value(name)?;
        value
            .parse()
            .or_else(|_| could_not_see(format!("{name} is {value}, no number")))
    }

    /// A setting's number that may have decimals.
    pub fn decimal(&self, name: &str) -> Result<f64, NotJudged> {
        let value = self.value(name)?;
        value
            .parse()
            .or_else(|_| could_not_see(format!("{name} is {value}, no number")))
    }

    /// A setting of memory in bytes; 0 where it is negative.
    pub fn bytes(&self, name: &str) -> Result<u64, NotJudged> {
        let number = u64::try_from(self.number(name)?).unwrap_or(0);
        let unit = self.setting(name)?.unit.as_deref().unwrap_or("B");
        let digits = unit.chars().take_while(char::is_ascii_digit).count();
        let count: u64 = unit[..digits].parse().unwrap_or(1);
        let factor = match &unit[digits..] {
            "kB" => 1 << 10,
            "MB" => 1 << 20,
            "GB" => 1 << 30,
            "TB" => 1 << 40,
            _ => 1,
        };
        Ok(number.saturating_mul(count).saturating_mul(factor))
    }

    /// A setting of time in milliseconds; none where it is negative, which means off.
    pub fn millis(&self, name: &str) -> Result<Option<u64>, NotJudged> {
        let Ok(number) = u64::try_from(self.number(name)?) else {
            return Ok(None);
        };
        let factor = match self.setting(name)?.unit.as_deref() {
            Some("s") => 1000,
            Some("min") => 60_000,
            _ => 1,
        };
        Ok(Some(number.saturating_mul(factor)))
    }

    /// The settings whose change waits for a restart.
    pub fn waiting_for_restart(&self) -> Result<Vec<&str>, NotJudged> {
        let settings = self.settings.as_ref().map_err(Clone::clone)?;
        let mut names: Vec<&str> = settings
            .values()
            .filter(|s| s.pending_restart == Some(true))
            .map(|s| s.name.as_str())
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    /// A fact of the server's processes.
    pub fn process(&self, name: &str) -> Result<&'a str, NotJudged> {
        if let Place::NoServer = self.facts.place {
            return could_not_see("no server was looked at");
        }
        self.host()?;
        reading(&self.facts.process, name)
    }

    /// What the CPUs did in the second in which a running server was looked at.
    pub fn moment(&self) -> Result<Moment, NotJudged> {
        let sample = |before: &str, after: &str| -> Result<Sample, NotJudged> {
            let elapsed_ns = self
                .process(facts::NANOSECONDS_BETWEEN)?
                .parse()
                .unwrap_or(0);
            Ok(Sample {
                before: Reading::Text(self.process(before)?.to_owned()),
                after: Reading::Text(self.process(after)?.to_owned()),
                elapsed_ns,
            })
        };
        let machine = sample(facts::MACHINE_AT_FIRST, facts::MACHINE_LATER)?;
        let server = sample(facts::PROCESSES_AT_FIRST, facts::PROCESSES_LATER)?;
        // Sessions and workers that came and went are in the first process' account alone.
        let ended = match sample(facts::ENDED_AT_FIRST, facts::ENDED_LATER) {
            Ok(ended) => samples::ended_cpu_ns(&ended, &server),
            Err(_) if samples::has_ended(&server) => {
                return could_not_see(
                    "processes of the server ended meanwhile, and what they had used was not recorded",
                );
            }
            Err(_) => Some(0),
        };
        let seconds = server.elapsed_ns as f64 / 1e9;
        let read = || {
            let each_second = |ns: u64| (seconds > 0.0).then(|| ns as f64 / 1e9 / seconds);
            let cpu = samples::host_cpu(&machine).filter(|cpu| cpu.total > 0.0)?;
            Some(Moment {
                busy: cpu.busy / cpu.total,
                server: each_second(samples::server_cpu_ns(&server)? + ended?)?,
                ready: each_second(samples::run_queue_ns(&server)?)?,
            })
        };
        read().map_or_else(|| could_not_see("what the CPUs did can't be read"), Ok)
    }

    /// Bytes of log that a running server wrote each second while it was looked at.
    pub fn log_rate(&self) -> Result<f64, NotJudged> {
        let number = |name: &str| -> Result<f64, NotJudged> {
            let text = self.process(name)?;
            text.parse()
                .or_else(|_| could_not_see(format!("{name}: {text} is no number")))
        };
        let (then, now) = (number(facts::LOG_AT_FIRST)?, number(facts::LOG_LATER)?);
        let seconds = number(facts::NANOSECONDS_BETWEEN)? / 1e9;
        // A file that was begun anew meanwhile tells nothing.
        match seconds > 0.0 && now >= then {
            true => Ok((now - then) / seconds),
            false => could_not_see("the server's log was begun anew"),
        }
    }

    /// Refuses a server that pgassay launched: it runs as it was told to run.
    pub fn runs_by_itself(&self) -> Result<(), NotJudged> {
        match &self.facts.origin {
            Some(Origin::Launched { .. }) => not_applicable("pgassay launched this server"),
            _ => Ok(()),
        }
    }

    /// What inspect saw in the server's executable.
    pub fn binary(&self) -> Result<&'a Binary, NotJudged> {
        match &self.facts.binary {
            Some(Ok(binary)) => Ok(binary),
            Some(Err(why)) => could_not_see(why.clone()),
            None => could_not_see("the server's executable was not looked at"),
        }
    }

    /// What inspect saw in the libraries that it has loaded.
    pub fn libraries(&self) -> Result<&'a [Library], NotJudged> {
        match &self.facts.libraries {
            Some(Ok(libraries)) => Ok(libraries),
            Some(Err(why)) => could_not_see(why.clone()),
            None => could_not_see("the server's libraries were not looked at"),
        }
    }

    /// When the facts were collected: `2026-11-21T…`.
    pub fn collected(&self) -> &str {
        &self.facts.collected
    }
}

/// A number out of a row; text that is a number counts, null does not.
pub fn number(row: &Row, key: &str) -> Option<f64> {
    match row.get(key)? {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
    .filter(|n| n.is_finite())
}

/// A text out of a row.
pub fn word<'r>(row: &'r Row, key: &str) -> Option<&'r str> {
    row.get(key)?.as_str()
}

fn reading<'a>(
    texts: &'a std::collections::BTreeMap<String, Reading>,
    source: &str,
) -> Result<&'a str, NotJudged> {
    match texts.get(source) {
        Some(Reading::Text(text)) => Ok(text.trim()),
        Some(Reading::Unavailable(why)) => could_not_see(format!("{source}: {why}")),
        None => could_not_see(format!("{source} was not recorded")),
    }
}

fn rows(facts: &Facts, question: &str) -> Result<Vec<Row>, NotJudged> {
    if let Place::NoServer = facts.place {
        return could_not_see("no server was looked at");
    }
    let text = match facts.server.get(question) {
        Some(Reading::Text(text)) => text,
        Some(Reading::Unavailable(why)) => return could_not_see(why.clone()),
        None => return could_not_see(format!("the server was not asked for {question}")),
    };
    serde_json::from_str(text)
        .or_else(|e| could_not_see(format!("the server's answer on {question} is damaged: {e}")))
}

fn settings(facts: &Facts) -> Result<HashMap<String, Setting>, NotJudged> {
    let rows = rows(facts, "settings")?;
    Ok(rows
        .into_iter()
        .filter_map(|row| serde_json::from_value::<Setting>(Value::Object(row)).ok())
        .map(|setting| (setting.name.clone(), setting))
        .collect())
}
