//! Linux as QEMU's guest: Debian's kernel for virtual machines and busybox, unpacked by the
//! Makefile and not installed, and an initial file system that is made of them here.

use std::path::{Path, PathBuf};

use super::qemu::Qemu;

/// Modules that virtio-net needs, each behind the modules that it needs itself.
const MODULES: [&str; 8] = [
    "virtio_ring",
    "virtio",
    "virtio_pci_modern_dev",
    "virtio_pci_legacy_dev",
    "virtio_pci",
    "failover",
    "net_failover",
    "virtio_net",
];
/// The guest: 10.9.1.2. It says its network's features, serves a file of its own by HTTP and says
/// that file's sum, and fetches a file from 10.9.1.1 again and again, saying its sum.
const INIT: &str = "#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in /modules/*; do insmod $module; done
ip link set lo up
ip link set eth0 up
ip addr add 10.9.1.2/24 dev eth0
echo
echo features $(cat /sys/class/net/eth0/device/features)
head -c 8000000 /dev/urandom >/www/file
httpd -p 8080 -h /www
echo serves $(md5sum </www/file)
while true; do
    echo fetched $(nc -w 10 10.9.1.1 5001 </dev/null | md5sum)
    sleep 1
done
";
/// What the kernel is told: where to talk, not to look for what is not there, and to end at once
/// when something is wrong.
const TOLD: &str = "console=ttyS0 quiet mitigations=off nokaslr no_timer_check panic=-1";

/// The folder into which the Makefile unpacks the packages.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("../linux")
}

fn kernel() -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder().join("boot")).ok()?.flatten();
    let mut paths = entries.map(|entry| entry.path());
    paths.find(|path| path.to_string_lossy().contains("vmlinuz"))
}

fn busybox() -> Option<PathBuf> {
    let paths = ["bin/busybox", "usr/bin/busybox"].map(|path| folder().join(path));
    paths.into_iter().find(|path| path.exists())
}

/// Starts a Linux guest on the socket. Its network device has these options besides.
pub fn start(socket: &Path, mac: &str, options: &str) -> Qemu {
    // QEMU 7.2 crashes when a vhost-user device has message signalled interrupts and the processor
    // is emulated.
    let device = format!("mac={mac},vectors=0{options}");
    let kernel = kernel().expect("needs a kernel for the guest: `make setup` fetches it");
    Qemu::boot(socket, &device, &kernel, &files(), TOLD)
}

/// Looks for files below a folder.
fn walk(folder: &Path, found: &mut dyn FnMut(&Path)) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => walk(&path, found),
            false => found(&path),
        }
    }
}

/// The guest's files.
fn files() -> Vec<u8> {
    let mut archive = Archive(Vec::new());
    for folder in ["bin", "modules", "proc", "sys", "dev", "www"] {
        archive.add(folder, 0o040_755, &[]);
    }
    let busybox =
        std::fs::read(busybox().expect("needs busybox: `make setup` fetches it")).expect("busybox");
    archive.add("bin/busybox", 0o100_755, &busybox);
    archive.add("init", 0o100_755, INIT.as_bytes());
    let root = [
        folder().join("lib/modules"),
        folder().join("usr/lib/modules"),
    ];
    for (i, module) in MODULES.iter().enumerate() {
        let mut bytes = None;
        let mut found = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.split('.').next() == Some(module) {
                bytes = std::fs::read(path).ok();
            }
        };
        root.iter().for_each(|root| walk(root, &mut found));
        // A module without a file is built into the kernel.
        if let Some(bytes) = bytes {
            archive.add(&format!("modules/{i}"), 0o100_644, &bytes);
        }
    }
    archive.add("TRAILER!!!", 0, &[]);
    archive.0
}

/// A cpio archive (cpio(5), the new ASCII format): what Linux makes its first files of.
struct Archive(Vec<u8>);

impl Archive {
    fn add(&mut self, name: &str, mode: u32, bytes: &[u8]) {
        let (size, name_size) = (bytes.len() as u32, name.len() as u32 + 1);
        let inode = self.0.len() as u32;
        let fields = [inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        self.0.extend(b"070701");
        for field in fields {
            self.0.extend(format!("{field:08x}").bytes());
        }
        self.0.extend(name.bytes().chain([0]));
        self.pad();
        self.0.extend(bytes);
        self.pad();
    }

    fn pad(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}
