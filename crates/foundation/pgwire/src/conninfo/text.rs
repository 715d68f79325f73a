//! The two spellings of a connection string, URI and `key=value`, taken apart
//! into keyword and value pairs. What they mean is decided elsewhere.

use super::{ConninfoError, keywords};

/// Keyword and value, in the order written.
pub(super) type Pairs = Vec<(String, String)>;

/// Whether the text is written as a URI.
pub(super) fn is_uri(text: &str) -> bool {
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

/// Takes `key = value` pairs apart: blanks separate, single quotes protect
/// blanks, a backslash protects a quote or a backslash.
pub(super) fn key_values(text: &str) -> Result<Pairs, ConninfoError> {
    let mut pairs = Pairs::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| c == '=' || c.is_ascii_whitespace())
            .unwrap_or(rest.len());
        let key = &rest[..end];
        rest = rest[end..].trim_start();
        let Some(after) = rest.strip_prefix('=') else {
            return Err(match pairs.last() {
                Some((before, _)) if is_secret(before) => ConninfoError::UnquotedSecret,
                _ => ConninfoError::MissingEquals {
                    keyword: key.to_owned(),
                },
            });
        };
        if key.is_empty() {
            return Err(ConninfoError::MissingKeyword);
        }
        let (value, after) = value(key, after.trim_start())?;
        if pairs.last().is_some_and(|(before, _)| is_secret(before))
            && keywords::find(key).is_none()
        {
            return Err(ConninfoError::UnquotedSecret);
        }
        pairs.push((key.to_owned(), value));
        rest = after.trim_start();
    }
    Ok(pairs)
}

/// Whether the value under that keyword must not be shown. What follows it and
/// makes no sense is probably its rest, written without quotes.
fn is_secret(keyword: &str) -> bool {
    matches!(keyword, "password" | "sslpassword" | "oauth_client_secret")
}

/// One value at the start of `text`, and what follows it.
fn value<'a>(key: &str, text: &'a str) -> Result<(String, &'a str), ConninfoError> {
    let (quoted, body) = match text.strip_prefix('\'') {
        Some(body) => (true, body),
        None => (false, text),
    };
    let mut value = String::new();
    let mut letters = body.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => {
                if let Some((_, escaped)) = letters.next() {
                    value.push(escaped);
                }
            }
            '\'' if quoted => return Ok((value, &body[at + 1..])),
            c if !quoted && c.is_ascii_whitespace() => return Ok((value, &body[at..])),
            c => value.push(c),
        }
    }
    if quoted {
        return Err(ConninfoError::UnterminatedQuote {
            keyword: key.to_owned(),
        });
    }
    Ok((value, ""))
}

/// Takes a URI apart:
/// `postgresql://[user[:password]@][host[:port][,…]][/dbname][?key=value[&…]]`.
pub(super) fn uri(text: &str) -> Result<Pairs, ConninfoError> {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    let mut pairs = Vec::new();

    // As in libpq the login part reaches to the first "@" unless a "/" comes
    // before it, so a password may hold a "?".
    let (login, rest) = match rest.find(['@', '/']) {
        Some(at) if rest[at..].starts_with('@') => (Some(&rest[..at]), &rest[at + 1..]),
        _ => (None, rest),
    };
    let (before_query, query) = match rest.split_once('?') {
        Some((before, query)) => (before, Some(query)),
        None => (rest, None),
    };
    let (host_list, dbname) = match before_query.split_once('/') {
        Some((hosts, dbname)) => (hosts, Some(dbname)),
        None => (before_query, None),
    };

    if host_list.contains('@') {
        return Err(ConninfoError::Uri(
            "there is a second \"@\" before the database name; write an \"@\" in the user name or \
             the password as %40"
                .into(),
        ));
    }
    if let Some(login) = login {
        let (user, password) = match login.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (login, None),
        };
        if !user.is_empty() {
            pairs.push(("user".to_owned(), decode("user", user)?));
        }
        if let Some(password) = password.filter(|password| !password.is_empty()) {
            pairs.push(("password".to_owned(), decode("password", password)?));
        }
    }
    hosts(host_list, &mut pairs)?;
    if let Some(dbname) = dbname.filter(|dbname| !dbname.is_empty()) {
        pairs.push(("dbname".to_owned(), decode("dbname", dbname)?));
    }
    // A "&" may end the parameters, as in libpq, but not stand for an empty one.
    if let Some(query) = query.filter(|query| !query.is_empty()) {
        for parameter in query.strip_suffix('&').unwrap_or(query).split('&') {
            pairs.push(query_parameter(parameter)?);
        }
    }
    Ok(pairs)
}

