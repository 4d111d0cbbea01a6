//! The option negotiation automaton of PPP (RFC 1661, section 4.1), as its table.

/// States, in the order of the table's columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Initial,
    Starting,
    Closed,
    Stopped,
    Closing,
    Stopping,
    RequestSent,
    AckReceived,
    AckSent,
    Opened,
}

/// Events, in the order of the table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The layer below is there.
    Up,
    /// The layer below is gone.
    Down,
    /// The layer may be opened.
    Open,
    /// The layer is to be closed.
    Close,
    /// The restart timer expired, and a packet may be sent again.
    Timeout,
    /// The restart timer expired for the last time.
    GiveUp,
    /// A Configure-Request that is acceptable.
    GoodRequest,
    /// A Configure-Request that is not.
    BadRequest,
    /// A Configure-Ack.
    Ack,
    /// A Configure-Nak or Configure-Reject.
    Nak,
    /// A Terminate-Request.
    TerminateRequest,
    /// A Terminate-Ack.
    TerminateAck,
    /// A packet with an unknown code.
    UnknownCode,
    /// A rejection that can be lived with.
    Rejected,
    /// A rejection that ends the layer.
    Refused,
}

/// Actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// This layer is up.
    LayerUp,
    /// This layer is down.
    LayerDown,
    /// The layer below is needed.
    LayerStarted,
    /// The layer below is not needed any more.
    LayerFinished,
    /// The restart counter gets its first value.
    InitializeRestartCount,
    /// The restart counter becomes 0.
    ZeroRestartCount,
    SendConfigureRequest,
    SendConfigureAck,
    /// A Configure-Nak or Configure-Reject.
    SendConfigureNak,
    SendTerminateRequest,
    SendTerminateAck,
    SendCodeReject,
}

type Cell = (&'static [Action], State);

/// What happens at an event, and the state afterwards. An event that the table does not have in a state
/// changes nothing.
pub fn step(state: State, event: Event) -> Cell {
    let row = &TABLE[event as usize];
    row[state as usize].unwrap_or((&[], state))
}

use Action::{
    InitializeRestartCount as IRC, LayerDown as TLD, LayerFinished as TLF, LayerStarted as TLS,
    LayerUp as TLU, SendCodeReject as SCJ, SendConfigureAck as SCA, SendConfigureNak as SCN,
    SendConfigureRequest as SCR, SendTerminateAck as STA, SendTerminateRequest as STR,
    ZeroRestartCount as ZRC,
};

const fn to(actions: &'static [Action], state: State) -> Option<Cell> {
    Some((actions, state))
}

/// A cell without actions.
const fn only(state: State) -> Option<Cell> {
    Some((&[], state))
}

#[rustfmt::skip]
static TABLE: [[Option<Cell>; 10]; 15] = {
    use State::*;
    // Initial, Starting, Closed, Stopped, Closing, Stopping, RequestSent, AckReceived, AckSent, Opened
    [
        // Up
        [only(Closed), to(&[IRC, SCR], RequestSent), None, None, None, None, None, None, None, None],
        // Down
        [None, None, only(Initial), to(&[TLS], Starting), only(Initial), only(Starting),
         only(Starting), only(Starting), only(Starting), to(&[TLD], Starting)],
        // Open
        [to(&[TLS], Starting), only(Starting), to(&[IRC, SCR], RequestSent), only(Stopped),
         only(Stopping), only(Stopping), only(RequestSent), only(AckReceived), only(AckSent), only(Opened)],
        // Close
        [only(Initial), to(&[TLF], Initial), only(Closed), only(Closed), only(Closing), only(Closing),
         to(&[IRC, STR], Closing), to(&[IRC, STR], Closing), to(&[IRC, STR], Closing),
         to(&[TLD, IRC, STR], Closing)],
        // Timeout
        [None, None, None, None, to(&[STR], Closing), to(&[STR], Stopping),
         to(&[SCR], RequestSent), to(&[SCR], RequestSent), to(&[SCR], AckSent), None],
        // GiveUp
        [None, None, None, None, to(&[TLF], Closed), to(&[TLF], Stopped),
         to(&[TLF], Stopped), to(&[TLF], Stopped), to(&[TLF], Stopped), None],
        // GoodRequest
        [None, None, to(&[STA], Closed), to(&[IRC, SCR, SCA], AckSent), only(Closing), only(Stopping),
         to(&[SCA], AckSent), to(&[SCA, TLU], Opened), to(&[SCA], AckSent), to(&[TLD, SCR, SCA], AckSent)],
        // BadRequest
        [None, None, to(&[STA], Closed), to(&[IRC, SCR, SCN], RequestSent), only(Closing), only(Stopping),
         to(&[SCN], RequestSent), to(&[SCN], AckReceived), to(&[SCN], RequestSent),
         to(&[TLD, SCR, SCN], RequestSent)],
        // Ack
        [None, None, to(&[STA], Closed), to(&[STA], Stopped), only(Closing), only(Stopping),
         to(&[IRC], AckReceived), to(&[SCR], RequestSent), to(&[IRC, TLU], Opened),
         to(&[TLD, SCR], RequestSent)],
        // Nak
        [None, None, to(&[STA], Closed), to(&[STA], Stopped), only(Closing), only(Stopping),
         to(&[IRC, SCR], RequestSent), to(&[SCR], RequestSent), to(&[IRC, SCR], AckSent),
         to(&[TLD, SCR], RequestSent)],
        // TerminateRequest
        [None, None, to(&[STA], Closed), to(&[STA], Stopped), to(&[STA], Closing), to(&[STA], Stopping),
         to(&[STA], RequestSent), to(&[STA], RequestSent), to(&[STA], RequestSent),
         to(&[TLD, ZRC, STA], Stopping)],
        // TerminateAck
        [None, None, only(Closed), only(Stopped), to(&[TLF], Closed), to(&[TLF], Stopped),
         only(RequestSent), only(RequestSent), only(AckSent), to(&[TLD, SCR], RequestSent)],
        // UnknownCode
        [None, None, to(&[SCJ], Closed), to(&[SCJ], Stopped), to(&[SCJ], Closing), to(&[SCJ], Stopping),
         to(&[SCJ], RequestSent), to(&[SCJ], AckReceived), to(&[SCJ], AckSent), to(&[SCJ], Opened)],
        // Rejected
        [None, None, only(Closed), only(Stopped), only(Closing), only(Stopping),
         only(RequestSent), only(RequestSent), only(AckSent), only(Opened)],
        // Refused
        [None, None, to(&[TLF], Closed), to(&[TLF], Stopped), to(&[TLF], Closed), to(&[TLF], Stopped),
         to(&[TLF], Stopped), to(&[TLF], Stopped), to(&[TLF], Stopped), to(&[TLD, IRC, STR], Stopping)],
    ]
};
