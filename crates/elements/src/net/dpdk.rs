//! The ports that DPDK elements name, and the interfaces that stand for them.

use crate::prelude::*;

/// Classes whose first argument is a DPDK port.
pub const CLASSES: [&str; 2] = ["FromDPDKDevice", "ToDPDKDevice"];

/// The number of the interface that stands for `port`: the number it is, or for a PCI address its
/// rank among the PCI addresses of `ports`, the first arguments of all elements of [`CLASSES`] in
/// order.
pub fn index<T: AsRef<str>>(port: &str, ports: impl Iterator<Item = T>) -> Option<usize> {
    if let Ok(number) = port.parse() {
        return Some(number);
    }
    if !is_pci(port) {
        return None;
    }
    let mut before: Vec<String> = Vec::new();
    for other in ports {
        let other = other.as_ref();
        if other == port {
            return Some(before.len());
        }
        if is_pci(other) && !before.iter().any(|known| known == other) {
            before.push(other.to_string());
        }
    }
    None
}

/// Whether `text` is a PCI address: `0000:03:00.1`, or without the domain.
fn is_pci(text: &str) -> bool {
    let hexadecimal = |part: &str, most| {
        (1..=most).contains(&part.len()) && u16::from_str_radix(part, 16).is_ok()
    };
    let Some((slot, function)) = text.rsplit_once('.') else {
        return false;
    };
    let parts: Vec<&str> = slot.split(':').collect();
    hexadecimal(function, 1)
        && match parts[..] {
            [bus, device] => hexadecimal(bus, 2) && hexadecimal(device, 2),
            [domain, bus, device] => {
                hexadecimal(domain, 4) && hexadecimal(bus, 2) && hexadecimal(device, 2)
            }
            _ => false,
        }
}

/// The name of the interface that stands for `port`.
pub(super) fn interface(cx: &Cx<'_>, port: &str) -> Result<String, String> {
    if cx.device_name(0).is_none() {
        return Err(format!(
            "port {port}: there is no interface here; run the configuration by `weir run FILE --link in=dev:eth1 --link out=dev:eth2`, where port N is the Nth --link"
        ));
    }
    let mut names = (0..).map_while(|i| cx.device_name(i));
    if names.any(|name| name == port) {
        return Ok(port.into());
    }
    let elements = cx.graph().elements.iter();
    let ports = elements
        .filter(|element| CLASSES.contains(&element.class.name))
        .filter_map(|element| first_argument(&element.config));
    let Some(index) = index(port, ports) else {
        return Err(format!(
            "bad PORT ‘{port}’; give a port's number, its PCI address, or the name of an interface"
        ));
    };
    cx.device_name(index).ok_or_else(|| {
        let count = (0..).map_while(|i| cx.device_name(i)).count();
        format!(
            "port {port}: it needs {} --link, and there are {count}",
            index + 1
        )
    })
}

/// The first argument of a configuration.
pub fn first_argument(config: &str) -> Option<String> {
    let first = click::config::split_args(config).into_iter().next()?;
    Some(click::config::unquote_text(&first))
}

#[cfg(test)]
mod tests {
    use super::{index, is_pci};

    #[test]
    fn a_number_is_an_index_and_addresses_are_counted() {
        let ports = ["0000:18:00.1", "3", "03:00.0", "0000:18:00.1", "eth0"];
        let of = |port| index(port, ports.iter());
        assert_eq!((of("3"), of("0")), (Some(3), Some(0)));
        assert_eq!(of("0000:18:00.1"), Some(0));
        assert_eq!(of("03:00.0"), Some(1));
        assert_eq!((of("eth0"), of("04:00.0")), (None, None));
    }

    #[test]
    fn pci_addresses_are_told_from_names() {
        for right in ["0000:03:00.0", "3:0.7", "fe:1f.1"] {
            assert!(is_pci(right), "{right}");
        }
        for wrong in [
            "",
            "eth0",
            "a.b",
            "00000:03:00.0",
            "03:00",
            "1:2:3:4.0",
            "03:00.10",
        ] {
            assert!(!is_pci(wrong), "{wrong}");
        }
    }
}
