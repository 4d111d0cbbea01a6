//! The modules of the crate are layers: none needs, by whatever way, one that needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The modules of this crate that files at `path` use.
fn uses(path: &Path, into: &mut BTreeSet<String>) {
    if path.is_dir() {
        for entry in std::fs::read_dir(path).unwrap() {
            uses(&entry.unwrap().path(), into);
        }
        return;
    }
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // What tests use is no layer.
    let text = text.split("#[cfg(test)]").next().unwrap_or("");
    for part in text.split("crate::").skip(1) {
        let name = part.split(|c: char| !c.is_ascii_lowercase() && c != '_');
        into.extend(name.take(1).map(str::to_string));
    }
}

#[test]
fn modules_form_no_circle() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let lib = std::fs::read_to_string(source.join("lib.rs")).unwrap();
    let declared = lib.lines().filter_map(|line| {
        let line = line.trim_start_matches("pub ").strip_prefix("mod ")?;
        line.strip_suffix(';').map(str::to_string)
    });
    let mut needs = BTreeMap::new();
    for module in declared {
        let mut used = BTreeSet::new();
        for place in [source.join(format!("{module}.rs")), source.join(&module)] {
            if place.exists() {
                uses(&place, &mut used);
            }
        }
        used.remove(&module);
        needs.insert(module, used);
    }
    assert!(needs.len() > 10, "{needs:?}");
    // Modules that need none of those that are left are a layer, which is taken away.
    while !needs.is_empty() {
        let left: BTreeSet<String> = needs.keys().cloned().collect();
        let before = needs.len();
        needs.retain(|_, used| used.iter().any(|it| left.contains(it)));
        assert!(needs.len() < before, "a circle among {needs:?}");
    }
}

/// The sources of the crates around this one, by their paths among the crates, without their tests.
fn sources() -> Vec<(String, String)> {
    fn walk(folder: &Path, into: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, into);
            } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tests.rs") {
                let text = std::fs::read_to_string(&path).unwrap().to_lowercase();
                let code = text.split("#[cfg(test)]").next().unwrap_or("").into();
                into.push((path.display().to_string(), code));
            }
        }
    }
    let mut all = Vec::new();
    for of in ["switch", "node", "weir"] {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        walk(&crates.join(of).join("src"), &mut all);
    }
    all
}

/// The list in `docs/contributing.md` holds: what a kind of port adds to its own folder stands in
/// few files.
#[test]
fn a_kind_of_port_is_named_in_few_files() {
    let sources = sources();
    for (kind, backend) in [("vxlan", "/port/vxlan/"), ("vhost", "/port/vhost/")] {
        let names =
            |(path, code): &&(String, String)| !path.contains(backend) && code.contains(kind);
        let named: Vec<_> = sources.iter().filter(names).map(|(path, _)| path).collect();
        assert!((3..=6).contains(&named.len()), "{kind}: {named:#?}");
    }
}
