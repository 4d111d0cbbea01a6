//! Two vhost-user ports, joined and turned by hand: an honest frontend's and a hostile one's.

use std::os::unix::net::UnixStream;

use switch::port::Link;
use switch::port::testing::Joined;
use switch::port::vhost::VhostLink;

use crate::frontend::Frontend;

pub struct Place {
    joined: Joined,
    pub honest: Frontend,
    pub hostile: Frontend,
}

impl Place {
    pub fn new() -> Place {
        let [(honest, a), (hostile, b)] = [port(), port()];
        Place {
            joined: Joined::new(a, b).expect("joined"),
            honest,
            hostile,
        }
    }

    /// Has the ports do what there is to do.
    pub fn round(&mut self) {
        for _ in 0..2 {
            self.joined.round();
        }
        assert!(self.joined.is_open(0));
    }
}

fn port() -> (Frontend, Link) {
    let (ours, theirs) = UnixStream::pair().expect("a pair");
    let link = VhostLink::connected(theirs.into(), 1500).expect("a link");
    (Frontend::on(ours), Link::VhostUser(Box::new(link)))
}
