//! One client: its connection, its place in its script, its variables.

use std::io;

use super::failure::Failure;
use super::replay::Place;
use super::roles::Role;
use super::wire::{TxStatus, Wire};
use crate::options::Options;
use crate::script::{Draw, Drawn, Program, Random, Slot, Value, Var};
use pgassay_pgwire::{Connector, RawConnection, Transport};

/// What a client does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It chooses its next transaction as soon as it is driven.
    Next,
    /// It waits for its transaction's intended start.
    Scheduled,
    /// It begins its transaction when it is driven.
    Begin,
    /// It runs the next command when it is driven.
    Command,
    /// It sleeps by a script's wish.
    Sleeping,
    /// It waits before a statement, as it did when it was recorded.
    Pausing,
    /// Its next transaction begins after the window: it waits for the end.
    Resting,
    /// It waits for the server.
    Waiting(Wait),
    /// It has no more to do in this slice.
    Parked,
    /// It has no connection any more.
    Gone,
}

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// The end of a statement.
    Statement,
    /// The end of a statement's preparation.
    Prepare {
        /// the statement's command
        at: usize,
    },
    /// The end of a pipeline.
    Pipeline,
    /// The end of the transaction block of a transaction that failed.
    Rollback {
        /// whether the transaction is tried again
        retry: bool,
    },
    /// The answers that an earlier slice did not wait for.
    Leftovers,
}

/// A client. The parts that only some scripts need are boxed or empty: there may be ten thousand.
pub(super) struct Client {
    pub id: u32,
    pub transport: Option<Transport>,
    pub wire: Wire,
    /// Bytes that the socket did not take yet.
    pub unsent: Vec<u8>,
    /// Bytes that came when the last slice was over.
    pub arrived: Vec<u8>,
    /// Whether the kernel is to tell of room to send.
    pub watches_room: bool,
    pub phase: Phase,
    pub status: TxStatus,
    pub vars: Vec<Var>,
    pub random: Random,
    /// The random stream at the transaction's first try.
    pub random_at_begin: Random,
    /// By which it chooses its scripts, where it does so by itself.
    pub choose: Option<Random>,
    pub script: usize,
    /// What it runs, and with how many others.
    pub role: Role,
    /// Transactions begun in this slice, by script; empty where no script counts them.
    pub begun: Vec<u64>,
    /// The script after which a person thinks, where they do.
    pub thinks_about: Option<usize>,
    /// Where it is in what is replayed.
    pub place: Place,
    pub command: usize,
    pub in_pipeline: bool,
    pub pipeline_failure: Option<Box<Failure>>,
    pub tries: u32,
    pub intended: u64,
    pub started: u64,
    pub command_started: u64,
    /// When a sleep or a wait for a start ends.
    pub wake_at: u64,
    /// Transactions ended in this slice.
    pub done: u64,
    /// Whether no transaction has ended on this connection yet.
    pub fresh: bool,
    /// Which statements have been prepared on this connection.
    pub prepared: Vec<Prepared>,
}

/// Whether a statement stands ready in the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Prepared {
    /// It was never sent.
    #[default]
    No,
    /// It was sent, and nothing has failed since.
    Yes,
    /// Something failed in the exchange that prepared it.
    Unknown,
    /// The server refused it. It is executed once all the same.
    Failed,
}

impl Client {
    /// A client with a fresh connection.
    pub fn new(id: u32, connection: RawConnection) -> io::Result<Self> {
        let mut client = Client::without_connection(id);
        client.attach(connection)?;
        Ok(client)
    }

    /// Takes a row's values into its variables.
    pub fn draw(&mut self, draw: &Draw, into_text: bool) {
        let row = match draw.in_order {
            true => self.turn(draw.rows()),
            false => self.random.uniform(0, draw.rows() as i64 - 1) as usize,
        };
        self.set(&draw.slots, draw.row(row), into_text);
    }

    /// The row of this transaction, where clients take turns: the n-th of so many clients takes every so-manieth.
    fn turn(&self, rows: usize) -> usize {
        let begun = self.begun.get(self.script).copied().unwrap_or(0);
        let earlier = u128::from(begun.saturating_sub(1)) * u128::from(self.role.among);
        let row = (u128::from(self.role.number) + earlier) % rows.max(1) as u128;
        row as usize
    }

