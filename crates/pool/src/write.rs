//! Writing: through to the origin, then into the cache.
//!
//! A write is acknowledged when the origin has it. Blocks that it covers, or whose rest is in the
//! cache, are replaced by what they are now; of others nothing is kept. Readers that hold a block keep
//! the bytes they have: a block is never changed in place. Other changes of a file's contents
//! (truncation, `fallocate`) drop the blocks that they touch.

use arcwell_arc::{Admit, Asked, Keep, Pin};
use arcwell_base::{BlockKey, Kind, Result};

use crate::dataset::Dataset;
use crate::file::OpenFile;
use crate::znode::{ObjectIdentity, Znode};

/// How a write is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteHow {
    /// At the end of the file, wherever that is by now.
    pub append: bool,
    /// Whether setuid and setgid are cleared: the writer may not keep them.
    pub kill_privileges: bool,
}

/// Blocks that are dropped one by one; a change of more makes a new object of the file.
const DROP_MAX: u64 = 65_536;

impl OpenFile {
    /// Writes `data` at `offset`; bytes written, fewer than asked only when the origin is full.
    ///
    /// # Errors
    /// The origin's; EROFS on a read-only dataset.
    pub fn write(&self, offset: u64, data: &[u8], how: WriteHow) -> Result<u64> {
        let dataset = &*self.dataset;
        let node = &*self.node;
        dataset.writable("write")?;
        if data.is_empty() {
            return Ok(0);
        }
        let stats = &dataset.shared.stats;
        stats.writes.add(1);
        let _changing = dataset.begin(&[&self.node]);
        dataset.verify_before(node)?;
        let before = node.identity();
        let written = match dataset.origin.write(node, offset, data, how.append) {
            Ok(written) => written,
            Err(error) => {
                // Some of it may have been written all the same.
                let from = if how.append { 0 } else { offset };
                let to = if how.append { u64::MAX } else { offset.saturating_add(data.len() as u64) };
                dataset.drop_range(node, from, to)?;
                dataset.doubt_size(node);
                return Err(error);
            }
        };
        stats.write_bytes.add(written.bytes);
        let end = written.offset + written.bytes;
        if written.stat.size == end.max(before.version.size) {
            let patch = Patch { offset: written.offset, data: &data[..written.bytes as usize], before };
            dataset.patch(node, &patch, written.stat.size);
        } else {
            // Somebody else changed the length at the same time.
            dataset.renew(node)?;
        }
        dataset.drop_capability(node);
        let outcome = match how.kill_privileges {
            true => dataset.kill_privileges(node, written.stat),
            false => Ok(written.stat),
        };
        dataset.settle(node, outcome.as_ref().unwrap_or(&written.stat));
        outcome.inspect_err(|_| dataset.doubt(node))?;
        Ok(written.bytes)
    }
}

/// Bytes that were written to a file that was `before`.
struct Patch<'a> {
    offset: u64,
    data: &'a [u8],
    before: ObjectIdentity,
}

/// How one block comes out of a patch.
struct Patched<'a> {
    key: BlockKey,
    /// What the block holds before the written part, and after it.
    base: Option<Pin>,
    len: usize,
    /// Where the written part begins in the block.
    at: usize,
    data: &'a [u8],
}

impl Dataset {
    /// Brings cached blocks up to date with a write.
    fn patch(&self, node: &Znode, patch: &Patch<'_>, size: u64) {
        let record_size = u64::from(patch.before.record_size);
        let end = patch.offset + patch.data.len() as u64;
        let blocks = patch.offset / record_size..end.div_ceil(record_size);
        let old_size = patch.before.version.size;
        let tail = old_size / record_size;
        if size > old_size && !old_size.is_multiple_of(record_size) && !blocks.contains(&tail) {
            // The block at the old end has become longer by zeroes.
            self.blocks.remove(BlockKey::new(patch.before.object, tail));
        }
        for index in blocks {
            let key = BlockKey::new(patch.before.object, index);
            let is_kept = self.properties.primarycache.covers(Kind::Data);
            match is_kept.then(|| self.patched(patch, index, size)).flatten() {
                Some(patched) if self.keep_patched(&patched) => {
                    if !node.has_data.swap(true, std::sync::atomic::Ordering::Relaxed) {
                        self.remember(node, &patch.before);
                    }
                }
                _ => _ = self.blocks.remove(key),
            }
        }
    }

