use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::any::Any;
use std::fs::File;
use std::io::{self, Write};

use packet::anno::EXTRA_LENGTH;
use packet::{Batch, Packet};
use router::args::{self, Args, Failed, FilenameArg, WordArg};
use router::{Class, Cx, Declared, Element, ElementId, HandlerError, HandlerFlags, HandlerList, Ran, Signal, TaskId, phase};

use super::capture::{Record, file_header, record_header};
use crate::link_type::LinkType;

/// Bytes that are held back before they are written.
const BUFFER: usize = 64 << 10;

/// Writes packets to a capture file, which tcpdump and FromDump read.
///
/// Each packet is written with its timestamp, or the present time if it has none.
///
/// When a configuration is replaced, an element of the same name goes on with the file of its
/// predecessor if `FILENAME`, `SNAPLEN`, `NANO` and the link type are the same.
///
/// # Arguments
/// - `FILENAME` (file name): the file, which is made anew; `-` is the standard output.
/// - `SNAPLEN` (integer, 2000): most bytes written of a packet; 0: all.
/// - `ENCAP` (word, ETHER): what the packets' first header is: `ETHER`, `IP`, `FDDI`, `ATM`,
///   `802_11`, `802_11_RADIO`, `SLL`, `AIRONET`, `HDLC`, `PPP_HDLC`, `PPP`, `SUNATM`, `PRISM`,
///   `NULL`, or `#` and the number of a link type.
/// - `USE_ENCAP_FROM` (elements): takes ENCAP from these elements' `encap` handlers, which have to
///   agree.
/// - `EXTRA_LENGTH` (boolean, true): whether the length written counts the extra length
///   annotation.
/// - `UNBUFFERED` (boolean, false): whether each batch of packets is written at once.
/// - `NANO` (boolean, true): whether times are written in nanoseconds, not microseconds.
/// - `PER_NODE` (boolean): accepted, without effect.
///
/// # Ports
/// One input, agnostic. Output 0, optional, is agnostic: the packets, once written. On a pull
/// input without output it pulls of itself.
///
/// # Handlers
/// - `count` (read): packets written.
/// - `reset_counts` (write): sets `count` to 0.
/// - `filename` (read): the file's name.
/// - `scheduled`, `tickets`, `home_thread`: the task's; on a pull input without output.
///
/// # Example
/// ```click
/// InfiniteSource(LIMIT 10, STOP true) -> ToDump(out.pcap);
/// ```
///
/// # See also
/// FromDump, ToDevice
#[derive(Default)]
pub struct ToDump {
    filename: String,
    snaplen: u32,
    link: LinkType,
    encap_from: Vec<ElementId>,
    extra_length: bool,
    unbuffered: bool,
    nanoseconds: bool,
    /// `None` after an error.
    file: Option<Sink>,
    buffer: Vec<u8>,
    count: u64,
    pull: Option<(TaskId, Signal)>,
}

/// Where packets are written to.
enum Sink {
    /// A file whose old content is still there: the element may turn out to go on with the file
    /// of the one that it replaces.
    Untouched(File),
    File(File),
    Stdout(io::Stdout),
}

impl Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Sink::Untouched(file) = self {
            let file = file.try_clone()?;
            if file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            *self = Sink::File(file);
        }
        match self {
            Sink::Untouched(file) | Sink::File(file) => file.write_all(bytes),
            Sink::Stdout(stdout) => {
                stdout.write_all(bytes)?;
                stdout.flush()
            }
        }
    }
}

impl Class for ToDump {
    const NAME: &'static str = "ToDump";
    const PORTS: &'static str = "1/0-1";
    const PROCESSING: &'static str = "a/a";
    /// After the elements whose `encap` it may ask for.
    const PHASE: i32 = phase::DEFAULT + 100;
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
        let extra = match self.extra_length {
            true => packet.anno(EXTRA_LENGTH),
            false => 0,
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

    /// Writes what was held back. After an error, nothing more is written.
    fn flush(&mut self, cx: &mut Cx<'_>) {
        let Some(file) = &mut self.file else {
            return;
        };
        let written = file.write(&self.buffer);
        self.buffer.clear();
        if let Err(error) = written {
            self.file = None;
            let (name, error) = (&self.filename, super::os_error(&error));
            cx.chatter(format_args!("ToDump({name}): {error}"));
        }
    }
}

impl Declared for ToDump {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        (self.snaplen, self.extra_length, self.nanoseconds) = (2000, true, true);
        let (mut encap, mut encap_from, mut per_node) = (String::new(), String::new(), false);
        args.mandatory_positional_with("FILENAME", FilenameArg, &mut self.filename)
            .positional("SNAPLEN", &mut self.snaplen)
            .positional_with("ENCAP", WordArg, &mut encap)
            .keyword_with("USE_ENCAP_FROM", args::Any, &mut encap_from)
            .keyword("EXTRA_LENGTH", &mut self.extra_length)
            .keyword("UNBUFFERED", &mut self.unbuffered)
            .keyword("NANO", &mut self.nanoseconds)
            .keyword("PER_NODE", &mut per_node)
            .complete()?;
        if self.snaplen == 0 {
            self.snaplen = u32::MAX;
        }
        if !encap_from.is_empty() && !encap.is_empty() {
            return Err(args.fail("specify at most one of 'ENCAP' and 'USE_ENCAP_FROM'"));
        }
        for name in click::config::split_space(&encap_from) {
            match args.context().find_element(&name) {
                Some((index, _)) => self.encap_from.push(ElementId::new(index)),
                None => return Err(args.fail(format_args!("no element named '{name}'"))),
            }
        }
        self.link = match encap.as_str() {
            "" => LinkType::ETHERNET,
            name => LinkType::parse(name).ok_or_else(|| args.fail("bad encapsulation type"))?,
        };
        let compressed = [".gz", ".Z", ".bz2"];
        if compressed.iter().any(|end| self.filename.ends_with(end)) {
            return Err(args.fail(format_args!(
                "FILENAME: {}: compressed files are not written; give the plain file's name",
                self.filename
            )));
        }
        Ok(())
    }

