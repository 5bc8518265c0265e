//! A dataset against a plain directory: the same operations are done through the pool and with the
//! kernel's own calls on a directory beside it. Every outcome, every error, and after each operation
//! what can be seen of the whole tree has to be the same; attributes are those of the origin itself.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arcwell_arc::ListKind;
use arcwell_base::origin::{Allocate, NewNode, RenameMode, SetAttr};
use arcwell_pool::{CacheMode, Coherence, OpenFile, WriteHow};
use bed::{Bed, Plan, all_of, caller, same};
use proptest::prelude::*;
use rustix::fs::{FallocateFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;
use tempfile::TempDir;

/// The places that operations are about: in the root and in two directories.
const PLACES: [&str; 7] = ["a", "b", "d", "d/a", "d/b", "e", "e/a"];
/// Bytes up to which files are written.
const FAR: u64 = 20_000;

#[derive(Clone, Debug)]
enum Op {
    Create(usize),
    Mkdir(usize),
    Unlink(usize),
    Rmdir(usize),
    Rename(usize, usize, RenameMode),
    Link(usize, usize),
    Chmod(usize, u16),
    Truncate(usize, u64),
    SetXattr(usize, u8),
    RemoveXattr(usize),
    /// Opens a file and keeps it open, in one of the slots.
    Open(usize, usize),
    Close(usize),
    /// On what is open in a slot.
    Write(usize, u64, usize, u8),
    Append(usize, usize, u8),
    Read(usize, u64, u32),
    Allocate(usize, u32, u64, u64),
    CopyRange(usize, u64, usize, u64, u64),
    /// Lets time pass, and the kernel forget.
    Pass,
    Forget,
}

const SLOTS: usize = 3;

fn op() -> impl Strategy<Value = Op> {
    let place = 0..PLACES.len();
    let slot = 0..SLOTS;
    let offset = prop_oneof![3 => 0..FAR, 1 => (0..8u64).prop_map(|n| n * 4096), 1 => 0..600u64];
    let mode =
        prop_oneof![Just(RenameMode::Replace), Just(RenameMode::NoReplace), Just(RenameMode::Exchange)];
    // FALLOC_FL: none, keep size, punch, zero, zero keeping size, collapse, insert.
    let range = prop::sample::select(vec![0u32, 0x01, 0x03, 0x10, 0x11, 0x08, 0x20]);
    let block = (0..4u64).prop_map(|n| n * 4096);
    prop_oneof![
        4 => place.clone().prop_map(Op::Create),
        2 => place.clone().prop_map(Op::Mkdir),
        2 => place.clone().prop_map(Op::Unlink),
        1 => place.clone().prop_map(Op::Rmdir),
        3 => (place.clone(), place.clone(), mode).prop_map(|(a, b, mode)| Op::Rename(a, b, mode)),
        2 => (place.clone(), place.clone()).prop_map(|(a, b)| Op::Link(a, b)),
        1 => (place.clone(), 0..0o777u16).prop_map(|(at, mode)| Op::Chmod(at, mode | 0o400)),
        3 => (place.clone(), offset.clone()).prop_map(|(at, size)| Op::Truncate(at, size)),
        1 => (place.clone(), any::<u8>()).prop_map(|(at, value)| Op::SetXattr(at, value)),
        1 => place.clone().prop_map(Op::RemoveXattr),
        6 => (slot.clone(), place).prop_map(|(slot, at)| Op::Open(slot, at)),
        1 => slot.clone().prop_map(Op::Close),
        10 => (slot.clone(), offset.clone(), 1..9000usize, any::<u8>())
            .prop_map(|(slot, offset, len, byte)| Op::Write(slot, offset, len, byte)),
        3 => (slot.clone(), 1..5000usize, any::<u8>()).prop_map(|(slot, len, byte)| Op::Append(slot, len, byte)),
        6 => (slot.clone(), offset.clone(), 1..9000u32).prop_map(|(slot, offset, len)| Op::Read(slot, offset, len)),
        2 => (slot.clone(), range, block.clone(), prop_oneof![block, 1..9000u64])
            .prop_map(|(slot, mode, offset, len)| Op::Allocate(slot, mode, offset, len)),
        2 => (slot.clone(), offset.clone(), slot, offset, 1..9000u64)
            .prop_map(|(from, at, to, to_at, len)| Op::CopyRange(from, at, to, to_at, len)),
        1 => Just(Op::Pass),
        1 => Just(Op::Forget),
    ]
}

type Outcome = Result<(), Errno>;

/// The two that are compared.
struct Pair {
    bed: Bed,
    plain: TempDir,
    open: [Option<(Arc<OpenFile>, File)>; SLOTS],
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap()
}

fn of_pool<T>(result: arcwell_base::Result<T>) -> Outcome {
    result.map(drop).map_err(|error| error.errno())
}

fn of_kernel<T>(result: std::io::Result<T>) -> Outcome {
    result.map(drop).map_err(|error| errno(&error))
}

impl Pair {
    fn new(plan: Plan) -> Pair {
        Pair { bed: plan.bed(), plain: tempfile::tempdir().unwrap(), open: Default::default() }
    }

    fn plain(&self, at: usize) -> PathBuf {
        self.plain.path().join(PLACES[at])
    }

    /// The directory of a place and the name there; ENOENT or ENOTDIR as a walk gives them.
    fn place(&self, at: usize) -> Result<(u64, &'static OsStr), Errno> {
        let path = Path::new(PLACES[at]);
        let name = path.file_name().unwrap();
        let parent = path.parent().unwrap().to_str().unwrap();
        let dir = self.bed.find(parent).map_err(|error| error.errno())?.ok_or(Errno::NOENT)?;
        if dir.kind != arcwell_base::origin::FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        Ok((dir.id.ino, name))
    }

    fn file(&self, at: usize) -> Result<u64, Errno> {
        let (dir, name) = self.place(at)?;
        let found = self.bed.look(dir, name.to_str().unwrap()).map_err(|error| error.errno())?;
        Ok(found.ok_or(Errno::NOENT)?.id.ino)
    }

    /// Does it to both. What the kernel itself would refuse before it asks is left out.
    fn apply(&mut self, op: &Op) {
        let (ours, plain) = match *op {
            Op::Create(_) | Op::Mkdir(_) | Op::Unlink(_) | Op::Rmdir(_) => self.apply_name(op),
            Op::Rename(from, to, mode) => (self.rename(from, to, mode), self.rename_plain(from, to, mode)),
            Op::Link(from, to) => {
                (self.link(from, to), of_kernel(fs::hard_link(self.plain(from), self.plain(to))))
            }
            Op::Chmod(..) | Op::Truncate(..) | Op::SetXattr(..) | Op::RemoveXattr(_) => {
                self.apply_attribute(op)
            }
            Op::Open(slot, at) => return self.open(slot, at),
            Op::Close(slot) => return self.open[slot] = None,
            Op::Pass => return self.bed.pass_time(),
            Op::Forget => {
                self.open = Default::default();
                return self.bed.forget_all();
            }
            _ => match self.apply_open(op) {
                Some(both) => both,
                None => return,
            },
        };
        assert_eq!(ours, plain, "{op:?}");
    }

    fn apply_name(&self, op: &Op) -> (Outcome, Outcome) {
        let dataset = &self.bed.dataset;
        match *op {
            Op::Create(at) => (
                self.place(at).and_then(|(dir, name)| of_pool(self.bed.create(dir, name.to_str().unwrap()))),
                // Our create of what is there opens it.
                of_kernel(File::options().create(true).write(true).truncate(false).open(self.plain(at))),
            ),
            Op::Mkdir(at) => (
                self.place(at).and_then(|(dir, name)| {
                    let entry = dataset.make(dir, name, &NewNode::Directory, 0o755, caller());
                    of_pool(entry.inspect(|entry| self.bed.hold(entry.stat.id.ino)))
                }),
                of_kernel(fs::create_dir(self.plain(at))),
            ),
            Op::Unlink(at) => (
                self.place(at).and_then(|(dir, name)| of_pool(dataset.unlink(dir, name))),
                of_kernel(fs::remove_file(self.plain(at))),
            ),
            Op::Rmdir(at) => (
                self.place(at).and_then(|(dir, name)| of_pool(dataset.rmdir(dir, name))),
                of_kernel(fs::remove_dir(self.plain(at))),
            ),
            _ => unreachable!("no operation on a name"),
        }
    }

    fn apply_attribute(&self, op: &Op) -> (Outcome, Outcome) {
        let dataset = &self.bed.dataset;
        let name = "user.model";
        let set = |at, change: SetAttr| self.file(at).and_then(|ino| of_pool(dataset.set_attr(ino, &change)));
        match *op {
            Op::Chmod(at, perm) => (
                set(at, SetAttr { perm: Some(perm), ..SetAttr::default() }),
                of_kernel(fs::set_permissions(self.plain(at), PermissionsExt::from_mode(perm.into()))),
            ),
            Op::Truncate(at, size) => (
                set(at, SetAttr { size: Some(size), ..SetAttr::default() }),
                rustix::fs::open(self.plain(at), rustix::fs::OFlags::WRONLY, rustix::fs::Mode::empty())
                    .and_then(|file| rustix::fs::ftruncate(file, size)),
            ),
            Op::SetXattr(at, value) => (
                self.file(at).and_then(|ino| of_pool(dataset.set_xattr(ino, OsStr::new(name), &[value], 0))),
                rustix::fs::setxattr(self.plain(at), name, &[value], XattrFlags::empty()),
            ),
            Op::RemoveXattr(at) => (
                self.file(at).and_then(|ino| of_pool(dataset.remove_xattr(ino, OsStr::new(name)))),
                rustix::fs::removexattr(self.plain(at), name),
            ),
            _ => unreachable!("no operation on attributes"),
        }
    }

    fn rename(&self, from: usize, to: usize, mode: RenameMode) -> Outcome {
        let (from, to) = (self.place(from)?, self.place(to)?);
        of_pool(self.bed.dataset.rename(from, to, mode))
    }

    fn rename_plain(&self, from: usize, to: usize, mode: RenameMode) -> Outcome {
        let flags = match mode {
            RenameMode::NoReplace => RenameFlags::NOREPLACE,
            RenameMode::Exchange => RenameFlags::EXCHANGE,
            _ => RenameFlags::empty(),
        };
        let (from, to) = (self.plain(from), self.plain(to));
        rustix::fs::renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, flags)
    }

    fn link(&self, from: usize, to: usize) -> Outcome {
        let ino = self.file(from)?;
        let (dir, name) = self.place(to)?;
        of_pool(self.bed.dataset.link(ino, dir, name).inspect(|entry| self.bed.hold(entry.stat.id.ino)))
    }

    fn open(&mut self, slot: usize, at: usize) {
        let ours = self.file(at).and_then(|ino| self.bed.open_ino(ino).map_err(|error| error.errno()));
        let plain = File::options().read(true).write(true).open(self.plain(at));
        match (ours, plain) {
            (Ok(ours), Ok(plain)) => self.open[slot] = Some((ours, plain)),
            (Err(ours), Err(plain)) => assert_eq!(ours, errno(&plain)),
            (ours, plain) => panic!("open {}: {ours:?} but {plain:?}", PLACES[at]),
        }
    }

    fn apply_open(&self, op: &Op) -> Option<(Outcome, Outcome)> {
        Some(match *op {
            Op::Write(slot, offset, len, byte) => {
                let (ours, plain) = self.open[slot].as_ref()?;
                let data = vec![byte; len];
                (
                    of_pool(ours.write(offset, &data, WriteHow::default())),
                    of_kernel(plain.write_all_at(&data, offset)),
                )
            }
            Op::Append(slot, len, byte) => {
                let (ours, plain) = self.open[slot].as_ref()?;
                let data = vec![byte; len];
                let how = WriteHow { append: true, ..WriteHow::default() };
                let end = plain.metadata().unwrap().len();
                (of_pool(ours.write(7, &data, how)), of_kernel(plain.write_all_at(&data, end)))
            }
            Op::Read(slot, offset, len) => {
                let (ours, plain) = self.open[slot].as_ref()?;
                let mut buffer = vec![0; len as usize];
                let got = plain.read_at(&mut buffer, offset).unwrap();
                same(&ours.read(offset, len).unwrap().to_vec(), &buffer[..got]);
                return None;
            }
            Op::Allocate(slot, mode, offset, length) => {
                let (ours, plain) = self.open[slot].as_ref()?;
                let flags = FallocateFlags::from_bits_retain(mode);
                let length = length.max(1);
                (
                    of_pool(ours.allocate(Allocate { mode, offset, length })),
                    rustix::fs::fallocate(plain, flags, offset, length),
                )
            }
            Op::CopyRange(from, at, to, to_at, length) => {
                let (ours, plain) = self.open[from].as_ref()?;
                let (our_target, plain_target) = self.open[to].as_ref()?;
                let (mut at_plain, mut to_plain) = (at, to_at);
                let copied = rustix::fs::copy_file_range(
                    plain,
                    Some(&mut at_plain),
                    plain_target,
                    Some(&mut to_plain),
                    length as usize,
                );
                (of_pool(ours.copy_range(at, our_target, to_at, length)), copied.map(drop))
            }
            _ => unreachable!("no operation on an open file"),
        })
    }

    /// All that can be seen is the same, and attributes are the origin's own.
    fn compare(&self) {
        for (ours, plain) in self.open.iter().flatten() {
            let size = plain.metadata().unwrap().len();
            let mut truth = vec![0; size as usize];
            plain.read_exact_at(&mut truth, 0).unwrap();
            same(&all_of(ours), &truth);
            let shown = self.bed.stat(ours.ino()).unwrap();
            let nlink = plain.metadata().unwrap().nlink();
            assert_eq!((shown.size, u64::from(shown.nlink)), (size, nlink));
        }
        self.compare_below("");
    }

    fn compare_below(&self, path: &str) {
        let plain = self.plain.path().join(path);
        let mut names: Vec<_> =
            fs::read_dir(&plain).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        let dir = self.bed.ino(path);
        assert_eq!(self.bed.names(dir).unwrap(), names, "in '{path}'");
        for name in names {
            let name = name.to_str().unwrap();
            let below = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            let found = self.bed.look(dir, name).unwrap().unwrap_or_else(|| panic!("{below} is there"));
            let shown = self.bed.stat(found.id.ino).unwrap();
            let (truth, twin) =
                (self.bed.origin(&below).metadata().unwrap(), plain.join(name).metadata().unwrap());
            assert_eq!(shown.id.ino, truth.ino(), "{below}");
            assert_eq!((shown.size, u32::from(shown.perm)), (truth.size(), truth.mode() & 0o7777), "{below}");
            assert_eq!(u64::from(shown.nlink), truth.nlink(), "{below}");
            assert_eq!(
                (shown.mtime.sec, i64::from(shown.mtime.nsec)),
                (truth.mtime(), truth.mtime_nsec()),
                "{below}"
            );
            assert_eq!(
                (shown.ctime.sec, i64::from(shown.ctime.nsec)),
                (truth.ctime(), truth.ctime_nsec()),
                "{below}"
            );
            assert_eq!((truth.mode(), truth.nlink()), (twin.mode(), twin.nlink()), "{below}");
            self.compare_xattr(found.id.ino, &plain.join(name));
            if twin.is_dir() {
                self.compare_below(&below);
            } else {
                same(&self.bed.contents(&below), &fs::read(plain.join(name)).unwrap());
            }
        }
    }

    fn compare_xattr(&self, ino: u64, plain: &Path) {
        let name = OsStr::new("user.model");
        let ours = self.bed.dataset.cached_xattr(ino, name);
        let ours = ours.unwrap_or_else(|| self.bed.dataset.xattr(ino, name)).map_err(|error| error.errno());
        let mut value = [0u8; 8];
        let truth = rustix::fs::getxattr(plain, name, &mut value[..]).map(|len| value[..len].to_vec());
        assert_eq!(ours, truth);
    }
}

