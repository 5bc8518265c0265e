//! Attributes, symbolic links' targets and extended attributes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use arcwell_arc::Pin;
use arcwell_base::origin::{FileType, SetAttr, Stat};
use arcwell_base::{BlockKey, Error, ObjectId, Result};
use rustix::io::Errno;

use crate::coherence::is_out_of_reach;
use crate::dataset::{Attributes, Dataset};
use crate::metadata;
use crate::znode::Znode;

/// Extended attributes that change with the permission bits, and the bits with them.
const ACL_XATTRS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];
/// Extended attribute that a write takes away.
const CAPABILITY_XATTR: &str = "security.capability";

/// Bits that tell the world to run a file as its owner or group.
const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
const GROUP_EXECUTE: u16 = 0o0010;

impl Dataset {
    /// A file's attributes from the cache. See [`Dataset::stat`].
    pub fn cached_stat(&self, ino: u64) -> Option<Result<Attributes>> {
        let node = match self.node(ino) {
            Ok(node) => node,
            Err(error) => return Some(Err(error)),
        };
        let (dnode, ttl) =
            self.fresh_dnode(node.id, |dnode| self.is_told_of(&node, &dnode.stat, dnode.checked))?;
        Some(Ok(Attributes { stat: dnode.stat, ttl }))
    }

    /// A file's attributes.
    ///
    /// # Errors
    /// The origin's; ESTALE for a number that nobody was given or a file that was replaced.
    pub fn stat(&self, ino: u64) -> Result<Attributes> {
        let node = self.visit_node(ino)?;
        self.revalidate(&node)
    }

    /// Changes attributes.
    ///
    /// # Errors
    /// The origin's; EROFS on a read-only dataset.
    pub fn set_attr(&self, ino: u64, change: &SetAttr) -> Result<Attributes> {
        self.writable("change attributes")?;
        let node = self.visit_node(ino)?;
        let _changing = self.begin(&[&node]);
        self.verify_before(&node)?;
        let size_before = node.identity().version.size;
        let stat = match self.origin.set_attr(&**node, change) {
            Ok(stat) => stat,
            Err(error) => {
                // Some of it may have happened.
                if change.size.is_some() {
                    self.drop_range(&node, 0, u64::MAX)?;
                }
                self.doubt(&node);
                return Err(error);
            }
        };
        if change.size.is_some() {
            self.resized(&node, size_before, stat.size)?;
        }
        if change.perm.is_some() || change.uid.is_some() || change.gid.is_some() {
            self.drop_acls(&node);
            self.drop_capability(&node);
        }
        self.settle(&node, &stat);
        Ok(Attributes { stat, ttl: self.attr_ttl(&node, &stat, self.now()) })
    }

    /// Clears setuid and setgid as a write by somebody without the right to keep them must; within a
    /// change of `node`. The attributes that result.
    pub(crate) fn kill_privileges(&self, node: &Znode, stat: Stat) -> Result<Stat> {
        let mut perm = stat.perm & !SETUID;
        if perm & GROUP_EXECUTE != 0 {
            perm &= !SETGID;
        }
        if perm == stat.perm {
            return Ok(stat);
        }
        self.origin.set_attr(node, &SetAttr { perm: Some(perm), ..SetAttr::default() })
    }

    /// Drops the extended attributes that follow the permission bits.
    fn drop_acls(&self, node: &Znode) {
        let object = node.identity().object;
        for name in ACL_XATTRS {
            self.blocks.remove(self.names.xattr_key(object, OsStr::new(name)));
        }
        self.blocks.remove(metadata::xattr_names_key(object));
    }

    /// Drops what is known of file capabilities: whatever writes a file takes them away.
    pub(crate) fn drop_capability(&self, node: &Znode) {
        let object = node.identity().object;
        self.blocks.remove(self.names.xattr_key(object, OsStr::new(CAPABILITY_XATTR)));
        self.blocks.remove(metadata::xattr_names_key(object));
    }

