//! Counting what an origin is asked for.
//!
//! Goes innermost of the layers that the product puts around an origin: what it counts is what the
//! origin really had to do, so that *operations avoided* is the difference to what was asked of us.

use std::sync::Arc as Shared;

use arcwell_base::error::Result;
use arcwell_base::origin::Origin;
use rustix::io::Errno;

use crate::layer::{Call, Layer, Layered, Operation};

arcwell_base::kstats! {
    /// What an origin was asked for. Every operation is counted in `operations` and in one more row.
    pub struct OriginStats {
        /// Operations of any kind that reached the origin.
        "origin.operations": operations, Counter;
        /// Lookups of a name.
        "origin.lookups": lookups, Counter;
        /// Questions for the attributes of a known file.
        "origin.stats": stats, Counter;
        /// Directories listed.
        "origin.lists": lists, Counter;
        /// Link targets read.
        "origin.readlinks": readlinks, Counter;
        /// Reads of file contents.
        "origin.reads": reads, Counter;
        /// Bytes read.
        "origin.read_bytes": read_bytes, Counter;
        /// Writes of file contents, copies and allocations among them.
        "origin.writes": writes, Counter;
        /// Bytes written.
        "origin.write_bytes": write_bytes, Counter;
        /// Flushes to stable storage.
        "origin.syncs": syncs, Counter;
        /// Files opened.
        "origin.opens": opens, Counter;
        /// Names created, removed or moved.
        "origin.namespace": namespace, Counter;
        /// Attributes changed.
        "origin.setattrs": setattrs, Counter;
        /// Extended attributes read, listed or changed.
        "origin.xattrs": xattrs, Counter;
        /// Everything else: searches for holes, space, descriptors to keep, watches.
        "origin.others": others, Counter;
        /// Operations that failed; that a name or an extended attribute is absent is an answer.
        "origin.errors": errors, Counter;
    }
}

/// An origin whose operations are counted.
pub type Counted = Layered<Counting>;

/// The layer of [`Counted`].
#[derive(Debug)]
pub struct Counting(Shared<OriginStats>);

impl Layered<Counting> {
    /// Counts what `inner` is asked for in `stats`.
    pub fn new(inner: Shared<dyn Origin>, stats: Shared<OriginStats>) -> Counted {
        Layered::around(inner, Counting(stats))
    }

    /// The counts.
    pub fn stats(&self) -> &Shared<OriginStats> {
        &self.layer().0
    }
}

impl Layer for Counting {
    fn around<T>(&self, call: Call, make: impl FnOnce() -> Result<(T, u64)>) -> Result<(T, u64)> {
        let stats = &*self.0;
        stats.operations.add(1);
        match call.operation {
            Operation::Lookup => stats.lookups.add(1),
            Operation::Root | Operation::Stat => stats.stats.add(1),
            Operation::List => stats.lists.add(1),
            Operation::ReadLink => stats.readlinks.add(1),
            Operation::Read => stats.reads.add(1),
            Operation::Write | Operation::CopyRange | Operation::Allocate => stats.writes.add(1),
            Operation::Sync => stats.syncs.add(1),
            Operation::Open => stats.opens.add(1),
            Operation::Create
            | Operation::Make
            | Operation::Link
            | Operation::Unlink
            | Operation::Rmdir
            | Operation::Rename => stats.namespace.add(1),
            Operation::SetAttr => stats.setattrs.add(1),
            Operation::GetXattr | Operation::ListXattr | Operation::SetXattr | Operation::RemoveXattr => {
                stats.xattrs.add(1);
            }
            Operation::Seek | Operation::StatFs | Operation::Hold | Operation::Watch => stats.others.add(1),
        }
        let made = make();
        match &made {
            Ok((_, bytes)) if call.operation == Operation::Read => stats.read_bytes.add(*bytes),
            Ok((_, bytes)) => stats.write_bytes.add(*bytes),
            Err(error) if error.is_absence() || error.errno() == Errno::NODATA => {}
            Err(_) => stats.errors.add(1),
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use arcwell_base::table::Kstats;

    use super::*;
    use crate::dir::{DirOptions, DirOrigin, tests::At};

    #[test]
    fn every_operation_is_counted_once_and_by_kind() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "twelve bytes").unwrap();
        let inner = Shared::new(DirOrigin::open(dir.path(), DirOptions::default()).unwrap());
        let origin = Counted::new(inner, Shared::default());
        let root = At::root(&origin);
        let file = root.child(&origin, "file");
        assert!(origin.lookup(&root, OsStr::new("absent")).unwrap_err().is_absence());
        assert!(origin.lookup(&file, OsStr::new("x")).is_err());
        origin.list(&root).unwrap();
        assert_eq!(origin.read(&file, 0, &mut [0; 100]).unwrap(), 12);
        origin.write(&file, 0, b"12345", false).unwrap();
        let stats = origin.stats();
        let counted = |name: &str| {
            stats.samples().into_iter().find(|sample| sample.row.name == name).expect("a row").value
        };
        for (name, value) in [
            ("origin.operations", 7),
            ("origin.stats", 1),
            ("origin.lookups", 3),
            ("origin.lists", 1),
            ("origin.reads", 1),
            ("origin.read_bytes", 12),
            ("origin.writes", 1),
            ("origin.write_bytes", 5),
            ("origin.errors", 1),
        ] {
            assert_eq!(counted(name), value, "{name}");
        }
    }
}
