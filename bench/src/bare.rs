//! The floor: a plain `fuser` server that answers from a flat buffer and a tree in memory.
//!
//! It agrees with the kernel on what arcwell agrees on, as far as these works are touched by it, and
//! has as many loops. A read is one slice of one buffer, no look-up, no lock. What it costs is what
//! the transport costs.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEntry, ReplyOpen, Request,
};

use crate::Result;
use crate::tree::{self, BLOCK, CONTENT, Shape};

/// The hidden command that makes a bench this server.
pub const COMMAND: &str = "bare-server";

/// For how long the kernel may believe names and attributes: what arcwell grants when nobody else
/// changes the origin.
const FOREVER: Duration = Duration::from_secs(86_400);
/// As arcwell has them: they decide how long a listing may be.
const WRITE_MAX: u32 = 1 << 20;
const BACKGROUND_MAX: u16 = 64;
/// As arcwell chooses them.
const THREADS_MAX: usize = 8;

/// What to serve.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Where to mount
    mountpoint: PathBuf,
    #[command(flatten)]
    shape: Shape,
}

impl Options {
    /// The arguments that make a bench serve `shape`.
    pub fn arguments(mountpoint: PathBuf, shape: &Shape) -> Vec<std::ffi::OsString> {
        let shape = shape.arguments().map(Into::into);
        [COMMAND.into(), mountpoint.into_os_string()].into_iter().chain(shape).collect()
    }
}

/// Serves until it is unmounted.
///
/// # Errors
/// When it cannot mount.
pub fn serve(options: &Options) -> Result<()> {
    let mut config = Config::default();
    config.mount_options =
        vec![MountOption::FSName("bare".into()), MountOption::DefaultPermissions, MountOption::RO];
    config.n_threads = Some(std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX));
    Ok(fuser::mount(Bare::new(&options.shape), &options.mountpoint, &config)?)
}

/// A file or directory.
struct Node {
    attributes: FileAttr,
    /// Where its bytes begin in the buffer.
    start: usize,
    /// What a directory holds, in order of listing.
    names: Vec<(String, INodeNo)>,
    index: HashMap<String, INodeNo>,
}

struct Bare {
    /// By inode number less one.
    nodes: Vec<Node>,
    buffer: Vec<u8>,
}

impl Bare {
    fn new(shape: &Shape) -> Self {
        let mut bare = Bare { nodes: Vec::new(), buffer: vec![0; shape.data_bytes() as usize] };
        let root = bare.add(FileType::Directory, 0, 0);
        for (place, block) in (0..).zip(bare.buffer.chunks_exact_mut(BLOCK)) {
            tree::fill(block, place / shape.blocks, place % shape.blocks);
        }
        let data = bare.directory(root, "data".into());
        for number in 0..shape.files {
            let start = (number * shape.file_bytes()) as usize;
            let file = bare.add(FileType::RegularFile, shape.file_bytes(), start);
            bare.enlist(data, tree::data_name(number), file);
        }
        let many = bare.directory(root, "many".into());
        for number in 0..shape.directories {
            let directory = bare.directory(many, tree::directory_name(number));
            bare.small(directory, shape.per_directory);
        }
        let flat = bare.directory(root, "flat".into());
        bare.small(flat, shape.flat);
        bare
    }

    fn add(&mut self, kind: FileType, size: u64, start: usize) -> INodeNo {
        let ino = INodeNo(self.nodes.len() as u64 + 1);
        let now = SystemTime::now();
        let attributes = FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: now,
            mtime: now,
            ctime: now,
            crtime: now,
            kind,
            perm: if kind == FileType::Directory { 0o755 } else { 0o644 },
            nlink: 1,
            uid: nix::unistd::getuid().as_raw(),
            gid: nix::unistd::getgid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        };
        self.nodes.push(Node { attributes, start, names: Vec::new(), index: HashMap::new() });
        ino
    }

    fn enlist(&mut self, parent: INodeNo, name: String, child: INodeNo) {
        let parent = &mut self.nodes[parent.0 as usize - 1];
        parent.index.insert(name.clone(), child);
        parent.names.push((name, child));
    }

    fn directory(&mut self, parent: INodeNo, name: String) -> INodeNo {
        let directory = self.add(FileType::Directory, 4096, 0);
        self.enlist(directory, ".".into(), directory);
        self.enlist(directory, "..".into(), parent);
        self.enlist(parent, name, directory);
        directory
    }

    fn small(&mut self, directory: INodeNo, count: u64) {
        for number in 0..count {
            let file = self.add(FileType::RegularFile, CONTENT.len() as u64, 0);
            self.enlist(directory, tree::small_name(number), file);
        }
    }

    fn node(&self, ino: INodeNo) -> Option<&Node> {
        self.nodes.get(usize::try_from(ino.0).ok()?.checked_sub(1)?)
    }

    /// What of a directory follows after `offset`, each with the offset behind it.
    fn following(&self, ino: INodeNo, offset: u64) -> impl Iterator<Item = (u64, &str, &FileAttr)> {
        let names = self.node(ino).map_or(&[][..], |node| &node.names);
        let rest = names.get(offset as usize..).unwrap_or_default();
        (offset + 1..).zip(rest).filter_map(|(next, (name, ino))| {
            self.node(*ino).map(|node| (next, name.as_str(), &node.attributes))
        })
    }
}

impl Filesystem for Bare {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let wanted = InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_DONT_MASK
            | InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
        let offered = wanted & config.capabilities();
        // Neither can fail: what is asked for is offered, and the sizes are within fuser's bounds.
        let _ = config.add_capabilities(offered);
        let _ = config.set_max_write(WRITE_MAX);
        let _ = config.set_max_background(BACKGROUND_MAX);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let parent = self.node(parent).zip(name.to_str());
        let child = parent.and_then(|(parent, name)| self.node(*parent.index.get(name)?));
        match child {
            Some(child) => reply.entry(&FOREVER, &child.attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        match self.node(ino) {
            Some(node) => reply.attr(&FOREVER, &node.attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(node) = self.node(ino) else { return reply.error(Errno::ENOENT) };
        let first = offset.min(node.attributes.size) as usize;
        let last = (offset + u64::from(size)).min(node.attributes.size) as usize;
        // Small files have a size, and no bytes.
        reply.data(self.buffer.get(node.start + first..node.start + last).unwrap_or_default());
    }

    fn readdir(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        for (next, name, attributes) in self.following(ino, offset) {
            if reply.add(attributes.ino, next, attributes.kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        for (next, name, attributes) in self.following(ino, offset) {
            if reply.add(attributes.ino, next, name, &FOREVER, attributes, Generation(0)) {
                break;
            }
        }
        reply.ok();
    }
}
