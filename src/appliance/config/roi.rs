// SPDX-License-Identifier: Apache-2.0
//! `roi` of a source: the part of its image that the network sees.

use jetwatch_types::Region;

use super::redact::quoted;

/// Reads `left,top,width,height`, in shares of the image's sides.
///
/// # Errors
/// What is wrong, in words: no four numbers, an edge outside of the image, or a part without area.
pub(super) fn parse_region(text: &str) -> Result<Region, String> {
    let numbers = text
        .split(',')
        .map(|part| {
            let part = part.trim();
            let number = part.parse::<f32>().ok().filter(|number| number.is_finite());
            number.ok_or_else(|| {
                let part = quoted(part);
                format!("`{part}` is not a number; expected left,top,width,height")
            })
        })
        .collect::<Result<Vec<f32>, _>>()?;
    let &[left, top, width, height] = numbers.as_slice() else {
        return Err(format!(
            "found {} numbers, expected four: left,top,width,height",
            numbers.len()
        ));
    };
    for (name, from, share, end) in [
        ("width", left, width, "right"),
        ("height", top, height, "lower"),
    ] {
        let edge = if name == "width" { "left" } else { "top" };
        if !(0.0..1.0).contains(&from) {
            return Err(format!(
                "{edge} is {from}, outside of the image; expected from 0 to below 1"
            ));
        }
        if share <= 0.0 {
            return Err(format!(
                "{name} is {share}, which leaves no area; expected above 0"
            ));
        }
        // Two decimals do not add up to exactly 1.
        if from + share > 1.0 + 1e-5 {
            return Err(format!(
                "{edge} and {name} are {}, beyond the image's {end} edge; expected at most 1",
                from + share
            ));
        }
    }
    Ok(Region {
        left,
        top,
        width,
        height,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roi_accepts_valid_regions() {
        let region = parse_region("0.25, 0,0.5,1").expect("a part");
        let found = (region.left, region.top, region.width, region.height);
        assert_eq!(found, (0.25, 0.0, 0.5, 1.0));
        assert!(parse_region("0.7,0.1,0.3,0.9").is_ok(), "they add up to 1");
    }

    #[test]
    fn roi_rejects_invalid_regions() {
        #[rustfmt::skip]
        let cases = [
            ("0.1,0.1,x,0.2", "`x` is not a number"),
            ("0.1,0.1,NaN,0.2", "`NaN` is not a number"),
            ("0.1,0.1,0.5", "found 3 numbers"),
            ("-0.1,0,0.5,1", "left is -0.1, outside of the image"),
            ("0,1,0.5,0.5", "top is 1, outside of the image"),
            ("0,0,0,1", "width is 0, which leaves no area"),
            ("0,0,0.5,-1", "height is -1, which leaves no area"),
            ("0.75,0,0.5,1", "left and width are 1.25, beyond the image's right edge"),
            ("0,0.5,1,0.75", "top and height are 1.25, beyond the image's lower edge"),
        ];
        for (text, wanted) in cases {
            let problem = parse_region(text).expect_err("no part");
            assert!(problem.contains(wanted), "{text}: {problem}");
        }
    }
}
