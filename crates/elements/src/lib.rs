//! The element library: one file an element, in folders by Click's own groups.
//!
//! The doc comment on an element's struct is its manual page, with the sections Arguments, Ports,
//! Handlers, Example and See also; the element reference is generated from it. A new element is
//! one new file and one line in its group's list.
#![no_std]
#![forbid(unsafe_code)]

#[macro_use]
extern crate alloc;
#[cfg(any(test, feature = "host", feature = "testing"))]
extern crate std;

/// Lists a group's elements, a line for each file: `file: Class, Class;`.
macro_rules! elements {
    ($($file:ident: $($class:ident),+;)*) => {
        $(pub mod $file;)*

        /// The group's classes.
        pub static CLASSES: &[router::ClassEntry] = &[
            $($(router::ClassEntry::of::<$file::$class>(),)+)*
        ];

        /// What makes their manual pages.
        #[cfg(feature = "host")]
        pub(crate) static PAGES: &[fn(&mut router::Page)] = &[
            $($(<$file::$class as router::Class>::document,)+)*
        ];
    };
}
pub(crate) use elements;

mod aggregates;
pub mod analysis;
pub mod app;
pub mod aqm;
pub mod balance;
pub mod bras;
pub mod cache;
pub mod classification;
pub mod ddos;
pub mod dpi;
pub mod ethernet;
pub mod etherswitch;
mod filters;
pub mod flow;
mod headers;
pub mod icmp;
pub mod ids;
pub mod ip;
pub mod ip6;
pub mod ipsec;
mod keyed_table;
mod lists;
pub mod local;
pub mod measure;
pub mod nat;
pub mod net;
mod positions;
mod prelude;
mod pulls;
mod rates;
pub mod rewriter;
pub mod simple;
pub mod standard;
pub mod store;
pub mod tcpudp;
#[cfg(feature = "host")]
pub mod test;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod threads;
#[cfg(feature = "host")]
pub mod userlevel;

/// The groups of classes that run anywhere.
static GROUPS: &[&[router::ClassEntry]] = &[
    standard::CLASSES,
    simple::CLASSES,
    net::CLASSES,
    nat::CLASSES,
    ethernet::CLASSES,
    etherswitch::CLASSES,
    flow::CLASSES,
    icmp::CLASSES,
    ids::CLASSES,
    ip::CLASSES,
    ip6::CLASSES,
    tcpudp::CLASSES,
    local::CLASSES,
    measure::CLASSES,
    analysis::CLASSES,
    app::CLASSES,
    aqm::CLASSES,
    balance::CLASSES,
    bras::CLASSES,
    cache::CLASSES,
    dpi::CLASSES,
    ddos::CLASSES,
    ipsec::CLASSES,
    store::CLASSES,
    threads::CLASSES,
];

fn everywhere() -> router::Library {
    let mut library = router::Library::new(&[]);
    for group in GROUPS {
        library.add(group);
    }
    library
}

/// The classes of a host: `weir click`.
pub fn library() -> router::Library {
    #[allow(unused_mut)]
    let mut library = everywhere();
    #[cfg(feature = "host")]
    {
        library.add(userlevel::CLASSES);
        library.add(test::CLASSES);
        library.add(analysis::dumps::CLASSES);
    }
    library
}

/// The manual pages of all classes, by group and name.
#[cfg(feature = "host")]
pub fn pages() -> alloc::vec::Vec<router::Page> {
    let groups = [
        analysis::PAGES,
        analysis::dumps::PAGES,
        app::PAGES,
        aqm::PAGES,
        balance::PAGES,
        bras::PAGES,
        cache::PAGES,
        dpi::PAGES,
        ddos::PAGES,
        ethernet::PAGES,
        etherswitch::PAGES,
        flow::PAGES,
        icmp::PAGES,
        ids::PAGES,
        ip::PAGES,
        ip6::PAGES,
        ipsec::PAGES,
        local::PAGES,
        measure::PAGES,
        nat::PAGES,
        net::PAGES,
        simple::PAGES,
        standard::PAGES,
        store::PAGES,
        tcpudp::PAGES,
        test::PAGES,
        threads::PAGES,
        userlevel::PAGES,
    ];
    let mut pages: alloc::vec::Vec<_> = groups
        .into_iter()
        .flatten()
        .map(|document| router::Page::of(*document))
        .collect();
    pages.sort_by_key(|page| (page.group(), page.name));
    pages
}

/// The classes of a guest: devices under Click's names are its interfaces, and classes that need
/// a host are refused with the reason.
pub fn guest_library() -> router::Library {
    let mut library = everywhere();
    library.add(net::GUEST);
    library
}
