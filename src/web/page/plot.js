// Plots over time, by dygraphs, which is loaded when the first one is drawn.
import { noServer } from "./api.js";
import { h, set, setText } from "./dom.js";
import { UNKNOWN, local, span, tickText } from "./format.js";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

let library = null;
function load() {
  return (library ??= new Promise((resolve, reject) => {
    const failed = () => {
      library = null;  // the next plot tries again
      reject(noServer());
    };
    const script = h("script", { src: "/dygraph.min.js", onerror: failed, onload: () => {
      // Its legend sets attributes that the page's policy forbids; a plot has a line of text instead.
      Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);
      resolve(Dygraph);
    } });
    document.head.append(script);
  }));
}

// `series`: [{name, color, dash}] with names of CSS variables; format(value) writes a value with its unit.
export class Plot {
  constructor(what, series, format, height) {
    Object.assign(this, { what, series, format });
    this.box = h("div", { class: "plot", role: "img" });
    this.box.style.height = height;
    this.at = h("span", { class: "at" });
    this.values = series.map(() => h("span"));
    this.element = h("div", {}, h("p", { class: "keys", "aria-hidden": "true" }, ...series.map(({ name, color }, i) => {
      const swatch = h("i", { class: "swatch" });
      swatch.style.backgroundColor = `var(${color})`;
      return h("span", { class: "key" }, swatch, `${name} `, this.values[i]);
    }), this.at), this.box);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.recolor = () => this.chart?.updateOptions(this.#colors());
    this.scheme.addEventListener("change", this.recolor);
  }

  close() {
    this.closed = true;
    this.scheme.removeEventListener("change", this.recolor);
    this.chart?.destroy();
  }

  // `history`: of GET /v1/history; `figures`: its values of each series; from `since`, in ms, to its end; up to `top`.
  async show(history, figures, top, since = Date.parse(history.since)) {
    const begin = Date.parse(history.since), until = Date.parse(history.until);
    this.rows = history.recorded.map((_, i) => [new Date(begin + i * history.step * 1000), ...figures.map((values) => values[i])]);
    this.#readLast();
    set(this.box, "aria-label", `${this.what}${span(since, until)}: ` + this.series.map(({ name }, i) => {
      const known = figures[i].filter((value) => value != null);
      return known.length === 0 ? `${name} ${UNKNOWN}` : `${name} last ${this.format(known.at(-1))}, highest ${this.format(Math.max(...known))}`;
    }).join("; "));
    const Library = await load();
    if (this.closed || !this.box.isConnected) return;
    this.span = until - since;
    const now = { file: this.rows, dateWindow: [since, until], valueRange: [0, top * 1.05] };
    if (this.chart) this.chart.updateOptions(now);
    else this.chart = new Library(this.box, this.rows, { ...now, ...this.#options() });
  }

  #colors() {
    return { colors: this.series.map(({ color }) => css(color)), gridLineColor: css("--line"), axisLineColor: css("--line") };
  }

  #options() {
    const single = this.series.length === 1;
    return {
      ...this.#colors(), labels: ["time", ...this.series.map(({ name }) => name)],
      strokeWidth: 1.5, fillGraph: single, fillAlpha: 0.25, axisLabelFontSize: 11, rightGap: 8, interactionModel: {},
      series: Object.fromEntries(this.series.map(({ name, dash }) => [name, { strokePattern: dash }])),
      axes: {
        x: { pixelsPerLabel: 70, axisLabelFormatter: (date) => tickText(date, this.span) },
        y: { pixelsPerLabel: 30, axisLabelWidth: 56, axisLabelFormatter: this.format },
      },
      highlightCallback: (_event, x, points) => this.#read(local(x).slice(5), (name) => points.find((point) => point.name === name)?.yval),
      unhighlightCallback: () => this.#readLast(),
    };
  }

  #read(at, valueOf) {
    setText(this.at, at);
    this.series.forEach(({ name }, i) => {
      const value = valueOf(name, i);
      setText(this.values[i], value == null || Number.isNaN(value) ? UNKNOWN : this.format(value));
    });
  }

  #readLast() {
    const last = this.rows.findLast((row) => row.slice(1).some((value) => value != null));
    this.#read("", (_, i) => last?.[i + 1]);
  }
}
