// SPDX-License-Identifier: Apache-2.0
//! Combines several results for one object by score-weighted voting, with hysteresis. Pure.

use std::collections::VecDeque;

use jetwatch_types::Xyxy;

/// Share of the threshold that the mean score of a label must reach to be decided: it is in half of the results, or in fewer with
/// high scores.
const ENTER_RATIO: f32 = 0.5;

/// A decided label whose mean score has fallen to this share of the threshold is withdrawn.
const LEAVE_RATIO: f32 = 0.25;

/// A label that excludes the decided one must be ahead of it by so much mean score to take its place.
const SWITCH_MARGIN: f32 = 0.1;

/// The score of one label in one result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Vote {
    /// Index into the network's labels.
    pub(super) class: u16,
    /// 0 to 1; not below the network's threshold.
    pub(super) score: f32,
    /// Where, for detectors, in source pixels.
    pub(super) xyxy: Option<Xyxy>,
}

/// How votes are counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct VoteRule {
    /// Number of newest results that count.
    pub(super) window: usize,
    /// Least score of a vote.
    pub(super) threshold: f32,
    /// Whether several labels may hold at once.
    pub(super) allow_several: bool,
}

/// The newest results for one object, and the decided labels. The score of a decided label is its mean over the results.
#[derive(Debug, Default)]
pub(super) struct Votes {
    results: VecDeque<Vec<Vote>>,
    decided: Vec<Vote>,
}

impl Votes {
    /// Adds a result, which may have no votes.
    pub(super) fn add(&mut self, rule: &VoteRule, votes: Vec<Vote>) {
        while self.results.len() >= rule.window.max(1) {
            self.results.pop_front();
        }
        self.results.push_back(votes);
        // A decision stays until there are enough results for another one.
        if self.results.len() <= rule.window / 2 {
            return;
        }
        let means = self.means();
        let was = |class: u16| self.decided.iter().any(|vote| vote.class == class);
        let holds = |vote: &Vote| {
            let share = if was(vote.class) {
                LEAVE_RATIO
            } else {
                ENTER_RATIO
            };
            vote.score > 0.0
                && match was(vote.class) {
                    true => vote.score > share * rule.threshold,
                    false => vote.score >= share * rule.threshold,
                }
        };
        let mut held: Vec<Vote> = means.into_iter().filter(holds).collect();
        if !rule.allow_several {
            let ahead =
                |vote: &Vote| vote.score + if was(vote.class) { SWITCH_MARGIN } else { 0.0 };
            // Of equal ones the first in the order of labels.
            let best = held
                .iter()
                .copied()
                .rev()
                .max_by(|a, b| ahead(a).total_cmp(&ahead(b)));
            held = best.into_iter().collect();
        }
        self.decided = held;
    }

    /// What is decided, by class.
    pub(super) fn decided(&self) -> &[Vote] {
        &self.decided
    }

