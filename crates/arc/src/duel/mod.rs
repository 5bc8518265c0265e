//! The duel of the two rules: which of them the cache goes by (`arc.policy=adaptive`).
//!
//! The paper's rule is the better one nearly always, and by far the worse in loops and scans longer
//! than the cache. So both are tried on a sample of the keys, each by a [`shadow`], and the cache goes
//! by the paper's until the other has shown that it finds more:
//!
//! - Where the shadows differ, the difference is added up, for either rule, and never falls below 0: a
//!   sum that has grown large shows that the rule *has become* better, however long it was worse
//!   (E. Page's cumulative sum, 1954). A rule is taken when its sum reaches a part of what a cache
//!   holds, since changing it costs about what the blocks would have hit that the other does not keep.
//!   If those hit next to nothing there is little to lose, and the sum need not be large.
//! - The cache itself is compared with the shadow of the paper's rule as well. If it falls behind, the
//!   paper's rule is taken back at once and the other has to show four times as much next time. So no
//!   load can make the cache lose again and again.
//! - The paper's rule has states out of which it does not come by itself: ghosts that return too late teach
//!   nothing. When the cache goes by that rule and has fallen behind the other's shadow by more than any
//!   change costs, it is stuck in one, and the other rule is taken.
//! - A cache that has been filled and found nothing again has nothing to lose at all. There the other
//!   rule is taken without any proof, once: it must have held a part of a loop from the first round on
//!   to be seen to be better.
//!
//! The sample begins with all keys and is halved whenever a shadow holds more than a few thousand
//! blocks, or both remember more than they may, and doubled when they have become small: so small caches
//! are judged exactly and large ones cheaply. The measurements behind the numbers, and what was tried
//! besides, are in `docs/adr/`.

mod shadow;

pub(crate) use self::shadow::Entry;
use self::shadow::Shadow;
use crate::policy::Rule;

/// Blocks that a shadow moves from mru to mfu at most, for one that it evicts: a loop is caught in its first
/// round.
const FILL_BATCH: usize = 8;

/// More blocks than this in a shadow halve the sample.
const RESIDENT_MAX: usize = 4096;

/// With fewer entries than this the shadows show nothing.
const ENTRIES_MIN: usize = 64;

/// A rule is taken when it is ahead by this part of the blocks held, times the root of the hit ratio
/// that is at stake.
const LEAD: f64 = 0.5;

/// And by this many hits in any case.
const LEAD_MIN: f64 = 4.0;

/// The paper's rule is taken back when the cache falls behind its shadow by this part of the blocks
/// held, and has proven nothing while it is ahead by as much.
const DRAWDOWN: f64 = 0.2;

/// The cache is stuck when it has fallen behind the other rule's shadow by this many times the blocks held:
/// about twice of what a change of the rule costs.
const STUCK: f64 = 2.0;

/// What a difference between the shadows must exceed on the mean to be added up.
const DRIFT: f64 = 0.05;

/// A cache that finds less than this again, and of whose blocks less than that was asked for twice, has
/// nothing to lose.
const NOTHING: f64 = 0.01;
const UNPROVEN: f64 = 0.02;

/// How many times more the other rule must show after it failed, at most.
const PATIENCE_MAX: f64 = 1024.0;

/// See the module's doc.
#[derive(Debug)]
pub(crate) struct Duel {
    rule: Rule,
    arc: Shadow,
    irr: Shadow,
    /// Keys in the sample, of 2^32.
    sample: u64,
    /// How far either rule is ahead since it began to be.
    arc_lead: f64,
    irr_lead: f64,
    /// Lately, the part of requests that either shadow hit.
    arc_ratio: f64,
    irr_ratio: f64,
    /// How far the cache is ahead of the paper's shadow.
    credit: f64,
    /// How far the cache has fallen behind the other rule's shadow while it goes by the paper's.
    lag: f64,
    /// How much further behind the cache may fall: a cache that was stuck stays behind until the other rule has
    /// filled mfu anew.
    grace: f64,
    /// How many times more the other rule must show than the first time.
    patience: f64,
    /// Whether the other rule was once taken without proof.
    was_trusted: bool,
}

