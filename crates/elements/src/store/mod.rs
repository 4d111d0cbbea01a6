//! The control store as configurations use it, and [the client](link) by which the program around a router carries
//! out what they ask.

pub mod link;

crate::elements! {
    store_read: StoreRead;
    store_watch: StoreWatch;
    store_write: StoreWrite;
}

#[cfg(test)]
mod tests;
