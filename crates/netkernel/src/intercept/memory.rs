//! A program's memory, that the arguments of its calls point to: messages (msghdr), addresses, ancillary data.
//!
//! What the program has written is read here once, by value, and never trusted for its length.

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

/// Longest address, ancillary data or value of an option that is read from a program.
const VALUE_MAX: usize = 4096;
/// Most parts of a message (UIO_MAXIOV).
const PARTS_MAX: usize = 1024;

/// The memory of the thread that made a call.
pub(crate) struct Memory(File);

/// A msghdr(3) of the program, and where its parts are.
#[derive(Debug)]
pub(crate) struct Message {
    at: u64,
    pub name: u64,
    pub name_len: u32,
    parts: Vec<(u64, usize)>,
    control: u64,
    control_len: usize,
}

/// Places in a msghdr of a program of 64 bits.
const NAME: usize = 0;
const NAME_LEN: usize = 8;
const PARTS: usize = 16;
const PARTS_LEN: usize = 24;
const CONTROL: usize = 32;
const CONTROL_LEN: usize = 40;
const FLAGS: usize = 48;
const MESSAGE: usize = 56;

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(libc::msghdr, msg_namelen) == NAME_LEN);
    assert!(offset_of!(libc::msghdr, msg_iov) == PARTS);
    assert!(offset_of!(libc::msghdr, msg_iovlen) == PARTS_LEN);
    assert!(offset_of!(libc::msghdr, msg_control) == CONTROL);
    assert!(offset_of!(libc::msghdr, msg_controllen) == CONTROL_LEN);
    assert!(offset_of!(libc::msghdr, msg_flags) == FLAGS);
    assert!(size_of::<libc::msghdr>() == MESSAGE);
    assert!(offset_of!(libc::mmsghdr, msg_len) == MESSAGE);
};

impl Memory {
    /// That of a file whose offsets are the program's addresses.
    pub(crate) fn new(file: File) -> Memory {
        Memory(file)
    }

