//! What forms of our own pages ask for: a pause, and measurements.

use pgassay_engine::rundir::pause;
use pgassay_http::{Answer, Request, Site};
use pgassay_report::site::{self, Controls, escaped};

use super::site::{May, Missing, RunsSite, shown, words};
use super::start::{self, Recorded, Startable, Wanted};
use super::started::{NotStarted, Started};

impl RunsSite {
    /// Carries out what a form asks for.
    pub(super) fn asked(&self, request: &Request) -> Result<Answer, Missing> {
        let (what, run) = match (words(request).as_slice(), &self.may) {
            (["start"], May::Run(started)) => return self.start(started, request),
            (["stop"], May::Run(started)) => {
                started.stop();
                return Ok(Answer::go_to("/started"));
            }
            ([what, run], _) => (*what, *run),
            _ => return Err(Missing::no_page()),
        };
        let (dir, ..) = self.index.find(run).ok_or_else(|| Missing::no_run(run))?;
        match what {
            "pause" => pause::pause(&dir, pause::USUAL),
            "unpause" => pause::unpause(&dir).map(drop),
            _ => return Err(Missing::no_page()),
        }
        .map_err(|error| Missing::new(409, format!("{error:#}."), ""))?;
        Ok(Answer::go_to(format!("/run/{}", escaped(run))))
    }

    /// What a page asks to have started: the runs by their names, looked up in the listing.
    fn startable(
        &self,
        what: Option<&str>,
        runs: &[&str],
    ) -> Result<(Wanted, Vec<Recorded>, Startable), Missing> {
        let May::Run(_) = self.may else {
            return Err(Missing::new(
                403,
                "These pages only read.",
                "start them with pgassay serve --allow-run",
            ));
        };
        let refused = |why: String| Missing::new(409, format!("{why}."), "");
        let wanted = what.and_then(Wanted::of).ok_or_else(Missing::no_page)?;
        let recorded = runs.iter().map(|run| {
            let (dir, ..) = self.index.find(run).ok_or_else(|| Missing::no_run(run))?;
            Recorded::read(&dir).map_err(refused)
        });
        let recorded = recorded.collect::<Result<Vec<_>, Missing>>()?;
        let startable = start::startable(wanted, &recorded).map_err(refused)?;
        Ok((wanted, recorded, startable))
    }

    /// Asks whether that is to be started.
    pub(super) fn question(&self, request: &Request) -> Result<Answer, Missing> {
        let runs: Vec<&str> = request.values("run").collect();
        let (wanted, recorded, startable) = self.startable(request.value("what"), &runs)?;
        let mut form = vec![("what", wanted.name())];
        form.extend(recorded.iter().map(|run| ("run", run.name())));
        Ok(shown(site::question(
            &site::Question {
                title: match wanted {
                    Wanted::Repeat => "Measure this again?",
                    Wanted::Resume => "Measure the rest?",
                    Wanted::Compare => "Measure both together?",
                },
                command: &start::typed(&startable.words),
                executes: &startable.executes,
                form: self.form_to("/start", &form),
            },
            &self.bar(),
        )))
    }

    /// Starts what a form asks for, if nothing is measured.
    fn start(&self, started: &Started, request: &Request) -> Result<Answer, Missing> {
        let runs: Vec<&str> = request.all_sent("run").collect();
        let (_, _, startable) = self.startable(request.sent("what"), &runs)?;
        let measured = || {
            Missing::new(
                409,
                "Another measurement runs, and two disturb each other.",
                "wait until it is over, or stop it",
            )
        };
        if self.index.measures() {
            return Err(measured());
        }
        let typed = start::typed(&startable.words);
        match started.start(&startable.words, typed, self.index.dir()) {
            Ok(()) => Ok(Answer::go_to("/started")),
            Err(NotStarted::Another) => Err(measured()),
            Err(NotStarted::Io(error)) => Err(Missing::new(
                500,
                format!("pgassay can't be started: {error}."),
                "",
            )),
        }
    }

    /// What was started, and what it says.
    pub(super) fn started(&self) -> Result<Answer, Missing> {
        let seen = match &self.may {
            May::Run(started) => started.seen(),
            _ => None,
        };
        let seen = seen.ok_or_else(|| Missing::new(404, "Nothing was started here.", ""))?;
        let (feed, stop) = (self.at("/started"), self.form_to("/stop", &[]));
        Ok(shown(site::output(&seen, &self.bar(), &feed, &stop)))
    }

    /// What may be asked of a run from its page.
    pub(super) fn controls(&self, run: &str) -> Option<Controls> {
        let form = |what: &str| self.form_to(&format!("/{what}/{}", escaped(run)), &[]);
        self.takes_forms().then(|| Controls {
            pause: form("pause"),
            unpause: form("unpause"),
        })
    }
}
