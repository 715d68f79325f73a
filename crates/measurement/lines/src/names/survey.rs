//! A map of the main segment, made from what the server says of itself.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::hash;
use super::layout::{Layout, Layouts};
use super::memory::Memory;
use super::region::{BUFFERS, Inner, LOCK, Region, Shape};
use super::relations::Relations;

/// The session's entry in the array of statuses.
#[derive(Debug, Clone)]
pub(super) struct Status {
    pub(super) stride: u64,
    pub(super) own: u64,
    pub(super) entries: u64,
    pub(super) layout: Option<Rc<Layout>>,
}

/// What is known of the session that is recorded.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// Its process id, in the server's own count.
    pub pid: u32,
    /// `server_version_num`.
    pub version_num: u32,
    /// Bytes of a block.
    pub block_size: u64,
    /// Addresses of the server's variables, by name.
    pub variables: BTreeMap<String, u64>,
    /// Where the main segment lies.
    pub main: (u64, u64),
    /// Other segments: where they are recorded to lie, and their names.
    pub others: BTreeMap<u64, String>,
}

/// The map.
pub struct Survey<'a> {
    pub(super) memory: Memory<'a>,
    pub(super) session: Session,
    pub(super) layouts: Layouts,
    pub(super) relations: Relations,
    /// By start; the later wins where one lies in another.
    pub(super) regions: Vec<Region>,
    pub(super) allocations: Vec<Region>,
    /// Elements of tables in use: length, number of the table and of the bucket.
    pub(super) elements: BTreeMap<u64, (u64, usize, Option<u64>)>,
    pub(super) tables: Vec<(String, u64)>,
    /// The session's own entry in the array of statuses.
    pub(super) status: Option<Status>,
    /// What could not be believed.
    pub doubts: Vec<String>,
}

/// PGShmemHeader.index (storage/pg_shmem.h), the same since 9.4.
const INDEX: u64 = 32;
/// ShmemIndexEnt: a name of 48 bytes, then address and size (storage/shmem.h).
const INDEX_NAME: u64 = 48;

impl<'a> Survey<'a> {
    /// Looks around in the server's memory.
    pub fn new(memory: Memory<'a>, session: Session, relations: Relations) -> Self {
        let mut survey = Self {
            layouts: Layouts::of(session.version_num),
            memory,
            session,
            relations,
            regions: Vec::new(),
            allocations: Vec::new(),
            elements: BTreeMap::new(),
            tables: Vec::new(),
            status: None,
            doubts: Vec::new(),
        };
        survey.index();
        survey.processes();
        survey.locks();
        survey.variables();
        survey.regions.sort_by_key(|region| region.start);
        survey.allocations.sort_by_key(|region| region.start);
        survey
    }

    pub(super) fn variable(&self, name: &str) -> Option<u64> {
        self.memory.u64(*self.session.variables.get(name)?)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        let value = self.memory.u32(*self.session.variables.get(name)?)?;
        Some(u64::from(value))
    }

    /// The number of the session among all, from 0.
    pub(super) fn own_number(&self) -> Option<u64> {
        self.number("MyProcNumber")
            .or_else(|| self.number("MyBackendId")?.checked_sub(1))
    }

    /// Layouts of another release are believed only where memory bears them out.
    pub(super) fn sure(&self, name: &str) -> Option<Rc<Layout>> {
        self.layouts.exact.then(|| self.layouts.get(name)).flatten()
    }

    pub(super) fn add(&mut self, start: u64, length: u64, structure: &str, shape: Shape) {
        self.regions.push(Region {
            start,
            end: start.saturating_add(length),
            structure: structure.to_owned(),
            shape,
        });
    }

    /// The server's own index of what it has allocated.
    fn index(&mut self) {
        let Some(header) = self.layouts.get("HASHHDR") else {
            return;
        };
        let start = self.session.main.0;
        let table = self
            .memory
            .u64(start + INDEX)
            .and_then(|index| hash::walk(&self.memory, index, &header));
        let Some(table) = table else {
            self.doubts.push(
                "the server's index of shared memory could not be read; only what exported \
                 variables lead to has a name"
                    .to_owned(),
            );
            return;
        };
        let entry = |(element, _): &(u64, u64)| {
            let entry = element + hash::KEY;
            let address = self.memory.u64(entry + INDEX_NAME)?;
            let size = self.memory.u64(entry + INDEX_NAME + 8)?;
            Some((self.memory.text(entry)?, address, size))
        };
        let entries: Vec<_> = table.elements.iter().filter_map(entry).collect();
        let statuses = entries
            .iter()
            .find(|(name, ..)| name == "Backend Status Array");
        self.status = statuses.and_then(|(_, start, size)| self.find_status(*start, *size));
        for (name, address, size) in entries {
            self.allocation(&name, address, size);
        }
        let index = self.memory.u64(start + INDEX).unwrap_or_default();
        self.table("ShmemIndex", index, false);
    }