/// The comma-separated hosts and ports of a URI.
fn hosts(list: &str, pairs: &mut Pairs) -> Result<(), ConninfoError> {
    let mut names = Vec::new();
    let mut ports = Vec::new();
    for element in list.split(',') {
        let (name, port) = if let Some(bracketed) = element.strip_prefix('[') {
            let Some((address, after)) = bracketed.split_once(']') else {
                return Err(ConninfoError::Uri(format!(
                    "\"{element}\" opens an IPv6 address with \"[\" and does not close it"
                )));
            };
            match after.strip_prefix(':') {
                _ if address.is_empty() => {
                    return Err(ConninfoError::Uri(
                        "the IPv6 address in \"[]\" is empty".into(),
                    ));
                }
                Some(port) => (address, port),
                None if after.is_empty() => (address, ""),
                None => {
                    return Err(ConninfoError::Uri(format!(
                        "\"{after}\" follows the IPv6 address \"[{address}]\"; only \":port\" may"
                    )));
                }
            }
        } else {
            element.split_once(':').unwrap_or((element, ""))
        };
        names.push(decode("host", name)?);
        ports.push(decode("port", port)?);
    }
    if names.len() > 1 || !names[0].is_empty() {
        pairs.push(("host".to_owned(), names.join(",")));
    }
    if ports.iter().any(|port| !port.is_empty()) {
        pairs.push(("port".to_owned(), ports.join(",")));
    }
    Ok(())
}

/// One `key=value` behind the question mark.
fn query_parameter(text: &str) -> Result<(String, String), ConninfoError> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(ConninfoError::MissingEquals {
            keyword: decode("keyword", text)?,
        });
    };
    if value.contains('=') {
        return Err(ConninfoError::Uri(format!(
            "the parameter \"{key}\" has a second \"=\"; write it as %3D"
        )));
    }
    let key = decode("keyword", key)?;
    let value = decode(&key, value)?;
    // The one alias that libpq knows, for strings written for JDBC.
    if key == "ssl" && value == "true" {
        return Ok(("sslmode".to_owned(), "require".to_owned()));
    }
    Ok((key, value))
}

