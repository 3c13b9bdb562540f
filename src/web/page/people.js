// People: what users and projects had of the machine, what of it they did not use, and what energy it took.
import { get } from "./api.js";
import { Table, h, setText } from "./dom.js";
import { UNKNOWN, duration, number, small } from "./format.js";

const EVERY = 30_000, DAY = 86_400_000;  // ms
const GIB = 2 ** 30, JOULES_OF_KWH = 3.6e6;

const gibHours = (value) => number(value == null ? null : value / GIB, "", 2);
const percent = (part, whole) => (whole > 0 && part != null ? `${Math.round((part / whole) * 100)}%` : UNKNOWN);
const energy = (joules) => (joules == null ? UNKNOWN : `${small(joules / JOULES_OF_KWH)} kWh`);

export function open(main, frame) {
  let all = 0, most = 0;  // GPU-hours: of everybody, and of the one with the most
  const tables = Object.fromEntries([["user", "-"], ["project", "no project"]].map(([by, none]) => [by, new Table(`By ${by}`, [
    { title: by.toUpperCase(), name: "long", cell: (row) => ({ text: row.name || none, title: row.name }) },
    { title: "GPU-HOURS", right: true, name: "hours", cell: (row) => ({ text: small(row.gpu_hours), bar: row.gpu_hours > 0 && !row.whole ? row.gpu_hours / most : 0 }) },
    { title: "PART", right: true, rank: 2, help: "of all GPU-hours", cell: (row) => percent(row.gpu_hours, all) },
    { title: "UNUSED", right: true, help: "GiB-hours of memory", cell: (row) => gibHours(row.gpu_byte_hours_unused) },
    { title: "UNUSED PART", right: true, rank: 2, help: "of the memory whose use is known", cell: (row) => percent(row.gpu_byte_hours_unused, row.gpu_byte_hours_known) },
    { title: "ENERGY", right: true, cell: (row) => energy(row.energy_j) },
    { title: "JOBS", right: true, rank: 1, cell: (row) => row.jobs },
    { title: "SUCCESS", right: true, rank: 2, cell: (row) => percent(row.success, 1) },
    { title: "FAILED", right: true, rank: 3, cell: (row) => row.failed + row.killed },
    { title: "RUNNING", right: true, rank: 1, cell: (row) => row.running },
    { title: "QUEUED", right: true, rank: 1, cell: (row) => row.queued },
    { title: "WAIT", right: true, rank: 3, help: "mean of a run", cell: (row) => (row.runs > 0 ? duration(row.wait_mean_s * 1000) : UNKNOWN) },
    { title: "RUN", right: true, rank: 3, help: "mean of a run", cell: (row) => (row.runs > 0 ? duration(row.run_mean_s * 1000) : UNKNOWN) },
    { title: "FAIR", right: true, rank: 3, help: "1 for nothing used lately, 0.5 for just their part", cell: (row) => number(row.fair_share?.factor, "", 2) },
  ], (row) => (row.whole ? "all" : `name ${row.name}`), "Nobody ran a job in this time.")]));
  const days = h("select", { id: "days", onchange: () => poller.begin() }, ...[[1, "the last day"], [7, "the last 7 days"],
    [30, "the last 30 days"], [365, "the last year"]].map(([value, text]) => h("option", { value, text, selected: value === 30 ? "" : null })));
  const summary = h("p", { text: "The daemon is being asked." });
  main.append(h("h1", { text: "People" }), h("p", { class: "row" }, h("label", { for: "days", text: "Jobs that ended in" }), days), summary,
    tables.user.element, tables.project.element,
    h("p", { class: "dim", text: "UNUSED: GiB-hours of GPU memory that jobs had and never used, of the runs of which that is known." }));

  const poller = frame.poll(async (signal) => {
    const since = new Date(Date.now() - days.value * DAY).toISOString();
    const answers = await Promise.all(Object.keys(tables).map((by) => get(`/v1/stats?by=${by}&since=${since}`, signal)));
    for (const { by, rows, total } of answers) {
      all = total.gpu_hours;
      most = Math.max(...rows.map((row) => row.gpu_hours));
      rows.sort((a, b) => b.gpu_hours - a.gpu_hours || (a.name < b.name ? -1 : 1));
      tables[by].show(rows.length > 1 ? [...rows, { ...total, name: "all", whole: true }] : rows);
    }
    const { total } = answers[0];
    setText(summary, `${total.jobs} jobs ended: ${small(total.gpu_hours)} GPU-hours, ${energy(total.energy_j)}, ${gibHours(total.gpu_byte_hours_unused)} GiB-hours unused`);
  }, EVERY);
  return { event: () => poller.soon() };
}
