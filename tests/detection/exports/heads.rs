// SPDX-License-Identifier: Apache-2.0
//! The tails of exported networks: from the numbers of the last layers to the outputs, with the operators that exporters write.

use super::net::{Cell, Edges, NEVER, Net, Object, distributions, logit, tensor};

/// Centers and sizes in pixels, `centers [N, 4, cells]`, from distances to the sides, which are distributions or numbers, and
/// `scores [N, C, cells]`.
fn centers(net: &mut Net, has_bins: bool) {
    if has_bins {
        let bins = |cell: &Cell, object: &Object| distributions(object.sides(cell, 0.5), 16);
        net.planes("bins", &[0.0; 64], &bins);
        let steps: Vec<f32> = (0..16_u8).map(f32::from).collect();
        net.floats("steps", &[1, 16, 1, 1], &steps);
        net.ops(
            "bins4 = Reshape bins [-1,4,16,N]
            bins_first = Transpose bins4 perm=0,2,1,3
            shares = Softmax bins_first axis=1
            means = Conv shares steps
            sides = Reshape means [-1,4,N]",
        );
    } else {
        net.planes("sides", &[1.0; 4], &|cell, object| {
            object.sides(cell, 0.5).to_vec()
        });
    }
    let classes = net.classes;
    net.planes("logits", &net.none(), &|_, object| object.logits(classes));
    net.ops(
        "first last = Split sides [2,2] axis=1
        from = Sub anchors first
        to = Add anchors last
        sum = Add from to
        middle = Div sum (2)
        extent = Sub to from
        in_strides = Concat middle extent axis=1
        centers = Mul in_strides strides
        scores = Sigmoid logits",
    );
}

/// YOLOv3u to YOLO12 by Ultralytics, and what follows their planes.
pub(super) fn ultralytics(mut net: Net, behind: &str) -> Net {
    centers(&mut net, true);
    net.and("planes = Concat centers scores axis=1").and(behind)
}

/// YOLO26 for many boxes of an object, which has no distributions.
pub(super) fn one_to_many(mut net: Net) -> Net {
    centers(&mut net, false);
    net.and("planes = Concat centers scores axis=1").and(PLANES)
}

pub(super) const PLANES: &str = "> planes 1 4+C N";
pub(super) const TRANSPOSED: &str = "rows = Transpose planes perm=0,2,1\n> rows 1 N 4+C";
/// Half precision inside, and at the end.
pub(super) const HALF_INSIDE: &str =
    "half = Cast planes to=10\nplanes32 = Cast half to=1\n> planes32 1 4+C N";
pub(super) const HALF: &str = "half = Cast planes to=10\n> half@10 1 4+C N";
/// Boxes as shares of an image of 256×192, as those that become TensorFlow's.
pub(super) const NORMALIZED: &str = "x y w h = Split centers [1,1,1,1] axis=1
    x1 = Div x (256)
    y1 = Div y (192)
    w1 = Div w (256)
    h1 = Div h (192)
    output0 = Concat x1 y1 w1 h1 scores axis=1
    > output0 1 4+C N";
/// Coefficients of masks behind the classes, and their prototypes.
pub(super) const SEGMENTS: &str = "coefficients = ConstantOfShape [1,32,N]
    masks = Tanh coefficients
    output0 = Concat planes masks axis=1
    > output0 1 36+C N";
pub(super) const PROTOTYPES: &str = "nothing = ConstantOfShape [1,32,48,64]
    output1 = Sigmoid nothing
    > output1 1 32 48 64";
/// Points of a pose, and an angle.
pub(super) const POSE: &str = "nothing = ConstantOfShape [1,51,N]
    points = Add nothing (17)
    output0 = Concat planes points axis=1
    > output0 1 55+C N";
pub(super) const ANGLE: &str = "nothing = ConstantOfShape [1,1,N]
    angle = Sigmoid nothing
    cosine = Cos angle
    sine = Sin angle
    output0 = Concat planes angle axis=1
    > output0 1 5+C N";
pub(super) const ANGLE_OF_ROWS: &str = "cosine = Cos rows_of_6\nsine = Sin rows_of_6";

