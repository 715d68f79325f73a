//! A map of the main segment, made from what the server says of itself.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::hash;
use super::layout::{Layout, Layouts};
use super::memory::Memory;
use super::region::{BUFFERS, Inner, LOCK, Region, Shape};
use super::relations::Relations;

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
    /// What could not be believed.
    pub doubts: Vec<String>,
}

/// Locks of extensions beside the server's own.
const MOST_LOCKS: u64 = 1 << 16;
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

    fn variable(&self, name: &str) -> Option<u64> {
        self.memory.u64(*self.session.variables.get(name)?)
    }

    fn number(&self, name: &str) -> Option<u64> {
        let value = self.memory.u32(*self.session.variables.get(name)?)?;
        Some(u64::from(value))
    }

    /// The number of the session among all, from 0.
    fn own_number(&self) -> Option<u64> {
        self.number("MyProcNumber")
            .or_else(|| self.number("MyBackendId")?.checked_sub(1))
    }

    /// Layouts of another release are believed only where memory bears them out.
    fn sure(&self, name: &str) -> Option<Rc<Layout>> {
        self.layouts.exact.then(|| self.layouts.get(name)).flatten()
    }

    fn add(&mut self, start: u64, length: u64, structure: &str, shape: Shape) {
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
        for (element, _) in &table.elements {
            let entry = element + hash::KEY;
            let (Some(name), Some(address), Some(size)) = (
                self.memory.text(entry),
                self.memory.u64(entry + INDEX_NAME),
                self.memory.u64(entry + INDEX_NAME + 8),
            ) else {
                continue;
            };
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
            "Buffer Descriptors" => self.descriptors(start, size),
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
            "Backend Status Array" => self.statuses(start, size),
            "Backend Activity Buffer" => self.texts(start, size),
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
    }

    /// The headers' numbers stand in them: all must be right.
    fn descriptors(&mut self, start: u64, size: u64) -> Shape {
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

    fn statuses(&mut self, start: u64, size: u64) -> Shape {
        let entry = self.variable("MyBEEntry");
        let layout = self.layouts.get("PgBackendStatus");
        let right = |layout: &Rc<Layout>| {
            let pid = layout.offset("st_procpid")? + entry?;
            let own = entry?.checked_sub(start)?;
            let found = self.memory.u32(pid)? == self.session.pid;
            (found && own % layout.size == 0 && size.is_multiple_of(layout.size))
                .then(|| own / layout.size)
        };
        match layout.as_ref().and_then(right).zip(layout) {
            Some((own, layout)) => Shape::Row {
                stride: layout.size,
                layout: Some(layout),
                what: "session",
                own: Some(own),
            },
            None => {
                self.doubts
                    .push("sessions' status entries do not look as expected".to_owned());
                Shape::Whole
            }
        }
    }

    /// The texts of the sessions' statements, in the order of their status entries.
    fn texts(&self, start: u64, size: u64) -> Shape {
        let stride = self.number("pgstat_track_activity_query_size").unwrap_or(0);
        let entry = self.variable("MyBEEntry");
        let layout = self
            .layouts
            .get("PgBackendStatus")
            .filter(|_| self.layouts.exact);
        let text = layout
            .and_then(|layout| layout.offset("st_activity_raw"))
            .zip(entry)
            .and_then(|(at, entry)| self.memory.u64(entry + at));
        match text {
            Some(text) if text >= start && stride > 0 && size.is_multiple_of(stride) => {
                Shape::Row {
                    stride,
                    layout: None,
                    what: "session",
                    own: Some((text - start) / stride),
                }
            }
            _ => Shape::Whole,
        }
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

    /// Which of the PGPROC structures is the session's.
    fn own_process(&self) -> Option<u64> {
        let layout = self.layouts.get("PGPROC")?;
        let first = self.memory.u64(self.variable("ProcGlobal")?)?;
        let own = self.variable("MyProc")?.checked_sub(first)?;
        let pid = layout.offset("pid")? + self.variable("MyProc")?;
        let right = own % layout.size == 0 && self.memory.u32(pid)? == self.session.pid;
        right.then(|| own / layout.size)
    }

    /// PGPROC, and the arrays beside it.
    fn processes(&mut self) {
        let (Some(global), Some(hdr)) = (self.variable("ProcGlobal"), self.layouts.get("PROC_HDR"))
        else {
            self.doubts
                .push("the server exports no ProcGlobal".to_owned());
            return;
        };
        let at = |name: &str| self.memory.u64(global + hdr.offset(name)?);
        let count = hdr
            .offset("allProcCount")
            .and_then(|at| self.memory.u32(global + at))
            .map_or(0, u64::from);
        let (Some(first), Some(own), Some(layout)) = (
            at("allProcs"),
            self.own_process(),
            self.layouts.get("PGPROC"),
        ) else {
            self.doubts
                .push("processes' structures do not look as expected".to_owned());
            return;
        };
        let row = |stride, layout, own| Shape::Row {
            stride,
            layout,
            what: "session",
            own,
        };
        // In the order of the sessions' numbers where each keeps one; dense from 14 on.
        let place = layout
            .offset("pgxactoff")
            .and_then(|at| self.memory.u32(first + own * layout.size + at))
            .map(u64::from);
        let mut found = vec![(
            first,
            count * layout.size,
            "PGPROC",
            row(layout.size, Some(Rc::clone(&layout)), Some(own)),
        )];
        for (member, name, stride) in [
            ("xids", "ProcGlobal->xids", 4),
            ("subxidStates", "ProcGlobal->subxidStates", 2),
            ("statusFlags", "ProcGlobal->statusFlags", 1),
        ] {
            if let Some(start) = at(member) {
                found.push((start, count * stride, name, row(stride, None, place)));
            }
        }
        if let (Some(start), Some(transactions)) = (at("allPgXact"), self.layouts.get("PGXACT")) {
            let size = transactions.size;
            found.push((
                start,
                count * size,
                "PGXACT",
                row(size, Some(transactions), Some(own)),
            ));
        }
        // From 18 on, a session's fast-path locks lie in arrays of their own, the bits first.
        let next = (own + 1) % count.max(1);
        let apart = |m: &&super::layout::Member| m.name == "fpLockBits" && m.size == 8;
        let bits = layout.members.iter().find(apart).filter(|_| {
            let relations = layout.members.iter().find(|m| m.name == "fpRelId");
            relations.is_some_and(|member| member.size == 8)
        });
        if let Some(bits) = bits {
            let of = |number: u64| self.memory.u64(first + number * layout.size + bits.offset);
            if let Some((mine, other)) = of(own).zip(of(next)) {
                let stride = mine.abs_diff(other) / own.abs_diff(next).max(1);
                let base = mine.checked_sub(own * stride);
                if let Some(base) = base.filter(|_| stride > 0 && stride < 1 << 20) {
                    let name = "fast-path locks";
                    found.push((base, count * stride, name, row(stride, None, Some(own))));
                }
            }
        }
        let numbers = self.own_number();
        for (start, length, name, shape) in found {
            self.add(start, length, name, shape);
        }
        self.signals(numbers);
    }

    /// A session's slot for signals begins behind the header's barrier count.
    fn signals(&mut self, own: Option<u64>) {
        let Some(layout) = self.sure("ProcSignalSlot") else {
            return;
        };
        let slots = self
            .allocations
            .iter_mut()
            .find(|a| a.structure == "ProcSignal");
        if let Some(slots) = slots {
            let (start, end) = (slots.start, slots.end);
            slots.shape = Shape::Whole;
            self.regions.push(Region {
                start: start + 8,
                end,
                structure: "ProcSignal".to_owned(),
                shape: Shape::Row {
                    stride: layout.size,
                    layout: Some(layout),
                    what: "session",
                    own,
                },
            });
        }
    }

    /// The main array of lightweight locks.
    fn locks(&mut self) {
        let Some(first) = self.variable("MainLWLockArray") else {
            self.doubts
                .push("the server exports no MainLWLockArray".to_owned());
            return;
        };
        let mut names = Vec::new();
        let mut numbers: BTreeMap<u16, u32> = BTreeMap::new();
        let fixed: u64 = self.layouts.fixed.iter().sum();
        for number in 0..MOST_LOCKS {
            let Some(tranche) = self.memory.u16(first + number * LOCK) else {
                break;
            };
            // Behind the server's own come those of extensions, then other memory.
            let known = self.layouts.tranche(u32::from(tranche)).map(str::to_owned);
            let single = u64::from(tranche) < self.layouts.fixed[0];
            let exact = self.layouts.exact;
            if number >= fixed && (known.is_some() || tranche == 0 || tranche > 4096) {
                break;
            }
            let count = numbers.entry(tranche).or_default();
            let name = match known.filter(|_| exact || number >= self.layouts.fixed[0]) {
                Some(name) if single => name,
                Some(name) => format!("{name} {count}"),
                None => format!("tranche {tranche} {count}"),
            };
            *count += 1;
            names.push(name);
        }
        let length = names.len() as u64 * LOCK;
        self.add(first, length, "LWLock", Shape::Locks(names));
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
