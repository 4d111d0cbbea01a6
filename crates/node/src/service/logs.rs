//! Followers of guests' output.

use futures_util::stream::{self, Stream, StreamExt};

use super::Handle;
use crate::error::Result;
use crate::model::{LogLine, LogQuery};
use crate::node::Follower;

impl Handle {
    /// Guests' past output, then new output as it comes. Lines wait for a follower in the guests' logs, so a slow
    /// follower costs no memory; it learns how many were dropped there meanwhile.
    pub async fn follow_log(
        &self,
        names: Vec<String>,
        query: LogQuery,
        after: u64,
    ) -> Result<impl Stream<Item = LogLine> + Send + use<>> {
        let begun = self.run(move |node| node.follow_log(names, &query, after));
        let (lines, follower) = begun.await?;
        let more = stream::unfold((self.clone(), follower), |(handle, follower)| async {
            let (lines, follower) = handle.next_lines(follower).await.ok()??;
            Some((stream::iter(lines), (handle, follower)))
        });
        Ok(stream::iter(lines).chain(more.flatten()))
    }

    /// The next lines; none if there will be no more.
    async fn next_lines(&self, mut follower: Follower) -> Result<Option<(Vec<LogLine>, Follower)>> {
        loop {
            let read = self.run(move |node| Ok((node.read_log(&mut follower), follower)));
            let lines;
            (lines, follower) = read.await?;
            match lines {
                None => return Ok(None),
                Some(lines) if !lines.is_empty() => return Ok(Some((lines, follower))),
                Some(_) => {}
            }
            follower.wait().await?;
        }
    }
}
