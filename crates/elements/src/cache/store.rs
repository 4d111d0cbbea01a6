//! Objects: responses whose bodies are kept, or on their way to clients.
//!
//! An object has a body in blocks, which its fetch adds to and its readers read while it grows. An object
//! that is *stored* can be found by later requests. One that is not is dropped with its last reader, and its body
//! is cut off behind the slowest one.

use hashbrown::HashMap;

use super::control::Life;
use super::head::{Fields, Request};
use crate::prelude::*;

/// Bytes of a block.
pub const BLOCK: usize = 16 << 10;
/// What an object takes besides its body and fields, about.
const OVERHEAD: usize = 512;
/// Most objects.
const OBJECTS_MAX: usize = 1 << 16;

/// The number of an object in its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectId(usize);

/// A response.
pub struct Object {
    /// The server's name and the path of the request.
    pub key: String,
    /// The fields of the request that the response depends on: names, and their values.
    vary: Vec<(String, Vec<u8>)>,
    /// The status.
    pub status: u16,
    /// The fields.
    pub fields: Fields,
    /// How long it is fresh.
    pub life: Life,
    /// The length of its body, once that is known.
    pub length: Option<u64>,
    /// Whether the body is whole.
    pub is_whole: bool,
    /// Whether the body ended before it was whole.
    pub is_broken: bool,
    /// Whether later requests find it.
    is_stored: bool,
    /// Where the first block begins in the body.
    base: u64,
    blocks: VecDeque<Vec<u8>>,
    /// Clients that read it, and the fetch that makes it.
    users: usize,
    /// What it counts for, in bytes.
    counted: usize,
    used: u64,
}

/// A store of objects of a limited size.
pub struct Store {
    objects: Vec<Option<Object>>,
    free: Vec<usize>,
    by_key: HashMap<String, Vec<usize>>,
    /// Bytes of all objects, and most.
    size: usize,
    limit: usize,
    clock: u64,
    /// Objects that made room for others.
    pub evicted: u64,
}

/// What a request's fields say where a response depends on them.
fn dependence(names: &[String], request: &Fields) -> Vec<(String, Vec<u8>)> {
    let values = names.iter().map(|name| {
        let values: Vec<&[u8]> = request.all(name).collect();
        (name.clone(), values.join(&b", "[..]))
    });
    values.collect()
}

impl Object {
    /// An object of a response that nobody has used yet.
    pub fn new(key: String, request: &Fields, status: u16, fields: Fields, life: Life) -> Object {
        let mut names = fields.items("vary");
        names.sort();
        names.dedup();
        Object {
            key,
            vary: dependence(&names, request),
            status,
            fields,
            life,
            length: None,
            is_whole: false,
            is_broken: false,
            is_stored: false,
            base: 0,
            blocks: VecDeque::new(),
            users: 0,
            counted: 0,
            used: 0,
        }
    }

    /// Whether it is the response to a request.
    pub fn suits(&self, request: &Fields) -> bool {
        self.vary.iter().all(|(name, value)| {
            let values: Vec<&[u8]> = request.all(name).collect();
            values.join(&b", "[..]) == *value
        })
    }

    /// Bytes of the body that are there, from its beginning.
    pub fn end(&self) -> u64 {
        let last = self.blocks.back().map_or(0, Vec::len);
        let full = self.blocks.len().saturating_sub(1) * BLOCK;
        self.base + (full + last) as u64
    }

    /// The bytes at a position, up to the end of their block; none if they are not there.
    pub fn bytes(&self, position: u64) -> &[u8] {
        let Some(at) = position.checked_sub(self.base) else {
            return &[];
        };
        let block = self.blocks.get((at / BLOCK as u64) as usize);
        let rest = block.and_then(|block| block.get((at % BLOCK as u64) as usize..));
        rest.unwrap_or_default()
    }

    /// Whether later requests find it.
    pub fn is_stored(&self) -> bool {
        self.is_stored
    }
}

impl Store {
    /// An empty store of so many bytes.
    pub fn new(limit: usize) -> Store {
        Store {
            objects: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            size: 0,
            limit,
            clock: 0,
            evicted: 0,
        }
    }

    /// Objects that later requests find.
    pub fn count(&self) -> usize {
        self.by_key.values().map(Vec::len).sum()
    }

    /// The objects that later requests find.
    pub fn iter(&self) -> impl Iterator<Item = &Object> {
        self.objects
            .iter()
            .flatten()
            .filter(|object| object.is_stored)
    }

    /// Bytes of all objects.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Adds an object, with one user.
    pub fn add(&mut self, mut object: Object) -> ObjectId {
        object.users = 1;
        object.counted = OVERHEAD + object.key.len() + object.fields.size();
        self.size += object.counted;
        match self.free.pop() {
            Some(slot) => {
                self.objects[slot] = Some(object);
                ObjectId(slot)
            }
            None => {
                self.objects.push(Some(object));
                ObjectId(self.objects.len() - 1)
            }
        }
    }

