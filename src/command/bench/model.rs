//! A model of threads on CPUs that wait for locks and for cache lines: discrete events, no clock.
//!
//! An operation is work that nobody else is in the way of, cut into equal parts by visits. A visit
//! takes one thing of a class (a shard's lock, a list's lock, a shared counter), holds it and lets it
//! go. Three things cost more with more CPUs, and nothing else does:
//!
//! - a thing that another CPU had last must bring its cache lines over first, while it is held;
//! - who finds it taken spins, and with it his CPU, and draws the line to himself, which must come back
//!   before it can be let go;
//! - who has spun for a while gives his CPU away, some times over; then he sleeps until he is woken,
//!   which costs his CPU and the waker's. He may find it taken again: as with parking_lot, a lock that
//!   is let go is handed to nobody.
//!
//! Threads beyond the number of CPUs run when another one gives his away. Nobody is preempted. What
//! this leaves out stands in `docs/scaling.md`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What an operation does.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Work {
    /// Its time outside of all visits, ns.
    pub(super) outside_ns: f64,
    /// What is visited.
    pub(super) classes: Vec<Class>,
    /// The visits, in turn.
    pub(super) visits: Vec<Visit>,
}

/// Things of which an operation chooses one at random.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Class {
    /// How many there are, at least one.
    pub(super) instances: u32,
    /// How many cache lines go from CPU to CPU with each.
    pub(super) lines: f64,
    /// Whether who waits too long sleeps: not so for a line alone.
    pub(super) is_lock: bool,
}

/// What is done with one thing of a class.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Visit {
    /// Which class.
    pub(super) class: usize,
    /// How often in an operation, on the mean.
    pub(super) times: f64,
    /// How long it is held where its lines are at hand, beside the time of visits under it, ns.
    pub(super) hold_ns: f64,
    /// The visit under which this one is made, while that thing is held.
    pub(super) under: Option<usize>,
}

/// What the machine takes for waiting, ns.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Costs {
    /// To bring a cache line from another CPU.
    pub(super) transfer_ns: f64,
    /// How long a waiter spins before he would let others run.
    pub(super) spin_ns: f64,
    /// To ask whether somebody else would run, and to let him.
    pub(super) yield_ns: f64,
    pub(super) switch_ns: f64,
    /// How often a waiter does so before he sleeps.
    pub(super) yields: u32,
    /// To fall asleep and be woken: one half each to the sleeper's CPU and the waker's.
    pub(super) sleep_ns: f64,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Outcome {
    /// Operations done.
    pub(super) ops: u64,
    /// How long that took, ns.
    pub(super) wall_ns: f64,
    /// For how long CPUs were in use, all together, ns.
    pub(super) busy_ns: f64,
    /// For how long things were held, all together, ns.
    pub(super) held_ns: f64,
    /// Visits that found the thing taken.
    pub(super) contended: u64,
}

impl Outcome {
    /// Operations a second.
    pub(super) fn ops_per_s(&self) -> f64 {
        self.ops as f64 * 1e9 / self.wall_ns
    }

    /// CPU time of an operation, ns.
    pub(super) fn cpu_ns(&self) -> f64 {
        self.busy_ns / self.ops as f64
    }
}

impl Work {
    /// The time of an operation that waits for nothing, ns.
    pub(super) fn service_ns(&self) -> f64 {
        self.outside_ns + self.visits.iter().map(|visit| visit.times * visit.hold_ns).sum::<f64>()
    }

    /// Lets `threads` threads on `cpus` CPUs (one each at least) do `ops` operations. The same call has
    /// the same outcome.
    pub(super) fn simulate(&self, costs: &Costs, threads: u32, cpus: u32, ops: u64) -> Outcome {
        let mut state = State::new(self, costs, threads.max(1), cpus.max(1));
        while state.ops < ops {
            let Some(Reverse((at, _, event))) = state.events.pop() else { break };
            state.now = at;
            state.happen(event);
        }
        state.outcome()
    }
}

/// What happens to a thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    /// It goes on with what it has to do.
    GoesOn(usize),
    /// It has spun for long enough, if it still waits for the same turn as then.
    GivesUp(usize, u64),
}

