//! The element library: one file an element, in folders by Click's own groups.
//!
//! The doc comment on an element's struct is its manual page, with the sections Arguments, Ports,
//! Handlers, Example and See also; the element reference is generated from it. A new element is
//! one new file and one line in its group's list.
#![no_std]
#![forbid(unsafe_code)]

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

pub mod analysis;
pub mod app;
pub mod aqm;
pub mod classification;
mod destination;
mod dispatch;
pub mod ethernet;
pub mod etherswitch;
mod gap_rate;
pub mod icmp;
pub mod ip;
pub mod ip6;
pub mod ipsec;
mod link_type;
pub mod local;
pub mod net;
mod rate;
pub mod rewriter;
mod rules;
pub mod simple;
pub mod standard;
pub mod tcpudp;
#[cfg(feature = "host")]
pub mod test;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod threads;
mod token_bucket;
mod transport_check;
#[cfg(feature = "host")]
pub mod userlevel;
mod values;

/// Second names of classes.
static ALIASES: &[router::ClassEntry] = &[
    router::ClassEntry::of::<ethernet::set_vlan_anno::SetVLANAnno>().named("SetVlanAnno"),
    router::ClassEntry::of::<ethernet::strip_ether_vlan_header::StripEtherVLANHeader>()
        .named("StripEtherVlanHeader"),
    router::ClassEntry::of::<ethernet::ether_vlan_encap::EtherVLANEncap>().named("EtherVlanEncap"),
    router::ClassEntry::of::<icmp::icmp_ping_source::ICMPPingSource>().named("ICMPSendPings"),
    router::ClassEntry::of::<ipsec::ipsec_aes::IPsecAES>().named("Aes"),
    router::ClassEntry::of::<ipsec::ipsec_des::IPsecDES>().named("Des"),
    router::ClassEntry::of::<ip::rfc2507c::RFC2507c>().named("RFC2507Comp"),
    router::ClassEntry::of::<ip::rfc2507d::RFC2507d>().named("RFC2507Decomp"),
    router::ClassEntry::of::<standard::round_robin_sched::RoundRobinSched>().named("RRSched"),
    router::ClassEntry::of::<simple::simple_round_robin_sched::SimpleRoundRobinSched>()
        .named("SimpleRRSched"),
    router::ClassEntry::of::<threads::balanced_thread_sched::BalancedThreadSched>()
        .named("SortedTaskSched"),
];

/// The groups of classes that run anywhere.
static GROUPS: &[&[router::ClassEntry]] = &[
    standard::CLASSES,
    simple::CLASSES,
    net::CLASSES,
    ethernet::CLASSES,
    etherswitch::CLASSES,
    icmp::CLASSES,
    ip::CLASSES,
    ip6::CLASSES,
    tcpudp::CLASSES,
    local::CLASSES,
    analysis::CLASSES,
    app::CLASSES,
    aqm::CLASSES,
    ipsec::CLASSES,
    threads::CLASSES,
    ALIASES,
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
        ethernet::PAGES,
        etherswitch::PAGES,
        icmp::PAGES,
        ip::PAGES,
        ip6::PAGES,
        ipsec::PAGES,
        local::PAGES,
        net::PAGES,
        simple::PAGES,
        standard::PAGES,
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
