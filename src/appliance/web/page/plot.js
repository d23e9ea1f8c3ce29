// Lines over time, as SVG.

import { el, svg } from "./dom.js";
import { asTime, t } from "./text.js";

/** As wide as on the screen, about, so that its texts have their size there. */
const width = () => Math.max(300, Math.min(640, window.innerWidth - 60));
const HEIGHT = 180;
const LEFT = 58;
const BOTTOM = 22;

/** A plot of series `{name, values: [[ms, value]]}` with a legend; values are written by `format`. */
export function plot(title, series, format) {
  const wide = width();
  const shown = series.filter((one) => one.values.length > 0);
  const all = shown.flatMap((one) => one.values);
  if (all.length < 2) return el("p", { class: "quiet" }, t("figures.later"));
  const times = all.map(([at]) => at);
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const top = niceTop(Math.max(...all.map(([, value]) => value)));
  const x = (at) => LEFT + ((at - first) / Math.max(1, last - first)) * (wide - LEFT - 8);
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - 10);
  const root = svg("svg", { viewBox: `0 0 ${wide} ${HEIGHT}`, class: "plot", role: "img", "aria-label": title });
  for (const share of [0, 0.5, 1]) {
    const at = y(top * share);
    root.append(svg("line", { x1: LEFT, x2: wide - 8, y1: at, y2: at, class: "grid" }), svg("text", { x: LEFT - 6, y: at + 4, class: "tick end" }, format(top * share)));
  }
  const time = (at) => asTime(at, { hour: "2-digit", minute: "2-digit" });
  root.append(svg("text", { x: LEFT, y: HEIGHT - 4, class: "tick" }, time(first)), svg("text", { x: wide - 8, y: HEIGHT - 4, class: "tick end" }, time(last)));
  shown.forEach((one, index) => {
    const points = one.values.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    root.append(svg("polyline", { points, class: `series s${index % 8}` }));
  });
  const legend = el("ul", { class: "legend" }, ...shown.map((one, index) =>
    el("li", {}, el("span", { class: `swatch s${index % 8}` }), `${one.name} ${format(one.values[one.values.length - 1][1])}`)));
  return el("figure", {}, el("figcaption", {}, title), root, legend);
}

function niceTop(value) {
  if (!(value > 0)) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * unit).find((step) => step >= value);
}