/// DeepStream-Yolo: corners, best score and its class of every cell.
pub(super) fn deepstream(mut net: Net, outputs: &str) -> Net {
    #[rustfmt::skip]
    net.floats("to_corners", &[4, 4], &[
        1.0, 0.0, 1.0, 0.0,
        0.0, 1.0, 0.0, 1.0,
        -0.5, 0.0, 0.5, 0.0,
        0.0, -0.5, 0.0, 0.5,
    ]);
    let behind = "rows = Transpose planes perm=0,2,1
        center_rows = Slice rows [0] [4] [2]
        score_rows = Slice rows [4] [9999] [2]
        boxes = MatMul center_rows to_corners
        best_scores = ReduceMax score_rows axes=2 keepdims=1
        numbers = ArgMax score_rows axis=2 keepdims=1
        classes = Cast numbers to=1
        output = Concat boxes best_scores classes axis=2";
    ultralytics(net, behind).and(outputs)
}

/// Finished boxes `corners [N, cells, 4]` and their scores, `scores [N, cells, C]` and `planes [N, C, cells]`.
pub(super) fn corners(mut net: Net, edges: Edges, behind: &str) -> Net {
    let (classes, grids) = (net.classes, net.grids);
    net.rows("corners", &[0.0; 4], &|_, object| {
        object.edges(grids, edges)
    });
    net.rows("logits", &net.none(), &|_, object| object.logits(classes));
    net.and("scores = Sigmoid logits\nplanes = Transpose scores perm=0,2,1")
        .and(behind)
}

/// [`corners`] with `more` rows, normalized, as `boxes`; `columns` are `scores`, perhaps with `background`.
pub(super) fn anchor_rows(net: Net, more: usize, columns: &str) -> Net {
    let count = net.classes + columns.split(' ').count() - 1;
    let behind = format!(
        "background = ConstantOfShape [1,N,1]
        no_boxes = ConstantOfShape [1,{more},4]
        no_scores = ConstantOfShape [1,{more},{count}]
        boxes = Concat corners no_boxes axis=1
        columns = Concat {columns} axis=2
        confs = Concat columns no_scores axis=1
        > confs 1 N+{more} {count}"
    );
    corners(net, Edges::Normalized, &behind)
}

/// Boxes as a suppression leaves them: `boxes [n, 4]`, and `kept_scores`, `classes` and `which` image, the last two as floats too,
/// `[n, 1]`, and their number `kept_count [1]`.
pub(super) fn suppressed(net: Net, edges: Edges) -> Net {
    let behind = "kept = NonMaxSuppression corners planes [100] (0.45) (0.25)
        which = Slice kept [0] [1] [1]
        classes = Slice kept [1] [2] [1]
        cells = Slice kept [2] [3] [1]
        score_list = GatherND planes kept
        kept_scores = Unsqueeze score_list [1]
        all_boxes = Reshape corners [-1,4]
        cell_list = Reshape cells [-1]
        boxes = Gather all_boxes cell_list axis=0
        classes32 = Cast classes to=1
        which32 = Cast which to=1
        kept_shape = Shape kept
        kept_count = Slice kept_shape [0] [1] [0]";
    corners(net, edges, behind)
}

/// The columns `from` as `to [rows, width]`, filled up with zeros.
fn fill(net: &mut Net, from: &str, to: &str, rows: usize, width: usize) {
    net.ops(&format!(
        "{to}/rows = Concat {from} axis=1
        {to}/rest = ConstantOfShape [{rows},{width}]
        {to}/all = Concat {to}/rows {to}/rest axis=0
        {to} = Slice {to}/all [0] [{rows}] [0]"
    ));
}

/// Suppressed rows of these columns, as many as there are.
pub(super) fn rows(net: Net, columns: &str, name: &str) -> Net {
    let width = columns.split(' ').count() + 3;
    let lines = format!("{name} = Concat {columns} axis=1\n> {name} kept {width}");
    suppressed(net, Edges::Pixels).and(&lines).named()
}

/// The same, filled up to `most`.
pub(super) fn filled(mut net: Net, columns: &str, name: &str, most: usize) -> Net {
    let width = columns.split(' ').count() + 3;
    fill(&mut net, columns, "rows", most, width);
    net.and(&format!(
        "{name} = Unsqueeze rows [0]\n> {name} 1 {most} {width}"
    ))
    .named()
}

