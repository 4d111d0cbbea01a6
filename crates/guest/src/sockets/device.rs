//! A socket as a device: bytes and datagrams as packets.

use alloc::sync::Arc;

use abi::SharedBytes;
use abi::nqe::{DatagramHead, MORE};
use packet::anno::{AGGREGATE, EXTRA_LENGTH};
use packet::{BATCH, Batch, DATA_MAX, Packet, Pool};
use router::{Device, SocketStatus};
use spin::Mutex;

use super::tenant::{Sent, Tenant};

/// A socket of the guest's tenant.
pub(super) struct SocketDevice {
    tenant: Arc<Mutex<Tenant>>,
    /// Its number in the tenant.
    port: usize,
}

impl SocketDevice {
    pub(super) fn new(tenant: Arc<Mutex<Tenant>>, port: usize) -> SocketDevice {
        SocketDevice { tenant, port }
    }
}

impl Device for SocketDevice {
    fn mac(&self) -> [u8; 6] {
        [0; 6]
    }

    fn mtu(&self) -> usize {
        DATA_MAX
    }

    fn open(&mut self) {
        self.tenant.lock().use_port(self.port);
    }

    fn close(&mut self) {
        self.tenant.lock().leave_port(self.port);
    }

    fn socket_status(&mut self) -> SocketStatus {
        self.tenant.lock().status(self.port)
    }

    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, most: usize) {
        let mut tenant = self.tenant.lock();
        tenant.poll();
        let most = batch.len() + most.min(batch.room());
        while batch.len() < most {
            let Some(packet) = tenant.received(self.port, pool) else {
                break;
            };
            if let Err(packet) = batch.push(packet) {
                pool.kill(packet);
            }
        }
        tenant.flush();
    }

    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch) {
        let mut tenant = self.tenant.lock();
        tenant.poll();
        let mut rest = Batch::new();
        let mut packets = batch.drain();
        for packet in packets.by_ref() {
            match tenant.send(self.port, packet.anno(AGGREGATE), packet.data()) {
                Sent::Done => pool.kill(packet),
                Sent::Later => {
                    let _ = rest.push(packet).map_err(|packet| pool.kill(packet));
                    break;
                }
            }
        }
        for packet in packets {
            let _ = rest.push(packet).map_err(|packet| pool.kill(packet));
        }
        batch.append(&mut rest, BATCH);
        tenant.forget_failure(self.port);
        tenant.flush();
    }

    fn room(&mut self) -> usize {
        let mut tenant = self.tenant.lock();
        tenant.poll();
        tenant.flush();
        if tenant.has_room(self.port) { BATCH } else { 0 }
    }

    fn arm_receive(&mut self, _thread: u16) -> bool {
        let mut tenant = self.tenant.lock();
        tenant.rest();
        !tenant.has_received(self.port)
    }

    fn arm_transmit(&mut self, _thread: u16) -> bool {
        let mut tenant = self.tenant.lock();
        tenant.rest();
        !tenant.has_room(self.port)
    }

    fn has_received(&mut self) -> bool {
        let mut tenant = self.tenant.lock();
        tenant.poll();
        tenant.flush();
        tenant.has_received(self.port)
    }
}

impl Tenant {
    /// A packet of what a port has received; `None`: there is nothing, or no buffer.
    fn received(&mut self, port: usize, pool: &mut Pool) -> Option<Packet> {
        let connection = self.next_received(port)?;
        let mut packet = pool.empty()?;
        let mut cut = 0;
        if self.is_stream(port) {
            let bytes = self.front_received(connection);
            fill(&mut packet, bytes);
            self.consume(port, connection, packet.len());
        } else {
            let mut first = true;
            loop {
                let (bytes, flags) = (
                    self.front_received(connection),
                    self.front_flags(connection),
                );
                let skipped = if first {
                    self.note_sender(port, bytes);
                    DatagramHead::LEN
                } else {
                    0
                };
                first = false;
                let bytes = bytes.map(|bytes| bytes.skip(skipped));
                cut += bytes.map_or(0, |bytes| bytes.len()) - fill(&mut packet, bytes);
                self.consume(port, connection, usize::MAX);
                if flags & MORE == 0 {
                    break;
                }
            }
        }
        packet.set_anno(AGGREGATE, self.name_of(port, connection));
        if cut > 0 {
            packet.set_anno(EXTRA_LENGTH, cut as u32);
        }
        Some(packet)
    }
}

/// Adds bytes to a packet, as far as they fit; how many did.
fn fill(packet: &mut Packet, bytes: Option<SharedBytes>) -> usize {
    let Some(bytes) = bytes else { return 0 };
    let had = packet.len();
    let more = bytes.len().min(DATA_MAX.saturating_sub(had));
    if !packet.put(more) {
        return 0;
    }
    bytes.read(&mut packet.data_mut()[had..])
}
