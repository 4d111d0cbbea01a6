//! QEMU as a frontend. Its guest is iPXE, a network boot loader with a virtio-net driver and a TCP
//! of its own, which does what a script says, or [Linux](super::linux). QEMU emulates the
//! processor, so it runs anywhere.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::fd::AsFd;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// iPXE as a kernel for QEMU.
const IPXE: &str = "/boot/ipxe.lkrn";
/// How long all of it may take: an emulated processor is slow, and slower on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running QEMU. It is killed when dropped.
pub struct Qemu {
    child: Child,
    initrd: PathBuf,
    console: PathBuf,
}

impl Qemu {
    /// Starts one whose network device is on the socket and has this address, by the legacy
    /// interface or by virtio 1, and whose guest does what the script says.
    pub fn start(socket: &Path, mac: &str, legacy: bool, script: &str) -> Qemu {
        assert!(
            Path::new(IPXE).exists(),
            "needs {IPXE}: Debian package ipxe"
        );
        let modern = if legacy { "on" } else { "off" };
        let device = format!("mac={mac},disable-modern={modern}");
        let script = format!("#!ipxe\n{script}\n");
        Qemu::boot(socket, &device, Path::new(IPXE), script.as_bytes(), "")
    }

    /// Starts one whose network device is on the socket and has these options, with a kernel, what
    /// that finds in memory, and what it is told. QEMU connects again when the socket's other end
    /// has gone.
    pub fn boot(socket: &Path, device: &str, kernel: &Path, initrd: &[u8], told: &str) -> Qemu {
        let [initrd_file, console] =
            ["initrd", "log"].map(|extension| socket.with_extension(extension));
        std::fs::write(&initrd_file, initrd).expect("a file");
        let path = socket.display();
        let mut options = vec![
            ("-machine", "pc,accel=tcg,graphics=off".into()),
            ("-display", "none".into()),
            ("-serial", format!("file:{}", console.display())),
            ("-m", "256".into()),
            (
                "-object",
                "memory-backend-memfd,id=m,size=256M,share=on".into(),
            ),
            ("-numa", "node,memdev=m".into()),
            ("-chardev", format!("socket,id=c,path={path},reconnect=1")),
            ("-netdev", "vhost-user,id=n,chardev=c".into()),
            (
                "-device",
                format!("virtio-net-pci,netdev=n,romfile=,{device}"),
            ),
            ("-kernel", kernel.display().to_string()),
            ("-initrd", initrd_file.display().to_string()),
        ];
        if !told.is_empty() {
            options.push(("-append", told.into()));
        }
        let mut command = Command::new("qemu-system-x86_64");
        command.args(["-nodefaults", "-no-user-config"]);
        for (option, value) in options {
            command.args([option, &value]);
        }
        let child = command.stdin(Stdio::null()).spawn();
        let child = child.expect("needs qemu-system-x86_64: Debian package qemu-system-x86");
        Qemu {
            child,
            initrd: initrd_file,
            console,
        }
    }

    /// What the guest has said.
    pub fn console(&self) -> String {
        let bytes = std::fs::read(&self.console).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.initrd);
        let _ = std::fs::remove_file(&self.console);
    }
}

/// A web server in a namespace: answers with the files until `last` was asked for; returns what
/// was asked for in turn.
pub fn serve(
    namespace: &str,
    address: &str,
    files: Vec<(&'static str, Vec<u8>)>,
    last: &'static str,
) -> JoinHandle<Vec<String>> {
    let namespace = File::open(format!("/run/netns/{namespace}")).expect("a namespace");
    let address = address.to_owned();
    std::thread::spawn(move || {
        let kind = Some(LinkNameSpaceType::Network);
        move_into_link_name_space(namespace.as_fd(), kind).expect("the namespace");
        let listener = TcpListener::bind(address).expect("a listener");
        listener.set_nonblocking(true).expect("a mode");
        let (mut asked, started) = (Vec::new(), Instant::now());
        while started.elapsed() < TIMEOUT {
            let Ok((mut stream, _)) = listener.accept() else {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            };
            stream.set_nonblocking(false).expect("a mode");
            stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
            stream.set_write_timeout(Some(TIMEOUT)).expect("a timeout");
            let mut reader = BufReader::new(stream.try_clone().expect("a copy"));
            let mut lines = Vec::new();
            let mut line = String::new();
            while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
                lines.push(std::mem::take(&mut line));
            }
            let Some(path) = lines.first().and_then(|line| line.split(' ').nth(1)) else {
                continue;
            };
            let file = files.iter().find(|(name, _)| *name == path);
            let head = match file {
                Some((_, bytes)) => format!("200 OK\r\nContent-Length: {}", bytes.len()),
                None => "404 Not Found\r\nContent-Length: 0".into(),
            };
            let head = format!("HTTP/1.0 {head}\r\n\r\n");
            let body = file.map_or(&[][..], |(_, bytes)| bytes);
            let sent = stream
                .write_all(head.as_bytes())
                .and_then(|()| stream.write_all(body));
            asked.push(path.to_owned());
            if sent.is_err() || path == last {
                break;
            }
        }
        asked
    })
}