/// Boxes, scores and classes from `first` on, filled up to 100, and their `count`, with the types, names and order of `outputs`:
/// `KIND NAME@TYPE AXES`.
pub(super) fn four(net: Net, edges: Edges, first: usize, outputs: [&str; 4]) -> Net {
    let numbered = format!("numbered = Add classes32 ({first})\nof_count = Identity kept_count");
    let mut net = suppressed(net, edges).and(&numbered);
    fill(&mut net, "boxes", "of_boxes", 100, 4);
    fill(&mut net, "kept_scores", "of_scores", 100, 1);
    fill(&mut net, "numbered", "of_classes", 100, 1);
    for output in outputs {
        let (kind, output) = output.split_once(' ').expect("a kind");
        let (name, element, axes) = tensor(output);
        let shape = axes.replace(' ', ",");
        net.ops(&format!(
            "typed_{kind} = Cast of_{kind} to={element}
            {name} = Reshape typed_{kind} [{shape}]
            > {output}"
        ));
    }
    net
}

/// The detectors of torchvision: boxes, labels from `first` on, and scores without a batch axis.
pub(super) fn torchvision(net: Net, first: usize, outputs: &str) -> Net {
    let behind = format!(
        "numbers = Add classes [{first}]
        labels = Reshape numbers [-1]
        score_values = Reshape kept_scores [-1]"
    );
    suppressed(net, Edges::Pixels).and(&behind).and(outputs)
}

/// The best 300 pairs of a row and a class of a network with one box for each object: `top_boxes [N, 300, 4]` in pixels,
/// `top_scores [N, 300]` and `top_classes [N, 300]` of whole numbers, and all three as `rows_of_6`.
pub(super) fn top_300(mut net: Net, behind: &str) -> Net {
    let classes = net.classes;
    net.queries("corners", 300, &[0.0; 4], &|object| object.xyxy.to_vec());
    net.queries("logits", 300, &net.none(), &|object| object.logits(classes));
    net.ops(
        "scores = Sigmoid logits
        flat = Reshape scores [-1,300*C]
        top_scores places = TopK flat [300] axis=1
        top_classes = Mod places [C]
        top_rows = Div places [C]
        top_rows3 = Unsqueeze top_rows [2]
        box_places = Tile top_rows3 [1,1,4]
        top_boxes = GatherElements corners box_places axis=1
        top_classes32 = Cast top_classes to=1
        top_scores3 = Unsqueeze top_scores [2]
        top_classes3 = Unsqueeze top_classes32 [2]
        rows_of_6 = Concat top_boxes top_scores3 top_classes3 axis=2",
    );
    net.and(behind)
}

/// RT-DETR of PaddleDetection, which takes height and width of the scaled image, and its scale.
pub(super) fn paddle_rtdetr(net: Net) -> Net {
    let mut net = net
        .input("im_shape images 2")
        .input("scale_factor images 2");
    let [width, height] = net.grids.size();
    net.floats("known", &[1, 2], &[height, width]);
    let behind = "sides = Div im_shape scale_factor
        of_known = Div sides known
        factors = Concat of_known of_known axis=1
        factors3 = Unsqueeze factors [1]
        scaled = Mul top_boxes factors3
        rows3 = Concat top_classes3 top_scores3 scaled axis=2
        reshape2_83.tmp_0 = Reshape rows3 [-1,6]
        zero = ConstantOfShape [1]
        count = Add zero (300)
        tile_3.tmp_0 = Cast count to=6
        > reshape2_83.tmp_0 kept 6
        > tile_3.tmp_0@6 images";
    top_300(net, behind)
}

/// YOLOv10 and YOLO26 with their choice of the best boxes, and perhaps `more` numbers of masks, poses or angles.
pub(super) fn end_to_end(net: Net, more: usize) -> Net {
    let behind = format!(
        "behind0 = ConstantOfShape [1,300,{more}]
        more = Add behind0 (17)
        output0 = Concat rows_of_6 more axis=2
        > output0 1 300 6+{more}"
    );
    top_300(net, &behind)
}

