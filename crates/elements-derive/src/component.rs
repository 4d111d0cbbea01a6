//! Arguments and handlers that are fields.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Data, DeriveInput, Expr, Field, Fields, Ident, LitStr, Result, Type};

use crate::attributes::{Access, ElementAttributes, HandlerAttributes, Task, doc, find, value};
use crate::delegation::{Delegate, delegation};
use crate::methods::ends_in;

/// A field, as its attributes declare it.
pub struct FieldDeclaration<'f> {
    pub ident: &'f Ident,
    ty: &'f Type,
    doc: String,
    role: Role,
    init: Option<Expr>,
    pub state: bool,
}

enum Role {
    Plain,
    Argument(Box<Argument>),
    Handler(Box<HandlerAttributes>, Access),
    /// With the method to call when one of the component's handlers was written.
    Flatten(Option<Ident>),
    /// With methods of `Element` and those to call instead.
    Delegate(Vec<(Ident, Ident)>),
}

#[derive(Default)]
struct Argument {
    keyword: String,
    mandatory: bool,
    positional: bool,
    keyword_only: bool,
    all: bool,
    alone: bool,
    rest: bool,
    deprecated: bool,
    config: bool,
    default: Option<Expr>,
    default_text: Option<LitStr>,
    kind: Option<LitStr>,
    handler: Option<LitStr>,
    attributes: HandlerAttributes,
    access: Access,
    /// The index among the positional arguments.
    position: Option<usize>,
}

/// The fields of a struct.
pub fn fields(input: &DeriveInput) -> Result<Vec<FieldDeclaration<'_>>> {
    let Data::Struct(data) = &input.data else {
        return Err(syn::Error::new_spanned(&input.ident, "expected a struct"));
    };
    let fields = match &data.fields {
        Fields::Named(fields) => &fields.named,
        Fields::Unit => return Ok(Vec::new()),
        Fields::Unnamed(fields) => {
            return Err(syn::Error::new_spanned(
                fields,
                "expected fields with names",
            ));
        }
    };
    let mut position = 0;
    let mut declared = Vec::new();
    for field in fields {
        let mut field = FieldDeclaration::new(field)?;
        if let Role::Argument(argument) = &mut field.role
            && argument.positional
        {
            argument.position = Some(position);
            position += 1;
        }
        declared.push(field);
    }
    Ok(declared)
}

impl<'f> FieldDeclaration<'f> {
    fn new(field: &'f Field) -> Result<Self> {
        let ident = field.ident.as_ref().expect("fields have names");
        let mut declared = FieldDeclaration {
            ident,
            ty: &field.ty,
            doc: doc(&field.attrs),
            role: Role::Plain,
            init: None,
            state: find(&field.attrs, "state").is_some(),
        };
        if let Some(attribute) = find(&field.attrs, "init") {
            declared.init = Some(attribute.parse_args()?);
        }
        if let Some(attribute) = find(&field.attrs, "flatten") {
            let then = methods(attribute)?.pop();
            declared.role = Role::Flatten(then.map(|(_, method)| method));
        }
        if let Some(attribute) = find(&field.attrs, "delegate") {
            declared.role = Role::Delegate(methods(attribute)?);
        }
        if let Some(attribute) = find(&field.attrs, "arg") {
            let mut argument = Argument::read(attribute)?;
            if argument.keyword.is_empty() {
                argument.keyword = plain(ident).to_uppercase();
            }
            declared.init = argument.default.clone().or(declared.init);
            declared.role = Role::Argument(Box::new(argument));
        }
        if let Some(attribute) = find(&field.attrs, "handler") {
            let (mut attributes, mut access) = (HandlerAttributes::default(), Access::default());
            attribute.parse_nested_meta(|meta| {
                if access.take(&meta)? || attributes.take(&meta)? {
                    Ok(())
                } else {
                    Err(meta.error("`#[handler]` has no such word"))
                }
            })?;
            declared.role = Role::Handler(Box::new(attributes), access);
        }
        Ok(declared)
    }

