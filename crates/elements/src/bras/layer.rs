//! A layer of PPP that negotiates options: LCP, IPCP or IPV6CP (RFC 1661, sections 4 to 6).

use super::automaton::{Action, Event, State, step};
use super::control::{Control, Entry, Options, Outbox, add_option, code, options};
use super::secrets::Secrets;
use crate::prelude::*;

/// Time after which a packet without an answer is sent again.
const RESTART: u64 = 3_000_000_000;
/// Configure-Requests that are sent without an answer.
const MAX_CONFIGURE: u8 = 10;
/// Terminate-Requests that are sent without an answer.
const MAX_TERMINATE: u8 = 2;
/// Configure-Naks that are sent before options are rejected instead.
const MAX_FAILURE: u8 = 5;
/// Configure-Naks and Configure-Rejects of the peer that are answered.
const MAX_REFUSALS: u8 = 20;
/// No deadline.
pub const NEVER: u64 = u64::MAX;
/// Longest packet that a rejection quotes.
const QUOTED_MAX: usize = 1200;

/// What a session's packets are made with.
pub struct Env<'e> {
    pub now: u64,
    pub secrets: &'e mut Secrets,
    pub random: &'e mut Random,
    pub out: &'e mut Outbox,
}

impl Env<'_> {
    /// New unpredictable bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        self.secrets.bytes(self.random)
    }
}

/// What this side thinks of an option that the peer asks for.
pub enum Opinion {
    Good,
    /// Another value is suggested.
    Better(heapless::Vec<u8, 16>),
    Unknown,
}

impl Opinion {
    pub fn better(value: &[u8]) -> Opinion {
        Opinion::Better(heapless::Vec::from_slice(value).unwrap_or_default())
    }
}

/// The options of a layer.
pub trait Negotiate {
    /// The number of its protocol.
    const PROTOCOL: u16;

    /// The options that this side asks for, the same until a refusal changes them.
    fn request(&self) -> Options;

    /// What this side thinks of an option that the peer asks for.
    fn judge(&self, option: Entry<'_>, env: &mut Env<'_>) -> Opinion;

    /// An option that the peer should ask for, if it does not.
    fn missing(&self) -> Option<(u8, [u8; 4])> {
        None
    }

    /// Takes what the peer suggests instead of what this side asked for; false if that is no way on.
    fn suggested(&mut self, option: Entry<'_>, env: &mut Env<'_>) -> bool;

    /// Asks no more for an option that the peer rejects; false if it is needed.
    fn rejected(&mut self, option: Entry<'_>) -> bool;
}

/// What became of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Up,
    Down,
    Finished,
}

/// A layer.
pub struct Layer<P> {
    pub options: P,
    state: State,
    /// Packets that may be sent again.
    restarts: u8,
    /// When that happens.
    deadline: u64,
    /// The identifier of the last packet that this side began with.
    last_id: u8,
    /// That of the last Configure-Request.
    request_id: u8,
    /// Configure-Naks that were sent in a row.
    failures: u8,
    /// The peer's since the layer was opened.
    refusals: u8,
}