/// Queries of a transformer: `boxes`, centers and sizes as shares of the image, and `logits`, `none` of them elsewhere.
pub(super) fn transformer(
    mut net: Net,
    count: usize,
    none: &[f32],
    logits: &dyn Fn(&Object) -> Vec<f32>,
) -> Net {
    let sides = net.grids.size().repeat(2);
    net.queries("deltas", count, &[0.0; 4], &|object| {
        let center = object.center();
        let shares = center.iter().zip(&sides);
        shares.map(|(number, side)| logit(number / side)).collect()
    });
    net.queries("logits", count, none, logits);
    net.and("boxes = Sigmoid deltas")
}

/// Logits of three anchors in each cell as maps `grid# [N, 3 * (5 + C), h, w]`.
fn anchored(net: &mut Net, encode: impl Fn(&Cell, &Object) -> [f32; 4]) {
    let classes = net.classes;
    let empty = [vec![0.0; 4], vec![NEVER; 1 + classes]].concat();
    net.maps("grid", &empty.repeat(3), &|cell, object| {
        // The objectness is certain.
        let numbers = [&encode(cell, object)[..], &[9.0], &object.logits(classes)].concat();
        [&empty[..], &numbers, &empty].concat()
    });
}

/// A logit; the center of an object in the next cell is out of its range.
fn limited(share: f32) -> f32 {
    logit(share.clamp(0.02, 0.98))
}

/// The second anchor of each grid of YOLOv5, of YOLOv5 for four grids, and of YOLOv7, which are YOLOv4's.
pub(super) const YOLOV5: [[f32; 2]; 3] = [[16.0, 30.0], [62.0, 45.0], [156.0, 198.0]];
pub(super) const YOLOV5_P6: [[f32; 2]; 4] =
    [[44.0, 40.0], [86.0, 152.0], [303.0, 264.0], [739.0, 380.0]];
pub(super) const YOLOV7: [[f32; 2]; 3] = [[19.0, 36.0], [76.0, 55.0], [192.0, 243.0]];
pub(super) const YOLOV4_TINY: [[f32; 2]; 2] = [[37.0, 58.0], [135.0, 169.0]];

/// Maps `map# [N, 3, h, w, 5 + C]` of YOLOv5 and YOLOv7 without their grids: centers within twice the cell, sizes within four times
/// the anchor.
pub(super) fn maps_of_five(mut net: Net, anchors: &[[f32; 2]]) -> Net {
    anchored(&mut net, |cell, object| {
        let [x, y, width, height] = object.center();
        let at = |at: f32, first: f32| limited((at / cell.stride - first + 0.5) / 2.0);
        let size = |size: f32, axis: usize| logit((size / anchors[cell.level][axis]).sqrt() / 2.0);
        [
            at(x, cell.x),
            at(y, cell.y),
            size(width, 0),
            size(height, 1),
        ]
    });
    net.and("grid5_# = Reshape grid# [-1,3,5+C,H,W]\nmap# = Transpose grid5_# perm=0,1,3,4,2")
}

pub(super) const MAPS: &str = "> map# 1 3 H W 5+C";
/// The poolings of YOLOv7.
pub(super) const POOLS: &str = "silu = Sigmoid mean
    pool1 = MaxPool pixels kernel_shape=1,1
    pool2 = MaxPool pool1 kernel_shape=1,1
    pool3 = MaxPool pool2 kernel_shape=1,1
    pool4 = MaxPool pool3 kernel_shape=1,1";
/// The maps of YOLOv5 for Rockchip's NPU.
pub(super) const SHARES: &str = "share# = Sigmoid grid#\n> share# 1 15+3*C H W";

/// YOLOv5, and YOLOv7 with its grid.
pub(super) fn yolov5(net: Net, anchors: &[[f32; 2]]) -> Net {
    let mut net = maps_of_five(net, anchors);
    let strides = net.grids.strides;
    for (s, anchor) in strides.iter().zip(anchors) {
        let [rows, columns] = net.grids.sides(*s);
        let cell = |at: usize| [(at % columns) as f32 - 0.5, (at / columns) as f32 - 0.5];
        let corners: Vec<f32> = (0..rows * columns).flat_map(cell).collect();
        net.floats(&format!("corner{s}"), &[1, 1, rows, columns, 2], &corners);
        net.floats(&format!("anchor{s}"), &[2], anchor);
    }
    net.ops(
        "share# = Sigmoid map#
        xy# wh# conf# = Split share# [2,2,1+C] axis=4
        double# = Mul xy# (2)
        at# = Add double# corner#
        center# = Mul at# (#)
        square# = Pow wh# (2)
        factor# = Mul square# (4)
        size# = Mul factor# anchor#
        level# = Concat center# size# conf# axis=4
        rows# = Reshape level# [-1,3*H*W,5+C]",
    );
    let levels: Vec<String> = strides.iter().map(|s| format!("rows{s}")).collect();
    net.and(&format!(
        "output0 = Concat {} axis=1\n> output0 1 3*N 5+C",
        levels.join(" ")
    ))
}

