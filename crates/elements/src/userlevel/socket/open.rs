//! Opening a Socket: where it is and where it leads.

use core::net::SocketAddrV4;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketAddrUnix, SocketFlags, SocketType, bind, connect, ipproto,
    listen, socket_with, sockopt,
};

use super::super::transport::call_failed;
use super::{Kind, Socket};
use crate::prelude::*;
use router::args::path;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 2;

/// Where a socket is, or where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Internet(SocketAddrV4),
    /// A file name; one that starts with a zero byte is in the abstract name space.
    File(String),
}

impl Place {
    fn address(&self) -> Result<SocketAddrAny, Errno> {
        match self {
            Place::Internet(address) => Ok(address.as_any()),
            Place::File(name) => Ok(match name.strip_prefix('\0') {
                Some(name) => SocketAddrUnix::new_abstract_name(&click::text::encode(name))?,
                None => SocketAddrUnix::new(path(name))?,
            }
            .as_any()),
        }
    }

    fn is_set(&self) -> bool {
        match self {
            Place::Internet(address) => address.port() != 0,
            Place::File(name) => !name.is_empty(),
        }
    }

    fn name(&self) -> String {
        match self {
            Place::Internet(address) => address.to_string(),
            Place::File(name) => name.replace('\0', "@"),
        }
    }

    /// As messages show an address.
    pub(super) fn colon(address: &SocketAddrAny) -> String {
        if let Ok(address) = SocketAddrV4::try_from(address.clone()) {
            return address.to_string();
        }
        let path = SocketAddrUnix::try_from(address.clone()).ok();
        let path = path.and_then(|unix| Some(click::text::decode(unix.path_bytes()?).into()));
        path.unwrap_or_default()
    }
}

impl Socket {
    /// Opens the socket; an error is a sentence.
    pub(super) fn open(&mut self, cx: &mut Cx<'_>) -> Result<(), String> {
        let Some(remote) = self.remote.clone() else {
            return Ok(());
        };
        let name = remote.name();
        let (family, protocol) = match (&remote, self.kind) {
            (Place::File(_), _) => (AddressFamily::UNIX, None),
            (_, Some(Kind::Stream)) => (AddressFamily::INET, Some(ipproto::TCP)),
            _ => (AddressFamily::INET, Some(ipproto::UDP)),
        };
        let kind = if self.is_stream() {
            SocketType::STREAM
        } else {
            SocketType::DGRAM
        };
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, protocol);
        let socket = socket.map_err(|errno| call_failed("socket", &name, errno))?;
        self.set_options(&socket, protocol == Some(ipproto::TCP))?;
        let local = if self.client {
            self.local.clone().filter(Place::is_set)
        } else {
            Some(remote.clone())
        };
        if let Some(local) = local {
            let bound = local.address().and_then(|address| bind(&socket, &address));
            bound.map_err(|errno| call_failed("bind", &local.name(), errno))?;
            if let Place::File(name) = local
                && !name.starts_with('\0')
            {
                self.bound = Some(name);
            }
        }
        let address = remote.address();
        let address = address.map_err(|errno| call_failed("connect", &name, errno))?;
        if self.is_stream() {
            self.open_stream(cx, &socket, &address, &name)?;
        }
        if self.client {
            self.peer = Some(address);
        }
        let flags = fcntl_getfl(&socket).unwrap_or(OFlags::empty()) | OFlags::NONBLOCK;
        fcntl_setfl(&socket, flags).map_err(|errno| call_failed("fcntl", &name, errno))?;
        self.socket = Some(socket);
        Ok(())
    }

    fn open_stream(
        &self,
        cx: &mut Cx<'_>,
        socket: &OwnedFd,
        address: &SocketAddrAny,
        name: &str,
    ) -> Result<(), String> {
        let (declaration, fd) = (cx.declaration(), socket.as_raw_fd());
        let said = if self.client {
            connect(socket, address).map_err(|errno| call_failed("connect", name, errno))?;
            format!("{declaration}: opened connection {fd} to {name}")
        } else {
            listen(socket, BACKLOG).map_err(|errno| call_failed("listen", name, errno))?;
            format!("{declaration}: listening for connections on {name} ({fd})")
        };
        if self.verbose {
            cx.chatter(said);
        }
        Ok(())
    }

    fn set_options(&self, socket: &OwnedFd, tcp: bool) -> Result<(), String> {
        let failed = |option: &'static str| {
            move |errno| call_failed(&format!("setsockopt({option})"), "", errno)
        };
        if tcp && self.no_delay {
            sockopt::set_tcp_nodelay(socket, true).map_err(failed("TCP_NODELAY"))?;
        }
        if let Ok(size) = usize::try_from(self.send_buffer) {
            sockopt::set_socket_send_buffer_size(socket, size).map_err(failed("SO_SNDBUF"))?;
        }
        if let Ok(size) = usize::try_from(self.receive_buffer) {
            sockopt::set_socket_recv_buffer_size(socket, size).map_err(failed("SO_RCVBUF"))?;
        }
        Ok(())
    }

    /// Takes the arguments that follow TYPE.
    pub(super) fn configure_places(
        &mut self,
        args: &mut Args<'_>,
        kind: &str,
    ) -> Result<(), Failed> {
        let protocol = match kind {
            "TCP" => IpProtocol::TCP,
            "UDP" => IpProtocol::UDP,
            _ => return self.configure_files(args),
        };
        let [mut to, mut from] = [Ipv4Addr::UNSPECIFIED; 2];
        let [mut port, mut from_port] = [0; 2];
        args.read()
            .mandatory_positional("ADDR", &mut to)
            .mandatory_positional_with("PORT", Port(protocol.0), &mut port)
            .positional("LOCAL_ADDR", &mut from)
            .positional_with("LOCAL_PORT", Port(protocol.0), &mut from_port)
            .complete()?;
        self.remote = Some(Place::Internet(SocketAddrV4::new(to, port)));
        self.local = Some(Place::Internet(SocketAddrV4::new(from, from_port)));
        Ok(())
    }

    fn configure_files(&mut self, args: &mut Args<'_>) -> Result<(), Failed> {
        let (mut remote, mut local) = (String::new(), String::new());
        args.read()
            .mandatory_positional_with("FILENAME", FilenameArg, &mut remote)
            .positional_with("LOCAL_FILENAME", FilenameArg, &mut local)
            .complete()?;
        for (which, name) in [("remote", &remote), ("local", &local)] {
            // The size of sun_path, with its closing zero byte but in the abstract name space;
            // see unix(7).
            if name.len() > 108 || (name.len() == 108 && !name.starts_with('\0')) {
                return Err(args.fail(format_args!("{which} filename '{name}' too long")));
            }
        }
        self.remote = Some(Place::File(remote));
        self.local = Some(Place::File(local));
        Ok(())
    }
}