    /// An object.
    pub fn get(&self, id: ObjectId) -> Option<&Object> {
        self.objects.get(id.0)?.as_ref()
    }

    /// An object, to be changed.
    pub fn get_mut(&mut self, id: ObjectId) -> Option<&mut Object> {
        self.objects.get_mut(id.0)?.as_mut()
    }

    /// The stored object of a request.
    pub fn find(&mut self, key: &str, request: &Fields) -> Option<ObjectId> {
        let slots = self.by_key.get(key)?;
        let suits = |slot: &&usize| {
            let object = self.objects.get(**slot).and_then(Option::as_ref);
            object.is_some_and(|object| object.suits(request))
        };
        let slot = *slots.iter().find(suits)?;
        self.clock += 1;
        let clock = self.clock;
        let object = self.objects.get_mut(slot)?.as_mut()?;
        object.used = clock;
        Some(ObjectId(slot))
    }

    /// Lets later requests find an object, in place of others for the same request; false if there are too
    /// many objects.
    pub fn store(&mut self, id: ObjectId, request: &Request) -> bool {
        let Some(key) = self.get(id).map(|object| object.key.clone()) else {
            return false;
        };
        while let Some(former) = self.find(&key, &request.fields) {
            self.unstore(former);
        }
        if self.count() >= OBJECTS_MAX && !self.evict() {
            return false;
        }
        self.clock += 1;
        let clock = self.clock;
        if let Some(object) = self.get_mut(id) {
            (object.is_stored, object.used) = (true, clock);
        }
        self.by_key.entry(key).or_default().push(id.0);
        true
    }

    /// Lets no later request find an object.
    pub fn unstore(&mut self, id: ObjectId) {
        let Some(object) = self.objects.get_mut(id.0).and_then(Option::as_mut) else {
            return;
        };
        object.is_stored = false;
        let (key, is_idle) = (object.key.clone(), object.users == 0);
        if let Some(slots) = self.by_key.get_mut(&key) {
            slots.retain(|slot| *slot != id.0);
            if slots.is_empty() {
                self.by_key.remove(&key);
            }
        }
        if is_idle {
            self.drop_object(id);
        }
    }

    /// Unstores all objects of a server and path, or of all if there is none; returns how many there were.
    pub fn purge(&mut self, key: Option<&str>) -> usize {
        let slots: Vec<usize> = match key {
            Some(key) => self.by_key.get(key).cloned().unwrap_or_default(),
            None => self.by_key.values().flatten().copied().collect(),
        };
        slots.iter().for_each(|slot| self.unstore(ObjectId(*slot)));
        slots.len()
    }

    /// Counts one more user of an object.
    pub fn hold(&mut self, id: ObjectId) {
        if let Some(object) = self.get_mut(id) {
            object.users += 1;
        }
    }

    /// Counts one user less.
    pub fn release(&mut self, id: ObjectId) {
        let Some(object) = self.get_mut(id) else {
            return;
        };
        object.users = object.users.saturating_sub(1);
        if object.users == 0 && !object.is_stored {
            self.drop_object(id);
        }
    }

    fn drop_object(&mut self, id: ObjectId) {
        if let Some(object) = self.objects.get_mut(id.0).and_then(Option::take) {
            self.size -= object.counted;
            self.free.push(id.0);
        }
    }

    /// Unstores the object that was used least recently, of those that nobody reads; false if there is none.
    fn evict(&mut self) -> bool {
        let objects = self.objects.iter().enumerate();
        let idle = objects.filter_map(|(slot, object)| {
            let object = object.as_ref()?;
            (object.is_stored && object.users == 0).then_some((object.used, slot))
        });
        let Some((_, slot)) = idle.min() else {
            return false;
        };
        self.unstore(ObjectId(slot));
        self.evicted += 1;
        true
    }

    /// Bytes that can be added to a body now, at least one unless there is no room, and none is to be made.
    pub fn prepare(&mut self, id: ObjectId) -> usize {
        let Some(object) = self.get(id) else {
            return 0;
        };
        let room = object
            .blocks
            .back()
            .map_or(0, |block| BLOCK.min(block.capacity()) - block.len());
        if room > 0 {
            return room;
        }
        // As much as is to come, so that small objects take little.
        let left = object
            .length
            .map(|length| length.saturating_sub(object.end()));
        let is_full = object
            .blocks
            .back()
            .is_none_or(|block| block.len() == BLOCK);
        let size = match left {
            Some(left) if is_full => left.clamp(1, BLOCK as u64) as usize,
            // A length that was not kept to.
            Some(_) => return 0,
            None => BLOCK,
        };
        while self.size + size > self.limit && self.evict() {}
        let mut block = Vec::new();
        if self.size + size > self.limit || block.try_reserve_exact(size).is_err() {
            return 0;
        }
        let Some(object) = self.get_mut(id) else {
            return 0;
        };
        object.counted += size;
        object.blocks.push_back(block);
        self.size += size;
        size
    }

