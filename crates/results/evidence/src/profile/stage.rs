//! At which stage of a statement's way through the server a sample fell.
//!
//! [`Class`] says what code a sample hit; a stage says what it was run for. A
//! buffer pinned by an index scan belongs to the executor here. The innermost function of the
//! chain that belongs to a stage decides; names are those of PostgreSQL's source (src/backend,
//! versions 13 to 19).

use std::sync::LazyLock;

use pgassay_readings::profile::Frame;
use serde::{Deserialize, Serialize};

use super::names::Names;
use super::{Class, class};

/// A stage of a statement's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Waiting for the client's next message; the kernel's part of sleeping and of waking.
    WakeUp,
    /// Reading and writing messages, the kernel's network included.
    Protocol,
    /// Parsing, analysing, rewriting.
    Parse,
    /// Planning.
    Plan,
    /// Finding a prepared plan and seeing that it still holds.
    PlanCache,
    /// Taking and giving back snapshots.
    Snapshot,
    /// Locks of relations.
    RelationLocks,
    /// Starting, running and ending the plan, and all that it calls.
    Executor,
    /// SPI around the executor.
    Spi,
    /// PL/pgSQL's interpreter.
    Plpgsql,
    /// Beginning and committing.
    Transaction,
    /// Portals.
    Portal,
    /// Statistics counters, process title, logging.
    Counters,
    /// The loop around messages.
    MessageLoop,
    /// pgassay's own loop: random numbers, clock.
    Measurement,
    /// No function of the chain tells.
    Untold,
}

/// All stages in the order of reports.
pub const STAGES: &[Stage] = &[
    Stage::WakeUp,
    Stage::Protocol,
    Stage::Parse,
    Stage::Plan,
    Stage::PlanCache,
    Stage::Snapshot,
    Stage::RelationLocks,
    Stage::Executor,
    Stage::Spi,
    Stage::Plpgsql,
    Stage::Transaction,
    Stage::Portal,
    Stage::Counters,
    Stage::MessageLoop,
    Stage::Measurement,
    Stage::Untold,
];

impl Stage {
    /// Its name in reports.
    pub fn title(self) -> &'static str {
        match self {
            Self::WakeUp => "waiting, waking up",
            Self::Protocol => "protocol",
            Self::Parse => "parse",
            Self::Plan => "plan",
            Self::PlanCache => "plan cache",
            Self::Snapshot => "snapshot",
            Self::RelationLocks => "locks of relations",
            Self::Executor => "executor",
            Self::Spi => "SPI",
            Self::Plpgsql => "PL/pgSQL",
            Self::Transaction => "transaction",
            Self::Portal => "portal",
            Self::Counters => "counters, logging",
            Self::MessageLoop => "message loop",
            Self::Measurement => "pgassay's loop",
            Self::Untold => "not told",
        }
    }
}

