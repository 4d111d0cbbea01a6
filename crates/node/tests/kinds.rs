//! A kind of port stands in few files.

use std::path::Path;

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
