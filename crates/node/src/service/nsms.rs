//! Network stack modules: waiting for one that is new.

use std::time::{Duration, Instant};

use super::{Handle, pause};
use crate::error::{Error, Result};
use crate::model::{Happened, Nsm, Object, State, Topic};
use crate::node::resource::Resource;

/// How long an NSM may take to come up.
const START: Duration = Duration::from_secs(5);

impl Handle {
    /// Makes an NSM and waits until it serves. One that does not come up is removed.
    pub(super) async fn create_nsm(&self, name: String, spec: Nsm) -> Result<Object<Nsm>> {
        let new = name.clone();
        self.run(move |node| {
            Nsm::create(node, &new, spec)?;
            node.tell_change(Topic::Nsm, &new, Happened::Created, None);
            Ok(())
        })
        .await?;
        let start = Instant::now();
        let mut look = 0;
        loop {
            let of = name.clone();
            let nsm = self.run(move |node| Nsm::one(node, &of)).await?;
            if nsm.status.state == State::Up {
                return Ok(nsm);
            }
            if nsm.status.restarts > 0 || start.elapsed() > START {
                self.run(move |node| Nsm::delete(node, &name)).await?;
                let reason = nsm.status.reason.unwrap_or_default();
                return Err(Error::refused(format_args!(
                    "the NSM does not come up: {reason}"
                )));
            }
            pause(look).await;
            look += 1;
        }
    }
}
