//! Makes a case that differs smaller.

use crate::case::Case;

/// Removes what `differs` does not need: packets, then lines of each text.
pub fn shrink(mut case: Case, differs: &mut dyn FnMut(&Case) -> bool) -> Case {
    loop {
        let before = case.clone();
        reduce(&mut case, |case| &mut case.packets, differs);
        reduce(&mut case, |case| &mut case.config, differs);
        reduce(&mut case, |case| &mut case.input, differs);
        reduce(&mut case, |case| &mut case.handlers, differs);
        if case == before {
            return case;
        }
    }
}

/// Removes items of one list, first by halves, then by ever smaller pieces.
fn reduce<T: Clone>(
    case: &mut Case,
    list: fn(&mut Case) -> &mut Vec<T>,
    differs: &mut dyn FnMut(&Case) -> bool,
) {
    let mut piece = list(case).len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < list(case).len() {
            let mut smaller = case.clone();
            let items = list(&mut smaller);
            let end = (at + piece).min(items.len());
            items.drain(at..end);
            if differs(&smaller) {
                *case = smaller;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
}
