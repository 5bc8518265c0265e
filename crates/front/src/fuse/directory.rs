//! Listings.
//!
//! An open directory is a snapshot with stable offsets, kept by the pool; the kernel caches none. A
//! listing with attributes holds them for the names whose attributes are in memory. The others, and
//! `.` and `..`, come without a node: the kernel then passes on the name and takes no reference. So
//! do all names of a directory whose attributes the kernel has already (see `given`).

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use arcwell_pool::{Class, DirItem, Entries};
use rustix::io::Errno;

use super::filesystem::{Filesystem, Handled};
use super::given::Listed;
use super::wire::{self, FSYNC_DATA_ONLY, Listing, Request};

/// The longest listing that is sent at once, whatever the kernel offers to take.
const LISTING_MAX: u32 = 1 << 20;

thread_local! {
    /// Where listings are put together; kept, so that a listing from memory allocates nothing.
    static LISTING: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What a part of a listing shall look like.
#[derive(Clone, Copy)]
struct Form {
    /// Bytes at most.
    size: usize,
    /// Whether there is room for attributes in each entry: the kernel's choice.
    plus: bool,
    /// Whether that room is used: ours.
    attributes: bool,
}

impl Filesystem {
    pub(super) fn opendir(&self, request: &Request<'_>) -> Handled {
        let ino = self.ino(request.node);
        let directory = self.dataset.open_dir(ino).map_err(|error| error.errno())?;
        let handle = self.directories.insert(Arc::new(Listed::new(directory, ino)));
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
        let listed = self.directories.find(fields.u64()?).ok_or(Errno::BADF)?;
        let (offset, size) = (fields.u64()?, fields.u32()?.min(LISTING_MAX) as usize);
        let form = Form { size, plus, attributes: plus && listed.proceed(&self.given, offset) };
        match listed.directory.cached_entries(offset) {
            Some(Ok(entries)) => self.send_listing(request.unique, &listed, &entries, form),
            Some(Err(error)) => return Err(error.errno()),
            None => {
                let asked = Arc::clone(&listed);
                self.hand_on(
                    request.unique,
                    Class::Query,
                    move |_| asked.directory.entries(offset),
                    move |filesystem, unique, entries| {
                        filesystem.send_listing(unique, &listed, &entries, form);
                    },
                );
            }
        }
        Ok(())
    }

    fn send_listing(&self, unique: u64, listed: &Listed, entries: &Entries, form: Form) {
        LISTING.with_borrow_mut(|buffer| {
            let mut listing = Listing::new(buffer, form.size);
            let mut is_complete = true;
            let mut ttl = Duration::MAX;
            for item in entries.iter() {
                if !listing.has_room(item.name, form.plus) {
                    is_complete = false;
                    break;
                }
                if form.attributes {
                    ttl = ttl.min(self.list_attributes(&mut listing, entries, &item));
                } else if form.plus {
                    listing.plus(None);
                }
                listing.name(item.ino, item.next, item.kind, item.name);
            }
            let arrived = self.device.reply(unique, listing.as_bytes());
            listed.note(ttl);
            if !form.attributes {
                return;
            }
            if !arrived {
                self.take_back(listing.nodes());
            } else if is_complete {
                listed.finish(&self.given);
            }
        });
    }

    /// For how long what was listed of an entry may be believed: zero when nothing was.
    fn list_attributes(&self, listing: &mut Listing<'_>, entries: &Entries, item: &DirItem<'_>) -> Duration {
        if item.name == "." || item.name == ".." {
            listing.plus(None);
            return Duration::MAX;
        }
        let known = self.dataset.cached_entry(entries, item);
        listing.plus(known.as_ref().map(|entry| self.entry(entry)).as_ref());
        known.map_or(Duration::ZERO, |entry| entry.attr_ttl.min(entry.entry_ttl))
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
