// SPDX-License-Identifier: Apache-2.0
//! YOLOX decoding and suppression against an independent numpy reference: `tests/reference/yolox.py`.

use jetwatch_detect::nms;
use serde_json::json;

use crate::detect_layouts_yolo::{check_case, count, golden, list, number};

#[test]
fn decoding_and_suppression_agree_with_the_reference() {
    let golden = golden("yolox_decode");
    assert_eq!(list(&golden["cases"]).count(), 3);
    for (index, case) in list(&golden["cases"]).enumerate() {
        let row_len = 5 + count(&case["classes"]);
        let rows = list(&case["output"]).count() / row_len;
        let tensor = json!({"axes": [rows, row_len], "numbers": case["output"]});
        let at = format!("case {index}");
        let (_, mut candidates) = check_case(&at, case, "{layout: yolox, name: rows}", &[tensor]);
        nms::non_max_suppression(&mut candidates, number(&case["iou"]), count(&case["most"]));
        let kept = candidates.iter().map(|candidate| candidate.cell as usize);
        assert!(kept.eq(list(&case["kept"]).map(count)), "{at}");
    }
}