/// What a thread has to do.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Work that takes about so long, ns.
    Part(f64),
    /// Work that takes exactly so long, ns.
    Hold(f64),
    /// Take what a visit takes.
    Take(usize),
    /// Let go of what a visit took.
    Leave(usize),
}

/// A lock or line.
#[derive(Clone, Default, Debug)]
struct Thing {
    is_taken: bool,
    /// Whether somebody looked at it while it was taken, so that its line must come back to be changed.
    is_watched: bool,
    /// The CPU that had it last; `None` when nobody had.
    last: Option<usize>,
    /// Since when it is taken.
    since: Time,
    spinning: VecDeque<usize>,
    asleep: VecDeque<usize>,
}

#[derive(Clone, Default, Debug)]
struct Thread {
    /// Where it runs, unless it sleeps or is ready to run.
    cpu: Option<usize>,
    /// What is left of its operation, the next act last.
    acts: Vec<Act>,
    /// What the operation chooses its things by.
    choice: u64,
    /// Counts its waits, so that it gives up none but the present one.
    turn: u64,
    /// Whether it found what it visits taken, and how often it let others run since.
    is_waiting: bool,
    yields: u32,
}

/// Time since the start, picoseconds: whole numbers have an order, and add up the same every time.
type Time = u64;

fn time(ns: f64) -> Time {
    (ns * 1e3).round() as Time
}

struct State<'a> {
    work: &'a Work,
    costs: &'a Costs,
    now: Time,
    /// What will happen; the number makes those of one time come in the order in which they were said.
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    serial: u64,
    threads: Vec<Thread>,
    things: Vec<Thing>,
    /// The first thing of each class.
    firsts: Vec<usize>,
    /// Threads that could run, had they a CPU.
    ready: VecDeque<usize>,
    /// CPUs without a thread, and since when.
    idle: Vec<(usize, Time)>,
    cpus: u32,
    random: u64,
    ops: u64,
    idle_time: Time,
    held_time: Time,
    contended: u64,
}

