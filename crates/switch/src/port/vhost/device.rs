//! The device's state as the frontend set it: features, memory, queues. This module carries out the
//! vhost-user protocol's messages, which rust-vmm's `vhost` parses.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bitflags::bitflags;
use rustix::event::epoll;
use rustix::fs::OFlags;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};

use super::memory::{Extent, Memory, REGIONS_MAX, Region, RegionError};
use super::queue::{Agreed, Virtqueue};
use super::rings::{Addresses, SIZE_MAX};

/// Most queue pairs of a frontend.
pub const PAIRS_MAX: usize = 8;
/// Longest header in front of a frame, in bytes.
pub(super) const HEADER_MAX: usize = 12;
/// A queue's kick has the event [`KICK`] plus the queue's number in the device's epoll set.
pub const KICK: u64 = 16;

bitflags! {
    /// The features that are offered: Virtual I/O Device 1.2, sections 5.1.3 and 6.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Features: u64 {
        /// The driver may leave checksums undone.
        const CSUM = 1 << 0;
        /// The driver takes frames with checksums undone.
        const GUEST_CSUM = 1 << 1;
        /// The driver takes TCP over IPv4 that is yet to be cut.
        const GUEST_TSO4 = 1 << 7;
        /// The same over IPv6.
        const GUEST_TSO6 = 1 << 8;
        /// The same with congestion marks.
        const GUEST_ECN = 1 << 9;
        /// The driver may send TCP over IPv4 that is yet to be cut.
        const HOST_TSO4 = 1 << 11;
        /// The same over IPv6.
        const HOST_TSO6 = 1 << 12;
        /// The same with congestion marks.
        const HOST_ECN = 1 << 13;
        /// A received frame may fill several buffers.
        const MRG_RXBUF = 1 << 15;
        /// There is a control queue. The frontend answers it; the bit must be offered for that.
        const CTRL_VQ = 1 << 17;
        /// As above: receive modes.
        const CTRL_RX = 1 << 18;
        /// There are several queue pairs.
        const MQ = 1 << 22;
        /// Headers and frames may be laid out in any way.
        const ANY_LAYOUT = 1 << 27;
        /// A descriptor may stand for a table of them.
        const INDIRECT_DESC = 1 << 28;
        /// Notifications by event index.
        const EVENT_IDX = 1 << 29;
        /// Protocol features are negotiated.
        const PROTOCOL_FEATURES = 1 << 30;
        /// Little endian, and the header always has 12 bytes.
        const VERSION_1 = 1 << 32;
        /// Rings are packed.
        const RING_PACKED = 1 << 34;
    }
}

/// One frontend's device.
pub struct VhostDevice {
    /// Where kicks are waited for.
    events: Arc<OwnedFd>,
    pub(super) features: Features,
    pub(super) memory: Memory,
    /// Two for each pair: the driver's receive queue, then its transmit queue.
    pub(super) queues: Vec<Virtqueue>,
}

impl VhostDevice {
    /// A device without any settings yet. Kicks come to the epoll set `events`.
    pub fn new(events: Arc<OwnedFd>) -> VhostDevice {
        VhostDevice {
            events,
            features: Features::empty(),
            memory: Memory::default(),
            queues: (0..2 * PAIRS_MAX).map(|_| Virtqueue::default()).collect(),
        }
    }

    /// Whether all of these feature bits were agreed on.
    #[inline]
    pub fn has(&self, features: Features) -> bool {
        self.features.contains(features)
    }

    /// Length of the header in front of each frame, in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        let long = Features::VERSION_1 | Features::MRG_RXBUF;
        if self.features.intersects(long) {
            HEADER_MAX
        } else {
            10
        }
    }

    fn queue(&mut self, index: u32) -> Result<&mut Virtqueue> {
        self.queues
            .get_mut(index as usize)
            .ok_or(Error::InvalidParam)
    }

    /// Makes all queues look their rings up again.
    fn locate(&mut self) -> Result<()> {
        let mut found = true;
        for queue in &mut self.queues {
            found &= queue.locate(&self.memory);
        }
        self.quiet();
        found.then_some(()).ok_or(Error::InvalidParam)
    }

    /// Lets a queue run once it is set up, or halts it.
    pub(super) fn enable(&mut self, index: u32, enable: bool) -> Result<()> {
        let queue = self.queue(index)?;
        queue.enabled = enable;
        queue.catch_up();
        Ok(())
    }

    /// Asks for no kicks: the port is polled whenever messages are dealt with.
    fn quiet(&self) {
        for queue in &self.queues {
            queue.ask_kick(false);
        }
    }

    /// Stops a queue; returns where to go on.
    fn stop(&mut self, index: usize) -> u32 {
        self.forget_kick(index);
        self.queues.get_mut(index).map_or(0, Virtqueue::stop)
    }

    /// Takes a queue's kick out of the epoll set: the frontend has it open, too, so closing it
    /// would not.
    fn forget_kick(&mut self, index: usize) {
        let kick = self.queues.get_mut(index).and_then(|q| q.kick.take());
        if let Some(kick) = kick {
            let _ = epoll::delete(&*self.events, kick.as_fd());
        }
    }

    fn add_region(&mut self, region: &VhostUserMemoryRegion, file: &File) -> Result<()> {
        let extent = Extent {
            guest: region.guest_phys_addr,
            user: region.user_addr,
            bytes: region.memory_size,
            offset: region.mmap_offset,
        };
        let mapped = Region::map(file.as_fd(), extent);
        let added = mapped.and_then(|region| self.memory.add(region));
        added.map_err(|error: RegionError| {
            Error::ReqHandlerError(std::io::Error::other(error.to_string()))
        })
    }

    /// Ends what the frontend has set up.
    pub fn reset(&mut self) {
        for index in 0..self.queues.len() {
            self.stop(index);
        }
        *self = VhostDevice::new(Arc::clone(&self.events));
    }
}

