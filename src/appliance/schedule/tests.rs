// SPDX-License-Identifier: Apache-2.0
//! Schedules by tables: midnight, changes of daylight saving time on both hemispheres, and clocks that are set.

use std::time::{Duration, SystemTime};

use super::*;

/// A window of these days, as `mon tue`, or all days for no text.
fn window(days: &str, from: &str, to: &str, zone: &str) -> Window {
    let chosen: Days = days.split(' ').filter_map(Day::from_key).collect();
    Window {
        days: if days.is_empty() { Days::ALL } else { chosen },
        from: from.parse().expect("a time"),
        to: to.parse().expect("a time"),
        zone: Zone::named(zone).expect("the machine has tzdata"),
    }
}

fn schedule(days: &str, from: &str, to: &str, zone: &str) -> Schedule {
    Schedule::new(vec![window(days, from, to, zone)])
}

fn time(text: &str) -> SystemTime {
    let at: Timestamp = text.parse().expect(text);
    at.into()
}

/// The status at a time, and all changes from then until `until`, as times.
fn changes(schedule: &Schedule, from: &str, until: &str) -> (bool, Vec<SystemTime>) {
    let first = schedule.status(time(from));
    let (mut status, mut changes) = (first, Vec::new());
    while let Some(change) = status.next_change.filter(|change| *change < time(until)) {
        changes.push(change);
        let before = schedule.status(change - Duration::from_millis(1));
        assert_eq!(before, status, "nothing changes in between");
        let next = schedule.status(change);
        assert_ne!(next.active, status.active, "it changes at {change:?}");
        status = next;
    }
    (first.active, changes)
}

/// Each case: window, period, whether it is active at its start, and the changes.
#[expect(clippy::type_complexity, reason = "a table")]
fn check(cases: &[(&str, [&str; 3], [&str; 2], bool, &[&str])]) {
    for (zone, [days, from, to], [start, until], active, wanted) in cases {
        let schedule = schedule(days, from, to, zone);
        let wanted: Vec<SystemTime> = wanted.iter().map(|text| time(text)).collect();
        let found = changes(&schedule, start, until);
        assert_eq!(
            found,
            (*active, wanted),
            "{zone} {days} {from} {to} {start}"
        );
    }
}

#[test]
fn windows_over_midnight_belong_to_the_day_on_which_they_begin() {
    // 2026-11-23 is a Monday.
    check(&[
        (
            "Europe/Berlin",
            ["mon tue wed thu fri", "22:00", "06:00"],
            ["2026-11-27T12:00:00+01:00", "2026-12-01T12:00:00+01:00"],
            false,
            &[
                "2026-11-27T22:00:00+01:00",
                "2026-11-28T06:00:00+01:00",
                "2026-11-30T22:00:00+01:00",
                "2026-12-01T06:00:00+01:00",
            ],
        ),
        (
            "Europe/Berlin",
            ["sat", "22:00", "00:00"],
            ["2026-11-23T00:00:00+01:00", "2026-11-30T00:00:00+01:00"],
            false,
            &["2026-11-28T22:00:00+01:00", "2026-11-29T00:00:00+01:00"],
        ),
        (
            "UTC",
            ["sat sun", "00:00", "24:00"],
            ["2026-11-23T00:00:00Z", "2026-11-30T12:00:00Z"],
            false,
            &["2026-11-28T00:00:00Z", "2026-11-30T00:00:00Z"],
        ),
        (
            "UTC",
            ["", "08:00:05", "08:00:10"],
            ["2026-11-23T08:00:05Z", "2026-11-24T08:00:00Z"],
            true,
            &["2026-11-23T08:00:10Z"],
        ),
        (
            "UTC",
            ["", "00:00", "24:00"],
            ["2026-11-23T00:00:00Z", "2027-11-23T00:00:00Z"],
            true,
            &[],
        ),
    ]);
}

