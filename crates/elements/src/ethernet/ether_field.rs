//! Ethernet addresses within packets and in their annotations.

use crate::prelude::*;

/// The offset of the address that the argument OFFSET, `text`, names.
pub fn offset(text: &str, args: &Args<'_>) -> Result<usize, Failed> {
    match text.to_lowercase().as_str() {
        "src" => return Ok(6),
        "dst" => return Ok(0),
        _ => {}
    }
    let offset = args.context().parse::<u32>(text);
    let offset = offset.map_err(|_| args.fail("type mismatch: bad OFFSET"))?;
    Ok(offset as usize)
}

/// Sets the annotation at `offset`.
#[inline(always)]
pub fn annotate(packet: &mut Packet, offset: usize, address: [u8; 6]) {
    let annotation = packet.annotations_mut().get_mut(offset..);
    if let Some(annotation) = annotation.and_then(|bytes| bytes.first_chunk_mut()) {
        *annotation = address;
    }
}
