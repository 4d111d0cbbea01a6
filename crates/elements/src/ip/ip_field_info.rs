use crate::prelude::*;

/// Does nothing; the names of header fields are built in.
///
/// An argument that takes a field accepts the names of the fields of the IP, ICMP, TCP and UDP
/// headers with or without this element. It exists for configurations that mention it.
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