/// Sees to it that writing to `fd` does not wait. It must be an eventfd: the frontend, which has it
/// open, too, could have any other file wait all the same. What tells is the inode that eventfds
/// and epoll sets have in common.
fn without_waiting(fd: BorrowedFd<'_>, events: BorrowedFd<'_>) -> Result<()> {
    let set = || {
        let (file, eventlike) = (rustix::fs::fstat(fd)?, rustix::fs::fstat(events)?);
        if (file.st_dev, file.st_ino) != (eventlike.st_dev, eventlike.st_ino) {
            return Err(rustix::io::Errno::INVAL);
        }
        let flags = rustix::fs::fcntl_getfl(fd)?;
        rustix::fs::fcntl_setfl(fd, flags | OFlags::NONBLOCK)
    };
    set().map_err(|error| Error::ReqHandlerError(error.into()))
}

impl Drop for VhostDevice {
    fn drop(&mut self) {
        for index in 0..self.queues.len() {
            self.stop(index);
        }
    }
}

/// A place for the device while a message is carried out; it is the port's else, so that moving
/// frames takes no lock.
#[derive(Default)]
pub struct Desk(pub(super) Option<VhostDevice>);

impl Desk {
    fn device(&mut self) -> Result<&mut VhostDevice> {
        self.0.as_mut().ok_or(Error::BackendInternalError)
    }
}

/// The error for a request of a feature that was not agreed on.
const NOT_OFFERED: Error = Error::InvalidOperation("a feature that was not offered");

impl VhostUserBackendReqHandlerMut for Desk {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.device()?.reset();
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(Features::all().bits())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        let features = Features::from_bits(features).ok_or(NOT_OFFERED)?;
        let device = self.device()?;
        device.features = features;
        let agreed = Agreed {
            packed: device.has(Features::RING_PACKED),
            by_event: device.has(Features::EVENT_IDX),
            indirect: device.has(Features::INDIRECT_DESC),
        };
        for queue in &mut device.queues {
            queue.agree(agreed);
            // Without protocol features there is no message that enables a queue.
            if !features.contains(Features::PROTOCOL_FEATURES) {
                queue.enabled = true;
            }
        }
        device.quiet();
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _postcopy: Option<bool>,
    ) -> Result<Option<Vec<u64>>> {
        let device = self.device()?;
        device.memory = Memory::default();
        for (region, file) in regions.iter().zip(&files) {
            device.add_region(region, file)?;
        }
        device.locate()?;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let device = self.device()?;
        let any = device.has(Features::RING_PACKED);
        let size = u16::try_from(num).ok();
        let size = size.filter(|&size| size > 0 && size <= SIZE_MAX);
        let size = size.filter(|size| any || size.is_power_of_two());
        let queue = device.queue(index)?;
        if queue.is_ready() {
            return Err(Error::InvalidOperation("a size for a queue that runs"));
        }
        queue.size = size.ok_or(Error::InvalidParam)?;
        Ok(())
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _flags: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _log: u64,
    ) -> Result<()> {
        let device = self.device()?;
        let memory = std::mem::take(&mut device.memory);
        let located = device.queue(index).map(|queue| {
            queue.addresses = Some(Addresses {
                descriptors,
                available,
                used,
            });
            queue.locate(&memory)
        });
        device.memory = memory;
        device.quiet();
        located?.then_some(()).ok_or(Error::InvalidParam)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let set = self.device()?.queue(index)?.set_base(base);
        set.then_some(()).ok_or(Error::InvalidParam)
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let device = self.device()?;
        device.queue(index)?;
        let base = device.stop(index as usize);
        Ok(VhostUserVringState::new(index, base))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let device = self.device()?;
        device.queue(index.into())?;
        device.forget_kick(index.into());
        // The device does not wait for the driver's receive queues: frames without room are
        // dropped.
        if let Some(file) = file.as_ref().filter(|_| index % 2 == 1) {
            let token = epoll::EventData::new_u64(KICK + u64::from(index));
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&*device.events, file.as_fd(), token, flags)
                .map_err(|error| Error::ReqHandlerError(error.into()))?;
        }
        let queue = device.queue(index.into())?;
        queue.kick = file;
        queue.started = true;
        queue.catch_up();
        Ok(())
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let device = self.device()?;
        if let Some(file) = &file {
            without_waiting(file.as_fd(), device.events.as_fd())?;
        }
        let queue = device.queue(index.into())?;
        queue.call = file;
        queue.catch_up();
        Ok(())
    }

    fn set_vring_err(&mut self, index: u8, _file: Option<File>) -> Result<()> {
        self.device()?.queue(index.into()).map(drop)
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        let offered = self.get_protocol_features()?.bits();
        (features & !offered == 0).then_some(()).ok_or(NOT_OFFERED)
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(PAIRS_MAX as u64)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.device()?.enable(index, enable)
    }

    fn get_config(&mut self, _: u32, _: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        Err(NOT_OFFERED)
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        Err(NOT_OFFERED)
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        Err(NOT_OFFERED)
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(REGIONS_MAX as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _postcopy: Option<bool>,
    ) -> Result<Option<u64>> {
        let device = self.device()?;
        device.add_region(region, &file)?;
        device.locate()?;
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let device = self.device()?;
        if !device
            .memory
            .remove(region.guest_phys_addr, region.memory_size)
        {
            return Err(Error::InvalidParam);
        }
        device.locate()
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        Err(NOT_OFFERED)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(NOT_OFFERED)
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        Err(NOT_OFFERED)
    }
}
