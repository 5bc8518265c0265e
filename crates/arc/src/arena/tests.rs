//! The arena as its users see it: against a model, with many threads, and against what the kernel counts.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;

use super::buffer::Buffer;
use super::chunks::CHUNK;
use super::*;

/// Bytes of the arena that the process holds memory for, as the kernel sees it.
pub(super) fn held_by_kernel(arena: &Arena) -> u64 {
    let pages = arena.region.len() / PAGE;
    let mut entries = vec![0; pages * 8];
    let first = arena.region.base().as_ptr() as u64 / PAGE as u64;
    File::open("/proc/self/pagemap").unwrap().read_exact_at(&mut entries, first * 8).unwrap();
    let present = entries.as_chunks::<8>().0.iter().filter(|entry| entry[7] >> 7 == 1);
    present.count() as u64 * PAGE as u64
}

/// Numbers that look random: xorshift, G. Marsaglia, 2003.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    /// Less than `below`.
    pub(super) fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

/// How long the next buffer is.
pub(super) type Lens = fn(&mut Dice) -> usize;

/// Buffers that come and go at random, with so many bytes in all, and each page of them written to.
pub(super) struct Churn<'a> {
    arena: &'a Arena,
    buffers: Vec<Buffer<&'a Arena>>,
    bytes: usize,
    pages: usize,
    total: usize,
    dice: Dice,
    lens: Lens,
}

impl<'a> Churn<'a> {
    pub(super) fn new(arena: &'a Arena, total: usize, lens: Lens) -> Self {
        let mut churn = Churn {
            arena,
            buffers: Vec::new(),
            bytes: 0,
            pages: 0,
            total,
            dice: Dice(0x9e37_79b9_7f4a_7c15),
            lens,
        };
        while churn.bytes < total {
            churn.add();
        }
        churn
    }

    fn add(&mut self) {
        let mut buffer = Buffer::new(self.arena, (self.lens)(&mut self.dice)).unwrap();
        buffer.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
        self.bytes += buffer.len();
        self.pages += buffer.len().div_ceil(PAGE);
        self.buffers.push(buffer);
    }

    /// Adds a buffer, and drops others while there are more bytes than there should be. Says how many
    /// operations that were.
    pub(super) fn step(&mut self) -> usize {
        self.add();
        let mut steps = 1;
        while self.bytes > self.total {
            let dropped = self.buffers.swap_remove(self.dice.roll(self.buffers.len()));
            self.bytes -= dropped.len();
            steps += 1;
        }
        steps
    }

    /// Pages that were written to.
    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    /// Drops buffers at random until so many bytes are left.
    pub(super) fn shrink(&mut self, total: usize) {
        while self.bytes > total {
            let dropped = self.buffers.swap_remove(self.dice.roll(self.buffers.len()));
            self.bytes -= dropped.len();
        }
    }
}

/// 4 KiB to 1 MiB, each length as likely as the others.
pub(super) fn even(dice: &mut Dice) -> usize {
    4096 + dice.roll((1 << 20) - 4095)
}

/// 4 KiB to 1 MiB, each power of two as likely as the others.
pub(super) fn log(dice: &mut Dice) -> usize {
    let power = 4096 << dice.roll(8);
    power + dice.roll(power + 1)
}

fn fill(bytes: &mut [u8], with: u64) {
    bytes.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&with.to_le_bytes()[..chunk.len()]));
}

fn is_filled(bytes: &[u8], with: u64) -> bool {
    bytes.chunks(8).all(|chunk| *chunk == with.to_le_bytes()[..chunk.len()])
}

fn assert_empty(arena: &Arena) {
    arena.validate().unwrap();
    assert_eq!(arena.payload(), 0);
    arena.give_back();
    arena.validate().unwrap();
    assert_eq!((arena.resident(), held_by_kernel(arena)), (0, 0));
    let central = arena.central.lock();
    assert_eq!(central.extents.runs().count(), 1, "everything is one run again");
}

#[derive(Debug, Clone)]
enum Act {
    Alloc(usize),
    Free(usize),
    Shrink(usize, usize),
    GiveBack,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let len = prop_oneof![1..300_usize, 1..4097_usize, 4000..100_000_usize, 1..3_000_000_usize];
    let act = prop_oneof![
        5 => len.prop_map(Act::Alloc),
        4 => any::<usize>().prop_map(Act::Free),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(at, to)| Act::Shrink(at, to)),
        1 => Just(Act::GiveBack),
    ];
    proptest::collection::vec(act, 1..200)
}

/// Buffers by where they begin, with the mark that fills them.
type Model<'a> = BTreeMap<usize, (Buffer<&'a Arena>, u64)>;

