//! How much may be written now. Pure arithmetic on a clock that is handed in.
//!
//! Two purses. One fills by the second, up to a step's worth; the other, once a device was written all round, by the
//! day, up to a day's worth. Both are spent for each byte, and a step goes on as long as neither is empty: the last
//! block may take more than is there, which later steps make up for.

use std::time::Duration;

const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400;

/// Bytes of a step at most, and of the day's purse when it is opened.
const STEP_MAX: u64 = 64 << 20;

/// How fast a device may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Bytes a second.
    pub(crate) rate: u64,
    /// Bytes a step.
    pub(crate) step: u64,
    /// Bytes a day.
    pub(crate) day: Option<u64>,
}

impl Pace {
    /// The pace of a device: `boost` until it was written all round, `day` from then on. No step is so long that the
    /// hand would overwrite what it has just written.
    pub(crate) fn new(rate: u64, boost: u64, device: u64, is_full: bool, day_percent: u64) -> Pace {
        let rate = if is_full { rate } else { rate.saturating_add(boost) };
        let day = (u128::from(device) * u128::from(day_percent) / 100) as u64;
        let day = (is_full && day_percent > 0).then_some(day);
        Pace { rate, step: rate.min(STEP_MAX).min(device / 2).max(1), day }
    }

    /// How long it takes until a step's worth may be written again.
    pub(crate) fn pause(&self) -> Duration {
        let nanos = u128::from(self.step) * SECOND as u128 / u128::from(self.rate.max(1));
        Duration::from_nanos(nanos as u64)
    }
}

/// The two purses, in billionths of a byte.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    at: Option<Duration>,
    now: i128,
    day: Option<i128>,
}

impl Rate {
    /// Bytes that may be written now.
    pub(crate) fn allow(&mut self, at: Duration, pace: &Pace) -> i64 {
        let since = self.at.map(|before| at.saturating_sub(before).as_nanos() as i128);
        self.at = Some(at);
        let full = i128::from(pace.step) * SECOND;
        self.now = since.map_or(full, |nanos| self.now + i128::from(pace.rate) * nanos).min(full);
        self.day = pace.day.map(|day| {
            let full = i128::from(day) * SECOND;
            let more = i128::from(day) * since.unwrap_or(0) / DAY;
            self.day.map_or(i128::from(day.min(STEP_MAX)) * SECOND, |left| left + more).min(full)
        });
        let least = self.day.map_or(self.now, |day| day.min(self.now));
        (least / SECOND) as i64
    }

    pub(crate) fn spend(&mut self, bytes: u64) {
        let bytes = i128::from(bytes) * SECOND;
        self.now -= bytes;
        self.day = self.day.map(|left| left - bytes);
    }

    /// Whether it is the day's purse that is empty.
    pub(crate) fn is_day_over(&self) -> bool {
        self.day.is_some_and(|left| left <= 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// What is written in so many steps of `every` each, if there is always enough.
    fn written(pace: impl Fn() -> Pace, steps: u32, every: Duration) -> u64 {
        let (mut rate, mut all) = (Rate::default(), 0);
        for step in 0..steps {
            let may = rate.allow(every * step, &pace());
            if may > 0 {
                rate.spend(may as u64);
                all += may as u64;
            }
        }
        all
    }

    #[test]
    fn a_second_brings_the_rate_however_often_it_is_asked() {
        let pace = || Pace::new(4 * MIB, 0, 1 << 30, true, 0);
        let whole = written(pace, 12, Duration::from_secs(1));
        assert_eq!(whole, 48 * MIB);
        let often = written(pace, 120, Duration::from_millis(100));
        assert!(often.abs_diff(whole) < 4 * MIB, "{often}");
        // Who sleeps long has a step's worth, no more.
        assert_eq!(written(pace, 3, Duration::from_secs(100)), 12 * MIB);
    }

    #[test]
    fn a_high_rate_makes_steps_short_not_large() {
        let pace = Pace::new(1 << 30, 0, 1 << 40, true, 0);
        assert_eq!((pace.step, pace.pause()), (STEP_MAX, Duration::from_micros(62_500)));
        let pace = Pace::new(1 << 20, 0, 1 << 40, true, 0);
        assert_eq!((pace.step, pace.pause()), (1 << 20, Duration::from_secs(1)));
    }

    #[test]
    fn a_step_is_shorter_than_the_device_whatever_may_be_written() {
        let pace = Pace::new(1 << 40, 1 << 40, 16 * MIB, false, 100);
        assert_eq!(pace.step, 8 * MIB);
        assert!(pace.pause() > Duration::ZERO);
    }

    #[test]
    fn the_day_limits_only_a_device_that_was_written_all_round() {
        let bytes = 1 << 30;
        let day = |percent, is_full| {
            written(|| Pace::new(MIB, MIB, bytes, is_full, percent), 86_400, Duration::from_secs(1))
        };
        let free = day(0, true);
        let limited = [100, 50, 18].map(|percent| day(percent, true));
        assert_eq!(free, 86_400 * MIB);
        for (percent, amount) in [100, 50, 18].into_iter().zip(limited) {
            let may = bytes * percent / 100;
            assert!((may..=may + STEP_MAX).contains(&amount), "{percent}: {amount}");
        }
        assert!(free > limited[0] && limited[0] > limited[1] && limited[1] > limited[2]);
        assert_eq!(day(18, false), 2 * free, "and the boost is there until then");
    }

    #[test]
    fn at_most_a_day_is_carried_over() {
        let pace = Pace::new(1 << 40, 0, 1 << 30, true, 100);
        let mut rate = Rate::default();
        rate.allow(Duration::ZERO, &pace);
        let mut all = 0;
        for step in 0..1000 {
            // Ten days of nothing, then as fast as it goes.
            let at = Duration::from_secs(864_000) + Duration::from_millis(step);
            let may = rate.allow(at, &pace).max(0) as u64;
            rate.spend(may);
            all += may;
        }
        assert!(all.abs_diff(1 << 30) < MIB, "{all}");
    }
}
