//! Authentication tags at packets' ends, as IPsecAuthHMACSHA1 and IPsecAuthSHA1 put them there.

use super::esp::Once;
use super::tag::{self, TAG, Tag};
use crate::prelude::*;

/// A tag at the packet's end, by some digest of the bytes before it.
#[derive(Component)]
pub(super) struct Authenticator {
    /// 0 adds a tag; 1 verifies it and removes it.
    #[arg(mandatory)]
    verify: i32,
    /// Packets that were not authentic.
    #[handler(read)]
    drops: u64,
    complaint: Once,
}

impl Authenticator {
    /// Adds the tag, or looks whether it is right and takes it off. `None` if it is wrong, or
    /// missing.
    #[inline]
    pub fn run(&self, packet: &mut Packet, digest: impl FnOnce(&[u8]) -> Tag) -> Option<()> {
        if self.verify == 0 {
            let tag = digest(packet.data());
            if !packet.put(TAG) {
                return None;
            }
            *packet.data_mut().last_chunk_mut::<TAG>()? = tag;
            return Some(());
        }
        let (data, found) = packet.data().split_last_chunk::<TAG>()?;
        if !tag::same(&digest(data), found) {
            return None;
        }
        packet.take(TAG);
        Some(())
    }

    #[inline]
    pub fn verdict(&mut self, cx: &mut Cx<'_>, done: Option<()>) -> Verdict {
        if done.is_some() {
            return Verdict::Forward;
        }
        if self.verify != 0 {
            self.complaint.say(cx, "Invalid SHA1 authentication digest");
            self.drops += 1;
        }
        Verdict::To(1)
    }
}
