//! What is shown under which address.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pgassay_analysis::Analysis;
use pgassay_analysis::history::{Past, history};
use pgassay_analysis::kernels::side_by_side;
use pgassay_analysis::metrics::MetricId;
use pgassay_analysis::quality::Grade;
use pgassay_analysis::stats::ChangeRule;
use pgassay_analysis::summary::Summary;
use pgassay_engine::rundir;
use pgassay_http::{Answer, Bound, Feed, Forms, Request, Site};
use pgassay_model::run::RunState;
use pgassay_report::site::{self, Bar, Choice, Link, List, Listed, Row, escaped};
use pgassay_report::{Beside, Document, Report};

use super::follow::Follow;
use super::index::{Index, Is};
use super::kept::Stamp;
use super::metrics::Metrics;
use super::pages::Pages;
use super::started::{Output, Started};
use crate::commands::concluded::Concluded;

/// Rows of a page of the list.
const ROWS: usize = 100;
/// How long a page of the list waits for runs that it shows and that are not read yet.
const WAITS: Duration = Duration::from_millis(300);
/// Runs of one history: the newest.
const MOST_OF_HISTORY: usize = 100;

/// The pages over an index of runs.
pub(super) struct RunsSite {
    pub(super) index: Arc<Index>,
    pages: Pages,
    metrics: Metrics,
    /// What a page may ask for beside being read.
    pub(super) may: May,
    /// What stands before every address of the site in a page.
    pub(super) root: String,
    forms: Forms,
}

/// What may be asked for beside being read.
pub(super) enum May {
    /// Nothing.
    Read,
    /// That a run waits, or goes on.
    Pause,
    /// The same, and that one is measured.
    Run(Started),
}

impl RunsSite {
    /// The pages as they are shown by a server.
    pub(super) fn new(index: Arc<Index>, may: May, bound: &Bound) -> Self {
        Self {
            root: bound.root(),
            forms: bound.forms(),
            index,
            pages: Pages::default(),
            metrics: Metrics::default(),
            may,
        }
    }
}

/// What can't be shown: why, and what to do.
pub(super) struct Missing {
    status: u16,
    said: String,
    remedy: String,
}

impl Missing {
    pub(super) fn new(status: u16, said: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            status,
            said: said.into(),
            remedy: remedy.into(),
        }
    }

    pub(super) fn no_page() -> Self {
        Self::new(404, "There is no such page.", "")
    }

    pub(super) fn no_run(name: &str) -> Self {
        Self::new(
            404,
            format!("No run is called {name}."),
            "go back to the list of runs: it may have been removed",
        )
    }
}

impl From<anyhow::Error> for Missing {
    fn from(error: anyhow::Error) -> Self {
        let failure = error.downcast_ref::<pgassay_model::Failure>();
        let remedy = failure.and_then(|failure| failure.remedy.clone());
        Self::new(
            422,
            format!("This run can't be shown: {error:#}."),
            remedy.unwrap_or_default(),
        )
    }
}

impl Site for RunsSite {
    fn answer(&self, request: &Request) -> Answer {
        let answer = match words(request).as_slice() {
            _ if request.form.is_some() => self.asked(request),
            [] => Ok(self.list(request)),
            ["now"] => Ok(self.now(request)),
            ["run", run] => self.run(run, request),
            ["run", run, form] => self.form(run, form),
            ["compare"] => self.compare(request),
            ["history"] => self.history(request),
            ["metrics"] => Ok(self.metrics.answer(&self.index)),
            ["start"] => self.question(request),
            ["started"] => self.started(),
            _ => Err(Missing::no_page()),
        };
        answer.unwrap_or_else(|missing| {
            let page = site::message(
                "Nothing to show",
                &missing.said,
                &missing.remedy,
                &self.bar(),
            );
            Answer {
                status: missing.status,
                ..shown(page)
            }
        })
    }

    fn takes_forms(&self) -> bool {
        !matches!(self.may, May::Read)
    }

    fn feed(&self, request: &Request) -> Option<Box<dyn Feed>> {
        if let (May::Run(started), ["started"]) = (&self.may, words(request).as_slice()) {
            return Some(Box::new(Output::of(started, &self.root)?));
        }
        let [live, run] = request.path.as_slice() else {
            return None;
        };
        if live != "live" {
            return None;
        }
        let (dir, _, _) = self.index.find(run)?;
        Some(Box::new(Follow::of(&dir, self.controls(run))?))
    }
}

/// The parts of an address.
pub(super) fn words(request: &Request) -> Vec<&str> {
    request.path.iter().map(String::as_str).collect()
}

pub(super) fn shown(page: impl Into<bytes::Bytes>) -> Answer {
    Answer::page(site::POLICY.as_str(), page)
}