fn insert<'a>(model: &mut Model<'a>, buffer: Buffer<&'a Arena>, mark: u64) {
    let (start, end) = (buffer.as_ptr() as usize, buffer.as_ptr() as usize + buffer.len());
    assert!(start.is_multiple_of(if buffer.len() < PAGE { GRAIN } else { PAGE }));
    if let Some((before, (its, _))) = model.range(..end).next_back() {
        assert!(before + its.len() <= start, "{start:x} lies in a buffer at {before:x}");
    }
    model.insert(start, (buffer, mark));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn buffers_never_overlap_and_keep_their_bytes(acts in acts()) {
        let arena = Arena::new(1 << 30).unwrap();
        let mut model = Model::new();
        for (mark, act) in acts.into_iter().enumerate() {
            let pick = |at: usize, model: &Model| model.keys().nth(at % model.len().max(1)).copied();
            match act {
                Act::Alloc(len) => {
                    let mut buffer = Buffer::new(&arena, len).unwrap();
                    prop_assert_eq!(buffer.len(), len);
                    fill(&mut buffer, mark as u64);
                    insert(&mut model, buffer, mark as u64);
                }
                Act::Free(at) => {
                    if let Some((buffer, mark)) = pick(at, &model).and_then(|at| model.remove(&at)) {
                        prop_assert!(is_filled(&buffer, mark));
                    }
                }
                Act::Shrink(at, to) => {
                    if let Some((mut buffer, mark)) = pick(at, &model).and_then(|at| model.remove(&at)) {
                        let to = to % (buffer.len() + 1);
                        prop_assert!(buffer.truncate(to) && buffer.len() == to && is_filled(&buffer, mark));
                        if to > 0 {
                            insert(&mut model, buffer, mark);
                        }
                    }
                }
                Act::GiveBack => {
                    arena.give_back();
                    prop_assert!(held_by_kernel(&arena) <= arena.resident());
                }
            }
            arena.validate().unwrap();
            let taken = model.values().map(|(buffer, _)| Arena::taken(buffer.len()));
            prop_assert_eq!(arena.payload(), taken.sum::<u64>());
        }
        for (buffer, mark) in std::mem::take(&mut model).into_values() {
            prop_assert!(is_filled(&buffer, mark));
        }
        assert_empty(&arena);
    }
}

#[test]
fn threads_that_hand_buffers_on_find_their_bytes() {
    let arena = Arc::new(Arena::new(4 << 30).unwrap());
    let handed = Mutex::new(Vec::<(Buffer<Arc<Arena>>, u64)>::new());
    std::thread::scope(|scope| {
        for thread in 1..=8_u64 {
            let (arena, handed) = (&arena, &handed);
            scope.spawn(move || {
                let mut dice = Dice(thread << 32 | 1);
                let mut own = Vec::new();
                for step in 0..20_000 {
                    let len = [1 + dice.roll(4000), 8192, 1 + dice.roll(30_000), 1 + dice.roll(600_000)];
                    let len = len[dice.roll(if step % 8 == 0 { 4 } else { 3 })];
                    let mut buffer = Buffer::new(arena.clone(), len).unwrap();
                    let mark = thread << 32 | step;
                    fill(&mut buffer, mark);
                    own.push((buffer, mark));
                    if own.len() > 40 {
                        let other = own.swap_remove(dice.roll(own.len()));
                        let mut handed = handed.lock();
                        handed.push(other);
                        let at = dice.roll(handed.len());
                        let (mut other, mark) = handed.swap_remove(at);
                        drop(handed);
                        assert!(is_filled(&other, mark), "{mark:x} has other bytes");
                        if dice.roll(4) == 0 {
                            let to = dice.roll(other.len() + 1);
                            assert!(other.truncate(to) && is_filled(&other, mark));
                        }
                    }
                    if step % 5000 == 0 {
                        arena.give_back();
                    }
                }
                for (buffer, mark) in own {
                    assert!(is_filled(&buffer, mark), "{mark:x} has other bytes");
                }
            });
        }
    });
    drop(handed);
    assert_empty(&arena);
}

#[test]
fn bytes_of_a_place_that_was_given_back_change() {
    // The negative control of the two tests above: what they look for is seen when it happens.
    let arena = Arena::new(1 << 30).unwrap();
    let mut first = Buffer::new(&arena, 8192).unwrap();
    fill(&mut first, 1);
    let (place, len) = first.into_place();
    // SAFETY: given back once; the buffer made of it below is forgotten before anything is dropped.
    unsafe { arena.free(place, len) };
    let mut second = Buffer::new(&arena, 8192).unwrap();
    fill(&mut second, 2);
    // SAFETY: none: two have the same bytes. This thread alone looks at them, one after the other.
    let stale = unsafe { Buffer::from_place(&arena, place, len) };
    assert!(!is_filled(&stale, 1));
    let overlap = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut model = Model::new();
        insert(&mut model, second, 2);
        insert(&mut model, stale, 1);
    }));
    assert!(overlap.is_err());
}

