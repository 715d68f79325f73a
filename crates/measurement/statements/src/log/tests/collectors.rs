//! Logs as clouds, operators, syslog and consoles hand them out: the statements in them are those that were sent.

use super::message::{Said, said};
use super::{Reader, Record, Unknown, format_of};

/// The statements of a log whose format is found by its first lines, each with its first parameter.
fn statements(name: &str, text: &str) -> Vec<String> {
    let format = format_of(name, text.as_bytes(), None).unwrap();
    let mut reader = Reader::new(&format);
    let mut found = Vec::new();
    let mut take = |record: Record| {
        if let Some(Said::Ended(statement, _)) = said(&record) {
            let value = statement.parameters.first().cloned().flatten();
            found.push(format!("{}{}", statement.text, value.unwrap_or_default()));
        }
    };
    for line in text.split('\n') {
        reader.line(line.as_bytes(), &mut take);
    }
    reader.end(&mut take);
    assert_eq!(reader.counts.foreign, 0, "{text}");
    found
}

const SENT: [&str; 2] = [
    "UPDATE orders\nSET closed = true\nWHERE id = 71",
    "SELECT $1",
];

/// Two entries with this prefix, each line within these two texts.
fn log(prefix: &str, around: &str, behind: &str) -> String {
    let update = SENT[0].replace('\n', "\n\t");
    let text = format!(
        "{prefix}LOG:  duration: 9.4 ms  statement: {update}\n\
         {prefix}LOG:  duration: 0.1 ms  execute S_1: {}\n\
         {prefix}DETAIL:  parameters: $1 = '5'",
        SENT[1]
    );
    let lines = text.lines().map(|line| format!("{around}{line}{behind}\n"));
    lines.collect()
}

#[test]
fn prefixes_of_providers_are_detected() {
    for prefix in [
        "2023-05-01 03:00:32 UTC:10.0.0.7(49654):app@shop:[1371]:",
        "2023-05-01 03:00:32.123 UTC:[local]:app@shop:[1371]:4:00000:2023-05-01 03:00:31 UTC:3/12:0:644f2d2f.55b:psql:",
        "2023-05-01 03:00:32 UTC-644f2d2f.55b-",
        "2023-05-01 03:00:32.123 UTC [1371]: [4-1] db=shop,user=app ",
        "2023-05-01 03:00:32 CEST [1371]: [4-1] user=app,db=shop,app=PostgreSQL JDBC Driver,client=10.0.0.7 ",
        "2023-05-01 03:00:32.123 +03 [1371]: xact=0,user=app,db=shop,client=[local], app=[unknown]",
        "1682910032.123 644f2d2f.55b app@shop ",
        "< 2023-05-01 03:00:32.123 UTC >pid=1371 user=app ",
    ] {
        assert_eq!(
            statements("a.log", &log(prefix, "", "")),
            [SENT[0], "SELECT $15"],
            "{prefix}"
        );
    }
}

#[test]
fn what_collectors_put_around_lines_is_taken_off() {
    let own = "2023-05-01 03:00:32.123 UTC [1371] app@shop ";
    for around in [
        "2023-05-01T03:00:32.123456789Z ",
        "2023-05-01T03:00:32.123456789Z stderr F ",
        "2023-05-01T03:00:33.456000+00:00 error/postgresql.log.2023-05-01-03 ",
        "May  1 03:00:32 db1 postgres[1371]: ",
    ] {
        assert_eq!(
            statements("a.log", &log(own, around, "")),
            [SENT[0], "SELECT $15"],
            "{around}"
        );
    }
    // syslog has time and process, counts parts, and writes tabs as numbers.
    let parts = "May  1 03:00:32 db1 postgres[1371]: [5-1] LOG:  duration: 9.4 ms  statement: UPDATE orders\n\
        May  1 03:00:32 db1 postgres[1371]: [5-2] #011SET closed\n\
        May  1 03:00:32 db1 postgres[1371]: [5-3]  = true\n\
        May  1 03:00:32 db1 postgres[1371]: [5-4] #011WHERE id = 71\n\
        May  1 03:00:33 db1 postgres[1371]: [6-1] LOG:  duration: 0.1 ms  statement: SELECT $15\n";
    assert_eq!(statements("syslog", parts), [SENT[0], "SELECT $15"]);
}

