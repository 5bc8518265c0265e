//! Memory of the index's own: the island of unsafe code where its slots come from.
//!
//! An [`Arena`] is one stretch of reserved address space that becomes memory page by page. It gives out pages of
//! 4 KiB, and grains of 512 bytes into which it splits some of them. A [`Row`] is what a shard holds: so many whole
//! pages as its slots fill, and grains for the rest. All that is beyond need is therefore less than a grain a
//! row, and what lies idle in the arena: some pages for the next who asks ([`Free::keeps`]), and the free grains of
//! split pages. All other pages that come back go back to the machine. A general allocator would round a
//! row's length up to one of its classes and leave holes where rows were before they grew.
//!
//! # Contract
//!
//! - A chunk (page or grain) has one owner: the row whose list names it, or the arena. Only a row reaches bytes,
//!   and it checks each slot against its length; so shared borrows of a row read and an exclusive one
//!   writes, as with a `Vec`.
//! - A slot's bytes are initialised: zeroes of the kernel, or what an earlier owner left. A packed entry may
//!   have any bits.
//! - A row holds the arena, which is unmapped when the last row has gone.
//!
//! # Who locks what
//!
//! The arena's lock ("l2.arena") is taken when a row changes its length, under the shard's, and no other under it.

use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::Arc;

use arcwell_base::lock::Mutex;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use smallvec::SmallVec;

use super::entry::Packed;

/// Slots in a grain, the smallest piece.
pub(super) const GRAIN: usize = 32;
/// Slots in a page.
const PAGE: usize = 256;
const GRAINS: u32 = (PAGE / GRAIN) as u32;
const PAGE_BYTES: usize = PAGE * size_of::<Packed>();

const _: () = assert!(PAGE_BYTES == 4096);

/// Address space for three and a half billion blocks; less if there is not so much.
const RESERVE: usize = 64 << 30;
const RESERVE_MIN: usize = 64 << 20;

/// See the module's doc.
#[derive(Debug)]
pub(super) struct Arena {
    base: NonNull<Packed>,
    bytes: usize,
    free: Mutex<Free>,
}

// SAFETY: the address range is the arena's alone, and all access to its bytes goes through rows, each of which
// owns the chunks that it names.
unsafe impl Send for Arena {}
// SAFETY: as above; what else the arena has is behind a lock.
unsafe impl Sync for Arena {}

/// What no row has. Chunks are numbered by grains: the number of a page is a multiple of [`GRAINS`].
#[derive(Debug, Default)]
struct Free {
    /// Pages from here on were never given out.
    fresh: u32,
    /// Pages that there is address space for.
    pages: u32,
    /// Pages with memory.
    idle: Vec<u32>,
    /// Pages that were given back to the machine.
    bare: Vec<u32>,
    /// Of split pages with free grains, a bit for each of those.
    split: BTreeMap<u32, u8>,
}

impl Free {
    fn take_page(&mut self) -> Option<u32> {
        if let Some(page) = self.idle.pop().or_else(|| self.bare.pop()) {
            return Some(page);
        }
        let page = self.fresh;
        (page < self.pages).then(|| {
            self.fresh += 1;
            page * GRAINS
        })
    }

    fn take_grain(&mut self) -> Option<u32> {
        // The first page that has one: so that others become free as a whole.
        if let Some(mut first) = self.split.first_entry() {
            let (page, bits) = (*first.key(), *first.get());
            *first.get_mut() = bits & (bits - 1);
            if bits & (bits - 1) == 0 {
                first.remove();
            }
            return Some(page + bits.trailing_zeros());
        }
        let page = self.take_page()?;
        self.split.insert(page, 0xfe);
        Some(page)
    }

    /// Takes a grain back, and says whether its page is whole again.
    fn give_grain(&mut self, grain: u32) -> Option<u32> {
        let page = grain / GRAINS * GRAINS;
        let bits = self.split.entry(page).or_default();
        *bits |= 1 << (grain - page);
        (*bits == 0xff).then(|| {
            self.split.remove(&page);
            page
        })
    }

    /// Pages that have memory.
    fn held(&self) -> usize {
        self.fresh as usize - self.bare.len()
    }

    /// Pages that may lie idle.
    fn keeps(&self) -> usize {
        16 + self.held() / 128
    }
}

