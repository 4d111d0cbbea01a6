use crate::prelude::*;

/// Holds DPDK's settings of buffers and rings.
///
/// It does nothing: interfaces stand for DPDK's ports (see FromDPDKDevice), with the buffers and
/// rings that the guest was given. Its arguments are not read; the `config` handler shows them.
///
/// # Arguments
/// - `NB_MBUF`, `NB_SOCKET_MBUF`, `MBUF_SIZE` and others: DPDK's.
///
/// # Example
/// ```click
/// DPDKInfo(65536, MBUF_SIZE 4096);
/// Idle -> Discard;
/// ```
///
/// # See also
/// FromDPDKDevice, ToDPDKDevice
#[derive(Element)]
#[element(name = "DPDKInfo", ports = "0/0", raw)]
pub struct DpdkInfo;

impl Element for DpdkInfo {
    fn configured(&mut self, _cx: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
        args.take_raw();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::*;

    #[test]
    fn any_setting_is_held() {
        let mut rig = Rig::new("d :: DPDKInfo(65536, NB_SOCKET_MBUF 2040960);");
        assert_eq!(rig.read("d.config"), "65536, NB_SOCKET_MBUF 2040960");
    }
}
