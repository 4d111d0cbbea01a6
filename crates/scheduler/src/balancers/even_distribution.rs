//! Even distribution: hosts that are used too much are relieved.

use super::{Balancer, Bounds, Offer};
use crate::inventory::Inventory;
use crate::unit::Answer;

pub(super) struct EvenDistribution(pub(super) Bounds);

impl Balancer for EvenDistribution {
    fn balance(&self, inventory: &Inventory, offer: &mut Offer<'_>) -> Answer {
        self.0.relieve(inventory, offer);
        Ok(())
    }
}
