//! Guests and switches for the measurements in memory, and this program in place of a guest.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use abi::message::kind;
use abi::region::{Geometry, Interface, Region};
use abi::ring::Slot;
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::{CpuSet, sched_setaffinity};
use switch::client::{Guest as Attachment, SwitchClient};
use switch::memory::{GuestSide, SharedRegion};
use switch::process::{Options, Switch};
use switch::properties::PortProperties;
use switch::protocol::GuestInterface;
use vmm::{Control, DataFile, Guest, GuestSpec, Isolation, Template};

use super::Failure;

/// Slots of each ring.
pub const SLOTS: u32 = 1024;
/// How long a guest may take to start or to answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A switch with one lane on a CPU.
pub fn switch_on(cpu: usize) -> Result<Switch, Failure> {
    Ok(Switch::spawn_with(&Options {
        lanes: 1,
        cpus: vec![cpu],
    })?)
}

/// Binds this program to a CPU; returns its former affinity.
pub fn move_to(cpu: usize) -> Result<CpuSet, Failure> {
    let before = rustix::thread::sched_getaffinity(None)?;
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)?;
    Ok(before)
}

/// A station address, by its last byte.
pub fn station(last: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, last]
}

/// Rings with a switch.
struct Memory {
    region: Arc<SharedRegion>,
    file: OwnedFd,
    doorbell: OwnedFd,
    geometry: Geometry,
}

/// Makes the rings of a guest whose interfaces have a name, a station and a domain each, and
/// attaches them.
fn attach(
    switch: &SwitchClient,
    slots: u32,
    interfaces: &[(&str, u8, u32)],
) -> Result<Memory, Failure> {
    let described = interfaces
        .iter()
        .map(|(name, last, _)| Interface::new(name, station(*last), 1500))
        .collect::<Option<Vec<_>>>()
        .ok_or("a name that no interface can have")?;
    let geometry = Geometry::new(slots, described.len())?;
    let (region, file) = SharedRegion::create(geometry, &described)?;
    let doorbell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    switch.attach_guest(Attachment {
        region: file.as_fd(),
        doorbell: doorbell.as_fd(),
        shared: None,
        waits: None,
        slots,
        interfaces: interfaces
            .iter()
            .map(|(name, _, domain)| GuestInterface {
                name: (*name).into(),
                domain: *domain,
                mtu: 1500,
                mac: None,
                properties: PortProperties::default(),
                replaces: None,
                behind: None,
            })
            .collect(),
    })?;
    Ok(Memory {
        region: Arc::new(region),
        file,
        doorbell,
        geometry,
    })
}

/// A running guest.
pub struct Running {
    _guest: Guest,
    control: Control,
    _memory: Memory,
}

impl Running {
    /// Starts a guest on a CPU.
    pub fn start(
        template: &Template,
        switch: &Switch,
        wall: (Isolation, usize),
        interfaces: &[(&str, u8, u32)],
        config: &str,
    ) -> Result<Running, Failure> {
        Running::with_slots(SLOTS, template, switch, wall, interfaces, config)
    }

    /// Starts a guest whose rings have `slots` slots.
    pub fn with_slots(
        slots: u32,
        template: &Template,
        switch: &Switch,
        (isolation, cpu): (Isolation, usize),
        interfaces: &[(&str, u8, u32)],
        config: &str,
    ) -> Result<Running, Failure> {
        let memory = attach(switch.client(), slots, interfaces)?;
        let mut control = Control::new()?;
        let guest = template.spawn(&GuestSpec {
            isolation,
            config: config.as_bytes(),
            data: Some(DataFile {
                file: memory.file.as_fd(),
                length: memory.geometry.bytes(),
                wake_offset: Region::WAKE_OFFSET,
            }),
            switch_doorbell: Some(memory.doorbell.as_fd()),
            pins: &[cpu],
            ..GuestSpec::new("bench", 1, &control)
        })?;
        let asked = Instant::now();
        while control.state() != Some(abi::control::State::Running) {
            if asked.elapsed() > TIMEOUT {
                let mut console = Vec::new();
                control.read_console(&mut console)?;
                let said = String::from_utf8_lossy(&console).into_owned();
                return Err(format!("a guest did not start: {said}").into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Running {
            _guest: guest,
            control,
            _memory: memory,
        })
    }

    /// Reads a handler that gives a number.
    pub fn number(&mut self, handler: &str) -> Result<u64, Failure> {
        let answer = self.control.call(kind::READ, handler, TIMEOUT)?;
        Ok(String::from_utf8_lossy(&answer.contents).trim().parse()?)
    }
}

/// This program in a guest's place.
pub struct Own {
    doorbell: OwnedFd,
    sides: Vec<GuestSide>,
}

impl Own {
    /// Attaches interfaces with a name, a station and a domain each.
    pub fn attach(
        switch: &Switch,
        slots: u32,
        interfaces: &[(&str, u8, u32)],
    ) -> Result<Own, Failure> {
        let memory = attach(switch.client(), slots, interfaces)?;
        let sides = (0..interfaces.len()).map(|i| memory.region.guest_side(i));
        let sides = sides.collect::<Option<_>>().ok_or("rings are taken")?;
        Ok(Own {
            doorbell: memory.doorbell,
            sides,
        })
    }

    /// Sends a frame by interface `i`; the ring must not be full.
    pub fn send(&mut self, i: usize, frame: &[u8]) -> Result<(), Failure> {
        let side = &mut self.sides[i];
        if side.transmit.free(1).map_err(|_| "the ring is broken")? == 0 {
            return Err("the ring is full".into());
        }
        let slot = Slot {
            len: frame.len() as u16,
            ..Slot::spent(side.transmit.peek(0).buffer)
        };
        let room = side.region.frame(slot).map_err(|_| "no such buffer")?;
        room.write(frame);
        side.transmit.fill(0, slot);
        side.transmit.publish(1);
        if side.transmit.consumer_sleeps() {
            rustix::io::write(&self.doorbell, &1u64.to_ne_bytes())?;
        }
        Ok(())
    }

    /// Receives the frames of interface `i`, and passes the first 60 bytes of each to `seen`. Returns
    /// how many.
    pub fn receive(&mut self, i: usize, mut show: impl FnMut(&[u8; 60])) -> Result<u32, Failure> {
        let side = &mut self.sides[i];
        let filled = side.receive.filled(1).map_err(|_| "the ring is broken")?;
        for i in 0..filled {
            let slot = side.receive.peek(i);
            let bytes = side.region.frame(slot).map_err(|_| "no such buffer")?;
            if let Some(head) = bytes.read_array::<60>(0) {
                show(&head);
            }
        }
        if filled > 0 {
            side.receive.release(filled);
        }
        Ok(filled)
    }
}
