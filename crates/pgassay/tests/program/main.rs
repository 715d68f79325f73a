//! The program as a whole, each command from outside or in process, against a real PostgreSQL
//! and over recorded runs. One binary, because each one links the whole program anew.

mod again;
mod architecture;
mod assay;
mod axes;
mod behind_statements;
mod bisect;
mod budget;
mod build;
mod build_commits;
mod build_users;
mod bytes;
mod check;
mod clock;
mod compare;
mod compare_runs;
mod deploy;
mod diagnose_perf;
mod doctor;
mod export;
mod far;
mod fit;
mod fleet;
mod follow;
mod guard;
mod guest;
mod inspect;
mod inspect_server;
mod kernels;
mod kinds;
mod lab;
#[cfg(target_arch = "x86_64")]
mod lines;
mod live_view;
mod loads;
mod made_data;
mod mcp;
mod measuring;
mod near;
mod observers;
mod order_entry;
mod own_copies;
mod own_reads;
mod own_workload;
mod pause;
#[path = "../../../pgwire/tests/support/mod.rs"]
mod pg_support;
mod pgbench_command;
mod pgbench_words;
mod pooler;
mod port;
mod query;
mod quiet;
mod reference;
mod runs;
mod schemas;
mod search_path;
mod secrets;
mod serve;
mod signals;
mod started;
mod statements;
#[path = "../../../load/tests/support/mod.rs"]
mod support;
mod watched;
mod workloads;
