//! Policies: what to keep. One file each, with the paper that it follows.

use crate::trace::Access;

/// A cache of one size under one policy.
pub trait Policy {
    /// A request. `true` when it is a hit; a miss admits the block, if the policy admits it at all.
    fn request(&mut self, access: Access) -> bool;

    /// Any other act of a recorded trace. Policies of the literature know requests alone.
    fn note(&mut self, _access: Access) {}
}
