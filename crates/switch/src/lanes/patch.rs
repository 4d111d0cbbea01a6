//! Patches: pairs of ports that join two domains.

use super::{AttachError, Lanes, Member, port_id};
use crate::ids::{DomainIndex, LaneMask, PortIndex};
use crate::protocol::{PortId, PortKind};
use crate::worker::{Egress, PortSetup};

pub use crate::protocol::PatchEnd;

/// The MTU of a patch, for its rates. It takes any frame that the ports of its domains take.
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
        if self.free_slots() < 2 {
            return Err(AttachError::Full);
        }
        for end in &ends {
            self.check_properties(&end.properties, MTU)?;
            self.policy(end.domain, None, &end.properties)?;
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
        let (Some(a), Some(b)) = (self.take_slot(), self.take_slot()) else {
            return Err(AttachError::Full);
        };
        for (from, to) in [(0, 1), (1, 0)] {
            if let Some(domain) = self.domains.get_mut(&numbers[from]) {
                domain.patches.push(numbers[to]);
            }
        }
        let sides = [(a, first, b), (b, second, a)];
        let mut ids = [port_id(0, 0); 2];
        for (((port, domain, other), end), id) in sides.into_iter().zip(ends).zip(&mut ids) {
            *id = self.add_end(port, domain, other, end);
        }
        Ok((ids, cycle))
    }

    fn add_end(
        &mut self,
        port: PortIndex,
        domain: DomainIndex,
        other: PortIndex,
        end: PatchEnd,
    ) -> PortId {
        let generation = self.next_generation();
        let setup = PortSetup {
            port,
            generation,
            domain,
            mac: None,
            name: end.name.as_str().into(),
            uplink: true,
            egress: Egress {
                lanes: LaneMask::MAX,
                lane: 0,
                patch: Some(other),
            },
            behind: None,
            waits: false,
        };
        self.status.set_closed(port, false);
        self.on_all(move |worker| worker.add_port(&setup));
        let id = port_id(port, generation);
        self.members[usize::from(port)] = Some(Member {
            mac: None,
            mtu: MTU,
            id,
            name: end.name,
            domain: end.domain,
            kind: PortKind::Patch,
            properties: end.properties,
            lanes: Vec::new(),
            patch: Some(other),
            front: None,
            is_front: false,
        });
        // Invalid properties were refused before.
        let _ = self.update_policy(port);
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
            for &next in self.domains.get(&number).map_or(&[][..], |d| &d.patches) {
                if !seen.contains(&next) {
                    seen.push(next);
                }
            }
        }
        false
    }

    /// Notes that a patch between two domains is gone.
    pub(super) fn unjoin(&mut self, from: u32, to: u32) {
        for (from, to) in [(from, to), (to, from)] {
            if let Some(domain) = self.domains.get_mut(&from)
                && let Some(at) = domain.patches.iter().position(|&number| number == to)
            {
                domain.patches.swap_remove(at);
            }
        }
    }
}