    fn take_state(&mut self, cx: &mut Cx<'_>, old: &mut dyn Element) {
        let old: &mut dyn Any = old;
        if let Some(old) = old.downcast_mut::<ToDump>()
            && old.filename == self.filename
        {
            let format = |dump: &ToDump| (dump.link, dump.nanoseconds, dump.snaplen);
            if format(old) == format(self) {
                self.file = old.file.take();
                self.buffer = core::mem::take(&mut old.buffer);
                self.count = old.count;
            } else {
                // The file is made anew: nothing of the old element may come in between later.
                old.flush(cx);
                old.file = None;
            }
        }
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("filename").read("count").button("reset_counts");
        list.add("filename", HandlerFlags::CALM);
        if self.pull.is_some() {
            list.task(false);
        }
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "filename" => Ok(self.filename.clone()),
            "count" => Ok(self.count.to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<(), HandlerError> {
        match name {
            "reset_counts" => self.count = 0,
            _ => return Err(HandlerError::Unknown),
        }
        Ok(())
    }
}

impl Element for ToDump {
    fn initialize(&mut self, cx: &mut Cx<'_>) -> Result<(), Failed> {
        if !self.encap_from.is_empty() {
            self.ask_for_encap(cx)?;
        }
        self.file = Some(if self.filename == "-" {
            self.filename = "<stdout>".to_string();
            Sink::Stdout(io::stdout())
        } else {
            let mut options = File::options();
            match options.write(true).create(true).truncate(false).open(&self.filename) {
                Ok(file) => Sink::Untouched(file),
                Err(error) => {
                    let error = format!("{}: {}", self.filename, super::os_error(&error));
                    return Err(cx.error(error));
                }
            }
        });
        self.buffer.reserve(2 * BUFFER);
        let head = file_header(self.nanoseconds, self.snaplen, self.link);
        self.buffer.extend_from_slice(&head);
        if !cx.input_is_push(0) && cx.outputs() == 0 {
            let task = cx.task();
            cx.schedule(task);
            self.pull = Some((task, cx.upstream_signal(0, Some(task))));
        }
        Ok(())
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        self.flush(cx);
        self.file = None;
    }

    fn push(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch) -> usize {
        self.add_all(cx, batch);
        0
    }

    fn pull(&mut self, cx: &mut Cx<'_>, _port: usize, batch: &mut Batch, most: usize) {
        cx.pull(0, batch, most);
        self.add_all(cx, batch);
    }

    fn run_task(&mut self, cx: &mut Cx<'_>, task: TaskId) -> Ran {
        if self.file.is_none() {
            return Ran::Nothing;
        }
        let mut batch = cx.batch();
        let most = cx.limit();
        cx.pull(0, &mut batch, most);
        let pulled = batch.len();
        self.add_all(cx, &batch);
        cx.done(batch);
        if pulled > 0 || matches!(&self.pull, Some((_, signal)) if cx.is_active(signal)) {
            cx.schedule(task);
        }
        Ran::worked(pulled > 0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    use packet::anno::EXTRA_LENGTH;

    use crate::testing::{Rig, START};
    use crate::userlevel::testing::TempFile;

    fn word(file: &[u8], at: usize) -> u32 {
        u32::from_ne_bytes(file[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn packets_are_written_as_tcpdump_reads_them() {
        let file = TempFile::new("to_dump");
        let mut rig = Rig::new(&format!("i :: Inject -> d :: ToDump({file}, 4) -> c :: Collect;"));
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
        assert_eq!((rig.read("d.count").as_str(), file.read().len()), ("2", 24 + 2 * 24));
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
        let errors = Rig::errors("q :: Queue; Idle -> ToDump(/x, USE_ENCAP_FROM q); Idle -> q -> Idle;");
        assert!(errors.contains("'q' has no 'encap' read handler"), "{errors}");
    }

    #[test]
    fn wrong_arguments_are_refused_in_clicks_words() {
        let error = |args: &str, text: &str| {
            let errors = Rig::errors(&format!("Idle -> ToDump({args});"));
            assert!(errors.contains(text), "{errors}");
        };
        error("/nowhere/x.pcap", "/nowhere/x.pcap: No such file or directory");
        error("x, ENCAP TOKEN", "bad encapsulation type");
        error(
            "x, ENCAP IP, USE_ENCAP_FROM y",
            "specify at most one of 'ENCAP' and 'USE_ENCAP_FROM'",
        );
        error("x, USE_ENCAP_FROM y", "no element named 'y'");
        error("x.gz", "compressed files are not written");
    }
}