    /// What block `index` is after a patch, if that can be known without asking the origin.
    fn patched<'a>(&self, patch: &Patch<'a>, index: u64, size: u64) -> Option<Patched<'a>> {
        let record_size = u64::from(patch.before.record_size);
        let start = index * record_size;
        let end = patch.offset + patch.data.len() as u64;
        let (from, to) = (patch.offset.max(start), end.min(start + record_size));
        let data = &patch.data[(from - patch.offset) as usize..(to - patch.offset) as usize];
        let len = (size - start).min(record_size) as usize;
        let old_len = patch.before.version.size.saturating_sub(start).min(record_size) as usize;
        let key = BlockKey::new(patch.before.object, index);
        let at = (from - start) as usize;
        let covers_all = at == 0 && data.len() >= old_len;
        let base = match covers_all || old_len == 0 {
            true => None,
            // Only a block of just the old length is what it seems.
            false => Some(self.blocks.peek(key).filter(|pin| pin.len() == old_len)?),
        };
        Some(Patched { key, base, len, at, data })
    }

    fn keep_patched(&self, patched: &Patched<'_>) -> bool {
        let how = Admit { asked: Asked::Demand, keep: Keep::Cached };
        let Ok(mut anon) = self.blocks.admit(patched.key, Kind::Data, patched.len, how) else {
            return false;
        };
        let base = patched.base.as_deref().unwrap_or_default();
        let known = base.len().min(patched.len);
        anon[..known].copy_from_slice(&base[..known]);
        let (at, end) = (patched.at, patched.at + patched.data.len());
        // A write beyond the old end leaves a hole, which reads as zeroes.
        anon[known..at.max(known)].fill(0);
        anon[at..end].copy_from_slice(patched.data);
        anon[end.max(known)..].fill(0);
        self.blocks.replace(anon);
        true
    }

    /// After a change of length by us, within it: blocks whose bytes or length are no longer right go.
    pub(crate) fn resized(&self, node: &Znode, before: u64, after: u64) -> Result<()> {
        if before == after {
            return Ok(());
        }
        let record_size = u64::from(node.identity().record_size);
        let shorter = before.min(after);
        self.drop_range(node, shorter - shorter % record_size, before)
    }

    /// Drops cached blocks that hold any byte of `from..to`, within a change.
    pub(crate) fn drop_range(&self, node: &Znode, from: u64, to: u64) -> Result<()> {
        let identity = node.identity();
        let record_size = u64::from(identity.record_size);
        let blocks = from / record_size..to.min(identity.version.size).div_ceil(record_size);
        if blocks.end.saturating_sub(blocks.start) > DROP_MAX {
            return self.renew(node);
        }
        for index in blocks {
            self.blocks.remove(BlockKey::new(identity.object, index));
        }
        Ok(())
    }

    /// Makes a new object of a file, so that no old block is found again, within a change.
    pub(crate) fn renew(&self, node: &Znode) -> Result<()> {
        let object = self.shared.objects.next()?;
        node.identity.lock().object = object;
        self.shared.objects.forget(self.id, node.id);
        node.has_data.store(false, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    /// After a change of contents whose outcome is not known: asks for the length at once, as reads
    /// are cut by it; failing that the file is doubted.
    pub(crate) fn doubt_size(&self, node: &Znode) {
        let Ok(stat) = self.origin.stat(node) else { return self.doubt(node) };
        // Before the new length is taken over: it would hide the blocks behind it.
        let before = node.identity().version.size;
        let dropped = self.resized(node, before, stat.size);
        self.settle(node, &stat);
        if dropped.is_err() {
            self.doubt(node);
        }
    }
}
