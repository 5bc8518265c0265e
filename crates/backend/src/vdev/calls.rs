//! Carrying by one system call for each range: where there is no ring, and for what a ring left undone.

use std::os::fd::BorrowedFd;

use rustix::io::{Errno, pread, pwrite};

use super::transfer::{Memory, Transfer};

/// Ends every one of `transfers` that is still open.
pub(super) fn carry(device: BorrowedFd<'_>, transfers: &mut [Transfer<'_>]) {
    for transfer in transfers {
        let mut refusals = 0;
        while transfer.is_open() {
            let answer = match transfer.rest() {
                (offset, Memory::Into(buffer)) => pread(device, buffer, offset),
                (offset, Memory::From(data)) => pwrite(device, data, offset),
            };
            if answer == Err(Errno::AGAIN) {
                refusals += 1;
                if refusals > REFUSALS_MAX {
                    transfer.fail(Errno::AGAIN);
                    break;
                }
                std::thread::yield_now();
            }
            transfer.answered(answer);
        }
    }
}

/// So often in all the kernel may say that it cannot at the moment.
const REFUSALS_MAX: u32 = 1000;
