//! A PPP session as its concentrator sees it (RFC 1661, section 3): LCP, authentication, network
//! protocols, keep-alive, and the end.
//!
//! Time and packets come from outside; packets to send go to an [`Outbox`](super::control::Outbox).

#[cfg(test)]
mod tests;

use super::automaton::{Event, State};
use super::control::{Control, code, protocol};
use super::layer::{Change, Env, Layer, NEVER, Negotiate};
use super::lcp::{Lcp, Method, Methods};
use super::network::{Ipcp, Ipv6cp};
use crate::prelude::*;

/// Most bytes of a user's name, and of a password.
pub const NAME_MAX: usize = 128;
/// A user's name, or a password.
pub type Name = heapless::Vec<u8, NAME_MAX>;
/// Length of a challenge of CHAP, and of the answer by MD5.
pub const CHALLENGE: usize = 16;
/// Time after which a challenge is sent again.
const RESEND: u64 = 3_000_000_000;
/// Time between the confirmation of a session and its first packet, unless the peer sends one.
const PAUSE: u64 = 100_000_000;
/// Most bytes of a packet of an unknown protocol that its rejection quotes.
const QUOTED_MAX: usize = 1200;

/// Codes of CHAP (RFC 1994, section 4).
mod chap {
    pub const CHALLENGE: u8 = 1;
    pub const RESPONSE: u8 = 2;
    pub const SUCCESS: u8 = 3;
    pub const FAILURE: u8 = 4;
}

/// Codes of PAP (RFC 1334, section 2).
mod pap {
    pub const REQUEST: u8 = 1;
    pub const ACK: u8 = 2;
    pub const NAK: u8 = 3;
}

/// What all sessions of a concentrator have in common. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Settings {
    pub mru: u16,
    pub methods: Methods,
    /// The concentrator's name in challenges.
    pub name: String,
    /// The concentrator's address in IPCP.
    pub address: Ipv4Addr,
    pub dns: [Ipv4Addr; 2],
    /// Whether IPv6 is negotiated.
    pub ip6: bool,
    /// Time between two echo requests.
    pub echo: u64,
    /// Echo requests without an answer, after which a session ends.
    pub failures: u8,
    /// Time that it may take until packets flow.
    pub setup: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            mru: 0,
            methods: Methods::default(),
            name: String::new(),
            address: Ipv4Addr::UNSPECIFIED,
            dns: [Ipv4Addr::UNSPECIFIED; 2],
            ip6: false,
            echo: 0,
            failures: 0,
            setup: 0,
        }
    }
}

/// What a peer proves itself with.
#[derive(Clone, PartialEq, Eq)]
pub enum Proof {
    Password(Name),
    Chap {
        id: u8,
        challenge: [u8; CHALLENGE],
        response: [u8; CHALLENGE],
    },
}

/// What a peer gets once it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub address: Ipv4Addr,
    /// The interface identifier for IPv6.
    pub interface_id: Option<[u8; 8]>,
}

/// Why a session ended, by its number in accounting (RFC 2866, section 5.10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    #[default]
    UserRequest = 1,
    LostCarrier = 2,
    IdleTimeout = 4,
    SessionTimeout = 5,
    AdminReset = 6,
    PortPreempted = 13,
    UserError = 17,
}

/// What the concentrator is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// The peer gave its name and proof: decide.
    Credentials,
    /// Packets may flow.
    Up,
    /// Packets flow no more.
    Down,
    /// The session is over.
    Ended,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// No packet was sent or received.
    #[default]
    Dead,
    Establish,
    Authenticate,
    Network,
    Terminate,
}

/// How far authentication is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Progress {
    #[default]
    Asking,
    Deciding,
    Passed,
}

/// Authentication.
struct Authentication {
    progress: Progress,
    id: u8,
    challenge: [u8; CHALLENGE],
    resend: u64,
    user: Name,
    proof: Proof,
}

/// A session.
pub struct Ppp {
    phase: Phase,
    pub lcp: Layer<Lcp>,
    pub ipcp: Layer<Ipcp>,
    pub ipv6cp: Layer<Ipv6cp>,
    authentication: Authentication,
    /// When it is over unless packets flow; the time of the first packet in the phase `Dead`.
    setup: u64,
    /// When the next echo request is due.
    echo: u64,
    /// Echo requests without an answer.
    unanswered: u8,
    /// Why it ends.
    pub cause: Cause,
}

