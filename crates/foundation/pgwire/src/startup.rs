//! The start of a session: who we are, how we prove it, what the server says
//! of itself. The cryptography is `postgres_protocol`'s.

use super::channel::Channel;
use super::conninfo::{AuthMethod, ChannelBinding, Conninfo};
use super::error::{ConnectError, ServerError};
use super::greeting::{Greeting, NOTICE_LIMIT, keep_parameter};
use super::secret::Secret;
use super::start_error::broken;
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::backend::{AuthenticationSaslBody, Message};
use postgres_protocol::message::frontend;
use std::time::Instant;

/// More messages than this before the session is ready are no start-up.
const MESSAGE_LIMIT: usize = 10_000;

/// One start-up on a connected channel.
pub(super) struct Startup<'a> {
    pub channel: &'a mut Channel,
    pub conninfo: &'a Conninfo,
    pub server: &'a str,
    pub password: Option<&'a Secret>,
    /// The hash of the server's certificate where TLS is on.
    pub binding: Option<Vec<u8>>,
    pub deadline: Option<Instant>,
}

/// How far the proof of who we are has come.
enum Proof {
    /// Nothing was asked.
    NotAsked,
    /// A password, clear or hashed, was sent.
    PasswordSent,
    /// SCRAM is under way; true if bound to the channel.
    Scram(sasl::ScramSha256, bool),
    /// The server has shown that it knows the password too.
    ScramDone { bound: bool },
}