impl RunsSite {
    /// An address of the site as a page names it.
    pub(super) fn at(&self, address: &str) -> String {
        format!("{}{address}", self.root)
    }

    fn run_at(&self, run: &str) -> String {
        self.at(&format!("/run/{}", escaped(run)))
    }

    fn history_at(&self, run: &str) -> String {
        self.at(&format!("/history?run={}", escaped(run)))
    }

    /// A form to an address of the site, with the token that it needs.
    pub(super) fn form_to(&self, to: &str, fields: &[(&str, &str)]) -> site::Form {
        let (name, token) = self.forms.token(to, fields.iter().copied());
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let token = (name.to_owned(), token);
        site::Form {
            to: self.at(to),
            fields: fields.iter().map(own).chain([token]).collect(),
        }
    }

    /// What is measured now.
    pub(super) fn bar(&self) -> Bar {
        let runs = self.index.runs();
        let running = runs.iter().filter(|(_, is)| matches!(is, Is::Running));
        let live = running.map(|(run, _)| {
            let what = measured(&self.index.dir().join(run));
            Link::new(self.run_at(run), what)
        });
        Bar {
            root: self.root.clone(),
            live: live.take(3).collect(),
            links: match &self.may {
                May::Run(started) if started.runs() => {
                    vec![Link::new(self.at("/started"), "Started here")]
                }
                _ => Vec::new(),
            },
        }
    }

    fn list(&self, request: &Request) -> Answer {
        let runs = self.index.runs();
        let (search, command, quality) = (
            request.value("q").unwrap_or(""),
            request.value("command").unwrap_or(""),
            request.value("measurement").unwrap_or(""),
        );
        let words: Vec<String> = search.split_whitespace().map(str::to_lowercase).collect();
        let filters = !words.is_empty() || !command.is_empty() || !quality.is_empty();
        let mut commands: BTreeMap<String, ()> = BTreeMap::new();
        for (_, is) in &runs {
            if let Is::Read(summary) = is {
                commands
                    .entry(pgassay_text::line(&summary.command))
                    .or_default();
            }
        }
        let fits = |run: &str, is: &Is| match is {
            Is::Read(summary) => {
                let grade = summary.quality.as_ref().map(|quality| quality.grade);
                let text = summary.searched();
                words.iter().all(|word| text.contains(word))
                    && (command.is_empty() || pgassay_text::line(&summary.command) == command)
                    && match quality {
                        "good" => grade == Some(Grade::Good),
                        "fair" => grade.is_some_and(|grade| grade <= Grade::Fair),
                        _ => true,
                    }
            }
            _ => {
                let run = run.to_lowercase();
                (command.is_empty() && quality.is_empty())
                    && words.iter().all(|word| run.contains(word))
            }
        };
        let matching: Vec<&(String, Is)> = runs
            .iter()
            .filter(|(run, is)| !filters || fits(run, is))
            .collect();
        let first: usize = request
            .value("from")
            .and_then(|n| n.parse().ok())
            .unwrap_or(0);
        let first = first.min(matching.len().saturating_sub(1)) / ROWS * ROWS;
        let is_unread = |is: &Is| matches!(is, Is::Unread);
        let mut unread = runs.iter().filter(|(_, is)| is_unread(is)).count();
        let page = matching.iter().skip(first).take(ROWS);
        let waited = page.clone().filter(|(_, is)| is_unread(is));
        let waited: Vec<String> = waited.map(|(run, _)| run.clone()).collect();
        self.index.hurry(waited, WAITS);
        let page = page.map(|(run, is)| {
            let now = match is {
                Is::Unread => self.index.find(run).map(|(_, is, _)| is),
                _ => None,
            };
            unread -= usize::from(now.as_ref().is_some_and(|is| !is_unread(is)));
            (run.as_str(), now.unwrap_or_else(|| is.clone()))
        });
        let page: Vec<(&str, Is)> = page.collect();
        let running: Vec<String> = page
            .iter()
            .map(|(run, is)| match is {
                Is::Running => measured(&self.index.dir().join(run)),
                _ => String::new(),
            })
            .collect();
        let rows = page.iter().zip(&running).map(|((run, is), what)| Row {
            run,
            known: match is {
                Is::Unread => Listed::Unread,
                Is::Running => Listed::Running(what),
                Is::Read(summary) => Listed::Read(summary),
                Is::Unreadable(why) => Listed::Unreadable(why),
            },
        });
        let place = self.index.dir().display().to_string();
        let choice = |value: &str, words: &str| (value.to_owned(), words.to_owned());
        let mut of_commands = vec![choice("", "all")];
        of_commands.extend(commands.keys().map(|command| choice(command, command)));
        let list = List {
            root: &self.root,
            place: &place,
            rows: rows.collect(),
            counts: (runs.len(), matching.len(), unread),
            first,
            around: (
                (first > 0).then(|| self.at(&page_from(request, first.saturating_sub(ROWS)))),
                (first + ROWS < matching.len()).then(|| self.at(&page_from(request, first + ROWS))),
            ),
            search,
            choices: vec![
                Choice {
                    name: "command",
                    values: of_commands,
                    chosen: command,
                },
                Choice {
                    name: "measurement",
                    values: vec![
                        choice("", "any"),
                        choice("fair", "good or fair"),
                        choice("good", "good"),
                    ],
                    chosen: quality,
                },
            ],
        };
        shown(match request.value("part") {
            Some("rows") => site::rows(&list),
            _ => site::list(&list, &self.bar()),
        })
    }

