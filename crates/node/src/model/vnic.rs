//! VNICs.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use switch::lookup::Mac;
use switch::port::guest::MTU_MAX;
use switch::properties::PortProperties;
use utoipa::ToSchema;

use super::State;

/// Whether an interface can have `mac` as its own.
pub fn is_usable(mac: Mac) -> bool {
    !mac.is_multicast() && mac.0 != [0; 6]
}

/// What a VNIC is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Serves {
    /// A guest's interface: the guest takes it when it is created.
    #[default]
    Guest,
    /// A network namespace: an interface is made there. Its name (`ip netns`), or a path.
    Netns(String),
    /// The host: an interface is made there.
    Host,
    /// A virtual machine or program that connects to this socket, which the switch serves by
    /// vhost-user.
    VhostUser(String),
}

/// A VNIC as it is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Vnic {
    /// Its name, and that of its port.
    pub name: String,
    /// The link that it stands on.
    pub link: String,
    /// Its address.
    pub mac: Mac,
    /// What it is for.
    pub serves: Serves,
    /// The name that its interface has in the namespace or on the host, if not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The IP addresses of its interface in the namespace or on the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpNet>,
    /// Whether it was made for a guest's interface and goes with the guest.
    #[serde(default)]
    pub implicit: bool,
    /// What its port may do.
    pub properties: PortProperties,
}

impl Vnic {
    /// The name that its interface has in the namespace or on the host.
    pub fn interface(&self) -> &str {
        self.interface.as_deref().unwrap_or(&self.name)
    }
}

/// A VNIC to be made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewVnic {
    /// Its name.
    pub name: String,
    /// The link that it stands on.
    pub link: String,
    /// Its address; without one, a random one.
    #[serde(default)]
    #[schema(value_type = Option<String>, example = "02:00:00:00:00:01")]
    pub mac: Option<Mac>,
    /// What it is for.
    #[serde(default)]
    pub serves: Serves,
    /// The name that its interface has in the namespace or on the host, if not its own.
    #[serde(default)]
    pub interface: Option<String>,
    /// The IP addresses of that interface, with their prefixes.
    #[serde(default)]
    #[schema(value_type = Vec<String>, example = json!(["10.0.0.2/24"]))]
    pub addresses: Vec<IpNet>,
    /// `maxbw=100M,priority=high`, as on the command line.
    #[serde(default)]
    pub properties: String,
}

/// A VNIC as it is.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct VnicView {
    /// Its name.
    pub name: String,
    /// The link that it stands on.
    pub link: String,
    /// Its address.
    #[schema(value_type = String, example = "02:00:00:00:00:01")]
    pub mac: Mac,
    /// Its VLAN, if it gives access to one.
    pub vlan: Option<u16>,
    /// Largest IP packet, in bytes.
    pub mtu: u16,
    /// What it is for.
    pub serves: Serves,
    /// The guest that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<String>,
    /// The name of its interface in the namespace or on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The IP addresses that the node gives that interface.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<String>, example = json!(["10.0.0.2/24"]))]
    pub addresses: Vec<IpNet>,
    /// Whether it works.
    pub state: State,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its properties as they are set.
    #[schema(value_type = Object)]
    pub properties: PortProperties,
}

/// That a guest takes shorter packets by a VNIC than its link of this MTU carries, unless the VNIC was
/// given an MTU.
pub(crate) fn takes_less(vnic: &str, asked: Option<u16>, link: &str, mtu: u16) -> Option<String> {
    (asked.is_none() && mtu > MTU_MAX).then(|| {
        format!(
            "vnic ‘{vnic}’: its link ‘{link}’ has an MTU of {mtu} bytes, and a guest takes IP packets of at most {MTU_MAX}: longer ones are dropped, so have its neighbours send none (`mtu={MTU_MAX}`)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_vnic_is_for_has_one_form() {
        let json = |serves: &Serves| serde_json::to_string(serves).unwrap();
        assert_eq!(json(&Serves::Host), "\"host\"");
        assert_eq!(json(&Serves::Netns("a".into())), "{\"netns\":\"a\"}");
    }
}
