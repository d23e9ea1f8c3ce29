// SPDX-License-Identifier: Apache-2.0
//! Which rules of a source are active: switched on, and on by their schedules. Pure: the time is an argument.

use std::time::{Duration, SystemTime};

use jetwatch_config::SceneRules;
use jetwatch_publish::Activity;
use jetwatch_schedule::{Schedule, ScheduleState};

/// A time that is earlier than the latest one by less than this belongs to a frame that was late; else the clock was set back.
const MAX_LATE: Duration = Duration::from_secs(10);

/// The rules of one source, in the order of their names.
pub(crate) struct ActiveRules {
    rules: Vec<ActiveRule>,
    latest: SystemTime,
}

struct ActiveRule {
    name: String,
    switched_on: bool,
    schedule: Option<ScheduleState>,
    /// It has a schedule, or had one in this run.
    was_scheduled: bool,
    /// Whether the analytics have it on.
    is_applied: bool,
    /// What was published last is not what is true now.
    is_changed: bool,
}

impl ActiveRules {
    /// All switched on, with what their schedules say at `now`.
    pub(crate) fn new(rules: &SceneRules, now: SystemTime) -> Self {
        let all = rules.names().zip(rules.schedules());
        let rules = all.map(|(name, schedule)| ActiveRule {
            name: name.to_owned(),
            switched_on: true,
            schedule: schedule.map(|schedule| ScheduleState::new(schedule.clone(), now)),
            was_scheduled: schedule.is_some(),
            is_applied: true,
            is_changed: true,
        });
        Self {
            rules: rules.collect(),
            latest: now,
        }
    }

    /// Whether each rule is switched on.
    pub(crate) fn switches(&self) -> impl Iterator<Item = bool> {
        self.rules.iter().map(|rule| rule.switched_on)
    }

    /// Switches a rule.
    pub(crate) fn switch(&mut self, index: usize, on: bool) {
        let rule = &mut self.rules[index];
        rule.is_changed |= rule.switched_on != on;
        rule.switched_on = on;
    }

    /// Whether a rule is active now, where that differs from the last call. At first a rule counts as active.
    pub(crate) fn take_change(&mut self, index: usize) -> Option<bool> {
        let rule = &mut self.rules[index];
        let active = rule.activity().is_active();
        (std::mem::replace(&mut rule.is_applied, active) != active).then_some(active)
    }

    /// The number of rules.
    pub(crate) fn count(&self) -> usize {
        self.rules.len()
    }

    /// Sets the schedules of all rules, after a reload.
    pub(crate) fn set_schedules(&mut self, schedules: Vec<Option<Schedule>>, now: SystemTime) {
        for (rule, schedule) in self.rules.iter_mut().zip(schedules) {
            rule.was_scheduled |= schedule.is_some();
            rule.schedule = schedule.map(|schedule| ScheduleState::new(schedule, now));
            rule.is_changed = true;
        }
    }

    /// Takes the time; returns whether a schedule says something else.
    pub(crate) fn step(&mut self, at: SystemTime) -> bool {
        let is_late = |behind: Duration| behind < MAX_LATE;
        if self.latest.duration_since(at).is_ok_and(is_late) {
            return false;
        }
        self.latest = at;
        let mut has_changed = false;
        for rule in &mut self.rules {
            let schedule = rule.schedule.as_mut();
            if schedule.is_some_and(|schedule| schedule.step(at)) {
                rule.is_changed = true;
                has_changed = true;
            }
        }
        has_changed
    }

    /// When a schedule changes next.
    pub(crate) fn next_change(&self) -> Option<SystemTime> {
        let schedules = self.rules.iter().filter_map(|rule| rule.schedule.as_ref());
        schedules
            .filter_map(|schedule| schedule.status().next_change)
            .min()
    }

    /// Passes what changed since the last call to `each`, of the rules that have or had schedules.
    pub(crate) fn take_changes(&mut self, mut each: impl FnMut(&Activity<'_>)) {
        for rule in self.rules.iter_mut().filter(|rule| rule.was_scheduled) {
            if std::mem::take(&mut rule.is_changed) {
                each(&rule.activity());
            }
        }
    }
}

impl ActiveRule {
    fn activity(&self) -> Activity<'_> {
        let status = self.schedule.as_ref().map(ScheduleState::status);
        Activity {
            rule: Some(&self.name),
            switched_on: self.switched_on,
            scheduled: status.map(|status| status.active),
            next_change: status.and_then(|status| status.next_change),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jetwatch_config::Config;

    #[test]
    fn rules_are_active_while_switch_and_schedule_are_on() {
        let text = "sources:\n  - name: a\n    uri: synthetic://traffic\n    lines: [{name: l, coordinates: '0,0,1,1', schedule: {from: '10:00', to: '11:00', time_zone: UTC}}, {name: m, coordinates: '0,0,1,0'}]\ndetector: {backend: scripted}\n";
        let config = Config::from_str("f.yaml", text).expect("a good file");
        let hour = |hour: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(hour * 3600);
        let mut rules = ActiveRules::new(&config.sources[0].rules, hour(9));
        assert_eq!(
            (rules.take_change(0), rules.take_change(1)),
            (Some(false), None)
        );
        assert_eq!(rules.next_change(), Some(hour(10)));
        assert!(!rules.step(hour(9) + Duration::from_secs(60)));
        assert!(rules.step(hour(10)));
        assert_eq!(
            (rules.take_change(0), rules.take_change(0)),
            (Some(true), None)
        );
        // A late frame.
        assert!(!rules.step(hour(10) - Duration::from_secs(1)));
        rules.switch(0, false);
        assert_eq!(rules.take_change(0), Some(false));
        assert!(rules.step(hour(9)), "the clock was set back");
        assert!(rules.step(hour(10)));
        assert_eq!(rules.take_change(0), None, "the switch is off");
        let mut changes = Vec::new();
        let mut take = |rules: &mut ActiveRules| {
            rules.take_changes(|activity| {
                changes.push((
                    activity.is_active(),
                    activity.scheduled,
                    activity.next_change,
                ));
            });
        };
        take(&mut rules);
        rules.switch(0, true);
        rules.set_schedules(vec![None, None], hour(10));
        assert_eq!(rules.take_change(0), Some(true));
        take(&mut rules);
        take(&mut rules);
        let wanted = [(false, Some(true), Some(hour(11))), (true, None, None)];
        assert_eq!(
            changes, wanted,
            "a rule that never had a schedule is not published"
        );
    }
}
