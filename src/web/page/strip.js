// A strip of what a job did over time: it ran, waited for its turn, or was suspended. Height says it as well as colour.
import { h, keys, reconcile, set, setStyle } from "./dom.js";
import { span } from "./format.js";

const STEPS = 4;  // heights of a part of the time in which it ran

export const stripKeys = () => keys(["ran", "run"], ["waited for its turn", "wait"], ["suspended", "off"]);
export const makeStrip = () => h("div", { class: "strip", role: "img" });

// `history`: of GET /v1/history of a job; from `since`, in ms, to its end.
export function showStrip(strip, what, history, since = Date.parse(history.since)) {
  const { recorded, states, step } = history, begin = Date.parse(history.since), until = Date.parse(history.until);
  const whole = recorded.reduce((sum, part) => sum + part, 0);
  const part = (name) => Math.round((states[name].reduce((sum, value, i) => sum + (value ?? 0) * recorded[i], 0) / whole) * 100);
  set(strip, "aria-label", `${what}${span(since, until)}: ` + (whole > 0
    ? `running ${part("running")}%, waiting for its turn ${part("waiting")}%, suspended ${part("suspended")}%` : "nothing is recorded"));
  const runs = [];
  let before = "";
  recorded.forEach((_, i) => {
    if (states.running[i] == null) return (before = "");
    const high = Math.ceil(states.running[i] * STEPS);
    const kind = high > 0 ? "run" : states.suspended[i] > states.waiting[i] ? "off" : "wait";
    const from = Math.max(begin + i * step * 1000, since), to = Math.min(begin + (i + 1) * step * 1000, until);
    if (to <= from) return;
    if (before === kind + high) runs.at(-1).to = to;
    else runs.push({ kind, high, from, to });
    before = kind + high;
  });
  reconcile(strip, runs, (_, i) => i, () => h("i"), (element, { kind, high, from, to }) => {
    const percent = (ms) => `${((ms / (until - since)) * 100).toFixed(2)}%`;
    set(element, "class", kind);
    setStyle(element, "left", percent(from - since));
    setStyle(element, "width", percent(to - from));
    setStyle(element, "height", high > 0 ? `${(high / STEPS) * 100}%` : "3px");
  });
}
