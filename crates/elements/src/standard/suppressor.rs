use crate::prelude::*;

/// Passes packets on, except those of ports that are suppressed.
///
/// Packets go from an input to the output of the same number. On a suppressed port, pushed packets
/// are dropped and pulls return nothing. Handlers and elements such as EtherSpanTree suppress
/// ports.
///
/// # Handlers
/// - `active0`, `active1`, ... (read, write): whether the port lets packets pass; true at first.
///
/// # Example
/// ```click
/// s :: Suppressor;
/// TimedSource(1s, LIMIT 5) -> [0] s [0] -> Discard;
/// TimedSource(1s, LIMIT 5) -> [1] s [1] -> Discard;
/// Script(wait 2s, write s.active1 false);
/// ```
///
/// # See also
/// InputSwitch, Switch, EtherSpanTree
#[derive(Element)]
#[element(ports = "-/=", flow = "#/#", segments, handlers, dynamic)]
pub struct Suppressor {
    /// For each port whether packets pass.
    active: Vec<bool>,
}

impl Suppressor {
    /// Whether a port lets packets pass.
    #[inline]
    fn is_active(&self, port: usize) -> bool {
        self.active.get(port).is_some_and(|active| *active)
    }

    fn port(&self, handler: &str) -> Result<usize, HandlerError> {
        let number = handler.strip_prefix("active").and_then(|n| n.parse().ok());
        let port = number.filter(|port| *port < self.active.len());
        port.ok_or(HandlerError::Unknown)
    }
}

#[handlers]
impl Suppressor {
    /// Lets all ports pass packets.
    #[write(button)]
    fn reset(&mut self) {
        self.active.fill(true);
    }
}

impl DynamicHandlers for Suppressor {
    fn list_dynamic(&self, list: &mut HandlerList) {
        for port in 0..self.active.len() {
            let name = format!("active{port}");
            list.read_write(name.clone())
                .add(name, HandlerFlags::CHECKBOX);
        }
    }

    fn read_dynamic(
        &mut self,
        _: &mut Cx<'_>,
        name: &str,
        _: &str,
    ) -> Result<String, HandlerError> {
        Ok(self.active[self.port(name)?].to_string())
    }

    fn write_dynamic(
        &mut self,
        cx: &mut Cx<'_>,
        name: &str,
        value: &str,
    ) -> Result<(), HandlerError> {
        let port = self.port(name)?;
        self.active[port] = cx.names().parse(value).map_err(|_| "type mismatch")?;
        Ok(())
    }
}

impl Element for Suppressor {
    fn configured(&mut self, cx: &mut Cx<'_>, _args: &mut Args<'_>) -> Result<(), Failed> {
        self.active.resize(cx.outputs(), true);
        Ok(())
    }

    #[inline]
    fn push(&mut self, cx: &mut Cx<'_>, port: usize, batch: &mut Batch) -> usize {
        if !self.is_active(port) {
            cx.pool().recycle(batch);
        }
        port
    }

    #[inline]
    fn pull(&mut self, cx: &mut Cx<'_>, port: usize, _batch: &mut Batch, most: usize) {
        if self.is_active(port) {
            cx.pull_through(port, most);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn suppressed_ports_let_nothing_pass() {
        let config = "i :: Inject -> [0] s :: Suppressor [0] -> c :: Collect;
            j :: Inject -> Queue -> [1] s; s[1] -> p :: Puller;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1]);
        rig.push("j", &[2]);
        assert_eq!((rig.data("c").len(), rig.pull("p", 1).len()), (1, 1));
        rig.write("s.active0", "false");
        rig.write("s.active1", "false");
        rig.push("i", &[1]);
        rig.push("j", &[2]);
        assert_eq!((rig.data("c").len(), rig.pull("p", 1).len()), (0, 0));
        assert_eq!(
            (rig.read("s.active0"), rig.outstanding()),
            ("false".into(), 1)
        );
        rig.write("s.reset", "");
        assert_eq!(
            (rig.read("s.active1"), rig.pull("p", 1).len()),
            ("true".into(), 1)
        );
        assert_eq!(rig.try_write("s.active0", "x"), Err("type mismatch".into()));
        assert!(rig.try_write("s.active2", "true").is_err());
    }

    #[test]
    fn a_path_may_pass_two_ports() {
        let config = "i :: Inject -> Queue -> [0] s :: Suppressor [0] -> Paint(1) -> [1] s;
            s[1] -> p :: Puller;";
        let mut rig = Rig::new(config);
        rig.push("i", &[1]);
        rig.write("s.active0", "false");
        assert!(rig.pull("p", 9).is_empty());
        rig.write("s.active0", "true");
        assert_eq!(rig.pull("p", 9)[0].paint(), 1);
    }
}
