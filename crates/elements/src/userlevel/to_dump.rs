use std::fs::File;
use std::io::{self, Write};

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use zstd::stream::write::Encoder as ZstdEncoder;

use super::capture::{Compression, Record, file_header, record_header};
use crate::headers::link_type::LinkType;
use crate::prelude::*;
use crate::pulls::puller::Puller;
use router::args::path;

/// Bytes that are held back before they are written.
const BUFFER: usize = 64 << 10;

/// Writes packets to a capture file for tcpdump and FromDump.
///
/// Each packet is written with its timestamp, or with the current time if it has none.
///
/// When a configuration is replaced, an element of the same name continues the file of its
/// predecessor if `FILENAME`, `SNAPLEN`, `NANO` and the link type are the same.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10, STOP true) -> ToDump(out.pcap);
/// ```
///
/// # See also
/// FromDump, ToDevice
#[derive(Element)]
#[element(ports = "1/0-1", phase = phase::DEFAULT + 100, handlers, take_over)]
#[outputs("the packets, once written")]
pub struct ToDump {
    /// The file, which is overwritten; `-` is the standard output. If the name ends in `.gz`,
    /// `.bz2` or `.zst`, the file is compressed.
    #[arg(mandatory, with = FilenameArg, kind = "file name", read)]
    filename: String,
    /// Most bytes written of a packet; 0: all.
    #[arg(positional, default = 2000)]
    snaplen: u32,
    /// The packets' link type: `ETHER`, `IP`, `FDDI`, `ATM`, `802_11`, `802_11_RADIO`, `SLL`,
    /// `AIRONET`, `HDLC`, `PPP_HDLC`, `PPP`, `SUNATM`, `PRISM`, `NULL`, or `#` and the number of a
    /// link type.
    #[arg(positional, with = WordArg, kind = "word", default_text = "ETHER")]
    encap: String,
    /// Takes ENCAP from these elements' `encap` handlers, which must agree.
    #[arg(with = args::Any, kind = "elements")]
    use_encap_from: String,
    /// Whether the length written counts the extra length annotation.
    #[arg(default = true)]
    extra_length: bool,
    /// Whether each batch of packets is written at once.
    #[arg]
    unbuffered: bool,
    /// Whether times are written in nanoseconds, not microseconds.
    #[arg(name = "NANO", default = true)]
    nanoseconds: bool,
    /// Accepted, without effect.
    #[arg]
    per_node: bool,
    #[flatten]
    puller: Puller,
    link: LinkType,
    encap_from: Vec<ElementId>,
    /// `None` after an error.
    file: Option<Sink>,
    buffer: Vec<u8>,
    /// Packets written.
    #[handler(read)]
    count: u64,
}

/// Where packets are written to.
enum Sink {
    /// A file whose old content is still there: the element may turn out to go on with the file
    /// of the one that it replaces.
    Untouched(File, Option<Compression>),
    File(File),
    /// A file whose content is compressed while it is written.
    Gzip(Box<GzEncoder<File>>),
    Bzip2(Box<BzEncoder<File>>),
    Zstd(Box<ZstdEncoder<'static, File>>),
    Stdout(io::Stdout),
}

impl Sink {
    /// Ends a compressed file.
    fn finish(self) -> io::Result<()> {
        match self {
            Sink::Gzip(file) => file.finish().map(drop),
            Sink::Bzip2(file) => file.finish().map(drop),
            Sink::Zstd(file) => file.finish().map(drop),
            Sink::Untouched(..) | Sink::File(_) | Sink::Stdout(_) => Ok(()),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Sink::Untouched(file, compression) = self {
            let (file, compression) = (file.try_clone()?, *compression);
            if file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            *self = match compression {
                None => Sink::File(file),
                Some(Compression::Gzip) => {
                    Sink::Gzip(Box::new(GzEncoder::new(file, Default::default())))
                }
                Some(Compression::Bzip2) => {
                    Sink::Bzip2(Box::new(BzEncoder::new(file, Default::default())))
                }
                Some(Compression::Zstd) => Sink::Zstd(Box::new(ZstdEncoder::new(file, 0)?)),
            };
        }
        match self {
            Sink::Gzip(file) => file.write_all(bytes),
            Sink::Bzip2(file) => file.write_all(bytes),
            Sink::Zstd(file) => file.write_all(bytes),
            Sink::Untouched(file, _) | Sink::File(file) => file.write_all(bytes),
            Sink::Stdout(stdout) => {
                stdout.write_all(bytes)?;
                stdout.flush()
            }
        }
    }
}

impl ToDump {
    /// Takes the link type on which the elements of USE_ENCAP_FROM agree.
    fn ask_for_encap(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        let mut agreed: Option<LinkType> = None;
        let mut said: Vec<(ElementId, String)> = Vec::new();
        for &id in &self.encap_from {
            let encap = cx.read_handler(Some(id), "encap", "");
            let name = cx.graph().info(id).name.clone();
            let Ok(encap) = encap else {
                return Err(cx.error(format_args!("'{name}' has no 'encap' read handler")));
            };
            said.push((id, encap.trim().to_string()));
        }
        for (id, encap) in &said {
            let name = cx.graph().info(*id).name.clone();
            let Some(link) = LinkType::parse(encap) else {
                return Err(cx.error(format_args!(
                    "'{name}.encap' did not return a valid encapsulation type"
                )));
            };
            if agreed.is_some_and(|agreed| agreed != link) {
                let failed = cx.error("source encapsulation types disagree:");
                for (id, encap) in &said {
                    let info = cx.graph().info(*id);
                    let line = format!("  {} :: {} has {encap}", info.name, info.class.name);
                    let _ = cx.error(line);
                }
                return Err(failed);
            }
            agreed = Some(link);
        }
        self.link = agreed.unwrap_or(LinkType::ETHERNET);
        Ok(())
    }