    /// Each label of any result, by class, with its mean score over all results and its newest box.
    fn means(&self) -> Vec<Vote> {
        let mut means: Vec<Vote> = Vec::new();
        let share = 1.0 / self.results.len().max(1) as f32;
        for vote in self.results.iter().flatten() {
            let score = vote.score * share;
            match means.binary_search_by_key(&vote.class, |mean| mean.class) {
                Ok(index) => {
                    means[index].score += score;
                    means[index].xyxy = vote.xyxy;
                }
                Err(index) => means.insert(index, Vote { score, ..*vote }),
            }
        }
        means
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: VoteRule = VoteRule {
        window: 5,
        threshold: 0.4,
        allow_several: false,
    };

    fn vote(class: u16, score: f32) -> Vote {
        Vote {
            class,
            score,
            xyxy: None,
        }
    }

    /// The decided labels after each result.
    fn decided_after_each(rule: &VoteRule, results: &[&[(u16, f32)]]) -> Vec<Vec<u16>> {
        let mut votes = Votes::default();
        let mut after = |result: &&[(u16, f32)]| {
            let result = result.iter().map(|(class, score)| vote(*class, *score));
            votes.add(rule, result.collect());
            votes.decided().iter().map(|vote| vote.class).collect()
        };
        results.iter().map(&mut after).collect()
    }

    #[test]
    fn more_than_half_of_the_results_must_be_there() {
        let results: [&[(u16, f32)]; 4] = [&[(3, 0.9)]; 4];
        let none: Vec<u16> = Vec::new();
        let wanted = [none.clone(), none, vec![3], vec![3]];
        assert_eq!(decided_after_each(&ONE, &results), wanted);
        let single = VoteRule { window: 1, ..ONE };
        assert_eq!(decided_after_each(&single, &results[..1]), [vec![3]]);
    }

    #[test]
    fn an_outlier_changes_nothing_and_a_lasting_change_does() {
        let a: &[(u16, f32)] = &[(1, 0.8)];
        let b: &[(u16, f32)] = &[(2, 0.8)];
        let found = decided_after_each(&ONE, &[a, a, a, b, a, b, b, b, b]);
        let one: Vec<u16> = found.iter().skip(2).map(|labels| labels[0]).collect();
        // With three results of five it is ahead by 0.16.
        assert_eq!(one, [1, 1, 1, 1, 2, 2, 2]);
        // Ahead by less than the margin: the decided one stays.
        let found = decided_after_each(
            &ONE,
            &[
                &[(1, 0.5)],
                &[(1, 0.5)],
                &[(1, 0.5)],
                &[(2, 0.9)],
                &[(2, 0.9)],
            ],
        );
        assert_eq!(found[4], [1]);
    }

    #[test]
    fn unseen_attribute_is_withdrawn() {
        let votes: &[(u16, f32)] = &[(1, 0.6)];
        let found = decided_after_each(&ONE, &[votes, votes, votes, &[], &[], &[], &[], &[]]);
        let one = vec![1_u16];
        assert_eq!(
            found[3..],
            [one.clone(), one.clone(), one.clone(), one, vec![]]
        );
    }

    #[test]
    fn the_score_is_the_mean_over_all_results_and_the_box_the_newest() {
        let mut votes = Votes::default();
        let rule = VoteRule {
            window: 4,
            allow_several: true,
            ..ONE
        };
        for (score, left) in [(0.75, 1.0), (0.5, 2.0)] {
            let xyxy = Some([left, 0.0, 9.0, 9.0]);
            votes.add(
                &rule,
                vec![
                    vote(0, 0.5),
                    Vote {
                        xyxy,
                        ..vote(7, score)
                    },
                ],
            );
        }
        votes.add(&rule, Vec::new());
        votes.add(&rule, Vec::new());
        let found: Vec<_> = votes
            .decided()
            .iter()
            .map(|vote| (vote.class, vote.score))
            .collect();
        assert_eq!(found, [(0, 0.25), (7, 0.3125)]);
        assert_eq!(votes.decided()[1].xyxy, Some([2.0, 0.0, 9.0, 9.0]));
    }

    proptest::proptest! {
        #[test]
        fn voting_invariants_hold_for_any_sequence(
            results in proptest::collection::vec(proptest::collection::vec((0_u16..4, 0.4_f32..=1.0), 0..3), 1..40),
            window in 1_usize..8,
            allow_several in proptest::bool::ANY,
        ) {
            let rule = VoteRule { window, threshold: 0.4, allow_several };
            let mut votes = Votes::default();
            for result in &results {
                // A result has each label at most once.
                let mut once: Vec<Vote> = Vec::new();
                for (class, score) in result {
                    if once.iter().all(|vote| vote.class != *class) {
                        once.push(vote(*class, *score));
                    }
                }
                votes.add(&rule, once);
                let decided = votes.decided();
                proptest::prop_assert!(allow_several || decided.len() <= 1);
                proptest::prop_assert!(decided.is_sorted_by(|a, b| a.class < b.class));
                for vote in decided {
                    proptest::prop_assert!(vote.score > 0.0 && vote.score <= 1.0 + 1e-5);
                }
                proptest::prop_assert!(votes.results.len() <= window);
            }
        }
    }
}