    /// Whether the field's type is a component that does the element's work.
    pub fn delegate(&self) -> Option<Delegate<'_>> {
        let field = self.ident;
        match &self.role {
            Role::Delegate(instead) => Some(Delegate { field, instead }),
            _ => None,
        }
    }

    /// Whether the field's type is a component, and what to call when its handlers are written.
    fn component(&self) -> Option<Option<&Ident>> {
        match &self.role {
            Role::Flatten(then) => Some(then.as_ref()),
            Role::Delegate(_) => Some(None),
            _ => None,
        }
    }

    /// `NAME: WHAT IT BEGINS WITH`.
    fn initial(&self) -> TokenStream {
        let ident = self.ident;
        match &self.init {
            Some(init) => quote!(#ident: #init),
            // The addresses have no default of their own.
            None if ends_in(self.ty, "Ipv4Addr") || ends_in(self.ty, "Ipv6Addr") => {
                let ty = self.ty;
                quote!(#ident: <#ty>::UNSPECIFIED)
            }
            None => quote!(#ident: ::core::default::Default::default()),
        }
    }

    /// The step that reads the argument.
    fn read_step(&self) -> Option<TokenStream> {
        let ident = self.ident;
        match &self.role {
            Role::Flatten(_) | Role::Delegate(_) => Some(quote! {
                let read = ::router::Component::arguments(#ident, read);
            }),
            Role::Argument(argument) => Some(argument.read_step(ident, self.ty)),
            Role::Plain | Role::Handler(..) => None,
        }
    }

    /// The name of the field's handler, if it is one.
    fn handler(&self) -> Option<(String, &HandlerAttributes, &Access)> {
        let name =
            |given: &Option<LitStr>, else_: String| given.as_ref().map_or(else_, LitStr::value);
        match &self.role {
            Role::Argument(argument) if argument.access.read || argument.access.write => Some((
                name(&argument.handler, argument.keyword.to_lowercase()),
                &argument.attributes,
                &argument.access,
            )),
            Role::Handler(attributes, access) => Some((
                name(&attributes.name, plain(self.ident)),
                attributes,
                access,
            )),
            _ => None,
        }
    }

    fn listed(&self) -> Option<TokenStream> {
        if self.component().is_some() {
            let ident = self.ident;
            return Some(quote!(::router::Component::list_handlers(&self.#ident, list);));
        }
        let (name, attributes, access) = self.handler()?;
        Some(attributes.listed(&name, &access.flags()))
    }

    fn read_arm(&self) -> Option<TokenStream> {
        let (name, attributes, access) = self.handler()?;
        if !access.read {
            return None;
        }
        let (ident, (guard, _)) = (self.ident, attributes.guard());
        let show = match &access.shown_by {
            Some(function) => quote!(::router::shown(&(#function)(&self.#ident))),
            None => quote!(::router::shown(&self.#ident)),
        };
        let name = attributes.pattern(&name);
        Some(quote!(#name #guard => return ::core::result::Result::Ok(#show),))
    }

    fn write_arm(&self) -> Option<TokenStream> {
        let (name, attributes, access) = self.handler()?;
        if !access.write {
            return None;
        }
        let (ident, ty, (guard, _)) = (self.ident, self.ty, attributes.guard());
        let error = attributes.error();
        let parser = parser(attributes, ty);
        let (keyword, config) = match &self.role {
            Role::Argument(argument) if argument.config => {
                let keyword = &argument.keyword;
                let position = match argument.position {
                    Some(position) => quote!(::core::option::Option::Some(#position)),
                    None => quote!(::core::option::Option::None),
                };
                let write = quote!(::router::write_argument(cx, #keyword, #position, value););
                (keyword.clone(), write)
            }
            Role::Argument(argument) => (argument.keyword.clone(), quote!()),
            _ => (String::new(), quote!()),
        };
        let name = attributes.pattern(&name);
        let parsed = quote!(::router::parse_value::<#ty>(cx, #keyword, value, #parser, #error)?);
        let store = match &attributes.then {
            Some(method) => quote! {
                let former = ::core::mem::replace(&mut self.#ident, #parsed);
                let outcome = ::router::outcome(self.#method(cx));
                if outcome.is_err() {
                    self.#ident = former;
                    return outcome;
                }
            },
            None => quote!(self.#ident = #parsed;),
        };
        Some(quote! {
            #name #guard => {
                #store
                #config
                return ::core::result::Result::Ok(());
            }
        })
    }

    fn documentation(&self) -> TokenStream {
        if self.component().is_some() {
            let ty = self.ty;
            return quote!(<#ty as ::router::Component>::document(page););
        }
        let mut all = TokenStream::new();
        if let Role::Argument(argument) = &self.role {
            all.extend(argument.documentation(self.ty, &self.doc));
        }
        if let Some((name, attributes, access)) = self.handler() {
            let flags = attributes.flags(&access.flags());
            let (_, when) = attributes.guard();
            let text = match &self.role {
                Role::Argument(argument) => format!("the argument {}.", argument.keyword),
                _ => self.doc.clone(),
            };
            let names = core::iter::once(name).chain(attributes.also.iter().map(LitStr::value));
            all.extend(quote! {
                #(page.handlers.push(::router::HandlerDoc {
                    name: #names, flags: #flags, when: #when, text: #text,
                });)*
            });
        }
        all
    }
}

impl Argument {
    fn read(attribute: &syn::Attribute) -> Result<Argument> {
        let mut read = Argument::default();
        if matches!(attribute.meta, syn::Meta::Path(_)) {
            return Ok(read);
        }
        attribute.parse_nested_meta(|meta| {
            let word = meta.path.require_ident()?.to_string();
            match word.as_str() {
                "name" => read.keyword = value::<LitStr>(&meta)?.value(),
                "mandatory" => read.mandatory = true,
                "positional" => read.positional = true,
                "keyword" => read.keyword_only = true,
                "all" => read.all = true,
                "alone" => read.alone = true,
                "rest" => read.rest = true,
                "deprecated" => read.deprecated = true,
                "config" => read.config = true,
                "default" => read.default = Some(value(&meta)?),
                "default_text" => read.default_text = Some(value(&meta)?),
                "kind" => read.kind = Some(value(&meta)?),
                "handler" => read.handler = Some(value(&meta)?),
                _ if read.access.take(&meta)? || read.attributes.take(&meta)? => {}
                _ => return Err(meta.error(format!("`#[arg]` has no `{word}`"))),
            }
            Ok(())
        })?;
        read.positional |= read.mandatory && !read.keyword_only;
        let own_notation = read.attributes.with.is_some();
        if own_notation && read.kind.is_none() {
            let text = "an argument `with` a notation of its own says its `kind`";
            return Err(syn::Error::new_spanned(attribute, text));
        }
        Ok(read)
    }

    fn read_step(&self, ident: &Ident, ty: &Type) -> TokenStream {
        let keyword = &self.keyword;
        let set = |name: &str, set: bool| {
            let name = Ident::new(name, proc_macro2::Span::call_site());
            set.then(|| quote!(| ::router::args::read::Flags::#name))
        };
        let (mandatory, positional, deprecated) = (
            set("MANDATORY", self.mandatory),
            set("POSITIONAL", self.positional),
            set("DEPRECATED", self.deprecated),
        );
        let flags = quote! {
            ::router::args::read::Flags::KEYWORD #mandatory #positional #deprecated
        };
        if self.rest {
            return quote!(let read = read.rest(#ident););
        }
        if self.all {
            return match &self.attributes.with {
                Some(parser) => {
                    quote!(let read = read.all_with(#keyword, #flags, #parser, #ident);)
                }
                None => quote!(let read = read.all(#keyword, #ident);),
            };
        }
        let parser = parser(&self.attributes, ty);
        if self.mandatory {
            return quote!(let read = read.arg::<#ty>(#keyword, #flags, #parser, #ident););
        }
        let default = match &self.default {
            Some(default) => quote!(#default),
            None => quote!(::core::default::Default::default()),
        };
        let method = if self.alone {
            quote!(alone_or)
        } else {
            quote!(arg_or)
        };
        quote!(let read = read.#method::<#ty>(#keyword, #flags, #parser, #ident, #default);)
    }

    fn documentation(&self, ty: &Type, doc: &str) -> TokenStream {
        let (keyword, mandatory, positional) = (&self.keyword, self.mandatory, self.positional);
        let kind = match &self.kind {
            Some(kind) => quote!(#kind),
            None if self.rest => quote!(""),
            None => {
                let ty = if self.all { element_of(ty) } else { ty };
                quote!(<#ty as ::router::args::Argument>::KIND)
            }
        };
        let default = match (&self.default_text, &self.default) {
            (Some(text), _) => Some(text.value()),
            (None, Some(default)) => Some(spelled(default)),
            (None, None) if ty.to_token_stream().to_string() == "bool" => Some("false".into()),
            (None, None) => None,
        };
        let default = match default.filter(|text| !text.is_empty() && !self.mandatory) {
            Some(text) => quote!(::core::option::Option::Some(#text)),
            None => quote!(::core::option::Option::None),
        };
        quote! {
            page.arguments.push(::router::ArgumentDoc {
                keyword: #keyword,
                kind: #kind,
                default: #default,
                mandatory: #mandatory,
                positional: #positional,
                text: #doc,
            });
        }
    }
}

/// A default as the manual shows it: a literal as it is written, a constant by its name.
fn spelled(default: &Expr) -> String {
    let text = default.to_token_stream().to_string().replace(' ', "");
    let text = text.trim_matches('"').replace('_', "");
    if default_is_literal(default) {
        text
    } else {
        String::new()
    }
}

fn default_is_literal(default: &Expr) -> bool {
    match default {
        Expr::Lit(_) => true,
        Expr::Unary(unary) => default_is_literal(&unary.expr),
        _ => false,
    }
}

/// The `T` of a `Vec<T>`.
fn element_of(ty: &Type) -> &Type {
    if let Type::Path(path) = ty
        && let Some(last) = path.path.segments.last()
        && let syn::PathArguments::AngleBracketed(arguments) = &last.arguments
        && let Some(syn::GenericArgument::Type(inner)) = arguments.args.first()
    {
        return inner;
    }
    ty
}

/// `#[attribute(NAME = METHOD, …)]`.
fn methods(attribute: &syn::Attribute) -> Result<Vec<(Ident, Ident)>> {
    let mut methods = Vec::new();
    if !matches!(attribute.meta, syn::Meta::Path(_)) {
        attribute.parse_nested_meta(|meta| {
            methods.push((meta.path.require_ident()?.clone(), value(&meta)?));
            Ok(())
        })?;
    }
    Ok(methods)
}

fn parser(attributes: &HandlerAttributes, ty: &Type) -> TokenStream {
    match &attributes.with {
        Some(parser) => quote!(#parser),
        None => quote!(<#ty as ::router::args::Argument>::parse),
    }
}

/// A field's name without `r#`.
fn plain(ident: &Ident) -> String {
    let text = ident.to_string();
    text.strip_prefix("r#").unwrap_or(&text).to_string()
}

/// Writes `Component` and `Default`.
pub fn derive(input: &DeriveInput) -> Result<TokenStream> {
    let attributes = ElementAttributes::read(&input.attrs, "component")?;
    component(input, &attributes, &fields(input)?)
}

/// `Component`, `Default`, `Element` if another component does its work, and `Methods` if no block
/// does.
pub fn component(
    input: &DeriveInput,
    attributes: &ElementAttributes,
    fields: &[FieldDeclaration<'_>],
) -> Result<TokenStream> {
    let name = &input.ident;
    let (impl_generics, ty_generics, where_clause) = input.generics.split_for_impl();
    let steps: Vec<_> = fields
        .iter()
        .filter_map(FieldDeclaration::read_step)
        .collect();
    let read_fields = fields
        .iter()
        .filter(|f| f.read_step().is_some())
        .map(|f| f.ident);
    let listed = fields.iter().filter_map(FieldDeclaration::listed);
    let read_arms: Vec<_> = fields
        .iter()
        .filter_map(FieldDeclaration::read_arm)
        .collect();
    let write_arms: Vec<_> = fields
        .iter()
        .filter_map(FieldDeclaration::write_arm)
        .collect();
    let docs = fields.iter().map(FieldDeclaration::documentation);
    let flattened = fields
        .iter()
        .filter_map(|field| Some((field.ident, field.component()?)));
    let flattened: Vec<_> = flattened.collect();

    let task = attributes.task.as_ref().map(Task::listed);
    let task_docs = attributes.task.as_ref().map(Task::documentation);
    let methods = attributes.handlers;
    let methods_listed = methods.then(|| quote!(::router::Methods::list_methods(self, list);));
    let methods_docs = methods
        .then(|| quote!(page.handlers.extend_from_slice(<Self as ::router::Methods>::DOCS);));
    let dynamic = attributes.dynamic;
    let dynamic_listed =
        dynamic.then(|| quote!(::router::DynamicHandlers::list_dynamic(self, list);));

    let tried = |wanted: bool, call: TokenStream| {
        wanted.then(|| {
            quote! {
                match #call {
                    ::core::result::Result::Err(::router::HandlerError::Unknown) => {}
                    known => return known,
                }
            }
        })
    };
    let read_methods = tried(
        methods,
        quote!(::router::Methods::read_method(self, cx, name, parameter)),
    );
    let write_methods = tried(
        methods,
        quote!(::router::Methods::write_method(self, cx, name, value)),
    );
    let read_dynamic = tried(
        dynamic,
        quote!(::router::DynamicHandlers::read_dynamic(
            self, cx, name, parameter
        )),
    );
    let write_dynamic = tried(
        dynamic,
        quote!(::router::DynamicHandlers::write_dynamic(
            self, cx, name, value
        )),
    );
    let read_flat = flattened.iter().map(|(field, _)| {
        tried(
            true,
            quote!(::router::Component::read_handler(&mut self.#field, cx, name, parameter)),
        )
    });
    let write_flat = flattened.iter().map(|(field, then)| {
        let mut write =
            quote!(::router::Component::write_handler(&mut self.#field, cx, name, value));
        if let Some(then) = then {
            write = quote!({
                let former = ::core::clone::Clone::clone(&self.#field);
                let outcome = #write.and_then(|()| ::router::outcome(self.#then(cx)));
                if outcome.is_err() {
                    self.#field = former;
                }
                outcome
            });
        }
        tried(true, write)
    });
    let matched =
        |arms: &[TokenStream]| (!arms.is_empty()).then(|| quote!(match name { #(#arms)* _ => {} }));
    let (read_matched, write_matched) = (matched(&read_arms), matched(&write_arms));

    let declared_once = (!methods).then(|| {
        quote! {
            impl #impl_generics ::router::HandlersDeclared for #name #ty_generics #where_clause {}
        }
    });
    let default = (!attributes.default).then(|| {
        let initial = fields.iter().map(FieldDeclaration::initial);
        quote! {
            impl #impl_generics ::core::default::Default for #name #ty_generics #where_clause {
                fn default() -> Self {
                    Self { #(#initial),* }
                }
            }
        }
    });
    let delegate = fields.iter().find_map(FieldDeclaration::delegate);
    let element = delegate.map(|delegate| delegation(input, &delegate));
    let element = element.transpose()?;
    Ok(quote! {
        #default
        #declared_once
        #element

        impl #impl_generics ::router::Component for #name #ty_generics #where_clause {
            fn arguments<'a, 'n, 't>(
                &'t mut self,
                read: ::router::args::read::Read<'a, 'n, 't>,
            ) -> ::router::args::read::Read<'a, 'n, 't> {
                #[allow(unused_variables)]
                let Self { #(#read_fields,)* .. } = self;
                #(#steps)*
                read
            }

            fn list_handlers(&self, list: &mut ::router::HandlerList) {
                let _ = &list;
                #(#listed)*
                #methods_listed
                #dynamic_listed
                #task
            }

            fn read_handler(
                &mut self,
                cx: &mut ::router::Cx<'_>,
                name: &str,
                parameter: &str,
            ) -> ::core::result::Result<::router::Text, ::router::HandlerError> {
                let _ = (&cx, name, parameter);
                #read_matched
                #read_methods
                #(#read_flat)*
                #read_dynamic
                ::core::result::Result::Err(::router::HandlerError::Unknown)
            }

            fn write_handler(
                &mut self,
                cx: &mut ::router::Cx<'_>,
                name: &str,
                value: &str,
            ) -> ::core::result::Result<(), ::router::HandlerError> {
                let _ = (&cx, name, value);
                #write_matched
                #write_methods
                #(#write_flat)*
                #write_dynamic
                ::core::result::Result::Err(::router::HandlerError::Unknown)
            }

            fn document(page: &mut ::router::Page) {
                let _ = &page;
                #(#docs)*
                #methods_docs
                #task_docs
            }
        }
    })
}
