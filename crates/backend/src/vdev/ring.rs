//! Carrying by io_uring: all ranges of a batch by as few system calls as there can be.
//!
//! Every thread that carries has a ring of its own, made when it first needs one and gone with it, for
//! whatever devices it talks to: no lock is shared, and none is held while the kernel works. A ring takes
//! [`ENTRIES`] ranges. A batch that fits costs one system call, which hands it over and waits for all of
//! it; of a longer one more is handed over whenever half of what is under way has ended.
//!
//! # What is unsafe about it
//!
//! The kernel writes into memory that Rust believes to be borrowed by a function. So:
//!
//! - **R1** While the kernel may touch a range's memory, a [`Flight`] is alive that borrows the range.
//! - **R2** A flight that ends, in whichever way (an unwinding thread among them), waits for all that was
//!   handed over before it lets go of its borrow. What was queued but not handed over never will be: a ring
//!   that holds such entries is thrown away.
//! - **R3** When waiting is impossible, that is, when the kernel refuses to wait for another reason than
//!   that it was interrupted or short of something, the process aborts: nobody could say any more when
//!   that memory may be used again. No case of it is known.
//!
//! A range that could not be handed over stays open; [`calls`](super::calls) carries it. So a batch is
//! done even where rings run out.
//!
//! The module has a second, small piece of unsafe code: [`discard`], one ioctl.

pub(super) mod discard;
#[cfg(test)]
pub(super) mod sabotage;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, Probe, opcode, types};
use rustix::io::Errno;

use super::transfer::{Memory, Transfer};

/// As many ranges a ring has under way at most.
pub(super) const ENTRIES: usize = 64;

/// A thread that got no ring asks again after so many batches.
const BATCHES_WITHOUT: u32 = 1000;

/// So often a submission may be refused in a row with nothing under way.
const REFUSALS_MAX: u32 = 100;

thread_local! {
    /// This thread's ring, unless it is in use, was thrown away or was never to be had.
    static RING: RefCell<Option<IoUring>> = const { RefCell::new(None) };
    /// How many batches are carried without a ring, since there was none when one was wanted.
    static WITHOUT: Cell<u32> = const { Cell::new(0) };
}

/// Whether this machine lets us have rings that can read and write; the errno why not.
pub(super) fn try_one() -> std::result::Result<(), Errno> {
    let errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::NOSYS);
    let ring = make().map_err(errno)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).map_err(errno)?;
    let can = probe.is_supported(opcode::Read::CODE) && probe.is_supported(opcode::Write::CODE);
    if can { Ok(()) } else { Err(Errno::NOSYS) }
}

/// Carries those of `transfers` that are open, at most `most` at a time. What it cannot carry stays open.
pub(super) fn carry(device: BorrowedFd<'_>, transfers: &mut [Transfer<'_>], most: usize) {
    let Some(mut ring) = take() else { return };
    let mut flight = Flight { ring: &mut ring, transfers, queued: 0 };
    let carried = flight.carry(device, most.clamp(1, ENTRIES));
    drop(flight);
    match carried {
        Ok(()) => put_back(ring),
        Err(error) => tracing::warn!("a ring is given up: {error}"),
    }
}

/// This thread's ring, new if it has none.
fn take() -> Option<IoUring> {
    // Absent while the thread ends and its locals are gone.
    let kept = RING.try_with(|ring| ring.borrow_mut().take()).ok()?;
    if kept.is_some() {
        return kept;
    }
    let without = WITHOUT.get();
    if without > 0 {
        WITHOUT.set(without - 1);
        return None;
    }
    match make() {
        Ok(ring) => Some(ring),
        Err(error) => {
            tracing::debug!("no ring for this thread: {error}");
            WITHOUT.set(BATCHES_WITHOUT);
            None
        }
    }
}

fn put_back(ring: IoUring) {
    // If the thread is ending, the ring ends here; nothing is under way on it.
    let _ = RING.try_with(|place| *place.borrow_mut() = Some(ring));
}

/// A ring, of the cheapest sort that the kernel knows.
fn make() -> io::Result<IoUring> {
    let entries = ENTRIES as u32;
    let is_unknown = |error: &io::Error| error.raw_os_error() == Some(Errno::INVAL.raw_os_error());
    // Since 6.1: completions are worked off by this thread while it waits, and interrupt it never.
    match IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries) {
        Err(error) if is_unknown(&error) => IoUring::builder().build(entries),
        made => made,
    }
}

/// A batch under way. See the module's doc, R1 to R3.
struct Flight<'ring, 'batch, 'memory> {
    ring: &'ring mut IoUring,
    transfers: &'batch mut [Transfer<'memory>],
    /// How many entries were queued and have not been answered: handed over or not.
    queued: usize,
}

