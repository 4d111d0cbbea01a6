//! Matching arguments with a compound element's parameters.

use super::keyword;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// Assigns `args` to parameters, given by their types: empty for a positional
/// parameter, a keyword, or `__REST__` (the last, which takes what is left).
/// All but `__REST__` are mandatory. Gives one value a parameter, or `None`
/// when the arguments don't fit.
pub fn assign_arguments(args: &[String], types: &[String]) -> Option<Vec<String>> {
    let rest = types.last().is_some_and(|last| last == "__REST__");
    let named = &types[..types.len() - usize::from(rest)];
    let positional = named.iter().take_while(|kind| kind.is_empty()).count();
    if types.last().is_none_or(String::is_empty) {
        return (args.len() == types.len()).then(|| args.to_vec());
    }

    let mut values: Vec<Option<String>> = vec![None; named.len()];
    let mut left_over: Vec<&str> = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        if i < positional {
            values[i] = Some(arg.clone());
            continue;
        }
        let slot = keyword(arg).and_then(|(word, value)| {
            let slot = (positional..named.len()).find(|&slot| named[slot] == word)?;
            Some((slot, value))
        });
        match slot {
            Some((slot, value)) => values[slot] = Some(value.into()),
            None if rest => left_over.push(arg),
            None => return None,
        }
    }
    let mut values: Vec<String> = values.into_iter().collect::<Option<_>>()?;
    if rest {
        values.push(super::join_args(&left_over));
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::borrow::ToOwned;

    fn assign(args: &str, types: &[&str]) -> Option<Vec<String>> {
        let types: Vec<String> = types.iter().map(|&t| t.to_owned()).collect();
        assign_arguments(&crate::config::split_args(args), &types)
    }

    #[test]
    fn positional() {
        assert_eq!(assign("1, 2", &["", ""]).unwrap(), ["1", "2"]);
        assert_eq!(assign("1", &["", ""]), None);
        assert_eq!(assign("1, 2, 3", &["", ""]), None);
        assert!(assign("", &[]).unwrap().is_empty());
    }

    #[test]
    fn keywords() {
        assert_eq!(
            assign("1, B 3, A 2", &["", "A", "B"]).unwrap(),
            ["1", "2", "3"]
        );
        assert_eq!(assign("1, A 2, A 3", &["", "A"]).unwrap(), ["1", "3"]);
        assert_eq!(assign("1, A 2", &["", "A", "B"]), None);
        assert_eq!(assign("1, 2", &["", "A"]), None);
        assert_eq!(assign("A 2, 1", &["", "A"]), None);
        assert_eq!(assign("1, A", &["", "A"]).unwrap(), ["1", ""]);
    }

    #[test]
    fn rest() {
        assert_eq!(assign("1, 2, 3", &["", "__REST__"]).unwrap(), ["1", "2, 3"]);
        assert_eq!(assign("1", &["", "__REST__"]).unwrap(), ["1", ""]);
        assert_eq!(assign("", &["", "__REST__"]), None);
        assert_eq!(
            assign("1, x, A 2, y", &["", "A", "__REST__"]).unwrap(),
            ["1", "2", "x, y"]
        );
    }
}