impl<P: Negotiate> Layer<P> {
    pub fn new(options: P) -> Layer<P> {
        Layer {
            options,
            state: State::Initial,
            restarts: 0,
            deadline: NEVER,
            last_id: 0,
            request_id: 0,
            failures: 0,
            refusals: 0,
        }
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn is_opened(&self) -> bool {
        self.state == State::Opened
    }

    /// When [`tick`](Self::tick) has something to do.
    pub fn deadline(&self) -> u64 {
        self.deadline
    }

    pub fn next_id(&mut self) -> u8 {
        self.last_id = self.last_id.wrapping_add(1);
        self.last_id
    }

    /// An event that no packet brings.
    pub fn event(&mut self, event: Event, env: &mut Env<'_>) -> Option<Change> {
        let none = Control {
            code: 0,
            id: 0,
            data: &[],
        };
        self.apply(event, none, none, env)
    }

    /// Sends again what has no answer.
    pub fn tick(&mut self, env: &mut Env<'_>) -> Option<Change> {
        if env.now < self.deadline {
            return None;
        }
        match self.restarts {
            0 => self.event(Event::GiveUp, env),
            _ => self.event(Event::Timeout, env),
        }
    }

    /// Takes a packet of the peer.
    pub fn receive(&mut self, packet: Control<'_>, env: &mut Env<'_>) -> Option<Change> {
        let none = Control {
            data: &[],
            ..packet
        };
        match packet.code {
            code::CONFIGURE_REQUEST => self.requested(packet, env),
            code::CONFIGURE_ACK => {
                let is_answer = packet.id == self.request_id;
                if !is_answer || packet.data != self.options.request().as_slice() {
                    return None;
                }
                self.apply(Event::Ack, packet, none, env)
            }
            code::CONFIGURE_NAK | code::CONFIGURE_REJECT => self.refused(packet, env),
            code::TERMINATE_REQUEST => self.apply(Event::TerminateRequest, packet, none, env),
            code::TERMINATE_ACK => self.apply(Event::TerminateAck, packet, none, env),
            code::CODE_REJECT => {
                let needed = code::CONFIGURE_REQUEST..=code::CODE_REJECT;
                let event = match packet.data.first() {
                    Some(code) if needed.contains(code) => Event::Refused,
                    Some(_) => Event::Rejected,
                    None => return None,
                };
                self.apply(event, packet, none, env)
            }
            _ => self.apply(Event::UnknownCode, packet, none, env),
        }
    }

    /// Takes a Configure-Request.
    fn requested(&mut self, packet: Control<'_>, env: &mut Env<'_>) -> Option<Change> {
        let entries = options(packet.data)?;
        let (mut rejects, mut naks) = (Vec::new(), Options::new());
        let mut missing = self.options.missing();
        for entry in entries {
            missing = missing.filter(|(kind, _)| *kind != entry.kind);
            match self.options.judge(entry, env) {
                Opinion::Good => {}
                // A peer that does not take suggestions gets no more of them.
                Opinion::Better(_) if self.failures >= MAX_FAILURE => {
                    rejects.extend_from_slice(entry.whole);
                }
                Opinion::Better(value) => add_option(&mut naks, entry.kind, &value),
                Opinion::Unknown => rejects.extend_from_slice(entry.whole),
            }
        }
        if let Some((kind, value)) = missing.filter(|_| self.failures < MAX_FAILURE) {
            add_option(&mut naks, kind, &value);
        }
        let (event, code, data) = if !rejects.is_empty() {
            (Event::BadRequest, code::CONFIGURE_REJECT, &rejects[..])
        } else if !naks.is_empty() {
            self.failures += 1;
            (Event::BadRequest, code::CONFIGURE_NAK, &naks[..])
        } else {
            self.failures = 0;
            (Event::GoodRequest, code::CONFIGURE_ACK, packet.data)
        };
        let answer = Control {
            code,
            id: packet.id,
            data,
        };
        self.apply(event, packet, answer, env)
    }

    /// Takes a Configure-Nak or Configure-Reject.
    fn refused(&mut self, packet: Control<'_>, env: &mut Env<'_>) -> Option<Change> {
        let entries = options(packet.data)?;
        if packet.id != self.request_id || self.refusals >= MAX_REFUSALS {
            return None;
        }
        self.refusals += 1;
        let mut event = Event::Nak;
        for entry in entries {
            let goes_on = match packet.code {
                code::CONFIGURE_NAK => self.options.suggested(entry, env),
                _ => self.options.rejected(entry),
            };
            if !goes_on {
                event = Event::Refused;
            }
        }
        self.apply(event, packet, packet, env)
    }

    /// Does what the automaton says. `answer` is the answer to the peer's options.
    fn apply(
        &mut self,
        event: Event,
        packet: Control<'_>,
        answer: Control<'_>,
        env: &mut Env<'_>,
    ) -> Option<Change> {
        let (actions, state) = step(self.state, event);
        self.state = state;
        let (mut change, mut starts_timer) = (None, false);
        for action in actions {
            match action {
                Action::LayerUp => change = Some(Change::Up),
                Action::LayerDown => change = Some(Change::Down),
                Action::LayerFinished => change = Some(Change::Finished),
                Action::LayerStarted => {}
                Action::InitializeRestartCount => {
                    let ends = actions.contains(&Action::SendTerminateRequest);
                    self.restarts = if ends { MAX_TERMINATE } else { MAX_CONFIGURE };
                }
                Action::ZeroRestartCount => {
                    self.restarts = 0;
                    starts_timer = true;
                }
                Action::SendConfigureRequest => {
                    self.request_id = self.next_id();
                    self.restarts = self.restarts.saturating_sub(1);
                    starts_timer = true;
                    let options = self.options.request();
                    self.send(code::CONFIGURE_REQUEST, self.request_id, &options, env);
                }
                Action::SendConfigureAck | Action::SendConfigureNak => {
                    self.send(answer.code, answer.id, answer.data, env);
                }
                Action::SendTerminateRequest => {
                    let id = self.next_id();
                    self.restarts = self.restarts.saturating_sub(1);
                    starts_timer = true;
                    self.send(code::TERMINATE_REQUEST, id, &[], env);
                }
                Action::SendTerminateAck => {
                    self.send(code::TERMINATE_ACK, packet.id, &[], env);
                }
                Action::SendCodeReject => {
                    let id = self.next_id();
                    let mut quoted = Vec::new();
                    packet.write(&mut quoted);
                    quoted.truncate(QUOTED_MAX);
                    self.send(code::CODE_REJECT, id, &quoted, env);
                }
            }
        }
        let is_timed = matches!(
            state,
            State::Closing
                | State::Stopping
                | State::RequestSent
                | State::AckReceived
                | State::AckSent
        );
        if !is_timed {
            self.deadline = NEVER;
        } else if starts_timer {
            self.deadline = env.now + RESTART;
        }
        if matches!(event, Event::Up | Event::Open) {
            (self.failures, self.refusals) = (0, 0);
        }
        change
    }

    fn send(&self, code: u8, id: u8, data: &[u8], env: &mut Env<'_>) {
        env.out.send(P::PROTOCOL, Control { code, id, data });
    }
}
