//! What a scheduler knows of hosts and guests. These are the types of files, of the API and of messages between
//! hosts.

mod units;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use units::{Memory, NoAmount, Processors, Rate};

use crate::error::{Error, Result};

/// Longest name, label or value, in bytes.
pub const TEXT_MAX: usize = 256;
/// Most entries of any list of a host's or guest's facts.
pub const ENTRIES_MAX: usize = 256;

/// The wall around a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wall {
    /// A virtual machine, behind KVM.
    Vm,
    /// A process under a system call filter.
    Process,
}

impl Wall {
    /// Its name in files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Wall::Vm => "vm",
            Wall::Process => "process",
        }
    }
}

/// Whether a host takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostState {
    /// It runs guests.
    #[default]
    Up,
    /// It runs, and its guests are to leave it.
    Maintenance,
    /// It was put to sleep to save power.
    Asleep,
    /// It does not answer.
    Down,
}

/// A host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Host {
    /// Whether it takes part.
    pub state: HostState,
    /// Memory that guests may have.
    pub memory: Memory,
    /// Processors that guests may use.
    pub processors: Processors,
    /// Processor time that the host itself uses beside its guests, as measured.
    pub load: Processors,
    /// Most guests it has room for.
    pub max_guests: Option<u32>,
    /// Its links, and the rate of each.
    pub links: BTreeMap<String, Rate>,
    /// Lanes of its switch.
    pub lanes: u16,
    /// Walls that it can put around a guest.
    pub walls: BTreeSet<Wall>,
    /// Labels that its operator gave it.
    pub labels: BTreeSet<String>,
    /// Images that it has ready, so that a guest of one starts sooner.
    pub images: BTreeSet<String>,
    /// Features of its processors.
    pub features: BTreeSet<String>,
    /// The build of the guest image that it runs. A guest's state moves between hosts of one build.
    pub build: String,
    /// Where it stands, from the outside in: `hall-1/rack-3`. Hosts are the nearer, the longer the part that they
    /// have in common.
    pub site: String,
    /// Properties of its own, for plugins.
    pub custom: BTreeMap<String, String>,
}

/// Whether the members of a group stay together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Affinity {
    /// All on one host.
    Together,
    /// Each on a host of its own.
    Apart,
}

/// A group that a guest belongs to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Membership {
    /// The group's name.
    pub group: String,
    /// What its members want of each other.
    pub affinity: Affinity,
    /// Whether the guest rather does not run than against it.
    #[serde(default)]
    pub hard: bool,
}

/// State of a guest that must move with it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct GuestState {
    /// The build of the guest image that made it.
    pub build: String,
    /// Features of processors that the guest found and uses.
    #[serde(default)]
    pub features: BTreeSet<String>,
}

/// A guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Guest {
    /// Memory that it has.
    pub memory: Memory,
    /// Virtual processors. A host has at least so many processors.
    pub vcpus: u16,
    /// Processors that are reserved for it.
    pub processors: Processors,
    /// Processor time that it uses, as measured; default: what is reserved.
    pub load: Option<Processors>,
    /// Links that its VNICs need, and the rate that is reserved on each; 0 reserves none.
    pub links: BTreeMap<String, Rate>,
    /// Lanes that one of its VNICs needs.
    pub lanes: u16,
    /// The wall that it needs; default: any.
    pub wall: Option<Wall>,
    /// Hosts that it may run on; none: all.
    pub pinned: BTreeSet<String>,
    /// Hosts that it should rather run on.
    pub preferred: BTreeSet<String>,
    /// Labels that its host must have.
    pub labels: BTreeSet<String>,
    /// Labels that its host must not have.
    pub anti_labels: BTreeSet<String>,
    /// Groups that it belongs to.
    pub affinity: Vec<Membership>,
    /// Guests that it is wired to.
    pub chain: BTreeSet<String>,
    /// The image that it starts from.
    pub image: Option<String>,
    /// State that must move with it: it runs, or it was saved.
    pub state: Option<GuestState>,
    /// Whether it starts again where its host failed, under every policy.
    pub highly_available: bool,
    /// Whether a balancer may move it.
    pub migratable: bool,
    /// Properties of its own, for plugins.
    pub custom: BTreeMap<String, String>,
}

impl Default for Guest {
    fn default() -> Guest {
        Guest {
            memory: Memory::default(),
            vcpus: 1,
            processors: Processors::default(),
            load: None,
            links: BTreeMap::new(),
            lanes: 0,
            wall: None,
            pinned: BTreeSet::new(),
            preferred: BTreeSet::new(),
            labels: BTreeSet::new(),
            anti_labels: BTreeSet::new(),
            affinity: Vec::new(),
            chain: BTreeSet::new(),
            image: None,
            state: None,
            highly_available: false,
            migratable: true,
            custom: BTreeMap::new(),
        }
    }
}

