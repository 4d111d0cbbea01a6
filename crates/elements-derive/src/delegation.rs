//! `#[delegate]`: an element whose work a component does.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, FnArg, Ident, ItemTrait, Pat, Result, TraitItem, parse_quote};

/// The component that does an element's work.
pub struct Delegate<'f> {
    pub field: &'f Ident,
    /// Methods of `Element`, and those of the struct that are called instead of the component's.
    pub instead: &'f [(Ident, Ident)],
}

/// The methods of `Element`.
fn element() -> ItemTrait {
    let cx = quote!(cx: &mut ::router::Cx<'_>);
    let batch = quote!(batch: &mut ::packet::Batch);
    let done = quote!(::core::result::Result<(), ::router::args::Failed>);
    parse_quote! {
        trait Element {
            fn configured(&mut self, #cx, args: &mut ::router::args::Args<'_>) -> #done;
            fn initialize(&mut self, #cx) -> #done;
            fn cleanup(&mut self, #cx);
            fn action(&mut self, #cx, packet: &mut ::packet::Packet) -> ::router::Verdict;
            fn affects(&self, packet: &::packet::Packet) -> bool;
            fn effects(&self) -> ::router::Effects;
            fn batch(&mut self, #cx, #batch);
            fn push(&mut self, #cx, port: usize, #batch) -> usize;
            fn pull(&mut self, #cx, port: usize, #batch, most: usize);
            fn pulled(&mut self, #cx, port: usize, #batch);
            fn run_task(&mut self, #cx, task: ::router::TaskId) -> ::router::Ran;
            fn run_timer(&mut self, #cx, timer: ::router::TimerId);
        }
    }
}

/// Writes `Element`: each method is the component's, or the one that is named instead.
pub fn delegation(input: &DeriveInput, delegate: &Delegate<'_>) -> Result<TokenStream> {
    let Delegate { field, instead } = delegate;
    let ident = &input.ident;
    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
    let mut left: Vec<_> = instead.iter().collect();
    let mut methods = TokenStream::new();
    for item in element().items {
        let TraitItem::Fn(method) = item else {
            continue;
        };
        let (signature, name) = (&method.sig, &method.sig.ident);
        let given = signature.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(argument) => Some(&argument.pat),
            FnArg::Receiver(_) => None,
        });
        let given: Vec<&Box<Pat>> = given.collect();
        let own = left.iter().position(|(of, _)| of == name);
        let call = match own.map(|at| left.swap_remove(at)) {
            Some((_, own)) => quote!(self.#own(#(#given),*)),
            None => {
                let mutability = signature.receiver().and_then(|this| this.mutability);
                quote!(::router::Element::#name(&#mutability self.#field, #(#given),*))
            }
        };
        methods.extend(quote!(#[inline] #signature { #call }));
    }
    if let Some((unknown, _)) = left.first() {
        return Err(syn::Error::new_spanned(
            unknown,
            "`Element` has no such method",
        ));
    }
    Ok(quote! {
        impl #impl_generics ::router::Element for #ident #ty_generics #where_clause {
            #methods
        }
    })
}
