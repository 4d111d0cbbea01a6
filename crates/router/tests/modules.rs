//! The modules of the crate form no circle.

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
    let code = text
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

/// The modules that are left when those that use no others are removed again and again.
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

#[test]
fn the_modules_form_no_circle() {
    let mut found = BTreeMap::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    sources(&folder, &Module::new(), &mut found);
    let modules: BTreeSet<&Module> = found.keys().collect();
    let mut uses = Uses::new();
    for (module, text) in &found {
        let root = Module::new();
        for path in paths(text).into_iter().filter(|_| !module.is_empty()) {
            let to = resolve(module, &path, &modules);
            // By the names that the root exports, a circle could not be seen.
            let by_root = to == root && path[0] == "crate";
            assert!(!by_root, "{} uses {}", module.join("::"), path.join("::"));
            uses.entry(module.clone()).or_default().insert(to);
        }
    }
    assert!(uses.len() > 20, "the modules use each other");
    for (parent, uses) in between_siblings(&uses) {
        let circle: Vec<_> = circle(uses).iter().map(|m| m.join("::")).collect();
        assert!(
            circle.is_empty(),
            "in {parent:?}, of a circle or in front of one: {circle:?}"
        );
    }
}
