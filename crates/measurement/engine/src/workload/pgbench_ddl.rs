//! The statements that make pgbench's tables, with the choices that `pgbench -i` has (PostgreSQL's
//! documentation of pgbench): for our own schema and for `pgassay pgbench -i` alike.

use pgassay_model::workload::Tables;

use super::bulk::{ACCOUNTS, LARGE_SCALE};

/// The tables in the order in which they are made. Backwards none refers to one that is left when
/// they are dropped in this order.
pub const TABLES: [&str; 4] = ["history", "tellers", "accounts", "branches"];

/// Tables and the columns of their primary keys, smallest first.
pub const KEYS: [(&str, &str); 3] = [("branches", "bid"), ("tellers", "tid"), ("accounts", "aid")];

/// How the tables are made and where.
#[derive(Debug, Clone, Copy)]
pub struct Ddl<'a> {
    /// The choices.
    pub tables: &'a Tables,
    /// 100,000 accounts each.
    pub scale: u32,
    /// What stands before a table's name: a schema and a dot, or nothing.
    pub schema: &'a str,
    /// `server_version_num` of the server.
    pub version: u32,
}

impl Ddl<'_> {
    /// Makes the tables.
    pub fn create(&self) -> Vec<String> {
        let Self { tables, schema, .. } = self;
        let aid = match self.scale >= LARGE_SCALE {
            true => "bigint",
            false => "int",
        };
        let columns = [
            format!("tid int, bid int, aid {aid}, delta int, mtime timestamp, filler char(22)"),
            "tid int NOT NULL, bid int, tbalance int, filler char(84)".to_owned(),
            format!("aid {aid} NOT NULL, bid int, abalance int, filler char(84)"),
            "bid int NOT NULL, bbalance int, filler char(88)".to_owned(),
        ];
        let unlogged = if tables.unlogged { "UNLOGGED " } else { "" };
        // From release 18 on a partitioned table, which has no storage of its own, can't be unlogged.
        // Foreign keys from it then need logged tables, so that, as in pgbench 18, only the partitions
        // are unlogged. Before, it has to be unlogged for an unlogged one to refer to it.
        let logged_parent = tables.partitions > 0 && self.version >= 180_000;
        let whole = if logged_parent { "" } else { unlogged };
        let place = tablespace(tables.tablespace.as_deref(), "");
        let fill = format!(" WITH (fillfactor={})", tables.fillfactor.unwrap_or(100));
        let method = tables.partition_method.as_deref().unwrap_or("range");
        let mut statements: Vec<String> = TABLES
            .iter()
            .zip(columns)
            .map(|(table, columns)| {
                let (kind, rest) = match *table {
                    "accounts" if tables.partitions > 0 => {
                        (whole, format!(" PARTITION BY {method} (aid)"))
                    }
                    "history" => (whole, place.clone()),
                    _ => (whole, format!("{fill}{place}")),
                };
                format!("CREATE {kind}TABLE {schema}pgbench_{table} ({columns}){rest}")
            })
            .collect();
        let parts = u64::from(tables.partitions);
        statements.extend((1..=parts).map(|part| {
            let values = match method {
                "hash" => format!("WITH (MODULUS {parts}, REMAINDER {})", part - 1),
                _ => self.range(part, parts),
            };
            format!(
                "CREATE {unlogged}TABLE {schema}pgbench_accounts_{part} \
                 PARTITION OF {schema}pgbench_accounts FOR VALUES {values}{fill}{place}"
            )
        }));
        statements
    }

    /// The accounts of a partition, from 1: the first and the last are open towards the outside.
    fn range(&self, part: u64, parts: u64) -> String {
        let size = (ACCOUNTS * u64::from(self.scale)).div_ceil(parts);
        let from = match part {
            1 => "MINVALUE".to_owned(),
            _ => ((part - 1) * size + 1).to_string(),
        };
        let to = match part == parts {
            true => "MAXVALUE".to_owned(),
            false => (part * size + 1).to_string(),
        };
        format!("FROM ({from}) TO ({to})")
    }

    /// Adds a table's primary key.
    pub fn primary_key(&self, table: &str, column: &str) -> String {
        let place = tablespace(self.tables.index_tablespace.as_deref(), " USING INDEX");
        let schema = self.schema;
        format!("ALTER TABLE {schema}pgbench_{table} ADD PRIMARY KEY ({column}){place}")
    }

    /// Adds the foreign keys between the tables, when they have their primary keys.
    pub fn foreign_keys(&self) -> Vec<String> {
        let schema = self.schema;
        [
            ("tellers", "bid", "branches"),
            ("accounts", "bid", "branches"),
            ("history", "bid", "branches"),
            ("history", "tid", "tellers"),
            ("history", "aid", "accounts"),
        ]
        .iter()
        .map(|(table, column, other)| {
            format!(
                "ALTER TABLE {schema}pgbench_{table} ADD CONSTRAINT pgbench_{table}_{column}_fkey \
                 FOREIGN KEY ({column}) REFERENCES {schema}pgbench_{other}"
            )
        })
        .collect()
    }
}

fn tablespace(name: Option<&str>, before: &str) -> String {
    name.map_or(String::new(), |name| {
        format!("{before} TABLESPACE \"{}\"", name.replace('"', "\"\""))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_choice_stands_where_it_belongs() {
        let tables = Tables {
            fillfactor: Some(80),
            partitions: 3,
            unlogged: true,
            tablespace: Some("a\"b".to_owned()),
            index_tablespace: Some("keys".to_owned()),
            ..Tables::default()
        };
        let ddl = Ddl {
            tables: &tables,
            scale: 1,
            schema: "s.",
            version: 150_000,
        };
        let made = ddl.create();
        assert_eq!(made.len(), 4 + 3);
        assert_eq!(
            made[2],
            "CREATE UNLOGGED TABLE s.pgbench_accounts (aid int NOT NULL, bid int, abalance int, \
             filler char(84)) PARTITION BY range (aid)"
        );
        assert!(
            made[0].ends_with("filler char(22)) TABLESPACE \"a\"\"b\""),
            "{}",
            made[0]
        );
        assert_eq!(
            made[5],
            "CREATE UNLOGGED TABLE s.pgbench_accounts_2 PARTITION OF s.pgbench_accounts \
             FOR VALUES FROM (33335) TO (66669) WITH (fillfactor=80) TABLESPACE \"a\"\"b\""
        );
        assert!(made[4].contains("FROM (MINVALUE) TO (33335)"));
        assert!(made[6].contains("FROM (66669) TO (MAXVALUE)"));
        assert_eq!(
            ddl.primary_key("tellers", "tid"),
            "ALTER TABLE s.pgbench_tellers ADD PRIMARY KEY (tid) USING INDEX TABLESPACE \"keys\""
        );
        let newer = Ddl {
            version: 180_000,
            scale: LARGE_SCALE,
            ..ddl
        };
        assert!(newer.create()[2].starts_with("CREATE TABLE s.pgbench_accounts (aid bigint"));
        assert!(newer.create()[3].starts_with("CREATE TABLE s.pgbench_branches"));
        assert!(newer.create()[4].starts_with("CREATE UNLOGGED TABLE"));
        let hash = Tables {
            partition_method: Some("hash".to_owned()),
            partitions: 2,
            ..Tables::default()
        };
        let made = Ddl {
            tables: &hash,
            ..ddl
        }
        .create();
        assert!(made[5].contains("WITH (MODULUS 2, REMAINDER 1) WITH (fillfactor=100)"));
    }
}
