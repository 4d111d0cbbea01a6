//! The words of a handler's parameter.

use click::config::shift_space;

use crate::prelude::*;

/// Takes words off a text.
pub(super) struct Words<'t>(pub &'t str);

impl<'t> Words<'t> {
    pub fn next(&mut self) -> &'t str {
        let (word, rest) = shift_space(self.0);
        self.0 = rest;
        word
    }

    pub fn parse<T: Argument>(&mut self) -> Result<T, String> {
        parse(self.next())
    }
}

impl<'t> Iterator for Words<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        Some(Words::next(self)).filter(|word| !word.is_empty())
    }
}

pub(super) fn parse<T: Argument>(text: &str) -> Result<T, String> {
    T::parse(text, &Context::blank()).map_err(|_| "syntax error".to_string())
}
