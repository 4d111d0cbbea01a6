//! The table of names: sets of records by name, each name in its zone.

use hashbrown::HashMap;
use router::memory::{MORE_MEMORY, RESERVE};

use super::name::{self, NAME_MAX};
use super::zone_file::{self, Record, Type, Wrong};
use crate::prelude::*;

/// Most names that a chain of aliases has.
pub const CHAIN_MAX: usize = 8;

/// Records of one name and type.
#[derive(Debug)]
pub struct Set {
    pub kind: Type,
    pub ttl: u32,
    /// The data of each.
    pub data: Vec<Vec<u8>>,
}

/// A name.
#[derive(Debug, Default)]
pub struct Node {
    sets: Vec<Set>,
    /// The zone that it is in.
    zone: u32,
}

impl Node {
    /// The records of a type; of [`Type::ANY`], those of the first type (RFC 8482).
    pub fn set(&self, kind: Type) -> Option<&Set> {
        let mut sets = self.sets.iter();
        sets.find(|set| set.kind == kind || kind == Type::ANY)
    }
}

/// A zone: what answers without records say of it.
#[derive(Debug)]
pub struct Zone {
    /// Its name.
    pub name: Box<[u8]>,
    /// Its SOA record.
    pub data: Vec<u8>,
    /// Seconds that others may keep such an answer (RFC 2308, section 5).
    pub ttl: u32,
}

/// What is known of a name.
#[derive(Debug)]
pub enum Found<'t> {
    /// The name is there.
    Name(&'t Node, &'t Zone),
    /// The zone does not have it.
    Missing(&'t Zone),
    /// It is in no zone.
    Foreign,
}

/// The records of a text, by name.
#[derive(Debug, Default)]
pub struct Table {
    /// By names in small letters. What is between a name and its zone is there too, without records.
    names: HashMap<Box<[u8]>, u32>,
    nodes: Vec<Node>,
    zones: Vec<Zone>,
    records: usize,
    /// Most labels of a name.
    depth: usize,
}

/// Bytes of memory for each byte of text while a table is made: measured, with short records.
const FACTOR: usize = 12;

/// Why there is no table.
pub enum Refusal {
    /// A line is wrong.
    Line(Wrong),
    /// There is not enough memory.
    NoMemory,
}

impl From<Wrong> for Refusal {
    fn from(wrong: Wrong) -> Refusal {
        Refusal::Line(wrong)
    }
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Refusal::Line((line, why)) => write!(f, "line {line}: {why}"),
            Refusal::NoMemory => {
                write!(
                    f,
                    "there is not enough memory for these records; {MORE_MEMORY}"
                )
            }
        }
    }
}

/// A name in small letters.
pub fn small(name: &[u8], buffer: &mut [u8; NAME_MAX]) -> usize {
    let length = name.len().min(NAME_MAX);
    let small = &mut buffer[..length];
    small.copy_from_slice(&name[..length]);
    // A label's length is at most 63, which is no letter.
    small.make_ascii_lowercase();
    length
}

/// What is wrong with a text of records.
pub fn check(text: &str) -> Option<Wrong> {
    match Table::new(text) {
        Err(Refusal::Line(wrong)) => Some(wrong),
        _ => None,
    }
}

impl Table {
    /// The table of a text. A mistake is told with its line.
    pub fn new(text: &str) -> Result<Table, Refusal> {
        if !router::memory::spare(FACTOR * text.len() + RESERVE) {
            return Err(Refusal::NoMemory);
        }
        let mut records = zone_file::parse(text)?;
        for record in &mut records {
            record.name.make_ascii_lowercase();
        }
        let mut table = Table {
            records: records.len(),
            ..Table::default()
        };
        let (apexes, others): (Vec<_>, Vec<_>) = records
            .into_iter()
            .partition(|record| record.kind == Type::SOA);
        let apexes: Result<Vec<_>, Wrong> = apexes
            .into_iter()
            .map(|record| table.add_zone(record))
            .collect();
        for name in apexes? {
            if let Some(above) = name::suffixes(&name).nth(1)
                && let Some(zone) = table.zone_of(above)
            {
                table.add_path(&name, zone);
            }
        }
        let mut aliases = Vec::new();
        for record in others {
            if record.kind == Type::CNAME {
                aliases.push((record.line, record.name.clone()));
            }
            table.add(record)?;
        }
        for (line, name) in aliases {
            if table.chain(&name) > CHAIN_MAX {
                let name = name::show(&name);
                let why = format!("‘{name}’ begins a chain of more than {CHAIN_MAX} aliases");
                return Err((line, why).into());
            }
        }
        Ok(table)
    }

