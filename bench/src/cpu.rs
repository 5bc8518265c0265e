//! CPU time that a process or a thread has used, to the nanosecond.
//!
//! Taken from the CPU clock of the process (`clock_getcpuclockid`): the scheduler's own sum of what
//! all its threads ran, the ended ones included. `utime` and `stime` of `/proc/PID/stat` count ticks
//! of 10 ms, and `/proc/PID/task/*/schedstat` loses the threads that ended. Of a thread that runs at
//! this moment on another processor the clock knows all but the time since its last tick (4 ms at
//! worst), so it is read when the server waits.

use std::time::{Duration, Instant};

use nix::time::ClockId;
use nix::unistd::Pid;

use crate::Result;

/// The CPU clock of a process.
#[derive(Clone, Copy, Debug)]
pub struct CpuClock(ClockId);

impl CpuClock {
    /// The clock of another process.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn of(pid: u32) -> Result<Self> {
        let clock = nix::time::clock_getcpuclockid(Pid::from_raw(i32::try_from(pid)?))?;
        Ok(CpuClock(clock))
    }

    /// The clock of this process.
    pub fn own() -> Self {
        CpuClock(ClockId::CLOCK_PROCESS_CPUTIME_ID)
    }

    /// The clock of the thread that reads it.
    pub fn of_this_thread() -> Self {
        CpuClock(ClockId::CLOCK_THREAD_CPUTIME_ID)
    }

    /// What was used up to now.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn now(self) -> Result<Duration> {
        Ok(Duration::from(self.0.now()?))
    }

    /// Waits until the process has had nothing to do for a while, so that one measurement does not
    /// pay for what came before. Gives up on a process that is never idle.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn settle(self) -> Result<()> {
        const PAUSE: Duration = Duration::from_millis(10);
        const IDLE: Duration = Duration::from_micros(100);
        const PATIENCE: Duration = Duration::from_secs(3);
        let start = Instant::now();
        let mut before = self.now()?;
        loop {
            std::thread::sleep(PAUSE);
            let now = self.now()?;
            if now.saturating_sub(before) < IDLE || start.elapsed() > PATIENCE {
                return Ok(());
            }
            before = now;
        }
    }
}

/// CPU time that the server and this process used for some work, and how long it took.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    /// By the server.
    pub server: Duration,
    /// By this process.
    pub client: Duration,
    /// On the wall.
    pub wall: Duration,
}

/// Does `work`, which counts its operations, and says what it took.
///
/// # Errors
/// Those of `work`; a server that ended.
pub fn measure(server: CpuClock, work: impl FnOnce() -> Result<u64>) -> Result<(u64, Spent)> {
    server.settle()?;
    let (server_before, client_before) = (server.now()?, CpuClock::own().now()?);
    let start = Instant::now();
    let operations = work()?;
    let wall = start.elapsed();
    let client = CpuClock::own().now()?.saturating_sub(client_before);
    // A loop that has just answered is on its way back to sleep.
    std::thread::sleep(Duration::from_millis(2));
    let server = server.now()?.saturating_sub(server_before);
    Ok((operations, Spent { server, client, wall }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_a_process_runs_when_it_works() {
        let own = CpuClock::of(std::process::id()).unwrap();
        let before = own.now().unwrap();
        let mut sum = 0u64;
        while own.now().unwrap() - before < Duration::from_millis(5) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(sum > 0);
    }
}