impl Startup<'_> {
    /// Goes through it all until the server is ready for a query.
    pub fn run(mut self) -> Result<Greeting, ConnectError> {
        let conninfo = self.conninfo;
        let mut parameters = vec![
            ("user", conninfo.user.as_str()),
            ("database", &conninfo.dbname),
            ("client_encoding", &conninfo.client_encoding),
            ("application_name", &conninfo.application_name),
        ];
        parameters.extend(
            conninfo
                .options
                .as_deref()
                .map(|options| ("options", options)),
        );
        let settings = conninfo.session_settings.iter();
        parameters.extend(settings.map(|(name, value)| (*name, value.as_str())));
        let mut out = BytesMut::new();
        frontend::startup_message(parameters, &mut out).map_err(|error| self.garbled(error))?;
        self.send(&out)?;

        let mut greeting = Greeting::default();
        let mut proof = Proof::NotAsked;
        let mut admitted = false;
        for _ in 0..MESSAGE_LIMIT {
            match self.next()? {
                Message::AuthenticationOk if !admitted => {
                    self.check_admission(&proof)?;
                    admitted = true;
                }
                Message::ReadyForQuery(_) if admitted => return Ok(greeting),
                Message::ParameterStatus(body) if admitted => {
                    let name = body.name().map_err(|error| self.garbled(error))?;
                    let value = body.value().map_err(|error| self.garbled(error))?;
                    keep_parameter(&mut greeting.parameters, name, value);
                }
                Message::BackendKeyData(body) if admitted => {
                    greeting.process_id = body.process_id();
                    greeting.secret_key = body.secret_key();
                }
                Message::NoticeResponse(body) => {
                    let notice = ServerError::read(body.fields());
                    let notice = notice.map_err(|error| self.garbled(error))?;
                    if greeting.notices.len() < NOTICE_LIMIT {
                        greeting.notices.push(notice);
                    }
                }
                message if !admitted => proof = self.prove(message, proof)?,
                _ => return Err(self.garbled("an unexpected message during start-up")),
            }
        }
        Err(self.garbled("an endless start-up"))
    }

    /// Answers one request for a proof.
    fn prove(&mut self, message: Message, proof: Proof) -> Result<Proof, ConnectError> {
        let mut out = BytesMut::new();
        let next = match (message, proof) {
            (Message::AuthenticationCleartextPassword, Proof::NotAsked) => {
                self.check_unbound(AuthMethod::Password)?;
                let password = self.password()?.reveal();
                frontend::password_message(password, &mut out).map_err(|e| self.garbled(e))?;
                Proof::PasswordSent
            }
            (Message::AuthenticationMd5Password(body), Proof::NotAsked) => {
                self.check_unbound(AuthMethod::Md5)?;
                let password = self.password()?.reveal();
                let hash = md5_hash(self.conninfo.user.as_bytes(), password, body.salt());
                frontend::password_message(hash.as_bytes(), &mut out)
                    .map_err(|e| self.garbled(e))?;
                Proof::PasswordSent
            }
            (Message::AuthenticationSasl(body), Proof::NotAsked) => {
                self.begin_scram(&body, &mut out)?
            }
            (Message::AuthenticationSaslContinue(body), Proof::Scram(mut scram, bound)) => {
                scram.update(body.data()).map_err(|error| {
                    self.denied(if error.to_string().contains("iteration count") {
                        "its SCRAM iteration count is above 100,000, which pgassay refuses; lower \
                         scram_iterations and set the password again"
                            .to_owned()
                    } else {
                        format!("its SCRAM message is invalid: {error}")
                    })
                })?;
                frontend::sasl_response(scram.message(), &mut out).map_err(|e| self.garbled(e))?;
                Proof::Scram(scram, bound)
            }
            (Message::AuthenticationSaslFinal(body), Proof::Scram(mut scram, bound)) => {
                scram.finish(body.data()).map_err(|error| {
                    self.denied(format!(
                        "it does not know the password itself ({error}); this may be another \
                         server than the one meant"
                    ))
                })?;
                return Ok(Proof::ScramDone { bound });
            }
            (
                Message::AuthenticationGss
                | Message::AuthenticationSspi
                | Message::AuthenticationKerberosV5
                | Message::AuthenticationScmCredential,
                _,
            ) => {
                return Err(self.denied(
                    "it asks for Kerberos (GSSAPI, SSPI), which pgassay does not speak; let \
                     pg_hba.conf offer scram-sha-256 or a client certificate"
                        .to_owned(),
                ));
            }
            _ => return Err(self.garbled("an unexpected message during authentication")),
        };
        self.send(&out)?;
        Ok(next)
    }

    fn begin_scram(
        &mut self,
        body: &AuthenticationSaslBody,
        out: &mut BytesMut,
    ) -> Result<Proof, ConnectError> {
        let (mut plain, mut plus) = (false, false);
        let mut mechanisms = body.mechanisms();
        while let Some(mechanism) = mechanisms.next().map_err(|error| self.garbled(error))? {
            plain |= mechanism == sasl::SCRAM_SHA_256;
            plus |= mechanism == sasl::SCRAM_SHA_256_PLUS;
        }
        self.check_method(AuthMethod::Scram)?;
        let wanted = self.conninfo.channel_binding;
        let binding = self
            .binding
            .take()
            .filter(|_| wanted != ChannelBinding::Disable);
        let (binding, mechanism, bound) = match binding {
            Some(hash) if plus => (
                sasl::ChannelBinding::tls_server_end_point(hash),
                sasl::SCRAM_SHA_256_PLUS,
                true,
            ),
            // Saying that we could have bound lets the server notice that
            // somebody between us removed its offer.
            Some(_) if plain => (
                sasl::ChannelBinding::unrequested(),
                sasl::SCRAM_SHA_256,
                false,
            ),
            None if plain => (
                sasl::ChannelBinding::unsupported(),
                sasl::SCRAM_SHA_256,
                false,
            ),
            _ => {
                return Err(self.denied(
                    "it offers no SASL mechanism that can be used here; pgassay speaks \
                     SCRAM-SHA-256 and, over TLS, SCRAM-SHA-256-PLUS"
                        .to_owned(),
                ));
            }
        };
        if !bound {
            self.check_unbound(AuthMethod::Scram)?;
        }
        let scram = sasl::ScramSha256::new(self.password()?.reveal(), binding);
        frontend::sasl_initial_response(mechanism, scram.message(), out)
            .map_err(|error| self.garbled(error))?;
        Ok(Proof::Scram(scram, bound))
    }

    /// The server lets us in: was that enough of a proof on both sides?
    fn check_admission(&self, proof: &Proof) -> Result<(), ConnectError> {
        match proof {
            Proof::ScramDone { bound: true } | Proof::PasswordSent => Ok(()),
            Proof::ScramDone { bound: false } => self.check_unbound(AuthMethod::Scram),
            Proof::NotAsked => self.check_unbound(AuthMethod::None),
            Proof::Scram(..) => Err(self.denied(
                "it ended SCRAM authentication without proving that it knows the password"
                    .to_owned(),
            )),
        }
    }

    fn check_method(&self, method: AuthMethod) -> Result<(), ConnectError> {
        match &self.conninfo.require_auth {
            Some(required) if !required.permits(method) => {
                let how = match method {
                    AuthMethod::Password => "a clear text password",
                    AuthMethod::Md5 => "an MD5 hashed password",
                    AuthMethod::Scram => "SCRAM authentication",
                    AuthMethod::None => "no authentication at all",
                    AuthMethod::Other => "another method",
                };
                Err(self.denied(format!(
                    "it asks for {how}, which require_auth={} does not permit",
                    required.text
                )))
            }
            _ => Ok(()),
        }
    }

    /// A method without channel binding: permitted?
    fn check_unbound(&self, method: AuthMethod) -> Result<(), ConnectError> {
        self.check_method(method)?;
        if self.conninfo.channel_binding == ChannelBinding::Require {
            return Err(self.denied(
                "channel_binding=require, but it does not bind the authentication to the TLS \
                 channel; that needs TLS and scram-sha-256 in pg_hba.conf"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    fn password(&self) -> Result<&Secret, ConnectError> {
        self.password.ok_or_else(|| {
            self.denied(
                "it asks for a password and none is given; set PGPASSWORD, add a line to \
                 ~/.pgpass (chmod 600) or give password=…"
                    .to_owned(),
            )
        })
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        let Err(error) = self.channel.send(bytes, self.deadline) else {
            return Ok(());
        };
        // A server that is full says so and closes without reading.
        let _ = self.channel.take_in();
        if let Ok(Some(Message::ErrorResponse(body))) = self.channel.buffered_message()
            && let Ok(error) = ServerError::read(body.fields())
        {
            return Err(ConnectError::from_server(self.server, error));
        }
        Err(broken(
            error,
            self.server,
            self.conninfo,
            "sending the start-up",
        ))
    }

    /// The next message; an error that the server sent is an `Err`.
    fn next(&mut self) -> Result<Message, ConnectError> {
        match self.channel.message(self.deadline) {
            Ok(Message::ErrorResponse(body)) => match ServerError::read(body.fields()) {
                Ok(error) => Err(ConnectError::from_server(self.server, error)),
                Err(error) => Err(self.garbled(error)),
            },
            Ok(message) => Ok(message),
            Err(error) => Err(broken(error, self.server, self.conninfo, "authenticating")),
        }
    }

    fn denied(&self, why: String) -> ConnectError {
        ConnectError::Auth {
            server: self.server.to_owned(),
            why,
            error: None,
        }
    }

    fn garbled(&self, why: impl ToString) -> ConnectError {
        ConnectError::Protocol {
            server: self.server.to_owned(),
            why: why.to_string(),
        }
    }
}
