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
/// The session that sent a statement may have had another search path, or another role by SET ROLE, which no view shows.
/// So a role with privileges over others (a superuser, CREATEROLE and the like) plans only in a database where nobody else
/// has objects, and any other role only where all objects on its search path are its own, superusers', the database
/// owner's, or of roles that it is a member of.
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
         CASE WHEN me.rolsuper OR me.rolcreaterole OR me.rolcreatedb OR me.rolreplication OR me.rolbypassrls THEN coalesce( \
           (SELECT format('role %I can create objects in schema %I', r.rolname, n.nspname) \
           FROM pg_namespace n CROSS JOIN pg_roles r \
           WHERE n.nspname IN ({schemas}) AND n.nspname <> 'pg_catalog' AND NOT r.rolsuper AND r.oid <> me.oid \
           AND (r.rolcanlogin OR r.rolname !~ '^pg_') AND has_schema_privilege(r.oid, n.oid, 'CREATE') \
           ORDER BY r.rolname, n.nspname LIMIT 1), \
           (SELECT format('role %I owns objects in this database', r.rolname) FROM pg_shdepend d \
           JOIN pg_roles r ON r.oid = d.refobjid WHERE d.refclassid = 'pg_authid'::regclass AND d.deptype = 'o' \
           AND d.dbid = db.oid AND NOT r.rolsuper AND r.oid <> me.oid ORDER BY r.rolname LIMIT 1)) \
         ELSE (SELECT format('role %I owns objects in schema %I', r.rolname, n.nspname) FROM pg_namespace n \
           JOIN (SELECT oid AS schema, nspowner AS owner FROM pg_namespace UNION SELECT relnamespace, relowner FROM pg_class \
             UNION SELECT pronamespace, proowner FROM pg_proc UNION SELECT oprnamespace, oprowner FROM pg_operator \
             UNION SELECT typnamespace, typowner FROM pg_type) o ON o.schema = n.oid JOIN pg_roles r ON r.oid = o.owner \
           WHERE n.nspname IN ({schemas}) AND n.nspname <> 'pg_catalog' AND NOT r.rolsuper AND r.oid <> db.datdba \
           AND r.rolname <> 'pg_database_owner' AND NOT pg_has_role(me.oid, r.oid, 'USAGE') \
           ORDER BY r.rolname, n.nspname LIMIT 1) END \
         FROM pg_roles me, pg_roles s, pg_database db \
         WHERE me.rolname = current_user AND s.rolname = session_user AND db.datname = current_database()"
    ));
    let row = rows.map_err(failed)?.rows.into_iter().next();
    let Some(Ok([Some(own), Some(connected), Some(name), theirs, planted])) =
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
        // Our session may find another object by the same name than the session that sent the statement.
        Some(_) => planted.map_or(Ok(()), |planted| {
            Err(format!(
                "no statement is planned: {planted}, and role {name} could run code of that role; connect as the role of the \
                 application"
            ))
        }),
    }
}