    /// Adds bytes to the end of a body, no more than were [prepared](Self::prepare).
    pub fn append(&mut self, id: ObjectId, bytes: &[u8]) {
        if let Some(block) = self.get_mut(id).and_then(|object| object.blocks.back_mut()) {
            let room = block.capacity() - block.len();
            block.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Cuts off the blocks of an object that is not stored, before a position.
    pub fn cut(&mut self, id: ObjectId, position: u64) {
        let Some(object) = self.get_mut(id).filter(|object| !object.is_stored) else {
            return;
        };
        let mut freed = 0;
        while object.blocks.len() > 1 && object.base + BLOCK as u64 <= position {
            object.blocks.pop_front();
            object.base += BLOCK as u64;
            freed += BLOCK;
        }
        object.counted -= freed;
        self.size -= freed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::head;
    use crate::testing::*;

    fn request(path: &str, fields: &str) -> Request {
        let head = std::format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        head::request(head.as_bytes()).unwrap().unwrap().0
    }

    fn object(path: &str, asked: &Request, vary: &str) -> Object {
        let head = std::format!("HTTP/1.1 200 OK\r\nVary: {vary}\r\n\r\n");
        let (read, _) = head::response(head.as_bytes(), &head::Method::Get)
            .unwrap()
            .unwrap();
        Object::new(
            path.into(),
            &asked.fields,
            200,
            read.fields,
            Life::default(),
        )
    }

    #[test]
    fn a_request_finds_the_object_that_suits_it() {
        let mut store = Store::new(1 << 20);
        for language in ["de", "en"] {
            let asked = request("/", &std::format!("Accept-Language: {language}\r\n"));
            let id = store.add(object("a/", &asked, "Accept-Language"));
            assert_eq!(store.prepare(id), BLOCK);
            store.append(id, language.as_bytes());
            assert!(store.store(id, &asked));
            store.release(id);
        }
        let find = |store: &mut Store, fields: &str| {
            let id = store.find("a/", &request("/", fields).fields)?;
            Some(store.get(id).unwrap().bytes(0).to_vec())
        };
        assert_eq!(find(&mut store, "Accept-Language: de\r\n").unwrap(), b"de");
        assert_eq!(
            find(&mut store, "accept-language:  en \r\n").unwrap(),
            b"en"
        );
        assert_eq!(find(&mut store, "Accept-Language: fr\r\n"), None);
        assert_eq!(find(&mut store, ""), None);
        assert_eq!((store.count(), store.purge(Some("a/x"))), (2, 0));
        assert_eq!(store.purge(None), 2);
        assert_eq!((store.count(), store.size()), (0, 0));
    }

    proptest! {
        /// Whatever is added, read, cut off and purged: the size is that of the blocks, and never above the limit.
        #[test]
        fn a_store_keeps_its_size(steps in prop::collection::vec((0u8..6, 0usize..8, 1usize..40_000), 1..80)) {
            let limit = 300_000;
            let mut store = Store::new(limit);
            let mut open: Vec<(ObjectId, usize, std::vec::Vec<u8>)> = Vec::new();
            for (step, which, size) in steps {
                let path = std::format!("/{which}");
                let asked = request(&path, "");
                match step {
                    0 if open.len() < 4 => {
                        let id = store.add(object(&path, &asked, ""));
                        if size % 2 == 0 {
                            store.store(id, &asked);
                        }
                        open.push((id, which, std::vec![]));
                    }
                    1 | 2 => {
                        if let Some((id, _, body)) = open.first_mut() {
                            let bytes: std::vec::Vec<u8> = (0..size).map(|at| (at * 7 + which) as u8).collect();
                            let mut rest = &bytes[..];
                            while !rest.is_empty() {
                                let part = rest.len().min(store.prepare(*id));
                                if part == 0 {
                                    break;
                                }
                                store.append(*id, &rest[..part]);
                                body.extend(&rest[..part]);
                                rest = &rest[part..];
                            }
                        }
                    }
                    3 if !open.is_empty() => {
                        let (id, _, body) = open.remove(which % open.len());
                        let object = store.get(id).unwrap();
                        let (mut at, mut read): (u64, Vec<u8>) = (object.base, Vec::new());
                        while at < object.end() {
                            let bytes = object.bytes(at);
                            read.extend(bytes);
                            at += bytes.len() as u64;
                        }
                        prop_assert_eq!(&read[..], &body[body.len() - read.len()..]);
                        store.release(id);
                    }
                    4 => {
                        if let Some((id, ..)) = open.last() {
                            store.cut(*id, size as u64);
                        }
                    }
                    _ => {
                        store.purge(Some(&path));
                    }
                }
                let blocks: usize = store.objects.iter().flatten().map(|object| object.counted).sum();
                prop_assert_eq!(store.size(), blocks);
                prop_assert!(store.size() <= limit + 8 * (OVERHEAD + 200));
            }
            open.iter().for_each(|(id, ..)| store.release(*id));
            store.purge(None);
            prop_assert_eq!(store.size(), 0);
        }
    }
}