impl Guest {
    /// Processor time that it uses.
    pub fn used(&self) -> Processors {
        self.load.unwrap_or(self.processors)
    }

    /// Refuses facts beyond the limits.
    pub fn check(&self, name: &str) -> Result<()> {
        let mut check = Check::new("guest", name)?;
        check.names("pinned", &self.pinned)?;
        check.names("preferred", &self.preferred)?;
        check.names("labels", &self.labels)?;
        check.names("anti-labels", &self.anti_labels)?;
        check.names("chain", &self.chain)?;
        check.names("links", self.links.keys())?;
        check.names("custom", self.custom.keys())?;
        check.texts("custom", self.custom.values())?;
        check.names("affinity", self.affinity.iter().map(|member| &member.group))?;
        check.names("image", self.image.as_slice())?;
        if let Some(state) = &self.state {
            check.texts("state", [&state.build])?;
            check.names("state", &state.features)?;
        }
        let groups: BTreeSet<_> = self.affinity.iter().map(|member| &member.group).collect();
        if groups.len() < self.affinity.len() {
            return Err(check.wrong("affinity", "it names a group twice; name each once"));
        }
        Ok(())
    }
}

impl Host {
    /// Refuses facts beyond the limits.
    pub fn check(&self, name: &str) -> Result<()> {
        let mut check = Check::new("host", name)?;
        check.names("links", self.links.keys())?;
        check.names("labels", &self.labels)?;
        check.names("images", &self.images)?;
        check.names("features", &self.features)?;
        check.texts("build", [&self.build])?;
        check.texts("site", [&self.site])?;
        check.names("custom", self.custom.keys())?;
        check.texts("custom", self.custom.values())
    }
}

/// Holds the facts of one object against the limits.
struct Check<'a> {
    kind: &'static str,
    name: &'a str,
}

impl<'a> Check<'a> {
    fn new(kind: &'static str, name: &'a str) -> Result<Check<'a>> {
        let check = Check { kind, name };
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.len() > TEXT_MAX || !name.chars().all(plain) {
            return Err(Error::Name {
                kind,
                name: name.escape_debug().take(64).collect(),
            });
        }
        Ok(check)
    }

    fn wrong(&self, field: &'static str, why: &str) -> Error {
        Error::Fact {
            kind: self.kind,
            name: self.name.into(),
            field,
            why: why.into(),
        }
    }

    fn names<T: AsRef<str>>(
        &mut self,
        field: &'static str,
        names: impl IntoIterator<Item = T>,
    ) -> Result<()> {
        self.each(field, names, true)
    }

    fn texts<T: AsRef<str>>(
        &mut self,
        field: &'static str,
        texts: impl IntoIterator<Item = T>,
    ) -> Result<()> {
        self.each(field, texts, false)
    }

    fn each<T: AsRef<str>>(
        &mut self,
        field: &'static str,
        texts: impl IntoIterator<Item = T>,
        named: bool,
    ) -> Result<()> {
        for (count, text) in texts.into_iter().enumerate() {
            let text = text.as_ref();
            if count >= ENTRIES_MAX {
                let why = format!("it has more than {ENTRIES_MAX} entries");
                return Err(self.wrong(field, &why));
            }
            if text.len() > TEXT_MAX || (named && text.is_empty()) {
                let why = format!("an entry has from 1 to {TEXT_MAX} bytes");
                return Err(self.wrong(field, &why));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_the_api_has_them() {
        let host: Host = toml::from_str(
            "memory = '64G'\nprocessors = 16\nmax-guests = 2000\nlinks = { wan = '10G' }\nwalls = ['vm']\nstate = 'maintenance'",
        )
        .unwrap();
        assert_eq!(host.memory, Memory(64 << 30));
        assert_eq!(host.state, HostState::Maintenance);
        let guest: Guest = toml::from_str(
            "anti-labels = ['old']\naffinity = [{ group = 'web', affinity = 'apart', hard = true }]",
        )
        .unwrap();
        assert!(guest.affinity[0].hard && guest.migratable);
        assert_eq!(guest.vcpus, 1);
        let error = toml::from_str::<Guest>("colour = 3")
            .unwrap_err()
            .to_string();
        assert!(error.contains("unknown field `colour`"), "{error}");
    }

    #[test]
    fn facts_have_limits() {
        let mut guest = Guest::default();
        assert!(guest.check("web-1").is_ok());
        assert!(
            guest
                .check("a b")
                .unwrap_err()
                .to_string()
                .contains("‘a b’")
        );
        guest.chain = (0..=ENTRIES_MAX).map(|i| i.to_string()).collect();
        let error = guest.check("web-1").unwrap_err().to_string();
        assert_eq!(error, "guest web-1: chain: it has more than 256 entries");
        let mut host = Host::default();
        host.labels.insert("x".repeat(300));
        assert!(host.check("h").is_err());
    }
}
