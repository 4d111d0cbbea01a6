use alloc::string::{String, ToString};
use core::any::Any;

use router::args::{Args, Failed, NoElements};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerFlags, HandlerList};

use super::association::Spec;
use super::associations::{Associations, FULL, Handle};
use crate::values;

/// Keeps security associations for RadixIPsecLookup.
///
/// Where keys change while packets flow, or where each direction of a tunnel has its own, the
/// associations are kept here, and routes name them by their index. A table has at most 4096;
/// further ones are refused. Sequence numbers and windows go on over a hotswap.
///
/// # Arguments
/// - `SPI ENCRYPT_KEY AUTH_KEY REPLAY OOSIZE`, ...: an association. `SPI` is the security
///   parameters index, not 0. The keys are of 16 or 32 bytes (AES) and of 16 or 20 bytes
///   (HMAC-SHA-1), written in hexadecimal as `\<00112233...>`. `REPLAY` is the first sequence
///   number, not 0. Packets more than `OOSIZE` (at most 255) numbers behind the highest are
///   refused.
///
/// # Ports
/// None.
///
/// # Handlers
/// - `table` (read): the associations, one a line: index, number of the next packet to be sent, and
///   highest number received. Keys are not shown.
/// - `count` (read): how many there are.
/// - `add` (write): adds an association, written as the argument.
/// - `remove` (write): removes the association with an index.
///
/// # Example
/// ```click
/// sa :: SATable(1001 \<0123456789abcdef0123456789abcdef> \<00112233445566778899aabbccddeeff> 1 64,
///     1002 \<fedcba9876543210fedcba9876543210> \<ffeeddccbbaa99887766554433221100> 1 64);
/// Idle -> rt :: RadixIPsecLookup(192.0.2.1 0, 10.1/16 192.0.2.2 1 1001, SATABLE sa);
/// rt[0] -> Discard;
/// rt[1] -> IPsecESPEncap -> Discard;
/// ```
///
/// # See also
/// RadixIPsecLookup, IPsecESPEncap
#[derive(Default)]
pub struct SATable {
    associations: Associations,
}

impl Class for SATable {
    const NAME: &'static str = "SATable";
    const PORTS: &'static str = "0/0";
}

impl SATable {
    pub(super) fn associations(&mut self) -> &mut Associations {
        &mut self.associations
    }

    /// Adds an association with a new index.
    fn add(&mut self, spec: Spec) -> Result<(), &'static str> {
        if self.find(spec.spi).is_some() {
            return Err("there is a security association with this SPI");
        }
        self.associations.acquire(spec).map(drop).ok_or(FULL)
    }

    fn find(&self, spi: u32) -> Option<Handle> {
        self.associations.find(spi)
    }
}

impl Declared for SATable {
    fn configure(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let texts = args.take_raw();
        let element = args.element().to_string();
        for (i, text) in texts.iter().enumerate() {
            let mut words = Args::from_words(text, args.names(), &NoElements, &element);
            let read = Spec::read(&mut words);
            let errors = words.take_errors();
            for error in errors {
                args.error(format_args!("argument {}: {}", i + 1, error.text));
            }
            if let Ok(spec) = read
                && let Err(error) = self.add(spec)
            {
                args.error(format_args!("argument {}: {error}", i + 1));
            }
        }
        args.finish()
    }

    fn handlers(&self, list: &mut HandlerList) {
        list.read("count").write("add").write("remove");
        list.add("table", HandlerFlags::READ.with(HandlerFlags::EXPENSIVE));
    }

    fn read(&mut self, _cx: &mut Cx<'_>, name: &str, _: &str) -> Result<String, HandlerError> {
        match name {
            "table" => Ok(self.associations.lines()),
            "count" => Ok(self.associations.iter().count().to_string()),
            _ => Err(HandlerError::Unknown),
        }
    }

    fn write(&mut self, cx: &mut Cx<'_>, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "add" => {
                let mut spec = None;
                values::words(cx, value, |args| {
                    spec = Some(Spec::read(args)?);
                    Ok(())
                })?;
                if let Some(spec) = spec {
                    self.add(spec)?;
                }
                Ok(())
            }
            "remove" => {
                let spi = values::unsigned(cx, value)?;
                let handle = self.find(spi).ok_or("no security association with this SPI")?;
                self.associations.release(handle.slot);
                Ok(())
            }
            _ => Err(HandlerError::Unknown),
        }
    }

    fn take_state(&mut self, _cx: &mut Cx<'_>, old: &mut dyn Element) {
        let old: &mut dyn Any = old;
        if let Some(old) = old.downcast_mut::<SATable>() {
            self.associations.take(&old.associations);
        }
    }
}

impl Element for SATable {}
