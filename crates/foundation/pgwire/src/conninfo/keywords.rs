//! The keywords of a connection string, as the PostgreSQL manual lists them
//! (libpq, "Parameter Key Words" and "Environment Variables", version 18).

use pgassay_text::suggestion;

/// What pgassay does with a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// It is read.
    Read,
    /// It has no meaning for a client without Kerberos, OAuth or compression;
    /// accepted so that strings written for libpq work.
    NoMeaning,
    /// Ignoring it would weaken what the user asked for, so it is refused
    /// unless it has one of these harmless values.
    RefusedUnless(&'static [&'static str]),
}

/// One keyword.
pub(super) struct Keyword {
    pub name: &'static str,
    pub variable: Option<&'static str>,
    pub role: Use,
}

const fn read(name: &'static str, variable: &'static str) -> Keyword {
    Keyword {
        name,
        variable: Some(variable),
        role: Use::Read,
    }
}

const fn read_only_here(name: &'static str) -> Keyword {
    Keyword {
        name,
        variable: None,
        role: Use::Read,
    }
}

const fn no_meaning(name: &'static str) -> Keyword {
    Keyword {
        name,
        variable: None,
        role: Use::NoMeaning,
    }
}

const fn refused_unless(
    name: &'static str,
    variable: Option<&'static str>,
    values: &'static [&'static str],
) -> Keyword {
    Keyword {
        name,
        variable,
        role: Use::RefusedUnless(values),
    }
}

/// All keywords of libpq 18 and what becomes of each.
pub(super) const KEYWORDS: &[Keyword] = &[
    read("service", "PGSERVICE"),
    read("user", "PGUSER"),
    read("password", "PGPASSWORD"),
    read("passfile", "PGPASSFILE"),
    read("dbname", "PGDATABASE"),
    read("host", "PGHOST"),
    read("hostaddr", "PGHOSTADDR"),
    read("port", "PGPORT"),
    read("connect_timeout", "PGCONNECT_TIMEOUT"),
    read("client_encoding", "PGCLIENTENCODING"),
    read("options", "PGOPTIONS"),
    read("application_name", "PGAPPNAME"),
    read_only_here("fallback_application_name"),
    read_only_here("keepalives"),
    read_only_here("keepalives_idle"),
    read_only_here("keepalives_interval"),
    read_only_here("keepalives_count"),
    read_only_here("tcp_user_timeout"),
    read("sslmode", "PGSSLMODE"),
    read("sslnegotiation", "PGSSLNEGOTIATION"),
    read("sslcert", "PGSSLCERT"),
    read("sslkey", "PGSSLKEY"),
    read("sslrootcert", "PGSSLROOTCERT"),
    read("sslcrl", "PGSSLCRL"),
    read("sslsni", "PGSSLSNI"),
    read("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION"),
    read("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION"),
    read("channel_binding", "PGCHANNELBINDING"),
    read("require_auth", "PGREQUIREAUTH"),
    read("target_session_attrs", "PGTARGETSESSIONATTRS"),
    read("load_balance_hosts", "PGLOADBALANCEHOSTS"),
    refused_unless("requirepeer", Some("PGREQUIREPEER"), &[]),
    refused_unless("sslcrldir", Some("PGSSLCRLDIR"), &[]),
    refused_unless("sslpassword", None, &[]),
    refused_unless("sslcertmode", Some("PGSSLCERTMODE"), &["allow", "disable"]),
    refused_unless("gssencmode", Some("PGGSSENCMODE"), &["disable", "prefer"]),
    refused_unless("replication", None, &["false", "off", "no", "0"]),
    refused_unless("scram_client_key", None, &[]),
    refused_unless("scram_server_key", None, &[]),
    no_meaning("sslcompression"),
    no_meaning("sslkeylogfile"),
    no_meaning("min_protocol_version"),
    no_meaning("max_protocol_version"),
    no_meaning("krbsrvname"),
    no_meaning("gsslib"),
    no_meaning("gssdelegation"),
    no_meaning("oauth_issuer"),
    no_meaning("oauth_client_id"),
    no_meaning("oauth_client_secret"),
    no_meaning("oauth_scope"),
    no_meaning("authtype"),
    no_meaning("tty"),
    no_meaning("requiressl"),
];

/// Finds a keyword by its exact name; libpq does not fold case.
pub(super) fn find(name: &str) -> Option<&'static Keyword> {
    KEYWORDS.iter().find(|keyword| keyword.name == name)
}

/// The known keyword that `name` was most likely meant to be.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    suggestion::nearest(name, KEYWORDS.iter().map(|keyword| keyword.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_keyword_finds_the_one_that_was_meant() {
        assert_eq!(nearest("hst"), Some("host"));
        assert_eq!(nearest("ssl_mode"), Some("sslmode"));
        assert_eq!(nearest("db_name"), Some("dbname"));
        assert_eq!(nearest("USER"), Some("user"));
        assert_eq!(nearest("target_session_attr"), Some("target_session_attrs"));
        assert_eq!(nearest("colour_of_the_sky"), None);
    }

    #[test]
    fn names_are_unique() {
        for keyword in KEYWORDS {
            assert_eq!(
                KEYWORDS.iter().filter(|k| k.name == keyword.name).count(),
                1
            );
        }
    }
}
