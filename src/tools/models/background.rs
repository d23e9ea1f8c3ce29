// SPDX-License-Identifier: Apache-2.0
//! Where the class of the background stands among the scores of an SSD. The file does not contain it: it is a guess, unless the
//! caller of `jetwatch model init` knows it.

use crate::infer_layout::InferredLayout;
use crate::model_yaml_template_error::ModelYamlTemplateError;

/// The key in `output`.
pub(crate) const BACKGROUND_KEY: &str = "background";

/// Place of the background among the scores of an anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// Before the classes.
    First,
    /// After the classes.
    Last,
    /// There is none: each score belongs to a class.
    None,
}

impl Background {
    /// Every place.
    pub const ALL: [Self; 3] = [Self::First, Self::Last, Self::None];

    /// The value of the key in `model.yaml`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
            Self::None => "none",
        }
    }

    /// The place for an anchor with this number of scores: first, as most networks have it, unless all scores belong to the
    /// `labels`, or there is only one.
    pub(crate) fn likely(scores: usize, labels: Option<usize>) -> Self {
        match scores == 1 || labels == Some(scores) {
            true => Self::None,
            false => Self::First,
        }
    }

    /// Number of classes of a network with this number of scores for an anchor.
    pub(crate) fn classes(self, scores: usize) -> usize {
        match self {
            Self::First | Self::Last => scores.saturating_sub(1),
            Self::None => scores,
        }
    }
}

impl InferredLayout {
    /// Sets the place of the background to the `requested` one, or to the likely one for this number of `labels`. Layouts other
    /// than `ssd` have none.
    ///
    /// # Errors
    /// A place is requested for another layout, or it leaves no class.
    pub(crate) fn set_background(
        &mut self,
        requested: Option<Background>,
        labels: Option<usize>,
    ) -> Result<(), ModelYamlTemplateError> {
        let key = |(key, _): &&mut (&str, String)| *key == BACKGROUND_KEY;
        let Some((_, word)) = self.parameters.iter_mut().find(key) else {
            return match requested {
                Some(_) => Err(ModelYamlTemplateError::NoBackground {
                    layout: self.layout,
                }),
                None => Ok(()),
            };
        };
        let guessed = Background::ALL.into_iter().find(|one| one.word() == word);
        let scores = match guessed {
            Some(Background::None) => self.classes,
            _ => self.classes + 1,
        };
        let background = requested.unwrap_or_else(|| Background::likely(scores, labels));
        if background.classes(scores) == 0 {
            return Err(ModelYamlTemplateError::OnlyBackground {
                background: background.word(),
            });
        }
        background.word().clone_into(word);
        self.classes = background.classes(scores);
        Ok(())
    }
}
