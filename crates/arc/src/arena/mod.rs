//! Memory of the cache's own: the island of unsafe code where its bytes come from.

pub(crate) mod line;
pub(crate) mod prefetch;
pub(crate) mod region;
