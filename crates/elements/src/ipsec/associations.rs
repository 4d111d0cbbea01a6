//! A table of security associations, and how packets refer to them.

use hashbrown::HashMap;

use super::association::{Association, Spec};
use crate::prelude::*;

/// Most associations of a table. Further ones are refused.
pub(super) const LIMIT: usize = 4096;

/// Why a table takes no further association.
pub(super) const FULL: &str = "too many security associations: at most 4096 fit";

/// Where an association is in a table, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle {
    pub slot: u16,
    generation: u16,
}

/// An association that a packet refers to, by the annotation that Click uses for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    /// The element whose table it is in.
    pub table: ElementId,
    pub handle: Handle,
}

impl Reference {
    /// The association of a packet; `None` if it has none.
    #[inline]
    pub fn of(packet: &Packet) -> Option<Reference> {
        let value = packet.anno_u64(anno::IPSEC_SA_DATA_REFERENCE);
        let table = ((value >> 32) as usize).checked_sub(1)?;
        Some(Reference {
            table: ElementId::new(table),
            handle: Handle {
                slot: (value >> 16) as u16,
                generation: value as u16,
            },
        })
    }

    /// Makes a packet refer to it.
    #[inline]
    pub fn set(self, packet: &mut Packet) {
        let table = self.table.index() as u64 + 1;
        let (slot, generation) = (self.handle.slot, self.handle.generation);
        let value = table << 32 | u64::from(slot) << 16 | u64::from(generation);
        packet.set_anno_u64(anno::IPSEC_SA_DATA_REFERENCE, value);
    }
}

/// Works with a packet and the association that it refers to; `None` if it has none, or if that is
/// gone.
#[inline]
pub(super) fn with<R>(
    cx: &mut Cx<'_>,
    packet: &mut Packet,
    work: impl FnOnce(&mut Association, &mut Packet) -> R,
) -> Option<R> {
    let Reference { table, handle } = Reference::of(packet)?;
    let owner = cx.link::<dyn AssociationOwner>(table)?;
    cx.reach(owner, |owner, _| {
        let association = owner.associations().get(handle)?;
        Some(work(association, packet))
    })?
}

/// An element that has a table of associations.
pub(super) trait AssociationOwner {
    /// The table.
    fn associations(&mut self) -> &mut Associations;
}

impl Interface for dyn AssociationOwner {
    const NAME: &'static str = "SecurityAssociations";
}

/// An element whose associations other elements' routes name.
pub(super) trait SharedAssociations: AssociationOwner {}

impl Interface for dyn SharedAssociations {
    const NAME: &'static str = "SATable";
}

#[derive(Default)]
struct Slot {
    generation: u16,
    /// Routes that lead to the association.
    uses: u32,
    association: Option<Box<Association>>,
}

/// A table of associations. Those with the same index may differ: the first one of them is found
/// by its index.
#[derive(Default)]
pub(super) struct Associations {
    slots: Vec<Slot>,
    free: Vec<u16>,
    by_spi: HashMap<u32, u16>,
}

impl Associations {
    /// Adds an association, or a use of the one that is the same. `None` if the table is full.
    pub fn acquire(&mut self, spec: Spec) -> Option<u16> {
        let same = self.iter().find(|(_, association)| association.is(&spec));
        let slot = match same {
            Some((slot, _)) => slot,
            None => {
                let association = Box::new(Association::new(spec)?);
                let slot = match self.free.pop() {
                    Some(slot) => slot,
                    None if self.slots.len() < LIMIT => {
                        self.slots.push(Slot::default());
                        self.slots.len() as u16 - 1
                    }
                    None => return None,
                };
                self.by_spi.entry(association.spi()).or_insert(slot);
                self.slots[slot as usize].association = Some(association);
                slot
            }
        };
        self.slots[slot as usize].uses += 1;
        Some(slot)
    }

    /// One use less; without any, the association goes.
    pub fn release(&mut self, slot: u16) {
        let Some(place) = self.slots.get_mut(slot as usize) else {
            return;
        };
        place.uses = place.uses.saturating_sub(1);
        if place.uses > 0 {
            return;
        }
        let Some(gone) = place.association.take() else {
            return;
        };
        // Packets on their way that refer to it find nothing.
        place.generation = place.generation.wrapping_add(1);
        self.free.push(slot);
        if self.by_spi.get(&gone.spi()) == Some(&slot) {
            let next = self.iter().find(|(_, other)| other.spi() == gone.spi());
            match next.map(|(slot, _)| slot) {
                Some(next) => self.by_spi.insert(gone.spi(), next),
                None => self.by_spi.remove(&gone.spi()),
            };
        }
    }

    /// The handle of what is in a slot.
    #[inline]
    pub fn handle(&self, slot: u16) -> Option<Handle> {
        let place = self.slots.get(slot as usize)?;
        place.association.as_ref()?;
        Some(Handle {
            slot,
            generation: place.generation,
        })
    }

    /// The first association with an index.
    #[inline]
    pub fn find(&self, spi: u32) -> Option<Handle> {
        self.handle(*self.by_spi.get(&spi)?)
    }

    /// An association.
    #[inline]
    pub fn get(&mut self, handle: Handle) -> Option<&mut Association> {
        let place = self.slots.get_mut(handle.slot as usize)?;
        if place.generation != handle.generation {
            return None;
        }
        place.association.as_deref_mut()
    }

    /// The associations with their slots.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Association)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(i, slot)| Some((i as u16, slot.association.as_deref()?)))
    }

    /// Goes on with the counters of `old`'s associations where they are the same.
    pub fn take(&mut self, old: &Associations) {
        for slot in &mut self.slots {
            let Some(association) = &mut slot.association else {
                continue;
            };
            for (_, old) in old.iter() {
                association.take(old);
            }
        }
    }

    /// A line for each association: see [`Association::line`].
    pub fn lines(&self) -> String {
        self.iter()
            .map(|(_, association)| association.line())
            .collect()
    }
}
