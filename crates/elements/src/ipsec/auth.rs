use alloc::string::{String, ToString};

use packet::Packet;
use router::args::{Args, Failed};
use router::{Class, Cx, Declared, Element, HandlerError, HandlerList, Verdict};

use super::associations;
use super::esp::Once;
use super::tag::{self, TAG, Tag};

/// What the two elements share: a tag at the packet's end, by some digest of what is before it.
#[derive(Default)]
struct Authenticator {
    verifies: bool,
    drops: u64,
    complaint: Once,
}

impl Authenticator {
    fn configure(&mut self, args: &mut Args<'_>) -> Result<(), Failed> {
        let mut verify = 0i32;
        args.mandatory_positional("VERIFY", &mut verify).complete()?;
        self.verifies = verify != 0;
        Ok(())
    }

    /// Adds the tag, or looks whether it is right and takes it off. `None` if it is wrong, or
    /// missing.
    #[inline]
    fn run(&self, packet: &mut Packet, digest: impl FnOnce(&[u8]) -> Tag) -> Option<()> {
        if !self.verifies {
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
    fn verdict(&mut self, cx: &mut Cx<'_>, done: Option<()>) -> Verdict {
        if done.is_some() {
            return Verdict::Forward;
        }
        if self.verifies {
            self.complaint.say(cx, "Invalid SHA1 authentication digest");
            self.drops += 1;
        }
        Verdict::To(1)
    }
}

macro_rules! authenticator {
    ($(#[$doc:meta])* $name:ident, |$cx:ident, $packet:ident, $auth:ident| $run:expr) => {
        $(#[$doc])*
        #[derive(Default)]
        pub struct $name(Authenticator);

        impl Class for $name {
            const NAME: &'static str = stringify!($name);
            const PORTS: &'static str = "1/1-2";
            const PROCESSING: &'static str = "a/ah";
        }

        impl Declared for $name {
            fn configure(&mut self, _: &mut Cx<'_>, args: &mut Args<'_>) -> Result<(), Failed> {
                self.0.configure(args)
            }

            fn handlers(&self, list: &mut HandlerList) {
                list.read("drops");
            }

            fn read(
                &mut self,
                _: &mut Cx<'_>,
                name: &str,
                _: &str,
            ) -> Result<String, HandlerError> {
                match name {
                    "drops" => Ok(self.0.drops.to_string()),
                    _ => Err(HandlerError::Unknown),
                }
            }
        }

        impl Element for $name {
            #[inline]
            fn action(&mut self, $cx: &mut Cx<'_>, $packet: &mut Packet) -> Verdict {
                let $auth = &self.0;
                let done = $run;
                self.0.verdict($cx, done)
            }
        }
    };
}

authenticator! {
    /// Adds an authentication tag to packets, or verifies it, by HMAC-SHA-1.
    ///
    /// The tag is the first 96 bits of the digest (RFC 2404) and stands at the packet's end. The key
    /// is that of the packet's security association, which RadixIPsecLookup sets. Packets with a
    /// wrong tag, and those without an association, leave by output 1.
    ///
    /// # Arguments
    /// - `VERIFY` (integer): 0 adds a tag; 1 verifies it and takes it off.
    ///
    /// # Ports
    /// One input, agnostic. Output 0 is as the input; output 1, optional, is push: packets that are
    /// not authentic, which are dropped if it is not connected.
    ///
    /// # Handlers
    /// - `drops` (read): packets that were not authentic.
    ///
    /// # Example
    /// ```click
    /// Idle -> rt :: RadixIPsecLookup(10.0.0.1 0, 10.1/16 1 234
    ///     \<0123456789abcdef0123456789abcdef> \<00112233445566778899aabbccddeeff> 1 64);
    /// rt[0] -> StripIPHeader -> IPsecAuthHMACSHA1(1) -> IPsecAES(0, IGNORE 0)
    ///     -> IPsecESPUnencap -> Discard;
    /// rt[1] -> Discard;
    /// ```
    ///
    /// # See also
    /// IPsecAES, IPsecESPUnencap, RadixIPsecLookup
    IPsecAuthHMACSHA1,
    |cx, packet, auth| associations::with(cx, packet, |association, packet| {
        auth.run(packet, |data| association.mac.tag(data))
    }).flatten()
}

authenticator! {
    /// Adds a checksum to packets, or verifies it, by SHA-1.
    ///
    /// The checksum is the first 96 bits of the digest and stands at the packet's end. There is no
    /// key: whoever changes a packet can compute it anew, so it is no protection against that. Use
    /// IPsecAuthHMACSHA1.
    ///
    /// # Arguments
    /// - `VERIFY` (integer): 0 adds a checksum; 1 verifies it and takes it off.
    ///
    /// # Ports
    /// One input, agnostic. Output 0 is as the input; output 1, optional, is push: packets whose
    /// checksum is wrong, which are dropped if it is not connected.
    ///
    /// # Handlers
    /// - `drops` (read): packets whose checksum was wrong.
    ///
    /// # Example
    /// ```click
    /// InfiniteSource(LIMIT 10, STOP true) -> IPsecAuthSHA1(0) -> IPsecAuthSHA1(1) -> Discard;
    /// ```
    ///
    /// # See also
    /// IPsecAuthHMACSHA1
    IPsecAuthSHA1,
    |cx, packet, auth| auth.run(packet, tag::plain)
}
