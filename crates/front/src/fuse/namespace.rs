//! Names: lookup, create, link, rename, remove, and the references that come with them.

use std::path::PathBuf;
use std::sync::Arc;

use arcwell_base::origin::{NewNode, RenameMode};
use arcwell_pool::{Class, Entry, Looked, OpenFile};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::filesystem::{Filesystem, Handled, Held, Referring, caller};
use super::wire::{self, ENTRY, FOPEN_DIRECT_IO, ROOT_NODE, Record, Request};

/// Permission bits of a mode.
const PERM: u32 = 0o7777;

impl Filesystem {
    pub(super) fn lookup(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let name = fields.name()?;
        let parent = self.ino(request.node);
        match self.dataset.cached_lookup(parent, name) {
            Some(Ok(looked)) => {
                if !self.send_looked(request.unique, &looked)
                    && let Some(ino) = looked.referred()
                {
                    self.dataset.forget(ino, 1);
                }
                Ok(())
            }
            Some(Err(error)) => Err(error.errno()),
            None => {
                let name = name.to_owned();
                self.hand_on(
                    request.unique,
                    Class::Query,
                    move |dataset| Ok(Held::new(dataset, dataset.lookup(parent, &name)?)),
                    |filesystem, unique, held| held.deliver(|looked| filesystem.send_looked(unique, looked)),
                );
                Ok(())
            }
        }
    }

    pub(super) fn forget(&self, request: &Request<'_>) -> Handled {
        // No answer is expected, not even an error.
        let mut fields = request.fields;
        if let Ok(count) = fields.u64() {
            self.given.forgotten();
            self.forget_node(request.node, count);
        }
        Ok(())
    }

    pub(super) fn batch_forget(&self, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let Ok(nodes) = fields.u32() else { return Ok(()) };
        if fields.skip(4).is_ok() {
            self.given.forgotten();
            for _ in 0..nodes {
                let (Ok(node), Ok(count)) = (fields.u64(), fields.u64()) else { break };
                self.forget_node(node, count);
            }
        }
        Ok(())
    }

    fn forget_node(&self, node: u64, count: u64) {
        // The root was never looked up, so it is never forgotten.
        if node != ROOT_NODE {
            self.dataset.forget(node, count);
        }
    }

    pub(super) fn readlink(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let ino = self.ino(request.node);
        self.serve(
            request.unique,
            Class::Query,
            self.dataset.cached_read_link(ino),
            move |dataset| dataset.read_link(ino),
            |filesystem, unique, target| {
                filesystem.device.reply(unique, &target);
            },
        )
    }

    pub(super) fn create(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let flags = OFlags::from_bits_retain(fields.u32()?);
        let (mode, umask, _) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let name = fields.name()?.to_owned();
        let exclusive = flags.contains(OFlags::EXCL);
        let (parent, caller) = (self.ino(request.node), caller(request, umask));
        let perm = (mode & PERM) as u16;
        self.hand_on(
            request.unique,
            Class::Change,
            move |dataset| Ok(Held::new(dataset, dataset.create(parent, &name, perm, exclusive, caller)?)),
            Self::deliver_created,
        );
        Ok(())
    }

    /// A file without a name; the one that the request carries means nothing.
    pub(super) fn create_unnamed(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let (_, mode, umask) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (parent, caller) = (self.ino(request.node), caller(request, umask));
        let perm = (mode & PERM) as u16;
        self.hand_on(
            request.unique,
            Class::Change,
            move |dataset| Ok(Held::new(dataset, dataset.create_unnamed(parent, perm, caller)?)),
            Self::deliver_created,
        );
        Ok(())
    }

    pub(super) fn mknod(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let (mode, rdev, umask, _) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
        let kind = wire::kind_of(mode).ok_or(Errno::INVAL)?;
        self.make(request, fields, NewNode::Node { kind, rdev }, mode, umask)
    }

    pub(super) fn mkdir(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let (mode, umask) = (fields.u32()?, fields.u32()?);
        self.make(request, fields, NewNode::Directory, mode, umask)
    }

    pub(super) fn symlink(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let fields = request.fields;
        let mut after_name = fields;
        after_name.name()?;
        let target = PathBuf::from(after_name.text()?);
        self.make(request, fields, NewNode::Symlink(target), 0o777, 0)
    }

