//! What a server says of itself and of the session, as much of it as is kept.

use super::error::ServerError;
use std::collections::BTreeMap;

/// Notices kept between two calls of `take_notices`.
pub(super) const NOTICE_LIMIT: usize = 100;

/// Parameters kept; a server reports some fifteen, an extension a few more.
const PARAMETER_LIMIT: usize = 200;

/// Takes a reported parameter in; of a server that reports without end the first are kept.
pub(super) fn keep_parameter(parameters: &mut BTreeMap<String, String>, name: &str, value: &str) {
    if parameters.len() < PARAMETER_LIMIT || parameters.contains_key(name) {
        parameters.insert(name.to_owned(), value.to_owned());
    }
}

/// What the server said of itself and of the session.
#[derive(Debug, Default)]
pub(super) struct Greeting {
    pub parameters: BTreeMap<String, String>,
    pub process_id: i32,
    pub secret_key: i32,
    pub notices: Vec<ServerError>,
}