impl Flight<'_, '_, '_> {
    fn carry(&mut self, device: BorrowedFd<'_>, most: usize) -> io::Result<()> {
        let mut next = 0;
        let mut again = Vec::new();
        let mut refusals = 0;
        loop {
            while self.queued < most {
                let Some(place) = again.pop().or_else(|| self.next_open(&mut next)) else { break };
                self.queue(device, place);
            }
            if self.queued == 0 {
                return Ok(());
            }
            let is_last = again.is_empty() && next >= self.transfers.len();
            let wait_for = if is_last { self.queued } else { self.queued.div_ceil(2) };
            match self.submit(wait_for) {
                Ok(_) => refusals = 0,
                Err(error) if is_passing(&error) && self.under_way() > 0 => self.wait_for_one()?,
                Err(error) if is_passing(&error) && refusals < REFUSALS_MAX => {
                    refusals += 1;
                    std::thread::yield_now();
                }
                Err(error) => return Err(error),
            }
            self.reap(|place| again.push(place));
        }
    }

    /// The next range that is open, from `next` on; moves `next` behind it.
    fn next_open(&self, next: &mut usize) -> Option<usize> {
        let place = self.transfers.iter().skip(*next).position(Transfer::is_open).map(|skip| *next + skip);
        *next = place.map_or(self.transfers.len(), |place| place + 1);
        place
    }

    fn queue(&mut self, device: BorrowedFd<'_>, place: usize) {
        let device = types::Fd(device.as_raw_fd());
        let entry = match self.transfers[place].rest() {
            (offset, Memory::Into(buffer)) => {
                opcode::Read::new(device, buffer.as_mut_ptr(), buffer.len() as u32).offset(offset).build()
            }
            (offset, Memory::From(data)) => {
                opcode::Write::new(device, data.as_ptr(), data.len() as u32).offset(offset).build()
            }
        };
        // SAFETY: the memory is borrowed by the transfer, which this flight borrows until it has been
        // dropped; its drop waits for the kernel's answer to this entry (R1, R2). A descriptor that is
        // closed meanwhile is an error of the entry, not of ours: the kernel holds the file.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(place as u64)) };
        // There is room: at most as many as the ring has entries are queued.
        debug_assert!(pushed.is_ok(), "R2: {} are queued", self.queued);
        if pushed.is_ok() {
            self.queued += 1;
        }
    }

    /// Hands over what is queued, and waits for so many answers.
    fn submit(&mut self, wait_for: usize) -> io::Result<usize> {
        #[cfg(test)]
        if let Some(answer) = sabotage::instead_of_submitting(self.ring) {
            return answer;
        }
        self.ring.submit_and_wait(wait_for)
    }

    /// Waits for an answer without handing over anything: a submission that is refused waits for nothing.
    fn wait_for_one(&mut self) -> io::Result<()> {
        // SAFETY: submits nothing and passes no argument.
        let waited = unsafe { self.ring.submitter().enter::<libc::sigset_t>(0, 1, GETEVENTS, None) };
        match waited {
            Err(error) if !is_passing(&error) => Err(error),
            Ok(_) => Ok(()),
            Err(_) => {
                std::thread::yield_now();
                Ok(())
            }
        }
    }

    /// Takes the answers that have come. What is not done by its answer goes to `again`, unless it was
    /// refused too often.
    fn reap(&mut self, mut again: impl FnMut(usize)) {
        for answer in self.ring.completion() {
            self.queued -= 1;
            let place = answer.user_data() as usize;
            let result = answer.result();
            let transfer = &mut self.transfers[place];
            transfer.answered(match usize::try_from(result) {
                Ok(bytes) => Ok(bytes),
                Err(_) => Err(Errno::from_raw_os_error(-result)),
            });
            if transfer.is_open() && !transfer.is_refused() {
                again(place);
            }
        }
    }

    /// How many the kernel has taken and not answered.
    fn under_way(&mut self) -> usize {
        // What the kernel has not taken yet lies in the submission queue.
        self.queued - self.ring.submission().len()
    }
}

impl Drop for Flight<'_, '_, '_> {
    fn drop(&mut self) {
        while self.under_way() > 0 {
            if let Err(error) = self.wait_for_one() {
                tracing::error!("the kernel holds our memory and cannot be waited for: {error}");
                std::process::abort();
            }
            self.reap(|_| ());
        }
    }
}

/// `IORING_ENTER_GETEVENTS`.
const GETEVENTS: u32 = 1;

/// Whether the kernel only asks us to try again.
fn is_passing(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::INTR | Errno::AGAIN | Errno::BUSY))
}
