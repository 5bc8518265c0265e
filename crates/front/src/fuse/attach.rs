//! Making the mount: `/dev/fuse` and `mount(2)` where we may, else `fusermount3`.
//!
//! Not done by the `fuser` crate: it asks the wrong way round whether a mount is still there, and may
//! then unmount what somebody else has mounted at the same place.

use std::ffi::CString;
use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use arcwell_base::{Error, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::mount::MountFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType, recvmsg,
    socketpair,
};

use super::MountOptions;
use super::mountpoint::{TYPE, escape_option};

const DEVICE: &str = "/dev/fuse";
const CONFIG: &str = "/etc/fuse.conf";

/// Mounts an empty FUSE file system at `mountpoint`, a directory. The descriptor is the daemon's end.
pub(crate) fn attach(mountpoint: &Path, options: &MountOptions) -> Result<OwnedFd> {
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        match attach_directly(mountpoint, options) {
            // Root without the capability to mount: in a container, libfuse's helper may have it.
            Err(error) if error.errno() == Errno::PERM => {}
            result => return result,
        }
    } else if options.allow_other && !may_allow_other() {
        return Err(Error::invalid(
            "mount",
            format!("to let other users in, root has to add the line `user_allow_other` to {CONFIG}"),
        ));
    }
    attach_by_fusermount(mountpoint, options)
}

fn open_device() -> Result<OwnedFd> {
    rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|errno| match errno {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => Error::invalid(
            "mount",
            format!("no {DEVICE}: load the kernel's fuse module, or give the container the device"),
        ),
        errno => Error::new("open", errno).about(Path::new(DEVICE)),
    })
}

fn attach_directly(mountpoint: &Path, options: &MountOptions) -> Result<OwnedFd> {
    let failed = |errno: Errno| Error::new("mount", errno).about(mountpoint);
    let device = open_device()?;
    let mode = rustix::fs::stat(mountpoint).map_err(failed)?.st_mode;
    let mut data = format!(
        "fd={},rootmode={:o},user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        mode & 0o170000,
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let data = CString::new(data).map_err(|_| failed(Errno::INVAL))?;
    let flags = if options.read_only { MountFlags::RDONLY } else { MountFlags::empty() };
    rustix::mount::mount(options.fs_name.as_str(), mountpoint, TYPE, flags, data.as_c_str())
        .map_err(failed)?;
    Ok(device)
}

/// Whether the administrator lets users open their mounts to others.
fn may_allow_other() -> bool {
    std::fs::read_to_string(CONFIG)
        .is_ok_and(|text| text.lines().any(|line| line.trim() == "user_allow_other"))
}

/// The helper mounts on our behalf and sends the descriptor through a socket.
fn attach_by_fusermount(mountpoint: &Path, options: &MountOptions) -> Result<OwnedFd> {
    let socket = |errno: Errno| Error::new("make a socket", errno);
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None).map_err(socket)?;
    rustix::io::fcntl_setfd(&ours, FdFlags::CLOEXEC).map_err(socket)?;
    let mut words = vec![
        if options.read_only { "ro" } else { "rw" }.to_owned(),
        "default_permissions".to_owned(),
        "subtype=arcwell".to_owned(),
        format!("fsname={}", escape_option(&options.fs_name)),
    ];
    if options.allow_other {
        words.push("allow_other".to_owned());
    }
    let mut child = Command::new("fusermount3")
        .arg("-o")
        .arg(words.join(","))
        .arg("--")
        .arg(mountpoint)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(no_helper)?;
    drop(theirs);
    let device = receive(&ours);
    let complaint = finish(&mut child)?;
    match device {
        Ok(Some(device)) if complaint.is_none() => Ok(device),
        Err(errno) => Err(Error::new("mount", errno).about(mountpoint)),
        Ok(_) => Err(Error::invalid("mount", complaint.unwrap_or_else(|| "fusermount3 failed".to_owned()))
            .about(mountpoint)),
    }
}

fn no_helper(error: std::io::Error) -> Error {
    if error.kind() == std::io::ErrorKind::NotFound {
        Error::invalid("mount", "only root may mount without fusermount3: install the package fuse3")
    } else {
        Error::new("run fusermount3", error)
    }
}

/// Waits for the helper; what it complained about when it failed.
fn finish(child: &mut Child) -> Result<Option<String>> {
    let failed = |error| Error::new("run fusermount3", error);
    let mut text = String::new();
    if let Some(stderr) = &mut child.stderr {
        stderr.read_to_string(&mut text).map_err(failed)?;
    }
    let status = child.wait().map_err(failed)?;
    Ok((!status.success()).then(|| text.trim().to_owned()))
}

fn receive(socket: &OwnedFd) -> std::result::Result<Option<OwnedFd>, Errno> {
    let mut byte = [0; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let device = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok(device)
}
