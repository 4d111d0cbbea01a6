//! Followers of events.

use futures_util::stream::{self, Stream, StreamExt};

use super::Handle;
use crate::error::Result;
use crate::model::{Event, EventsQuery};
use crate::node::EventFollower;

impl Handle {
    /// Events behind the number `after`, then new events as they come. Events wait for a follower
    /// in the node's history, so a slow follower costs no memory; it learns how many were dropped
    /// there meanwhile.
    pub async fn follow_events(
        &self,
        query: EventsQuery,
        after: u64,
    ) -> Result<impl Stream<Item = Event> + Send + use<>> {
        let begun = self.run(move |node| node.follow_events(&query, after));
        let follower = begun.await?;
        let more = stream::unfold((self.clone(), follower), |(handle, follower)| async {
            let (events, follower) = handle.next_events(follower).await.ok()?;
            Some((stream::iter(events), (handle, follower)))
        });
        Ok(more.flatten())
    }

    async fn next_events(
        &self,
        mut follower: EventFollower,
    ) -> Result<(Vec<Event>, EventFollower)> {
        loop {
            let read = self.run(move |node| Ok((node.read_events(&mut follower), follower)));
            let events;
            (events, follower) = read.await?;
            if !events.is_empty() {
                return Ok((events, follower));
            }
            follower.wait().await?;
        }
    }
}
