//! How pgbench's tables are made, under the names that `pgbench -i` has for it.

use clap::Args as ClapArgs;
use pgassay_model::Failure;
use pgassay_model::workload::Tables;

/// Where they stand in the help; a heading for the whole struct would be that of what follows it.
const TABLES: &str = "The pgbench tables";

/// The choices of `pgbench -i`.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct TablesArgs {
    /// Fill factor of the tables, in percent
    #[arg(help_heading = TABLES, long, value_name = "NUM", value_parser = clap::value_parser!(u32).range(10..=100))]
    pub fillfactor: Option<u32>,
    /// Partition pgbench_accounts into so many parts
    #[arg(help_heading = TABLES, long, value_name = "NUM", default_value_t = 0)]
    pub partitions: u32,
    /// How it is partitioned: range (the default) or hash
    #[arg(help_heading = TABLES, long, value_name = "METHOD", value_parser = ["range", "hash"])]
    pub partition_method: Option<String>,
    /// Make the tables unlogged: without WAL, and empty after a crash
    #[arg(help_heading = TABLES, long)]
    pub unlogged_tables: bool,
    /// Make foreign keys between the tables
    #[arg(help_heading = TABLES, long)]
    pub foreign_keys: bool,
    /// Tablespace of the tables; it must be there
    #[arg(help_heading = TABLES, long, value_name = "TABLESPACE")]
    pub tablespace: Option<String>,
    /// Tablespace of the indexes; it must be there
    #[arg(help_heading = TABLES, long, value_name = "TABLESPACE")]
    pub index_tablespace: Option<String>,
}

impl TablesArgs {
    /// The choices as a plan records them.
    ///
    /// # Errors
    /// A method without partitions.
    pub fn tables(&self) -> Result<Tables, Failure> {
        if self.partition_method.is_some() && self.partitions == 0 {
            return Err(
                Failure::usage("--partition-method says how, and there are no partitions")
                    .with_remedy("add --partitions NUM"),
            );
        }
        Ok(Tables {
            fillfactor: self.fillfactor,
            partitions: self.partitions,
            partition_method: self.partition_method.clone(),
            unlogged: self.unlogged_tables,
            foreign_keys: self.foreign_keys,
            tablespace: self.tablespace.clone(),
            index_tablespace: self.index_tablespace.clone(),
        })
    }

    /// The first of its flags that was given.
    pub fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--fillfactor", self.fillfactor.is_some()),
            ("--partitions", self.partitions > 0),
            ("--partition-method", self.partition_method.is_some()),
            ("--tablespace", self.tablespace.is_some()),
            ("--index-tablespace", self.index_tablespace.is_some()),
            ("--unlogged-tables", self.unlogged_tables),
            ("--foreign-keys", self.foreign_keys),
        ];
        let (flag, _) = given.into_iter().find(|(_, given)| *given)?;
        Some(flag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(flags: &[&str]) -> Result<TablesArgs, clap::Error> {
        crate::cli::parsed(flags)
    }

    #[test]
    fn the_flags_reach_the_plan() {
        let flags = [
            "--fillfactor",
            "90",
            "--partitions",
            "4",
            "--partition-method",
            "hash",
            "--tablespace",
            "fast disk",
            "--index-tablespace",
            "other",
            "--unlogged-tables",
            "--foreign-keys",
        ];
        let args = parsed(&flags).unwrap();
        assert_eq!(args.first_given(), Some("--fillfactor"));
        let tables = args.tables().unwrap();
        assert_eq!((tables.fillfactor, tables.partitions), (Some(90), 4));
        assert!(tables.unlogged && tables.foreign_keys);
        assert_eq!(tables.tablespace.as_deref(), Some("fast disk"));
        let args = parsed(&["--partition-method", "hash"]).unwrap();
        assert!(args.tables().is_err());
        assert!(parsed(&["--fillfactor", "5"]).is_err());
        assert_eq!(TablesArgs::default().first_given(), None);
    }
}