impl Default for Duel {
    fn default() -> Self {
        Duel {
            rule: Rule::Arc,
            arc: Shadow::new(Rule::Arc),
            irr: Shadow::new(Rule::Irr),
            sample: SAMPLE_ALL,
            arc_lead: 0.0,
            irr_lead: 0.0,
            arc_ratio: 0.0,
            irr_ratio: 0.0,
            credit: 0.0,
            lag: 0.0,
            grace: 0.0,
            patience: 1.0,
            was_trusted: false,
        }
    }
}

/// The sample of all keys, and the smallest.
pub(crate) const SAMPLE_ALL: u64 = 1 << 32;
const SAMPLE_MIN: u64 = 1 << 8;

/// What the shadows are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The hash of the key, which is in the sample.
    pub(crate) hash: u64,
    /// The charge of the block.
    pub(crate) bytes: u64,
    /// Whether the cache had it.
    pub(crate) was_hit: bool,
}

/// What may be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    /// Bytes of the cache that the shadows stand for.
    pub(crate) target: u64,
    /// What the shadows may hold and remember together.
    pub(crate) entries: usize,
}

/// Whether a key is in a sample. The bits are mixed first, so that it is a sample of every shard and
/// sublist.
#[inline]
pub(crate) fn is_sampled(hash: u64, sample: u64) -> bool {
    hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 < sample
}

impl Duel {
    /// The sample, for [`is_sampled`].
    pub(crate) fn sample(&self) -> u64 {
        self.sample
    }

    /// mru's share as the paper's shadow has learned it.
    pub(crate) fn recency(&self) -> u64 {
        self.arc.recency()
    }

    /// Blocks held or remembered by the shadows.
    pub(crate) fn len(&self) -> usize {
        self.arc.len() + self.irr.len()
    }

    /// Takes note of a request of a sampled key. Returns the rule to go by from now on if that changes.
    pub(crate) fn observe(&mut self, request: Request, allowed: Allowed) -> Option<Rule> {
        let Request { hash, bytes, was_hit } = request;
        let capacity = self.scaled(allowed.target);
        let hits = [&mut self.arc, &mut self.irr].map(|shadow| shadow.access(hash, bytes, capacity));
        self.resample(allowed.entries);
        let [arc, irr] = hits.map(|hit| f64::from(u8::from(hit)));
        let held = self.arc.resident().max(1) as f64;
        self.arc_ratio += (arc - self.arc_ratio) / held;
        self.irr_ratio += (irr - self.irr_ratio) / held;
        if arc != irr {
            self.irr_lead = (self.irr_lead + irr - arc - DRIFT).max(0.0);
            self.arc_lead = (self.arc_lead + arc - irr - DRIFT).max(0.0);
        }
        let real = f64::from(u8::from(was_hit));
        self.credit = (self.credit + real - arc).min(DRAWDOWN * held);
        if real != irr {
            self.lag = (self.lag + irr - real - DRIFT).max(0.0);
        }
        let was_stuck = self.is_stuck(held);
        let next = self.decide(held);
        (next != self.rule).then(|| {
            self.grace = if was_stuck { held } else { 0.0 };
            self.take(next)
        })
    }

    /// The part of a number of bytes that the sample stands for.
    fn scaled(&self, bytes: u64) -> u64 {
        ((u128::from(bytes) * u128::from(self.sample)) >> 32) as u64
    }

