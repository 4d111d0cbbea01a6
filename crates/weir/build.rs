//! Gathers the elements' manual pages: the doc comments of the structs that `elements!` lists, and
//! of the switch's own elements, as a table for `weir element`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use proc_macro2::{TokenStream, TokenTree};
use syn::{Attribute, Expr, File, ImplItem, Item, Lit, Meta, Type};

fn main() {
    let elements = Path::new("../elements/src");
    let switch = Path::new("../click-lookup/src/elements.rs");
    println!("cargo::rerun-if-changed={}", elements.display());
    println!("cargo::rerun-if-changed={}", switch.display());
    let folders = groups(elements).into_iter();
    let mut groups: BTreeMap<_, _> = folders.map(|(group, path)| (group, pages(&path))).collect();
    groups.insert("switch".into(), own_pages(switch));
    let mut table = String::from("&[\n");
    for (group, pages) in groups {
        for (name, text) in pages {
            table += &format!("    Page {{ name: {name:?}, group: {group:?}, text: {text:?} }},\n");
        }
    }
    table += "]\n";
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("pages.rs"), table).expect("OUT_DIR is writable");
}

/// The groups' folders: those with a mod.rs that lists elements.
fn groups(elements: &Path) -> BTreeMap<String, PathBuf> {
    let mut groups = BTreeMap::new();
    for entry in fs::read_dir(elements).expect("the elements' sources are beside this crate") {
        let path = entry.expect("the folder can be read").path();
        if path.join("mod.rs").exists() && !pages(&path).is_empty() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            groups.insert(name.into_owned(), path);
        }
    }
    groups
}

fn parse(path: &Path) -> File {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What `elements!` lists in a mod.rs: files, each with its structs.
fn listed(file: &File) -> Vec<(String, Vec<String>)> {
    let mut all = Vec::new();
    for item in &file.items {
        let Item::Macro(item) = item else { continue };
        let is_list = item.mac.path.segments.last();
        if is_list.is_none_or(|last| last.ident != "elements") || item.ident.is_some() {
            continue;
        }
        let text = item.mac.tokens.to_string();
        for entry in text.split(';').filter(|entry| !entry.trim().is_empty()) {
            if let Some((file, structs)) = entry.split_once(':') {
                let structs = structs.split(',').map(|s| s.trim().to_string());
                all.push((file.trim().to_string(), structs.collect()));
            }
        }
    }
    all
}

/// The pages of a group by class name, those of the parts of it that have a list of their own
/// included.
fn pages(folder: &Path) -> BTreeMap<String, String> {
    let mut pages = parts(folder);
    for (name, structs) in listed(&parse(&folder.join("mod.rs"))) {
        let mut path = folder.join(format!("{name}.rs"));
        if !path.exists() {
            path = folder.join(name).join("mod.rs");
        }
        let file = parse(&path);
        let names = class_names(&file);
        let docs = docs(&file, &structs);
        for name in &structs {
            let class = names.get(name).unwrap_or(name);
            let text = docs.get(name).cloned().unwrap_or_default();
            pages.insert(class.clone(), text);
        }
    }
    pages
}

/// The pages of all classes in a file, by class name.
fn own_pages(path: &Path) -> BTreeMap<String, String> {
    let file = parse(path);
    let docs = docs(&file, &[]);
    let text = |of: &String| docs.get(of).cloned().unwrap_or_default();
    let names = class_names(&file).into_iter();
    names.map(|(of, class)| (class, text(&of))).collect()
}

/// The pages of the folders within a group that list elements.
fn parts(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).expect("the group's folder can be read");
    let paths = entries.map(|entry| entry.expect("the folder can be read").path());
    let lists = |path: &PathBuf| {
        let list = path.join("mod.rs");
        list.exists() && !listed(&parse(&list)).is_empty()
    };
    paths.filter(lists).flat_map(|path| pages(&path)).collect()
}

/// `NAME` of each `impl Class for STRUCT`.
fn class_names(file: &File) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for item in &file.items {
        let Item::Impl(item) = item else { continue };
        let Type::Path(of) = &*item.self_ty else {
            continue;
        };
        for item in &item.items {
            if let ImplItem::Const(constant) = item
                && constant.ident == "NAME"
                && let Expr::Lit(literal) = &constant.expr
                && let Lit::Str(name) = &literal.lit
                && let Some(of) = of.path.get_ident()
            {
                names.insert(of.to_string(), name.value());
            }
        }
    }
    names
}

/// The doc comments of the structs of these names, written out or given to a macro.
fn docs(file: &File, structs: &[String]) -> BTreeMap<String, String> {
    let mut docs = BTreeMap::new();
    for item in &file.items {
        match item {
            Item::Struct(item) => {
                let lines: Vec<String> = item.attrs.iter().filter_map(doc_line).collect();
                docs.insert(item.ident.to_string(), join(&lines));
            }
            Item::Macro(item) if item.ident.is_none() => {
                macro_docs(item.mac.tokens.clone(), structs, &mut docs);
            }
            _ => {}
        }
    }
    docs
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attribute.meta else {
        return None;
    };
    match &meta.value {
        Expr::Lit(literal) if meta.path.is_ident("doc") => match &literal.lit {
            Lit::Str(line) => Some(line.value()),
            _ => None,
        },
        _ => None,
    }
}

/// Doc comments among a macro's arguments belong to the first struct named behind them.
fn macro_docs(tokens: TokenStream, structs: &[String], docs: &mut BTreeMap<String, String>) {
    let mut lines = Vec::new();
    let mut after_hash = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) if after_hash => {
                let attribute = format!("#{group} struct X;");
                let attribute = syn::parse_str::<syn::ItemStruct>(&attribute).ok();
                lines.extend(attribute.and_then(|a| a.attrs.first().and_then(doc_line)));
            }
            TokenTree::Ident(name) if !lines.is_empty() && structs.iter().any(|s| name == s) => {
                docs.insert(name.to_string(), join(&lines));
                lines.clear();
            }
            TokenTree::Punct(ref punct) if punct.as_char() == '#' => {
                after_hash = true;
                continue;
            }
            _ => {}
        }
        after_hash = false;
    }
}

fn join(lines: &[String]) -> String {
    let lines = lines
        .iter()
        .map(|line| line.strip_prefix(' ').unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}
