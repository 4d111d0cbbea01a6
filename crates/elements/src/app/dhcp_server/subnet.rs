//! Subnets with their pools, and reservations, as arguments name them.

use crate::prelude::*;

/// A subnet and its pool.
#[derive(Clone, Copy, Debug)]
pub struct Subnet {
    pub prefix: Ipv4Prefix,
    /// The first and last address of the pool.
    pub first: u32,
    pub last: u32,
    pub router: Option<Ipv4Addr>,
}

impl Subnet {
    /// Addresses of the pool.
    pub fn addresses(&self) -> usize {
        (self.last - self.first + 1) as usize
    }

    fn has(&self, address: Ipv4Addr) -> bool {
        (self.first..=self.last).contains(&address.to_bits())
    }
}

/// An address that is kept for the client with a hardware address.
#[derive(Clone, Copy, Debug)]
pub struct Reservation {
    pub hardware: EtherAddress,
    pub address: Ipv4Addr,
    /// The subnet that it is in.
    pub subnet: u16,
}

/// Subnets and reservations.
#[derive(Debug, Default)]
pub struct Plan {
    pub subnets: Vec<Subnet>,
    pub reservations: Vec<Reservation>,
}

/// How a subnet is written.
const SUBNET: &str = "write a subnet as PREFIX FIRST-LAST [ROUTER], as in 10.0.0.0/24 10.0.0.100-10.0.0.199 10.0.0.1";
const RESERVATION: &str = "write a reservation as ETHER ADDRESS, as in 02:00:00:00:00:07 10.0.0.7";

/// A subnet by its words.
fn subnet(words: &[String], context: &Context<'_>) -> Result<Subnet, String> {
    let (prefix, range, router) = match words {
        [prefix, range] => (prefix, range, "0.0.0.0"),
        [prefix, range, router] => (prefix, range, router.as_str()),
        _ => return Err(SUBNET.into()),
    };
    let wrong = |_| String::from(SUBNET);
    let prefix: Ipv4Prefix = context.parse(prefix).map_err(wrong)?;
    let router: Ipv4Addr = router.parse().map_err(|_| String::from(SUBNET))?;
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let ends = first
        .parse::<Ipv4Addr>()
        .ok()
        .zip(last.parse::<Ipv4Addr>().ok());
    let (first, last) = ends.ok_or(SUBNET)?;
    if prefix.length().is_none_or(|length| length == 0) || first > last {
        return Err(SUBNET.into());
    }
    let is_inside = |address| prefix.contains(address);
    let host = |address| prefix.network() < address && address < prefix.broadcast();
    if !host(first) || !host(last) {
        let (network, last) = (prefix.network(), prefix.broadcast());
        return Err(format!("the pool must be between {network} and {last}"));
    }
    let router = Some(router).filter(|it| !it.is_unspecified());
    if let Some(router) = router.filter(|it| !is_inside(*it)) {
        return Err(format!("the router {router} is not in the subnet"));
    }
    let subnet = Subnet {
        prefix,
        first: first.to_bits(),
        last: last.to_bits(),
        router,
    };
    match router {
        Some(router) if subnet.has(router) => Err(format!("the pool has the router {router}")),
        _ => Ok(subnet),
    }
}

impl Plan {
    /// Reads the arguments: subnets, and reservations. `server` is the server's own address.
    pub fn parse(
        arguments: &[String],
        server: Ipv4Addr,
        context: &Context<'_>,
    ) -> Result<Plan, String> {
        let mut plan = Plan::default();
        let arguments = arguments.iter().filter(|text| !text.is_empty());
        let arguments = arguments.map(|text| (text, click::config::split_space(text)));
        let (subnets, reservations): (Vec<_>, Vec<_>) =
            arguments.partition(|(_, words)| words.first().is_some_and(|word| word.contains('/')));
        for (text, words) in subnets {
            let subnet = subnet(&words, context).map_err(|why| format!("‘{text}’: {why}"))?;
            if subnet.has(server) {
                return Err(format!(
                    "‘{text}’: the pool has the server's own address {server}"
                ));
            }
            let is_known = |other: &Subnet| {
                other.prefix.contains(subnet.prefix.network())
                    || subnet.prefix.contains(other.prefix.network())
            };
            if let Some(other) = plan.subnets.iter().find(|other| is_known(other)) {
                let network = other.prefix.network();
                return Err(format!("‘{text}’: it overlaps with the subnet {network}"));
            }
            plan.subnets.push(subnet);
        }
        if plan.subnets.is_empty() {
            return Err(SUBNET.into());
        }
        for (text, words) in reservations {
            let [hardware, address] = &words[..] else {
                return Err(format!("‘{text}’: {RESERVATION}"));
            };
            let wrong = || format!("‘{text}’: {RESERVATION}");
            let hardware: EtherAddress = context.parse(hardware).map_err(|_| wrong())?;
            let address: Ipv4Addr = address.parse().map_err(|_| wrong())?;
            let subnet = plan
                .subnet_of(address)
                .ok_or_else(|| format!("‘{text}’: the address is in no subnet"))?;
            let prefix = plan.subnets[usize::from(subnet)].prefix;
            if [server, prefix.network(), prefix.broadcast()].contains(&address) {
                return Err(format!("‘{text}’: no client can have this address"));
            }
            let mut others = plan.reservations.iter();
            let is_same = |other: &Reservation| {
                other.address == address || (other.hardware, other.subnet) == (hardware, subnet)
            };
            if others.any(is_same) {
                return Err(format!(
                    "‘{text}’: the address or client has a reservation already"
                ));
            }
            plan.reservations.push(Reservation {
                hardware,
                address,
                subnet,
            });
        }
        Ok(plan)
    }

    /// The subnet that an address is in.
    pub fn subnet_of(&self, address: Ipv4Addr) -> Option<u16> {
        let mut subnets = self.subnets.iter();
        let at = subnets.position(|subnet| subnet.prefix.contains(address));
        at.map(|at| at as u16)
    }
}
