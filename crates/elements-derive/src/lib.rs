//! Makes structs elements: an element is declared on its struct, except for its work on packets.
//!
//! `#[derive(Element)]` reads the struct's attributes and writes `Class`, `Component` and
//! `Default`. `impl Element`, the work on packets, is written by hand.
//!
//! # On the struct: `#[element(…)]`
//! - `ports = "1/1-2"`, `processing = "a/ah"`, `flow = "x/y"`: Click's codes; `a/a` and `x/x`
//!   unless given.
//! - `name = "…"`: the class's name, if it is not the struct's.
//! - `segments`: packets may stand for several TCP segments.
//! - `live`: the `config` handler can be written while packets flow.
//! - `task`: the handlers of the element's first task; with `task(when = CONDITION)`, the element
//!   has them only then. `list.pulls` and `list.pushes` say what its first input and output are.
//! - `handlers`: there is a `#[handlers] impl` block.
//! - `dynamic`: handlers that depend on the configuration, by `impl DynamicHandlers`.
//! - `provides(Storage, …)`: capabilities, traits that the element implements.
//! - `alias("…")`: other names of the class.
//! - `is_a("…")`: other class names that it may stand for.
//! - `phase = …`, `per_thread`, `per_thread_in_order`: see `Class` and `PerThread`.
//! - `deprecated = "…"`: the warning of each use, which says what to use instead.
//! - `take_over`: on a hotswap `fn take_over(&mut self, cx: &mut Cx<'_>, old: &mut Self)` runs.
//! - `raw`: the arguments that no field takes are a language of the element's own, or depend on
//!   those before them; they are left in `args`, and `configured` reads them.
//! - `default`: `Default` is written by hand.
//!
//! `#[inputs("…", …)]` and `#[outputs("…", …)]` say what each port is for, in order.
//!
//! # On a field
//! - `#[arg(…)]`: an argument; the doc comment says what it means. Its keyword is the field's name
//!   in capitals, or `name = "…"`. `mandatory` and `positional` mean what they mean in `Read`:
//!   without either, it is optional and by keyword; `mandatory, keyword` is mandatory by keyword
//!   only. An argument that is not given has its `default = EXPRESSION`, else its type's default.
//!   `with = PARSER, kind = "…"`: a notation of its own, and what the manual calls it. `all`:
//!   every argument of that keyword, into a `Vec`; `rest`: all arguments left, as texts; `alone`:
//!   without its keyword too if it is the only argument left (the field is the last one).
//!   `default_text = "…"` is how the manual shows the default, `deprecated` warns.
//! - `read`, `write` in `#[arg]`: a handler, called as the keyword in small letters or
//!   `handler = "…"`. `read = PATH` shows the value by a function. A written value is parsed as the
//!   argument is; `error = "…"` replaces the reason in the message, `config` puts the value into
//!   the `config` handler as well, `also = "…"` is another name, `alias = "…"`
//!   an old one, and `then = METHOD` calls `self.METHOD(cx)` afterwards; if that returns an
//!   error, the field gets its former value back.
//! - `#[handler(read)]`: a field that is a handler only; `name = "…"`, `read = PATH`, `write`,
//!   `with`, `error`, `then` and the flags of `#[read]` as above.
//! - `#[init(EXPRESSION)]`: what a field begins with, if not with its type's default, or as an
//!   unspecified address.
//! - `#[state]`: the value that the element of the same name had, after a hotswap.
//! - `#[flatten]`: a `Component`, whose arguments and handlers are the element's own; with
//!   `then = METHOD`, `self.METHOD(cx)` is called after one of its handlers is written; if that
//!   fails, the component, which is `Clone`, gets its former value back.
//! - `#[delegate]`: the same, of a `Component` that implements `Element` and the capabilities that
//!   the element provides: it does the element's work, and no `impl Element` is written. With
//!   `configured = METHOD`, the struct's METHOD is called in place of the component's
//!   `configured`; so for the other methods of `Element`.
//!
//! # On a method, in an `impl` block marked `#[handlers]`
//! - `#[read]`: a handler; the method returns a value that is `Shown`, or a `Result`. `#[write]`:
//!   it returns nothing or a `Result`. A leading `read_`, `write_` or `set_` of the method's name
//!   is left out, or `name = "…"`.
//! - The method takes `&self` or `&mut self`, then if it wants `cx: &mut Cx<'_>`, then if it wants
//!   the value written, or the parameter read with: as `&str`, or as any `Argument`, with
//!   `error = "…"` and `with = PARSER`.
//! - Flags: `button`, `checkbox`, `raw`, `calm`, `expensive`, `uncommon`, `deprecated`, `private`.
//!   `when = CONDITION`: the element has the handler only then.
#![forbid(unsafe_code)]

mod attributes;
mod component;
mod delegation;
mod element;
mod methods;

use proc_macro::TokenStream;
use syn::{DeriveInput, ItemImpl, parse_macro_input};

/// Makes a struct an element class; see the crate's page.
#[proc_macro_derive(
    Element,
    attributes(element, inputs, outputs, arg, handler, init, state, flatten, delegate)
)]
pub fn derive_element(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    element::derive(&input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes a struct one whose arguments and handlers elements have in common; see the crate's page.
#[proc_macro_derive(
    Component,
    attributes(component, arg, handler, init, state, flatten, delegate)
)]
pub fn derive_component(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    component::derive(&input)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}

/// Makes methods handlers; see the crate's page.
#[proc_macro_attribute]
pub fn handlers(_: TokenStream, input: TokenStream) -> TokenStream {
    let block = parse_macro_input!(input as ItemImpl);
    methods::expand(block)
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
