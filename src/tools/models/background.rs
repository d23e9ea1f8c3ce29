// SPDX-License-Identifier: Apache-2.0
//! Where the class of the background stands among the scores of an SSD. The file does not contain it: it is a guess, unless the
//! caller of `jetwatch model init` knows it.

use jetwatch_detect::class_names::is_placeholder;
use jetwatch_detect::layouts::InferredLayout;
use jetwatch_detect::layouts::ssd::{BACKGROUND_KEY, SsdBackground};

use crate::model_yaml_template_error::ModelYamlTemplateError;

/// Sets the place of the background to the `requested` one, to the one that it has among the `labels`, or to the likely one for
/// their number. Layouts without the key have none.
///
/// # Errors
/// A place is requested for another layout, or it leaves no class.
pub(crate) fn set_background(
    guess: &mut InferredLayout,
    requested: Option<SsdBackground>,
    labels: Option<&[String]>,
) -> Result<(), ModelYamlTemplateError> {
    let layout = guess.layout;
    let found = &mut guess.found;
    let key = |(key, _): &&mut (&str, String)| *key == BACKGROUND_KEY;
    let Some((_, word)) = found.parameters.iter_mut().find(key) else {
        return match requested {
            Some(_) => Err(ModelYamlTemplateError::NoBackground { layout }),
            None => Ok(()),
        };
    };
    let scores = match word == SsdBackground::None.word() {
        true => found.classes,
        false => found.classes + 1,
    };
    let named = || {
        let labels = labels.filter(|labels| labels.len() == scores)?;
        match (
            is_placeholder(labels.first()?),
            is_placeholder(labels.last()?),
        ) {
            (true, _) => Some(SsdBackground::First),
            (false, true) => Some(SsdBackground::Last),
            (false, false) => None,
        }
    };
    let background = requested
        .or_else(named)
        .unwrap_or_else(|| SsdBackground::likely(scores, labels.map(<[String]>::len)));
    if background.classes(scores) == 0 {
        return Err(ModelYamlTemplateError::OnlyBackground {
            background: background.word(),
        });
    }
    background.word().clone_into(word);
    found.classes = background.classes(scores);
    Ok(())
}
