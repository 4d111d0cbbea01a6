//! Where things lie in a guest.
//!
//! One address serves all: the guest's virtual address of a byte is its physical address in the virtual
//! machine and the address at which the VMM has it mapped. So the same mappings serve both walls, and one KVM
//! memory slot covers them (fewer slots, less to create). The range starts where the image is linked to, which
//! in a position-independent Linux process is empty.
//!
//! ```text
//! image | . | boot area | control region | report | . | stacks | . | heap | . | data region | doorbells | private
//! ```
//!
//! A dot is a page that is never mapped; there is one between any two stacks, too. The report and the private part (page tables under KVM; signal stack
//! and code of the process wall) are not in the guest's page tables. The doorbell page has no memory behind
//! it; its physical address, alone, is another one.

use abi::boot::{BootPage, Span, area_length};
use abi::control::REGION_BYTES;
use abi::{CPUS_MAX, PAGE};

use crate::error::{Error, Result};
use crate::image::{IMAGE_BASE, Image};
use crate::{GuestSpec, Shape, Wall, paging, process};

/// Bytes of a CPU's stack.
const STACK: u64 = 128 << 10;
/// Bytes from one stack to the next.
const STRIDE: u64 = STACK + PAGE as u64;
/// Least heap that a guest is started with, in bytes.
const HEAP_MIN: u64 = 64 << 10;
/// Most memory of a guest, in bytes.
const MEMORY_MAX: u64 = 64 << 30;
/// Length of the report area behind the control region.
pub(crate) const REPORT_BYTES: u64 = PAGE as u64;

/// Words that a layout takes.
pub(crate) const WORDS: usize = 20;

/// The doorbells' places in their page.
pub(crate) mod doorbell {
    pub(crate) const SWITCH: u64 = 0;
    pub(crate) const CONTROL: u64 = 8;
    pub(crate) const WAIT: u64 = 16;
    pub(crate) const HALT: u64 = 24;
    /// The first CPU's; those of the others follow it.
    pub(crate) const WAKE: u64 = 32;
}

/// A guest's addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) image: Span,
    pub(crate) boot: Span,
    pub(crate) control: Span,
    pub(crate) report: Span,
    /// All stacks, with the pages between them.
    stacks: Span,
    pub(crate) heap: Span,
    pub(crate) data: Span,
    pub(crate) doorbells: Span,
    pub(crate) private: Span,
    /// Address of the data region's wake word for the first CPU; 0 without one.
    pub(crate) data_wake: u64,
    /// How many CPUs the guest has.
    pub(crate) cpus: u64,
}

impl Layout {
    pub(crate) fn new(image: &Image, spec: &GuestSpec<'_>, wall: Wall) -> Result<Self> {
        let page = PAGE as u64;
        let boot = area_length(spec.name.len(), spec.config.len()) as u64;
        let boot = boot.next_multiple_of(page);
        if !(1..=CPUS_MAX).contains(&spec.cpus) {
            return Err(Error::Cpus(spec.name.to_owned(), spec.cpus));
        }
        let cpus = spec.cpus as u64;
        let fixed = image.private() + boot + cpus * STACK;
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
        let mut layout = Self::place(image, boot, cpus, spec.memory - fixed, data, wall);
        if let Some(data) = spec.data {
            layout.data_wake = layout.data.address + data.wake_offset as u64;
        }
        Ok(layout)
    }

    /// The whole range of any guest of a shape: what its configuration takes, its heap lacks.
    pub(crate) fn range(image: &Image, shape: &Shape<'_>, wall: Wall) -> Span {
        let cpus = shape.cpus.clamp(1, CPUS_MAX) as u64;
        let fixed = image.private() + cpus * STACK;
        // What is out of bounds is found out when the guest is to start.
        let memory = shape.memory.clamp(fixed, MEMORY_MAX);
        let data = (shape.data as u64).min(MEMORY_MAX);
        let layout = Self::place(image, 0, cpus, memory - fixed, data, wall);
        Span {
            address: layout.start(),
            length: layout.end() - layout.start(),
        }
    }

    fn place(image: &Image, boot: u64, cpus: u64, heap: u64, data: u64, wall: Wall) -> Self {
        let page = PAGE as u64;
        let mut next = IMAGE_BASE;
        let mut place = |length: u64, guard: u64| {
            let span = Span {
                address: next,
                length,
            };
            next += length + guard;
            span
        };
        let mut layout = Self {
            image: place(image.length, page),
            boot: place(boot, 0),
            control: place(REGION_BYTES as u64, 0),
            report: place(REPORT_BYTES, page),
            stacks: place(cpus * STRIDE - page, page),
            heap: place(heap / page * page, page),
            data: place(data, 0),
            doorbells: place(page, 0),
            private: place(0, 0),
            data_wake: 0,
            cpus,
        };
        layout.private.length = match wall {
            Wall::Vm => paging::bytes(IMAGE_BASE, layout.doorbells.end()),
            Wall::Process => process::private_bytes(cpus),
        };
        layout
    }

    /// Physical address of the doorbell page: behind the memory slot, so that accesses leave the guest.
    pub(crate) fn doorbells_physical(&self) -> u64 {
        self.end()
    }

    /// The layout as words, to hand it to the guest's process.
    pub(crate) fn words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        for (place, span) in words.chunks_exact_mut(2).zip(self.spans()) {
            place.copy_from_slice(&[span.address, span.length]);
        }
        words[WORDS - 2..].copy_from_slice(&[self.data_wake, self.cpus]);
        words
    }

    pub(crate) fn from_words(words: &[u64; WORDS]) -> Self {
        let span = |i: usize| Span {
            address: words[2 * i],
            length: words[2 * i + 1],
        };
        Self {
            image: span(0),
            boot: span(1),
            control: span(2),
            report: span(3),
            stacks: span(4),
            heap: span(5),
            data: span(6),
            doorbells: span(7),
            private: span(8),
            data_wake: words[WORDS - 2],
            cpus: words[WORDS - 1],
        }
    }

    fn spans(&self) -> [Span; 9] {
        [
            self.image,
            self.boot,
            self.control,
            self.report,
            self.stacks,
            self.heap,
            self.data,
            self.doorbells,
            self.private,
        ]
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

    /// The boot page's part that follows from the layout.
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
            ..BootPage::default()
        }
    }

    /// What an address is, for crash reports. Reads on from "the guest accessed".
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
        } else if self.doorbells.contains(address) {
            "its doorbells"
        } else {
            "memory that is not there"
        }
    }
}