#[test]
fn times_that_the_clock_leaves_out_do_not_occur() {
    check(&[
        // 02:00 becomes 03:00 on Sunday, 2026-03-29.
        (
            "Europe/Berlin",
            ["", "02:30", "04:00"],
            ["2026-03-28T12:00:00+01:00", "2026-03-30T12:00:00+02:00"],
            false,
            &[
                "2026-03-29T03:00:00+02:00",
                "2026-03-29T04:00:00+02:00",
                "2026-03-30T02:30:00+02:00",
                "2026-03-30T04:00:00+02:00",
            ],
        ),
        (
            "Europe/Berlin",
            ["", "22:00", "02:30"],
            ["2026-03-28T23:00:00+01:00", "2026-03-29T23:00:00+02:00"],
            true,
            &["2026-03-29T03:00:00+02:00", "2026-03-29T22:00:00+02:00"],
        ),
        // All of it is left out: the next one is a week later.
        (
            "Europe/Berlin",
            ["sun", "02:10", "02:50"],
            ["2026-03-23T00:00:00+01:00", "2026-04-06T00:00:00+02:00"],
            false,
            &["2026-04-05T02:10:00+02:00", "2026-04-05T02:50:00+02:00"],
        ),
        // Sunday, 2026-03-08.
        (
            "America/New_York",
            ["", "01:00", "02:30"],
            ["2026-03-08T00:00:00-05:00", "2026-03-08T23:00:00-04:00"],
            false,
            &["2026-03-08T01:00:00-05:00", "2026-03-08T03:00:00-04:00"],
        ),
        // Summer begins in October, by half an hour: 02:00 becomes 02:30 on 2026-10-04.
        (
            "Australia/Lord_Howe",
            ["", "02:15", "03:00"],
            ["2026-10-04T00:00:00+10:30", "2026-10-05T00:00:00+11:00"],
            false,
            &["2026-10-04T02:30:00+11:00", "2026-10-04T03:00:00+11:00"],
        ),
        // At midnight: Sunday, 2026-09-06, begins at 01:00.
        (
            "America/Santiago",
            ["sun", "00:00", "24:00"],
            ["2026-09-05T12:00:00-04:00", "2026-09-08T00:00:00-03:00"],
            false,
            &["2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"],
        ),
    ]);
}

#[test]
fn times_that_the_clock_shows_twice_count_twice() {
    check(&[
        // 03:00 becomes 02:00 on Sunday, 2026-10-25: all of the repeated hour is in the window.
        (
            "Europe/Berlin",
            ["", "01:00", "04:00"],
            ["2026-10-25T00:00:00+02:00", "2026-10-25T12:00:00+01:00"],
            false,
            &["2026-10-25T01:00:00+02:00", "2026-10-25T04:00:00+01:00"],
        ),
        (
            "Europe/Berlin",
            ["", "02:30", "03:30"],
            ["2026-10-25T00:00:00+02:00", "2026-10-25T12:00:00+01:00"],
            false,
            &[
                "2026-10-25T02:30:00+02:00",
                "2026-10-25T02:00:00+01:00",
                "2026-10-25T02:30:00+01:00",
                "2026-10-25T03:30:00+01:00",
            ],
        ),
        (
            "America/New_York",
            ["sun", "00:00", "01:30"],
            ["2026-10-31T12:00:00-04:00", "2026-11-02T00:00:00-05:00"],
            false,
            &[
                "2026-11-01T00:00:00-04:00",
                "2026-11-01T01:30:00-04:00",
                "2026-11-01T01:00:00-05:00",
                "2026-11-01T01:30:00-05:00",
            ],
        ),
        // Winter begins in April.
        (
            "Australia/Sydney",
            ["", "22:00", "06:00"],
            ["2026-04-04T12:00:00+11:00", "2026-04-05T12:00:00+10:00"],
            false,
            &["2026-04-04T22:00:00+11:00", "2026-04-05T06:00:00+10:00"],
        ),
        // 02:00 becomes 01:30.
        (
            "Australia/Lord_Howe",
            ["", "01:45", "03:00"],
            ["2026-04-05T00:00:00+11:00", "2026-04-05T12:00:00+10:30"],
            false,
            &[
                "2026-04-05T01:45:00+11:00",
                "2026-04-05T01:30:00+10:30",
                "2026-04-05T01:45:00+10:30",
                "2026-04-05T03:00:00+10:30",
            ],
        ),
    ]);
}

#[test]
fn several_windows_are_active_while_one_of_them_is() {
    let windows = vec![
        window("mon tue wed thu fri", "18:00", "24:00", "Europe/Berlin"),
        window("", "00:00", "06:00", "Europe/Berlin"),
        window("sat", "12:00", "14:00", "America/New_York"),
    ];
    let schedule = Schedule::new(windows);
    let found = changes(
        &schedule,
        "2026-11-27T12:00:00+01:00",
        "2026-11-29T12:00:00+01:00",
    );
    let wanted = [
        "2026-11-27T18:00:00+01:00",
        "2026-11-28T06:00:00+01:00",
        "2026-11-28T12:00:00-05:00",
        "2026-11-28T14:00:00-05:00",
        "2026-11-29T00:00:00+01:00",
        "2026-11-29T06:00:00+01:00",
    ];
    assert_eq!(found, (false, wanted.map(time).to_vec()));
}

