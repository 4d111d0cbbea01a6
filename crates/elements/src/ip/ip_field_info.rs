use crate::prelude::*;

/// Stands for the names of header fields; does nothing.
///
/// The fields of the IP, ICMP, TCP and UDP headers have their names wherever an argument asks for a
/// field, whether this element is there or not. It exists for configurations that mention it.
///
/// # Example
/// ```click
/// IPFieldInfo;
/// ```
///
/// # See also
/// IPNameInfo, AggregateIP
#[derive(Element)]
#[element(ports = "0/0")]
pub struct IPFieldInfo;

impl Element for IPFieldInfo {}
