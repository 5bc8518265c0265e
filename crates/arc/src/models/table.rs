//! Model of the table: nobody misses an entry that stays, whatever happens to its bucket meanwhile.

use shuttle::sync::Arc;
use shuttle::thread;

use super::run::check;
use crate::sync::Fault;
use crate::table::{Entry, Table};

/// What has to be found is the entry `number` of the hash `number`; there are no other keys.
fn find(table: &Table, number: u32) -> bool {
    table.find(u64::from(number), |found| (found == number).then_some(())).is_some()
}

fn put(table: &Table, number: u32) {
    let entry = Entry::Block(number);
    table.change(u64::from(number), |other| other == entry, |_| (Some(entry), ()));
}

fn take(table: &Table, number: u32) {
    let entry = Entry::Block(number);
    assert!(table.change(u64::from(number), |other| other == entry, |found| (None, found.is_some())));
}

/// Two buckets to begin with, and ten entries: one more, and there are three. All numbers are even, and so in
/// the first bucket, which has to spill.
fn resized() {
    let table = Arc::new(Table::reserve(40).unwrap());
    let stays = [0, 8, 16, 24, 32, 40, 48, 56, 64];
    stays.iter().for_each(|&number| put(&table, number));
    let comes_and_goes = |numbers: [u32; 3]| {
        let table = table.clone();
        thread::spawn(move || {
            numbers.iter().for_each(|&number| put(&table, number));
            numbers.iter().for_each(|&number| take(&table, number));
        })
    };
    let looks = {
        let table = table.clone();
        thread::spawn(move || {
            for number in [64, 0, 56] {
                assert!(find(&table, number), "{number} was missed");
            }
        })
    };
    let threads = [comes_and_goes([2, 4, 6]), comes_and_goes([10, 12, 14]), looks];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(stays.iter().all(|&number| find(&table, number)));
    assert_eq!(table.len(), stays.len() as u64);
    stays.iter().for_each(|&number| take(&table, number));
    assert_eq!(table.len(), 0);
}

#[test]
fn an_entry_is_found_while_buckets_come_and_go() {
    check(resized, &[Fault::FindWithoutCheck]);
}
