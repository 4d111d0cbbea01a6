//! `#[derive(Element)]`: the class.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{DeriveInput, Result};

use crate::attributes::{ElementAttributes, doc, texts};
use crate::component::{FieldDeclaration, component, fields};
use crate::delegation::Delegate;

/// Writes `Class`, and what [`component`] writes.
pub fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = ElementAttributes::read(&input.attrs, "element")?;
    let fields = fields(input)?;
    let component = component(input, &attributes, &fields)?;
    let class = class(input, &attributes, &fields)?;
    Ok(quote! {
        #component
        #class
    })
}

fn class(
    input: &DeriveInput,
    attributes: &ElementAttributes,
    fields: &[FieldDeclaration<'_>],
) -> Result<TokenStream> {
    let ElementAttributes {
        is_a,
        alias,
        provides,
        segments,
        live,
        raw,
        ..
    } = attributes;
    let per_thread = format_ident!("{}", attributes.per_thread.unwrap_or("No"));
    let ident = &input.ident;
    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
    let name = match &attributes.name {
        Some(name) => name.value(),
        None => ident.to_string(),
    };
    let ports = attributes.ports.as_ref().ok_or_else(|| {
        syn::Error::new_spanned(ident, "an element says `#[element(ports = \"1/1\")]`")
    })?;
    let code = |given: &Option<syn::LitStr>, usual: &str| {
        given.as_ref().map_or(usual.to_string(), syn::LitStr::value)
    };
    let (processing, flow) = (
        code(&attributes.processing, "a/a"),
        code(&attributes.flow, "x/x"),
    );
    let phase = match &attributes.phase {
        Some(phase) => quote!(#phase),
        None => quote!(::router::phase::DEFAULT),
    };
    let states = fields
        .iter()
        .filter(|field| field.state)
        .map(|field| field.ident);
    let states: Vec<_> = states.collect();
    // The element's work is its own, or a component's.
    let worker = fields.iter().find_map(FieldDeclaration::delegate);
    let worker = worker.map(|Delegate { field, .. }| quote!(.#field));
    let take_over = attributes
        .take_over
        .then(|| quote!((*self) #worker.take_over(cx, &mut (*old) #worker);));
    let take_state = (attributes.take_over || !states.is_empty()).then(|| {
        quote! {
            fn take_state(&mut self, cx: &mut ::router::Cx<'_>, old: &mut Self) {
                let _ = &cx;
                #(self.#states = ::core::mem::take(&mut old.#states);)*
                #take_over
            }
        }
    });
    let capabilities = provides.iter().map(|capability| {
        quote! {
            ::router::Capability::new::<dyn #capability>(&::router::Provided {
                view: |element| {
                    let element: &dyn ::core::any::Any = element;
                    let element = element.downcast_ref::<Self>()?;
                    ::core::option::Option::Some(&(*element) #worker)
                },
                work: |element| {
                    let element: &mut dyn ::core::any::Any = element;
                    let element = element.downcast_mut::<Self>()?;
                    ::core::option::Option::Some(&mut (*element) #worker)
                },
            })
        }
    });
    let deprecated = attributes.deprecated.as_ref().map(syn::LitStr::value);
    let deprecated = deprecated.unwrap_or_default();
    let text = doc(&input.attrs);
    let (inputs, outputs) = (
        texts(&input.attrs, "inputs")?,
        texts(&input.attrs, "outputs")?,
    );
    Ok(quote! {
        impl #impl_generics ::router::Class for #ident #ty_generics #where_clause {
            const NAME: &'static str = #name;
            const PORTS: &'static str = #ports;
            const PROCESSING: &'static str = #processing;
            const FLOW: &'static str = #flow;
            const PHASE: i32 = #phase;
            const IS_A: &'static [&'static str] = &[#(#is_a),*];
            const ALIASES: &'static [&'static str] = &[#(#alias),*];
            const PER_THREAD: ::router::PerThread = ::router::PerThread::#per_thread;
            const SEGMENTS: bool = #segments;
            const LIVE: bool = #live;
            const RAW: bool = #raw;
            const DEPRECATED: &'static str = #deprecated;
            const CAPABILITIES: &'static [::router::Capability] = &[#(#capabilities),*];

            #take_state

            fn document(page: &mut ::router::Page) {
                page.name = #name;
                page.module = ::core::module_path!();
                page.text = #text;
                page.ports = #ports;
                page.processing = #processing;
                page.inputs = &[#(#inputs),*];
                page.outputs = &[#(#outputs),*];
                page.segments = #segments;
                page.live = #live;
                <Self as ::router::Component>::document(page);
            }
        }
    })
}
