//! Dates and times of a directory entry.
//!
//! FAT keeps local time without saying where: a [`Zone`] is a fixed offset that the mount names.
//! Neither the process's `TZ` nor the day of the year plays a part, so a stamp reads the same all
//! year (with summer time applied, it would move by an hour twice a year).
//!
//! A date is day (bits 0-4, from 1), month (5-8, from 1) and years since 1980 (9-15); a time is
//! seconds / 2 (bits 0-4), minutes (5-10) and hours (11-15). The creation time has a further byte
//! of hundredths of a second, 0 to 199. Fields out of range are taken as Linux takes them: they
//! carry over, month and day 0 count as 1, months past 12 as January; the sum stops at the last
//! representable instant.

use seawall_diskfs::Timestamp;

/// 1980-01-01 00:00:00.
const MIN_SECS: i64 = 315_532_800;
/// 2107-12-31 23:59:59.
const MAX_SECS: i64 = 4_354_819_199;
const DAY: i64 = 86_400;
const HUNDREDTH: u32 = 10_000_000;
/// Days before each month of a common year, from January at 1; 0 and 13 to 15 do not exist.
const BEFORE_MONTH: [i64; 16] = [0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 0, 0, 0];

/// The zone of a volume's stamps: minutes east of UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    minutes: i16,
}

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self = Self { minutes: 0 };

    /// A fixed offset in minutes east of UTC, at most a day each way.
    pub fn offset(minutes: i32) -> Option<Self> {
        let minutes = i16::try_from(minutes).ok().filter(|m| (-1440..=1440).contains(m))?;
        Some(Self { minutes })
    }

    /// `UTC`, minutes east (`60`, `-300`) or hours and minutes east (`+02:00`, `-03:30`).
    pub fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("utc") || text.eq_ignore_ascii_case("z") {
            return Some(Self::UTC);
        }
        let Some((hours, minutes)) = text.split_once(':') else {
            return Self::offset(text.parse().ok()?);
        };
        let (sign, hours) = match hours.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, hours.strip_prefix('+').unwrap_or(hours)),
        };
        let (hours, minutes): (u8, u8) = (hours.parse().ok()?, minutes.parse().ok()?);
        if minutes > 59 {
            return None;
        }
        Self::offset(sign * (i32::from(hours) * 60 + i32::from(minutes)))
    }

    /// Minutes east of UTC.
    pub fn minutes(self) -> i32 {
        i32::from(self.minutes)
    }

    fn secs(self) -> i64 {
        i64::from(self.minutes) * 60
    }

    /// The instant of a stamp. For the date of the last access pass 0 for `time` and `tenths`, for
    /// the time of the last change 0 for `tenths`.
    pub fn to_utc(self, date: u16, time: u16, tenths: u8) -> Timestamp {
        let (day, month, year) = (date & 31, date >> 5 & 15, date >> 9);
        let days = days_before(i64::from(year), usize::from(month)) + i64::from(day.max(1)) - 1;
        let (half, minute, hour) = (time & 31, time >> 5 & 63, time >> 11);
        let secs = MIN_SECS
            + days * DAY
            + i64::from(hour) * 3600
            + i64::from(minute) * 60
            + i64::from(half) * 2
            + i64::from(tenths / 100);
        let nanos = u32::from(tenths % 100) * HUNDREDTH;
        if secs > MAX_SECS {
            return Timestamp { secs: MAX_SECS - self.secs(), nanos: 99 * HUNDREDTH };
        }
        Timestamp { secs: secs - self.secs(), nanos }
    }

    /// Date, time and hundredths (0 to 199) of an instant, the earliest or latest there are for
    /// instants outside 1980 to 2107.
    pub fn to_dos(self, at: Timestamp) -> (u16, u16, u8) {
        let local = at.secs.saturating_add(self.secs());
        if local < MIN_SECS {
            return (1 << 5 | 1, 0, 0);
        }
        let (local, nanos) =
            if local > MAX_SECS { (MAX_SECS, 99 * HUNDREDTH) } else { (local, at.nanos) };
        let (days, secs) = ((local - MIN_SECS) / DAY, (local - MIN_SECS) % DAY);
        let (year, month, day) = date_of(days);
        let date = (year << 9) | (month << 5) | day;
        let time = (secs / 3600) << 11 | (secs / 60 % 60) << 5 | (secs % 60 / 2);
        let tenths = (secs & 1) as u32 * 100 + (nanos / HUNDREDTH).min(99);
        (date as u16, time as u16, tenths as u8)
    }

    /// What the date of the last access keeps of an instant: the day.
    pub fn kept_accessed(self, at: Timestamp) -> Timestamp {
        self.to_utc(self.to_dos(at).0, 0, 0)
    }

    /// What the time of the last change keeps of an instant: two seconds.
    pub fn kept_changed(self, at: Timestamp) -> Timestamp {
        let (date, time, _) = self.to_dos(at);
        self.to_utc(date, time, 0)
    }

    /// What the creation time keeps of an instant: hundredths of a second.
    pub fn kept_created(self, at: Timestamp) -> Timestamp {
        let (date, time, tenths) = self.to_dos(at);
        self.to_utc(date, time, tenths)
    }
}

