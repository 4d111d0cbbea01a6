//! What an element declares about packets, for the optimizer.

use packet::{Edit, Facts};

use crate::classify::Classify;
use crate::prelude::*;

/// What an element does to packets. The element's handlers may change it, and nothing else.
#[derive(Clone, Default)]
pub struct Effects {
    /// What it does to every packet with plain headers that comes to its only input and leaves by
    /// output 0, if it does nothing else. The router applies the edits of several elements in one
    /// pass, without calling them. Other packets are pushed.
    pub edit: Option<Edit>,
    /// It does nothing to packets with all of these facts, which leave by output 0. The router does
    /// not call it then.
    pub no_op: Facts,
    /// The facts that still hold for packets that leave by output 0.
    pub preserves: Facts,
    /// Its rules, if it only classifies. The router classifies by those of several elements at
    /// once, without calling them. A change makes another object.
    pub rules: Option<Arc<dyn Classify>>,
}

impl Effects {
    /// The effects of an element that looks at packets, and passes them unchanged.
    pub fn of_observer() -> Effects {
        Effects {
            preserves: Facts::ALL,
            ..Effects::default()
        }
    }

    /// The effects of an element that moves the start of the data and does nothing else.
    pub fn of_move(edit: Option<Edit>) -> Effects {
        Effects {
            edit,
            preserves: Facts::ALL.without(Facts::DESTINATION),
            ..Effects::default()
        }
    }
}

impl PartialEq for Effects {
    fn eq(&self, other: &Effects) -> bool {
        let rules = match (&self.rules, &other.rules) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (one, other) => one.is_none() && other.is_none(),
        };
        let rest = |effects: &Effects| (effects.edit, effects.no_op, effects.preserves);
        rules && rest(self) == rest(other)
    }
}
