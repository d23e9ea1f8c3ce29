// SPDX-License-Identifier: Apache-2.0
//! What the parser accepts, and its errors for everything else.

use super::*;

const GOOD: &str = r#"{
  "info": {"year": 2026}, "licenses": [null],
  "images": [
    {"id": 9, "file_name": "b/9.jpg", "width": 640, "height": 480, "license": 3},
    {"id": 3, "file_name": "a.png", "width": 32.0, "height": 24}
  ],
  "categories": [{"id": 7, "name": "car", "supercategory": "vehicle"}, {"id": 1, "name": "person"}],
  "annotations": [
    {"id": 1, "image_id": 9, "category_id": 1, "bbox": [1, 2.5, 30, 40], "area": 600.5, "iscrowd": 1,
     "segmentation": {"counts": [1, 2], "size": [3, 4]}},
    {"id": 2, "image_id": 3, "category_id": 7, "bbox": [-1, 0, 0, 4], "area": 0}
  ]
}"#;

fn error(text: &str) -> String {
    parse(text.as_bytes()).expect_err(text).to_string()
}

#[test]
fn lists_are_sorted_by_id_and_objects_point_into_them() {
    let truth = parse(GOOD.as_bytes()).expect("it is right");
    let ids: Vec<_> = truth.images.iter().map(|image| image.id).collect();
    assert_eq!(ids, [3, 9]);
    assert_eq!(truth.images[1].file_name, "b/9.jpg");
    assert_eq!(truth.images[0].size, Size::new(32, 24));
    assert_eq!(truth.categories[0].name, "person");
    let wanted = [
        Object {
            image: 1,
            category: 0,
            xywh: [1.0, 2.5, 30.0, 40.0],
            area: 600.5,
            crowd: true,
        },
        Object {
            image: 0,
            category: 1,
            xywh: [-1.0, 0.0, 0.0, 4.0],
            area: 0.0,
            crowd: false,
        },
    ];
    assert_eq!(truth.objects, wanted);
    let with_mark = [b"\xef\xbb\xbf", GOOD.as_bytes()].concat();
    assert_eq!(parse(&with_mark), Ok(truth));
}

#[test]
fn an_empty_set_is_a_set() {
    let text = r#"{"images": [], "categories": [], "annotations": []}"#;
    assert_eq!(parse(text.as_bytes()), Ok(Truth::default()));
}

#[test]
fn every_invalid_coco_value_is_reported_with_its_position() {
    // What is replaced, by what, and a part of the error.
    let cases = [
        r#""id": 1, "image_id" => "image_id" => annotations[0]: id: found nothing, expected a whole number"#,
        r#""image_id": 9 => "image_id": 10 => annotations[0] (id 1): image_id: found 10, expected the id of one of the images"#,
        r#""image_id": 9,  =>  => annotations[0] (id 1): image_id: found nothing"#,
        r#""category_id": 7 => "category_id": "car" => annotations[1] (id 2): category_id: found "car", expected the id of one of the categories"#,
        "[1, 2.5, 30, 40] => [1, 2.5, -30, 40] => annotations[0] (id 1): bbox: found [1.0, 2.5, -30.0, 40.0], expected [left, top, width, height]",
        "[1, 2.5, 30, 40] => [1, 2.5, 30] => annotations[0] (id 1): bbox: found [1,2.5,30]",
        "600.5 => -600.5 => annotations[0] (id 1): area: found -600.5",
        r#", "area": 0} => } => annotations[1] (id 2): area: found nothing"#,
        r#""iscrowd": 1 => "iscrowd": 2 => annotations[0] (id 1): iscrowd: found 2, expected 0 or 1"#,
        r#"{"id": 2, "image => {"id": 1, "image => annotations[1]: id: found 1, which annotations[0] has too"#,
        r#""id": 3, => "id": 9, => images[1]: id: found 9, which images[0] has too"#,
        r#"a.png => ../a.png => images[1] (id 3): file_name: found "../a.png""#,
        r#"a.png => /etc/a.png => images[1] (id 3): file_name: found "/etc/a.png""#,
        "480 => 0 => images[0] (id 9): height: found 0, expected 1 to 65535 pixels",
        r#""person" => "car" => categories[1] (id 1): name: found "car", which categories[0] has too"#,
        r#""name": "person" => "name": null => categories[1] (id 1): name: found null, expected a name"#,
    ];
    for case in cases {
        let parts: Vec<&str> = case.split(" => ").collect();
        let [good, bad, wanted] = parts[..] else {
            panic!("{case}");
        };
        let text = GOOD.replacen(good, bad, 1);
        assert_ne!(text, GOOD, "{good} is in the text");
        let found = error(&text);
        assert!(found.contains(wanted), "{bad}: {found}");
    }
}

#[test]
fn invalid_entry_does_not_invalidate_others() {
    let found = error(&GOOD.replace("480", "-1"));
    assert_eq!(
        found,
        "images[0] (id 9): height: found -1, expected 1 to 65535 pixels"
    );
}

#[test]
fn many_problems_are_counted() {
    let entry = r#"{"id": 1, "image_id": 9, "category_id": 1, "bbox": [0,0,1,1], "area": 1}"#;
    let many = vec![entry; 101].join(",");
    let text = format!(
        r#"{{"images": [{{"id": 9, "file_name": "a", "width": 1, "height": 1}}], "categories": [{{"id": 1, "name": "a"}}], "annotations": [{many}]}}"#
    );
    let found = error(&text);
    assert_eq!(found.lines().count(), MAX_LISTED + 1, "{found}");
    assert!(found.ends_with("and 80 more"), "{found}");
}

#[test]
fn invalid_json_is_reported_with_an_excerpt() {
    let cases = [
        ("", "not COCO annotations: EOF"),
        ("[]", "not COCO annotations"),
        (r#"{"images": []}"#, "missing field `categories`"),
        (r#"{"images": 3}"#, "expected a sequence"),
        (r#"{"images": [3]}"#, "line 1 column 13"),
    ];
    for (text, wanted) in cases {
        let found = error(text);
        assert!(
            found.contains(wanted) && found.contains("images, categories and annotations"),
            "{text}: {found}"
        );
    }
    // Python writes NaN, which is no JSON.
    let found = error(&GOOD.replace("[1, 2.5, 30, 40]", "[1, NaN, 30, 40]"));
    assert!(
        found.contains("line 9")
            && found.contains(r#"{"id": 1, "image_id": 9, "category_id": 1, "bbox": [1, N"#),
        "{found}"
    );
    let found = error(&"[".repeat(100_000));
    assert!(found.contains("not COCO annotations"), "{found}");
}