#[test]
fn objects_hold_entries_or_lines() {
    let own = log("2023-05-01 03:00:32.123 UTC [1371] app@shop ", "", "");
    let whole = own.replace("\n\t", "\u{1}");
    for field in ["textPayload", "MESSAGE", "log"] {
        let entries = whole.lines().map(|entry| {
            let text = entry.replace('\u{1}', "\n\t");
            format!(
                "{}\n",
                serde_json::json!({ field: text, "severity": "INFO" })
            )
        });
        assert_eq!(
            statements("a.json", &entries.collect::<String>()),
            [SENT[0], "SELECT $15"],
            "{field}"
        );
    }
    let azure = whole.lines().map(|entry| {
        let text = entry.replace('\u{1}', "\n\t");
        serde_json::json!({"category": "PostgreSQLLogs", "properties": {"errorLevel": "LOG", "message": text}})
    });
    let azure: Vec<_> = azure.collect();
    // As the console of a cloud saves it.
    let pretty = serde_json::to_string_pretty(&azure).unwrap();
    assert_eq!(statements("query.json", &pretty), [SENT[0], "SELECT $15"]);
    let record = |message: &str, detail: &str| {
        serde_json::json!({"logger": "postgres", "msg": "record", "record": {
            "log_time": "2022-11-23 14:27:22.961 UTC", "user_name": "app", "database_name": "shop", "session_id": "637e.2c",
            "error_severity": "LOG", "message": message, "detail": detail}})
    };
    let operator = format!(
        "{}\n{}\n",
        record(&format!("duration: 9.4 ms  statement: {}", SENT[0]), ""),
        record(
            "duration: 0.1 ms  execute S_1: SELECT $1",
            "parameters: $1 = '5'"
        )
    );
    assert_eq!(statements("pod.log", &operator), [SENT[0], "SELECT $15"]);
}

#[test]
fn lines_stand_wherever_a_collector_puts_them() {
    let own = log("2023-05-01 03:00:32.123 UTC [1371] app@shop ", "", "");
    let whole = own.replace("\n\t", "\u{1}");
    let entries: Vec<String> = whole.lines().map(|e| e.replace('\u{1}', "\n\t")).collect();
    let object = |wrap: &dyn Fn(&str) -> serde_json::Value| -> String {
        let objects = entries.iter().map(|entry| format!("{}\n", wrap(entry)));
        objects.collect()
    };
    for text in [
        object(
            &|entry| serde_json::json!({"body": entry, "severityText": "INFO", "attributes": {"a": 1}}),
        ),
        object(&|entry| serde_json::json!({"line": entry, "labels": {"app": "db"}})),
        object(
            &|entry| serde_json::json!({"_source": {"@timestamp": "2023-05-01", "message": entry}}),
        ),
        object(
            &|entry| serde_json::json!({"event": {"original": entry}, "agent": {"type": "filebeat"}}),
        ),
        object(
            &|entry| serde_json::json!({"kubernetes": {"pod": "db-0"}, "log": format!("{entry}\n")}),
        ),
        serde_json::json!({"LogFileData": own, "Marker": "1"}).to_string(),
        serde_json::to_string_pretty(&serde_json::json!({
            "events": entries.iter().map(|e| serde_json::json!({"message": e})).collect::<Vec<_>>(),
            "nextForwardToken": "f/1",
        }))
        .unwrap(),
    ] {
        assert_eq!(
            statements("a.json", &text),
            [SENT[0], "SELECT $15"],
            "{text}"
        );
    }
    // Longer than what a format is known by.
    let pad = "SELECT 1; ".repeat(10_000);
    let long = serde_json::json!({"LogFileData": format!("{own}2023-05-01 03:00:33.123 UTC [1371] app@shop LOG:  {pad}\n")});
    let begin = &long.to_string()[..64 << 10];
    let known = format_of("a.json", begin.as_bytes(), None);
    assert!(
        matches!(known, Ok(super::Format::Json(Some(_)))),
        "{known:?}"
    );
}