impl Ppp {
    pub fn new(settings: &Settings, env: &mut Env<'_>) -> Ppp {
        let none = Ipv4Addr::UNSPECIFIED;
        Ppp {
            phase: Phase::Dead,
            lcp: Layer::new(Lcp::new(settings.mru, settings.methods, env)),
            ipcp: Layer::new(Ipcp::new(none, none, [none; 2])),
            ipv6cp: Layer::new(Ipv6cp::new(None, env)),
            authentication: Authentication {
                progress: Progress::Asking,
                id: 0,
                challenge: [0; CHALLENGE],
                resend: NEVER,
                user: Name::new(),
                proof: Proof::Password(Name::new()),
            },
            setup: env.now + PAUSE,
            echo: NEVER,
            unanswered: 0,
            cause: Cause::UserRequest,
        }
    }

    /// Whether no packet was sent or received yet.
    pub fn is_new(&self) -> bool {
        self.phase == Phase::Dead
    }

    /// Whether the peer is known.
    pub fn is_authentic(&self) -> bool {
        self.authentication.progress == Progress::Passed
    }

    /// Whether packets of IPv4 may flow.
    pub fn is_up(&self) -> bool {
        self.phase == Phase::Network && self.ipcp.is_opened()
    }

    /// Whether packets of IPv6 may flow.
    pub fn is_up6(&self) -> bool {
        self.is_up() && self.ipv6cp.is_opened()
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn user(&self) -> &[u8] {
        &self.authentication.user
    }

    pub fn proof(&self) -> &Proof {
        &self.authentication.proof
    }

    /// When [`tick`](Self::tick) has something to do.
    pub fn deadline(&self) -> u64 {
        let layers = [
            self.lcp.deadline(),
            self.ipcp.deadline(),
            self.ipv6cp.deadline(),
        ];
        let layers = layers.into_iter().min().unwrap_or(NEVER);
        layers
            .min(self.authentication.resend)
            .min(self.setup)
            .min(self.echo)
    }

    fn begin(&mut self, settings: &Settings, env: &mut Env<'_>) {
        self.phase = Phase::Establish;
        self.setup = env.now + settings.setup;
        self.lcp.event(Event::Open, env);
        self.lcp.event(Event::Up, env);
    }

    /// Sends again, asks for an echo, or ends the session, when it is time. If it returns a note, more
    /// may have to be done.
    pub fn tick(&mut self, settings: &Settings, env: &mut Env<'_>) -> Option<Note> {
        let now = env.now;
        if self.phase == Phase::Dead && now >= self.setup {
            self.begin(settings, env);
        }
        if now >= self.setup {
            return self.close(Cause::UserError, env);
        }
        let change = self.lcp.tick(env);
        let mut note = self.lcp_changed(change, settings, env);
        if now >= self.authentication.resend {
            self.challenge(settings, env);
        }
        if note.is_none() {
            let change = self.ipcp.tick(env);
            note = self.ipcp_changed(change, settings, env);
        }
        self.ipv6cp.tick(env);
        if note.is_none() && now >= self.echo {
            note = self.send_echo(settings, env);
        }
        note
    }

    fn send_echo(&mut self, settings: &Settings, env: &mut Env<'_>) -> Option<Note> {
        if self.unanswered >= settings.failures {
            self.echo = NEVER;
            return self.close(Cause::LostCarrier, env);
        }
        self.unanswered += 1;
        self.echo = env.now + settings.echo;
        let packet = Control {
            code: code::ECHO_REQUEST,
            id: self.lcp.next_id(),
            data: &self.lcp.options.magic.to_be_bytes(),
        };
        env.out.send(protocol::LCP, packet);
        None
    }

    /// Ends the session: the peer is told, and the session is over when it answers, or does not.
    pub fn close(&mut self, cause: Cause, env: &mut Env<'_>) -> Option<Note> {
        self.setup = NEVER;
        self.cause = cause;
        if self.phase == Phase::Dead {
            return Some(Note::Ended);
        }
        let was_up = self.leave_network(env);
        self.phase = Phase::Terminate;
        match self.lcp.event(Event::Close, env) {
            Some(Change::Finished) => Some(Note::Ended),
            _ if matches!(self.lcp.state(), State::Closed | State::Stopped) => Some(Note::Ended),
            _ => was_up.then_some(Note::Down),
        }
    }

    /// Takes the layers above LCP down; whether packets flowed.
    fn leave_network(&mut self, env: &mut Env<'_>) -> bool {
        let was_up = self.is_up();
        self.ipcp.event(Event::Down, env);
        self.ipv6cp.event(Event::Down, env);
        self.authentication.progress = Progress::Asking;
        self.authentication.resend = NEVER;
        self.echo = NEVER;
        was_up
    }

    /// Takes a packet of the peer.
    pub fn receive(
        &mut self,
        number: u16,
        bytes: &[u8],
        settings: &Settings,
        env: &mut Env<'_>,
    ) -> Option<Note> {
        if self.phase == Phase::Dead {
            self.begin(settings, env);
        }
        let is_open = matches!(self.phase, Phase::Authenticate | Phase::Network);
        if number == protocol::LCP {
            return self.receive_lcp(Control::parse(bytes)?, settings, env);
        }
        if !is_open {
            return None;
        }
        match number {
            protocol::PAP if self.lcp.options.method == Method::Pap => {
                self.receive_pap(Control::parse(bytes)?, env)
            }
            protocol::CHAP if self.lcp.options.method == Method::Chap => {
                self.receive_chap(Control::parse(bytes)?, env)
            }
            protocol::IPCP => {
                if self.phase != Phase::Network {
                    return None;
                }
                let change = self.ipcp.receive(Control::parse(bytes)?, env);
                self.ipcp_changed(change, settings, env)
            }
            protocol::IPV6CP if settings.ip6 => {
                if self.phase == Phase::Network {
                    self.ipv6cp.receive(Control::parse(bytes)?, env);
                }
                None
            }
            // They come before the session is up, or after.
            protocol::IPV4 => None,
            protocol::IPV6 if settings.ip6 => None,
            _ => {
                let [a, b] = number.to_be_bytes();
                let mut quoted = vec![a, b];
                quoted.extend(bytes.iter().take(QUOTED_MAX));
                let packet = Control {
                    code: code::PROTOCOL_REJECT,
                    id: self.lcp.next_id(),
                    data: &quoted,
                };
                env.out.send(protocol::LCP, packet);
                None
            }
        }
    }

    fn receive_lcp(
        &mut self,
        packet: Control<'_>,
        settings: &Settings,
        env: &mut Env<'_>,
    ) -> Option<Note> {
        let is_opened = self.lcp.is_opened();
        let magic = self.lcp.options.magic;
        // Its own number shows a side that it hears itself.
        let is_own = |number: &[u8; 4]| magic != 0 && u32::from_be_bytes(*number) == magic;
        match packet.code {
            code::PROTOCOL_REJECT if is_opened => {
                let number = u16::from_be_bytes(*packet.data.first_chunk()?);
                self.protocol_rejected(number, settings, env)
            }
            code::ECHO_REQUEST if is_opened => {
                let (number, rest) = packet.data.split_first_chunk::<4>()?;
                if is_own(number) {
                    return None;
                }
                let data = [&magic.to_be_bytes()[..], rest].concat();
                let answer = Control {
                    code: code::ECHO_REPLY,
                    id: packet.id,
                    data: &data,
                };
                env.out.send(protocol::LCP, answer);
                None
            }
            code::ECHO_REPLY if is_opened => {
                if !is_own(packet.data.first_chunk()?) {
                    self.unanswered = 0;
                }
                None
            }
            code::PROTOCOL_REJECT..=code::DISCARD_REQUEST => None,
            _ => {
                let change = self.lcp.receive(packet, env);
                self.lcp_changed(change, settings, env)
            }
        }
    }

    fn protocol_rejected(
        &mut self,
        number: u16,
        settings: &Settings,
        env: &mut Env<'_>,
    ) -> Option<Note> {
        match number {
            protocol::IPV6CP | protocol::IPV6 => {
                self.ipv6cp.event(Event::Refused, env);
                None
            }
            protocol::LCP => {
                let change = self.lcp.event(Event::Refused, env);
                self.lcp_changed(change, settings, env)
            }
            protocol::IPCP | protocol::IPV4 | protocol::PAP | protocol::CHAP => {
                self.close(Cause::UserError, env)
            }
            _ => None,
        }
    }

    fn lcp_changed(
        &mut self,
        change: Option<Change>,
        settings: &Settings,
        env: &mut Env<'_>,
    ) -> Option<Note> {
        match change? {
            Change::Up => {
                self.phase = Phase::Authenticate;
                self.authentication.progress = Progress::Asking;
                if self.lcp.options.method == Method::Chap {
                    self.authentication.id = self.authentication.id.wrapping_add(1);
                    self.authentication.challenge = env.bytes();
                    self.challenge(settings, env);
                }
                None
            }
            Change::Down => {
                let was_up = self.leave_network(env);
                let is_ending = matches!(self.lcp.state(), State::Closing | State::Stopping);
                if is_ending {
                    self.phase = Phase::Terminate;
                    self.setup = NEVER;
                } else {
                    self.phase = Phase::Establish;
                    self.setup = env.now + settings.setup;
                }
                was_up.then_some(Note::Down)
            }
            Change::Finished => {
                self.leave_network(env);
                self.phase = Phase::Terminate;
                Some(Note::Ended)
            }
        }
    }

    fn ipcp_changed(
        &mut self,
        change: Option<Change>,
        settings: &Settings,
        env: &mut Env<'_>,
    ) -> Option<Note> {
        match change? {
            Change::Up => {
                self.setup = NEVER;
                self.unanswered = 0;
                self.echo = env.now + settings.echo;
                Some(Note::Up)
            }
            Change::Down => {
                self.setup = env.now + settings.setup;
                self.echo = NEVER;
                Some(Note::Down)
            }
            Change::Finished => self.close(Cause::UserError, env),
        }
    }

    fn challenge(&mut self, settings: &Settings, env: &mut Env<'_>) {
        let own = &mut self.authentication;
        own.resend = env.now + RESEND;
        let challenge = &own.challenge;
        let data = [&[CHALLENGE as u8][..], challenge, settings.name.as_bytes()].concat();
        let packet = Control {
            code: chap::CHALLENGE,
            id: own.id,
            data: &data,
        };
        env.out.send(protocol::CHAP, packet);
    }

    fn receive_chap(&mut self, packet: Control<'_>, env: &mut Env<'_>) -> Option<Note> {
        let own = &self.authentication;
        if packet.code != chap::RESPONSE || packet.id != own.id {
            return None;
        }
        let (length, rest) = packet.data.split_first()?;
        let (response, name) = rest.split_first_chunk::<CHALLENGE>()?;
        let user = Name::from_slice(name).ok()?;
        let proof = Proof::Chap {
            id: own.id,
            challenge: own.challenge,
            response: *response,
        };
        (usize::from(*length) == CHALLENGE).then_some(())?;
        self.claimed(user, proof, env)
    }

    fn receive_pap(&mut self, packet: Control<'_>, env: &mut Env<'_>) -> Option<Note> {
        if packet.code != pap::REQUEST {
            return None;
        }
        let (length, rest) = packet.data.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let (length, rest) = rest.split_first()?;
        let password = rest.get(..usize::from(*length))?;
        let user = Name::from_slice(name).ok()?;
        let proof = Proof::Password(Name::from_slice(password).ok()?);
        self.authentication.id = packet.id;
        self.claimed(user, proof, env)
    }

    /// Takes a peer's name and proof.
    fn claimed(&mut self, user: Name, proof: Proof, env: &mut Env<'_>) -> Option<Note> {
        let own = &mut self.authentication;
        own.resend = NEVER;
        match own.progress {
            Progress::Deciding => None,
            // The answer was lost.
            Progress::Passed => {
                self.verdict(true, "", env);
                None
            }
            Progress::Asking => {
                own.progress = Progress::Deciding;
                (own.user, own.proof) = (user, proof);
                Some(Note::Credentials)
            }
        }
    }

    /// Tells the peer whether its proof is right.
    fn verdict(&mut self, passed: bool, text: &str, env: &mut Env<'_>) {
        let id = self.authentication.id;
        let text = text
            .as_bytes()
            .get(..text.len().min(200))
            .unwrap_or_default();
        let (number, code) = match (self.lcp.options.method, passed) {
            (Method::Chap, true) => (protocol::CHAP, chap::SUCCESS),
            (Method::Chap, false) => (protocol::CHAP, chap::FAILURE),
            (Method::Pap, true) => (protocol::PAP, pap::ACK),
            (Method::Pap, false) => (protocol::PAP, pap::NAK),
        };
        let counted = [&[text.len() as u8][..], text].concat();
        let data = match self.lcp.options.method {
            Method::Chap => text,
            Method::Pap => &counted,
        };
        env.out.send(number, Control { code, id, data });
    }

    /// Whether a decision is awaited.
    pub fn is_deciding(&self) -> bool {
        self.phase == Phase::Authenticate && self.authentication.progress == Progress::Deciding
    }

    /// Lets the peer in.
    pub fn accept(&mut self, grant: Grant, settings: &Settings, env: &mut Env<'_>) {
        self.authentication.progress = Progress::Passed;
        self.authentication.proof = Proof::Password(Name::new());
        self.verdict(true, "", env);
        self.phase = Phase::Network;
        self.ipcp = Layer::new(Ipcp::new(settings.address, grant.address, settings.dns));
        open(&mut self.ipcp, env);
        if settings.ip6 {
            self.ipv6cp = Layer::new(Ipv6cp::new(grant.interface_id, env));
            open(&mut self.ipv6cp, env);
        }
    }

    /// Turns the peer away, with a text for its user.
    pub fn reject(&mut self, text: &str, env: &mut Env<'_>) -> Option<Note> {
        self.authentication.proof = Proof::Password(Name::new());
        self.verdict(false, text, env);
        self.close(Cause::UserError, env)
    }
}

fn open<P: Negotiate>(layer: &mut Layer<P>, env: &mut Env<'_>) {
    layer.event(Event::Open, env);
    layer.event(Event::Up, env);
}