    fn allocation(&mut self, name: &str, start: u64, size: u64) {
        let layouts = &self.layouts;
        let one = |layout: Option<Rc<Layout>>, inner: Vec<Inner>| match layout {
            Some(layout) if layouts.exact => Shape::One(layout, inner),
            _ => Shape::Whole,
        };
        let own = self.own_number();
        let shape = match name {
            "Buffer Descriptors" => return self.descriptors(start, size),
            "Buffer Blocks" => return self.blocks(start, size),
            "Proc Header" => one(layouts.get("PROC_HDR"), vec![]),
            "Proc Array" => one(layouts.get("ProcArrayStruct"), vec![]),
            "XLOG Ctl" => one(layouts.get("XLogCtlData"), vec![]),
            "TransamVariables" => one(layouts.get("TransamVariablesData"), vec![]),
            "Buffer Strategy Status" => one(layouts.get("BufferStrategyControl"), vec![]),
            "Checkpointer Data" => one(layouts.get("CheckpointerShmemStruct"), vec![]),
            "Shared MultiXact State" => {
                // Two arrays, one behind the other; up to 16 numbered from 1.
                let first = u64::from(self.session.version_num < 170_000);
                let ids = Inner {
                    member: "perBackendXactIds",
                    layout: None,
                    what: "session",
                    own: own.map(|own| own + first),
                    period: self
                        .number("MaxBackends")
                        .zip(self.number("max_prepared_xacts"))
                        .map(|(a, b)| a + b),
                };
                one(layouts.get("MultiXactStateData"), vec![ids])
            }
            "Shared Memory Stats" => one(layouts.get("PgStat_ShmemControl"), vec![]),
            "Fast Path Strong Relation Lock Data" => Shape::Row {
                stride: 4,
                layout: None,
                what: "partition",
                own: None,
            },
            "shmInvalBuffer" => {
                let states = Inner {
                    member: "procState",
                    layout: layouts.get("ProcState"),
                    what: "session",
                    own,
                    period: None,
                };
                one(layouts.get("SISeg"), vec![states])
            }
            "ProcSignal" => Shape::Row {
                stride: layouts
                    .get("ProcSignalSlot")
                    .map_or(0, |layout| layout.size),
                layout: self.sure("ProcSignalSlot"),
                what: "session",
                own: None,
            },
            // Up to 12, without a header.
            "ProcSignalSlots" => match self.sure("ProcSignalSlot") {
                Some(layout) => Shape::Row {
                    stride: layout.size,
                    layout: Some(layout),
                    what: "session",
                    own,
                },
                None => Shape::Whole,
            },
            "Backend Status Array" => self.statuses(),
            "Backend Activity Buffer" => self.texts(size),
            "PMSignalState" => {
                let flags = Inner {
                    member: "PMChildFlags",
                    layout: None,
                    what: "child",
                    own: None,
                    period: None,
                };
                one(layouts.get("PMSignalData"), vec![flags])
            }
            _ if self.is_slru(name) => one(layouts.get("SlruSharedData"), vec![]),
            _ => Shape::Whole,
        };
        self.allocations.push(Region {
            start,
            end: start + size,
            structure: name.to_owned(),
            shape,
        });
        if name == "XLOG Ctl" {
            self.insertion_locks(start);
        }
        if name == "Buffer Strategy Status" && !self.layouts.exact {
            self.doubts.push(format!(
                "members are named by the layouts of PostgreSQL {} only where memory agrees",
                self.layouts.release
            ));
        }
        if is_table(name) {
            self.table(name, start, name == "Shared Buffer Lookup Table");
        }
    }

    /// The buffers begin where the variable says: from 16 on they are aligned within their memory.
    fn blocks(&mut self, start: u64, size: u64) {
        let first = self.variable("BufferBlocks");
        let first = first.filter(|first| (start..start + size).contains(first));
        self.allocations.push(Region {
            start: first.unwrap_or(start),
            end: start + size,
            structure: "Buffer Blocks".to_owned(),
            shape: Shape::Blocks,
        });
    }

    fn is_slru(&self, name: &str) -> bool {
        [
            "Xact",
            "xact",
            "transaction",
            "Subtrans",
            "subtransaction",
            "CommitTs",
            "commit_timestamp",
            "MultiXactOffset",
            "multixact_offset",
            "MultiXactMember",
            "multixact_member",
            "Notify",
            "notify",
            "Serial",
            "serializable",
        ]
        .contains(&name)
            || name.ends_with(" Ctl") && name != "XLOG Ctl"
    }

