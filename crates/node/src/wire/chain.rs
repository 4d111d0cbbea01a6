//! A wire's chains: the stubs, VNICs and guests that each stands for.

use std::collections::BTreeMap;
use std::path::Path;

use crate::chain::{ChainError, Stage, check_names, fuse, stages};
use crate::model::{Chain, Guest, INTERFACE_NAME_MAX, Memory, Stub, Vnic, Wire};

/// Longest name of a chain: the names of its VNICs have a hyphen, a number and a letter besides.
const NAME_MAX: usize = INTERFACE_NAME_MAX - "-16a".len();

/// Interfaces of a guest, each with the switch that it is on.
type Interfaces = Vec<(String, String)>;

impl Wire {
    /// Puts the parts of its chains in their place. Files are relative to `folder`. An error is of
    /// the chain of that name.
    pub fn expand_chains(&mut self, folder: &Path) -> Result<(), (String, ChainError)> {
        for (name, chain) in std::mem::take(&mut self.chains) {
            let expanded = self.expand(&name, chain, folder);
            expanded.map_err(|why| (name, why))?;
        }
        Ok(())
    }

    fn expand(&mut self, name: &str, chain: Chain, folder: &Path) -> Result<(), ChainError> {
        let common = &chain.guest;
        if name.len() > NAME_MAX {
            return Err(ChainError::Name(NAME_MAX));
        }
        if common.file.is_some() || !(common.config.is_empty() && common.interfaces.is_empty()) {
            return Err(ChainError::Guest);
        }
        let stages = stages(&chain.functions, &chain.parameters, folder, common.cpus())?;
        check_names(&stages, chain.interfaces.keys())?;
        let mut others = Vec::new();
        for stage in &stages {
            others.push(others_of(stage, chain.interfaces.get(&stage.name))?);
        }
        let last = stages.len() - 1;
        let open = [&stages[0].sides[0], &stages[last].sides[1]];
        let (open, given) = (open.into_iter().flatten().count(), chain.between.len());
        if open != given {
            return Err(ChainError::Ends { open, given });
        }
        // The switches in the row, each between two functions but for those at the sides.
        let mut switches = chain.between.into_iter();
        if chain.fuse {
            let first = stages[0].sides[0].clone();
            let sides = first.into_iter().chain(stages[last].sides[1].clone());
            let interfaces = sides.zip(switches).chain(others.into_iter().flatten());
            let interfaces: Vec<_> = interfaces.collect();
            // As much as all of them would have.
            let memory = vmm::DEFAULT_MEMORY * stages.len() as u64;
            let guest = Guest {
                memory: chain.guest.memory.or(Some(Memory(memory))),
                config: fuse(name, stages)?,
                ..chain.guest
            };
            return self.add_guest(name, &format!("{name}-"), guest, interfaces);
        }
        let mut before = stages[0].sides[0].as_ref().and_then(|_| switches.next());
        for (i, (stage, others)) in stages.iter().zip(others).enumerate() {
            let number = i + 1;
            let behind = if i == last {
                switches.next()
            } else {
                let stub = format!("{name}-{number}");
                add("stub", &mut self.stubs, &stub, Stub::default())?;
                Some(stub)
            };
            let row = [before, behind.clone()];
            let sides = stage.sides.clone().into_iter().zip(row);
            let sides = sides.filter_map(|(interface, switch)| interface.zip(switch));
            let interfaces = sides.chain(others).collect();
            before = behind;
            let given = chain.parameters.get(&stage.name);
            let guest = Guest {
                file: Some(stage.file.clone()),
                variables: given.cloned().unwrap_or_default(),
                ..common.clone()
            };
            let called = format!("{name}-{}", stage.name);
            self.add_guest(&called, &format!("{name}-{number}"), guest, interfaces)?;
        }
        Ok(())
    }

    /// Adds a guest, and a VNIC for each of its interfaces.
    fn add_guest(
        &mut self,
        name: &str,
        vnics: &str,
        mut guest: Guest,
        interfaces: Interfaces,
    ) -> Result<(), ChainError> {
        for (letter, (interface, link)) in ('a'..).zip(interfaces) {
            let name = format!("{vnics}{letter}");
            let vnic = Vnic {
                link,
                ..Vnic::default()
            };
            add("vnic", &mut self.vnics, &name, vnic)?;
            guest.interfaces.insert(interface, name);
        }
        add("guest", &mut self.guests, name, guest)
    }
}

/// The interfaces of a function besides its two sides, and the switches that the chain gives.
fn others_of(
    stage: &Stage,
    given: Option<&BTreeMap<String, String>>,
) -> Result<Interfaces, ChainError> {
    let given = given.cloned().unwrap_or_default();
    if let Some(interface) = given.keys().find(|it| !stage.others.contains(it)) {
        return Err(ChainError::NotOther {
            function: stage.name.clone(),
            interface: interface.clone(),
        });
    }
    let on = |interface: &String| {
        let link = given.get(interface).ok_or_else(|| ChainError::NoLink {
            function: stage.name.clone(),
            interface: interface.clone(),
        })?;
        Ok((interface.clone(), link.clone()))
    };
    stage.others.iter().map(on).collect()
}

/// Adds a part that the wire does not have yet.
fn add<T>(
    kind: &'static str,
    parts: &mut BTreeMap<String, T>,
    name: &str,
    part: T,
) -> Result<(), ChainError> {
    match parts.insert(name.into(), part) {
        None => Ok(()),
        Some(_) => Err(ChainError::Taken {
            kind,
            name: name.into(),
        }),
    }
}