    /// A run: as a report, or what is known of it while it is measured.
    fn run(&self, run: &str, request: &Request) -> Result<Answer, Missing> {
        let (dir, is, stamp) = self.index.find(run).ok_or_else(|| Missing::no_run(run))?;
        let own = self.run_at(run);
        let mut bar = self.bar();
        if matches!(is, Is::Running)
            && request.value("as") != Some("report")
            && let Some(mut follow) = Follow::of(&dir, self.controls(run))
        {
            bar.links
                .push(Link::new(format!("{own}?as=report"), "Report so far"));
            let feed = self.at(&format!("/live/{}", escaped(run)));
            let (document, parts) = follow.page();
            return Ok(shown(site::live(&document.title, &parts, &bar, &feed)));
        }
        bar.links = vec![
            Link::new(self.history_at(run), "History"),
            Link::new(
                self.at(&format!("/?pick={}", escaped(run))),
                "Compare with …",
            ),
            Link::new(format!("{own}/json"), "JSON"),
            Link::new(format!("{own}/file"), "Share as one file"),
        ];
        if let May::Run(_) = self.may {
            let ask = |what: &str| self.at(&format!("/start?what={what}&run={}", escaped(run)));
            bar.links.push(Link::new(ask("repeat"), "Measure again …"));
            let is_whole = matches!(&is, Is::Read(s) if s.state == RunState::Complete);
            if !is_whole {
                bar.links
                    .push(Link::new(ask("resume"), "Measure the rest …"));
            }
        }
        let document = self.document(run, &dir, stamp)?;
        // The bar changes with what is measured, the report does not.
        Ok(shown(document.replacen(site::BAR, &site::bar(&bar), 1)))
    }

    /// What is measured now: the newest of it.
    fn now(&self, request: &Request) -> Answer {
        let runs = self.index.runs();
        let running = runs.iter().find(|(_, is)| matches!(is, Is::Running));
        match running.map(|(run, _)| self.run(run, request)) {
            Some(Ok(page)) => page,
            _ => shown(site::waiting(
                "Nothing is measured yet",
                "The server is being made ready. This page goes on by itself.",
                &self.bar(),
            )),
        }
    }

    /// The page of a run with a mark in place of the bar.
    fn document(&self, run: &str, dir: &Path, stamp: Stamp) -> Result<String, Missing> {
        let page = self.pages.get(run, stamp, || {
            let document = Concluded::at(dir)?.document();
            Ok::<_, anyhow::Error>(site::report(&document, site::BAR, &[]))
        })?;
        Ok(String::from_utf8_lossy(&page).into_owned())
    }

    /// A run as a file.
    fn form(&self, run: &str, form: &str) -> Result<Answer, Missing> {
        let (dir, ..) = self.index.find(run).ok_or_else(|| Missing::no_run(run))?;
        let look = Concluded::at(&dir)?;
        match form {
            "file" => {
                let page = pgassay_report::html(&look.document());
                Ok(shown(page).saved_as(format!("{run}.html")))
            }
            "json" => Ok(Answer {
                media_type: "application/json".into(),
                ..Answer::text(200, look.json())
            }
            .saved_as(format!("{run}.json"))),
            _ => Err(Missing::no_page()),
        }
    }

    /// Several runs, side by side.
    fn compare(&self, request: &Request) -> Result<Answer, Missing> {
        let mut names: Vec<&str> = Vec::new();
        for run in request.values("run") {
            if !names.contains(&run) {
                names.push(run);
            }
        }
        if !(2..=Beside::MOST).contains(&names.len()) {
            return Err(Missing::new(
                400,
                format!("{} runs are chosen.", names.len()),
                format!("choose 2 to {} in the list", Beside::MOST),
            ));
        }
        // Oldest first: what came later is held against what was before.
        names.sort_unstable();
        let runs = names.iter().map(|run| {
            let (dir, ..) = self.index.find(run).ok_or_else(|| Missing::no_run(run))?;
            Ok(Concluded::at(&dir)?.into_analysis())
        });
        let runs = runs.collect::<Result<Vec<Analysis>, Missing>>()?;
        let document = match side_by_side(&runs) {
            Some(kernels) => kernels.document(),
            None => match Beside::of(runs) {
                Some(beside) => beside.document(),
                None => return Err(Missing::new(400, "There is nothing to compare.", "")),
            },
        };
        if request.value("as") == Some("file") {
            return Ok(shown(pgassay_report::html(&document)).saved_as("comparison.html"));
        }
        let mut bar = self.bar();
        let query: Vec<String> = names
            .iter()
            .map(|run| format!("run={}", escaped(run)))
            .collect();
        let to = self.at(&format!("/compare?{}&as=file", query.join("&")));
        bar.links = vec![Link::new(to, "Share as one file")];
        if let (May::Run(_), 2) = (&self.may, names.len()) {
            let ask = self.at(&format!("/start?what=compare&{}", query.join("&")));
            bar.links.push(Link::new(ask, "Measure both together …"));
        }
        Ok(self.report(&document, &bar, &names))
    }

