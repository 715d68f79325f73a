//! A run that is measured, as the page that follows it shows it.

use std::path::Path;

use pgassay_http::{Feed, Next};
use pgassay_report::site::{self, Controls};
use pgassay_report::{Document, Report};

use crate::commands::following::Following;

/// A run that is followed.
pub(super) struct Follow {
    following: Following,
    /// Where it is paused and goes on from the page, if that may be asked there.
    controls: Option<Controls>,
    told: bool,
}

impl Follow {
    /// From its beginning; `None` where it is not measured.
    pub(super) fn of(dir: &Path, controls: Option<Controls>) -> Option<Self> {
        Some(Self {
            following: Following::of(dir)?,
            controls,
            told: false,
        })
    }

    /// All that is known now, and the parts of the page that change.
    pub(super) fn page(&mut self) -> (Document, String) {
        self.following.read();
        let so_far = self.following.so_far();
        let document = so_far.document();
        let parts = site::live_parts(
            &document,
            &so_far.within.document(),
            self.controls.as_ref(),
            so_far.pause,
        );
        (document, parts)
    }
}

impl Feed for Follow {
    fn next(&mut self) -> Next {
        let running = self.following.is_running();
        let new = self.following.read();
        if !running {
            return Next::Last(String::new());
        }
        if !new && self.told {
            return Next::Same;
        }
        self.told = true;
        Next::Event(self.page().1)
    }
}