#[test]
#[should_panic(expected = "R1")]
fn pages_given_back_twice_are_noticed() {
    let arena = Arena::new(1 << 30).unwrap();
    let place = arena.alloc(1 << 20).unwrap();
    // SAFETY: none for the second: it panics, and nobody uses the place.
    unsafe {
        arena.free(place, 1 << 20);
        arena.free(place, 1 << 20);
    }
}

#[test]
fn a_sum_that_is_off_is_found() {
    let arena = Arena::new(1 << 30).unwrap();
    let _buffer = Buffer::new(&arena, 100).unwrap();
    arena.validate().unwrap();
    arena.lanes.mine().count_taken(16);
    assert!(arena.validate().unwrap_err().to_string().contains("R6"));
}

#[test]
fn churn_leaves_little_idle_and_shrinking_gives_memory_back() {
    const TOTAL: usize = 256 << 20;
    let arena = Arena::new(2 << 30).unwrap();
    for lens in [even as Lens, log] {
        let mut churn = Churn::new(&arena, TOTAL, lens);
        for _ in 0..4000 {
            churn.step();
        }
        arena.validate().unwrap();
        let (payload, held) = (arena.payload(), held_by_kernel(&arena));
        assert!(held <= arena.resident(), "{held} held, {} known", arena.resident());
        assert!(held <= payload + payload / Arena::SLACK, "{payload} of {held}");
        churn.shrink(TOTAL / 8);
        arena.give_back();
        let (payload, held) = (arena.payload(), held_by_kernel(&arena));
        assert!(held == arena.resident() && payload as f64 >= 0.99 * held as f64, "{payload} of {held}");
        drop(churn);
        assert_empty(&arena);
    }
}

#[test]
fn pages_of_slabs_come_back_when_no_slot_needs_them() {
    let arena = Arena::new(1 << 30).unwrap();
    let mut small: Vec<_> = (0..50_000).map(|at| Buffer::new(&arena, 16 + at % 500).unwrap()).collect();
    let full = arena.resident();
    let mut at = 0;
    small.retain(|_| (at += 1, at % 40 == 0).1);
    arena.give_back();
    arena.validate().unwrap();
    assert!(arena.resident() < full / 2, "{} of {full} for {}", arena.resident(), arena.payload());
    assert!(held_by_kernel(&arena) <= arena.resident());
    small.clear();
    assert_empty(&arena);
}

#[test]
fn chunks_are_huge_while_they_fill_and_not_once_they_have_holes() {
    let arena = Arena::new(1 << 30).unwrap();
    let buffers: Vec<_> = (0..8192).map(|_| Buffer::new(&arena, 8192).unwrap()).collect();
    if arena.central.lock().chunks.marked().count() == 0 {
        return eprintln!("SKIPPED: the kernel knows no huge pages");
    }
    let mut at = 0;
    let mut rest = buffers;
    rest.retain(|_| (at += 1, at % 2 == 0).1);
    arena.give_back();
    arena.validate().unwrap();
    assert_eq!(arena.central.lock().chunks.marked().count(), 0);
    rest.clear();
    arena.give_back();
    let _again: Vec<_> = (0..8192).map(|_| Buffer::new(&arena, 8192).unwrap()).collect();
    arena.validate().unwrap();
    assert!(arena.central.lock().chunks.marked().count() > 24);
}

#[test]
fn when_address_space_ends_there_is_no_buffer_but_idle_memory_is_found() {
    let arena = Arena::new(HUGE_PAGE as u64).unwrap();
    let mut small: Vec<_> = (0..CHUNK).map_while(|_| Buffer::new(&arena, 4096)).collect();
    assert_eq!(small.len(), CHUNK as usize);
    assert!(Buffer::new(&arena, 1).is_none() && Buffer::new(&arena, 0).is_some());
    let page = small.last_mut().unwrap();
    assert!(!page.truncate(10) && page.len() == 4096, "there is no place for a slab");
    small.clear();
    assert!(Buffer::new(&arena, HUGE_PAGE).is_some());
    assert!(arena.alloc(0).is_none() && arena.alloc(1 << 32).is_none());
    assert!(Arena::new(1 << 44).is_err());
}
