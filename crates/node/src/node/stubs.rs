//! Stubs: links without an interface.

use switch::lookup::FlowDefault;

use super::Node;
use super::links::{MTU, next_domain};
use super::resource::Resource;
use super::switches::check_lookup;
use crate::error::{Error, Fault, Result};
use crate::model::{Class, Link, LinkRecord, Object, Stub, check_name, check_stub_mtu};

impl Resource for Stub {
    fn all(node: &mut Node) -> Result<Vec<Object<Stub>>> {
        let mut links = node.store.all::<LinkRecord>()?;
        links.retain(|link| link.class == Class::Stub);
        let object = |link: LinkRecord| Object {
            status: node.link_status(&link),
            spec: (&link).into(),
            name: link.name,
        };
        Ok(links.into_iter().map(object).collect())
    }

    fn one(node: &mut Node, name: &str) -> Result<Object<Stub>> {
        let none = || Fault::NoSuchStub { name: name.into() };
        let link = node.store.get::<LinkRecord>(name)?.ok_or_else(none)?;
        if link.class == Class::Nic {
            return Err(Fault::NoStub { name: name.into() }.into());
        }
        Ok(Object {
            status: node.link_status(&link),
            spec: (&link).into(),
            name: link.name,
        })
    }

    fn create(node: &mut Node, name: &str, spec: Stub) -> Result<()> {
        node.create_stub(name, spec)
    }

    fn change(node: &mut Node, name: &str, spec: Stub) -> Result<()> {
        if spec.mtu.unwrap_or(MTU) != node.find_link(name)?.mtu {
            return Err(Fault::Fixed {
                what: "stub",
                name: name.into(),
                can: "the switch's properties",
                field: "mtu".into(),
            }
            .into());
        }
        node.set_domain(name, &spec.properties)
    }

    fn delete(node: &mut Node, name: &str) -> Result<()> {
        node.remove_link(name, Class::Stub)
    }
}

impl Node {
    /// Makes a stub.
    pub fn create_stub(&mut self, name: &str, spec: Stub) -> Result<()> {
        check_name("stub", name)?;
        self.check_free(name)?;
        let mtu = spec.mtu.unwrap_or(MTU);
        check_stub_mtu(mtu)?;
        spec.properties.check().map_err(Error::of_switch)?;
        check_lookup(&spec.properties, "lookup")?;
        let change = self.store.change()?;
        let link = LinkRecord {
            name: name.into(),
            spec: Link {
                properties: spec.properties,
                ..Link::default()
            },
            domain: next_domain(&change)?,
            class: Class::Stub,
            mtu,
            gro: false,
            index: None,
            default: FlowDefault::default(),
        };
        change.put(&link)?;
        self.commit_domain(change, &link)
    }
}
