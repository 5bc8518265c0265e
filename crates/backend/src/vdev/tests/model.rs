//! Any row of writes, reads, flushes and discards does to a device what it does to a row of bytes.

use std::sync::Arc as Shared;

use arcwell_base::vdev::Vdev;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::*;
use crate::vdev::{FaultyVdev, MemVdev, Rule};

const UNIT: u64 = 4096;
const BYTES: u64 = SMALLEST + 3 * UNIT;

/// A step; places and lengths are in units.
#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, units: u64, seed: u64 },
    Read(Vec<(u64, u64)>),
    Discard { at: u64, units: u64 },
    Flush,
}

fn range(longest: u64) -> impl Strategy<Value = (u64, u64)> {
    (0..BYTES / UNIT, 0..longest).prop_map(|(at, units)| (at, units.min(BYTES / UNIT - at)))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (range(40), any::<u64>()).prop_map(|((at, units), seed)| Step::Write { at, units, seed }),
        1 => (range(700), any::<u64>()).prop_map(|((at, units), seed)| Step::Write { at, units, seed }),
        6 => proptest::collection::vec(range(8), 0..150).prop_map(Step::Read),
        1 => proptest::collection::vec(range(700), 0..3).prop_map(Step::Read),
        1 => range(40).prop_map(|(at, units)| Step::Discard { at, units }),
        1 => Just(Step::Flush),
    ]
}

fn take(vdev: &dyn Vdev, model: &mut [u8], step: Step) -> std::result::Result<(), TestCaseError> {
    match step {
        Step::Write { at, units, seed } => {
            let data = noise(seed, (units * UNIT) as usize);
            vdev.write(at * UNIT, &data).unwrap();
            model[(at * UNIT) as usize..][..data.len()].copy_from_slice(&data);
        }
        Step::Read(ranges) => {
            let ranges: Vec<_> =
                ranges.iter().map(|(at, units)| (at * UNIT, (units * UNIT) as usize)).collect();
            for (bytes, (offset, length)) in read_all(vdev, &ranges).into_iter().zip(&ranges) {
                let agrees = bytes.unwrap()[..] == model[*offset as usize..][..*length];
                prop_assert!(agrees, "{length} bytes at {offset}");
            }
        }
        Step::Discard { at, units } if vdev.shape().can_discard => {
            vdev.discard(at * UNIT..(at + units) * UNIT).unwrap();
            // Files and memory give zeros; that is more than a device promises.
            model[(at * UNIT) as usize..][..(units * UNIT) as usize].fill(0);
        }
        Step::Discard { .. } => {}
        Step::Flush => vdev.flush().unwrap(),
    }
    Ok(())
}

/// Tries rows of steps on new devices.
fn agrees(make: impl Fn() -> Option<Box<dyn Vdev>>) -> std::result::Result<(), String> {
    // No file of failures: which way failed would not be in it.
    let config = Config { cases: 8, failure_persistence: None, max_shrink_iters: 4, ..Config::default() };
    let steps = proptest::collection::vec(step(), 1..25);
    let tried = TestRunner::new(config).run(&steps, |steps| {
        let Some(vdev) = make() else { return Ok(()) };
        let mut model = vec![0; BYTES as usize];
        for step in steps {
            take(&*vdev, &mut model, step)?;
        }
        let whole = read(&*vdev, 0, BYTES as usize).unwrap();
        prop_assert!(whole[..] == model[..], "the whole");
        Ok(())
    });
    tried.map_err(|error| error.to_string())
}

#[derive(Debug)]
struct Kept(Scratch);

impl Vdev for Kept {
    fn shape(&self) -> arcwell_base::vdev::Shape {
        self.0.vdev.shape()
    }
    fn read(&self, reads: &mut [Read<'_>]) {
        self.0.vdev.read(reads);
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.0.vdev.write(offset, data)
    }
    fn flush(&self) -> Result<()> {
        self.0.vdev.flush()
    }
    fn discard(&self, range: std::ops::Range<u64>) -> Result<()> {
        self.0.vdev.discard(range)
    }
}

#[test]
fn a_file_is_a_row_of_bytes_whichever_way_it_is_opened() {
    for way in Way::ALL {
        agrees(|| way.open(BYTES).map(|scratch| Box::new(Kept(scratch)) as Box<dyn Vdev>))
            .unwrap_or_else(|error| panic!("{way:?}: {error}"));
    }
}

#[test]
fn memory_is_a_row_of_bytes_behind_a_layer_without_rules_too() {
    agrees(|| Some(Box::new(MemVdev::new(BYTES)))).unwrap();
    agrees(|| Some(Box::new(MemVdev::with_unit(BYTES, 512).durable()))).unwrap();
    agrees(|| Some(Box::new(FaultyVdev::new(Shared::new(MemVdev::new(BYTES)))))).unwrap();
}

/// The control: the comparison sees a device that is wrong, in each of the ways it can be.
#[test]
fn a_device_that_is_wrong_is_found_out() {
    use crate::vdev::Kept;
    let rules = [
        Rule::lose().every(3),
        Rule::misdirect(8192).every(3),
        Rule::tear(Kept::Prefix(512), None),
        Rule::tear(Kept::Sectors(1), None),
        Rule::flip(1, 7).every(5),
    ];
    for rule in rules {
        let broken = || {
            let faulty = FaultyVdev::new(Shared::new(MemVdev::new(BYTES)));
            faulty.add(rule.clone());
            Some(Box::new(faulty) as Box<dyn Vdev>)
        };
        let found = agrees(broken).unwrap_err();
        // By what it gave, not by a panic of ours.
        assert!(found.contains(" bytes at ") || found.contains("the whole"), "{rule:?}: {found}");
    }
}
