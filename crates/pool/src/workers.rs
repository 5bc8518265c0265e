//! The threads that wait for origins, so that nobody else has to.
//!
//! A [`Workers`] runs jobs that may block for as long as an origin likes. Threads are started when
//! there is work and nobody idle, up to `pool.workers_max`, and end after some seconds without work;
//! the queue has a limit. Every job has a deadline by its [`Class`]: when it passes, the asker gets
//! `TimedOut` and the job goes on alone. One timer thread watches deadlines. [`Workers::stop`] refuses
//! new jobs, answers queued ones with `Stopping` and joins the threads that end within the grace
//! period; a thread that is stuck in a dead origin cannot be joined by anybody and is left behind.
//!
//! Locks: `queue` guards all mutable state and is never held while a job or an answer runs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arcwell_base::{Cause, Error, Result};
use parking_lot::{Condvar, Mutex};

use crate::tunable::PoolTunables;

/// How long a worker without work stays.
const IDLE: Duration = Duration::from_secs(10);
/// How long `stop` waits for jobs under way.
const GRACE: Duration = Duration::from_secs(3);

/// What kind of work a job is: decides its deadline and its place in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Reads of data and metadata.
    Query,
    /// Whatever changes the origin.
    Change,
    /// Waiting for stable storage.
    Sync,
    /// What nobody waits for: prefetch. Runs when nothing else is queued, and is dropped when too
    /// much of it waits.
    Background,
}

const CLASSES: usize = 4;

type Job = Box<dyn FnOnce() + Send>;

/// An answer that is given once: by the job, or by the deadline.
trait Expire: Send + Sync {
    /// Answers with an error unless the answer was given; `false` when it was.
    fn expire(&self, error: Error) -> bool;
    fn is_answered(&self) -> bool;
}

type Done<T> = Box<dyn FnOnce(Result<T>) + Send>;

struct Ticket<T>(Mutex<Option<Done<T>>>);

impl<T: Send> Ticket<T> {
    fn answer(&self, result: Result<T>) -> bool {
        let done = self.0.lock().take();
        match done {
            Some(done) => {
                done(result);
                true
            }
            None => false,
        }
    }
}

impl<T: Send> Expire for Ticket<T> {
    fn expire(&self, error: Error) -> bool {
        self.answer(Err(error))
    }

    fn is_answered(&self) -> bool {
        self.0.lock().is_none()
    }
}

struct Deadline {
    at: Instant,
    after: Duration,
    ticket: Arc<dyn Expire>,
}

#[derive(Default)]
struct Queue {
    foreground: VecDeque<(Job, Arc<dyn Expire>)>,
    background: VecDeque<(Job, Arc<dyn Expire>)>,
    background_running: usize,
    /// One queue a class, by time: in order of submission, but where the time allowed was lowered.
    deadlines: [VecDeque<Deadline>; CLASSES],
    idle: usize,
    threads: usize,
    next_thread: u64,
    handles: Vec<JoinHandle<()>>,
    stopping: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    timer: Condvar,
    tunables: Arc<PoolTunables>,
    expired: AtomicU64,
}

/// A bounded set of threads. See the module's doc.
pub struct Workers {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let queue = self.shared.queue.lock();
        f.debug_struct("Workers").field("threads", &queue.threads).field("idle", &queue.idle).finish()
    }
}