/// Maps of YOLOv4 with these anchors, one for each grid, and factors of the range of centers.
pub(super) fn darknet_maps(mut net: Net, anchors: &[[f32; 2]], factors: [f32; 3]) -> Net {
    anchored(&mut net, |cell, object| {
        let [x, y, width, height] = object.center();
        let (factor, [w, h]) = (factors[cell.level], anchors[cell.level]);
        let first = |at: f32| at - (factor - 1.0) / 2.0;
        let at = |at: f32, cell_at: f32| limited((at / cell.stride - first(cell_at)) / factor);
        [
            at(x, cell.x),
            at(y, cell.y),
            (width / w).ln(),
            (height / h).ln(),
        ]
    });
    net.and("leaky = LeakyRelu mean")
        .and("> grid# 1 15+3*C H W")
}

/// The box of YOLOX.
fn yolox_box(cell: &Cell, object: &Object) -> Vec<f32> {
    let [x, y, width, height] = object.center().map(|number| number / cell.stride);
    vec![x - cell.x, y - cell.y, width.ln(), height.ln()]
}

/// YOLOX, `rows [N, cells, 5 + C]`.
pub(super) fn yolox(mut net: Net, behind: &str) -> Net {
    let (classes, none) = (net.classes, vec![NEVER; 1 + net.classes]);
    net.planes("raw", &[0.0; 4], &yolox_box);
    net.planes("logits", &none, &|_, object| {
        [vec![9.0], object.logits(classes)].concat()
    });
    net.and(
        "scores = Sigmoid logits
        planes = Concat raw scores axis=1
        rows = Transpose planes perm=0,2,1",
    )
    .and(behind)
}

/// YOLOX with a map for each grid.
pub(super) fn yolox_maps(mut net: Net) -> Net {
    let classes = net.classes;
    net.maps("box", &[0.0; 4], &yolox_box);
    net.maps("object", &[NEVER], &|_, _| vec![9.0]);
    net.maps("logits", &net.none(), &|_, object| object.logits(classes));
    net.and(
        "one# = Sigmoid object#
        cls# = Sigmoid logits#
        map# = Concat box# one# cls# axis=1
        > map# 1 5+C H W",
    )
}

/// A convolution that changes nothing, as `eye`.
fn with_eye(mut net: Net, channels: usize) -> Net {
    let eye: Vec<f32> = (0..channels * channels)
        .map(|at| f32::from(u8::from(at % (channels + 1) == 0)))
        .collect();
    net.floats("eye", &[channels, channels, 1, 1], &eye);
    net
}

/// YOLOX before its maps are joined.
pub(super) fn cut_yolox(net: Net) -> Net {
    let mut net = with_eye(net, 4);
    net.maps("box", &[0.0; 4], &yolox_box);
    net.maps("object", &[NEVER], &|_, _| vec![9.0]);
    let classes = net.classes;
    net.maps("logits", &net.none(), &|_, object| object.logits(classes));
    net.and(
        "raw# = Conv box# eye
        one# = Sigmoid object#
        cls# = Sigmoid logits#
        > raw# 1 4 H W
        > one# 1 1 H W
        > cls# 1 C H W",
    )
}

/// NanoDet before its maps become rows.
pub(super) fn cut_nanodet(net: Net) -> Net {
    let classes = net.classes;
    let behind = "all# = Concat logits# bins# axis=1\nmap# = Conv all# eye\n> map# 1 32+C H W";
    distributed(with_eye(net, classes + 32), 8, behind)
}