#[test]
fn state_agrees_with_its_schedule_whatever_the_clock_does() {
    let schedule = schedule("", "22:00", "06:00", "Europe/Berlin");
    let noon = time("2026-11-25T12:00:00+01:00");
    let mut state = ScheduleState::new(schedule.clone(), noon);
    for (text, changes) in [
        ("2026-11-25T12:00:00.040+01:00", false),
        ("2026-11-25T22:00:00+01:00", true),
        ("2026-11-25T22:00:01+01:00", false),
        // Set back by hand, and forward again.
        ("2026-11-25T21:59:00+01:00", true),
        ("2026-11-25T21:58:00+01:00", false),
        ("2026-11-26T05:00:00+01:00", true),
        ("2026-11-27T05:00:00+01:00", true),
        ("1970-01-01T00:00:00Z", true),
        ("2026-11-27T05:00:00+01:00", true),
    ] {
        assert_eq!(state.step(time(text)), changes, "{text}");
        assert_eq!(state.status(), schedule.status(time(text)), "{text}");
    }
    // Only a broken clock shows these.
    for at in [
        SystemTime::UNIX_EPOCH - Duration::from_secs(1 << 40),
        SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40),
    ] {
        state.step(at);
        assert_eq!(state.status(), schedule.status(at));
    }
}

#[test]
fn descriptions_name_the_next_change_in_the_zone_of_the_schedule() {
    let describe = |schedule: &Schedule, at: &str| schedule.describe(time(at));
    let night = schedule("", "22:00", "06:00:30", "Europe/Berlin");
    assert_eq!(
        describe(&night, "2026-11-25T12:00:00Z"),
        "not active until Wed 2026-11-25 22:00 CET (Europe/Berlin)"
    );
    assert_eq!(
        describe(&night, "2026-07-01T22:00:00Z"),
        "active until Thu 2026-07-02 06:00:30 CEST (Europe/Berlin)"
    );
    let always = schedule("", "00:00", "24:00", "UTC");
    assert_eq!(describe(&always, "2026-11-25T12:00:00Z"), "active, always");
}

#[test]
fn zones_have_names_of_the_machine() {
    assert!(Zone::names().iter().any(|name| name == "Europe/Berlin"));
    for name in [
        "",
        "Europe",
        "Europe/Berlim",
        "../../etc/localtime",
        "Etc/Unknown",
        "CET-1",
    ] {
        assert_eq!(Zone::named(name), Err(ZoneError::Unknown), "{name}");
    }
    let zone = Zone::named("europe/berlin").expect("case is ignored");
    assert_eq!(zone.to_string(), "Europe/Berlin");
    Zone::system().expect("the zone of this machine");
}

/// A file as `zic` wrote it before 2006: version 1, with times of 32 bits and no rule for later years.
fn old_file() -> Vec<u8> {
    let switches = ["2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z"];
    let mut file = b"TZif\0".to_vec();
    file.extend([0; 15]);
    // Counts: UT and standard indicators, leap seconds, transitions, types, characters.
    for count in [0_u32, 0, 0, 2, 2, 9] {
        file.extend(count.to_be_bytes());
    }
    for at in switches {
        let at: Timestamp = at.parse().expect("a time");
        let second = i32::try_from(at.as_second()).expect("32 bits");
        file.extend(second.to_be_bytes());
    }
    file.extend([1, 0]);
    for (offset, is_summer, abbreviation) in [(3600_i32, 0, 0), (7200, 1, 4)] {
        file.extend(offset.to_be_bytes());
        file.extend([is_summer, abbreviation]);
    }
    file.extend(b"CET\0CEST\0");
    file
}

#[test]
fn files_of_the_first_format_are_read() {
    let zone = Zone::from_file("Europe/Berlin", &old_file()).expect("version 1");
    let window = Window {
        zone,
        ..window("", "22:00", "06:00", "UTC")
    };
    let old = Schedule::new(vec![window]);
    let new = schedule("", "22:00", "06:00", "Europe/Berlin");
    for from in [
        "2026-03-28T12:00:00Z",
        "2026-10-24T12:00:00Z",
        "2026-12-01T00:00:00Z",
    ] {
        assert_eq!(old.status(time(from)), new.status(time(from)), "{from}");
        let later = time(from) + Duration::from_secs(12 * 3600);
        assert_eq!(old.status(later), new.status(later), "{from}");
    }
    assert_eq!(Zone::from_file("x", &old_file()[..60]), None, "cut off");
}