impl Workers {
    pub(crate) fn new(tunables: Arc<PoolTunables>) -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            work: Condvar::new(),
            timer: Condvar::new(),
            tunables,
            expired: AtomicU64::new(0),
        });
        let timer = Arc::clone(&shared);
        let handle = std::thread::Builder::new()
            .name("arcwell-timer".into())
            .spawn(move || timer.watch_deadlines())
            .expect("a pool needs its timer thread");
        shared.queue.lock().handles.push(handle);
        Workers { shared }
    }

    /// Runs `job` on a worker and hands its result to `done`, on the worker's thread. When the job
    /// takes longer than its class allows, `done` gets `TimedOut` and the job's result is dropped;
    /// when the queue is full it gets `Busy`, after [`Workers::stop`] `Stopping`, at once.
    pub fn run<T: Send + 'static>(
        &self,
        class: Class,
        job: impl FnOnce() -> Result<T> + Send + 'static,
        done: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        let ticket = Arc::new(Ticket(Mutex::new(Some(Box::new(done) as Done<T>))));
        let answer = Arc::clone(&ticket);
        let job: Job = Box::new(move || {
            let result = job();
            answer.answer(result);
        });
        if let Err(cause) = self.submit(class, job, ticket.clone()) {
            ticket.answer(Err(Error::new("work", cause)));
        }
    }

    /// Jobs that wait, jobs that run and answers that came too late so far.
    pub fn load(&self) -> Load {
        let queue = self.shared.queue.lock();
        Load {
            queued: queue.foreground.len() + queue.background.len(),
            running: queue.threads - queue.idle,
            threads: queue.threads,
            expired: self.shared.expired.load(Ordering::Relaxed),
        }
    }

    fn submit(&self, class: Class, job: Job, ticket: Arc<dyn Expire>) -> std::result::Result<(), Cause> {
        let shared = &self.shared;
        let tunables = &shared.tunables;
        let mut queue = shared.queue.lock();
        if queue.stopping {
            return Err(Cause::Stopping);
        }
        let limit = tunables.queue_max() as usize;
        if class == Class::Background {
            if queue.background.len() >= limit / 4 {
                return Err(Cause::Busy);
            }
            queue.background.push_back((job, ticket));
        } else {
            if queue.foreground.len() >= limit {
                return Err(Cause::Busy);
            }
            let after = shared.allowed(class);
            let at = Instant::now() + after;
            let deadlines = &mut queue.deadlines[class as usize];
            let place = deadlines.partition_point(|earlier| earlier.at <= at);
            deadlines.insert(place, Deadline { at, after, ticket: ticket.clone() });
            queue.foreground.push_back((job, ticket));
        }
        // A woken thread still counts as idle until it runs: compare with what is queued, so that no
        // job waits behind one that hangs while a thread could be had.
        let queued = queue.foreground.len() + queue.background.len();
        if queued > queue.idle && queue.threads < tunables.workers_max() as usize {
            shared.start_thread(&mut queue);
        } else {
            shared.work.notify_one();
        }
        Ok(())
    }

    /// Ends the work: see the module's doc. Harmless when called twice.
    pub fn stop(&self) {
        let (queued, handles) = {
            let mut queue = self.shared.queue.lock();
            queue.stopping = true;
            let mut queued: Vec<_> = queue.foreground.drain(..).collect();
            queued.extend(queue.background.drain(..));
            (queued, std::mem::take(&mut queue.handles))
        };
        self.shared.work.notify_all();
        self.shared.timer.notify_all();
        for (_, ticket) in queued {
            ticket.expire(Error::new("work", Cause::Stopping));
        }
        let until = Instant::now() + GRACE;
        for handle in handles {
            while !handle.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            if handle.is_finished() {
                // A panic of a job was already reported by the panic hook.
                let _ = handle.join();
            } else {
                tracing::warn!("a worker is stuck in its origin and is left behind");
            }
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How busy the workers are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Jobs that wait for a thread.
    pub queued: usize,
    /// Jobs under way.
    pub running: usize,
    /// Threads.
    pub threads: usize,
    /// Jobs that missed their deadline since the start.
    pub expired: u64,
}

impl Shared {
    fn allowed(&self, class: Class) -> Duration {
        Duration::from_millis(match class {
            Class::Query | Class::Background => self.tunables.origin_timeout(),
            Class::Change => self.tunables.change_timeout(),
            Class::Sync => self.tunables.sync_timeout(),
        })
    }

    fn start_thread(self: &Arc<Self>, queue: &mut Queue) {
        let shared = Arc::clone(self);
        let name = format!("arcwell-work-{}", queue.next_thread);
        match std::thread::Builder::new().name(name).spawn(move || shared.work()) {
            Ok(handle) => {
                queue.next_thread += 1;
                queue.threads += 1;
                queue.handles.retain(|handle| !handle.is_finished());
                queue.handles.push(handle);
            }
            // With at least one thread the work still gets done, only later.
            Err(error) => tracing::warn!(%error, "no further worker thread"),
        }
    }

    fn work(&self) {
        let mut queue = self.queue.lock();
        loop {
            let is_foreground = !queue.foreground.is_empty();
            let next = match queue.foreground.pop_front() {
                Some(next) => Some(next),
                // Guesses must never keep those waiting who know what they want.
                None if queue.background_running < self.background_max() => queue.background.pop_front(),
                None => None,
            };
            if let Some((job, ticket)) = next {
                queue.background_running += usize::from(!is_foreground);
                drop(queue);
                if !ticket.is_answered() {
                    // A panic must not take the thread's place in the count with it.
                    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).is_err() {
                        ticket.expire(Error::new("work", rustix::io::Errno::IO));
                    }
                }
                drop(ticket);
                queue = self.queue.lock();
                queue.background_running -= usize::from(!is_foreground);
                continue;
            }
            if queue.stopping {
                break;
            }
            queue.idle += 1;
            let timed_out = self.work.wait_for(&mut queue, IDLE).timed_out();
            queue.idle -= 1;
            if timed_out && queue.foreground.is_empty() && queue.background.is_empty() {
                break;
            }
        }
        queue.threads -= 1;
    }

    fn background_max(&self) -> usize {
        (self.tunables.workers_max() as usize / 2).max(1)
    }

    fn watch_deadlines(&self) {
        let mut queue = self.queue.lock();
        while !queue.stopping {
            let now = Instant::now();
            let mut late = Vec::new();
            let mut next: Option<Instant> = None;
            for deadlines in &mut queue.deadlines {
                while let Some(first) = deadlines.front() {
                    if first.ticket.is_answered() || first.at <= now {
                        late.extend(deadlines.pop_front());
                    } else {
                        next = Some(next.map_or(first.at, |at| at.min(first.at)));
                        break;
                    }
                }
            }
            if !late.is_empty() {
                drop(queue);
                for Deadline { after, ticket, .. } in late {
                    // Counted first: who got the answer finds it counted.
                    self.expired.fetch_add(1, Ordering::Relaxed);
                    if !ticket.expire(Error::new("wait for the origin", Cause::TimedOut(after))) {
                        self.expired.fetch_sub(1, Ordering::Relaxed);
                    }
                }
                queue = self.queue.lock();
                continue;
            }
            // Answered tickets are swept at least this often, so that the queues stay short.
            let sweep = now + Duration::from_millis(50);
            let has_any = queue.deadlines.iter().any(|deadlines| !deadlines.is_empty());
            if has_any {
                let until = next.map_or(sweep, |at| at.min(sweep));
                self.timer.wait_until(&mut queue, until);
            } else {
                self.timer.wait_for(&mut queue, Duration::from_millis(200));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arcwell_base::table::Tunables;
    use std::sync::mpsc;

    fn workers(settings: &[(&str, &str)]) -> Workers {
        let tunables = PoolTunables::default();
        for (name, value) in settings {
            tunables.set(name, value, false).unwrap();
        }
        Workers::new(Arc::new(tunables))
    }

    #[test]
    fn results_come_back() {
        let workers = workers(&[]);
        let (sender, receiver) = mpsc::channel();
        for n in 0..100u64 {
            let sender = sender.clone();
            workers.run(Class::Query, move || Ok(n), move |result| sender.send(result.unwrap()).unwrap());
        }
        let sum: u64 = receiver.iter().take(100).sum();
        assert_eq!(sum, 4950);
    }

    #[test]
    fn a_hung_job_times_out_and_others_go_on() {
        let workers = workers(&[("pool.origin_timeout", "50ms"), ("pool.workers_max", "2")]);
        let (release, gate) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        let late = sender.clone();
        workers.run(
            Class::Query,
            move || {
                let _ = gate.recv();
                Ok(())
            },
            move |result| late.send(result.map_err(|e| e.errno())).unwrap(),
        );
        // However busy the machine is, the other one has time enough.
        workers.shared.tunables.set("pool.origin_timeout", "20s", true).unwrap();
        workers.run(
            Class::Query,
            || Ok(()),
            move |result| sender.send(result.map_err(|e| e.errno())).unwrap(),
        );
        assert_eq!(receiver.recv(), Ok(Ok(())));
        assert_eq!(receiver.recv(), Ok(Err(rustix::io::Errno::TIMEDOUT)));
        assert_eq!(workers.load().expired, 1);
        release.send(()).unwrap();
    }

    #[test]
    fn a_lowered_deadline_does_not_wait_for_an_earlier_one() {
        let workers = workers(&[("pool.origin_timeout", "20s")]);
        let (release, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let (sender, receiver) = mpsc::channel();
        for allowed in ["20s", "20ms"] {
            workers.shared.tunables.set("pool.origin_timeout", allowed, true).unwrap();
            let (gate, sender) = (gate.clone(), sender.clone());
            let hang = move || {
                let _ = gate.lock().recv();
                Ok(())
            };
            workers.run(Class::Query, hang, move |result| sender.send((allowed, result.is_ok())).unwrap());
        }
        assert_eq!(receiver.recv(), Ok(("20ms", false)));
        drop(release);
        assert_eq!(receiver.recv(), Ok(("20s", true)));
    }

    #[test]
    fn a_full_queue_refuses_at_once() {
        let workers = workers(&[("pool.workers_max", "1"), ("pool.queue_max", "4")]);
        let (release, gate) = mpsc::channel::<()>();
        let (started, has_started) = mpsc::channel();
        let hang = move || {
            started.send(()).unwrap();
            let _ = gate.recv();
            Ok(())
        };
        workers.run(Class::Query, hang, |_| ());
        has_started.recv().unwrap();
        let (sender, receiver) = mpsc::channel();
        for _ in 0..5 {
            let sender = sender.clone();
            workers.run(Class::Query, || Ok(()), move |result| sender.send(result.is_ok()).unwrap());
        }
        assert_eq!(receiver.recv(), Ok(false));
        release.send(()).unwrap();
        assert_eq!(receiver.iter().take(4).filter(|ok| *ok).count(), 4);
    }

    #[test]
    fn a_panic_is_an_error_for_the_asker_alone() {
        let workers = workers(&[("pool.workers_max", "1")]);
        let (sender, receiver) = mpsc::channel();
        let after = sender.clone();
        workers.run(
            Class::Query,
            || -> Result<()> { panic!("on purpose") },
            move |r| sender.send(r.is_ok()).unwrap(),
        );
        workers.run(Class::Query, || Ok(()), move |r| after.send(r.is_ok()).unwrap());
        assert_eq!((receiver.recv(), receiver.recv()), (Ok(false), Ok(true)));
    }

    #[test]
    fn after_stop_nothing_starts() {
        let workers = workers(&[]);
        workers.stop();
        let (sender, receiver) = mpsc::channel();
        workers.run(Class::Change, || Ok(()), move |r| sender.send(r.map_err(|e| e.errno())).unwrap());
        assert_eq!(receiver.recv(), Ok(Err(rustix::io::Errno::IO)));
    }
}
