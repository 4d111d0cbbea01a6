//! Joins host links in one segment until the input ends, then prints what each counted.
//!
//! `cargo run -p switch --example join -- dev:eth1 tap:weir0`

use std::error::Error;
use std::io::Read;

use switch::links::{HostLink, Tap};
use switch::process::Switch;
use switch::properties::PortProperties;

fn main() -> Result<(), Box<dyn Error>> {
    let switch = Switch::spawn()?;
    let client = switch.client();
    let mut ports = Vec::new();
    for link in std::env::args().skip(1) {
        let opened = match link.split_once(':') {
            Some(("dev", name)) => HostLink::device(name)?,
            Some(("tap", name)) => HostLink::open(&Tap {
                name,
                mac: None,
                mtu: 1500,
                owner: None,
            })?,
            _ => return Err(format!("‘{link}’: a link is dev:NAME or tap:NAME").into()),
        };
        ports.push((
            link,
            client.attach_link(opened, 0, PortProperties::default())?,
        ));
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    for (link, port) in ports {
        client.catch_up(port)?;
        let stats = client.stats(port);
        let (inward, outward) = (stats.frames_in, stats.frames_out);
        println!("{link}: {inward} frames in, {outward} out");
        for (reason, frames) in stats.drops() {
            println!("{link}: {frames} dropped ({})", reason.name());
        }
    }
    Ok(())
}