    /// Adds a packet to what is to be written.
    #[inline]
    fn add(&mut self, cx: &Cx<'_>, packet: &Packet) {
        let extra = if self.extra_length {
            packet.anno(EXTRA_LENGTH)
        } else {
            0
        };
        let length = packet.len() as u32;
        let captured = length.min(self.snaplen);
        let time = match packet.timestamp() {
            0 => cx.wall(),
            time => time,
        };
        let record = Record {
            time,
            captured,
            length: length.saturating_add(extra),
        };
        let head = record_header(&record, self.nanoseconds);
        self.buffer.extend_from_slice(&head);
        let data = packet.data().get(..captured as usize).unwrap_or(&[]);
        self.buffer.extend_from_slice(data);
        self.count += 1;
    }

    fn add_all(&mut self, cx: &mut Cx<'_>, batch: &Batch) {
        if self.file.is_none() {
            return;
        }
        for packet in batch.iter() {
            self.add(cx, packet);
        }
        if self.unbuffered || self.buffer.len() >= BUFFER {
            self.flush(cx);
        }
    }

    /// Writes buffered lines. After an error, nothing more is written.
    fn flush(&mut self, cx: &mut Cx<'_>) {
        let Some(file) = &mut self.file else {
            return;
        };
        let written = file.write(&self.buffer);
        self.buffer.clear();
        if let Err(error) = written {
            self.file = None;
            self.complain(cx, &error);
        }
    }

    /// Writes all, and ends the file.
    fn finish(&mut self, cx: &mut Cx<'_>) {
        self.flush(cx);
        if let Some(Err(error)) = self.file.take().map(Sink::finish) {
            self.complain(cx, &error);
        }
    }

    fn complain(&self, cx: &mut Cx<'_>, error: &io::Error) {
        let (name, error) = (&self.filename, super::os_error(error));
        cx.chatter(format_args!("ToDump({name}): {error}"));
    }
}

#[handlers]
impl ToDump {
    /// Sets `count` to 0.
    #[write(button)]
    fn reset_counts(&mut self) {
        self.count = 0;
    }

    fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut ToDump) {
        if old.filename != self.filename {
            return;
        }
        let format = |dump: &ToDump| (dump.link, dump.nanoseconds, dump.snaplen);
        if format(old) == format(self) {
            self.file = old.file.take();
            self.buffer = core::mem::take(&mut old.buffer);
            self.count = old.count;
        } else {
            // The file is overwritten: nothing of the old element may come in between later.
            old.finish(cx);
        }
    }
}

impl Element for ToDump {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        if self.snaplen == 0 {
            self.snaplen = u32::MAX;
        }
        if !self.use_encap_from.is_empty() && !self.encap.is_empty() {
            return Err(args.fail("specify at most one of 'ENCAP' and 'USE_ENCAP_FROM'"));
        }
        self.encap_from.clear();
        for name in click::config::split_space(&self.use_encap_from) {
            match args.context().find_element(&name) {
                Some((index, _)) => self.encap_from.push(ElementId::new(index)),
                None => return Err(args.fail(format_args!("no element named '{name}'"))),
            }
        }
        self.link = match self.encap.as_str() {
            "" => LinkType::ETHERNET,
            name => LinkType::parse(name).ok_or_else(|| args.fail("bad encapsulation type"))?,
        };
        if self.filename.ends_with(".Z") {
            return Err(args.fail(format_args!(
                "FILENAME: {}: files are not compressed so; let the name end in .gz, .bz2 or .zst",
                self.filename
            )));
        }
        Ok(())
    }

    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if !self.encap_from.is_empty() {
            self.ask_for_encap(cx)?;
        }
        self.file = Some(if self.filename == "-" {
            self.filename = "<stdout>".to_string();
            Sink::Stdout(io::stdout())
        } else {
            let mut options = File::options();
            match options
                .write(true)
                .create(true)
                .truncate(false)
                .open(path(&self.filename))
            {
                Ok(file) => Sink::Untouched(file, Compression::of_name(&self.filename)),
                Err(error) => {
                    let error = format!("{}: {}", self.filename, super::os_error(&error));
                    return Err(cx.error(error));
                }
            }
        });
        self.buffer.reserve(2 * BUFFER);
        let head = file_header(self.nanoseconds, self.snaplen, self.link);
        self.buffer.extend_from_slice(&head);
        if cx.outputs() == 0 {
            self.puller.initialize(cx);
        }
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.finish(cx);
    }

    fn batch(&mut self, cx: &mut Cx<'_>, batch: &mut Batch) {
        self.add_all(cx, batch);
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, _task: TaskId) -> Ran {
        if self.file.is_none() {
            return Ran::Nothing;
        }
        let Some(batch) = cx.pulled() else {
            return self.puller.pull(cx);
        };
        let pulled = batch.len();
        self.add_all(cx, &batch);
        cx.done(batch);
        self.puller.pulled(cx, pulled)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;
    use crate::userlevel::testing::TempFile;

    fn word(file: &[u8], at: usize) -> u32 {
        u32::from_ne_bytes(file[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn packets_are_written_as_tcpdump_reads_them() {
        let file = TempFile::new("to_dump");
        let mut rig = Rig::new(&format!(
            "i :: Inject -> d :: ToDump({file}, 4) -> c :: Collect;"
        ));
        rig.push_with("i", &[1, 2, 3, 4, 5], |packet| {
            packet.set_timestamp(7_000_000_123);
            packet.set_anno(EXTRA_LENGTH, 10);
        });
        rig.push("i", &[6]);
        assert_eq!(rig.data("c").len(), 2);
        assert_eq!(rig.read("d.count"), "2");
        assert_eq!(rig.read("d.filename"), file.to_string());
        rig.end();
        let bytes = file.read();
        assert_eq!(word(&bytes, 0), 0xa1b2_3c4d);
        assert_eq!((word(&bytes, 16), word(&bytes, 20)), (4, 1));
        let heads: Vec<u32> = (0..4).map(|i| word(&bytes, 24 + 4 * i)).collect();
        assert_eq!(heads, [7, 123, 4, 15]);
        assert_eq!(bytes[40..44], [1, 2, 3, 4]);
        // Without a timestamp, the present time.
        assert_eq!(i64::from(word(&bytes, 44)), START / 1_000_000_000);
        assert_eq!(bytes.len(), 24 + 20 + 17);
    }

    #[test]
    fn times_in_microseconds_and_lengths_as_they_are_can_be_asked_for() {
        let file = TempFile::new("to_dump_micro");
        let mut rig = Rig::new(&format!(
            "i :: Inject -> ToDump({file}, 0, IP, NANO false, EXTRA_LENGTH false);"
        ));
        rig.push_with("i", &[9; 3000], |packet| {
            packet.set_timestamp(7_000_123_000);
            packet.set_anno(EXTRA_LENGTH, 10);
        });
        rig.end();
        let bytes = file.read();
        assert_eq!((word(&bytes, 0), word(&bytes, 20)), (0xa1b2_c3d4, 101));
        let heads: Vec<u32> = (0..4).map(|i| word(&bytes, 24 + 4 * i)).collect();
        assert_eq!(heads, [7, 123, 3000, 3000]);
    }

    #[test]
    fn a_file_of_the_same_format_is_gone_on_with() {
        let file = TempFile::new("to_dump_swap");
        let config = |args: &str| format!("i :: Inject -> d :: ToDump({file}, {args});");
        let mut rig = Rig::new(&config("8"));
        rig.push("i", &[1; 20]);
        rig.swap(&config("8, UNBUFFERED true"));
        assert_eq!(rig.read("d.count"), "1");
        rig.push("i", &[2; 20]);
        assert_eq!(
            (rig.read("d.count").as_str(), file.read().len()),
            ("2", 24 + 2 * 24)
        );
        for args in ["16", "16, NANO false"] {
            rig.swap(&config(args));
            assert_eq!(rig.read("d.count"), "0", "{args}");
            rig.push("i", &[3; 20]);
        }
        rig.end();
        let bytes = file.read();
        assert_eq!((word(&bytes, 0), word(&bytes, 16)), (0xa1b2_c3d4, 16));
        assert_eq!(bytes.len(), 24 + 16 + 16);
    }

    #[test]
    fn on_a_pull_input_it_pulls_of_itself() {
        let file = TempFile::new("to_dump_pull");
        let mut rig = Rig::new(&format!("i :: Inject -> Queue -> d :: ToDump({file});"));
        rig.push_all("i", &vec![vec![1; 60]; 100]);
        rig.run();
        assert_eq!(rig.read("d.count"), "100");
        assert_eq!(rig.outstanding(), 0);
        assert_eq!(rig.read("d.scheduled"), "false");
    }

    #[test]
    fn the_link_type_can_come_from_other_elements() {
        let (input, output) = (TempFile::new("encap_in"), TempFile::new("encap_out"));
        let mut rig = Rig::new(&format!("i :: Inject -> ToDump({input}, ENCAP SLL);"));
        rig.push("i", &[1; 20]);
        rig.end();
        let config = format!("f :: FromDump({input}) -> ToDump({output}, USE_ENCAP_FROM f);");
        let mut rig = Rig::new(&config);
        rig.run();
        rig.end();
        assert_eq!(word(&output.read(), 20), 113);
        Rig::refuses(
            "q :: Queue; Idle -> ToDump(/x, USE_ENCAP_FROM q); Idle -> q -> Idle;",
            "'q' has no 'encap' read handler",
        );
    }

    #[test]
    fn compressed_files_are_written_and_read_again() {
        let kinds: [(&str, &[u8]); 3] = [
            (".gz", &[0x1f, 0x8b]),
            (".bz2", b"BZh"),
            (".zst", &[0x28, 0xb5, 0x2f, 0xfd]),
        ];
        for (end, magic) in kinds {
            let plain = TempFile::new("to_dump_compressed");
            let file = format!("{plain}{end}");
            let mut rig = Rig::new(&format!("i :: Inject -> ToDump({file}, UNBUFFERED true);"));
            for n in 0..100 {
                rig.push("i", &[n; 200]);
            }
            rig.end();
            let bytes = std::fs::read(&file).unwrap();
            assert!(
                bytes.starts_with(magic) && bytes.len() < 5_000,
                "{end}: {}",
                bytes.len()
            );
            let mut rig = Rig::new(&format!(
                "f :: FromDump({file}, STOP true) -> c :: Collect;"
            ));
            std::fs::remove_file(&file).unwrap();
            assert_eq!(rig.read("f.filesize"), "-");
            rig.run();
            let packets = rig.data("c");
            assert_eq!(
                (packets.len(), &packets[99][..]),
                (100, &[99; 200][..]),
                "{end}"
            );
        }
    }

    #[test]
    fn wrong_arguments_are_refused_in_clicks_words() {
        let error = |args: &str, text: &str| {
            Rig::refuses(&format!("Idle -> ToDump({args});"), text);
        };
        error(
            "/nowhere/x.pcap",
            "/nowhere/x.pcap: No such file or directory",
        );
        error("x, ENCAP TOKEN", "bad encapsulation type");
        error(
            "x, ENCAP IP, USE_ENCAP_FROM y",
            "specify at most one of 'ENCAP' and 'USE_ENCAP_FROM'",
        );
        error("x, USE_ENCAP_FROM y", "no element named 'y'");
        error("x.Z", "files are not compressed so");
    }
}
