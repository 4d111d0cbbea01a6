//! Patches: two ports that are each other's other end, and join their domains.

use super::{AttachError, Lanes, Member};
use crate::lookup::PortIndex;
use crate::protocol::{PortId, PortKind};
use crate::worker::{Placed, Ways};

pub use crate::protocol::PatchEnd;

/// What a patch's rates are reckoned with; it takes whatever the ports of its domains do.
const MTU: u16 = 1500;

impl Lanes {
    /// Joins two domains. Frames that reach one end come out of the other, on whichever lane they
    /// are. Returns both ends, and whether the domains were joined already by other patches: then
    /// there is a cycle, and floods go round in it until they have gone through
    /// [`PATCHES_MAX`](crate::worker::PATCHES_MAX) patches.
    pub fn attach_patch(
        &mut self,
        ends: [PatchEnd; 2],
    ) -> Result<([PortId; 2], bool), AttachError> {
        if self.room() < 2 {
            return Err(AttachError::Full);
        }
        for end in &ends {
            self.check_properties(&end.properties, MTU)?;
            self.shape(end.domain, None, &end.properties)?;
        }
        let numbers = ends.each_ref().map(|end| end.domain);
        let cycle = self.are_joined(numbers[0], numbers[1]);
        let first = self.domain(numbers[0])?;
        let second = match self.domain(numbers[1]) {
            Ok(second) => second,
            Err(error) => {
                self.leave_domain(numbers[0]);
                return Err(error);
            }
        };
        let (Some(a), Some(b)) = (self.take_place(), self.take_place()) else {
            return Err(AttachError::Full);
        };
        for (from, to) in [(0, 1), (1, 0)] {
            if let Some(domain) = self.domains.get_mut(&numbers[from]) {
                domain.patched.push(numbers[to]);
            }
        }
        let sides = [(a, first, b), (b, second, a)];
        let mut ids = [PortId { place: 0, turn: 0 }; 2];
        for (((place, domain, other), end), id) in sides.into_iter().zip(ends).zip(&mut ids) {
            *id = self.place_end(place, domain, other, end);
        }
        Ok((ids, cycle))
    }

    fn place_end(
        &mut self,
        place: PortIndex,
        domain: u32,
        other: PortIndex,
        end: PatchEnd,
    ) -> PortId {
        let turn = self.next_turn;
        self.next_turn = self.next_turn.wrapping_add(1);
        let placed = Placed {
            place,
            turn,
            domain,
            mac: None,
            name: end.name.as_str().into(),
            uplink: true,
            ways: Ways {
                lanes: u64::MAX,
                home: 0,
                patch: Some(other),
            },
        };
        self.board.reopen(place);
        self.on_all(move |worker| worker.place(&placed));
        let id = PortId { place, turn };
        self.members[usize::from(place)] = Some(Member {
            mac: None,
            mtu: MTU,
            id,
            name: end.name,
            domain: end.domain,
            kind: PortKind::Patch,
            properties: end.properties,
            lanes: Vec::new(),
            patch: Some(other),
        });
        // What cannot be was refused before.
        let _ = self.reshape(place);
        id
    }

    /// Whether patches lead from one domain to another, or both are the same.
    fn are_joined(&self, from: u32, to: u32) -> bool {
        let mut seen = vec![from];
        let mut at = 0;
        while let Some(&number) = seen.get(at) {
            if number == to {
                return true;
            }
            at += 1;
            for &next in self.domains.get(&number).map_or(&[][..], |d| &d.patched) {
                if !seen.contains(&next) {
                    seen.push(next);
                }
            }
        }
        false
    }

    /// Notes that a patch between two domains is gone.
    pub(super) fn part(&mut self, from: u32, to: u32) {
        for (from, to) in [(from, to), (to, from)] {
            if let Some(domain) = self.domains.get_mut(&from)
                && let Some(at) = domain.patched.iter().position(|&number| number == to)
            {
                domain.patched.swap_remove(at);
            }
        }
    }
}
