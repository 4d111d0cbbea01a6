//! Packet classification: the compiler and the matcher behind Classifier,
//! IPClassifier and IPFilter.
//!
//! Pattern text goes in, a [`Program`] comes out; a program maps the bytes of
//! one packet to an output number. Nothing here but `tree` and `views` knows of
//! the engine: an element passes its configuration arguments, a [`Names`] that
//! resolves names, and at run time a [`Headers`] made of three slices.
//!
//! ```
//! use elements::classification::{Headers, ProtocolNames, ip_filter};
//!
//! let rules = ["deny src 10.0.0.0/8", "allow tcp dst port 80 or 443", "deny all"];
//! let compiled = ip_filter(&rules, 1, &ProtocolNames).unwrap();
//! let mut packet = [0u8; 40];
//! packet[0] = 0x45;
//! packet[9] = 6; // TCP
//! packet[22..24].copy_from_slice(&443u16.to_be_bytes());
//! let headers = Headers::ip(&packet, 20);
//! assert_eq!(compiled.program.classify(&headers), Some(0));
//! ```
//!
//! # From text to decision
//! 1. [`classifier()`], [`ip_classifier()`] and [`ip_filter()`] parse patterns
//!    into expressions over *tests*: "the four bytes at this offset, masked,
//!    equal this value", joined by and, or, not and `?:`.
//! 2. Each rule is assembled into a decision graph of its own: one
//!    instruction a test, a yes branch, a no branch, and the branch that a
//!    packet too short for the test takes. This form defines what a rule
//!    means; the `program` handler's text is produced from it on demand.
//! 3. Each rule is also rewritten as a union of *terms*, a term being one set
//!    of allowed values per header field. Terms are what makes the cost flat:
//!    [`Program`] says how they are matched, and when.
//! 4. Consecutive programs may be matched as one [decision tree](Patterns).

mod class_rows;
mod classifier;
mod columns;
mod decision;
mod diagnostic;
mod dominators;
mod expression;
mod fields;
mod flat;
mod headers;
mod hit;
mod insertion_sort;
mod instruction;
mod intervals;
mod ip_filter;
mod ip_parser;
mod ip_primitive;
mod ip_words;
mod names;
mod products;
mod program;
mod rules;
mod sample;
mod terms;
#[cfg(test)]
mod tests;
mod tree;
mod vectors;
mod views;
mod wide_tables;

pub use classifier::{classifier, classifier_to};
pub use diagnostic::{Compiled, Diagnostic, Diagnostics, Severity};
pub use headers::{Headers, View};
pub use hit::NO_OUTPUT;
pub use ip_filter::{NO_MEMORY, dual_stack_classifier, flow_filter, ip_classifier, ip_filter};
pub use names::{Names, NumberName, ProtocolNames};
pub use program::{Form, Patterns, Program};
pub use views::{DataView, IpView, headers};
