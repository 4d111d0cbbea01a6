//! References to elements and their handlers.

use super::{Argument, Context, Invalid, Parser};
use crate::prelude::*;

/// An element of the router.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ElementRef {
    /// Its index.
    pub index: usize,
    /// Its full name, `a/b/x`.
    pub name: String,
}

/// The name of an element. From `a/b/x`, the name `y` is `a/b/y`, else `a/y`,
/// else `y`.
impl Argument for ElementRef {
    const KIND: &'static str = "element";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        let (index, name) = context
            .find_element(text)
            .ok_or(Invalid::because("does not name an element"))?;
        Ok(ElementRef { index, name })
    }
}

/// An element that can be used as a `.0` (an element class or interface).
#[derive(Clone, Copy, Debug)]
pub struct ElementOf(pub &'static str);

impl Parser<ElementRef> for ElementOf {
    fn parse(&self, text: &str, context: &Context<'_>) -> Result<ElementRef, Invalid> {
        let element = ElementRef::parse(text, context)?;
        if context.elements.is_a(element.index, self.0) {
            return Ok(element);
        }
        let expected = self.0;
        let reason = format!("element type mismatch, expected {expected}");
        Err(Invalid::because(reason))
    }
}

/// A handler to call, and the value to call it with.
///
/// While elements are being configured, their handlers are not known yet: a
/// name without an element then means a handler of the router. Parse
/// [`text`](Self::text) again when initializing to let it mean the element's
/// own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HandlerCall {
    /// The call as written.
    pub text: String,
    /// The element; None for the router's own handlers.
    pub element: Option<ElementRef>,
    /// The handler's name.
    pub handler: String,
    /// The value to write, or the parameter to read with; as given, quotes and
    /// all.
    pub value: String,
}

/// `ELEMENT.HANDLER [VALUE]`, `.HANDLER [VALUE]` for the router's own handlers,
/// or `HANDLER [VALUE]` for the element's own or else the router's.
impl Argument for HandlerCall {
    const KIND: &'static str = "handler";

    fn parse(text: &str, context: &Context<'_>) -> Result<Self, Invalid> {
        let (name, value) = click::config::shift_space(text);
        let name = String::parse(name, context).unwrap_or_default();
        let dot = name.find('.');
        let (element, handler) = match dot {
            _ if name.is_empty() => return Err(Invalid::unparsable("syntax error")),
            Some(0) => (None, &name[1..]),
            Some(dot) if dot + 1 == name.len() => {
                return Err(Invalid::unparsable("syntax error"));
            }
            Some(dot) => match context.find_element(&name[..dot]) {
                Some((index, name_found)) => {
                    let element = ElementRef {
                        index,
                        name: name_found,
                    };
                    (Some(element), &name[dot + 1..])
                }
                None => (dotted_handler(&name, &name[..dot], context)?, &name[..]),
            },
            None => (own_element(&name, context), &name[..]),
        };
        Ok(HandlerCall {
            text: text.into(),
            element,
            handler: handler.into(),
            value: value.into(),
        })
    }
}

/// The element of handler `name`, if no element has the name before its dot.
fn dotted_handler(
    name: &str,
    element: &str,
    context: &Context<'_>,
) -> Result<Option<ElementRef>, Invalid> {
    let own = own_element(name, context);
    if own.is_none() && !context.elements.has_handler(None, name) {
        let reason = format!("no element named '{element}'");
        return Err(Invalid::unparsable(reason));
    }
    Ok(own)
}

/// The element of the context, if it has this handler.
fn own_element(handler: &str, context: &Context<'_>) -> Option<ElementRef> {
    let index = context.elements.index_of(context.element)?;
    let has = context.elements.has_handler(Some(index), handler);
    has.then(|| ElementRef {
        index,
        name: context.element.into(),
    })
}

/// As Click prints it.
impl core::fmt::Display for HandlerCall {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if let Some(element) = &self.element {
            write!(f, "{}.", element.name)?;
        }
        f.write_str(&self.handler)?;
        if !self.value.is_empty() {
            write!(f, " {}", self.value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Elements, NameDatabase};

    struct TestElements;
    const NAMES: [&str; 4] = ["x", "a/x", "a/b/y", "q"];

    impl Elements for TestElements {
        fn index_of(&self, name: &str) -> Option<usize> {
            NAMES.iter().position(|&n| n == name)
        }

        fn is_a(&self, index: usize, class: &str) -> bool {
            NAMES[index] == "q" && class == "Storage"
        }

        fn has_handler(&self, element: Option<usize>, handler: &str) -> bool {
            element == Some(2) && handler == "count"
        }
    }

    fn check(test: impl FnOnce(&Context<'_>)) {
        let names = NameDatabase::new();
        test(&Context {
            names: &names,
            elements: &TestElements,
            element: "a/b/y",
        });
    }

    #[test]
    fn elements_are_found_from_the_inside_out() {
        check(|context| {
            let name = |text| context.parse::<ElementRef>(text).map(|e| e.name);
            assert_eq!(name("x").as_deref(), Ok("a/x"));
            assert_eq!(name("y").as_deref(), Ok("a/b/y"));
            assert_eq!(name("q").as_deref(), Ok("q"));
            let message = name("z").unwrap_err().to_string();
            assert_eq!(message, "does not name an element");
            assert!(context.parse_with(ElementOf("Storage"), "q").is_ok());
            let error = context.parse_with(ElementOf("Storage"), "x").unwrap_err();
            assert_eq!(error.to_string(), "element type mismatch, expected Storage");
        });
    }

    #[test]
    fn handler_calls() {
        check(|context| {
            let call = |text| {
                let call = context.parse::<HandlerCall>(text);
                call.map(|c| c.to_string()).map_err(|e| e.to_string())
            };
            assert_eq!(call("x.reset").as_deref(), Ok("a/x.reset"));
            assert_eq!(call("x.write  \"1 2\"").as_deref(), Ok("a/x.write \"1 2\""));
            assert_eq!(call(".stop").as_deref(), Ok("stop"));
            assert_eq!(call("stop").as_deref(), Ok("stop"));
            assert_eq!(call("count").as_deref(), Ok("a/b/y.count"));
            assert_eq!(
                call("foo.stop").unwrap_err(),
                "no element named 'foo'\nparse error"
            );
            assert_eq!(call("x.").unwrap_err(), "syntax error\nparse error");
            assert_eq!(call("").unwrap_err(), "syntax error\nparse error");
        });
    }
}
