//! Listings.
//!
//! An open directory is a snapshot with stable offsets, kept by the pool; the kernel caches none. A
//! listing with attributes holds them for the names whose attributes are in memory. The others, and
//! `.` and `..`, come without a node: the kernel then passes on the name and takes no reference.

use std::cell::RefCell;
use std::sync::Arc;

use arcwell_pool::{Class, DirItem, Entries, OpenDir};
use rustix::io::Errno;

use super::filesystem::{Filesystem, Handled};
use super::wire::{self, FSYNC_DATA_ONLY, Listing, Request};

/// The longest listing that is sent at once, whatever the kernel offers to take.
const LISTING_MAX: u32 = 1 << 20;

thread_local! {
    /// Where listings are put together; kept, so that a listing from memory allocates nothing.
    static LISTING: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Filesystem {
    pub(super) fn opendir(&self, request: &Request<'_>) -> Handled {
        let directory = self.dataset.open_dir(self.ino(request.node)).map_err(|error| error.errno())?;
        let handle = self.directories.insert(directory);
        if !self.device.reply(request.unique, wire::opened(handle, 0).as_bytes()) {
            self.directories.remove(handle);
        }
        Ok(())
    }

    pub(super) fn releasedir(&self, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        self.directories.remove(fields.u64()?).ok_or(Errno::BADF)?;
        self.device.reply_done(request.unique);
        Ok(())
    }

    pub(super) fn readdir(self: &Arc<Self>, request: &Request<'_>, plus: bool) -> Handled {
        let mut fields = request.fields;
        let directory = self.directories.find(fields.u64()?).ok_or(Errno::BADF)?;
        let (offset, size) = (fields.u64()?, fields.u32()?.min(LISTING_MAX) as usize);
        match directory.cached_entries(offset) {
            Some(Ok(entries)) => self.send_listing(request.unique, &directory, &entries, size, plus),
            Some(Err(error)) => return Err(error.errno()),
            None => {
                let asked = Arc::clone(&directory);
                self.hand_on(
                    request.unique,
                    Class::Query,
                    move |_| asked.entries(offset),
                    move |filesystem, unique, entries| {
                        filesystem.send_listing(unique, &directory, &entries, size, plus);
                    },
                );
            }
        }
        Ok(())
    }

    fn send_listing(&self, unique: u64, directory: &OpenDir, entries: &Entries, size: usize, plus: bool) {
        LISTING.with_borrow_mut(|buffer| {
            let mut listing = Listing::new(buffer, size);
            for item in entries.iter() {
                if !listing.has_room(item.name, plus) {
                    break;
                }
                if plus {
                    self.list_attributes(&mut listing, directory, &item);
                }
                listing.name(item.ino, item.next, item.kind, item.name);
            }
            let arrived = self.device.reply(unique, listing.as_bytes());
            if plus && !arrived {
                self.take_back(listing.nodes());
            }
        });
    }

    fn list_attributes(&self, listing: &mut Listing<'_>, directory: &OpenDir, item: &DirItem<'_>) {
        let is_self_or_parent = item.name == "." || item.name == "..";
        let known = if is_self_or_parent { None } else { self.dataset.cached_entry(directory, item) };
        listing.plus(known.map(|entry| self.entry(&entry)).as_ref());
    }

    /// Gives back the references of a listing that nobody received.
    fn take_back(&self, nodes: impl Iterator<Item = u64>) {
        for node in nodes.filter(|node| *node != 0) {
            self.dataset.forget(self.ino(node), 1);
        }
    }

    pub(super) fn fsyncdir(self: &Arc<Self>, request: &Request<'_>) -> Handled {
        let mut fields = request.fields;
        fields.skip(8)?;
        let data_only = fields.u32()? & FSYNC_DATA_ONLY != 0;
        let ino = self.ino(request.node);
        self.change(request.unique, Class::Sync, move |dataset| dataset.sync_node(ino, data_only))
    }
}