    /// This program's own.
    #[cfg(test)]
    pub(crate) fn own() -> Memory {
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).open("/proc/self/mem");
        Memory::new(file.unwrap())
    }

    fn read_into(&self, at: u64, into: &mut [u8]) -> Result<(), Errno> {
        // Addresses of the kernel's half are no offsets of a file.
        if i64::try_from(at).is_err() {
            return Err(Errno::FAULT);
        }
        self.0.read_exact_at(into, at).map_err(|_| Errno::FAULT)
    }

    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Errno> {
        if i64::try_from(at).is_err() {
            return Err(Errno::FAULT);
        }
        self.0.write_all_at(bytes, at).map_err(|_| Errno::FAULT)
    }

    fn array<const N: usize>(&self, at: u64) -> Result<[u8; N], Errno> {
        let mut bytes = [0; N];
        self.read_into(at, &mut bytes)?;
        Ok(bytes)
    }

    /// A length that the program passes by its address; negative: EINVAL.
    pub fn length(&self, at: u64) -> Result<usize, Errno> {
        let length = i32::from_ne_bytes(self.array(at)?);
        usize::try_from(length).map_err(|_| Errno::INVAL)
    }

    /// An address or the value of an option.
    pub fn value(&self, at: u64, len: u64) -> Result<Vec<u8>, Errno> {
        // Lengths are of 32 bits and signed for the kernel.
        let len = usize::try_from(len as i32).map_err(|_| Errno::INVAL)?;
        if len > VALUE_MAX {
            return Err(Errno::INVAL);
        }
        let mut bytes = vec![0; len];
        self.read_into(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes an address as getsockname(2) does: as much as there is room for, and its length.
    pub fn write_address(&self, at: u64, len_at: u64, address: &[u8]) -> Result<(), Errno> {
        let room = self.length(len_at)?;
        self.write(at, &address[..address.len().min(room)])?;
        self.write(len_at, &(address.len() as u32).to_ne_bytes())
    }

    /// A message whose only part is a buffer.
    pub fn buffer(at: u64, len: u64, name: u64, name_len: u32) -> Message {
        Message {
            at: 0,
            name,
            name_len,
            parts: vec![(at, usize::try_from(len).unwrap_or(usize::MAX))],
            control: 0,
            control_len: 0,
        }
    }

    /// A msghdr.
    pub fn message(&self, at: u64) -> Result<Message, Errno> {
        let head: [u8; MESSAGE] = self.array(at)?;
        let word = |at: usize| {
            let bytes = head[at..at + 8].try_into().unwrap_or_default();
            u64::from_ne_bytes(bytes)
        };
        let count = usize::try_from(word(PARTS_LEN)).unwrap_or(usize::MAX);
        if count > PARTS_MAX {
            return Err(Errno::MSGSIZE);
        }
        let mut parts = vec![0; count * 16];
        self.read_into(word(PARTS), &mut parts)?;
        let parts = parts.chunks_exact(16).map(|part| {
            let (base, len) = part.split_at(8);
            let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
            (word(base), usize::try_from(word(len)).unwrap_or(usize::MAX))
        });
        Ok(Message {
            at,
            name: word(NAME),
            name_len: word(NAME_LEN) as u32,
            parts: parts.collect(),
            control: word(CONTROL),
            control_len: usize::try_from(word(CONTROL_LEN)).unwrap_or(usize::MAX),
        })
    }

    /// The payload of a message to send. EMSGSIZE: it is longer than `most`.
    pub fn gather(&self, message: &Message, most: usize) -> Result<Vec<u8>, Errno> {
        let mut payload = Vec::new();
        for &(at, len) in &message.parts {
            let from = payload.len();
            if len > most - from {
                return Err(Errno::MSGSIZE);
            }
            payload.resize(from + len, 0);
            self.read_into(at, &mut payload[from..])?;
        }
        Ok(payload)
    }

    /// The address of a message to send.
    pub fn name(&self, message: &Message) -> Result<Vec<u8>, Errno> {
        if message.name == 0 {
            return Ok(Vec::new());
        }
        self.value(message.name, u64::from(message.name_len))
    }

    /// The ancillary data of a message to send.
    pub fn control(&self, message: &Message) -> Result<Vec<u8>, Errno> {
        if message.control == 0 || message.control_len == 0 {
            return Ok(Vec::new());
        }
        if message.control_len > VALUE_MAX {
            return Err(Errno::NOBUFS);
        }
        self.value(message.control, message.control_len as u64)
    }

    /// Writes a received payload into the parts; how many bytes there was room for.
    pub fn scatter(&self, message: &Message, payload: &[u8]) -> Result<usize, Errno> {
        let mut left = payload;
        for &(at, len) in &message.parts {
            let (now, later) = left.split_at(len.min(left.len()));
            self.write(at, now)?;
            left = later;
        }
        Ok(payload.len() - left.len())
    }

    /// Writes what a msghdr tells besides the payload: address, ancillary data and flags.
    pub fn write_head(
        &self,
        message: &Message,
        address: &[u8],
        control: &[u8],
        mut flags: i32,
    ) -> Result<(), Errno> {
        if message.name != 0 {
            let room = message.name_len as usize;
            self.write(message.name, &address[..address.len().min(room)])?;
            let len = (address.len() as u32).to_ne_bytes();
            self.write(message.at + NAME_LEN as u64, &len)?;
        }
        // As for the kernel, there is no room at no address.
        let room = match message.control {
            0 => 0,
            _ => message.control_len,
        };
        let (control, cut) = cut_control(control, room);
        if cut {
            flags |= libc::MSG_CTRUNC;
        }
        self.write(message.control, &control)?;
        let len = control.len().to_ne_bytes();
        self.write(message.at + CONTROL_LEN as u64, &len)?;
        self.write(message.at + FLAGS as u64, &flags.to_ne_bytes())
    }

    /// Writes the length of the first message of sendmmsg or recvmmsg.
    pub fn write_count(&self, at: u64, len: usize) -> Result<(), Errno> {
        self.write(at + MESSAGE as u64, &(len as u32).to_ne_bytes())
    }
}

/// Bytes of a cmsghdr.
const CONTROL_HEAD: usize = size_of::<libc::cmsghdr>();

/// As much of ancillary data as there is room for, the last message shortened as the kernel does
/// (put_cmsg), and whether some is missing.
fn cut_control(control: &[u8], room: usize) -> (Vec<u8>, bool) {
    let mut cut = Vec::new();
    let mut left = control;
    while let Some(len) = left.first_chunk() {
        let len = usize::from_ne_bytes(*len);
        if len < CONTROL_HEAD || len > left.len() {
            break;
        }
        let most = room - cut.len();
        if most < CONTROL_HEAD {
            return (cut, true);
        }
        if most < len {
            cut.extend(most.to_ne_bytes());
            cut.extend(&left[size_of::<usize>()..most]);
            return (cut, true);
        }
        let padded = len.next_multiple_of(size_of::<usize>());
        cut.extend(&left[..len]);
        cut.resize(cut.len() + padded.min(most) - len, 0);
        left = left.get(padded..).unwrap_or_default();
    }
    (cut, false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(bytes: &[u8]) -> u64 {
        bytes.as_ptr() as u64
    }

    /// The bytes of a msghdr whose parts are described by `parts`.
    fn head(parts: &[u8], count: u64) -> Vec<u8> {
        let mut head = vec![0; MESSAGE];
        head[PARTS..PARTS + 8].copy_from_slice(&address(parts).to_ne_bytes());
        head[PARTS_LEN..PARTS_LEN + 8].copy_from_slice(&count.to_ne_bytes());
        head
    }

    fn described(parts: &[(u64, u64)]) -> Vec<u8> {
        let words = parts.iter().flat_map(|&(at, len)| [at, len]);
        words.flat_map(u64::to_ne_bytes).collect()
    }

    proptest! {
        /// Any bytes as a msghdr are a message or an error, and none is read at a length that it claims.
        #[test]
        fn any_head_is_read(bytes in proptest::array::uniform32(any::<u8>()), more in proptest::array::uniform24(any::<u8>())) {
            let memory = Memory::own();
            let all = [&bytes[..], &more[..]].concat();
            if let Ok(message) = memory.message(address(&all)) {
                let _ = memory.gather(&message, 65_535);
                let _ = memory.control(&message);
                let _ = memory.name(&message);
            }
        }

        /// Parts are one payload, in their order, and a longer one is refused.
        #[test]
        fn parts_are_gathered(parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..20)) {
            let memory = Memory::own();
            let list: Vec<_> = parts.iter().map(|part| (address(part), part.len() as u64)).collect();
            let list = described(&list);
            let head = head(&list, parts.len() as u64);
            let message = memory.message(address(&head)).unwrap();
            let whole = parts.concat();
            prop_assert_eq!(memory.gather(&message, whole.len()), Ok(whole.clone()));
            if !whole.is_empty() {
                prop_assert_eq!(memory.gather(&message, whole.len() - 1), Err(Errno::MSGSIZE));
            }
        }
    }

    proptest! {
        /// Any bytes as ancillary data, and any room, are cut to what fits.
        #[test]
        fn control_is_cut_to_its_room(bytes in proptest::collection::vec(any::<u8>(), 0..100), len in 0usize..120, room in 0usize..120) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_chunk_mut() {
                *first = len.to_ne_bytes();
            }
            prop_assert!(cut_control(&bytes, room).0.len() <= room);
        }
    }

    #[test]
    fn the_last_control_message_is_shortened() {
        let one = |data: &[u8]| {
            let mut bytes = (CONTROL_HEAD + data.len()).to_ne_bytes().to_vec();
            bytes.extend([7; 8]);
            bytes.extend(data);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes
        };
        let both = [one(&[1; 4]), one(&[2; 4])].concat();
        assert_eq!(cut_control(&both, 100), (both.clone(), false));
        // Without the padding of the last, it is whole.
        assert_eq!(cut_control(&both, 44), (both[..44].to_vec(), false));
        assert_eq!(cut_control(&both, 39), (both[..24].to_vec(), true));
        let (cut, missing) = cut_control(&both, 42);
        assert!(missing);
        assert_eq!(cut[24..32], 18usize.to_ne_bytes());
        assert_eq!(cut[32..], both[32..42]);
        assert_eq!(cut_control(&both, 0), (vec![], true));
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let memory = Memory::own();
        let list = described(&[(8, u64::MAX)]);
        let one = head(&list, 1);
        let message = memory.message(address(&one)).unwrap();
        assert_eq!(memory.gather(&message, 1000), Err(Errno::MSGSIZE));
        let many = head(&list, 1025);
        assert_eq!(memory.message(address(&many)).unwrap_err(), Errno::MSGSIZE);
        assert_eq!(memory.message(0).unwrap_err(), Errno::FAULT);
        assert_eq!(memory.message(u64::MAX).unwrap_err(), Errno::FAULT);
        assert_eq!(memory.value(8, 1 << 31), Err(Errno::INVAL));
        assert_eq!(memory.value(8, 1 << 20), Err(Errno::INVAL));
    }

    #[test]
    fn ancillary_data_without_an_address_is_cut() {
        let memory = Memory::own();
        let mut head = head(&[], 0);
        head[CONTROL_LEN] = 100;
        let message = memory.message(address(&head)).unwrap();
        let mut control = (CONTROL_HEAD + 4).to_ne_bytes().to_vec();
        control.extend([7; 12]);
        memory.write_head(&message, &[], &control, 0).unwrap();
        let head = std::hint::black_box(head);
        assert_eq!(head[CONTROL_LEN..][..8], [0; 8]);
        assert_eq!(head[FLAGS..][..4], libc::MSG_CTRUNC.to_ne_bytes());
    }

    #[test]
    fn an_address_is_cut_to_its_room() {
        let memory = Memory::own();
        let (mut room, mut len) = ([0u8; 8], 4u32.to_ne_bytes());
        let (at, len_at) = (room.as_mut_ptr() as u64, len.as_mut_ptr() as u64);
        memory.write_address(at, len_at, &[1; 6]).unwrap();
        assert_eq!(std::hint::black_box(room), [1, 1, 1, 1, 0, 0, 0, 0]);
        assert_eq!(std::hint::black_box(len), 6u32.to_ne_bytes());
    }
}
