//! Checking a configuration as a guest would take it, before there is a guest.

use std::path::Path;

use click::{Diagnostics, Options};
use packet::{Batch, Pool};
use router::args::{EtherAddress, Interfaces, NameDatabase};
use router::{Device, Embedding, Router, Runtime, Settings, Steady};

use super::links;

/// Elements that name the guest's interfaces.
const DEVICES: [&str; 4] = ["FromNetfront", "ToNetfront", "FromDevice", "ToDevice"];

/// What a guest would find around itself, without anything in it.
struct Dry {
    guest: String,
    interfaces: Vec<String>,
}

struct NoTraffic([u8; 6]);

impl Device for NoTraffic {
    fn mac(&self) -> [u8; 6] {
        self.0
    }
    fn mtu(&self) -> usize {
        1500
    }
    fn receive(&mut self, _pool: &mut Pool, _batch: &mut Batch, _most: usize) {}
    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) {
        pool.recycle(batch);
    }
    fn room(&mut self) -> usize {
        0
    }
    fn arm_receive(&mut self) -> bool {
        true
    }
    fn arm_transmit(&mut self) -> bool {
        true
    }
    fn has_received(&mut self) -> bool {
        false
    }
}

impl Embedding for Dry {
    fn steady(&self) -> Steady {
        Steady(0)
    }
    fn wall(&self) -> i64 {
        0
    }
    fn chatter(&mut self, _line: &str) {}
    fn seed(&mut self) -> u64 {
        0
    }
    fn driver(&self) -> &'static str {
        "guest"
    }
    fn names(&mut self) -> NameDatabase {
        let address = |name: &String| EtherAddress(links::address(&self.guest, name));
        let interfaces = self
            .interfaces
            .iter()
            .map(|name| (name.clone(), address(name)));
        let mut names = NameDatabase::new();
        names.set_host(Box::new(Interfaces(interfaces.collect())));
        names
    }

    fn device(&mut self, name: &str) -> Option<Box<dyn Device>> {
        let known = self.interfaces.iter().any(|interface| interface == name);
        known.then(|| Box::new(NoTraffic(links::address(&self.guest, name))) as Box<dyn Device>)
    }
}

/// Checks `source` as guest `guest` with `interfaces` would take it. What is wrong, or merely odd,
/// is in the diagnostics.
pub fn check(source: &[u8], file: &Path, guest: &str, interfaces: &[String]) -> Diagnostics {
    let mut diagnostics = Diagnostics::new();
    let library = elements::guest_library();
    let options = Options::new(&library);
    let name = file.display().to_string();
    if let Some(flat) = click::parse(source, &name, &options, &mut diagnostics) {
        // Before anything else: arguments may name the interfaces too, and be odd without them.
        for (interface, location) in links::named(&flat, &DEVICES) {
            if !interfaces.contains(&interface) {
                diagnostics.error(
                    &location,
                    format_args!(
                        "interface ‘{interface}’ stands on nothing: give it a link, as in --link {interface}=tap:weir0"
                    ),
                );
            }
        }
        if diagnostics.errors() > 0 {
            return diagnostics;
        }
        let dry = Dry {
            guest: guest.into(),
            interfaces: interfaces.to_vec(),
        };
        let runtime = Runtime::new(Box::new(dry), Pool::heap(256));
        let text = String::from_utf8_lossy(source);
        let settings = Settings::default();
        if let Ok(router) = Router::new(flat, &text, &library, runtime, settings, &mut diagnostics)
        {
            router.end();
        }
    }
    diagnostics
}
