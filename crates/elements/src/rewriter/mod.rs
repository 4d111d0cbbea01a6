//! Network address translation: what IPRewriter and its kin are made of.
//!
//! - [`key`]: what tells a flow from others;
//! - [`flow`]: one flow in a cache line, with its changes of checksums worked out;
//! - [`index`]: from a key to its flow, in one cache line nearly always;
//! - [`deadlines`]: when flows may be given up, at no cost to packets;
//! - [`table`], [`set`]: flows of a kind, and flows under one limit;
//! - [`pattern`], [`input`], [`mapper`]: what becomes of packets of no known flow;
//! - [`headers`], [`sequence`]: what is read from packets and written into them;
//! - [`path`]: the way of a packet, a batch at a time;
//! - [`base`]: the part that the elements share, with its handlers.

pub mod base;
pub mod deadlines;
pub mod flow;
mod handlers;
pub mod headers;
pub mod index;
pub mod input;
pub mod key;
pub mod mapper;
pub mod path;
pub mod pattern;
pub mod sequence;
pub mod set;
pub mod table;
#[cfg(test)]
mod tests;

use packet::wire::IpProtocol;
use router::{Cx, ElementId};

use crate::icmp::icmp_ping_rewriter::ICMPPingRewriter;
use crate::ip::ip_addr_pair_rewriter::IPAddrPairRewriter;
use crate::ip::ip_addr_rewriter::IPAddrRewriter;
use crate::tcpudp::ip_rewriter::IPRewriter;
use crate::tcpudp::tcp_rewriter::TCPRewriter;
use crate::tcpudp::udp_rewriter::UDPRewriter;
use base::{Base, Translate, Translation};
use key::FlowKey;

/// Does `$work` with `$element`, which is of the first of the rewriters' classes that `$id` is of.
macro_rules! with_rewriter {
    ($cx:ident, $id:ident, |$element:ident, $inner:ident| $work:expr) => {
        with_rewriter!(@ $cx, $id, $element, $inner, $work, IPRewriter UDPRewriter TCPRewriter
            IPAddrRewriter IPAddrPairRewriter ICMPPingRewriter)
    };
    (@ $cx:ident, $id:ident, $element:ident, $inner:ident, $work:expr, $($class:ty)+) => {
        $(if $cx.is::<$class>($id) {
            return $cx.with($id, |$element: &mut $class, $inner| $work);
        })+
    };
}

/// Works with the common part of a rewriter of any class; `None` if the element is not a rewriter,
/// or is at work.
pub fn with_base<R>(
    cx: &mut Cx<'_>,
    id: ElementId,
    work: impl FnOnce(&mut Base, &mut Cx<'_>) -> R,
) -> Option<R> {
    with_rewriter!(cx, id, |element, cx| work(&mut element.base, cx));
    None
}

/// Asks the rewriter `id` what it does to the packets of `key`.
pub fn translate(
    cx: &mut Cx<'_>,
    id: ElementId,
    protocol: IpProtocol,
    key: FlowKey,
) -> Option<Translation> {
    let ask = |cx: &mut Cx<'_>| {
        with_rewriter!(cx, id, |element, cx| element.translate(cx, protocol, key));
        None
    };
    ask(cx).flatten()
}

/// As [`translate`], making a mapping if there is none; see [`Translate::obtain`].
pub fn obtain(
    cx: &mut Cx<'_>,
    id: ElementId,
    protocol: IpProtocol,
    key: FlowKey,
    port: usize,
) -> Option<Translation> {
    let ask = |cx: &mut Cx<'_>| {
        with_rewriter!(cx, id, |element, cx| element
            .obtain(cx, protocol, key, port));
        None
    };
    ask(cx).flatten()
}

/// The methods of an element that its `base` does for it. `$scheme` is how it reads packets;
/// `$table => $name, $old, $number, $show` are its handlers that show a table.
macro_rules! rewriter_methods {
    ($scheme:ty) => {
        fn initialize(&mut self, cx: &mut router::Cx<'_>) -> Result<(), router::args::Failed> {
            self.base.initialize(cx)
        }

        #[inline]
        fn push(
            &mut self,
            cx: &mut router::Cx<'_>,
            port: usize,
            batch: &mut packet::Batch,
        ) -> usize {
            self.base.push::<$scheme>(cx, port, batch)
        }

        fn run_timer(&mut self, cx: &mut router::Cx<'_>, timer: router::TimerId) {
            self.base.run_timer(cx, timer);
        }
    };
}
pub(crate) use rewriter_methods;

/// The handlers of an element with a `base`: `$table => $name, $old, $number, $show` show a table.
macro_rules! rewriter_handlers {
    ($($name:literal, $old:literal => $number:expr, $show:expr;)+) => {
        fn handlers(&self, list: &mut router::HandlerList) {
            $($crate::rewriter::base::Base::table_handler(list, $name, $old);)+
            $crate::rewriter::base::ExtraHandlers::extra_handlers(self, list);
            self.base.handlers(list);
        }

        fn read(
            &mut self,
            cx: &mut router::Cx<'_>,
            name: &str,
            parameter: &str,
        ) -> Result<alloc::string::String, router::HandlerError> {
            match name {
                $($name | $old => Ok(self.base.show_table(cx, $number, $show)),)+
                _ => match $crate::rewriter::base::ExtraHandlers::read_extra(self, cx, name, parameter) {
                    Some(answer) => answer,
                    None => self.base.read(cx, name),
                },
            }
        }

        fn write(
            &mut self,
            cx: &mut router::Cx<'_>,
            name: &str,
            value: &str,
        ) -> Result<(), router::HandlerError> {
            self.base.write(cx, name, value)
        }
    };
}
pub(crate) use rewriter_handlers;
