//! One call of a primitive.

use pgassay_model::primitives::Company;

/// One way of calling a primitive.
#[derive(Debug, Clone)]
pub struct Call {
    /// The workload's name on the command line.
    pub primitive: &'static str,
    /// Which way; empty where there is one.
    pub variant: String,
    /// What an operation is, one sentence for the report.
    pub operation: String,
    /// The call, after its first five arguments: further ones by name.
    pub(super) arguments: String,
    /// The values of a PL/pgSQL loop's own parameters, before the first five.
    pub(super) leading: String,
    /// Further sessions that are connected during the call.
    pub company: Company,
}