pub(super) const RAW: &str = "> rows 1 N 5+C";
pub(super) const DECODED: &str = "xy = Slice rows [0] [2] [2]
    wh = Slice rows [2] [4] [2]
    confidences = Slice rows [4] [9999] [2]
    middles = Transpose anchors perm=0,2,1
    grid = Add middles (-0.5)
    stride_rows = Reshape strides [1,N,1]
    in_strides = Add xy grid
    center = Mul in_strides stride_rows
    sizes = Exp wh
    size = Mul sizes stride_rows
    decoded = Concat center size confidences axis=2
    > decoded 1 N 5+C";

/// YOLOv6, whose objectness is 1.
pub(super) fn yolov6(mut net: Net) -> Net {
    centers(&mut net, false);
    net.and(
        "boxes = Transpose centers perm=0,2,1
        confidences = Transpose scores perm=0,2,1
        nothing = ConstantOfShape [1,N,1]
        ones = Add nothing (1)
        outputs = Concat boxes ones confidences axis=2
        > outputs 1 N 5+C",
    )
}

/// Distributions over `count` distances and scores of each grid, `bins#` and `cls#`.
pub(super) fn distributed(mut net: Net, count: usize, behind: &str) -> Net {
    let classes = net.classes;
    net.maps("bins", &vec![0.0; 4 * count], &|cell, object| {
        distributions(object.sides(cell, 0.5), count)
    });
    net.maps("logits", &net.none(), &|_, object| object.logits(classes));
    net.and("cls# = Sigmoid logits#").and(behind)
}

/// Maps for Rockchip's NPU, perhaps with the sum of the scores.
pub(super) const JOINED: &str = "joined# = Concat bins# logits# axis=1\n> joined# 1 64+C H W";
pub(super) const SIX: &str = "> bins# 1 64 H W\n> cls# 1 C H W";
pub(super) const NINE: &str = "total# = ReduceSum cls# [1]
    sum# = Clip total# (0) (1)
    > bins# 1 64 H W
    > cls# 1 C H W
    > sum# 1 1 H W";
/// The scores in one operator with the last convolution, by ONNX Runtime's optimizer.
pub(super) fn optimized(mut net: Net) -> Net {
    let classes = net.classes;
    let same = |place: usize| f32::from(u8::from(place.is_multiple_of(classes + 1)));
    let same: Vec<f32> = (0..classes * classes).map(same).collect();
    net.floats("same", &[classes, classes, 1, 1], &same);
    let behind = "fused# = com.microsoft::FusedConv logits# same activation=Sigmoid
        > bins# 1 64 H W
        > fused# 1 C H W";
    distributed(net, 16, behind)
}
/// PicoDet before its suppression.
pub(super) const PICODET: &str = "planes# = Reshape cls# [-1,C,H*W]
    scores# = Transpose planes# perm=0,2,1
    reg# = Slice bins/rows [F] [L] [1]
    > scores# 1 H*W C
    > reg# 1 H*W 32";

/// MultimediaTechLab's YOLO: logits, distributions, and their distances in strides, and all again of an auxiliary branch.
pub(super) fn thrice(mut net: Net) -> Net {
    let classes = net.classes;
    net.maps("logits", &net.none(), &|_, object| object.logits(classes));
    net.maps("sides", &[1.0; 4], &|cell, object| {
        object.sides(cell, 0.5).to_vec()
    });
    let main = "bins# = ConstantOfShape [1,16,4,H,W]
        > logits# 1 C H W
        > bins# 1 16 4 H W
        > sides# 1 4 H W";
    net.and(main).and(
        "first# = Mul logits# (0)
        second# = Mul sides# (0)
        third# = ConstantOfShape [1,16,4,H,W]
        > first# 1 C H W
        > third# 1 16 4 H W
        > second# 1 4 H W",
    )
}

/// RTMDet: logits, and distances in pixels from the corner of a cell.
pub(super) fn rtmdet(mut net: Net) -> Net {
    let classes = net.classes;
    net.maps("logits", &net.none(), &|_, object| object.logits(classes));
    net.maps("sides", &[1.0; 4], &|cell, object| {
        object.sides(cell, 0.0).to_vec()
    });
    net.and("reg# = Mul sides# (#)\n> logits# 1 C H W\n> reg# 1 4 H W")
}

