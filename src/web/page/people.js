// People: what users and projects had of the machine, what of it they did not use, and what energy it took.
import { get } from "./api.js";
import { Table, column, figure, h, select, setText } from "./dom.js";
import { UNKNOWN, duration, number, small, used } from "./format.js";

const EVERY = 30_000, DAY = 86_400_000;  // ms
const GIB = 2 ** 30;

const gibHours = (value) => number(value == null ? null : value / GIB, "", 2);
const percent = (part, whole) => (whole > 0 && part != null ? `${Math.round((part / whole) * 100)}%` : UNKNOWN);

export function open(main, frame) {
  let all = 0, most = 0;  // GPU-hours: of everybody, and of the one with the most
  let currency = null;    // of costs; null: no price is set
  const tables = Object.fromEntries([["user", "-"], ["project", "no project"]].map(([by, none]) => [by, new Table(`By ${by}`, [
    column(by.toUpperCase(), (row) => row.name || none, 0, "long"),
    figure("GPU-HOURS", (row) => ({ text: small(row.gpu_hours), bar: row.gpu_hours > 0 && !row.whole ? row.gpu_hours / most : 0 })),
    figure("PART", (row) => percent(row.gpu_hours, all), 2),
    figure("UNUSED", (row) => gibHours(row.gpu_byte_hours_unused)),
    figure("UNUSED PART", (row) => percent(row.gpu_byte_hours_unused, row.gpu_byte_hours_known), 2),
    figure("ENERGY", (row) => used(row.energy_j, row.cost, currency)),
    figure("JOBS", (row) => row.jobs, 1),
    figure("SUCCESS", (row) => percent(row.success, 1), 2),
    figure("FAILED", (row) => row.failed + row.killed, 3),
    figure("RUNNING", (row) => row.running, 1),
    figure("QUEUED", (row) => row.queued, 1),
    figure("WAIT", (row) => (row.runs > 0 ? duration(row.wait_mean_s * 1000) : UNKNOWN), 3, "mean of a run"),
    figure("RUN", (row) => (row.runs > 0 ? duration(row.run_mean_s * 1000) : UNKNOWN), 3, "mean of a run"),
    figure("FAIR", (row) => number(row.fair_share?.factor, "", 2), 3, "1 for nothing used lately, 0.5 for just their part"),
  ], (row) => (row.whole ? "all" : `name ${row.name}`), "Nobody ran a job in this time.")]));
  const days = select("days", () => poller.begin(), [[30, "the last 30 days"], [7, "the last 7 days"], [1, "the last day"], [365, "the last year"]]);
  const summary = h("p", { text: "The daemon is being asked." });
  main.append(h("h1", { text: "People" }), h("p", { class: "row" }, h("label", { for: "days", text: "Jobs that ended in" }), days), summary,
    tables.user.element, tables.project.element,
    h("p", { class: "dim", text: "UNUSED: GiB-hours of GPU memory that runs had and never used, where that is known." }));

  const poller = frame.poll(async (signal) => {
    const since = new Date(Date.now() - days.value * DAY).toISOString();
    const answers = await Promise.all(Object.keys(tables).map((by) => get(`/v1/stats?by=${by}&since=${since}`, signal)));
    currency = answers[0].currency;
    for (const { by, rows, total } of answers) {
      all = total.gpu_hours;
      most = Math.max(...rows.map((row) => row.gpu_hours));
      rows.sort((a, b) => b.gpu_hours - a.gpu_hours || (a.name < b.name ? -1 : 1));
      tables[by].show(rows.length > 1 ? [...rows, { ...total, name: "all", whole: true }] : rows);
    }
    const { total } = answers[0];
    setText(summary, `${total.jobs} jobs ended: ${small(total.gpu_hours)} GPU-hours; energy ${used(total.energy_j, total.cost, currency)}; ` +
      `unused ${gibHours(total.gpu_byte_hours_unused)} GiB-hours`);
  }, EVERY);
  return { event: () => poller.soon() };
}
