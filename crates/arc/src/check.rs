//! The structure check: walks everything, recounts everything. Run after every test.

use std::collections::{HashMap, HashSet};

use arcwell_base::Kind;

use crate::cache::Cache;
use crate::ghost::known_bits;
use crate::header::{Header, State, UNLISTED, Word};
use crate::list::{End, Listed, Sighting};
use crate::policy::{DISTANT_CAPS, ONE, Rank};
use crate::table::Entry;

/// An invariant that does not hold: its number, and what was found instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    found: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.found)
    }
}

impl std::error::Error for Violation {}

impl From<String> for Violation {
    fn from(found: String) -> Self {
        Violation { found }
    }
}

/// Bytes by state and kind.
type Sums = [[u64; 2]; State::ALL.len()];

/// What the headers say, recounted.
#[derive(Default)]
struct Census {
    bytes: Sums,
    listed: Sums,
    guesses: [u64; 2],
    blocks: u64,
    /// What ghosts would know of the hashes of the blocks in the tables.
    hashes: HashSet<u64>,
    /// The place of each listed block, by the number of its header.
    places: HashMap<u32, (u64, State, Kind)>,
}

impl Cache {
    /// Walks the whole structure and checks every invariant of the crate's opening essay. Only
    /// meaningful while no other thread uses the cache; pins and anon blocks may be outstanding.
    ///
    /// # Errors
    /// The first invariant that is broken.
    pub fn validate(&self) -> Result<(), Violation> {
        let census = self.census()?;
        self.check_lists(&census)?;
        self.check_sums(&census)?;
        let leads = |hash, place| {
            let ghost = Entry::Ghost(place);
            self.shared.table.change(hash, |entry| entry == ghost, |found| (found, found.is_some()))
        };
        self.shared.partition.ghosts.validate(leads, |hash| census.hashes.contains(&hash))?;
        self.shared.partition.validate_trial()?;
        self.shared.arena.validate()?;
        Ok(self.check_policy()?)
    }

    /// A1, A3: what the headers say, and whether the table leads to them.
    fn census(&self) -> Result<Census, String> {
        let (mut census, shared) = (Census::default(), &self.shared);
        let mut indexed = 0;
        for number in shared.headers.numbers() {
            let header = shared.headers.at(number);
            let word = header.load();
            let Some(state) = word.state() else { continue };
            let hash = header.key().hash();
            let is_indexed = shared.table.find(hash, |found| (found == number).then_some(())).is_some();
            if is_indexed == (state == State::Anon) {
                return Err(format!("A1: in the table: {is_indexed}, but {header:?}"));
            }
            if is_indexed {
                indexed += 1;
                census.hashes.insert(known_bits(hash));
            }
            self.check_header(header, state)?;
            census.add(number, header, state, shared.bytes(header));
        }
        let (entries, ghosts) = (shared.table.len(), shared.partition.ghosts.len());
        if indexed + ghosts != entries {
            return Err(format!("A5: {entries} entries lead to {indexed} headers and {ghosts} ghosts"));
        }
        Ok(census)
    }

    fn check_header(&self, header: Header<'_>, state: State) -> Result<(), String> {
        let (word, is_listed) = (header.load(), header.listed() != UNLISTED);
        let must_be_listed = word.pins() == 0 || self.shared.keeps_used && state != State::Anon;
        let may_be_listed = state != State::Anon;
        if word.has(Word::LOCKED) {
            return Err(format!("A2: nobody is there, but locked: {header:?}"));
        }
        if must_be_listed && !is_listed || is_listed && !may_be_listed {
            return Err(format!("A2: on a list: {is_listed}, but {header:?}"));
        }
        if state == State::Uncached && !word.has(Word::GUESS) && word.pins() == 0 {
            return Err(format!("A6: used and uncached, but still there: {header:?}"));
        }
        if state == State::Mfu && word.has(Word::GUESS) {
            return Err(format!("A6: nobody asked for it, but it is in mfu: {header:?}"));
        }
        Ok(())
    }

    /// A2: each list holds exactly the blocks that say so.
    fn check_lists(&self, census: &Census) -> Result<(), String> {
        let mut met = 0;
        for (state, kind) in State::LISTED.into_iter().flat_map(|state| Kind::ALL.map(|kind| (state, kind))) {
            let list = self.shared.partition.list(state, kind);
            list.validate().map_err(|what| format!("A2: {state:?} {kind:?}: {what}"))?;
            let mut len = 0;
            for sublist in 0..list.sublists() {
                let mut seen = Sighting::new();
                list.look(sublist, End::Tail, usize::MAX, &mut seen);
                len += seen.len();
                for Listed { place, number } in seen {
                    if census.places.get(&number) != Some(&(place, state, kind)) {
                        return Err(format!("A2: {state:?} {kind:?} lists {number}, which is not there"));
                    }
                }
            }
            let counted = self.shared.partition.evictable(state, kind);
            let found = census.listed[state.index()][kind.index()];
            if len != list.len() || counted != found {
                return Err(format!("A4: {state:?} {kind:?} lists {found} bytes, counted {counted}"));
            }
            met += len;
        }
        if met != census.places.len() {
            return Err(format!("A2: {} blocks say that they are listed, {met} are", census.places.len()));
        }
        Ok(())
    }