    /// How runs of the same work changed over time.
    fn history(&self, request: &Request) -> Result<Answer, Missing> {
        let runs = self.index.runs();
        let summaries: Vec<Arc<Summary>> = runs
            .into_iter()
            .filter_map(|(_, is)| match is {
                Is::Read(summary) if !summary.curve.is_empty() => Some(summary),
                _ => None,
            })
            .collect();
        let wanted = match request.value("run") {
            None => summaries.first(),
            Some(run) => Some(
                summaries
                    .iter()
                    .find(|summary| summary.run == run)
                    .ok_or_else(|| {
                        Missing::new(
                            404,
                            format!("{run} has no course that can be followed."),
                            "",
                        )
                    })?,
            ),
        };
        let Some(wanted) = wanted else {
            return Err(Missing::new(
                404,
                "No run is read yet that has a history.",
                "load this page again when the list has been read",
            ));
        };
        let same = summaries.iter().filter(|summary| {
            summary.work == wanted.work
                && summary.targets.first() == wanted.targets.first()
                && summary.command == wanted.command
        });
        let mut names: Vec<&str> = same.map(|summary| summary.run.as_str()).collect();
        let beyond = names.len().saturating_sub(MOST_OF_HISTORY);
        names.truncate(MOST_OF_HISTORY);
        let analyses = names.iter().filter_map(|run| {
            let (dir, ..) = self.index.find(run)?;
            Some(Past::of(&Concluded::at(&dir).ok()?.into_analysis()))
        });
        let followed = history(
            analyses.collect(),
            &MetricId::usual(),
            ChangeRule::default(),
        );
        let mut document = followed.document();
        if beyond > 0 {
            document
                .headline
                .push(format!("{beyond} older runs are left out."));
        }
        // Its first picture belongs on the first screen.
        let course = document
            .sections
            .iter_mut()
            .find(|section| section.id == "course");
        if let Some(course) = course.filter(|course| course.blocks.len() > 1) {
            document.glance.push(course.blocks.remove(0));
        }
        let mut bar = self.bar();
        let mut others: BTreeMap<(String, String), &str> = BTreeMap::new();
        for summary in summaries.iter().rev() {
            let target = summary.targets.first().cloned().unwrap_or_default();
            others.insert((summary.workload.clone(), target), &summary.run);
        }
        let own = (
            wanted.workload.clone(),
            wanted.targets.first().cloned().unwrap_or_default(),
        );
        let others = others.iter().filter(|(name, _)| **name != own).take(6);
        bar.links = others
            .map(|((work, _), run)| Link::new(self.history_at(run), work.clone()))
            .collect();
        Ok(self.report(&document, &bar, &names))
    }

    /// A report about several runs, with links to them.
    fn report(&self, document: &Document, bar: &Bar, runs: &[&str]) -> Answer {
        let links = runs.iter().map(|run| Link::new(self.run_at(run), *run));
        let links: Vec<Link> = links.collect();
        shown(site::report(document, &site::bar(bar), &links))
    }
}

/// What a run that is measured measures, by its header.
fn measured(dir: &Path) -> String {
    match rundir::read_header(dir) {
        Ok(header) => {
            let name = &header.experiment.plan().workload.name;
            match (header.command.as_str(), name.is_empty()) {
                ("run", false) => name.clone(),
                (command, false) => format!("{command}: {name}"),
                (command, true) => command.to_owned(),
            }
        }
        Err(_) => "a run".to_owned(),
    }
}

/// The address of another page of the same list.
fn page_from(request: &Request, first: usize) -> String {
    let kept = request
        .query
        .iter()
        .filter(|(name, _)| !["from", "part"].contains(&name.as_str()));
    let kept = kept.map(|(name, value)| format!("{}={}", escaped(name), escaped(value)));
    let all: Vec<String> = kept.chain([format!("from={first}")]).collect();
    format!("/?{}", all.join("&"))
}