    fn decide(&mut self, held: f64) -> Rule {
        match self.rule {
            Rule::Arc if self.has_nothing_to_lose() => {
                self.was_trusted = true;
                Rule::Irr
            }
            Rule::Arc => {
                let proof = (LEAD * held * self.arc_ratio.sqrt() + LEAD_MIN) * self.patience;
                if self.is_stuck(held) || self.irr_lead >= proof { Rule::Irr } else { Rule::Arc }
            }
            Rule::Irr if self.credit >= DRAWDOWN * held && self.patience > 1.0 => {
                self.patience = (self.patience / 2.0).max(1.0);
                self.credit = 0.0;
                Rule::Irr
            }
            Rule::Irr if self.credit < -(DRAWDOWN * held * self.arc_ratio.sqrt() + LEAD_MIN + self.grace) => {
                self.patience = (self.patience * 4.0).min(PATIENCE_MAX);
                Rule::Arc
            }
            Rule::Irr => {
                let proof = LEAD * held * self.irr_ratio.sqrt() + LEAD_MIN;
                if self.arc_lead >= proof { Rule::Arc } else { Rule::Irr }
            }
        }
    }

    fn is_stuck(&self, held: f64) -> bool {
        self.rule == Rule::Arc && self.lag >= STUCK * held
    }

    fn has_nothing_to_lose(&self) -> bool {
        let finds_nothing = self.arc_ratio < NOTHING && self.arc.proven() < UNPROVEN;
        !self.was_trusted && self.arc.is_full() && finds_nothing
    }

    fn take(&mut self, rule: Rule) -> Rule {
        self.rule = rule;
        self.arc_lead = 0.0;
        self.irr_lead = 0.0;
        self.credit = 0.0;
        self.lag = 0.0;
        rule
    }

    /// Halves the sample when it has grown too large, and doubles it when it has become too small.
    pub(crate) fn resample(&mut self, entries: usize) {
        if self.len() > entries && entries < ENTRIES_MIN {
            // Too few to judge by: rather begin again when there is more room.
            self.forget();
        }
        while self.sample > SAMPLE_MIN && (self.arc.resident() > RESIDENT_MAX || self.len() > entries) {
            self.change_sample(self.sample / 2);
        }
        let is_small = self.arc.resident() < RESIDENT_MAX / 4 && self.len() < entries / 4;
        if self.sample < SAMPLE_ALL && is_small && self.arc.is_full() {
            self.change_sample(self.sample * 2);
        }
    }

    /// Empties the shadows. What they had shown is no measure for what smaller ones will show.
    pub(crate) fn forget(&mut self) {
        (self.arc, self.irr) = (Shadow::new(Rule::Arc), Shadow::new(Rule::Irr));
        self.sample = SAMPLE_ALL;
        self.take(self.rule);
    }

    fn change_sample(&mut self, sample: u64) {
        self.sample = sample;
        for shadow in [&mut self.arc, &mut self.irr] {
            shadow.retain(|hash| is_sampled(hash, sample));
        }
    }

