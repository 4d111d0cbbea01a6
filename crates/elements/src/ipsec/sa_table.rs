use super::association::Spec;
use super::associations::{AssociationOwner, Associations, FULL, SharedAssociations};
use crate::prelude::*;

/// Keeps security associations for RadixIPsecLookup.
///
/// Use it if keys change while packets flow, or if each direction of a tunnel has its own keys:
/// routes name the associations by their index. A table has at most 4096; further ones are refused.
/// Sequence numbers and windows survive a hotswap.
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
#[derive(Element)]
#[element(
    ports = "0/0",
    handlers,
    take_over,
    provides(AssociationOwner, SharedAssociations)
)]
pub struct SATable {
    /// An association. `SPI` is the security parameters index, not 0. The keys are of 16 or 32
    /// bytes (AES) and of 16 or 20 bytes (HMAC-SHA-1), written in hexadecimal as
    /// `\<00112233...>`. `REPLAY` is the first sequence number, not 0. Packets more than `OOSIZE`
    /// (at most 255) numbers behind the highest are refused.
    #[arg(
        rest,
        name = "SPI ENCRYPT_KEY AUTH_KEY REPLAY OOSIZE",
        kind = "any number of associations"
    )]
    texts: Vec<String>,
    associations: Associations,
}

impl SATable {
    fn take_over(&mut self, _cx: &mut Cx<'_>, old: &mut SATable) {
        self.associations.take(&old.associations);
    }

    /// Adds an association with a new index.
    fn insert(&mut self, spec: Spec) -> Result<(), &'static str> {
        if self.associations.find(spec.spi).is_some() {
            return Err("there is a security association with this SPI");
        }
        self.associations.acquire(spec).map(drop).ok_or(FULL)
    }
}

impl AssociationOwner for SATable {
    fn associations(&mut self) -> &mut Associations {
        &mut self.associations
    }
}

impl SharedAssociations for SATable {}

#[handlers]
impl SATable {
    /// The associations, one a line: index, number of the next packet to be sent, and highest
    /// number received. Keys are not shown.
    #[read(expensive)]
    fn table(&self) -> String {
        self.associations.lines()
    }

    /// Number of associations.
    #[read]
    fn count(&self) -> usize {
        self.associations.iter().count()
    }

    /// Adds an association, written as the argument.
    #[write]
    fn add(&mut self, cx: &mut Cx<'_>, value: &str) -> Result<(), HandlerError> {
        let mut spec = None;
        router::parse_words(cx, value, |args| {
            spec = Some(Spec::read(args)?);
            Ok(())
        })?;
        spec.map_or(Ok(()), |spec| Ok(self.insert(spec)?))
    }

    /// Removes the association with an index.
    #[write(error = "expected integer")]
    fn remove(&mut self, spi: u32) -> Result<(), &'static str> {
        let handle = self.associations.find(spi);
        let handle = handle.ok_or("no security association with this SPI")?;
        self.associations.release(handle.slot);
        Ok(())
    }
}

impl Element for SATable {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        let element = args.element().to_string();
        for (i, text) in core::mem::take(&mut self.texts).iter().enumerate() {
            let mut words = Args::from_words(text, args.names(), &NoElements, &element);
            let read = Spec::read(&mut words);
            let errors = words.take_errors();
            for error in errors {
                args.error(format_args!("argument {}: {}", i + 1, error.text));
            }
            if let Ok(spec) = read
                && let Err(error) = self.insert(spec)
            {
                args.error(format_args!("argument {}: {error}", i + 1));
            }
        }
        args.finish()
    }
}
