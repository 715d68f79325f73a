//! What runs a slice of each kind of load.

pub mod ceiling;
pub mod in_server;
pub mod kernels;
mod own_cpu;
pub mod pgio;
pub mod query_ways;
pub mod scattered_read;
pub mod wire;

use pgassay_model::observed::stacks::SymbolTable;
use pgassay_observe::{Choice, Observers, Scene};
use pgassay_pgwire::Conninfo;

use crate::runner::Arms;

/// A server as it is looked at beside a load.
pub struct Watched {
    /// What can be looked at.
    pub scene: Scene,
    /// Who looks.
    pub observers: Observers,
}

impl Watched {
    /// Starts what was chosen; what can't be had is noted and left out.
    pub fn start(scene: Scene, choice: Choice, conninfo: &Conninfo) -> Self {
        Self {
            observers: Observers::start(choice, conninfo, &scene),
            scene,
        }
    }
}

/// A server of a driver.
trait Arm {
    fn watched(&mut self) -> &mut Watched;
}

impl<A: Arm> Arms for Vec<A> {
    fn symbols(&mut self) -> Vec<Option<SymbolTable>> {
        let arms = self.iter_mut();
        arms.map(|arm| arm.watched().observers.symbols()).collect()
    }

    fn drop_last(&mut self) -> Option<SymbolTable> {
        self.pop()?.watched().observers.symbols()
    }
}

/// As many things are wanted as an index says there are.
fn missing(what: &str) -> crate::runner::TrialFailure {
    crate::runner::TrialFailure::Other(anyhow::anyhow!("the plan has no such {what}"))
}
