//! The layout of a guest's memory.
//!
//! A byte has one address: the guest's virtual address is its physical address in the virtual machine and its
//! address in the VMM. So the same mappings serve both walls, and one KVM memory slot covers them (fewer slots
//! are faster to create). The range starts at the image's link address, which is free in a position-independent
//! Linux process.
//!
//! ```text
//! image | boot area | control region | report | . | stacks | . | heap | . | data region | sockets | doorbells | private
//! ```
//!
//! A dot is one or more pages that are never mapped, as between any two stacks. The report and the private part
//! (page tables under KVM; signal stack and code of the process wall) are not in the guest's page tables. The
//! doorbell page has no memory behind it; only its physical address differs.
//!
//! A guest's first access of a page exits to KVM, which takes longer than the guest's work on the page (26 us
//! where KVM itself runs in a virtual machine). KVM maps a [cluster](CLUSTER) of pages at once: the accessed page,
//! and its neighbours up to the first absent one. So the pages that guests access at their start are provided in
//! advance, at the starts of clusters, without holes: 12 exits before a first batch of 64 frames rather than 51.

use abi::boot::{BootPage, Span, area_length};
use abi::control::REGION_BYTES;
use abi::tenant::{GUEST_BYTES, GUEST_WAKE_OFFSET};
use abi::{CPUS_MAX, PAGE};

use crate::error::{Error, Result};
use crate::image::{IMAGE_BASE, Image, LARGE_PAGE};
use crate::{GuestSpec, Shape, Wall, paging, process};

/// Bytes of a CPU's stack.
const STACK: u64 = 128 << 10;
/// Bytes from one stack to the next.
const STRIDE: u64 = STACK + CLUSTER;
/// Bytes at the end of a stack that are provided in advance. They start on a cluster.
pub(crate) const STACK_AHEAD: u64 = 4 * PAGE as u64;
/// Least heap that a guest is started with, in bytes.
const HEAP_MIN: u64 = 64 << 10;
/// Most bytes that KVM maps at one fault: 8 pages from a multiple of 8 on.
pub(crate) const CLUSTER: u64 = 8 * PAGE as u64;

const _: () = assert!(STACK.is_multiple_of(CLUSTER) && STACK_AHEAD < CLUSTER);
/// Most memory of a guest, in bytes.
const MEMORY_MAX: u64 = 64 << 30;
/// Length of the report area behind the control region.
pub(crate) const REPORT_BYTES: u64 = PAGE as u64;

/// The doorbells' offsets in their page.
pub(crate) mod doorbell {
    pub(crate) const SWITCH: u64 = 0;
    pub(crate) const CONTROL: u64 = 8;
    pub(crate) const WAIT: u64 = 16;
    pub(crate) const HALT: u64 = 24;
    pub(crate) const SOCKETS: u64 = 32;
    /// The first CPU's; the other CPUs' follow it.
    pub(crate) const WAKE: u64 = 40;
}

/// A guest's addresses.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Layout {
    pub(crate) image: Span,
    pub(crate) boot: Span,
    pub(crate) control: Span,
    pub(crate) report: Span,
    /// All stacks, with the pages between them.
    stacks: Span,
    pub(crate) heap: Span,
    pub(crate) data: Span,
    /// The sockets' memory ([`abi::tenant::GUEST_BYTES`]); of length 0 without sockets.
    pub(crate) sockets: Span,
    pub(crate) doorbells: Span,
    pub(crate) private: Span,
    /// Address of the data region's wake word for the first CPU; 0 without one.
    pub(crate) data_wake: u64,
    /// Number of the guest's CPUs.
    pub(crate) cpus: u64,
}

impl Layout {
    pub(crate) fn new(image: &Image, spec: &GuestSpec<'_>, wall: Wall) -> Result<Self> {
        let page = PAGE as u64;
        let boot = area_length(spec.name.len(), spec.config.len()) as u64;
        let mut boot = boot.next_multiple_of(page);
        if let Some(snapshot) = spec.snapshot {
            boot = boot.max(snapshot.layout().boot.length);
        }
        if !(1..=CPUS_MAX).contains(&spec.cpus) {
            return Err(Error::Cpus(spec.name.to_owned(), spec.cpus));
        }
        let cpus = spec.cpus as u64;
        // The heap starts on a cluster.
        let fixed = image.private() + boot.next_multiple_of(CLUSTER) + cpus * STACK;
        if spec.memory < fixed + HEAP_MIN {
            return Err(Error::MemoryTooSmall {
                name: spec.name.to_owned(),
                given: spec.memory >> 10,
                needed: (fixed + HEAP_MIN) >> 10,
            });
        }
        if spec.memory > MEMORY_MAX {
            return Err(Error::MemoryTooLarge {
                name: spec.name.to_owned(),
                given: spec.memory >> 20,
                most: MEMORY_MAX >> 20,
            });
        }
        let data = spec.data.map_or(0, |data| data.length as u64);
        if let Some(file) = spec.data
            && (!data.is_multiple_of(page)
                || data > MEMORY_MAX
                || file.wake_offset + 4 * CPUS_MAX > file.length)
        {
            return Err(Error::DataRegion(spec.name.to_owned()));
        }
        let shared = (data, spec.sockets.is_some());
        let mut layout = Self::place(image, boot, cpus, spec.memory, shared, wall);
        if let Some(data) = spec.data {
            layout.data_wake = layout.data.address + data.wake_offset as u64;
        }
        match spec.snapshot {
            Some(snapshot) if *snapshot.layout() != layout.of_the_guest() => Err(Error::Snapshot(
                "it had another memory size, number of CPUs, data region or a shorter configuration",
            )),
            _ => Ok(layout),
        }
    }