#[test]
fn logplex_is_read_as_text_and_as_objects() {
    let long = "sql_error_code = 00000 time_ms = \"2023-05-01 03:00:32.123 UTC\" pid=\"13263\" \
                proc_start_time=\"2023-05-01 03:00:01 UTC\" session_id=\"60ade7f8.33cf\" vtid=\"4/10\" tid=\"0\" \
                log_line=\"1\" database=\"d1\" connection_source=\"10.0.0.1(5000)\" user=\"u1\" \
                application_name=\"my app\" ";
    for prefix in ["sql_error_code = 00000 ", long] {
        // Each entry has a number, and each of its lines one of a part.
        let entry = |number: u32, text: &str| {
            let lines = (1..).zip(text.split('\n'));
            let lines = lines.map(|(part, line)| {
                let line = line.replace('\t', "#011");
                let blanks = if part == 1 { " " } else { "" };
                format!("[DATABASE] [{number}-{part}] {blanks}{line}")
            });
            lines.collect::<Vec<_>>()
        };
        let update = SENT[0].replace('\n', "\n\t");
        let lines = [
            entry(
                5,
                &format!("{prefix}LOG:  duration: 9.4 ms  statement: {update}"),
            ),
            entry(
                6,
                &format!("{prefix}LOG:  duration: 0.1 ms  execute S_1: SELECT $1"),
            ),
            entry(7, &format!("{prefix}DETAIL:  parameters: $1 = '5'")),
        ]
        .concat();
        let time = "2023-05-01T03:00:32.000000+00:00";
        let console = lines
            .iter()
            .map(|line| format!("{time} app[postgres.1371]: {line}\n"));
        let drain = lines
            .iter()
            .map(|line| format!("123 <134>1 {time} host app postgres.1371 - {line}\n"));
        let whole = lines.iter().map(|line| {
            format!(
                "{}\n",
                serde_json::json!({"log": format!("{time} app[postgres.1371]: {line}")})
            )
        });
        let apart = lines.iter().map(|line| {
            let object =
                serde_json::json!({"timestamp": time, "proc": "postgres.1371", "message": line});
            format!("{object}\n")
        });
        for text in [
            console.collect::<String>(),
            drain.collect(),
            whole.collect(),
            apart.collect(),
        ] {
            assert_eq!(
                statements("heroku", &text),
                [SENT[0], "SELECT $15"],
                "{text}"
            );
        }
    }
}

#[test]
fn what_is_no_log_of_postgresql_is_said_to_be_none() {
    for text in [
        "",
        "nothing",
        "127.0.0.1 - - [01/May/2023:03:00:32 +0000] \"GET / HTTP/1.1\" 200 7\n",
    ] {
        assert_eq!(
            format_of("a.log", text.as_bytes(), None),
            Err(Unknown),
            "{text}"
        );
    }
}

#[test]
fn further_fetches_from_a_portal_are_no_executions() {
    let at = "2023-05-01 03:00:32.123 UTC [1371] app@shop ";
    let text = format!(
        "{at}LOG:  duration: 0.9 ms  execute S_1/C_1: SELECT $1\n{at}DETAIL:  parameters: $1 = '5'\n\
         {at}LOG:  duration: 0.1 ms  execute fetch from S_1/C_1: SELECT $1\n{at}DETAIL:  parameters: $1 = '5'\n"
    );
    assert_eq!(statements("a.log", &text), ["SELECT $15"]);
}
