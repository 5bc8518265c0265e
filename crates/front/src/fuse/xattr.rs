//! Extended attributes, and with them POSIX ACLs.
//!
//! The kernel asks for the length first (size 0) or gives the room that the program has. After an ACL
//! was set it forgets the mode that it knew and asks again.

use std::ffi::OsStr;
use std::sync::Arc;

use arcwell_base::Result;
use arcwell_base::origin::SetAttr;
use arcwell_pool::{Class, Dataset};
use rustix::io::Errno;

use super::filesystem::{Filesystem, Handled};
use super::wire::{self, Request, SETXATTR_KILL_SETGID};

const SETGID: u16 = 0o2000;
/// Extended attributes whose names begin so are the administrator's.
const TRUSTED: &[u8] = b"trusted.";

impl Filesystem {
    pub(super) fn getxattr(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let room = fields.u32()?;
        fields.skip(4)?;
        let name = fields.name()?;
        let ino = self.ino(request.node);
        match self.dataset.cached_xattr(ino, name) {
            Some(result) => {
                self.send_value(request.unique, &result.map_err(|error| error.errno())?, room);
            }
            None => {
                let name = name.to_owned();
                self.hand_on(
                    request.unique,
                    Class::Query,
                    move |dataset| dataset.xattr(ino, &name),
                    move |filesystem, unique, value| filesystem.send_value(unique, &value, room),
                );
            }
        }
        Ok(())
    }

    pub(super) fn listxattr(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let room = fields.u32()?;
        let (ino, is_root) = (self.ino(request.node), request.uid == 0);
        self.serve(
            request.unique,
            Class::Query,
            self.dataset.cached_xattr_list(ino),
            move |dataset| dataset.xattr_list(ino),
            move |filesystem, unique, mut names| {
                if !is_root {
                    hide_trusted(&mut names);
                }
                filesystem.send_value(unique, &names, room);
            },
        )
    }

    fn send_value(&self, unique: u64, value: &[u8], room: u32) {
        if room == 0 {
            self.device.reply(unique, wire::count(value.len() as u32).as_bytes());
        } else if value.len() > room as usize {
            self.device.reply_error(unique, Errno::RANGE);
        } else {
            self.device.reply(unique, value);
        }
    }

    pub(super) fn setxattr(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let (length, flags, more, _) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
        let name = fields.name()?.to_owned();
        let value = fields.bytes(length as usize)?.to_vec();
        let ino = self.ino(request.node);
        self.change(request.unique, Class::Change, move |dataset| {
            dataset.set_xattr(ino, &name, &value, flags)?;
            if more & SETXATTR_KILL_SETGID != 0 { clear_setgid(dataset, ino) } else { Ok(()) }
        })
    }

    pub(super) fn removexattr(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        let name: &OsStr = fields.name()?;
        let name = name.to_owned();
        let ino = self.ino(request.node);
        self.change(request.unique, Class::Change, move |dataset| dataset.remove_xattr(ino, &name))
    }
}

/// Takes out the names that only the administrator may see: the kernel leaves that to file systems.
fn hide_trusted(names: &mut Vec<u8>) {
    if names.windows(TRUSTED.len()).any(|part| part == TRUSTED) {
        let shown = names.split_inclusive(|byte| *byte == 0).filter(|name| !name.starts_with(TRUSTED));
        *names = shown.flatten().copied().collect();
    }
}

/// Whoever sets an ACL and is neither privileged nor of the file's group loses the setgid bit, as with
/// `chmod`. The origin cannot do it: to it the daemon is the one who sets the ACL.
fn clear_setgid(dataset: &Arc<Dataset>, ino: u64) -> Result<()> {
    let perm = dataset.stat(ino)?.stat.perm;
    if perm & SETGID != 0 {
        dataset.set_attr(ino, &SetAttr { perm: Some(perm & !SETGID), ..SetAttr::default() })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusted_names_are_hidden_and_no_others() {
        for (all, shown) in [
            ("user.a\0trusted.b\0security.c\0", "user.a\0security.c\0"),
            ("trusted.b\0", ""),
            ("user.trusted.a\0", "user.trusted.a\0"),
            ("", ""),
        ] {
            let mut names = all.as_bytes().to_vec();
            hide_trusted(&mut names);
            assert_eq!(names, shown.as_bytes());
        }
    }
}