    /// Sets variables: as values stand in a statement's text, or as parameters are sent, where one that is
    /// not set is NULL.
    pub fn set(&mut self, slots: &[Slot], values: &[Drawn], into_text: bool) {
        for (slot, value) in slots.iter().zip(values) {
            self.vars[*slot as usize] = match (into_text, &value.text) {
                (true, _) => Var::Text(value.literal.clone()),
                (false, Some(text)) => Var::Text(text.clone()),
                (false, None) => Var::Unset,
            };
        }
    }

    /// A client that will connect for each transaction.
    pub fn without_connection(id: u32) -> Self {
        Client {
            id,
            transport: None,
            wire: Wire::default(),
            unsent: Vec::new(),
            arrived: Vec::new(),
            watches_room: false,
            phase: Phase::Parked,
            status: TxStatus::Idle,
            vars: Vec::new(),
            random: Random::new(0),
            random_at_begin: Random::new(0),
            choose: None,
            script: 0,
            role: Role::default(),
            begun: Vec::new(),
            thinks_about: None,
            place: Place::default(),
            command: 0,
            in_pipeline: false,
            pipeline_failure: None,
            tries: 0,
            intended: 0,
            started: 0,
            command_started: 0,
            wake_at: 0,
            done: 0,
            fresh: true,
            prepared: Vec::new(),
        }
    }

    /// Takes a new connection.
    pub fn attach(&mut self, connection: RawConnection) -> io::Result<()> {
        let hears_notices = self.wire.hears_notices();
        self.wire = Wire::default();
        self.wire.hear_notices(hears_notices);
        // What came with the greeting can only be asynchronous.
        self.wire
            .feed(&connection.unread)
            .map_err(io::Error::other)?;
        self.transport = Some(connection.transport);
        self.unsent = Vec::new();
        self.arrived = Vec::new();
        self.watches_room = false;
        self.status = TxStatus::Idle;
        self.in_pipeline = false;
        self.pipeline_failure = None;
        self.fresh = true;
        self.prepared.clear();
        Ok(())
    }

    /// Whether a statement is prepared, by its place among the statements.
    pub fn prepared_at(&mut self, place: usize) -> &mut Prepared {
        if self.prepared.len() <= place {
            self.prepared.resize(place + 1, Prepared::No);
        }
        &mut self.prepared[place]
    }

    /// Says good-bye and closes the connection.
    pub fn detach(&mut self) {
        if let Some(mut transport) = self.transport.take()
            && self.unsent.is_empty()
        {
            // Best effort: the server also notices the closed socket.
            let _ = transport.write(b"X\0\0\0\x04");
        }
    }

    /// Whether the client can go on in a later slice.
    pub fn is_usable(&self, reconnecting: bool) -> bool {
        self.phase != Phase::Gone && (reconnecting || self.transport.is_some())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.detach();
    }
}

/// Connects, and takes the connection out of its session.
pub(super) fn connect(connector: &Connector) -> Result<RawConnection, String> {
    let session = connector
        .connect()
        .map_err(|error| error.in_libpqs_words())?;
    session.into_transport().map_err(|error| error.to_string())
}

/// A client's variables at the start of a slice.
pub(super) fn initial_vars(
    program: &Program,
    options: &Options,
    client: u32,
    default_seed: i64,
    random_seed: i64,
) -> Vec<Var> {
    let symbols = program.symbols();
    let mut vars = vec![Var::Unset; symbols.names().len()];
    let mut set = |name: &str, var: Var| {
        if let Some(slot) = symbols.find(name) {
            vars[slot as usize] = var;
        }
    };
    set("client_id", Var::Value(Value::Int(i64::from(client))));
    set("default_seed", Var::Value(Value::Int(default_seed)));
    set("random_seed", Var::Value(Value::Int(random_seed)));
    for (name, value) in &options.variables {
        set(name, Var::Value(*value));
    }
    for (name, text) in &options.texts {
        set(name, Var::Text(text.as_str().into()));
    }
    vars
}