/// RTMDet by MMYOLO: logits, and distances in strides from the corner of a cell.
pub(super) fn mmyolo(mut net: Net, behind: &str) -> Net {
    let classes = net.classes;
    net.maps("head.rtm_cls", &net.none(), &|_, object| {
        object.logits(classes)
    });
    net.maps("head.rtm_reg", &[1.0; 4], &|cell, object| {
        object.sides(cell, 0.0).to_vec()
    });
    net.and(behind)
}

pub(super) const MODEL_ONLY: &str =
    "map# = Concat head.rtm_cls# head.rtm_reg# axis=1\n> map# 1 C+4 H W";
pub(super) const UNJOINED: &str = "> head.rtm_cls# 1 C H W\n> head.rtm_reg# 1 4 H W";
/// YOLOv8 by MMYOLO, whose scores come first.
pub(super) const SCORES_FIRST: &str = "joined# = Concat logits# bins# axis=1\n> joined# 1 64+C H W";

/// YOLOX by MMYOLO, without its post-processing.
pub(super) fn mmyolo_yolox(mut net: Net) -> Net {
    net.maps("logits", &net.none(), &|_, object| object.logits(3));
    net.maps("box", &[0.0; 4], &yolox_box);
    net.maps("object", &[NEVER], &|_, _| vec![9.0]);
    net.and("map# = Concat logits# box# object# axis=1\n> map# 1 5+C H W")
}

/// Boxes, scores and classes of MMYOLO with its post-processing, with a weight named `weight`.
pub(super) fn mmyolo_parts(net: Net, weight: &str) -> Net {
    suppressed(net.named().weight(weight), Edges::Pixels).and(
        "num_dets = Unsqueeze kept_count [0]
        boxes3 = Unsqueeze boxes [0]
        scores_flat = Reshape kept_scores [1,-1]
        classes_flat = Reshape classes [1,-1]
        labels = Cast classes_flat to=6
        > num_dets@7 1 1
        > boxes3 1 kept 4
        > scores_flat 1 kept
        > labels@6 1 kept",
    )
}

/// NanoDet-Plus, in one tensor.
pub(super) fn nanodet(mut net: Net) -> Net {
    let classes = net.classes;
    net.rows("bins", &[0.0; 32], &|cell, object| {
        distributions(object.sides(cell, 0.0), 8)
    });
    net.rows("logits", &net.none(), &|_, object| object.logits(classes));
    net.and("scores = Sigmoid logits\njoined = Concat scores bins axis=2\n> joined 1 N C+32")
}

/// Scores `cls#` to this power, and distances `deltas#` in strides.
fn distances(mut net: Net, power: i32) -> Net {
    let classes = net.classes;
    net.maps("logits", &net.none(), &|_, object| {
        object.one_hot(classes, logit(object.score.powi(power)), NEVER)
    });
    net.maps("deltas", &[1.0; 4], &|cell, object| {
        object.sides(cell, 0.5).to_vec()
    });
    net.and("cls# = Sigmoid logits#")
}

/// YOLOv6 for Rockchip's NPU.
pub(super) fn yolov6_maps(net: Net) -> Net {
    distances(net, 1).and(&NINE.replace("bins# 1 64", "deltas# 1 4"))
}

/// The networks of luxonis-train, and others by Luxonis's tools.
pub(super) fn luxonis(net: Net, between: &str) -> Net {
    let behind = "out#_yolov6r2 = Concat deltas# best# cls# axis=1
        > out#_yolov6r2 1 5+C H W";
    distances(net, 1).and(between).and(behind)
}
pub(super) const BEST: &str = "best# = ReduceMax cls# axes=1";
pub(super) const CONSTANT: &str = "best# = ConstantOfShape [1,1,H,W]";

/// FCOS: scores, distances, and perhaps centerness of each grid, with which the score is the root of both.
pub(super) fn fcos(net: Net, power: i32) -> Net {
    let net = distances(net, power).and("reg# = Relu deltas#\n> cls# 1 C H W\n> reg# 1 4 H W");
    match power {
        1 => net,
        _ => net.and(
            "nothing# = ConstantOfShape [1,1,H,W]
            certain# = Add nothing# (9)
            center# = Sigmoid certain#
            > center# 1 1 H W",
        ),
    }
}
