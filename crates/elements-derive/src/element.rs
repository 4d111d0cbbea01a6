//! `#[derive(Element)]`: the class.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Result};

use crate::attributes::{ElementAttributes, doc, texts};
use crate::component::{component, fields};

/// Writes `Class` and `Declared`, and what [`component`] writes.
pub fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = ElementAttributes::read(&input.attrs, "element")?;
    let fields = fields(input)?;
    let component = component(input, &attributes, &fields)?;
    let class = class(input, &attributes)?;
    let (name, live) = (&input.ident, attributes.live);
    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();

    let states = fields
        .iter()
        .filter(|field| field.state)
        .map(|field| field.ident);
    let states: Vec<_> = states.collect();
    let take_over = attributes
        .take_over
        .then(|| quote!(self.take_over(cx, old);));
    let take_state = (attributes.take_over || !states.is_empty()).then(|| {
        quote! {
            fn take_state(
                &mut self,
                cx: &mut ::router::Cx<'_>,
                old: &mut dyn ::router::Element,
            ) {
                let _ = &cx;
                let old: &mut dyn ::core::any::Any = old;
                if let ::core::option::Option::Some(old) = old.downcast_mut::<Self>() {
                    #(self.#states = ::core::mem::take(&mut old.#states);)*
                    #take_over
                }
            }
        }
    });
    let live = live.then(|| {
        quote! {
            fn can_live_reconfigure(&self) -> bool {
                true
            }
        }
    });
    let complete = if attributes.raw {
        quote!(consume)
    } else {
        quote!(complete)
    };
    Ok(quote! {
        #component
        #class

        impl #impl_generics ::router::Declared for #name #ty_generics #where_clause {
            fn configure(
                &mut self,
                cx: &mut ::router::Cx<'_>,
                args: &mut ::router::args::Args<'_>,
            ) -> ::core::result::Result<(), ::router::args::Failed> {
                ::router::Component::arguments(self, args.read()).#complete()?;
                ::router::Element::configured(self, cx, args)
            }

            #live
            #take_state

            fn handlers(&self, list: &mut ::router::HandlerList) {
                ::router::Component::list_handlers(self, list);
            }

            fn read(
                &mut self,
                cx: &mut ::router::Cx<'_>,
                name: &str,
                parameter: &str,
            ) -> ::core::result::Result<::router::Text, ::router::HandlerError> {
                ::router::Component::read_handler(self, cx, name, parameter)
            }

            fn write(
                &mut self,
                cx: &mut ::router::Cx<'_>,
                name: &str,
                value: &str,
            ) -> ::core::result::Result<(), ::router::HandlerError> {
                ::router::Component::write_handler(self, cx, name, value)
            }
        }
    })
}

fn class(input: &DeriveInput, attributes: &ElementAttributes) -> Result<TokenStream> {
    let ElementAttributes {
        is_a,
        alias,
        provides,
        per_thread,
        segments,
        live,
        ..
    } = attributes;
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
    let capabilities = if provides.is_empty() {
        quote!(&[])
    } else {
        quote!(::router::provides!(#ident #ty_generics: #(#provides),*))
    };
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
            const PER_THREAD: bool = #per_thread;
            const SEGMENTS: bool = #segments;
            const CAPABILITIES: &'static [::router::Capability] = #capabilities;

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
