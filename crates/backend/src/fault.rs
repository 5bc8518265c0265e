//! An origin that breaks when it is told to: for tests, of this crate and of all others.
//!
//! The switch is thrown at run time, for all operations or for some. A hang lasts until the switch is
//! thrown again, which is how a test lets a dead server come back.

use std::sync::Arc as Shared;
use std::time::Duration;

use arcwell_base::error::{Error, Result};
use arcwell_base::origin::Origin;
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;

use crate::layer::{Call, Layer, Layered, Operation};

/// What happens to a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fault {
    /// Nothing: it is passed on.
    #[default]
    Pass,
    /// It fails with this error and is not passed on.
    Fail(Errno),
    /// It is passed on, and then reported to have failed: the answer was lost on the way.
    LoseAnswer(Errno),
    /// It waits until the switch is thrown again, and then fares as that says.
    Hang,
    /// It is passed on after this time.
    Delay(Duration),
}

/// An origin with a switch. See the module's doc.
pub type Faulty = Layered<Breaking>;

/// The layer of [`Faulty`].
#[derive(Debug, Default)]
pub struct Breaking {
    switch: Mutex<Switch>,
    thrown: Condvar,
}

#[derive(Debug, Default)]
struct Switch {
    fault: Fault,
    /// Empty: all of them.
    operations: Vec<Operation>,
    calls: u64,
    hanging: usize,
}

impl Layered<Breaking> {
    /// An origin that works, so far.
    pub fn new(inner: Shared<dyn Origin>) -> Faulty {
        Layered::around(inner, Breaking::default())
    }

    /// From now on every operation meets this fault.
    pub fn set(&self, fault: Fault) {
        self.set_for(&[], fault);
    }

    /// From now on these operations meet this fault, and all others pass. No operation named: all.
    pub fn set_for(&self, operations: &[Operation], fault: Fault) {
        let mut switch = self.layer().switch.lock();
        switch.fault = fault;
        switch.operations = operations.to_vec();
        self.layer().thrown.notify_all();
    }

    /// How many calls were made so far, broken ones among them.
    pub fn calls(&self) -> u64 {
        self.layer().switch.lock().calls
    }

    /// How many calls hang at the moment.
    pub fn hanging(&self) -> usize {
        self.layer().switch.lock().hanging
    }

    /// Waits until at least `calls` calls hang.
    pub fn wait_until_hanging(&self, calls: usize) {
        let mut switch = self.layer().switch.lock();
        while switch.hanging < calls {
            self.layer().thrown.wait(&mut switch);
        }
    }
}

impl Switch {
    fn fault_of(&self, operation: Operation) -> Fault {
        let concerned = self.operations.is_empty() || self.operations.contains(&operation);
        if concerned { self.fault } else { Fault::Pass }
    }
}

impl Breaking {
    /// The fault that a call meets, after it has hung for as long as it shall.
    fn meet(&self, operation: Operation) -> Fault {
        let mut switch = self.switch.lock();
        switch.calls += 1;
        if switch.fault_of(operation) == Fault::Hang {
            switch.hanging += 1;
            self.thrown.notify_all();
            while switch.fault_of(operation) == Fault::Hang {
                self.thrown.wait(&mut switch);
            }
            switch.hanging -= 1;
        }
        switch.fault_of(operation)
    }
}

impl Layer for Breaking {
    fn around<T>(&self, call: Call, make: impl FnOnce() -> Result<(T, u64)>) -> Result<(T, u64)> {
        let broken = |errno| Error::new("meet a fault on purpose", errno);
        match self.meet(call.operation) {
            Fault::Pass | Fault::Hang => make(),
            Fault::Fail(errno) => Err(broken(errno)),
            Fault::LoseAnswer(errno) => make().and(Err(broken(errno))),
            Fault::Delay(time) => {
                std::thread::sleep(time);
                make()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;
    use crate::dir::{DirOptions, DirOrigin, tests::At};

    fn faulty() -> (tempfile::TempDir, Shared<Faulty>) {
        let dir = tempfile::tempdir().unwrap();
        let inner = Shared::new(DirOrigin::open(dir.path(), DirOptions::default()).unwrap());
        (dir, Shared::new(Faulty::new(inner)))
    }

    #[test]
    fn only_the_chosen_operations_fail() {
        let (_dir, origin) = faulty();
        let root = At::root(&*origin);
        origin.set_for(&[Operation::List], Fault::Fail(Errno::IO));
        assert_eq!(origin.list(&root).unwrap_err().errno(), Errno::IO);
        assert!(origin.lookup(&root, OsStr::new("absent")).unwrap_err().is_absence());
        origin.set(Fault::Pass);
        assert!(origin.list(&root).is_ok());
        assert_eq!(origin.calls(), 4);
    }

    #[test]
    fn a_lost_answer_is_of_a_call_that_was_made() {
        let (dir, origin) = faulty();
        let root = At::root(&*origin);
        std::fs::write(dir.path().join("file"), "").unwrap();
        origin.set(Fault::LoseAnswer(Errno::TIMEDOUT));
        assert!(origin.unlink(&root, OsStr::new("file")).is_err());
        assert!(!dir.path().join("file").exists());
    }

    #[test]
    fn a_hang_ends_when_the_switch_is_thrown() {
        let (_dir, origin) = faulty();
        origin.set(Fault::Hang);
        let asked = std::thread::spawn({
            let origin = origin.clone();
            move || origin.root()
        });
        origin.wait_until_hanging(1);
        origin.set(Fault::Fail(Errno::TIMEDOUT));
        assert_eq!(asked.join().unwrap().unwrap_err().errno(), Errno::TIMEDOUT);
        assert_eq!(origin.hanging(), 0);
    }
}
