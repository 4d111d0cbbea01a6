//! Sockets whose NSM has ended: listening sockets listen again, and datagram sockets are what they were, at the same
//! NSM when it is back, or at another. A stream that was to be restored while no NSM ran connects then.

use abi::nqe::{Nqe, RESTORED, operation};

use super::engine::CoreEngine;
use super::nsm::Nsm;

impl CoreEngine {
    /// Restores the sockets that wait for an NSM, which runs.
    pub(super) fn restore(&mut self, number: u8) {
        for at in 0..self.tenants.len() as u8 {
            let Some(tenant) = self.tenants[at as usize].as_ref() else {
                continue;
            };
            let of = tenant
                .sockets_that(|socket| socket.nsm == number && socket.failed && !socket.closing);
            let restored: Vec<_> = of
                .into_iter()
                .filter_map(|socket| Some((socket, tenant.making(socket)?)))
                .collect();
            if restored.is_empty() {
                continue;
            }
            self.introduce(at, number);
            for (socket, making) in restored {
                let (Some(tenant), Some(nsm)) = (
                    self.tenants[at as usize].as_mut(),
                    self.nsms[number as usize].as_mut(),
                ) else {
                    continue;
                };
                let worker = nsm.least_used();
                let Some(fresh) = nsm.choose(worker, at, socket) else {
                    nsm.refused += 1;
                    let failed = Nqe::new(operation::RESULT, socket).with_flags(operation::SOCKET);
                    tenant.deliver_unmade(failed.with_error(libc::ENOBUFS));
                    continue;
                };
                let Some(row) = tenant.socket(socket) else {
                    continue;
                };
                row.restore(worker, fresh);
                let queue_set = row.set;
                tenant.connecting.remove(&socket);
                let Some(worker) = nsm.worker(worker) else {
                    continue;
                };
                for nqe in making {
                    worker.peer.push(Nqe {
                        tenant: at,
                        queue_set,
                        socket: fresh,
                        flags: nqe.flags | RESTORED,
                        ..nqe
                    });
                }
            }
        }
        self.flush();
    }

    /// Gives the sockets at an NSM, which has ended and does not come back, to the present NSMs of their tenants. At
    /// running NSMs they are restored; the others wait for their NSM.
    pub(super) fn bequeath(&mut self, number: u8) {
        let mut heirs = Vec::new();
        for tenant in self.tenants.iter_mut().flatten() {
            for socket in tenant.sockets_that(|socket| socket.nsm == number) {
                let heir = tenant.nsm;
                if let Some(row) = tenant.socket(socket) {
                    row.nsm = heir;
                }
                if !heirs.contains(&heir) {
                    heirs.push(heir);
                }
            }
        }
        for heir in heirs {
            let nsm = self.nsms.get(heir as usize).and_then(Option::as_ref);
            if nsm.is_some_and(Nsm::runs) {
                self.restore(heir);
            }
        }
    }
}