    /// Whether a layout that was stored could be one.
    pub(crate) fn is_sound(&self) -> bool {
        let Span { address, length } = self.doorbells;
        let bytes = address.checked_add(length);
        let bytes = bytes.and_then(|end| end.checked_sub(self.start()));
        bytes.is_some_and(|bytes| bytes <= 4 * MEMORY_MAX)
    }

    /// Without the wall's own part.
    pub(crate) fn of_the_guest(&self) -> Layout {
        Layout {
            private: Span::default(),
            ..*self
        }
    }

    /// The whole range of any guest of a shape. A larger configuration makes the heap smaller.
    pub(crate) fn range(image: &Image, shape: &Shape<'_>, wall: Wall) -> Span {
        let cpus = shape.cpus.clamp(1, CPUS_MAX) as u64;
        // The start of the guest refuses values out of bounds.
        let least = image.private() + cpus * STACK;
        let memory = shape.memory.clamp(least, MEMORY_MAX);
        let data = (shape.data as u64).min(MEMORY_MAX);
        let layout = Self::place(image, 0, cpus, memory, (data, shape.sockets), wall);
        Span {
            address: layout.start(),
            length: layout.end() - layout.start(),
        }
    }

    /// `data` is the length of the data region.
    fn place(
        image: &Image,
        boot: u64,
        cpus: u64,
        memory: u64,
        (data, sockets): (u64, bool),
        wall: Wall,
    ) -> Self {
        let page = PAGE as u64;
        let span = |address: u64, length: u64| Span { address, length };
        let image_span = span(IMAGE_BASE, image.length);
        // A longer boot area makes the heap smaller; later parts keep their addresses.
        let front = |boot: u64| {
            let boot = span(image_span.end(), boot);
            let control = span(boot.end(), REGION_BYTES as u64);
            let report = span(control.end(), REPORT_BYTES);
            let stacks = (report.end() + page).next_multiple_of(CLUSTER) + STACK_AHEAD;
            let stacks = span(stacks, cpus * STRIDE - CLUSTER);
            let heap = (stacks.end() + page).next_multiple_of(CLUSTER);
            (boot, control, report, stacks, heap)
        };
        let (.., heap) = front(0);
        let heap_end = heap + (memory - image.private() - cpus * STACK) / page * page;
        let (boot, control, report, stacks, heap) = front(boot);
        // From a large page's start on, if it fills one.
        let unit = if data < LARGE_PAGE {
            CLUSTER
        } else {
            LARGE_PAGE
        };
        let data = span((heap_end + page).next_multiple_of(unit), data);
        let sockets = match sockets {
            true => span(data.end().next_multiple_of(LARGE_PAGE), GUEST_BYTES as u64),
            false => span(data.end(), 0),
        };
        let doorbells = span(sockets.end(), page);
        let private = match wall {
            Wall::Vm => paging::bytes(IMAGE_BASE, doorbells.end()),
            Wall::Process => process::private_bytes(cpus),
        };
        Self {
            image: image_span,
            boot,
            control,
            report,
            stacks,
            heap: span(heap, heap_end.saturating_sub(heap)),
            data,
            sockets,
            doorbells,
            private: span(doorbells.end(), private),
            data_wake: 0,
            cpus,
        }
    }

    /// Physical address of the doorbell page: behind the memory slot, so that accesses leave the guest.
    pub(crate) fn doorbells_physical(&self) -> u64 {
        self.end()
    }

    /// The CPU that the doorbell at `offset` wakes.
    pub(crate) fn woken(&self, offset: u64) -> Option<usize> {
        let offset = offset.checked_sub(doorbell::WAKE)?;
        (offset.is_multiple_of(8) && offset / 8 < self.cpus).then_some(offset as usize / 8)
    }

    /// The stack of CPU `cpu`.
    pub(crate) fn stack(&self, cpu: u64) -> Span {
        Span {
            address: self.stacks.address + cpu * STRIDE,
            length: STACK,
        }
    }