    /// Recounts the shadows.
    pub(crate) fn validate(&self) -> Result<(), String> {
        [&self.arc, &self.irr].iter().try_for_each(|shadow| shadow.validate())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: u64 = 1000;

    /// What a cache that goes by the duel's rule would do, if it changed its rule at no cost.
    struct Bout {
        duel: Duel,
        cache: [Shadow; 2],
        hits: [u64; 2],
        changes: Vec<Rule>,
    }

    impl Bout {
        fn new() -> Bout {
            let cache = [Shadow::new(Rule::Arc), Shadow::new(Rule::Irr)];
            Bout { duel: Duel::default(), cache, hits: [0; 2], changes: Vec::new() }
        }

        fn run(&mut self, keys: impl Iterator<Item = u64>) {
            for key in keys {
                let hash = key.wrapping_mul(0xd6e8_feb8_6659_fd93);
                let hits = self.cache.each_mut().map(|cache| cache.access(hash, 1, BLOCKS));
                let request = Request { hash, bytes: 1, was_hit: hits[self.duel.rule as usize] };
                let allowed = Allowed { target: BLOCKS, entries: usize::MAX };
                if let Some(rule) = self.duel.observe(request, allowed) {
                    self.changes.push(rule);
                }
                self.hits[0] += u64::from(request.was_hit);
                self.hits[1] += u64::from(hits[0]);
            }
            self.duel.validate().unwrap();
        }
    }

    /// About 1/rank, the same in every run.
    fn skewed(seed: u64, len: u64) -> impl Iterator<Item = u64> {
        let mix = |bits: u64, by: u64| (bits ^ (bits >> 29)).wrapping_mul(by);
        let roll = move |n| mix(mix(n + seed, 0xbf58_476d_1ce4_e5b9), 0x94d0_49bb_1331_11eb) >> 11;
        (0..len).map(move |n| 30_000f64.powf(roll(n) as f64 / (1u64 << 53) as f64) as u64)
    }

    #[test]
    fn a_loop_longer_than_the_cache_is_caught_in_its_first_round() {
        let mut bout = Bout::new();
        bout.run((0..20 * BLOCKS).map(|n| n % (2 * BLOCKS)));
        assert_eq!(bout.changes, [Rule::Irr]);
        let [found, by_arc] = bout.hits;
        assert!(found > 8 * BLOCKS && by_arc == 0, "{found} and {by_arc} of {}", 20 * BLOCKS);
    }

    #[test]
    fn where_the_papers_rule_is_better_it_stays() {
        let mut bout = Bout::new();
        bout.run(skewed(0, 100_000));
        assert_eq!(bout.changes, []);
    }

    #[test]
    fn a_load_that_changes_has_the_rule_change_with_it() {
        let mut bout = Bout::new();
        bout.run(skewed(0, 20_000));
        bout.run((0..40 * BLOCKS).map(|n| 1_000_000 + n % (3 * BLOCKS)));
        assert_eq!(bout.changes, [Rule::Irr]);
        // A window that moves on: only what is recent comes back.
        bout.run((0..60 * BLOCKS).map(|n| 2_000_000 + n / 2 + (n % 2) * (BLOCKS / 2)));
        assert_eq!(bout.changes, [Rule::Irr, Rule::Arc]);
    }

    #[test]
    fn a_rule_that_fails_the_cache_has_to_show_more_the_next_time() {
        let mut duel = Duel { rule: Rule::Irr, was_trusted: true, ..Duel::default() };
        let allowed = Allowed { target: BLOCKS, entries: usize::MAX };
        let mut hits = (0..).map(|n| Request { hash: n % 100, bytes: 1, was_hit: false });
        let left = hits.find_map(|request| duel.observe(request, allowed));
        assert_eq!((left, duel.patience), (Some(Rule::Arc), 4.0), "the shadow hit and the cache did not");
    }

    #[test]
    fn what_was_shown_before_the_shadows_were_emptied_changes_no_rule() {
        let mut duel = Duel { irr_lead: 100.0, lag: 100.0, was_trusted: true, ..Duel::default() };
        duel.arc.access(1, 1, BLOCKS);
        duel.resample(0);
        let request = Request { hash: 1, bytes: 1, was_hit: false };
        assert_eq!(duel.observe(request, Allowed { target: BLOCKS, entries: usize::MAX }), None);
    }

    #[test]
    fn shadows_stay_small_and_grow_again() {
        let mut duel = Duel::default();
        let mut see = |keys: std::ops::Range<u64>, target: u64, entries: usize| {
            for key in keys {
                let hash = key.wrapping_mul(0xd6e8_feb8_6659_fd93);
                if is_sampled(hash, duel.sample) {
                    duel.observe(Request { hash, bytes: 1, was_hit: false }, Allowed { target, entries });
                    assert!(duel.arc.resident() <= RESIDENT_MAX && duel.len() <= entries.max(2));
                }
            }
            (duel.sample, duel.arc.resident())
        };
        let (sample, resident) = see(0..300_000, 200_000, usize::MAX);
        assert!(sample < SAMPLE_ALL / 16 && resident > RESIDENT_MAX / 4, "{sample}: {resident}");
        let (sample, resident) = see(300_000..500_000, 1000, usize::MAX);
        assert!(sample > SAMPLE_ALL / 4 && resident > 250, "{sample}: {resident}");
        see(0..1000, 1000, 100);
        see(0..1000, 1000, 0);
    }
}