const STAGES_OF: &[(Stage, &str)] = &[
    (
        Stage::WakeUp,
        "WaitEventSetWait* WaitLatch* epoll_wait secure_open* ProcessClientReadInterrupt \
         EnableNotifyInterrupt",
    ),
    (
        Stage::Protocol,
        "secure_read secure_write secure_raw_* pq_* internal_flush* internal_put* socket_* \
         SocketBackend ReadCommand printtup* SendRowDesc* BeginCommand EndCommand* ReadyForQuery \
         NullCommand CreateDestReceiver SetRemoteDest* forbidden_in_wal* recv send __libc_recv \
         __libc_send",
    ),
    (
        Stage::Parse,
        "raw_parser base_yyparse core_yylex pg_parse_query parse_analyze* pg_analyze_and_rewrite* \
         pg_rewrite_query QueryRewrite transform* CreateCommandTag analyze_requires_snapshot",
    ),
    (
        Stage::Plan,
        "pg_plan_quer* standard_planner planner subquery_planner",
    ),
    (
        Stage::PlanCache,
        "GetCachedPlan RevalidateCachedQuery CheckCachedPlan AcquireExecutorLocks \
         ReleaseCachedPlan* CachedPlan* choose_custom_plan BuildCachedPlan \
         FetchPreparedStatement ReleasePlanCache* ResOwnerReleaseCachedPlan",
    ),
    (
        Stage::Snapshot,
        "GetSnapshotData* GetTransactionSnapshot GetLatestSnapshot GetActiveSnapshot \
         PushActiveSnapshot* PushCopiedSnapshot PopActiveSnapshot RegisterSnapshot* \
         UnregisterSnapshot* SnapshotResetXmin UpdateActiveSnapshotCommandId \
         InvalidateCatalogSnapshot* EnsurePortalSnapshot* CopySnapshot FreeSnapshot",
    ),
    (
        Stage::RelationLocks,
        "LockRelation* UnlockRelation* LockAcquire* LockRelease* CheckRelation*",
    ),
    // An index scan keeps more on its stack than a sample may take of it: its own functions stand
    // for the executor above them.
    (
        Stage::Executor,
        "standard_Executor* ExecutorStart ExecutorRun ExecutorFinish ExecutorEnd CreateQueryDesc \
         FreeQueryDesc ExecutePlan ExecScan* IndexNext index_getnext* index_fetch* btgettuple \
         _bt_first heapam_index_fetch* heap_page_prune_opt",
    ),
    (Stage::Spi, "SPI_* _SPI_* spi_*"),
    (
        Stage::Plpgsql,
        "exec_stmt* exec_eval* exec_run_select exec_assign* exec_set_* exec_toplevel* plpgsql_* \
         exec_simple_check_plan exec_simple_recheck_plan setup_param* exec_for* exec_move* \
         exec_cast* get_stmt* exec_prepare* do_cast* assign_simple*",
    ),
    (
        Stage::Transaction,
        "StartTransaction* CommitTransaction* start_xact_command finish_xact_command AtEOXact* \
         BeginTransactionBlock enable_statement_timeout disable_statement_timeout \
         CommandCounterIncrement PreCommit* AtCommit* AfterTriggerEndXact AtStart*",
    ),
    (
        Stage::Portal,
        "Portal* CreatePortal FillPortalStrategy ChoosePortal*",
    ),
    (
        Stage::Counters,
        "pgstat_* set_ps_display* check_log_duration check_log_statement ShowUsage ResetUsage",
    ),
    (
        Stage::Measurement,
        "pgassay_query_loop pgassay_loop_* meter_* rng_* execute_once drandom setseed float8_* \
         dfloor dtoi8 clock_* __vdso* [vdso]",
    ),
    (
        Stage::MessageLoop,
        "exec_simple_query exec_bind_message exec_execute_message exec_parse_message \
         exec_describe* PostgresMain",
    ),
];

static NAMES: LazyLock<Names<Stage>> = LazyLock::new(|| Names::new(STAGES_OF));

/// The stage of a chain, which stands from the outermost caller.
pub fn of(chain: &[&Frame]) -> Stage {
    // What the kernel does for a wake-up is neither the message's nor the wait's own.
    if class::of(chain) == Class::KernelWakeUp {
        return Stage::WakeUp;
    }
    let server = chain.iter().rev().filter(|frame| !frame.is_kernel());
    server
        .filter_map(|frame| NAMES.find(&frame.symbol))
        .next()
        .unwrap_or(Stage::Untold)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(chain: &str) -> Stage {
        let frames: Vec<Frame> = chain
            .split_ascii_whitespace()
            .map(|name| match name.strip_prefix("k:") {
                Some(name) => Frame::new(name, "[kernel.kallsyms]"),
                None => Frame::new(name, "postgres"),
            })
            .collect();
        of(&frames.iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_innermost_that_tells_decides() {
        for (chain, expected) in [
            (
                "PostgresMain exec_execute_message PortalRun standard_ExecutorRun ExecScan \
                 PinBuffer",
                Stage::Executor,
            ),
            (
                "PortalRun standard_ExecutorRun printtup pq_sendint32 memcpy",
                Stage::Protocol,
            ),
            (
                "pgassay_query_loop SPI_execute_plan _SPI_execute_plan standard_ExecutorStart \
                 palloc",
                Stage::Executor,
            ),
            (
                "pgassay_query_loop SPI_execute_plan GetTransactionSnapshot GetSnapshotData",
                Stage::Snapshot,
            ),
            (
                "PostgresMain secure_write send k:unix_stream_sendmsg k:try_to_wake_up",
                Stage::WakeUp,
            ),
            (
                "PostgresMain secure_write send k:unix_stream_sendmsg k:skb_copy",
                Stage::Protocol,
            ),
            ("standard_ExecutorRun k:asm_exc_page_fault", Stage::Executor),
            (
                "PostgresMain SocketBackend secure_read WaitEventSetWait",
                Stage::WakeUp,
            ),
            ("pgassay_query_loop rng_next", Stage::Measurement),
            ("PostgresMain mystery", Stage::MessageLoop),
            ("main mystery", Stage::Untold),
            ("", Stage::Untold),
        ] {
            assert_eq!(stage(chain), expected, "{chain}");
        }
    }

    #[test]
    fn every_stage_has_a_place_in_reports() {
        for (stage, _) in STAGES_OF {
            assert!(STAGES.contains(stage), "{stage:?}");
        }
        let mut sorted = STAGES.to_vec();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted, STAGES, "the order of the enum is that of reports");
    }
}