impl Arena {
    /// An arena in as much address space as there is: perhaps none, and then nothing can be taken from it.
    pub(super) fn new() -> Arena {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        let mut bytes = RESERVE;
        while bytes >= RESERVE_MIN {
            // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing of ours.
            let mapped = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, prot, flags) };
            if let Some(base) = mapped.ok().and_then(|mapped| NonNull::new(mapped.cast::<Packed>())) {
                // A huge page would come and stay as a whole, whatever of it is in use (L5).
                // SAFETY: this advice changes no byte of what was just mapped.
                let told =
                    unsafe { rustix::mm::madvise(base.as_ptr().cast(), bytes, Advice::LinuxNoHugepage) };
                // A kernel that does not know huge pages does not know how to leave them out.
                let _ = told;
                let pages = (bytes / PAGE_BYTES) as u32;
                return Arena {
                    base,
                    bytes,
                    free: Mutex::new("l2.arena", Free { pages, ..Free::default() }),
                };
            }
            bytes /= 2;
        }
        Arena { base: NonNull::dangling(), bytes: 0, free: Mutex::named("l2.arena") }
    }

    /// Bytes of memory that it holds: in rows, and idle.
    pub(super) fn held(&self) -> u64 {
        let free = self.free.lock();
        let numbers = free.idle.capacity() + free.bare.capacity() + 4 * free.split.len();
        (free.held() * PAGE_BYTES + numbers * size_of::<u32>()) as u64
    }

    /// Takes chunks back, of which the first `pages` are pages.
    fn give(&self, chunks: impl Iterator<Item = u32>, pages: usize) {
        let mut free = self.free.lock();
        for (place, chunk) in chunks.enumerate() {
            let page = if place < pages { Some(chunk) } else { free.give_grain(chunk) };
            match page {
                Some(page) if free.idle.len() < free.keeps() => free.idle.push(page),
                Some(page) => {
                    let address = self.base.as_ptr().wrapping_add(page as usize * GRAIN);
                    // SAFETY: the page lies in our mapping, no row has it, and nobody can take it while
                    // the lock is held.
                    let given =
                        unsafe { rustix::mm::madvise(address.cast(), PAGE_BYTES, Advice::LinuxDontNeed) };
                    if given.is_ok() { free.bare.push(page) } else { free.idle.push(page) }
                }
                None => {}
            }
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the mapping is ours, and every row that borrowed from it has held the arena.
            let unmapped = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
            debug_assert!(unmapped.is_ok(), "{unmapped:?}");
        }
    }
}

/// Slots in a row, a multiple of [`GRAIN`].
#[derive(Debug)]
pub(super) struct Row {
    arena: Arc<Arena>,
    /// Chunks: whole pages, then grains.
    chunks: SmallVec<[u32; 4]>,
    slots: u32,
}

impl Row {
    /// A row without slots.
    pub(super) fn new(arena: Arc<Arena>) -> Row {
        Row { arena, chunks: SmallVec::new(), slots: 0 }
    }

