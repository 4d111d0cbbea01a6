//! The attributes as they are written.

use proc_macro2::TokenStream;
use quote::quote;
use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Ident, LitStr, Path, Result, Token};

/// The doc comment among `attributes`, one line for each of its own.
pub fn doc(attributes: &[Attribute]) -> String {
    let mut lines = Vec::new();
    for attribute in attributes.iter().filter(|a| a.path().is_ident("doc")) {
        if let syn::Meta::NameValue(pair) = &attribute.meta
            && let Expr::Lit(syn::ExprLit {
                lit: syn::Lit::Str(text),
                ..
            }) = &pair.value
        {
            let text = text.value();
            lines.push(text.strip_prefix(' ').unwrap_or(&text).to_string());
        }
    }
    lines.join("\n")
}

/// The attribute called `name`.
pub fn find<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a Attribute> {
    attributes.iter().find(|a| a.path().is_ident(name))
}

/// The texts in `#[name("…", "…")]`.
pub fn texts(attributes: &[Attribute], name: &str) -> Result<Vec<LitStr>> {
    let Some(attribute) = find(attributes, name) else {
        return Ok(Vec::new());
    };
    let texts = attribute.parse_args_with(Punctuated::<LitStr, Token![,]>::parse_terminated)?;
    Ok(texts.into_iter().collect())
}

/// `NAME = VALUE`.
pub fn value<T: syn::parse::Parse>(meta: &ParseNestedMeta<'_>) -> Result<T> {
    meta.value()?.parse()
}

/// `NAME("…", …)`.
fn strings(meta: &ParseNestedMeta<'_>) -> Result<Vec<LitStr>> {
    let content;
    syn::parenthesized!(content in meta.input);
    let list = content.parse_terminated(|input| input.parse::<LitStr>(), Token![,])?;
    Ok(list.into_iter().collect())
}

/// `NAME(PATH, …)`.
fn paths(meta: &ParseNestedMeta<'_>) -> Result<Vec<Path>> {
    let content;
    syn::parenthesized!(content in meta.input);
    let list = content.parse_terminated(Path::parse_mod_style, Token![,])?;
    Ok(list.into_iter().collect())
}

/// `#[element(…)]` or `#[component(…)]`.
#[derive(Default)]
pub struct ElementAttributes {
    pub name: Option<LitStr>,
    pub ports: Option<LitStr>,
    pub processing: Option<LitStr>,
    pub flow: Option<LitStr>,
    pub phase: Option<Expr>,
    pub is_a: Vec<LitStr>,
    pub alias: Vec<LitStr>,
    pub deprecated: Option<LitStr>,
    pub provides: Vec<Path>,
    /// A variant of `PerThread`.
    pub per_thread: Option<&'static str>,
    pub segments: bool,
    pub live: bool,
    pub raw: bool,
    pub handlers: bool,
    pub dynamic: bool,
    pub take_over: bool,
    pub default: bool,
    pub task: Option<Task>,
}

/// `task(…)`.
#[derive(Default)]
pub struct Task {
    /// The element has the task only then.
    pub when: Option<Expr>,
}

impl Task {
    fn read(meta: &ParseNestedMeta<'_>) -> Result<Task> {
        let mut task = Task::default();
        if meta.input.peek(syn::token::Paren) {
            meta.parse_nested_meta(|inner| {
                if !inner.path.is_ident("when") {
                    return Err(inner.error("expected `when`"));
                }
                task.when = Some(value(&inner)?);
                Ok(())
            })?;
        }
        Ok(task)
    }