/// Percent-decoding; `what` names the part in a message, never its content,
/// which may be a password.
fn decode(what: &str, text: &str) -> Result<String, ConninfoError> {
    let malformed = || {
        ConninfoError::Uri(format!(
            "the {what} has a \"%\" that two hexadecimal digits do not follow; write a percent \
             sign itself as %25"
        ))
    };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else {
            return Err(malformed());
        };
        match (high * 16 + low) as u8 {
            0 => return Err(ConninfoError::Uri(format!("the {what} contains %00"))),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes)
        .map_err(|_| ConninfoError::Uri(format!("the {what} is not UTF-8 once decoded")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(list: &[(&str, &str)]) -> Pairs {
        list.iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect()
    }

    #[test]
    fn key_values_follow_libpq_quoting() {
        assert_eq!(
            key_values("host = a\n password =b").unwrap(),
            pairs(&[("host", "a"), ("password", "b")])
        );
        // A doubled quote ends one value and starts what is no keyword.
        assert!(key_values("host=a password='it''s'").is_err());
        assert_eq!(
            key_values(r"host=/tmp password='a b\'c\\d' dbname=x\ y options=''").unwrap(),
            pairs(&[
                ("host", "/tmp"),
                ("password", r"a b'c\d"),
                ("dbname", "x y"),
                ("options", "")
            ])
        );
        assert_eq!(key_values("").unwrap(), pairs(&[]));
        assert!(matches!(
            key_values("host"),
            Err(ConninfoError::MissingEquals { .. })
        ));
        assert!(matches!(
            key_values("a='b"),
            Err(ConninfoError::UnterminatedQuote { .. })
        ));
        assert!(matches!(
            key_values("=b"),
            Err(ConninfoError::MissingKeyword)
        ));
    }

    #[test]
    fn uris_from_the_manual() {
        assert_eq!(uri("postgresql://").unwrap(), pairs(&[]));
        assert_eq!(
            uri("postgresql://localhost").unwrap(),
            pairs(&[("host", "localhost")])
        );
        assert_eq!(
            uri("postgresql://localhost:5433").unwrap(),
            pairs(&[("host", "localhost"), ("port", "5433")])
        );
        assert_eq!(
            uri("postgresql://user:secret@localhost").unwrap(),
            pairs(&[
                ("user", "user"),
                ("password", "secret"),
                ("host", "localhost")
            ])
        );
        assert_eq!(
            uri("postgresql://other@localhost/otherdb?connect_timeout=10&application_name=myapp")
                .unwrap(),
            pairs(&[
                ("user", "other"),
                ("host", "localhost"),
                ("dbname", "otherdb"),
                ("connect_timeout", "10"),
                ("application_name", "myapp")
            ])
        );
        assert_eq!(
            uri("postgresql://host1:123,host2:456/somedb?target_session_attrs=any").unwrap(),
            pairs(&[
                ("host", "host1,host2"),
                ("port", "123,456"),
                ("dbname", "somedb"),
                ("target_session_attrs", "any")
            ])
        );
        assert_eq!(
            uri("postgresql://user@localhost:5433/mydb?options=-c%20synchronous_commit%3Doff")
                .unwrap()
                .last(),
            Some(&("options".to_owned(), "-c synchronous_commit=off".to_owned()))
        );
        assert_eq!(
            uri("postgresql:///mydb?host=localhost&port=5433").unwrap(),
            pairs(&[("dbname", "mydb"), ("host", "localhost"), ("port", "5433")])
        );
        assert_eq!(
            uri("postgresql://[2001:db8::1234]:5433/database").unwrap(),
            pairs(&[
                ("host", "2001:db8::1234"),
                ("port", "5433"),
                ("dbname", "database")
            ])
        );
        assert_eq!(
            uri("postgresql://%2Fvar%2Flib%2Fpostgresql/dbname").unwrap(),
            pairs(&[("host", "/var/lib/postgresql"), ("dbname", "dbname")])
        );
        assert_eq!(
            uri("postgresql://u:p?w@h/db").unwrap()[1],
            ("password".to_owned(), "p?w".to_owned())
        );
        assert_eq!(
            uri("postgres://a@h1,h2:6000,/db?ssl=true").unwrap(),
            pairs(&[
                ("user", "a"),
                ("host", "h1,h2,"),
                ("port", ",6000,"),
                ("dbname", "db"),
                ("sslmode", "require")
            ])
        );
    }

    #[test]
    fn broken_uris_are_refused_without_showing_the_password() {
        for text in [
            "postgresql://[::1",
            "postgresql://[]",
            "postgresql://[::1]x",
            "postgresql://h/db?a",
            "postgresql://h/db?user=a&&port=1",
            "postgresql://h/db?&user=a",
            "postgresql://h/db?a=b=c",
            "postgresql://h/%zz",
            "postgresql://h/%1",
            "postgresql://h/%00",
            "postgresql://u:hun%ter2@h/db",
            "postgresql://u:%ff@h/db",
            "postgresql://u:hunter@ter2@h/db",
        ] {
            let message = uri(text).unwrap_err().to_string();
            assert!(
                !message.contains("hun") && !message.contains("ter2"),
                "{message}"
            );
        }
    }
}
