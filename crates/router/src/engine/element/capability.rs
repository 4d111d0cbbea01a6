//! Capabilities: interfaces by which elements use other elements.
//!
//! A capability is a trait. An element's class declares the capabilities that it provides. Another
//! element, which names the first in an argument or meets it in the graph, holds a [`Link`] and
//! reaches it by [`Cx::reach`]. No element names another's type.

use core::any::Any;
use core::fmt;

use super::DynElement;
use crate::args::{Argument, Context, ElementRef, Invalid};
use crate::engine::{Cx, Engine};
use crate::handler::HandlerError;
use crate::llrpc::Llrpc;
use crate::prelude::*;
use crate::store::StoreAnswer;

/// A trait object that is a capability: `dyn Storage`.
pub trait Interface: 'static {
    /// The name that arguments and messages use.
    const NAME: &'static str;
}

/// How to see an element of some class as a `T`.
pub struct Provided<T: ?Sized + 'static> {
    /// To look at it.
    pub view: fn(&dyn DynElement) -> Option<&T>,
    /// To work with it.
    pub work: fn(&mut dyn DynElement) -> Option<&mut T>,
}

/// A capability that a class declares.
#[derive(Clone, Copy)]
pub struct Capability {
    name: &'static str,
    provided: &'static (dyn Any + Sync),
}

impl Capability {
    /// The capability `T`.
    pub const fn new<T: Interface + ?Sized>(provided: &'static Provided<T>) -> Self {
        Capability {
            name: T::NAME,
            provided,
        }
    }

    /// The name of its trait.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn provided(&self) -> &'static (dyn Any + Sync) {
        self.provided
    }
}

impl fmt::Debug for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Another element, seen as a `T`: `Link<dyn Storage>`.
///
/// As an argument, the name of an element that provides `T`.
pub struct Link<T: ?Sized + 'static> {
    id: ElementId,
    provided: &'static Provided<T>,
}

impl<T: ?Sized> Link<T> {
    /// The element.
    pub fn id(&self) -> ElementId {
        self.id
    }
}

impl<T: ?Sized> Clone for Link<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Link<T> {}

impl<T: ?Sized> PartialEq for Link<T> {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl<T: ?Sized + Interface> fmt::Debug for Link<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", T::NAME, self.id.index())
    }
}

fn link<T: ?Sized>(id: ElementId, provided: &'static (dyn Any + Sync)) -> Option<Link<T>> {
    let provided: &'static dyn Any = provided;
    let provided = provided.downcast_ref::<Provided<T>>()?;
    Some(Link { id, provided })
}

impl<T: ?Sized + Interface> Argument for Link<T> {
    const KIND: &'static str = T::NAME;

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        let element = ElementRef::parse(text, context)?;
        let provided = context.elements.capability(element.index, T::NAME);
        let link = provided.and_then(|provided| link(ElementId::new(element.index), provided));
        link.ok_or_else(|| {
            let expected = T::NAME;
            Invalid::because(alloc::format!("element type mismatch, expected {expected}"))
        })
    }
}

impl Engine {
    /// An element as a `T`; `None` if its class does not provide that.
    pub(crate) fn link<T: ?Sized + Interface>(&self, id: ElementId) -> Option<Link<T>> {
        let info = self.graph.elements.get(id.index())?;
        let mut capabilities = info.class.capabilities.iter();
        capabilities.find_map(|capability| link(id, capability.provided))
    }

    /// Works with an element. `None` if it is at work, or another thread's.
    pub(crate) fn reach<T: ?Sized, R>(
        &mut self,
        link: Link<T>,
        work: impl FnOnce(&mut T, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        self.with(link.id, |element, cx| {
            (link.provided.work)(element).map(|provider| work(provider, cx))
        })
        .flatten()
    }

    /// An element to look at. `None` if it is at work, or another thread's.
    pub(crate) fn view<T: ?Sized>(&self, link: Link<T>) -> Option<&T> {
        (link.provided.view)(self.elements.get(link.id)?)
    }

    /// Packets that an element has room for; `None` if it stores none or has no limit.
    pub(crate) fn room(&self, id: ElementId) -> Option<usize> {
        let link = self.link::<dyn Storage>(id)?;
        self.view(link)?.room()
    }
}

/// Other elements' capabilities.
impl Cx<'_> {
    /// An element as a `T`; `None` if its class does not provide that.
    pub fn link<T: ?Sized + Interface>(&self, id: ElementId) -> Option<Link<T>> {
        self.engine.link(id)
    }

    /// Another element of this thread to look at. `None` if it is at work itself.
    #[inline]
    pub fn view<T: ?Sized>(&self, link: Link<T>) -> Option<&T> {
        self.engine.view(link)
    }

    /// Works with another element. `None` if it is at work itself.
    #[inline]
    pub fn reach<T: ?Sized, R>(
        &mut self,
        link: Link<T>,
        work: impl FnOnce(&mut T, &mut Cx<'_>) -> R,
    ) -> Option<R> {
        self.with_element(link.id, |element, cx| {
            (link.provided.work)(element).map(|provider| work(provider, cx))
        })
        .flatten()
    }
}

/// An element that stores packets: queues.
pub trait Storage {
    /// Packets that it stores.
    fn stored(&self) -> usize;

    /// Packets that it has room for; `None` if it has no limit.
    fn room(&self) -> Option<usize>;
}

impl Interface for dyn Storage {
    const NAME: &'static str = "Storage";
}

/// An element that answers LLRPCs.
pub trait Llrpcs {
    /// Carries out an LLRPC: reads and changes `data`, [`call.size()`](Llrpc::size) bytes.
    fn llrpc(&mut self, cx: &mut Cx<'_>, call: Llrpc, data: &mut [u8]) -> Result<(), HandlerError>;
}

impl Interface for dyn Llrpcs {
    const NAME: &'static str = "LLRPC";
}

/// An element that knows its interface's Ethernet address from the interface itself.
pub trait Addressed {
    /// The interface may have another address.
    fn readdress(&mut self, cx: &mut Cx<'_>);
}

impl Interface for dyn Addressed {
    const NAME: &'static str = "Addressed";
}

/// An element that waits for file descriptors.
pub trait Descriptors {
    /// A file descriptor that the element [watches](Cx::watch) is ready.
    fn selected(&mut self, cx: &mut Cx<'_>, fd: i32, readable: bool, writable: bool);
}

impl Interface for dyn Descriptors {
    const NAME: &'static str = "Descriptors";
}

/// An element that uses the control store.
pub trait StoreUser {
    /// Something came of what it asked by a handle; by one that it has no more, it is none of its.
    fn answered(&mut self, cx: &mut Cx<'_>, handle: u64, answer: &StoreAnswer);
}

impl Interface for dyn StoreUser {
    const NAME: &'static str = "StoreUser";
}

/// An element that decides what happens when the router is asked to stop.
pub trait DriverHook {
    /// The router is asked to stop, and this element manages it (see [`Cx::manage_driver`]): it
    /// goes on if the run count is above 0 afterwards.
    fn driver_stopped(&mut self, cx: &mut Cx<'_>);
}

impl Interface for dyn DriverHook {
    const NAME: &'static str = "DriverHook";
}
