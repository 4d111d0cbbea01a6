//! Groups, preferred hosts, images, distance.

use super::Weight;
use crate::facts::Affinity;
use crate::inventory::{HostSet, Inventory};
use crate::unit::{Answer, Request};

/// Adds `cost` for each other member of the guest's soft groups of a kind.
fn members(
    inventory: &Inventory,
    request: &Request<'_>,
    kind: Affinity,
    cost: f64,
    scores: &mut [f64],
) {
    let groups = request.guest.affinity.iter();
    for member in groups.filter(|member| !member.hard && member.affinity == kind) {
        for (slot, members) in inventory.groups.hosts(&member.group) {
            scores[slot] += cost * f64::from(request.others(slot, members));
        }
    }
}

pub(super) struct Together;

impl Weight for Together {
    fn score(
        &self,
        inventory: &Inventory,
        request: &Request<'_>,
        _: &HostSet,
        scores: &mut [f64],
    ) -> Answer {
        members(inventory, request, Affinity::Together, -1.0, scores);
        Ok(())
    }
}

pub(super) struct Apart;

impl Weight for Apart {
    fn score(
        &self,
        inventory: &Inventory,
        request: &Request<'_>,
        _: &HostSet,
        scores: &mut [f64],
    ) -> Answer {
        members(inventory, request, Affinity::Apart, 1.0, scores);
        Ok(())
    }
}

pub(super) struct PreferredHost;

impl Weight for PreferredHost {
    fn score(
        &self,
        inventory: &Inventory,
        request: &Request<'_>,
        _: &HostSet,
        scores: &mut [f64],
    ) -> Answer {
        let preferred = request.guest.preferred.iter();
        for slot in preferred.filter_map(|name| inventory.hosts.slot(name).ok()) {
            scores[slot] = -1.0;
        }
        Ok(())
    }
}

pub(super) struct WarmImage;

impl Weight for WarmImage {
    fn score(
        &self,
        inventory: &Inventory,
        request: &Request<'_>,
        _: &HostSet,
        scores: &mut [f64],
    ) -> Answer {
        if let Some(image) = &request.guest.image {
            for slot in inventory.hosts.images.get(image).iter() {
                scores[slot] = -1.0;
            }
        }
        Ok(())
    }
}

pub(super) struct ChainDistance;

impl Weight for ChainDistance {
    fn score(
        &self,
        inventory: &Inventory,
        request: &Request<'_>,
        _: &HostSet,
        scores: &mut [f64],
    ) -> Answer {
        let hosts = &inventory.hosts;
        let neighbours = request.guest.chain.iter();
        let placed: Vec<_> = neighbours
            .filter_map(|name| inventory.guest(name))
            .map(|neighbour| neighbour.destination())
            .collect();
        if placed.is_empty() {
            return Ok(());
        }
        // Of each site to all neighbours.
        let distances: Vec<f64> = (0..hosts.site_count() as u32)
            .map(|site| {
                let path = hosts.site_path(site);
                let to = |slot: &usize| distance(path, hosts.site_path(hosts.sites[*slot]));
                placed.iter().map(to).sum()
            })
            .collect();
        for (score, site) in scores.iter_mut().zip(&hosts.sites) {
            *score = distances[*site as usize];
        }
        // On the host itself it is none; the site's is 1.
        for slot in placed {
            scores[slot] -= 1.0;
        }
        Ok(())
    }
}

/// Steps between two hosts: 1 in one site, and one more for each part of the longer site's name that they do not have
/// in common.
fn distance(a: &[u32], b: &[u32]) -> f64 {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    (1 + a.len().max(b.len()) - common) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_one_rack_are_nearer_than_hosts_of_one_hall() {
        let (rack, same, hall, far) = ([1, 3], [1, 3], [1, 4], [2, 3]);
        assert_eq!(distance(&rack, &same), 1.0);
        assert_eq!(distance(&rack, &hall), 2.0);
        assert_eq!(distance(&rack, &far), 3.0);
        assert_eq!(distance(&[], &[]), 1.0);
        assert_eq!(distance(&[], &[1]), 2.0);
    }
}
