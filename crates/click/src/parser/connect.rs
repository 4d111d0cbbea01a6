//! What one arrow between two lists connects.

use super::Parser;
use super::chain::{PortList, Stop};
use crate::compound::{INPUT, OUTPUT};
use crate::lexer::Kind;
use alloc::vec::Vec;

/// One side of an arrow.
#[derive(Clone, Copy)]
struct Side<'a> {
    stops: &'a [Stop],
    /// Which of their ports the arrow is about.
    side: usize,
    /// The ports written, counting what isn't as one.
    at_least: usize,
    /// Whether there may be more than that.
    expandable: bool,
    /// How many more.
    extra: usize,
    /// Whether each connection takes the next port, or all the same.
    steps: bool,
}

impl<'a> Side<'a> {
    fn new(stops: &'a [Stop], side: usize) -> Self {
        let lists = || stops.iter().map(|stop| &stop.ports[side]);
        Side {
            stops,
            side,
            at_least: lists().map(|list| list.ports.len().max(1)).sum(),
            expandable: lists().any(|list| list.open),
            extra: 0,
            steps: false,
        }
    }

    fn open_lists(&self) -> usize {
        let lists = self.stops.iter().map(|stop| &stop.ports[self.side]);
        lists.filter(|list| list.open).count()
    }

    fn cursor(self) -> Cursor<'a> {
        Cursor {
            side: self,
            stop: 0,
            position: 0,
        }
    }
}

/// A walk over the ports of a side.
struct Cursor<'a> {
    side: Side<'a>,
    stop: usize,
    position: usize,
}

impl Cursor<'_> {
    fn list(&self) -> Option<&PortList> {
        let stop = self.side.stops.get(self.stop)?;
        Some(&stop.ports[self.side.side])
    }

    /// The present port: of the list, past its end if more follow it, or
    /// numbered from 0 if nothing is written.
    fn port(&self) -> Option<(usize, u32)> {
        let list = self.list()?;
        let port = match (list.ports.get(self.position), list.ports.last()) {
            (Some(&port), _) => port,
            (None, Some(last)) => last + (self.position + 1 - list.ports.len()) as u32,
            (None, None) => self.position as u32,
        };
        Some((self.side.stops[self.stop].node, port))
    }

    fn step(&mut self) {
        if !self.side.steps {
            return;
        }
        self.position += 1;
        let side = &mut self.side;
        let list = &side.stops[self.stop].ports[side.side];
        if self.position < list.ports.len() {
            return;
        }
        let implied = list.ports.is_empty() && side.at_least == 1;
        if (list.open || implied) && side.extra > 0 {
            side.extra -= 1;
            return;
        }
        self.stop += 1;
        self.position = 0;
    }
}

impl Parser<'_> {
    /// Connects the outputs of one list with the inputs of the next.
    ///
    /// Between one port and many, `->` and `=>` connect the one with each of
    /// the many. Between many and many, `=>` connects them in order; a list
    /// with an open end takes as many ports as the other side has.
    pub(super) fn connect(&mut self, from: &[Stop], to: &[Stop], connector: Kind) {
        let mut sides = [Side::new(to, INPUT), Side::new(from, OUTPUT)];
        if sides[INPUT].open_lists() + sides[OUTPUT].open_lists() > 1 {
            self.error("at most one expandable port allowed per connection");
            let fewer = usize::from(sides[INPUT].at_least < sides[OUTPUT].at_least);
            sides[fewer].expandable = false;
        }
        if connector == Kind::DoubleArrow {
            // `a => b, c`: ports not written are as many as wanted.
            let counts = sides.map(|side| side.at_least);
            for (i, side) in sides.iter_mut().enumerate() {
                let unwritten = side.stops[0].ports[i].ports.is_empty();
                if side.at_least == 1 && counts[1 - i] > 1 && unwritten {
                    side.expandable = true;
                }
            }
        }
        let counts = sides.map(|side| side.at_least);
        for (i, side) in sides.iter_mut().enumerate() {
            side.steps = side.at_least > 1 || side.expandable;
            if side.expandable {
                side.extra = counts[1 - i].saturating_sub(side.at_least);
            }
        }
        if sides[INPUT].steps && sides[OUTPUT].steps {
            self.check_many_to_many(&sides, connector);
        } else if !sides[INPUT].steps && !sides[OUTPUT].steps {
            sides[INPUT].steps = true;
        }
        self.connect_ports(sides);
    }

    fn check_many_to_many(&mut self, sides: &[Side<'_>; 2], connector: Kind) {
        if connector != Kind::DoubleArrow {
            self.error("syntax error: many-to-many connections require ‘=>’");
        }
        let [inputs, outputs] = sides;
        let (m, n) = (outputs.at_least, inputs.at_least);
        if !inputs.expandable && !outputs.expandable && m != n {
            self.error(format_args!(
                "connection mismatch: {m} outputs connected to {n} inputs"
            ));
        } else if !inputs.expandable && n < m {
            self.error(format_args!(
                "connection mismatch: {m} or more outputs connected to {n} inputs"
            ));
        } else if !outputs.expandable && m < n {
            self.error(format_args!(
                "connection mismatch: {m} outputs connected to {n} or more inputs"
            ));
        }
    }

    fn connect_ports(&mut self, sides: [Side<'_>; 2]) {
        let location = self.lexer.location();
        let [mut inputs, mut outputs] = sides.map(Side::cursor);
        let mut links = Vec::new();
        while let (Some(from), Some(to)) = (outputs.port(), inputs.port()) {
            if !self.count_connections(1) {
                return;
            }
            links.push((from, to));
            inputs.step();
            outputs.step();
        }
        let highest = self.options.limits.port;
        for (from, to) in links {
            if from.1.max(to.1) > highest {
                let port = from.1.max(to.1);
                return self.error(format_args!("port number {port} is more than {highest}"));
            }
            self.current.connect(from, to, location.clone());
        }
    }
}