    /// What lists the task's handlers.
    pub fn listed(&self) -> TokenStream {
        match &self.when {
            Some(condition) => quote!(if #condition { list.task(); }),
            None => quote!(list.task();),
        }
    }

    /// What adds them to the manual.
    pub fn documentation(&self) -> TokenStream {
        let (_, when) = guard(self.when.as_ref());
        quote!(page.task(#when);)
    }
}

/// ` if CONDITION`, and the same as text for the manual.
fn guard(when: Option<&Expr>) -> (TokenStream, TokenStream) {
    match when {
        Some(condition) => {
            let text = quote!(#condition).to_string();
            (
                quote!(if #condition),
                quote!(::core::option::Option::Some(#text)),
            )
        }
        None => (quote!(), quote!(::core::option::Option::None)),
    }
}

impl ElementAttributes {
    /// Reads `#[kind(…)]`.
    pub fn read(attributes: &[Attribute], kind: &str) -> Result<Self> {
        let mut read = ElementAttributes::default();
        let Some(attribute) = find(attributes, kind) else {
            return Ok(read);
        };
        attribute.parse_nested_meta(|meta| {
            let name = meta.path.require_ident()?.to_string();
            match (kind, name.as_str()) {
                (_, "handlers") => read.handlers = true,
                (_, "dynamic") => read.dynamic = true,
                (_, "default") => read.default = true,
                ("element", "name") => read.name = Some(value(&meta)?),
                ("element", "ports") => read.ports = Some(value(&meta)?),
                ("element", "processing") => read.processing = Some(value(&meta)?),
                ("element", "flow") => read.flow = Some(value(&meta)?),
                ("element", "phase") => read.phase = Some(value(&meta)?),
                ("element", "alias") => read.alias = strings(&meta)?,
                ("element", "deprecated") => read.deprecated = Some(value(&meta)?),
                ("element", "is_a") => read.is_a = strings(&meta)?,
                ("element", "provides") => read.provides = paths(&meta)?,
                ("element", "per_thread") => read.per_thread = Some("ByNumber"),
                ("element", "per_thread_in_order") => read.per_thread = Some("InOrder"),
                ("element", "segments") => read.segments = true,
                ("element", "live") => read.live = true,
                ("element", "raw") => read.raw = true,
                ("element", "take_over") => read.take_over = true,
                (_, "task") => read.task = Some(Task::read(&meta)?),
                _ => return Err(meta.error(format!("`#[{kind}]` has no `{name}`"))),
            }
            Ok(())
        })?;
        Ok(read)
    }
}

/// What fields and methods that are handlers have in common.
#[derive(Default)]
pub struct HandlerAttributes {
    pub name: Option<LitStr>,
    /// Another name.
    pub also: Option<LitStr>,
    /// Another name, which is deprecated.
    pub alias: Option<LitStr>,
    pub error: Option<LitStr>,
    pub with: Option<Expr>,
    pub when: Option<Expr>,
    pub then: Option<Ident>,
    pub flags: Vec<Ident>,
}

const FLAGS: [&str; 8] = [
    "button",
    "checkbox",
    "raw",
    "calm",
    "expensive",
    "uncommon",
    "deprecated",
    "private",
];

impl HandlerAttributes {
    /// Takes one word of the attribute; false if it is another kind of word.
    pub fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<bool> {
        let word = meta.path.require_ident()?;
        match word.to_string().as_str() {
            "name" => self.name = Some(value(meta)?),
            "also" => self.also = Some(value(meta)?),
            "alias" => self.alias = Some(value(meta)?),
            "error" => self.error = Some(value(meta)?),
            "with" => self.with = Some(value(meta)?),
            "when" => self.when = Some(value(meta)?),
            "then" => self.then = Some(value(meta)?),
            flag if FLAGS.contains(&flag) => {
                let flag = Ident::new(&flag.to_uppercase(), word.span());
                self.flags.push(flag);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `HandlerFlags::READ.with(…)`, from the flags given and `first`.
    pub fn flags(&self, first: &[&str]) -> TokenStream {
        let first = first
            .iter()
            .map(|flag| Ident::new(flag, proc_macro2::Span::call_site()));
        let flags = first.chain(self.flags.iter().cloned());
        quote!(::router::HandlerFlags::NONE #(.with(::router::HandlerFlags::#flags))*)
    }

    /// What lists a handler called `name`.
    pub fn listed(&self, name: &str, first: &[&str]) -> TokenStream {
        let flags = self.flags(first);
        let also = self
            .also
            .iter()
            .map(|also| quote!(list.add(#also, #flags);));
        let alias = self.alias.iter().map(
            |alias| quote!(list.add(#alias, #flags.with(::router::HandlerFlags::DEPRECATED));),
        );
        let add = quote!(list.add(#name, #flags); #(#also)* #(#alias)*);
        match &self.when {
            Some(condition) => quote!(if #condition { #add }),
            None => add,
        }
    }

    /// The pattern that a handler called `name` matches.
    pub fn pattern(&self, name: &str) -> TokenStream {
        let others = self.also.iter().chain(&self.alias);
        quote!(#name #(| #others)*)
    }

    /// ` if CONDITION`, and the same as text for the manual.
    pub fn guard(&self) -> (TokenStream, TokenStream) {
        guard(self.when.as_ref())
    }

    /// The message that replaces a reason; empty if there is none.
    pub fn error(&self) -> String {
        self.error.as_ref().map_or(String::new(), LitStr::value)
    }
}

/// How a field is shown or written by a handler.
#[derive(Default)]
pub struct Access {
    pub read: bool,
    pub write: bool,
    /// The function that shows the value.
    pub shown_by: Option<Expr>,
}

impl Access {
    /// Takes `read`, `read = PATH` or `write`; false if it is another word.
    pub fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<bool> {
        if meta.path.is_ident("read") {
            self.read = true;
            if meta.input.peek(Token![=]) {
                self.shown_by = Some(value(meta)?);
            }
        } else if meta.path.is_ident("write") {
            self.write = true;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    pub fn flags(&self) -> Vec<&'static str> {
        let read = self.read.then_some("READ");
        read.into_iter()
            .chain(self.write.then_some("WRITE"))
            .collect()
    }
}
