//! Whose device it is: the superblock on a device, and what is refused.
//!
//! Nothing is written to a device before it is known to be blank or ours, or somebody said `force`.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;

use arcwell_base::vdev::{Read, Vdev};
use arcwell_base::{Error, Result};

use crate::index::DEVICE_BYTES_MAX;
use crate::layout::{COPIES, FIRST_SEGMENT, Found, Superblock, UNIT, zeroes};

const ADD: &str = "add a cache device";

/// Which device, whatever its path is today.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(pub u128);

impl std::fmt::Debug for DeviceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "device {:032x}", self.0)
    }
}

/// What a device holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// Nothing but zeroes where something would be.
    Blank,
    /// Blocks of a pool.
    Ours {
        /// Which pool's.
        pool: u128,
        /// Which device it is.
        device: DeviceId,
        /// How long it was when it was labelled.
        bytes: u64,
        /// How long its segments are.
        segment: u64,
    },
    /// Something that is not ours.
    Foreign,
    /// The label of a later version, with this format.
    Newer(u32),
    /// A label of ours that is not whole.
    Damaged,
}

impl From<Found> for Label {
    fn from(found: Found) -> Label {
        match found {
            Found::Blank => Label::Blank,
            Found::Ours(Superblock { pool, device, bytes, segment, .. }) => {
                Label::Ours { pool, device: DeviceId(device), bytes, segment }
            }
            Found::Foreign => Label::Foreign,
            Found::Newer(format) => Label::Newer(format),
            Found::Damaged => Label::Damaged,
        }
    }
}

/// What a device holds and for which pool. Changes nothing.
///
/// # Errors
/// The device's.
pub(crate) fn find(vdev: &dyn Vdev) -> Result<Found> {
    let bytes = vdev.shape().bytes;
    if bytes < FIRST_SEGMENT {
        let what = format!("it has {bytes} bytes, and at least {FIRST_SEGMENT} are needed");
        return Err(said(vdev, Error::invalid("read a cache device's label", what)));
    }
    let mut units = zeroes(2 * UNIT);
    let (first, second) = units.split_at_mut(UNIT);
    let mut reads = [Read::new(COPIES[0], first), Read::new(COPIES[1], second)];
    vdev.read(&mut reads);
    let outcomes = [reads[0].outcome(), reads[1].outcome()];
    let [first, second] = outcomes;
    // With one copy unread nobody knows what would be overwritten, except that one whole copy is enough.
    let found = match (first, second) {
        (Ok(()), Ok(())) => Superblock::choose(&units[..UNIT], &units[UNIT..]),
        (Ok(()), Err(error)) => alone(&units[..UNIT]).ok_or_else(|| said(vdev, error))?,
        (Err(error), Ok(())) => alone(&units[UNIT..]).ok_or_else(|| said(vdev, error))?,
        (Err(error), Err(_)) => return Err(said(vdev, error)),
    };
    // Some file systems begin later than our superblocks lie.
    if found == Found::Blank && !is_blank(vdev)? { Ok(Found::Foreign) } else { Ok(found) }
}

/// What a copy says whose other could not be read, if it is whole.
fn alone(unit: &[u8]) -> Option<Found> {
    let found = Superblock::choose(unit, unit);
    matches!(found, Found::Ours(_) | Found::Foreign | Found::Newer(_)).then_some(found)
}

fn is_blank(vdev: &dyn Vdev) -> Result<bool> {
    let mut bytes = zeroes(FIRST_SEGMENT as usize);
    let mut reads = [Read::new(0, &mut bytes)];
    vdev.read(&mut reads);
    reads[0].outcome().map_err(|error| said(vdev, error))?;
    Ok(bytes.iter().all(|byte| *byte == 0))
}

/// The same error, said of the device.
fn said(vdev: &dyn Vdev, error: Error) -> Error {
    error.about(Path::new(&vdev.shape().name))
}

/// The superblock under which a device of `pool` may be used, and whether what it holds may be.
///
/// # Errors
/// The device's, and the refusals: each says what was found.
pub(crate) fn claim(
    vdev: &dyn Vdev,
    found: Found,
    pool: u128,
    segment: u64,
    force: bool,
) -> Result<(Superblock, bool)> {
    let shape = vdev.shape();
    let refuse = |what: String| Err(said(vdev, Error::invalid(ADD, what)));
    if shape.bytes > DEVICE_BYTES_MAX {
        return refuse(format!("it has {} bytes, and level 2 can use {DEVICE_BYTES_MAX}", shape.bytes));
    }
    if !shape.unit.is_power_of_two() || shape.unit as usize > UNIT {
        return refuse(format!("its unit is {} bytes, and level 2 writes in units of {UNIT}", shape.unit));
    }
    let why = match &found {
        Found::Blank => return fresh(vdev, pool, segment, 0).map(|superblock| (superblock, false)),
        Found::Ours(superblock) if superblock.pool != pool => {
            format!("it belongs to another pool ({:032x})", superblock.pool)
        }
        Found::Ours(superblock) if superblock.bytes > shape.bytes => {
            format!("it has {} bytes, and had {} when it was labelled", shape.bytes, superblock.bytes)
        }
        Found::Ours(superblock) => return Ok((superblock.clone(), true)),
        Found::Foreign => "it holds something that is not Arcwell's".to_owned(),
        Found::Newer(format) => format!("it was labelled by a later version (format {format})"),
        Found::Damaged => "its label is damaged".to_owned(),
    };
    if !force {
        return refuse(format!("{why}; force overwrites it"));
    }
    let generation = if let Found::Ours(superblock) = found { superblock.generation } else { 0 };
    fresh(vdev, pool, segment, generation).map(|superblock| (superblock, false))
}

/// Labels a device as one that holds nothing: under a new id, so that no table on it counts any more.
///
/// # Errors
/// The device's, or it is too small.
pub(crate) fn fresh(vdev: &dyn Vdev, pool: u128, segment: u64, generation: u64) -> Result<Superblock> {
    let shape = vdev.shape();
    let Some((segment, segments)) = Superblock::divide(shape.bytes, segment) else {
        return Err(said(vdev, Error::invalid(ADD, format!("{} bytes are too few", shape.bytes))));
    };
    let (device, bytes) = (random(), shape.bytes);
    let superblock = again(vdev, &Superblock { generation, device, pool, bytes, segment, segments })?;
    if shape.can_discard {
        // Only a kindness to the device.
        let _ = vdev.discard(FIRST_SEGMENT..superblock.start_of(segments));
    }
    Ok(superblock)
}

/// Writes the same superblock with a new id, so that no table counts that was written under the old one.
///
/// # Errors
/// The device's.
pub(crate) fn again(vdev: &dyn Vdev, before: &Superblock) -> Result<Superblock> {
    let mut superblock = Superblock { device: random(), ..before.clone() };
    for at in COPIES {
        superblock.generation += 1;
        vdev.write(at, &superblock.encode()).map_err(|error| said(vdev, error))?;
    }
    vdev.flush().map_err(|error| said(vdev, error))?;
    Ok(superblock)
}

/// An id that nobody has had: from the randomness that the standard library gives its hash tables.
fn random() -> u128 {
    let half = |which: u8| u128::from(RandomState::new().hash_one(which));
    half(0) << 64 | half(1)
}
