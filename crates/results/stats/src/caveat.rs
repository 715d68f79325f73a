//! The warnings that statistics attach to a value: the closed list of them.
//!
//! "No difference shown" and "too few trials" are different results; a figure
//! that left this module without its warnings would turn one into the other.
//! The list is closed so that code can ask for one by name; on a value they are
//! [`Warning`]s, like those of every other part, with a stable id and a sentence.

use pgassay_model::warning::Warning;

macro_rules! caveats {
    ($($(#[$doc:meta])* $name:ident, $id:literal, $text:literal;)*) => {
        /// A reservation about one value.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Caveat {
            $($(#[$doc])* $name,)*
        }

        impl Caveat {
            /// Every one there is, for documentation and schemas.
            pub const ALL: &'static [Caveat] = &[$(Caveat::$name),*];

            /// The stable id, as it appears in JSON.
            pub fn id(self) -> &'static str {
                match self { $(Caveat::$name => $id),* }
            }

            /// One sentence for a person.
            pub fn text(self) -> &'static str {
                match self { $(Caveat::$name => $text),* }
            }
        }
    };
}

caveats! {
    /// Fewer than 6 trials.
    TooFewTrials, "too-few-trials",
        "too few trials: 6 or more are needed for a 95 % interval; what is shown is the range, at the coverage that it has";
    /// Fewer than 6 pairs.
    TooFewPairs, "too-few-pairs",
        "too few pairs: fewer than 6 cannot show a difference at 95 %, whatever they say";
    /// Fewer than 6 launches on either arm.
    TooFewLaunches, "too-few-launches",
        "too few launches: fewer than 6 per arm cannot show a difference at 95 %, however many pairs each holds";
    /// All values are the same.
    IdenticalValues, "identical-values",
        "all values are the same: the spread is below what was resolved";
    /// NaN or infinite values were left out.
    NonFiniteDropped, "non-finite-dropped",
        "values that are not finite numbers were left out";
    /// A value of zero or less where only positive ones make sense.
    NonPositive, "non-positive-values",
        "a value of zero or less was met: no ratios can be formed with it";
    /// Trials rise or fall with time.
    Drift, "drift",
        "the results drift over the run: expect a different level next time";
    /// The trials lie at several levels.
    SeveralLevels, "several-levels",
        "the trials lie at several levels: the value between them was not measured";
    /// Neighbouring trials are correlated.
    Autocorrelated, "autocorrelated",
        "neighbouring trials are correlated: the interval is narrower than it should be";
    /// The difference lies within what A/A pairs show.
    BelowNoiseFloor, "below-noise-floor",
        "the difference is within the noise floor of identical arms, so it decides nothing";
    /// Neighbouring pairs are correlated, and there are too few to block them.
    AutocorrelatedPairs, "pairs-autocorrelated",
        "neighbouring pairs are correlated, and there are too few to form blocks of them: nothing is decided";
    /// No A/A pairs were measured.
    NoNoiseFloor, "no-noise-floor",
        "no pairs of identical arms were measured: the noise floor is not known";
    /// The A/A pairs themselves differ.
    NoiseFloorShifted, "noise-floor-shifted",
        "identical arms were told apart (1 in 20 by chance): the interval is widened by the least difference between them";
    /// Significant alone, not among its family.
    NotInFamily, "not-significant-in-family",
        "shown when looked at alone, but not once all points compared are taken together (Holm)";
    /// The two sides were measured at different times.
    Unpaired, "unpaired",
        "the two runs were not interleaved: what the machine did in between is in the difference and not in the interval";
    /// One run or launch per side.
    OneRun, "one-run",
        "one run per side: the luck of one start is in the difference and not in the interval";
    /// Pooled runs differ by more than their pairs explain.
    RunsDisagree, "runs-disagree",
        "the runs differ from each other by more than their pairs explain: no one difference describes them all";
    /// Stopped at an interim look.
    StoppedEarly, "stopped-early",
        "stopped at an interim look: the estimate leans away from no difference";
    /// A coefficient of the scaling law ended on its bound.
    BoundedAtZero, "bounded-at-zero",
        "the fit would make it negative, which has no meaning: it is held at zero";
    /// Four or five client counts under a scaling fit.
    FewPoints, "few-points",
        "fewer than 6 different counts were fitted: the coefficients are weakly determined";
    /// Some points are far from the fitted curve.
    FarPoints, "far-points",
        "some points lie more than 15 % from the fitted curve";
    /// Points were left out of the fit.
    PointsExcluded, "points-excluded",
        "points that do not measure the server's scaling (limited by the client, at several levels, or beyond the cores) were left out";
    /// Outside the measured range.
    Extrapolated, "extrapolated",
        "extrapolated: nothing was measured there";
    /// Only the latest part of a long history was looked at.
    HistoryTruncated, "history-truncated",
        "the history is longer than is looked at: only its latest part was";
}

impl From<Caveat> for Warning {
    fn from(caveat: Caveat) -> Self {
        Warning::new(caveat.id(), caveat.text())
    }
}

impl PartialEq<Caveat> for Warning {
    fn eq(&self, caveat: &Caveat) -> bool {
        self.id == caveat.id()
    }
}

/// Adds a warning unless it is there already.
pub fn add(warnings: &mut Vec<Warning>, warning: impl Into<Warning>) {
    let warning = warning.into();
    if !warnings.iter().any(|w| w.id == warning.id) {
        warnings.push(warning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_fit_for_scripts() {
        let mut ids: Vec<_> = Caveat::ALL.iter().map(|w| w.id()).collect();
        for id in &ids {
            assert!(
                id.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'),
                "{id}"
            );
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), Caveat::ALL.len());
    }

    #[test]
    fn a_warning_is_said_once() {
        let mut list = vec![Warning::from(Caveat::Drift)];
        add(&mut list, Caveat::TooFewTrials);
        add(&mut list, Caveat::Drift);
        assert!(list[0] == Caveat::Drift && list[1] == Caveat::TooFewTrials && list.len() == 2);
    }
}