    /// Bytes from one CPU's stack to the next one's.
    pub(crate) fn stack_stride(&self) -> u64 {
        STRIDE
    }

    /// Every CPU's stack.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = Span> + use<> {
        let layout = *self;
        (0..self.cpus).map(move |cpu| layout.stack(cpu))
    }

    /// Whether an address is just below a stack.
    pub(crate) fn is_guard(&self, address: u64) -> bool {
        let page = PAGE as u64;
        let guard = |stack: Span| stack.address.wrapping_sub(address).wrapping_sub(1) < page;
        self.stacks().any(guard)
    }

    /// First address of the whole range.
    pub(crate) fn start(&self) -> u64 {
        self.image.address
    }

    /// First address behind the whole range.
    pub(crate) fn end(&self) -> u64 {
        self.private.end()
    }

    /// The boot page's fields that follow from the layout.
    pub(crate) fn boot_page(&self) -> BootPage {
        BootPage {
            boot: self.boot,
            control: self.control,
            data: if self.data.length == 0 {
                Span::default()
            } else {
                self.data
            },
            heap: self.heap,
            stack: self.stack(0),
            stack_stride: STRIDE,
            cpus: self.cpus,
            data_wake: self.data_wake,
            sockets: match self.sockets.length {
                0 => Span::default(),
                _ => self.sockets,
            },
            ..BootPage::default()
        }
    }

    /// Address of the word by which CoreEngine wakes the guest; 0 without sockets.
    pub(crate) fn sockets_wake(&self) -> u64 {
        match self.sockets.length {
            0 => 0,
            _ => self.sockets.address + GUEST_WAKE_OFFSET as u64,
        }
    }

    /// A name for the memory at an address, for crash reports. It continues "the guest accessed".
    pub(crate) fn describe(&self, address: u64) -> &'static str {
        let page = PAGE as u64;
        if address < page {
            "a null pointer"
        } else if self.image.contains(address) {
            "its image"
        } else if self.boot.contains(address) {
            "its boot area"
        } else if self.control.contains(address) {
            "its control region"
        } else if self.is_guard(address) {
            "the page below its stack"
        } else if self.stacks.contains(address) {
            "its stack"
        } else if self.heap.contains(address) {
            "its heap"
        } else if self.data.contains(address) {
            "its data region"
        } else if self.sockets.contains(address) {
            "its sockets' memory"
        } else if self.doorbells.contains(address) {
            "its doorbells"
        } else {
            "unmapped memory"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_boot_area_makes_the_heap_smaller() {
        let image = Image::parse(crate::IMAGE).unwrap();
        let page = PAGE as u64;
        for (cpus, data) in [(1, 0), (1, 1 << 20), (2, 13 << 20), (8, LARGE_PAGE)] {
            let place =
                |boot| Layout::place(&image, boot * page, cpus, 8 << 20, (data, false), Wall::Vm);
            let without = place(0);
            for boot in [1, 2, 7, 8, 9, 300] {
                let layout = place(boot);
                assert_eq!(layout.heap.end(), without.heap.end());
                assert_eq!(layout.data.address, without.data.address);
                assert_eq!(layout.end(), without.end());
                assert!(layout.heap.length <= without.heap.length);
                assert!(
                    layout.heap.length + boot.next_multiple_of(8) * page >= without.heap.length
                );
            }
        }
    }

    #[test]
    fn parts_lie_apart_and_start_on_clusters() {
        let image = Image::parse(crate::IMAGE).unwrap();
        for (cpus, data, sockets) in [(1, 1 << 20, false), (1, 0, true), (3, 13 << 20, true)] {
            let shared = (data, sockets);
            let layout = Layout::place(&image, PAGE as u64, cpus, 8 << 20, shared, Wall::Vm);
            let mut spans = vec![layout.image, layout.boot, layout.control, layout.report];
            spans.extend(layout.stacks());
            spans.extend([layout.heap, layout.data, layout.sockets]);
            spans.extend([layout.doorbells, layout.private]);
            for pair in spans.windows(2) {
                assert!(pair[0].end() <= pair[1].address, "{pair:?}");
            }
            for stack in layout.stacks() {
                assert!((stack.end() - STACK_AHEAD).is_multiple_of(CLUSTER));
                assert!(layout.is_guard(stack.address - 1));
                assert!(spans.iter().all(|span| !span.contains(stack.address - 1)));
                assert!(spans.iter().all(|span| !span.contains(stack.end())));
            }
            assert!(layout.heap.address.is_multiple_of(CLUSTER));
            let unit = if data < LARGE_PAGE {
                CLUSTER
            } else {
                LARGE_PAGE
            };
            assert!(layout.data.address.is_multiple_of(unit));
        }
    }
}
