//! Submissions that go wrong half way, for tests: what the kernel does only when it is short of memory.

use std::cell::Cell;
use std::io;

use io_uring::IoUring;
use rustix::io::Errno;

/// How the next submission of this thread goes wrong, after so many entries were handed over.
#[derive(Clone, Copy, Debug)]
pub(in crate::vdev) enum Sabotage {
    /// It reports this.
    Fail(u32, Errno),
    /// The thread unwinds.
    Panic(u32),
}

thread_local! {
    static NEXT: Cell<Option<Sabotage>> = const { Cell::new(None) };
}

/// Sets what happens to this thread's next submission.
pub(in crate::vdev) fn next(sabotage: Sabotage) {
    NEXT.set(Some(sabotage));
}

/// Whether it has happened.
pub(in crate::vdev) fn is_done() -> bool {
    NEXT.get().is_none()
}

/// Hands over as many as are to be, and says what the submission is to answer; none if nothing is to go
/// wrong.
pub(super) fn instead_of_submitting(ring: &IoUring) -> Option<io::Result<usize>> {
    let sabotage = NEXT.take()?;
    let (Sabotage::Fail(entries, _) | Sabotage::Panic(entries)) = sabotage;
    // SAFETY: hands over entries that were queued, and passes no argument.
    let handed = unsafe { ring.submitter().enter::<libc::sigset_t>(entries, 0, 0, None) };
    assert_eq!(handed.unwrap(), entries as usize);
    match sabotage {
        Sabotage::Fail(_, errno) => Some(Err(errno.into())),
        Sabotage::Panic(_) => panic!("sabotaged"),
    }
}
