//! The program around the engine: time, a console, devices.

use core::net::SocketAddr;
use core::sync::atomic::AtomicU32;

use packet::Pool;

use click::Quotes;

use crate::args::NameDatabase;
use crate::handler::{HandlerError, HandlerList};
use crate::prelude::*;
use crate::store::StoreBox;

/// A moment of the steady clock, in nanoseconds since some start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Steady(pub u64);

impl Steady {
    /// The moment `nanoseconds` later.
    pub fn after(self, nanoseconds: u64) -> Steady {
        Steady(self.0.saturating_add(nanoseconds))
    }

    /// Nanoseconds since `earlier`; 0 if that is later.
    pub fn since(self, earlier: Steady) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Why a device is not opened that a guest, or a test, does not have.
pub const NO_DEVICE: &str = "no such interface; name one that the guest was given";

/// Why a socket is not opened where no network stack serves sockets.
pub const NO_SOCKETS: &str =
    "no NSM serves this router's sockets; start the guest with `--nsm NAME`";

/// What a socket is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether it serves at the address; else it is connected to it.
    pub serves: bool,
    /// Whether it is one of bytes (TCP); else one of datagrams (UDP).
    pub stream: bool,
    /// The address.
    pub address: SocketAddr,
}

/// What a socket has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketStatus {
    /// Connections that are open.
    pub open: u64,
    /// Connections that were made or accepted.
    pub connections: u64,
    /// Connections that were refused, or broke.
    pub failed: u64,
    /// Packets that no connection was there for.
    pub drops: u64,
}

/// The program a router lives in: `weir click`, a guest, a test.
pub trait Embedding: Send {
    /// The steady clock.
    fn steady(&self) -> Steady;

    /// Wall-clock time in nanoseconds since 1970.
    fn wall(&self) -> i64;

    /// Prints a line for the user: Click's `click_chatter`.
    fn chatter(&mut self, line: &str);

    /// The quotation marks that messages have where [`chatter`](Self::chatter) prints them.
    fn quotes(&self) -> Quotes {
        Quotes::Ascii
    }

    /// Writes text to standard output as it stands. Where there is none, it goes where
    /// [`chatter`](Self::chatter) goes, without a line end at its end.
    fn print(&mut self, text: &[u8]) {
        #[cfg(feature = "std")]
        {
            use std::io::Write;
            let mut out = std::io::stdout().lock();
            // A failed write is ignored: the reader has gone.
            let _ = out.write_all(text).and_then(|()| out.flush());
        }
        #[cfg(not(feature = "std"))]
        {
            let text = click::text::decode(text);
            self.chatter(text.strip_suffix('\n').unwrap_or(&text));
        }
    }

    /// A random number to start from.
    fn seed(&mut self) -> u64;

    /// What the `driver` handler says.
    fn driver(&self) -> &'static str;

    /// Where the router is to keep the index of the element that works, plus one; 0 is none. A
    /// crash report is read from there.
    fn current_element(&self) -> Option<&'static AtomicU32> {
        None
    }

    /// Opens one side of the network device that configurations call `name`, or says why not.
    fn device(&mut self, name: &str, side: Side) -> Result<Box<dyn Device>, String> {
        let _ = (name, side);
        Err(NO_DEVICE.into())
    }

    /// Opens a socket that a network stack serves, or says why not.
    fn socket(&mut self, socket: &Endpoint) -> Result<Box<dyn Device>, String> {
        let _ = socket;
        Err(NO_SOCKETS.into())
    }

    /// The name of network device number `index`, in the order in which the program was given them;
    /// `None` if there are fewer.
    fn device_name(&self, index: usize) -> Option<String> {
        let _ = index;
        None
    }

    /// The control store that the router's elements use; `None` if there is none.
    fn store(&self) -> Option<StoreBox> {
        None
    }

    /// The text of a file that an argument names. Only a router whose configuration is the user's own
    /// has files.
    fn file(&mut self, name: &str) -> Result<String, String> {
        let _ = name;
        Err("files cannot be read here".into())
    }

    /// The names that a router's arguments may use beside those its elements define.
    fn names(&mut self) -> NameDatabase {
        NameDatabase::new()
    }

    /// Lists the program's own global handlers, besides those every router has.
    fn handlers(&self, list: &mut HandlerList) {
        let _ = list;
    }

    /// Reads one of the program's own global handlers.
    fn read(&mut self, name: &str, parameter: &str) -> Result<String, HandlerError> {
        let _ = (name, parameter);
        Err(HandlerError::Unknown)
    }

    /// Writes one of the program's own global handlers.
    fn write(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        let _ = (name, value);
        Err(HandlerError::Unknown)
    }
}

/// What a device is opened for. Each side is opened once, and may be used on a thread of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// To receive frames.
    Receive,
    /// To send them.
    Transmit,
}

/// A network device that moves whole batches: a guest's pair of rings. Of what it can do, one opened
/// for a side is asked for that side's.
pub trait Device: Send {
    /// Ethernet address.
    fn mac(&self) -> [u8; 6];

    /// Largest IP packet, in bytes.
    fn mtu(&self) -> usize;

    /// The number by which the switch knows it among a guest's interfaces, if the switch settles flows that come by it
    /// at the moment.
    fn settles(&self) -> Option<u8> {
        None
    }

    /// Adds at most `most` received frames to `batch`.
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch, most: usize);

    /// Sets whether the receiving elements accept packets that stand for several segments, whose
    /// data continues in parts and whose checksums are partial; by default they do not. When they
    /// no longer do, the packets of this kind that are under way are completed or dropped.
    fn take_segments(&mut self, takes: bool) {
        let _ = takes;
    }

    /// Sends packets from the front of `batch` as far as there is room; the rest stays in it.
    fn transmit(&mut self, pool: &mut Pool, batch: &mut Batch);

    /// Frames that can be sent now.
    fn room(&mut self) -> usize;

    /// Asks that the router's thread `thread` be woken when a frame arrives; returns whether there is
    /// none yet. Where none ever arrives, there is nothing to do.
    fn arm_receive(&mut self, thread: u16) -> bool {
        let _ = thread;
        true
    }

    /// Asks that the router's thread `thread` be woken when there is room to send; returns whether
    /// there is none yet. Where there is always room, there is nothing to do.
    fn arm_transmit(&mut self, thread: u16) -> bool {
        let _ = thread;
        true
    }

    /// The file descriptor that is readable when a frame waits, if that, and not
    /// [`arm_receive`](Self::arm_receive), is what wakes the router.
    fn descriptor(&self) -> Option<i32> {
        None
    }

    /// An element begins to use it.
    fn open(&mut self) {}

    /// An element uses it no more. A socket that no element uses is closed.
    fn close(&mut self) {}

    /// What it has done, if it is a socket.
    fn socket_status(&mut self) -> SocketStatus {
        SocketStatus::default()
    }

    /// Whether a frame waits to be received.
    fn has_received(&mut self) -> bool {
        false
    }
}
