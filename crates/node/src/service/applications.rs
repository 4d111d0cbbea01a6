//! Applications that the node runs: waiting for a program's end.

use std::time::{Duration, Instant};

use super::{Handle, pause};
use crate::error::Result;
use crate::model::{Application, Happened, Topic};
use crate::node::resource::Resource;

/// How long a program has to end by itself.
const END: Duration = Duration::from_secs(10);

impl Handle {
    /// Removes an application. A program that the node runs ends before, by itself or not.
    pub(super) async fn delete_application(&self, name: String) -> Result<()> {
        let of = name.clone();
        self.run(move |node| node.ask_program_to_end(&of)).await?;
        let start = Instant::now();
        for look in 0.. {
            let of = name.clone();
            let runs = self.run(move |node| Ok(node.program_is_ending(&of)));
            if !runs.await? || start.elapsed() > END {
                break;
            }
            pause(look).await;
        }
        self.run(move |node| {
            Application::delete(node, &name)?;
            node.tell_change(Topic::Application, &name, Happened::Removed, None);
            Ok(())
        })
        .await
    }
}
