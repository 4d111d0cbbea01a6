//! The elements of an engine, each in its slot unless it is at work.

use core::num::NonZeroU32;
use core::sync::atomic::{AtomicU32, Ordering};

use super::element::DynElement;
use crate::prelude::*;

/// The element at work, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Current(Option<NonZeroU32>);

const _: () = assert!(size_of::<Current>() == 4);

impl Current {
    /// None.
    pub const NONE: Current = Current(None);

    #[inline]
    fn element(id: ElementId) -> Current {
        Current(NonZeroU32::new(id.0.wrapping_add(1)))
    }

    /// Its index plus one, or 0: as crash reports read it.
    #[inline]
    fn number(self) -> u32 {
        self.0.map_or(0, NonZeroU32::get)
    }
}

/// The elements of an engine.
pub(crate) struct ElementTable {
    slots: Vec<Option<Box<dyn DynElement>>>,
    /// Configurations that were changed while the router runs.
    configs: Vec<Option<String>>,
    current: Current,
    /// Where a crash report reads which element is at work.
    observed: Option<&'static AtomicU32>,
}

impl ElementTable {
    pub fn new(
        slots: Vec<Option<Box<dyn DynElement>>>,
        observed: Option<&'static AtomicU32>,
    ) -> ElementTable {
        ElementTable {
            configs: alloc::vec![None; slots.len()],
            slots,
            current: Current::NONE,
            observed,
        }
    }

    /// Drops all elements.
    pub fn clear(&mut self) {
        self.slots.iter_mut().for_each(|slot| *slot = None);
    }

    /// All elements' ids.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = ElementId> + use<> {
        (0..self.slots.len()).map(ElementId::new)
    }

    /// An element; `None` if it is at work, or on another thread.
    #[inline]
    pub fn get(&self, id: ElementId) -> Option<&dyn DynElement> {
        self.slots.get(id.index())?.as_deref()
    }

    /// As [`get`](Self::get).
    pub fn get_mut(&mut self, id: ElementId) -> Option<&mut Box<dyn DynElement>> {
        self.slots.get_mut(id.index())?.as_mut()
    }

    /// Whether no element is at work.
    pub fn is_idle(&self) -> bool {
        self.current == Current::NONE
    }

    /// The element at work.
    #[inline]
    pub fn current(&self) -> Current {
        self.current
    }

    /// Records the element at work; returns the one before.
    #[inline]
    pub fn set_current(&mut self, current: Current) -> Current {
        if let Some(observed) = self.observed {
            observed.store(current.number(), Ordering::Relaxed);
        }
        core::mem::replace(&mut self.current, current)
    }

    /// Takes an element out of its slot to work, with the one that worked before. `None` if it is at
    /// work already, or on another thread.
    #[inline(always)]
    pub fn lend(&mut self, id: ElementId) -> Option<(Box<dyn DynElement>, Current)> {
        let element = self.slots.get_mut(id.index())?.take()?;
        Some((element, self.set_current(Current::element(id))))
    }

    /// Puts an element that worked back into its slot, and lets the one before go on.
    #[inline(always)]
    pub fn give_back(&mut self, id: ElementId, element: Box<dyn DynElement>, outer: Current) {
        self.set_current(outer);
        self.restore(id, element);
    }

    /// Puts an element that worked back into its slot.
    #[inline(always)]
    pub fn restore(&mut self, id: ElementId, element: Box<dyn DynElement>) {
        // The slot is empty: there is nothing to drop.
        core::mem::forget(self.slots[id.index()].replace(element));
    }

    /// Takes an element that called out from its slot again. `None` if it is on another thread.
    pub fn take(&mut self, id: ElementId) -> Option<Box<dyn DynElement>> {
        self.slots.get_mut(id.index())?.take()
    }

    /// The configuration of an element, if it was changed.
    pub fn config(&self, id: ElementId) -> Option<&str> {
        self.configs[id.index()].as_deref()
    }

    /// Changes the configuration that the `config` handler shows.
    pub fn set_config(&mut self, id: ElementId, config: String) {
        self.configs[id.index()] = Some(config);
    }

    /// Moves an element to the engine of another thread.
    pub fn transfer(&mut self, id: ElementId, to: &mut ElementTable) {
        let i = id.index();
        to.slots[i] = self.slots[i].take();
        to.configs[i] = self.configs[i].take();
    }
}