    /// The headers begin where the variable says: up to 9.5 they are aligned within their memory.
    fn descriptors(&mut self, start: u64, size: u64) {
        let end = start + size;
        let first = self.variable("BufferDescriptors");
        let start = first.filter(|first| (start..end).contains(first));
        let start = start.unwrap_or(end - size);
        let shape = self.headers(start, size);
        self.allocations.push(Region {
            start,
            end,
            structure: "Buffer Descriptors".to_owned(),
            shape,
        });
    }

    /// The headers' numbers stand in them: all must be right.
    fn headers(&mut self, start: u64, size: u64) -> Shape {
        let Some(layout) = self.layouts.get("BufferDesc") else {
            return Shape::Whole;
        };
        let count = self.number("NBuffers").unwrap_or(size / 64);
        let right = (0..count.min(1000)).all(|number| {
            let id = layout.offset("buf_id").map(|at| start + number * 64 + at);
            id.and_then(|id| self.memory.u32(id)) == Some(number as u32)
        });
        if right {
            return Shape::Descriptors(layout);
        }
        self.doubts
            .push("buffers' headers do not look as expected".to_owned());
        Shape::Whole
    }

    /// The locks for insertion into the WAL, behind a pointer in XLogCtl.
    fn insertion_locks(&mut self, control: u64) {
        let Some(layout) = self.sure("XLogCtlData") else {
            return;
        };
        let at = layout.offset("Insert.WALInsertLocks");
        let locks = at.and_then(|at| self.memory.u64(control + at));
        if let (Some(locks), Some(layout)) = (locks, self.layouts.get("WALInsertLock")) {
            // NUM_XLOGINSERT_LOCKS has been 8 since 9.4.
            self.add(
                locks,
                8 * LOCK,
                "WAL insertion lock",
                Shape::Row {
                    stride: LOCK,
                    layout: Some(layout),
                    what: "",
                    own: self.own_process().map(|own| own % 8),
                },
            );
        }
    }

    /// Structures that a variable leads to, before they were in the index.
    fn variables(&mut self) {
        let known = [
            ("ShmemVariableCache", "VariableCache", "VariableCacheData"),
            (
                "TransamVariables",
                "TransamVariables",
                "TransamVariablesData",
            ),
        ];
        for (variable, name, layout) in known {
            let start = self.variable(variable);
            if let (Some(start), Some(layout)) = (start, self.sure(layout)) {
                self.add(start, layout.size, name, Shape::One(layout, vec![]));
            }
        }
        let lock = self.variable("ShmemLock");
        if let Some(lock) = lock.filter(|lock| self.in_main(*lock)) {
            self.add(lock, 1, "ShmemLock", Shape::Whole);
        }
        let length = self.layouts.get("PGPROC").map_or(0, |_| 64);
        self.add(
            self.session.main.0,
            length,
            "segment's header",
            Shape::Whole,
        );
    }

    pub(super) fn in_main(&self, address: u64) -> bool {
        (self.session.main.0..self.session.main.1).contains(&address)
    }

    /// A hash table's buckets and elements.
    fn table(&mut self, name: &str, start: u64, buffers: bool) {
        let Some(header) = self.layouts.get("HASHHDR") else {
            return;
        };
        let Some(table) = hash::walk(&self.memory, start, &header) else {
            self.doubts
                .push(format!("the table \"{name}\" does not look as expected"));
            return;
        };
        let partitions = match table.partitions {
            0 => 0,
            n if n.is_power_of_two() => n,
            _ => 0,
        };
        for (number, segment) in table.segments.iter().enumerate() {
            self.add(
                *segment,
                table.buckets_each * 8,
                name,
                Shape::Buckets {
                    first: number as u64 * table.buckets_each,
                    partitions,
                },
            );
        }
        let kind = self.tables.len();
        self.tables.push((name.to_owned(), partitions));
        let size = table.element_size;
        let used = table
            .elements
            .iter()
            .map(|(at, bucket)| (*at, Some(*bucket)));
        let free = table.free.iter().map(|at| (*at, None));
        for (at, bucket) in used.chain(free) {
            let label = if buffers { kind | BUFFERS } else { kind };
            self.elements.insert(at, (size, label, bucket));
        }
    }

    /// The release whose layouts are used, and whether it is the server's.
    pub fn layouts(&self) -> &Layouts {
        &self.layouts
    }
}

/// Hash tables in the index, by their names in the sources.
fn is_table(name: &str) -> bool {
    name.ends_with(" hash")
        || name == "Shared Buffer Lookup Table"
        || name == "pg_stat_statements hash"
}
