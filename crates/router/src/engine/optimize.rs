//! The engine and its optimizer: what elements declare, and when that is asked again.

use alloc::vec::Vec;

use super::Engine;
use crate::element::Element;
use crate::optimizer::{Declarations, Declared};
use crate::topology::ElementId;

/// What an element declares about its packets.
fn declared(element: &dyn Element) -> Declared {
    Declared {
        edit: element.edit(),
        no_op: element.moot(),
        preserves: element.keeps(),
        rules: element.sorting(),
    }
}

impl Engine {
    fn declared(&self, id: ElementId) -> Option<Declared> {
        self.elements.get(id).map(declared)
    }

    /// Optimizes the walk.
    #[cold]
    pub fn optimize(&mut self) {
        if self.threads.is_quiesced() {
            // Elements of other threads are here for a moment.
            return;
        }
        let all: Vec<_> = self.elements.ids().map(|id| self.declared(id)).collect();
        self.optimizer.run(&mut self.walk, Declarations(&all));
    }

    /// Takes all optimizations back.
    pub fn invalidate(&mut self) {
        self.optimizer.invalidate(&mut self.walk);
    }

    /// Lets an element do something that may change what it declares.
    pub fn with_change<R>(&mut self, id: ElementId, change: impl FnOnce(&mut Engine) -> R) -> R {
        let before = self.declared(id);
        let result = change(self);
        if before != self.declared(id) {
            self.invalidate();
        }
        result
    }
}