/// Days from 1980-01-01 to the first of a month; `year` counts from 1980, `month` is as stored.
fn days_before(year: i64, month: usize) -> i64 {
    // 2100 (year 120) is a common year.
    let leap = year % 4 == 0 && year != 120;
    let leap_days = (year + 3) / 4 - i64::from(year > 120) + i64::from(leap && month > 2);
    year * 365 + leap_days + BEFORE_MONTH.get(month).copied().unwrap_or(0)
}

/// Years since 1980, month and day of a count of days since 1980-01-01, at most those of 2107.
fn date_of(days: i64) -> (i64, i64, i64) {
    // A year has at most 366 days, so this is the year or the one before it.
    let mut year = days / 366;
    while days_before(year + 1, 1) <= days {
        year += 1;
    }
    let month = (1..=12).rev().find(|&m| days_before(year, m) <= days).unwrap_or(1);
    (year, month as i64, days - days_before(year, month) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(y: u16, m: u16, d: u16) -> u16 {
        ((y - 1980) << 9) | (m << 5) | d
    }

    fn time(h: u16, m: u16, s: u16) -> u16 {
        (h << 11) | (m << 5) | (s / 2)
    }

    fn at(secs: i64, nanos: u32) -> Timestamp {
        Timestamp { secs, nanos }
    }

    #[test]
    fn stamps_at_the_edges() {
        let utc = |d, t, h| Zone::UTC.to_utc(d, t, h);
        assert_eq!(utc(date(1980, 1, 1), 0, 0), at(315_532_800, 0));
        assert_eq!(utc(date(2107, 12, 31), time(23, 59, 58), 0), at(4_354_819_198, 0));
        assert_eq!(utc(date(2038, 1, 19), time(3, 14, 8), 0), at(2_147_483_648, 0));
        assert_eq!(utc(date(2000, 2, 29), time(12, 0, 0), 0), at(951_825_600, 0));
        assert_eq!(utc(date(2000, 2, 29), time(12, 0, 0), 199), at(951_825_601, 990_000_000));
        assert_eq!(utc(date(2100, 2, 28), 0, 0), at(4_107_456_000, 0));
        assert_eq!(utc(date(2100, 3, 1), 0, 0), at(4_107_542_400, 0));
    }

    #[test]
    fn fields_out_of_range_read_as_on_linux() {
        let utc = |d, t| Zone::UTC.to_utc(d, t, 0);
        assert_eq!(utc(0, 0), at(315_532_800, 0));
        assert_eq!(utc(40 << 9 | 15 << 5 | 31, 0xffff), at(1_580_630_642, 0));
        assert_eq!(utc(40 << 9 | 5 << 5, time(1, 2, 4)), at(1_588_294_924, 0));
    }

    #[test]
    fn nothing_reads_outside_the_range_or_writes_a_bad_field() {
        for zone in [-1440, -300, 0, 60, 1440].map(|m| Zone::offset(m).unwrap()) {
            for d in 0..=u16::MAX {
                for t in [0, time(23, 59, 58), 0xffff] {
                    let stamp = zone.to_utc(d, t, 255);
                    assert!(stamp.nanos < 1_000_000_000);
                    let (d2, t2, h2) = zone.to_dos(stamp);
                    let (day, month) = (d2 & 31, d2 >> 5 & 15);
                    assert!((1..=31).contains(&day) && (1..=12).contains(&month), "{d:x}");
                    assert!(t2 >> 11 < 24 && (t2 >> 5 & 63) < 60 && t2 & 31 < 30 && h2 < 200);
                    assert_eq!(zone.to_utc(d2, t2, h2), stamp, "{d:x} {t:x}");
                }
            }
        }
    }

    #[test]
    fn every_day_comes_back() {
        let mut secs = MIN_SECS;
        let mut last = 0;
        while secs <= MAX_SECS {
            let (d, t, h) = Zone::UTC.to_dos(at(secs + 43_201, 120_000_000));
            assert!(d > last);
            last = d;
            assert_eq!(Zone::UTC.to_utc(d, t, h), at(secs + 43_201, 120_000_000));
            secs += DAY;
        }
        assert_eq!(last, date(2107, 12, 31));
    }

    #[test]
    fn instants_outside_are_clamped() {
        let max = (date(2107, 12, 31), time(23, 59, 58), 199);
        for far in [4_354_819_200, i64::MAX] {
            assert_eq!(Zone::UTC.to_dos(at(far, 0)), max);
        }
        for early in [315_532_799, 0, -1, i64::MIN] {
            assert_eq!(Zone::UTC.to_dos(at(early, 999_999_999)), (date(1980, 1, 1), 0, 0));
        }
        let east = Zone::offset(60).unwrap();
        assert_eq!(east.to_dos(at(4_354_819_198 - 3600, 0)), (max.0, max.1, 0));
        assert_eq!(east.to_dos(at(4_354_819_198, 0)), max);
        // Nanoseconds out of range, as a caller might pass them, do not reach the disk.
        assert_eq!(Zone::UTC.to_dos(at(MIN_SECS, u32::MAX)).2, 99);
    }

    #[test]
    fn the_offset_is_the_same_all_year() {
        let stamps = [
            (date(2021, 1, 15), time(12, 0, 0), 1_610_712_000),
            (date(2021, 7, 15), time(12, 0, 0), 1_626_350_400),
            (date(2021, 1, 1), time(0, 30, 0), 1_609_461_000),
        ];
        let east = Zone::offset(60).unwrap();
        for (d, t, secs) in stamps {
            assert_eq!(Zone::UTC.to_utc(d, t, 0), at(secs, 0));
            assert_eq!(east.to_utc(d, t, 0), at(secs - 3600, 0));
        }
        let stored = east.to_dos(at(1_626_346_800, 0));
        assert_eq!(stored, (date(2021, 7, 15), time(12, 0, 0), 0));
    }

    #[test]
    fn each_stamp_keeps_what_it_can() {
        let east = Zone::offset(60).unwrap();
        let t = at(1_626_346_801, 987_654_321);
        assert_eq!(east.kept_created(t), at(1_626_346_801, 980_000_000));
        assert_eq!(east.kept_changed(t), at(1_626_346_800, 0));
        assert_eq!(east.kept_accessed(t), at(1_626_303_600, 0));
    }

    #[test]
    fn zones_by_name() {
        let min = |s| Zone::parse(s).map(Zone::minutes);
        assert_eq!([min("UTC"), min("60"), min("-300")], [Some(0), Some(60), Some(-300)]);
        assert_eq!([min("+02:00"), min("-03:30"), min("+60")], [Some(120), Some(-210), Some(60)]);
        assert_eq!([min("05:45"), min("-00:30")], [Some(345), Some(-30)]);
        for bad in ["", "1441", "-1441", "02:60", "25:00", "+-1:00", "Europe/Berlin", "1:", ":1"] {
            assert_eq!(min(bad), None, "{bad}");
        }
    }
}
