//! The modules of each crate form no circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module's path, without `crate`.
type Module = Vec<String>;
/// Modules, each with the modules that it uses.
type Uses = BTreeMap<Module, BTreeSet<Module>>;

/// The sources of all modules below `folder`.
fn sources(folder: &Path, at: &Module, found: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).expect("the crate's sources are there") {
        let path = entry.expect("the folder can be read").path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let stem = stem.expect("modules have plain names").to_string();
        let inside = || at.iter().cloned().chain([stem.clone()]).collect();
        if stem == "tests" || stem == "testing" {
            continue;
        }
        if path.is_dir() {
            sources(&path, &inside(), found);
            continue;
        }
        let module = match stem.as_str() {
            "lib" | "mod" => at.clone(),
            _ => inside(),
        };
        found.insert(module, fs::read_to_string(&path).expect("it is text"));
    }
}

/// The paths in `text` that start at the crate or at the parent module, as names.
fn paths(text: &str) -> Vec<Vec<String>> {
    // What tests use is no layer.
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    let code = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n");
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut paths = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            if code[..at].ends_with(|c: char| is_name(c) || c == ':' || c == '$') {
                continue;
            }
            let length = code[at..].find(|c: char| !is_name(c) && c != ':');
            let end = length.map_or(code.len(), |length| at + length);
            let path = code[at..end].trim_end_matches(':').split("::");
            let path: Vec<String> = path.map(String::from).collect();
            match code[end..]
                .strip_prefix('{')
                .and_then(|rest| rest.split('}').next())
            {
                None => paths.push(path),
                Some(names) => paths.extend(names.split(',').map(|name| {
                    let name = name.split_whitespace().next().unwrap_or("");
                    path.iter()
                        .cloned()
                        .chain(name.split("::").map(String::from))
                        .collect()
                })),
            }
        }
    }
    paths
}

/// The module that a path, met in `module`, leads to.
fn resolve(module: &Module, path: &[String], modules: &BTreeSet<&Module>) -> Module {
    let mut at = Module::new();
    if path.first().is_some_and(|first| first == "super") {
        at = module.clone();
    }
    for name in path {
        match name.as_str() {
            "crate" => {}
            "super" => _ = at.pop(),
            _ => {
                at.push(name.clone());
                if !modules.contains(&at) {
                    at.pop();
                    break;
                }
            }
        }
    }
    at
}

/// Which children of one module use which others of its children, also by modules inside them. What
/// a module and the modules inside it have of each other does not count.
fn between_siblings(uses: &Uses) -> BTreeMap<Module, Uses> {
    let mut siblings: BTreeMap<Module, Uses> = BTreeMap::new();
    for (from, used) in uses {
        for to in used {
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            if common < from.len() && common < to.len() {
                let parent = siblings.entry(from[..common].to_vec()).or_default();
                let [from, to] = [from, to].map(|module| module[..=common].to_vec());
                parent.entry(from).or_default().insert(to);
            }
        }
    }
    siblings
}

/// The modules that remain when modules without uses of others are removed repeatedly.
fn circle(mut uses: Uses) -> Vec<Module> {
    loop {
        let all: BTreeSet<Module> = uses.keys().cloned().collect();
        uses.values_mut()
            .for_each(|used| used.retain(|to| all.contains(to)));
        uses.retain(|_, used| !used.is_empty());
        if uses.len() == all.len() {
            return uses.into_keys().collect();
        }
    }
}

/// The names that `lib.rs` exports from modules: the text behind `pub use` up to the names' module.
fn exports(lib: &str) -> BTreeMap<String, Vec<String>> {
    let mut exports = BTreeMap::new();
    for export in lib.split("pub use ").skip(1) {
        let export = export.split(';').next().unwrap_or("");
        let (path, names) = match export.split_once("::{") {
            Some((path, names)) => (path, names.trim_end_matches('}')),
            None => export.rsplit_once("::").unwrap_or(("", export)),
        };
        let path: Vec<String> = path.split("::").map(String::from).collect();
        for name in names.split(',') {
            exports.insert(name.trim().to_string(), path.clone());
        }
    }
    exports
}

/// Asserts that no module of the crate depends, directly or not, on a module that depends on it.
fn check(name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../{name}/src"));
    let mut found = BTreeMap::new();
    sources(&folder, &Module::new(), &mut found);
    let modules: BTreeSet<&Module> = found.keys().collect();
    let exports = exports(&found[&Module::new()]);
    let mut uses = Uses::new();
    for (module, text) in found.iter().filter(|(module, _)| !module.is_empty()) {
        for mut path in paths(text) {
            if path[0] == "crate"
                && path.len() > 1
                && let Some(module) = exports.get(&path[1])
            {
                path = module.clone();
            }
            let to = resolve(module, &path, &modules);
            uses.entry(module.clone()).or_default().insert(to);
        }
    }
    assert!(uses.len() > 4, "{name}: the modules use each other");
    for (parent, uses) in between_siblings(&uses) {
        let circle: Vec<_> = circle(uses).iter().map(|m| m.join("::")).collect();
        assert!(
            circle.is_empty(),
            "{name}: in {parent:?}, of a circle or in front of one: {circle:?}"
        );
    }
}

#[test]
fn the_modules_of_each_crate_form_no_circle() {
    for name in ["abi", "router", "elements", "switch", "store", "node"] {
        check(name);
    }
}