    /// A4: the running sums are what a recount gives.
    fn check_sums(&self, census: &Census) -> Result<(), String> {
        let partition = &self.shared.partition;
        for (state, kind) in State::ALL.into_iter().flat_map(|state| Kind::ALL.map(|kind| (state, kind))) {
            let filling = if state == State::Anon { partition.filling(kind) } else { 0 };
            let found = census.bytes[state.index()][kind.index()] + filling;
            let counted = partition.bytes(state, kind);
            if found != counted {
                return Err(format!("A4: {state:?} {kind:?} holds {found} bytes, counted {counted}"));
            }
        }
        let proven = self.shared.noted.proven();
        for kind in Kind::ALL {
            // Those that were right are counted out when notes are settled.
            let found = census.guesses[kind.index()] + proven.bytes[kind.index()];
            let counted = partition.guesses(kind);
            if found != counted {
                return Err(format!("A4: {found} bytes of {kind:?} are guesses, counted {counted}"));
            }
        }
        let counted = self.shared.blocks();
        if counted != census.blocks {
            return Err(format!("A4: {} blocks, counted {counted}", census.blocks));
        }
        Ok(())
    }

    /// A7: targets and ghosts are within their bounds.
    fn check_policy(&self) -> Result<(), String> {
        let shared = &self.shared;
        let (shares, ghosts) = (shared.partition.shares(), shared.partition.ghosts.bytes());
        if shares.meta > ONE || shares.recency.iter().any(|&share| share > ONE) {
            return Err(format!("A7: {shares:?}"));
        }
        let target = shared.target();
        for kind in Kind::ALL {
            let remembered: u64 = Rank::ALL.iter().map(|rank| ghosts[rank.index()][kind.index()]).sum();
            let distant = shared.partition.ghosts.distant()[kind.index()];
            if remembered > target || distant > DISTANT_CAPS.saturating_mul(target) {
                let all = format!("{remembered} bytes and {distant} distant ones");
                return Err(format!("A7: ghosts of {all} of {kind:?}, target {target}"));
            }
        }
        Ok(())
    }
}

impl Census {
    fn add(&mut self, number: u32, header: Header<'_>, state: State, bytes: u64) {
        let (word, kind) = (header.load(), header.load().kind());
        self.blocks += 1;
        self.bytes[state.index()][kind.index()] += bytes;
        if word.is_mru_guess() {
            self.guesses[kind.index()] += bytes;
        }
        if header.listed() != UNLISTED {
            self.listed[state.index()][kind.index()] += bytes;
            self.places.insert(number, (header.listed(), state, kind));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{GhostHit, Past, Tick};
    use crate::sync::Ordering;
    use crate::{Admit, Asked, Config, Keep};
    use arcwell_base::{BlockKey, ObjectId};

    /// A cache with resident blocks and ghosts that something is done to.
    fn complaint(damage: impl FnOnce(&Cache)) -> String {
        let cache = Cache::new(Config::new(64 << 10));
        for index in 0..100 {
            let key = BlockKey::new(ObjectId(1), index);
            let how = Admit { asked: Asked::Demand, keep: Keep::Cached };
            drop(cache.admit(key, Kind::Data, 1000, how).unwrap().publish());
            cache.lookup(BlockKey::new(ObjectId(1), index / 2), Kind::Data, Asked::Demand);
        }
        cache.validate().unwrap();
        damage(&cache);
        cache.validate().unwrap_err().to_string()
    }

    fn some_header(cache: &Cache, change: impl FnOnce(Header<'_>)) {
        let headers = &cache.shared.headers;
        let number = headers.numbers().find(|&number| headers.at(number).load().state().is_some()).unwrap();
        change(headers.at(number));
    }

    fn some_word(cache: &Cache, change: impl Fn(Word) -> Word) {
        some_header(cache, |header| _ = header.update(|word| Some(change(word))));
    }

    #[test]
    fn damage_of_every_kind_is_found() {
        let a = |text: String| text[..2].to_owned();
        assert_eq!(a(complaint(|c| some_word(c, |word| word.with_state(State::Anon)))), "A1");
        assert_eq!(a(complaint(|c| some_header(c, |h| h.0.0[1].store(1 << 40, Ordering::Relaxed)))), "A1");
        assert_eq!(a(complaint(|c| some_header(c, |h| h.set_listed(UNLISTED)))), "A2");
        assert_eq!(a(complaint(|c| some_word(c, |word| Word(word.0 ^ 1 << 25)))), "A2");
        assert_eq!(
            a(complaint(|c| some_header(c, |h| _ = h.0.0[4].fetch_add(100, Ordering::Relaxed)))),
            "A4"
        );
        let enter = |c: &Cache| c.shared.partition.shift(State::Mfu, State::Mru, Kind::Data, 1);
        assert_eq!(a(complaint(enter)), "A4");
        assert_eq!(a(complaint(|c| c.shared.partition.enter_guess(Kind::Data, 1))), "A4");
        let (past, tick) = (Past::Mru, Tick::default());
        let ghost = GhostHit { past, kind: Kind::Data, bytes: 1 << 20, tick };
        let distant = GhostHit { past: Past::Distant, ..ghost };
        let haunted = |c: &Cache, hash: u64, ghost: GhostHit| {
            let place = c.shared.partition.ghosts.insert(hash, ghost);
            c.shared.table.change(hash, |_| false, |_| (Some(Entry::Ghost(place)), ()));
        };
        let haunt = |c: &Cache| some_header(c, |h| haunted(c, h.key().hash(), ghost));
        assert_eq!(a(complaint(|c| haunted(c, 1, ghost))), "A7");
        assert_eq!(a(complaint(|c| haunted(c, 1, distant))), "A7");
        assert_eq!(a(complaint(|c| _ = c.shared.partition.ghosts.insert(1, ghost))), "A5");
        assert_eq!(a(complaint(haunt)), "A5");
    }
}