    /// The target of a symbolic link from the cache.
    pub fn cached_read_link(&self, ino: u64) -> Option<Result<Vec<u8>>> {
        let target = self.fresh_block(ino, metadata::link_key)?;
        Some(target.map(|pin| pin.to_vec()))
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// The origin's; EINVAL for anything but a link.
    pub fn read_link(&self, ino: u64) -> Result<Vec<u8>> {
        let node = self.visit_node(ino)?;
        if node.kind != FileType::Symlink {
            return Err(Error::new("read link", Errno::INVAL));
        }
        self.refresh(&node)?;
        let sequence = node.sequence();
        let key = metadata::link_key(node.identity().object);
        let target = match self.ask(|| self.blocks.contains(key), |origin| origin.read_link(&**node)) {
            Err(error) if is_out_of_reach(&error) => {
                return self.metadata(key).map(|pin| pin.to_vec()).ok_or(error);
            }
            answer => answer?,
        };
        let bytes = target.as_os_str().as_bytes();
        self.keep_metadata(&node, key, bytes, sequence);
        Ok(bytes.to_vec())
    }

    /// An extended attribute from the cache; ENODATA when there is none.
    pub fn cached_xattr(&self, ino: u64, name: &OsStr) -> Option<Result<Vec<u8>>> {
        let pin = match self.fresh_block(ino, |object| self.names.xattr_key(object, name))? {
            Ok(pin) => pin,
            Err(error) => return Some(Err(error)),
        };
        let value = metadata::decode_xattr(&pin, name)?;
        Some(value.map(<[u8]>::to_vec).ok_or_else(no_xattr))
    }

    /// An extended attribute.
    ///
    /// # Errors
    /// ENODATA when there is none; else the origin's.
    pub fn xattr(&self, ino: u64, name: &OsStr) -> Result<Vec<u8>> {
        let node = self.visit_node(ino)?;
        self.refresh(&node)?;
        let sequence = node.sequence();
        let key = self.names.xattr_key(node.identity().object, name);
        match self.ask(|| self.blocks.contains(key), |origin| origin.get_xattr(&**node, name)) {
            Ok(value) => {
                self.keep_metadata(&node, key, &metadata::encode_xattr(name, Some(&value)), sequence);
                Ok(value)
            }
            Err(error) if is_out_of_reach(&error) => {
                let pin = self.metadata(key).ok_or(error)?;
                let value = metadata::decode_xattr(&pin, name).flatten();
                value.map(<[u8]>::to_vec).ok_or_else(no_xattr)
            }
            Err(error) => {
                if error.errno() == Errno::NODATA {
                    self.keep_metadata(&node, key, &metadata::encode_xattr(name, None), sequence);
                }
                Err(error)
            }
        }
    }

    /// The names of all extended attributes from the cache, each ended by a zero byte.
    pub fn cached_xattr_list(&self, ino: u64) -> Option<Result<Vec<u8>>> {
        let names = self.fresh_block(ino, metadata::xattr_names_key)?;
        Some(names.map(|pin| pin.to_vec()))
    }

    /// The names of all extended attributes, each ended by a zero byte.
    ///
    /// # Errors
    /// The origin's.
    pub fn xattr_list(&self, ino: u64) -> Result<Vec<u8>> {
        let node = self.visit_node(ino)?;
        self.refresh(&node)?;
        let sequence = node.sequence();
        let key = metadata::xattr_names_key(node.identity().object);
        let names = self.ask(|| false, |origin| origin.list_xattr(&**node))?;
        self.keep_metadata(&node, key, &names, sequence);
        Ok(names)
    }

    /// Sets an extended attribute; `flags` is 0, `XATTR_CREATE` or `XATTR_REPLACE`.
    ///
    /// # Errors
    /// The origin's; EROFS on a read-only dataset.
    pub fn set_xattr(&self, ino: u64, name: &OsStr, value: &[u8], flags: u32) -> Result<()> {
        self.change_xattr(ino, name, |node| self.origin.set_xattr(node, name, value, flags))
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// ENODATA when there is none; else the origin's; EROFS on a read-only dataset.
    pub fn remove_xattr(&self, ino: u64, name: &OsStr) -> Result<()> {
        self.change_xattr(ino, name, |node| self.origin.remove_xattr(node, name))
    }

    /// A metadata block of a file's present object, if the file may be believed unasked and the block
    /// is there.
    fn fresh_block(&self, ino: u64, key: impl FnOnce(ObjectId) -> BlockKey) -> Option<Result<Pin>> {
        let node = match self.node(ino) {
            Ok(node) => node,
            Err(error) => return Some(Err(error)),
        };
        let identity = node.identity();
        if !self.is_fresh(&node, &identity) {
            return None;
        }
        self.metadata(key(identity.object)).map(Ok)
    }

    fn change_xattr(
        &self,
        ino: u64,
        name: &OsStr,
        change: impl FnOnce(&Znode) -> Result<Stat>,
    ) -> Result<()> {
        self.writable("change extended attribute")?;
        let node = self.visit_node(ino)?;
        let _changing = self.begin(&[&node]);
        self.verify_before(&node)?;
        let changed = change(&node);
        let object = node.identity().object;
        for key in [self.names.xattr_key(object, name), metadata::xattr_names_key(object)] {
            self.blocks.remove(key);
        }
        match changed {
            Ok(stat) => {
                self.settle(&node, &stat);
                Ok(())
            }
            Err(error) => {
                self.doubt(&node);
                Err(error)
            }
        }
    }

    /// Makes a file's or directory's changes durable (`fsyncdir`).
    ///
    /// # Errors
    /// The origin's.
    pub fn sync_node(&self, ino: u64, data_only: bool) -> Result<()> {
        let node = self.visit_node(ino)?;
        self.origin.sync(&**node, data_only)
    }
}

fn no_xattr() -> Error {
    Error::new("read extended attribute", Errno::NODATA)
}