impl<'a> State<'a> {
    fn new(work: &'a Work, costs: &'a Costs, threads: u32, cpus: u32) -> State<'a> {
        let mut firsts = Vec::new();
        let mut things = Vec::new();
        for class in &work.classes {
            firsts.push(things.len());
            things.resize(things.len() + class.instances.max(1) as usize, Thing::default());
        }
        let mut state = State {
            work,
            costs,
            now: 0,
            events: BinaryHeap::new(),
            serial: 0,
            threads: vec![Thread::default(); threads as usize],
            things,
            firsts,
            ready: VecDeque::new(),
            idle: (0..cpus as usize).map(|cpu| (cpu, 0)).collect(),
            cpus,
            random: 0x9E37_79B9_7F4A_7C15,
            ops: 0,
            idle_time: 0,
            held_time: 0,
            contended: 0,
        };
        for thread in 0..state.threads.len() {
            state.begin(thread);
            state.wake(thread, 0);
        }
        state
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::GoesOn(thread) => self.go_on(thread),
            Event::GivesUp(thread, turn) => self.give_up(thread, turn),
        }
    }

    fn after(&mut self, delay: Time, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((self.now + delay, self.serial, event)));
    }

    /// Chooses what a thread's next operation is.
    fn begin(&mut self, thread: usize) {
        let visits = &self.work.visits;
        let mut groups = Vec::new();
        for (outer, visit) in visits.iter().enumerate().filter(|(_, visit)| visit.under.is_none()) {
            for _ in 0..self.times(visit.times) {
                let mut acts = vec![Act::Take(outer)];
                for (inner, below) in
                    visits.iter().enumerate().filter(|(_, below)| below.under == Some(outer))
                {
                    for _ in 0..self.times(below.times / visit.times) {
                        acts.extend([Act::Take(inner), Act::Hold(below.hold_ns), Act::Leave(inner)]);
                    }
                }
                acts.extend([Act::Hold(visit.hold_ns), Act::Leave(outer)]);
                groups.push(acts);
            }
        }
        let part = Act::Part(self.work.outside_ns / (groups.len() + 1) as f64);
        let mut acts = vec![part];
        for group in groups.into_iter().rev() {
            acts.extend(group.into_iter().rev());
            acts.push(part);
        }
        let choice = self.next_random();
        let Thread { cpu, turn, .. } = self.threads[thread];
        self.threads[thread] = Thread { cpu, turn, acts, choice, ..Thread::default() };
    }

    /// A whole number that is so many on the mean.
    fn times(&mut self, mean: f64) -> usize {
        (mean + self.chance()) as usize
    }

    /// Does what the thread has to do, up to the next act that takes time.
    fn go_on(&mut self, thread: usize) {
        loop {
            let delay = match self.threads[thread].acts.pop() {
                None => {
                    self.ops += 1;
                    return self.next(thread);
                }
                // Equal parts would make threads keep out of each other's way for ever.
                Some(Act::Part(ns)) => time(ns * (0.5 + self.chance())),
                Some(Act::Hold(ns)) => time(ns),
                Some(Act::Take(visit)) if self.things[self.thing_of(thread, visit)].is_taken => {
                    return self.wait(thread, visit);
                }
                Some(Act::Take(visit)) => self.take(thread, visit),
                Some(Act::Leave(visit)) => self.leave(thread, visit),
            };
            if delay > 0 {
                return self.after(delay, Event::GoesOn(thread));
            }
        }
    }

    /// Begins the next operation, after those who have something to do now.
    fn next(&mut self, thread: usize) {
        self.begin(thread);
        self.after(0, Event::GoesOn(thread));
    }

    fn wait(&mut self, thread: usize, visit: usize) {
        let number = self.thing_of(thread, visit);
        self.things[number].is_watched = true;
        self.things[number].spinning.push_back(thread);
        let waiter = &mut self.threads[thread];
        waiter.acts.push(Act::Take(visit));
        self.contended += u64::from(!waiter.is_waiting);
        waiter.is_waiting = true;
        waiter.turn += 1;
        let turn = waiter.turn;
        let patience = if waiter.yields == 0 { self.costs.spin_ns } else { self.costs.yield_ns };
        if self.work.classes[self.work.visits[visit].class].is_lock {
            self.after(time(patience), Event::GivesUp(thread, turn));
        }
    }

    /// Takes what is free, and says how long that takes.
    fn take(&mut self, thread: usize, visit: usize) -> Time {
        let number = self.thing_of(thread, visit);
        let taker = &mut self.threads[thread];
        (taker.is_waiting, taker.yields) = (false, 0);
        taker.turn += 1;
        let thing = &mut self.things[number];
        let moves = thing.last.is_some() && thing.last != taker.cpu;
        (thing.is_taken, thing.last, thing.since) = (true, taker.cpu, self.now);
        let lines = self.work.classes[self.work.visits[visit].class].lines;
        if moves { time(lines * self.costs.transfer_ns) } else { 0 }
    }

    /// Lets go, and says how long that takes.
    fn leave(&mut self, thread: usize, visit: usize) -> Time {
        let number = self.thing_of(thread, visit);
        if std::mem::take(&mut self.things[number].is_watched) {
            self.threads[thread].acts.push(Act::Leave(visit));
            return time(self.costs.transfer_ns);
        }
        self.things[number].is_taken = false;
        self.held_time += self.now - self.things[number].since;
        let mut delay = 0;
        if let Some(sleeper) = self.things[number].asleep.pop_front() {
            delay = time(self.costs.sleep_ns / 2.0);
            self.wake(sleeper, delay);
        }
        if let Some(next) = self.things[number].spinning.pop_front()
            && let Some(Act::Take(visit)) = self.threads[next].acts.pop()
        {
            let taking = self.take(next, visit);
            self.after(taking, Event::GoesOn(next));
        }
        delay
    }

    /// A waiter has spun in vain: he lets others run if there are any, and sleeps in the end.
    fn give_up(&mut self, thread: usize, turn: u64) {
        let waiter = &mut self.threads[thread];
        if waiter.turn != turn {
            return;
        }
        let sleeps = waiter.yields == self.costs.yields;
        waiter.yields += u32::from(!sleeps);
        if !sleeps && self.ready.is_empty() {
            return self.after(time(self.costs.yield_ns), Event::GivesUp(thread, turn));
        }
        let Some(&Act::Take(visit)) = self.threads[thread].acts.last() else { return };
        let number = self.thing_of(thread, visit);
        let thing = &mut self.things[number];
        thing.spinning.retain(|waiter| *waiter != thread);
        let Some(cpu) = self.threads[thread].cpu.take() else { return };
        self.threads[thread].turn += 1;
        self.idle.push((cpu, self.now));
        if let Some(next) = self.ready.pop_front() {
            let cost = if sleeps { self.costs.sleep_ns / 2.0 } else { self.costs.switch_ns };
            self.wake(next, time(cost));
        }
        match sleeps {
            true => self.things[number].asleep.push_back(thread),
            false => self.ready.push_back(thread),
        }
    }

    /// Gives a thread a CPU, where it goes on after `delay`, or a place among those who wait for one.
    fn wake(&mut self, thread: usize, delay: Time) {
        let Some((cpu, since)) = self.idle.pop() else {
            return self.ready.push_back(thread);
        };
        self.idle_time += self.now - since;
        self.threads[thread].cpu = Some(cpu);
        self.after(delay, Event::GoesOn(thread));
    }

    /// What a visit takes: within an operation always the same lock of a class, and of lines any.
    fn thing_of(&self, thread: usize, visit: usize) -> usize {
        let class = self.work.visits[visit].class;
        let Class { instances, is_lock, .. } = self.work.classes[class];
        let salt = if is_lock { class } else { self.firsts.len() + visit };
        let choice = spread(self.threads[thread].choice.wrapping_add(salt as u64));
        self.firsts[class] + (choice % u64::from(instances.max(1))) as usize
    }

    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        spread(self.random)
    }

    /// From 0 to 1.
    fn chance(&mut self) -> f64 {
        (self.next_random() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn outcome(&self) -> Outcome {
        let still_idle: Time = self.idle.iter().map(|(_, since)| self.now - since).sum();
        let all = self.now * Time::from(self.cpus);
        let ns = |time: Time| time as f64 / 1e3;
        Outcome {
            ops: self.ops,
            wall_ns: ns(self.now),
            busy_ns: ns(all - self.idle_time - still_idle),
            held_ns: ns(self.held_time),
            contended: self.contended,
        }
    }
}

/// SplitMix64 (Steele and others, OOPSLA 2014).
fn spread(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPS: u64 = 20_000;
    const COSTS: Costs = Costs {
        transfer_ns: 50.0,
        spin_ns: 300.0,
        yield_ns: 100.0,
        switch_ns: 300.0,
        yields: 7,
        sleep_ns: 3000.0,
    };

    fn lock(instances: u32) -> Class {
        Class { instances, lines: 2.0, is_lock: true }
    }

    /// Work of 1 µs, of which `held_ns` under one of so many locks.
    fn work(instances: u32, held_ns: f64) -> Work {
        let visits = vec![Visit { class: 0, times: 1.0, hold_ns: held_ns, under: None }];
        Work { outside_ns: 1000.0 - held_ns, classes: vec![lock(instances)], visits }
    }

    fn speed(work: &Work, cpus: u32) -> f64 {
        work.simulate(&COSTS, 64, cpus, OPS).ops_per_s()
    }

    #[test]
    fn without_locks_it_scales_with_the_cpus() {
        let work = Work { outside_ns: 1000.0, ..Work::default() };
        for cpus in [1, 2, 7, 64] {
            let ratio = speed(&work, cpus) / (1e6 * f64::from(cpus));
            assert!((0.98..1.02).contains(&ratio), "{cpus} CPUs: {ratio}");
        }
        let outcome = work.simulate(&COSTS, 3, 8, OPS);
        assert!((2.9e6..3.1e6).contains(&outcome.ops_per_s()), "three threads are on three CPUs at most");
        assert!((980.0..1020.0).contains(&outcome.cpu_ns()), "CPUs without a thread cost nothing");
    }

    #[test]
    fn on_one_cpu_it_takes_as_long_as_its_parts() {
        for work in [work(1, 400.0), work(64, 1000.0)] {
            let outcome = work.simulate(&COSTS, 32, 1, OPS);
            assert!((0.99..1.01).contains(&(outcome.cpu_ns() / work.service_ns())), "{outcome:?}");
            assert_eq!(outcome.contended, 0, "nobody is preempted while he holds a lock");
        }
    }

    #[test]
    fn a_lock_that_is_always_held_does_not_scale() {
        let work = work(1, 1000.0);
        let one = speed(&work, 1);
        for cpus in [2, 8, 64] {
            let ratio = speed(&work, cpus) / one;
            assert!((0.3..=1.0).contains(&ratio), "{cpus} CPUs: {ratio}");
        }
    }

    #[test]
    fn no_lock_does_more_than_fits_into_its_time() {
        let work = work(1, 100.0);
        let most = 1e9 / 100.0;
        assert!(speed(&work, 64) < most);
        let costs = Costs { transfer_ns: 0.0, ..COSTS };
        let speed = |cpus| work.simulate(&costs, 2, cpus, OPS).ops_per_s();
        assert!(speed(2) > 1.9 * speed(1), "two hardly ever meet at a tenth");
    }

    #[test]
    fn more_locks_wait_less() {
        let waits = |instances| {
            let outcome = work(instances, 300.0).simulate(&COSTS, 32, 16, OPS);
            (outcome.ops_per_s(), outcome.contended as f64 / outcome.ops as f64)
        };
        let (one, eight, many) = (waits(1), waits(8), waits(4096));
        assert!(one.0 < eight.0 && eight.0 < many.0, "{one:?} {eight:?} {many:?}");
        assert!(one.1 > eight.1 && eight.1 > many.1, "{one:?} {eight:?} {many:?}");
        assert!(many.1 < 0.01, "{many:?}");
    }

    #[test]
    fn time_is_neither_lost_nor_made() {
        for (instances, held_ns, cpus) in [(1, 900.0, 64), (1, 50.0, 2), (8, 300.0, 16)] {
            let work = work(instances, held_ns);
            let outcome = work.simulate(&COSTS, 32, cpus, OPS);
            let used = outcome.wall_ns * f64::from(cpus.min(32));
            assert!(outcome.busy_ns <= used * 1.001, "CPUs are not used for longer than they are there");
            assert!(outcome.held_ns <= outcome.wall_ns * f64::from(instances) + 1e4, "held by one at a time");
            let least = outcome.ops as f64 * work.service_ns() * 0.98;
            assert!(outcome.busy_ns >= least, "{outcome:?}: work was skipped");
            assert!(outcome.held_ns >= outcome.ops as f64 * held_ns * 0.99);
        }
    }

    #[test]
    fn a_lock_is_held_while_another_is_waited_for() {
        // Of many outer locks none would ever be waited for, were it not held while the one inner is.
        let waits = |under| {
            let outer = Visit { class: 0, times: 1.0, hold_ns: 10.0, under: None };
            let inner = Visit { class: 1, times: 1.0, hold_ns: 500.0, under };
            let work =
                Work { outside_ns: 490.0, classes: vec![lock(64), lock(1)], visits: vec![outer, inner] };
            let outcome = work.simulate(&COSTS, 32, 16, OPS);
            outcome.contended as f64 / outcome.ops as f64
        };
        let (nested, apart) = (waits(Some(0)), waits(None));
        assert!(nested > apart + 0.05, "{nested} {apart}");
    }

    #[test]
    fn a_line_that_goes_to_and_fro_costs_its_transfer() {
        let line = Class { instances: 1, lines: 1.0, is_lock: false };
        let visits = vec![Visit { class: 0, times: 1.0, hold_ns: 5.0, under: None }];
        let work = Work { outside_ns: 1000.0, classes: vec![line], visits };
        let cpu_ns = |transfer_ns| {
            let costs = Costs { transfer_ns, ..COSTS };
            work.simulate(&costs, 2, 2, OPS).cpu_ns()
        };
        // About every second visit follows one of the other CPU, and more as they fall into step.
        let more = cpu_ns(100.0) - cpu_ns(0.0);
        assert!((40.0..110.0).contains(&more), "{more}");
    }

    #[test]
    fn who_sleeps_leaves_his_cpu_to_others() {
        // Two classes: half of the threads' time is under a lock, and there are more threads than CPUs.
        let costs =
            Costs { transfer_ns: 0.0, spin_ns: 0.0, switch_ns: 0.0, sleep_ns: 0.0, yields: 0, ..COSTS };
        let outcome = work(2, 500.0).simulate(&costs, 32, 2, OPS);
        assert!((1.85e6..2.05e6).contains(&outcome.ops_per_s()), "{outcome:?}");
    }
}
