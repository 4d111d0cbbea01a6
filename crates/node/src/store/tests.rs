use super::*;
use crate::model::{Class, Link, LinkRecord};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("weir-store-{name}-{}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn stub(name: &str, domain: u32) -> LinkRecord {
    LinkRecord {
        name: name.into(),
        spec: Link::default(),
        domain,
        class: Class::Stub,
        mtu: 1500,
        gro: false,
        index: None,
        default: Default::default(),
    }
}

#[test]
fn what_is_committed_lasts_and_what_is_not_leaves_nothing() {
    let folder = Folder::new("lasts");
    {
        let store = Store::open(&folder.0, Duration::ZERO).unwrap();
        let change = store.change().unwrap();
        assert_eq!(change.next("domain").unwrap(), 1);
        change.put(&stub("a", 1)).unwrap();
        change.commit().unwrap();
        let change = store.change().unwrap();
        assert_eq!(change.next("domain").unwrap(), 2);
        change.put(&stub("b", 2)).unwrap();
        change.remove::<LinkRecord>("a").unwrap();
    }
    let store = Store::open(&folder.0, Duration::ZERO).unwrap();
    let names: Vec<_> = store.all::<LinkRecord>().unwrap();
    assert_eq!(names.len(), 1);
    assert_eq!(store.get::<LinkRecord>("a").unwrap().unwrap().domain, 1);
    assert!(store.get::<LinkRecord>("b").unwrap().is_none());
    assert_eq!(store.change().unwrap().next("domain").unwrap(), 2);
}

/// With any page damaged, closed or left by a killed process, the store opens as it was, at most
/// without its last change, or not at all.
#[test]
fn a_damaged_file_is_told_of() {
    const PAGE: usize = 4096;
    let folder = Folder::new("damaged");
    let file = folder.0.join(FILE);
    let names = || (0..40).map(|n| format!("stub{n}"));
    let store = Store::open(&folder.0, Duration::ZERO).unwrap();
    for (name, domain) in names().zip(1..) {
        store.put(&stub(&name, domain)).unwrap();
    }
    let killed = std::fs::read(&file).unwrap();
    drop(store);
    let closed = std::fs::read(&file).unwrap();
    let mut told = 0;
    for good in [killed, closed] {
        for page in 0..good.len() / PAGE {
            let mut bad = good.clone();
            let noise = (0..PAGE).map(|at| (at * 167 + page * 31 + 89) as u8);
            bad.splice(page * PAGE..(page + 1) * PAGE, noise);
            std::fs::write(&file, bad).unwrap();
            match Store::open(&folder.0, Duration::ZERO) {
                Ok(store) => {
                    let there = store.all::<LinkRecord>().unwrap().len();
                    assert!(there >= names().count() - 1, "{there}, page {page}");
                    store.put(&stub("more", 99)).unwrap();
                }
                Err(error) => {
                    let said = error.to_string();
                    assert!(said.contains("node.redb is damaged ("), "{said}");
                    assert!(said.contains("move it away"), "{said}");
                    told += 1;
                }
            }
        }
    }
    assert!(told > 0);
    std::fs::write(&file, "").unwrap();
    let error = Store::open(&folder.0, Duration::ZERO).err().unwrap();
    assert!(
        error.to_string().contains("damaged (it is empty)"),
        "{error}"
    );
}

#[test]
fn one_process_has_it_at_a_time_and_the_next_waits_as_long_as_it_is_told() {
    let folder = Folder::new("once");
    let store = Store::open(&folder.0, Duration::ZERO).unwrap();
    let error = Store::open(&folder.0, Duration::ZERO).err().unwrap();
    assert!(
        error.to_string().contains("a node is already running"),
        "{error}"
    );
    std::thread::scope(|threads| {
        let next = threads.spawn(|| Store::open(&folder.0, Duration::from_secs(60)).is_ok());
        std::thread::sleep(10 * PAUSE);
        drop(store);
        assert!(next.join().unwrap());
    });
}

/// A record whose bytes were changed is named and set aside, and comes back by being created again.
#[test]
fn a_damaged_record_is_set_aside_and_the_others_stay() {
    let folder = Folder::new("record");
    let store = Store::open(&folder.0, Duration::ZERO).unwrap();
    for (name, domain) in [("a", 1), ("b", 2), ("c", 3)] {
        store.put(&stub(name, domain)).unwrap();
    }
    let change = store.change().unwrap();
    {
        let mut links = change.write.open_table(table::<LinkRecord>()).unwrap();
        let mut bytes = links.get("b").unwrap().unwrap().value().to_vec();
        let last = bytes.len() - 2;
        bytes[last] ^= 1;
        links.insert("b", &bytes[..]).unwrap();
    }
    change.commit().unwrap();
    let names = |store: &Store| {
        let all = store.all::<LinkRecord>().unwrap();
        all.into_iter().map(|link| link.name).collect::<Vec<_>>()
    };
    // While it is open, and from the next time on.
    assert_eq!(names(&store), ["a", "c"]);
    let error = store.get::<LinkRecord>("b").unwrap_err().to_string();
    assert!(
        error.contains("‘links/b’") && error.contains("checksum"),
        "{error}"
    );
    assert_eq!(store.damaged().unwrap(), ["links/b"]);
    drop(store);
    for _ in 0..2 {
        let store = Store::open(&folder.0, Duration::ZERO).unwrap();
        assert_eq!(names(&store), ["a", "c"]);
        assert!(store.get::<LinkRecord>("b").unwrap().is_none());
        assert_eq!(store.damaged().unwrap(), ["links/b"]);
    }
    let store = Store::open(&folder.0, Duration::ZERO).unwrap();
    store.put(&stub("b", 4)).unwrap();
    store.forget_damaged().unwrap();
    assert!(store.damaged().unwrap().is_empty());
    assert_eq!(names(&store), ["a", "b", "c"]);
    // No other user may read it.
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&folder.0), mode(&folder.0.join(FILE))),
        (0o700, 0o600)
    );
}

/// Version 2 had the same records without checksums.
#[test]
fn a_state_without_checksums_gets_them() {
    let folder = Folder::new("version-2");
    std::fs::create_dir_all(&folder.0).unwrap();
    let database = Database::create(folder.0.join(FILE)).unwrap();
    let write = database.begin_write().unwrap();
    {
        write
            .open_table(NUMBERS)
            .unwrap()
            .insert("version", 2)
            .unwrap();
        let mut links = write.open_table(table::<LinkRecord>()).unwrap();
        let json = serde_json::to_vec(&stub("a", 1)).unwrap();
        links.insert("a", &json[..]).unwrap();
        links.insert("b", &json[1..]).unwrap();
    }
    write.commit().unwrap();
    drop(database);
    for _ in 0..2 {
        let store = Store::open(&folder.0, Duration::ZERO).unwrap();
        assert_eq!(store.get::<LinkRecord>("a").unwrap().unwrap().domain, 1);
        assert_eq!(store.damaged().unwrap(), ["links/b"]);
    }
}
