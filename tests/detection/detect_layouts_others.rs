// SPDX-License-Identifier: Apache-2.0
//! The output layouts that are not of the YOLO family against an independent numpy reference:
//! `tests/reference/layouts_others.py`.

use crate::detect_layouts_yolo::agrees;

#[test]
fn layouts_of_other_families_agree_with_the_reference() {
    for name in ["fcos", "gfl", "detectnet_v2", "fastestdet", "ssd"] {
        agrees(name, true);
    }
    for name in ["detr", "nms_plugin", "rows_of_six"] {
        agrees(name, false);
    }
}
