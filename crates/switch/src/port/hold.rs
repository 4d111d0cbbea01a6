//! Batches that go on in part: frames are held back, copied out, or converted to another form.

use super::offload::{ETHERNET, VLAN, VnetHeader};
use super::{BATCH, Batch, Body, Frame, HEAD};

/// EtherType of a VLAN tag (IEEE 802.1Q).
const TYPE_VLAN: [u8; 2] = [0x81, 0];
/// Where the addresses of an Ethernet header end.
const ADDRESSES: usize = ETHERNET - 2;

const _: () = assert!(BATCH <= u64::BITS as usize);

/// All frames of a batch, in order.
pub(crate) const EACH: [u16; BATCH] = {
    let mut each = [0; BATCH];
    let mut i = 0;
    while i < BATCH {
        each[i] = i as u16;
        i += 1;
    }
    each
};

/// How a frame's VLAN is said in the form in which it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As it came.
    AsIs,
    /// By a tag that it came without.
    Tagged(u16),
    /// Not at all, where it came with a tag.
    Bare,
}

impl Form {
    /// The form in which a frame leaves by a port that gives access to VLAN `access`, or by one
    /// that bears all VLANs if that is 0.
    #[inline]
    pub fn of(frame: &Frame, access: u16) -> Form {
        match (access, frame.vlan) {
            (0, 0) => Form::AsIs,
            (0, vlan) => Form::Tagged(vlan),
            (_, 0) if tag(&frame.head).is_some_and(|tag| tag != 0) => Form::Bare,
            _ => Form::AsIs,
        }
    }

    /// The length of a frame in this form.
    pub fn len(self, frame: &Frame) -> usize {
        match self {
            Form::Tagged(_) if tag(&frame.head).is_none() => frame.len() + VLAN,
            Form::Bare => frame.len() - VLAN,
            _ => frame.len(),
        }
    }
}

/// The number in a frame's VLAN tag, 0 in a priority tag; `None` without a tag.
#[inline]
pub(crate) fn tag(head: &[u8; HEAD]) -> Option<u16> {
    let control = u16::from_be_bytes([head[ETHERNET], head[ETHERNET + 1]]);
    (head[ADDRESSES..ETHERNET] == TYPE_VLAN).then_some(control & 0xfff)
}

impl Frame {
    /// The VLAN that the frame was said to belong to; 0 if its tag tells.
    pub(crate) fn said_vlan(&self) -> u16 {
        self.vlan
    }

    /// The VLAN that the frame belongs to: its ingress port's, else its tag's; 0 for none.
    #[inline(always)]
    pub fn vlan(&self) -> u16 {
        if self.vlan != 0 {
            return self.vlan;
        }
        tag(&self.head).unwrap_or(0)
    }
}

impl Batch {
    /// The pending work of frame `i`.
    pub(super) fn vnet(&self, i: u16) -> VnetHeader {
        match self.frames[usize::from(i)].body {
            Body::Guest(_) => VnetHeader::default(),
            Body::Staged(cell) => self.stage.frame(cell).1,
        }
    }

    /// Copies all bytes of frame `i` into a room of its length.
    fn copy_out(&self, i: u16, room: &mut [u8]) {
        let frame = &self.frames[usize::from(i)];
        match frame.body {
            Body::Guest(shared) => {
                let (head, rest) = room.split_at_mut(frame.len().min(HEAD));
                head.copy_from_slice(&frame.head[..head.len()]);
                shared.skip(HEAD).read(rest);
            }
            Body::Staged(cell) => room.copy_from_slice(self.stage.frame(cell).0),
        }
    }

    /// Writes frame `i` in a form into a room of its length in that form.
    pub(crate) fn write_as(&self, i: u16, form: Form, room: &mut [u8]) {
        let has_tag = tag(&self.frames[usize::from(i)].head).is_some();
        match form {
            Form::AsIs => self.copy_out(i, room),
            Form::Tagged(vlan) => {
                if !has_tag {
                    // The addresses move to the front of the bytes that were copied behind them.
                    self.copy_out(i, &mut room[VLAN..]);
                    room.copy_within(VLAN..VLAN + ADDRESSES, 0);
                    room[ADDRESSES..ETHERNET].copy_from_slice(&TYPE_VLAN);
                    room[ETHERNET..ETHERNET + 2].copy_from_slice(&vlan.to_be_bytes());
                } else {
                    self.copy_out(i, room);
                    room[ETHERNET] |= (vlan >> 8) as u8;
                    room[ETHERNET + 1] = vlan as u8;
                }
            }
            Form::Bare => {
                let frame = &self.frames[usize::from(i)];
                let mut join = |known: &[u8]| {
                    let (addresses, rest) = known.split_at(ADDRESSES);
                    room[..ADDRESSES].copy_from_slice(addresses);
                    room[ADDRESSES..known.len() - VLAN].copy_from_slice(&rest[VLAN..]);
                };
                match frame.body {
                    Body::Guest(shared) => {
                        let known = frame.len().min(HEAD);
                        join(&frame.head[..known]);
                        shared.skip(HEAD).read(&mut room[known - VLAN..]);
                    }
                    Body::Staged(cell) => join(self.stage.frame(cell).0),
                }
            }
        }
    }

