//! Resources as the API serves them: at once, or after a wait.

use super::Handle;
use crate::error::Result;
use crate::model::{
    Application, Event, Flow, Guest, Happened, Link, Nsm, Object, Stub, SwitchFunction, Topic,
    Vnic, Wire,
};
use crate::node::resource::Resource;
use crate::node::{Node, for_each_resource};

/// A resource that a service has. Unless there is something to wait for, it is the node's.
pub trait Served: Resource {
    /// What events of it are of.
    const TOPIC: Topic;

    /// Creates one.
    fn create_on(
        handle: Handle,
        name: String,
        spec: Self,
    ) -> impl Future<Output = Result<Object<Self>>> + Send {
        async move {
            let create = move |node: &mut Node| {
                Self::create(node, &name, spec)?;
                node.tell_change(Self::TOPIC, &name, Happened::Created, None);
                Self::one(node, &name)
            };
            handle.run(create).await
        }
    }

    /// Changes an existing resource to `spec`.
    fn change_on(
        handle: Handle,
        name: String,
        spec: Self,
    ) -> impl Future<Output = Result<Object<Self>>> + Send {
        async move {
            let change = move |node: &mut Node| {
                let note = Self::note_of_change(node, &name, &spec);
                Self::change(node, &name, spec)?;
                node.tell_change(Self::TOPIC, &name, Happened::Changed, note);
                Self::one(node, &name)
            };
            handle.run(change).await
        }
    }

    /// Removes one.
    fn delete_on(handle: Handle, name: String) -> impl Future<Output = Result<()>> + Send {
        async move {
            let delete = move |node: &mut Node| {
                Self::delete(node, &name)?;
                node.tell_change(Self::TOPIC, &name, Happened::Removed, None);
                Ok(())
            };
            handle.run(delete).await
        }
    }
}

macro_rules! served_at_once {
    ($($resource:ident),*; $($waiting:ident),*) => {
        $(impl Served for $resource {
            const TOPIC: Topic = Topic::$resource;
        })*
    };
}
for_each_resource!(served_at_once);

impl Served for SwitchFunction {
    const TOPIC: Topic = Topic::Link;

    async fn change_on(handle: Handle, name: String, spec: Self) -> Result<Object<Self>> {
        let set = move |node: &mut Node| {
            let set = node.set_switch(&name, &spec)?;
            node.tell_change(Topic::Link, &name, Happened::Changed, None);
            Ok(set)
        };
        handle.run(set).await
    }
}

impl Served for Nsm {
    const TOPIC: Topic = Topic::Nsm;

    async fn create_on(handle: Handle, name: String, spec: Self) -> Result<Object<Self>> {
        handle.create_nsm(name, spec).await
    }
}

impl Served for Application {
    const TOPIC: Topic = Topic::Application;

    async fn delete_on(handle: Handle, name: String) -> Result<()> {
        handle.delete_application(name).await
    }
}

impl Served for Guest {
    const TOPIC: Topic = Topic::Guest;

    async fn create_on(handle: Handle, name: String, spec: Self) -> Result<Object<Self>> {
        handle.create_guest(name, spec).await
    }

    async fn delete_on(handle: Handle, name: String) -> Result<()> {
        handle.destroy_guest(name).await
    }

    async fn change_on(handle: Handle, name: String, spec: Self) -> Result<Object<Self>> {
        let event = Event::of(Topic::Guest, &name, Happened::Changed);
        let new = move |_: &Guest| Ok(spec.clone());
        handle.edit_guest(name, new, event).await
    }
}

impl Served for Wire {
    const TOPIC: Topic = Topic::Wire;

    async fn delete_on(handle: Handle, name: String) -> Result<()> {
        handle.delete_wire(name).await
    }
}
