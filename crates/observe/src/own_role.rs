//! Which statements of other programs a session may plan: those of its own role.
//!
//! Planning runs code. The planner evaluates immutable and stable functions, and some of PostgreSQL's own run queries over
//! views and functions that any role can define. In a session of ours that code would have our privileges. So a statement of
//! another role is never given to the planner. A list of dangerous functions would never be complete, and none is kept.

use pgassay_pgwire::{QueryError, Session};
use pgassay_text::quote::quote_literal;

/// Checks that the session may plan a statement that this role (an OID) sent, whose names the session's present search path
/// would resolve. Within a transaction the search path is the catalogues' afterwards.
///
/// # Errors
/// Why the statement is not planned, and what to do instead.
pub fn may_plan(session: &mut Session, role: Option<u32>) -> Result<(), String> {
    let unknown = "whether a statement is of this session's role is not known";
    let failed = |error: QueryError| format!("{unknown}: {error}");
    // Both functions are named with their schema: the search path resolves nothing here.
    let path = session
        .rows("SELECT pg_catalog.unnest(pg_catalog.current_schemas(false))")
        .map_err(failed)?;
    let path = path.rows.iter().flatten().flatten();
    let path: Vec<String> = path.map(|name| quote_literal(name)).collect();
    let schemas = match path.as_slice() {
        [] => "NULL".to_owned(),
        path => path.join(", "),
    };
    let role = role.unwrap_or(0);
    // A predefined role logs in nowhere; what it may do, so may the roles that it was granted to.
    let rows = session.catalog_rows(&format!(
        "SELECT me.oid, s.oid, quote_ident(me.rolname), \
         (SELECT quote_ident(r.rolname) FROM pg_roles r WHERE r.oid = {role}), \
         CASE WHEN me.rolsuper THEN (SELECT format('role %I can create objects in schema %I', r.rolname, n.nspname) \
           FROM pg_namespace n CROSS JOIN pg_roles r \
           WHERE n.nspname IN ({schemas}) AND n.nspname <> 'pg_catalog' AND NOT r.rolsuper \
           AND (r.rolcanlogin OR r.rolname !~ '^pg_') AND has_schema_privilege(r.oid, n.oid, 'CREATE') \
           ORDER BY r.rolname, n.nspname LIMIT 1) END \
         FROM pg_roles me, pg_roles s WHERE me.rolname = current_user AND s.rolname = session_user"
    ));
    let row = rows.map_err(failed)?.rows.into_iter().next();
    let Some(Ok([Some(own), Some(connected), Some(name), theirs, creates])) =
        row.map(<[Option<String>; 5]>::try_from)
    else {
        return Err(unknown.to_owned());
    };
    if own != connected {
        return Err(format!(
            "no statement is planned: this session has taken the role {name}, and pgassay plans only statements of the role \
             that it connected as"
        ));
    }
    match theirs {
        None => Err(format!(
            "a statement of a role that is not known is not planned: pgassay plans only statements of its own role, {name}"
        )),
        Some(theirs) if own != role.to_string() => Err(format!(
            "a statement of role {theirs} is not planned: pgassay plans only statements of its own role, {name}; \
             connect as that role (user={theirs})"
        )),
        Some(_) => creates.map_or(Ok(()), |creates| {
            Err(format!(
                "no statement is planned: {creates}, which is in this superuser's search path; revoke that privilege"
            ))
        }),
    }
}
