//! `#[handlers]`: handlers that are methods.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Attribute, FnArg, ImplItem, ImplItemFn, ItemImpl, Result, Type};

use crate::attributes::{HandlerAttributes, doc};

/// A method that is a handler.
struct Handler {
    name: String,
    write: bool,
    /// Whether it takes the parameter that it is read with.
    parameter: bool,
    attributes: HandlerAttributes,
    doc: String,
    call: TokenStream,
}

/// Writes `Methods` beside the block.
pub fn expand(mut block: ItemImpl) -> Result<TokenStream> {
    let mut handlers = Vec::new();
    for item in &mut block.items {
        let ImplItem::Fn(method) = item else { continue };
        let mut found = None;
        method.attrs.retain(|attribute| {
            let is_handler =
                attribute.path().is_ident("read") || attribute.path().is_ident("write");
            if is_handler {
                found = Some(attribute.clone());
            }
            !is_handler
        });
        if let Some(attribute) = found {
            handlers.push(Handler::new(&attribute, method)?);
        }
    }
    let docs = handlers.iter().map(Handler::documentation);
    let listed = handlers.iter().map(Handler::listed);
    let reads = handlers.iter().filter(|h| !h.write).map(Handler::arm);
    let writes = handlers.iter().filter(|h| h.write).map(Handler::arm);
    let (impl_generics, _, where_clause) = block.generics.split_for_impl();
    let class = &block.self_ty;
    Ok(quote! {
        #block

        impl #impl_generics ::router::HandlersDeclared for #class #where_clause {}

        impl #impl_generics ::router::Methods for #class #where_clause {
            const DOCS: &'static [::router::HandlerDoc] = &[#(#docs),*];

            fn list_methods(&self, list: &mut ::router::HandlerList) {
                let _ = &list;
                #(#listed)*
            }

            fn read_method(
                &mut self,
                cx: &mut ::router::Cx<'_>,
                name: &str,
                value: &str,
            ) -> ::core::result::Result<::router::Text, ::router::HandlerError> {
                let _ = (&cx, value);
                match name {
                    #(#reads)*
                    _ => ::core::result::Result::Err(::router::HandlerError::Unknown),
                }
            }

            fn write_method(
                &mut self,
                cx: &mut ::router::Cx<'_>,
                name: &str,
                value: &str,
            ) -> ::core::result::Result<(), ::router::HandlerError> {
                let _ = (&cx, value);
                match name {
                    #(#writes)*
                    _ => ::core::result::Result::Err(::router::HandlerError::Unknown),
                }
            }
        }
    })
}

impl Handler {
    fn new(attribute: &Attribute, method: &ImplItemFn) -> Result<Handler> {
        let write = attribute.path().is_ident("write");
        let mut attributes = HandlerAttributes::default();
        if !matches!(attribute.meta, syn::Meta::Path(_)) {
            attribute.parse_nested_meta(|meta| {
                if attributes.take(&meta)? {
                    Ok(())
                } else {
                    Err(meta.error("a handler has no such attribute"))
                }
            })?;
        }
        let ident = &method.sig.ident;
        let plain = ident.to_string();
        let plain = plain.strip_prefix("r#").unwrap_or(&plain);
        let mut prefixes = ["read_", "write_", "set_"].iter();
        let plain = prefixes
            .find_map(|prefix| plain.strip_prefix(prefix))
            .unwrap_or(plain);
        let name = attributes
            .name
            .as_ref()
            .map_or(plain.to_string(), |name| name.value());

        let (mut given, mut parameter) = (Vec::new(), false);
        for input in &method.sig.inputs {
            let FnArg::Typed(input) = input else { continue };
            match &*input.ty {
                Type::Reference(to) if ends_in(&to.elem, "Cx") => given.push(quote!(cx)),
                Type::Reference(to) if ends_in(&to.elem, "str") => {
                    parameter = true;
                    given.push(quote!(value));
                }
                ty => {
                    parameter = true;
                    let error = attributes.error();
                    let parser = match &attributes.with {
                        Some(parser) => quote!(#parser),
                        None => quote!(<#ty as ::router::args::Argument>::parse),
                    };
                    given.push(quote! {
                        ::router::parse_value::<#ty>(cx, "", value, #parser, #error)?
                    });
                }
            }
        }
        // Values are parsed before the context is lent to the method.
        let names: Vec<_> = (0..given.len())
            .map(|i| quote::format_ident!("given_{i}"))
            .collect();
        let lent = |text: &TokenStream| matches!(text.to_string().as_str(), "cx" | "value");
        let parsed = given.iter().zip(&names).filter(|(text, _)| !lent(text));
        let parsed = parsed.map(|(text, name)| quote!(let #name = #text;));
        let passed = given.iter().zip(&names).map(|(text, name)| {
            if lent(text) {
                text.clone()
            } else {
                quote!(#name)
            }
        });
        let result = if write {
            quote!(::router::outcome)
        } else {
            quote!(::router::reading)
        };
        let call = quote!({ #(#parsed)* #result(self.#ident(#(#passed),*)) });
        Ok(Handler {
            name,
            write,
            parameter,
            attributes,
            doc: doc(&method.attrs),
            call,
        })
    }

    /// The flags that follow from what it is.
    fn first(&self) -> &'static [&'static str] {
        match (self.write, self.parameter) {
            (true, _) => &["WRITE"],
            (false, true) => &["READ", "PARAMETER"],
            (false, false) => &["READ"],
        }
    }

    fn documentation(&self) -> TokenStream {
        let (name, text) = (&self.name, &self.doc);
        let flags = self.attributes.flags(self.first());
        let (_, when) = self.attributes.guard();
        let also = self.attributes.also.iter().map(|also| also.value());
        let names = core::iter::once(name.clone()).chain(also);
        quote!(#(::router::HandlerDoc { name: #names, flags: #flags, when: #when, text: #text }),*)
    }

    fn listed(&self) -> TokenStream {
        self.attributes.listed(&self.name, self.first())
    }

    fn arm(&self) -> TokenStream {
        let (name, call) = (self.attributes.pattern(&self.name), &self.call);
        let (guard, _) = self.attributes.guard();
        quote!(#name #guard => #call)
    }
}

/// Whether `ty` is called `name`.
pub fn ends_in(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|s| s.ident == name))
}
