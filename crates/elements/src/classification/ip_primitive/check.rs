//! Checks of a primitive as it was read.

use super::{
    DCCP, Field, GivenMask, HeaderWord, Kind, PAYLOAD, Primitive, Relation, Reported, Reporter,
    Side, TCP, TCP_OR_UDP, TRANSP, UDP, bytes, protocol_text, word,
};

impl Primitive {
    /// Fills in omitted words, from `previous` where the language says so, and
    /// rejects invalid combinations.
    pub(in super::super) fn check(
        &mut self,
        previous: &Primitive,
        header: Option<HeaderWord>,
        mask: Option<GivenMask>,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        let given_side = self.side;
        match self.kind {
            Kind::Wrong => return Err(Reported),
            Kind::None => self.infer_kind(previous, report)?,
            _ => {}
        }
        let header = match header {
            Some(header) => header,
            None if self.data == Kind::Ether => HeaderWord::Ether,
            None => HeaderWord::Ip,
        };
        if header == HeaderWord::Ether && self.kind == Kind::Host {
            self.kind = Kind::Ether;
        }
        self.check_value(header, mask, report)?;
        if matches!(self.kind, Kind::Host | Kind::Port | Kind::Ether) {
            self.side = self.side.or(Some(Side::Either));
        } else if given_side.is_some() {
            report.warning(format!("‘{}’: ‘src’ or ‘dst’ ignored", self.text()));
        }
        Ok(())
    }

    fn infer_kind(
        &mut self,
        previous: &Primitive,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        if self.data == Kind::Int {
            if !matches!(previous.kind, Kind::Field(_) | Kind::Proto | Kind::Port) {
                return Err(report.error("specify header field or ‘port’"));
            }
            self.data = previous.kind;
        }
        self.kind = self.data;
        match self.data {
            Kind::Host | Kind::Net | Kind::TcpOption | Kind::Ether => {
                self.side = self.side.or(previous.side);
            }
            Kind::Port => {
                self.side = self.side.or(previous.side);
                self.protocol = self.protocol.or(previous.protocol);
            }
            Kind::Field(field) if field.protocol != 0 => {
                self.protocol = self.protocol.or(Some(field.protocol));
            }
            Kind::None if self.protocol.is_some() => self.kind = Kind::Proto,
            Kind::None => return Err(report.error("partial directive")),
            _ => {}
        }
        Ok(())
    }

    fn check_value(
        &mut self,
        header: HeaderWord,
        mask: Option<GivenMask>,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        match self.kind {
            Kind::Host | Kind::Net => return self.check_address(header, mask, report),
            Kind::Ether => return self.check_ether(header, mask, report),
            _ if header != HeaderWord::Ip => return Err(self.wrong("ip only", report)),
            _ => {}
        }
        let plain = self.data == Kind::None && mask.is_none();
        match self.kind {
            Kind::Proto => self.check_protocol(mask, report),
            Kind::Port => self.check_port(mask, report),
            Kind::TcpOption => self.check_tcp_option(mask, report),
            Kind::Ect => {
                if self.data == Kind::None {
                    self.set_number(Kind::Int, 0);
                    self.negated = true;
                } else if self.data != Kind::Int {
                    return Err(self.wrong("value missing", report));
                }
                self.set_mask(3, mask, report)?;
                self.kind = Kind::Field(Field::TOS);
                Ok(())
            }
            Kind::Ce | Kind::Frag | Kind::Unfrag if !plain => {
                Err(self.wrong("value not supported", report))
            }
            Kind::Ce => {
                self.value = bytes(3);
                self.mask = bytes(3);
                self.kind = Kind::Field(Field::TOS);
                Ok(())
            }
            Kind::Unfrag => {
                self.negated = true;
                self.kind = Kind::Frag;
                Ok(())
            }
            Kind::Field(field) => {
                if self.data != Kind::Int && self.data != self.kind {
                    return Err(self.wrong("value missing", report));
                }
                self.set_mask(u32::MAX >> (32 - field.bits), mask, report)
            }
            _ => Ok(()),
        }
    }

    fn check_address(
        &mut self,
        header: HeaderWord,
        mask: Option<GivenMask>,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        if header != HeaderWord::Ip || self.data != self.kind {
            return Err(self.wrong("address missing", report));
        }
        if self.relation != Relation::Equal {
            return Err(self.wrong("operator not supported", report));
        }
        if self.kind == Kind::Host {
            self.mask = bytes(u32::MAX);
        }
        self.kind = Kind::Host;
        match mask {
            Some(mask) if matches!(mask.kind, Kind::Int | Kind::Host) && self.ip6.is_none() => {
                self.mask = mask.bytes;
            }
            Some(_) => return Err(self.wrong("bad mask", report)),
            None => {}
        }
        Ok(())
    }