    /// Records.
    pub fn records(&self) -> usize {
        self.records
    }

    /// What is known of a name, which is in small letters.
    pub fn find(&self, name: &[u8]) -> Found<'_> {
        // Names deeper than all that are there need not be looked for.
        let beyond = name::labels(name).saturating_sub(self.depth);
        for (up, name) in name::suffixes(name).enumerate().skip(beyond) {
            let Some(number) = self.names.get(name) else {
                continue;
            };
            let node = self.nodes.get(*number as usize);
            let zone = node.and_then(|node| self.zones.get(node.zone as usize));
            return match (node.zip(zone), up) {
                (Some((node, zone)), 0) => Found::Name(node, zone),
                (Some((_, zone)), _) => Found::Missing(zone),
                (None, _) => Found::Foreign,
            };
        }
        Found::Foreign
    }

    fn node(&mut self, name: &[u8], zone: u32) -> &mut Node {
        let number = match self.names.get(name) {
            Some(number) => *number,
            None => {
                let number = self.nodes.len() as u32;
                self.names.insert(name.into(), number);
                self.nodes.push(Node {
                    zone,
                    ..Node::default()
                });
                number
            }
        };
        &mut self.nodes[number as usize]
    }

    /// The number of the zone that a name is in.
    fn zone_of(&self, name: &[u8]) -> Option<u32> {
        match self.find(name) {
            Found::Name(node, _) => Some(node.zone),
            Found::Missing(zone) => {
                let mut zones = self.zones.iter();
                let at = zones.position(|it| core::ptr::eq(it, zone));
                at.map(|at| at as u32)
            }
            Found::Foreign => None,
        }
    }

    /// Adds what is between a name and its zone: these names exist, without records (RFC 8020).
    fn add_path(&mut self, name: &[u8], zone: u32) {
        let apex = self.zones[zone as usize].name.len();
        for between in name::suffixes(name).skip(1) {
            if between.len() <= apex {
                break;
            }
            self.node(between, zone);
        }
    }

    /// Adds a zone; returns its name.
    fn add_zone(&mut self, record: Record) -> Result<Vec<u8>, Wrong> {
        if self.names.contains_key(&record.name[..]) {
            let name = name::show(&record.name);
            return Err((record.line, format!("‘{name}’ has two SOA records")));
        }
        let minimum = record
            .data
            .last_chunk()
            .map_or(0, |it| u32::from_be_bytes(*it));
        let zone = self.zones.len() as u32;
        self.zones.push(Zone {
            name: record.name[..].into(),
            data: record.data.clone(),
            ttl: record.ttl.min(minimum),
        });
        self.depth = self.depth.max(name::labels(&record.name));
        self.node(&record.name, zone).sets.push(Set {
            kind: Type::SOA,
            ttl: record.ttl,
            data: alloc::vec![record.data],
        });
        Ok(record.name)
    }

    fn add(&mut self, record: Record) -> Result<(), Wrong> {
        let (line, shown) = (record.line, name::show(&record.name));
        let Some(zone) = self.zone_of(&record.name) else {
            let why = format!("‘{shown}’ is in no zone: give the zone a SOA record");
            return Err((line, why));
        };
        let apex = self.zones[zone as usize].name.len();
        if record.kind == Type::NS && record.name.len() != apex {
            let why = format!("‘{shown}’ is a part of the zone; zones below a zone are not served");
            return Err((line, why));
        }
        self.depth = self.depth.max(name::labels(&record.name));
        self.add_path(&record.name, zone);
        let node = self.node(&record.name, zone);
        let is_alias = record.kind == Type::CNAME;
        if !node.sets.is_empty() && (is_alias || node.set(Type::CNAME).is_some()) {
            return Err((line, format!("‘{shown}’ has a CNAME record and another")));
        }
        match node.sets.iter_mut().find(|set| set.kind == record.kind) {
            Some(set) if set.ttl != record.ttl => {
                let why = format!("records of ‘{shown}’ of one type have different times to live");
                return Err((line, why));
            }
            Some(set) if set.data.contains(&record.data) => {
                return Err((line, format!("‘{shown}’ has this record twice")));
            }
            Some(set) => set.data.push(record.data),
            None => node.sets.push(Set {
                kind: record.kind,
                ttl: record.ttl,
                data: alloc::vec![record.data],
            }),
        }
        Ok(())
    }

    /// Aliases that follow from a name, or more than there may be.
    fn chain(&self, name: &[u8]) -> usize {
        let mut buffer = [0; NAME_MAX];
        let mut length = small(name, &mut buffer);
        for count in 0..=CHAIN_MAX {
            let Found::Name(node, _) = self.find(&buffer[..length]) else {
                return count;
            };
            let Some(target) = node.set(Type::CNAME).and_then(|set| set.data.first()) else {
                return count;
            };
            length = small(target, &mut buffer);
        }
        CHAIN_MAX + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: &str = "$ORIGIN example.\n@ SOA ns root 1 2 3 4 5\n";

    fn wrong(text: &str) -> Wrong {
        check(&format!("{ZONE}{text}")).unwrap()
    }

    #[test]
    fn names_are_found_in_their_zone() {
        let text = format!(
            "{ZONE}a.b A 1.2.3.4\nWWW A 1.2.3.4\nsub SOA ns root 1 2 3 4 9\nx.sub A 1.1.1.1\n"
        );
        let table = Table::new(&text).unwrap_or_else(|refusal| panic!("{refusal}"));
        let find = |text: &str| table.find(&name::parse(text, &[0]).unwrap());
        assert!(
            matches!(find("www.example."), Found::Name(node, _) if node.set(Type::A).is_some())
        );
        assert!(
            matches!(find("b.example."), Found::Name(node, _) if node.set(Type::ANY).is_none())
        );
        assert!(matches!(find("c.a.b.example."), Found::Missing(zone) if zone.ttl == 5));
        assert!(
            matches!(find(&("a.".repeat(120) + "sub.example.")), Found::Missing(zone) if zone.ttl == 9)
        );
        assert!(matches!(find("x.sub.example."), Found::Name(_, zone) if zone.ttl == 9));
        assert!(matches!(find("org."), Found::Foreign));
        assert!(matches!(find("."), Found::Foreign));
        assert_eq!(table.records(), 5);
    }

    #[test]
    fn records_that_do_not_go_together_are_told() {
        for (text, line, why) in [
            (
                "\na.org. A 1.2.3.4",
                4,
                "‘a.org.’ is in no zone: give the zone a SOA record",
            ),
            (
                "a A 1.2.3.4\na CNAME b",
                4,
                "‘a.example.’ has a CNAME record and another",
            ),
            ("a CNAME b\na CNAME c", 4, "a CNAME record and another"),
            ("a A 1.2.3.4\na 5 A 1.2.3.5", 4, "different times to live"),
            ("a A 1.2.3.4\nA A 1.2.3.4", 4, "has this record twice"),
            ("@ SOA a b 1 1 1 1 1", 3, "‘example.’ has two SOA records"),
            ("a NS b", 3, "zones below a zone are not served"),
            (
                "a CNAME b\nb CNAME A",
                3,
                "‘a.example.’ begins a chain of more than 8 aliases",
            ),
        ] {
            let (at, said) = wrong(text);
            assert_eq!(at, line, "{text}: {said}");
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