fn modes() -> impl Strategy<Value = (Coherence, CacheMode, u32, ListKind)> {
    let coherence = prop::sample::select(vec![Coherence::Exclusive, Coherence::Notify, Coherence::Timeout]);
    let mode =
        prop_oneof![3 => Just(CacheMode::All), 1 => Just(CacheMode::Metadata), 1 => Just(CacheMode::None)];
    let lists = prop::sample::select(ListKind::ALL.to_vec());
    (coherence, mode, prop::sample::select(vec![512u32, 4096]), lists)
}

fn run((coherence, mode, recordsize, lists): (Coherence, CacheMode, u32, ListKind), ops: &[Op]) {
    // So small that it holds a few files' blocks at most.
    let plan = Plan::new(coherence).primarycache(mode).recordsize(recordsize).cache(96 << 10).lists(lists);
    let mut pair = Pair::new(plan.prefetch(CacheMode::All));
    for (step, op) in ops.iter().enumerate() {
        pair.apply(op);
        if step % 4 == 3 {
            pair.compare();
        }
    }
    pair.compare();
    let Pair { bed, open, .. } = pair;
    drop(open);
    bed.finish();
}

/// The cache hands its buffers out with what they held before.
#[test]
fn a_hole_reads_as_zeroes_whatever_its_buffer_held() {
    let bed = Plan::new(Coherence::Exclusive).bed();
    let letters = bed.create(bed.root(), "letters").unwrap();
    bed::write_at(&letters, 0, &[b'#'; 64 * 4096]);
    bed.dataset.set_attr(letters.ino(), &SetAttr { size: Some(0), ..SetAttr::default() }).unwrap();
    let file = bed.create(bed.root(), "f").unwrap();
    // Beyond the end, in a block of its own and in the last one.
    for block in 0..32 {
        bed::write_at(&file, block * 4096 + 1000, b"x");
        bed::write_at(&file, block * 4096 + 3000, b"y");
    }
    same(&bed.contents("f"), &fs::read(bed.origin("f")).unwrap());
    drop((letters, file));
    bed.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, max_shrink_iters: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_dataset_is_a_directory(modes in modes(), ops in prop::collection::vec(op(), 1..80)) {
        run(modes, &ops);
    }
}
