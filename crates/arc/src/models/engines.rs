//! Engines that a model has freed, kept until its next run: so that who still goes to one is found out.

use std::cell::RefCell;

use crate::shared::Shared;

thread_local! {
    static FREED: RefCell<Vec<Box<Shared>>> = const { RefCell::new(Vec::new()) };
}

/// In place of freeing an engine.
pub(crate) fn free(shared: Box<Shared>) {
    FREED.with_borrow_mut(|freed| freed.push(shared));
}

/// Panics if the engine was freed.
pub(crate) fn alive(shared: &Shared) -> &Shared {
    let is_freed = FREED.with_borrow(|freed| freed.iter().any(|one| std::ptr::eq(&**one, shared)));
    assert!(!is_freed, "A3: the engine was freed while a block was held");
    shared
}

/// How many engines were freed since this was last asked; now they are gone.
#[cfg(test)]
pub(crate) fn bury() -> usize {
    FREED.take().len()
}