    /// Makes anything but an open file; `fields` begin with its name.
    fn make(
        self: &Arc<Self>,
        request: &Request<'_>,
        mut fields: wire::Fields<'_>,
        node: NewNode,
        mode: u32,
        umask: u32,
    ) -> Handled {
        let name = fields.name()?.to_owned();
        let (parent, caller) = (self.ino(request.node), caller(request, umask));
        let perm = (mode & PERM) as u16;
        self.hand_on(
            request.unique,
            Class::Change,
            move |dataset| Ok(Held::new(dataset, dataset.make(parent, &name, &node, perm, caller)?)),
            Self::deliver_entry,
        );
        Ok(())
    }

    pub(super) fn link(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let ino = self.ino(fields.u64()?);
        let name = fields.name()?.to_owned();
        let parent = self.ino(request.node);
        self.hand_on(
            request.unique,
            Class::Change,
            move |dataset| Ok(Held::new(dataset, dataset.link(ino, parent, &name)?)),
            Self::deliver_entry,
        );
        Ok(())
    }

    pub(super) fn unlink(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let name = fields.name()?.to_owned();
        let parent = self.ino(request.node);
        self.change(request.unique, Class::Change, move |dataset| dataset.unlink(parent, &name))
    }

    pub(super) fn rmdir(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let name = fields.name()?.to_owned();
        let parent = self.ino(request.node);
        self.change(request.unique, Class::Change, move |dataset| dataset.rmdir(parent, &name))
    }

    pub(super) fn rename(self: &Arc<Self>, request: &Request<'_>, has_flags: bool) -> Handled {
        let mut fields = request.fields;
        let target = self.ino(fields.u64()?);
        let mode = if has_flags {
            let flags = fields.u32()?;
            fields.skip(4)?;
            rename_mode(flags)?
        } else {
            RenameMode::Replace
        };
        let (old, new) = (fields.name()?.to_owned(), fields.name()?.to_owned());
        let parent = self.ino(request.node);
        self.change(request.unique, Class::Change, move |dataset| {
            dataset.rename((parent, &old), (target, &new), mode)
        })
    }

    /// An entry as the kernel wants it.
    pub(super) fn entry(&self, entry: &Entry) -> Record<ENTRY> {
        wire::entry(self.node(entry.stat.id.ino), &entry.stat, entry.entry_ttl, entry.attr_ttl)
    }

    fn send_looked(&self, unique: u64, looked: &Looked) -> bool {
        match looked {
            Looked::Found(entry) => self.device.reply(unique, self.entry(entry).as_bytes()),
            Looked::Absent { ttl } if ttl.is_zero() => {
                self.device.reply_error(unique, Errno::NOENT);
                true
            }
            Looked::Absent { ttl } => self.device.reply(unique, wire::absence(*ttl).as_bytes()),
        }
    }

    fn deliver_entry(&self, unique: u64, held: Held<Entry>) {
        held.deliver(|entry| self.device.reply(unique, self.entry(entry).as_bytes()));
    }

    fn deliver_created(&self, unique: u64, held: Held<(Entry, Arc<OpenFile>)>) {
        held.deliver(|(entry, file)| self.send_created(unique, entry, file));
    }

    fn send_created(&self, unique: u64, entry: &Entry, file: &Arc<OpenFile>) -> bool {
        let handle = self.files.insert(Arc::clone(file));
        let reply = wire::created(&self.entry(entry), handle, FOPEN_DIRECT_IO);
        let arrived = self.device.reply(unique, reply.as_bytes());
        if !arrived {
            self.files.remove(handle);
        }
        arrived
    }
}

fn rename_mode(flags: u32) -> Result<RenameMode, Errno> {
    const NO_REPLACE: u32 = 1;
    const EXCHANGE: u32 = 2;
    const WHITEOUT: u32 = 4;
    match flags {
        0 => Ok(RenameMode::Replace),
        NO_REPLACE => Ok(RenameMode::NoReplace),
        EXCHANGE => Ok(RenameMode::Exchange),
        WHITEOUT => Ok(RenameMode::Whiteout),
        _ => Err(Errno::INVAL),
    }
}
