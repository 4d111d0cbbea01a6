//! The engine and its optimizer: collects what elements declare, and invalidates optimizations when
//! that changes.

use super::Engine;
use crate::effects::Effects;
use crate::optimizer::EffectTable;
use crate::prelude::*;

impl Engine {
    fn effects(&self, id: ElementId) -> Option<Effects> {
        self.elements.get(id).map(|element| element.effects())
    }

    /// Optimizes the walk.
    #[cold]
    pub fn optimize(&mut self) {
        if self.threads.is_quiesced() {
            // Elements of other threads are here for a moment.
            return;
        }
        let all: Vec<_> = self.elements.ids().map(|id| self.effects(id)).collect();
        self.optimizer.run(&mut self.walk, EffectTable(&all));
    }

    /// Takes all optimizations back.
    pub fn invalidate(&mut self) {
        self.optimizer.invalidate(&mut self.walk);
    }

    /// Does something that may change an element: tasks' next runs begin with nothing. If it changes what the
    /// element declares, takes all optimizations back.
    pub fn with_change<R>(&mut self, id: ElementId, change: impl FnOnce(&mut Engine) -> R) -> R {
        self.scheduler.tasks.forget_first_pulls();
        let before = self.effects(id);
        let result = change(self);
        if before != self.effects(id) {
            self.invalidate();
        }
        result
    }
}