    /// The pending work of frame `i` in a form.
    pub(crate) fn vnet_as(&self, i: u16, form: Form) -> VnetHeader {
        let vnet = self.vnet(i);
        match form {
            Form::Tagged(_) if tag(&self.frames[usize::from(i)].head).is_none() => vnet.with_tag(),
            Form::Bare => vnet.without_tag(),
            _ => vnet,
        }
    }

    /// Whether there is room for one more frame.
    pub(crate) fn has_room(&self) -> bool {
        self.len < BATCH
    }

    /// Adds a frame of `len` bytes that `write` puts into its room. Returns whether it was taken:
    /// it must be what `vnet` says, and there must be [room](Self::has_room).
    pub(crate) fn put(
        &mut self,
        len: usize,
        vnet: VnetHeader,
        vlan: u16,
        write: impl FnOnce(&mut [u8]),
    ) -> bool {
        let cell = self.len;
        if !self.has_room() {
            return false;
        }
        let Some(room) = self.stage.room_for_frame(cell).get_mut(..len) else {
            return false;
        };
        write(room);
        match self.stage.take_whole(cell, len, vnet) {
            Ok(mut frame) => {
                frame.vlan = vlan;
                self.says_vlans |= vlan != 0;
                self.push(frame);
                true
            }
            Err(_) => false,
        }
    }

    /// Says which VLAN frame `i` belongs to.
    pub(crate) fn set_vlan(&mut self, i: usize, vlan: u16) {
        self.frames[i].vlan = vlan;
        self.says_vlans |= vlan != 0;
    }

    /// Whether any frame may have been said to belong to a VLAN that its bytes do not tell.
    #[inline]
    pub(crate) fn says_vlans(&self) -> bool {
        self.says_vlans
    }

    /// Makes a private copy of frame `i`, which the sender cannot change, and returns it whole.
    pub(crate) fn pin(&mut self, i: u16) -> &[u8] {
        let frame = &self.frames[usize::from(i)];
        if let Body::Guest(shared) = frame.body
            && let Some(cell) = self.free_cell()
        {
            let len = frame.len();
            let room = &mut self.stage.room_for_frame(cell)[..len];
            let (head, rest) = room.split_at_mut(len.min(HEAD));
            head.copy_from_slice(&frame.head[..head.len()]);
            shared.skip(HEAD).read(rest);
            if let Ok(mut pinned) = self.stage.take_whole(cell, len, VnetHeader::default()) {
                pinned.vlan = frame.vlan;
                pinned.slot = frame.slot;
                self.frames[usize::from(i)] = pinned;
            }
        }
        match self.frames[usize::from(i)].body {
            Body::Staged(cell) => self.stage.frame(cell).0,
            Body::Guest(_) => &[],
        }
    }

    /// A cell of the stage that no frame of the batch is in.
    fn free_cell(&self) -> Option<usize> {
        let used = self
            .frames()
            .iter()
            .fold(0u64, |used, frame| match frame.body {
                Body::Staged(cell) => used | 1 << cell,
                Body::Guest(_) => used,
            });
        let cell = used.trailing_ones() as usize;
        (cell < BATCH).then_some(cell)
    }

    /// Removes the frames before `first` from the batch; they are done. Frames in shared memory are
    /// copied, so that the batch can be kept.
    pub(crate) fn keep_from(&mut self, first: usize) {
        let first = first.min(self.len);
        for i in first..self.len {
            self.pin(i as u16);
        }
        self.frames[..self.len].rotate_left(first);
        self.len -= first;
    }

    /// Bytes of the first `n` frames.
    pub(crate) fn bytes_of(&self, n: usize) -> u64 {
        let frames = self.frames().iter().take(n);
        frames.map(|frame| u64::from(frame.len)).sum()
    }
}