    fn check_ether(
        &mut self,
        header: HeaderWord,
        mask: Option<GivenMask>,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        if header != HeaderWord::Ether || self.data != Kind::Ether {
            return Err(self.wrong("address missing", report));
        }
        if self.relation != Relation::Equal {
            return Err(self.wrong("operator not supported", report));
        }
        match mask {
            Some(mask) if mask.kind == Kind::Ether => self.mask = mask.bytes,
            Some(_) => return Err(self.wrong("bad mask", report)),
            None => self.mask = [0xff; 6],
        }
        Ok(())
    }

    fn check_protocol(
        &mut self,
        mask: Option<GivenMask>,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        let number = self.number() as i32;
        let protocol = match self.data {
            Kind::Int | Kind::Proto => {
                if self.protocol.is_some_and(|protocol| protocol != number) {
                    return Err(self.wrong("specified twice", report));
                }
                Some(number)
            }
            Kind::None => self.protocol,
            _ => None,
        };
        self.protocol = None;
        let Some(protocol) = protocol else {
            return Err(self.wrong("value missing", report));
        };
        self.set_number(Kind::None, protocol as u32);
        if protocol >= 256 {
            let text = protocol_text(Some(protocol));
            if self.relation != Relation::Equal || mask.is_some() {
                return Err(report.error(format!("‘{text}’: operator or mask not supported")));
            }
            if !matches!(protocol, TCP_OR_UDP | TRANSP | PAYLOAD) {
                return Err(report.error(format!("‘{text}’: out of range, bound 255")));
            }
            self.mask = bytes(0xff);
        } else {
            self.set_mask(0xff, mask, report)?;
        }
        if self.relation == Relation::Equal && word(&self.mask) == 0xff && !self.negated {
            self.protocol = Some(protocol);
        }
        Ok(())
    }

    fn check_port(
        &mut self,
        mask: Option<GivenMask>,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        if !matches!(self.data, Kind::Int | Kind::Port) {
            return Err(self.wrong("value missing", report));
        }
        self.data = Kind::Port;
        match self.protocol {
            None => self.protocol = Some(TCP_OR_UDP),
            Some(TCP | UDP | TCP_OR_UDP | DCCP) => {}
            Some(other) => return Err(report.error(format!("‘port’: bad protocol {other}"))),
        }
        self.set_mask(0xffff, mask, report)
    }

    fn check_tcp_option(
        &mut self,
        mask: Option<GivenMask>,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        if !matches!(self.data, Kind::Int | Kind::TcpOption) {
            return Err(self.wrong("value missing", report));
        }
        self.data = Kind::TcpOption;
        match self.protocol {
            None => self.protocol = Some(TCP),
            Some(TCP) => {}
            Some(other) => return Err(report.error(format!("‘tcp opt’: bad protocol {other}"))),
        }
        if self.relation != Relation::Equal || self.negated || mask.is_some() {
            return Err(self.wrong("operator or mask not supported", report));
        }
        let flags = self.number() as i32;
        if !(0..=255).contains(&flags) {
            return Err(report.error(format!("‘tcp opt’: value {flags} out of range")));
        }
        self.mask = self.value;
        Ok(())
    }

    /// Normalizes value and mask of an integer primitive whose field has the
    /// bits `full`. The relation becomes "equal" or "greater".
    fn set_mask(
        &mut self,
        full: u32,
        given: Option<GivenMask>,
        report: &mut Reporter<'_>,
    ) -> Result<(), Reported> {
        if given.is_some_and(|mask| mask.kind != Kind::Int) {
            return Err(self.wrong("bad mask", report));
        }
        let value = self.number();
        let mask = given.map_or(full, |mask| mask.word());
        if mask & full != mask {
            let text = format!("mask out of range, bound 0x{full:X}");
            return Err(self.wrong(&text, report));
        }
        if self.relation == Relation::Equal {
            if value > full {
                return Err(self.wrong(&format!("out of range, bound {full}"), report));
            }
            self.mask = bytes(mask);
            return Ok(());
        }
        let less = self.relation == Relation::Less;
        let trivial = if less {
            value == 0 || value > mask
        } else {
            value >= mask
        };
        if trivial {
            let outcome = (less && value > mask) != self.negated;
            let relation = self.relation_text();
            report.warning(format!(
                "relation ‘{relation} {value}’ is always {outcome} (range 0-{mask})"
            ));
            self.value = bytes(0);
            self.mask = bytes(0);
            self.negated = !outcome;
            self.relation = Relation::Equal;
            return Ok(());
        }
        let mut above = value;
        if less {
            // x < v is not (x > v - 1).
            above -= 1;
            self.negated = !self.negated;
            self.relation = Relation::Greater;
        }
        if above & mask != above {
            // Make the bound one that the mask can produce: turn on all bits
            // below the highest one that the mask takes away.
            let missing = above & full & !mask;
            let below = u32::MAX.checked_shr(missing.leading_zeros() + 1);
            above = (above | below.unwrap_or(0)) & mask;
        }
        self.value = bytes(above);
        self.mask = bytes(mask);
        Ok(())
    }
}
