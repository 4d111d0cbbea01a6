mod message;
mod name;
pub mod table;
#[cfg(test)]
mod tests;
mod zone_file;

use message::{Answer, Outcome};
use table::{Refusal, Table};

use super::datagram::Datagram;
use crate::prelude::*;

/// Answers DNS queries for the names of a static table.
///
/// RECORDS is a zone file (RFC 1035, section 5): a record on each line, as `www A 10.0.0.80`, or several
/// lines in parentheses. Types are A, AAAA, CNAME, MX, NS, PTR, SOA and TXT; `$ORIGIN` and `$TTL` are known, and `;`
/// begins a comment. Each name is in a zone, which has a SOA record; NS records are a zone's own. There
/// are no wildcards, and 65536 records at most.
///
/// Answers are authoritative: the records, with the aliases that lead to them; or that the zone has no such
/// name, or no such records, with its SOA record. Queries for names in no zone are refused, and so is
/// recursion. A query for ANY gets the records of one type (RFC 8482). Letters of a name
/// are sent back as they came. An answer has at most 512 bytes, or what the client says by EDNS0 (RFC
/// 6891) up to 1232; a longer one is cut between two records, and marked. There is no answer by TCP, to which a client
/// then turns: keep sets of records below that.
///
/// Packets must have their IP header marked, IPv4 or IPv6 without extension headers, and are UDP to the
/// server's port, which an IPClassifier in front sees to. The packet itself becomes the
/// answer, back to its sender: what stands before the IP header stays, for an EtherMirror. Packets that
/// are no queries are dropped. Compressed names in a question are malformed.
///
/// Records written to `records` replace all; a mistake in them changes nothing.
///
/// # Example
/// ```click
/// FromDump(in.pcap, STOP true) -> CheckIPHeader(14) -> c :: IPClassifier(udp dst port 53, -);
/// c[0] -> DNSResponder("$ORIGIN example.org.
/// @ SOA ns root 1 1h 10m 1d 60
/// www A 10.0.0.80") -> EtherMirror -> Discard;
/// c[1] -> Discard;
/// ```
///
/// # See also
/// DHCPServer, ICMPPingResponder, EtherMirror
#[derive(Element)]
#[element(ports = "1/1", handlers, take_over)]
#[outputs("answers")]
pub struct DNSResponder {
    /// The records.
    #[arg(positional, name = "RECORDS")]
    text: String,
    /// Queries that were answered with records.
    #[handler(read)]
    found: u64,
    /// Queries for names that their zone does not have.
    #[handler(read)]
    missing: u64,
    /// Queries for records of a type that their name does not have.
    #[handler(read)]
    nodata: u64,
    /// Queries for names in no zone, or in another class.
    #[handler(read)]
    refused: u64,
    /// Queries of a kind that is not served.
    #[handler(read)]
    unsupported: u64,
    /// Queries that are malformed.
    #[handler(read)]
    malformed: u64,
    /// Answers that were cut.
    #[handler(read)]
    truncated: u64,
    /// Packets that are no queries.
    #[handler(read)]
    drops: u64,
    table: Table,
}

#[handlers]
impl DNSResponder {
    /// The records, as they were written.
    #[read]
    fn read_records(&self) -> Result<String, HandlerError> {
        listing(|out| out.write_str(&self.text))
    }

    /// Replaces the records.
    #[write]
    fn write_records(&mut self, text: &str) -> Result<(), HandlerError> {
        self.table = Table::new(text).map_err(|refusal| {
            let kind = match refusal {
                Refusal::Line(_) => FailureKind::Invalid,
                Refusal::NoMemory => FailureKind::NoMemory,
            };
            HandlerError::failed(kind, refusal.to_string())
        })?;
        self.text = text.into();
        Ok(())
    }

    /// How many records there are.
    #[read]
    fn record_count(&self) -> usize {
        self.table.records()
    }

    /// Sets all counters to 0.
    #[write(button)]
    fn reset(&mut self) {
        (self.found, self.missing, self.nodata, self.refused) = (0, 0, 0, 0);
        (self.unsupported, self.malformed) = (0, 0);
        (self.truncated, self.drops) = (0, 0);
    }
}

impl DNSResponder {
    /// Makes a query its answer; `None` if it gets none.
    fn answer(&mut self, packet: &mut Packet) -> Option<()> {
        let datagram = Datagram::of(packet)?;
        let mut answer = Answer::new();
        let (outcome, is_cut) = answer.to(datagram.payload(packet), &self.table)?;
        datagram.answer(packet, answer.bytes())?;
        *match outcome {
            Outcome::Found => &mut self.found,
            Outcome::NoName => &mut self.missing,
            Outcome::NoData => &mut self.nodata,
            Outcome::Refused => &mut self.refused,
            Outcome::Unsupported | Outcome::BadVersion => &mut self.unsupported,
            Outcome::Malformed => &mut self.malformed,
        } += 1;
        self.truncated += u64::from(is_cut);
        Some(())
    }

    fn take_over(&mut self, _cx: &mut Cx<'_>, old: &mut Self) {
        (self.found, self.missing, self.nodata) = (old.found, old.missing, old.nodata);
        (self.refused, self.unsupported) = (old.refused, old.unsupported);
        (self.malformed, self.truncated, self.drops) = (old.malformed, old.truncated, old.drops);
    }
}

impl Element for DNSResponder {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        self.table = Table::new(&self.text)
            .map_err(|refusal| args.fail(format_args!("RECORDS: {refusal}")))?;
        Ok(())
    }

    fn action(&mut self, _cx: &mut Cx<'_>, packet: &mut Packet) -> Verdict {
        match self.answer(packet) {
            Some(()) => Verdict::Forward,
            None => {
                self.drops += 1;
                Verdict::Drop
            }
        }
    }
}