    /// Its slots.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slots as usize
    }

    /// Bytes of memory that its list takes beside it.
    pub(super) fn beside(&self) -> usize {
        if self.chunks.spilled() { self.chunks.capacity() * size_of::<u32>() } else { 0 }
    }

    /// Where a slot lies, and the slots of its chunk before it and from it on.
    #[inline]
    fn locate(&self, slot: usize) -> (NonNull<Packed>, usize, usize) {
        let len = self.slots as usize;
        assert!(slot < len, "slot {slot} of {len}");
        let whole = len / PAGE * PAGE;
        let (chunk, before, size) = if slot < whole {
            (self.chunks[slot / PAGE], slot % PAGE, PAGE)
        } else {
            (self.chunks[whole / PAGE + (slot - whole) / GRAIN], slot % GRAIN, GRAIN)
        };
        // SAFETY: a chunk that a row names lies within the arena's mapping with all of its slots.
        let place = unsafe { self.arena.base.add(chunk as usize * GRAIN + before) };
        (place, before, size - before)
    }

    /// What is in a slot.
    #[inline]
    pub(super) fn get(&self, slot: usize) -> Packed {
        let (place, ..) = self.locate(slot);
        // SAFETY: the slot is this row's, initialised, and nobody writes to it while the row is borrowed.
        unsafe { place.read() }
    }

    /// Puts something into a slot.
    #[inline]
    pub(super) fn set(&mut self, slot: usize, entry: Packed) {
        let (place, ..) = self.locate(slot);
        // SAFETY: the slot is this row's, which is borrowed exclusively.
        unsafe { place.write(entry) }
    }

    /// The slots from this one to the end of its chunk.
    #[inline]
    pub(super) fn from(&self, slot: usize) -> &[Packed] {
        let (place, _, rest) = self.locate(slot);
        // SAFETY: a chunk's slots follow each other, are initialised, and nobody writes to them while the row
        // is borrowed.
        unsafe { std::slice::from_raw_parts(place.as_ptr(), rest) }
    }

    /// All chunks, one after the other.
    pub(super) fn chunks(&self) -> impl Iterator<Item = &[Packed]> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let run = (from < self.len()).then(|| self.from(from))?;
            from += run.len();
            Some(run)
        })
    }

    /// The chunk that a slot lies in, to be changed: its first slot, and all of them.
    #[inline]
    pub(super) fn chunk_of(&mut self, slot: usize) -> (usize, &mut [Packed]) {
        let (place, before, rest) = self.locate(slot);
        // SAFETY: as in `from`, with those before, and the row is borrowed exclusively.
        let run = unsafe { std::slice::from_raw_parts_mut(place.sub(before).as_ptr(), before + rest) };
        (slot - before, run)
    }

    /// The slots from the beginning of this one's chunk up to this one, itself among them.
    #[inline]
    pub(super) fn up_to(&self, slot: usize) -> &[Packed] {
        let (place, before, _) = self.locate(slot);
        // SAFETY: as in `from`: `before` slots of the chunk precede this one.
        unsafe { std::slice::from_raw_parts(place.sub(before).as_ptr(), before + 1) }
    }

    /// Has a slot fetched from memory, if there is one.
    #[inline]
    pub(super) fn prefetch(&self, slot: usize) {
        if slot < self.len() {
            let (place, ..) = self.locate(slot);
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a hint, which any address may be given to.
            unsafe {
                use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
                _mm_prefetch::<_MM_HINT_T0>(place.as_ptr().cast());
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = place;
        }
    }

    /// Makes it a row of `slots` slots, a multiple of [`GRAIN`]. Those that stay keep what is in them; new ones have
    /// anything. Says whether there was enough memory; else all is as before.
    pub(super) fn resize(&mut self, slots: usize) -> bool {
        let shape = |slots: usize| (slots / PAGE, slots % PAGE / GRAIN);
        let ((old_pages, old_grains), (pages, grains)) = (shape(self.len()), shape(slots));
        debug_assert!(slots.is_multiple_of(GRAIN) && slots <= u32::MAX as usize);
        let kept_pages = old_pages.min(pages);
        // Where pages come or go, grains turn into a page or a page into grains.
        let kept_grains = if pages == old_pages { old_grains.min(grains) } else { 0 };
        let mut chunks: SmallVec<[u32; 4]> = SmallVec::new();
        chunks.reserve_exact(pages + grains);
        chunks.extend_from_slice(&self.chunks[..kept_pages]);
        chunks.extend_from_slice(&self.chunks[kept_pages..][..kept_grains]);
        {
            let arena = Arc::clone(&self.arena);
            let mut free = arena.free.lock();
            let fresh_from = chunks.len();
            while chunks.len() < pages + grains {
                let chunk = if chunks.len() < pages { free.take_page() } else { free.take_grain() };
                let Some(chunk) = chunk else {
                    drop(free);
                    let new_pages = pages.saturating_sub(fresh_from);
                    arena.give(chunks[fresh_from..].iter().copied(), new_pages);
                    return false;
                };
                chunks.push(chunk);
            }
        }
        let (from, until) = (kept_pages * PAGE, self.len().min(slots).min((kept_pages + 1) * PAGE));
        let moved: SmallVec<[Packed; PAGE]> = if pages == old_pages {
            SmallVec::new()
        } else {
            (from..until).map(|slot| self.get(slot)).collect()
        };
        let old = std::mem::replace(&mut self.chunks, chunks);
        self.slots = slots as u32;
        for (slot, entry) in (from..).zip(moved) {
            self.set(slot, entry);
        }
        let old_kept = kept_pages + kept_grains;
        self.arena.give(old[old_kept..].iter().copied(), old_pages - kept_pages);
        true
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        self.resize(0);
    }
}
