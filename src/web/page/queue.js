// The queue: what runs and what waits, by pages, as a table with the reason why each waits, and as a timeline.
import { get, text } from "./api.js";
import { Table, column, figure, h, hide, keys, reconcile, section, select, set, setStyle, setText } from "./dom.js";
import { AT_WORK, ENDED, WAITING, bytes, duration, printable, sentence, stateClass, tickText, when } from "./format.js";

const EVERY = 10_000;  // ms
const SIZE = 25;       // jobs of a page
const PAST = 0.2;      // of the timeline, at most
const TICKS = 5;

// Of an answer of GET /v1/queue/rows; what is empty is null, the rest a number.
const TEXTS = new Set(["tag", "user", "project", "state", "reason", "gpus"]);
function jobsOf(answer) {
  const [titles, ...lines] = answer.split("\n").filter((line) => line !== "").map((line) => line.split("\t"));
  return lines.map((fields) => {
    const job = {};
    titles.forEach((title, i) => (job[title] = fields[i] === "" ? null : TEXTS.has(title) ? fields[i] : Number(fields[i])));
    job.waits = WAITING.includes(job.state);
    job.label = job.array_id === null ? String(job.id) : `${job.array_id}_${job.array_task}`;
    job.about = job.estimate_presumed === 1;
    job.begin = job.started_at ?? job.estimated_start;
    job.end = job.ended_at ?? (job.begin === null || job.time_limit === null ? null : job.begin + job.time_limit);
    return job;
  });
}

function spanText(job, now) {
  const begin = job.started_at === null ? `expected to start ${when(job.begin, job.about, now)}` : `started ${when(job.begin, false, now)}`;
  return `${begin}, ${job.ended_at !== null ? `ended ${when(job.end, false, now)}`
    : job.end !== null ? `ends by ${when(job.end, job.about && job.waits, now)}` : "no time limit"}`;
}

class Timeline {
  constructor() {
    this.axis = h("div", { class: "axis", "aria-hidden": "true" });
    this.list = h("ol", { class: "spans" });
    this.chart = h("div", {}, keys(["runs", "span runs"], ["is expected to run", "span waits"], ["rests on jobs without a time limit", "span waits about"]), this.axis, this.list);
    this.note = h("p", { class: "dim", text: "No start is expected for these jobs yet." });
    this.element = section("timeline", "Timeline", this.note, this.chart);
  }

  show(jobs, now) {
    const known = jobs.filter((job) => job.begin !== null);
    hide(this.note, known.length > 0);
    hide(this.chart, known.length === 0);
    if (known.length === 0) return;
    const last = Math.max(now + 60_000, ...known.map((job) => job.end ?? job.begin + 60_000));
    // Leaves room for what comes.
    const left = Math.max(Math.min(now, ...known.map((job) => job.begin)), now - ((last - now) * PAST) / (1 - PAST));
    const right = last + (last - left) * 0.03;
    const x = (ms) => Math.min(100, Math.max(0, ((ms - left) / (right - left)) * 100)).toFixed(2);
    reconcile(this.axis, Array.from({ length: TICKS }, (_, i) => left + ((i + 0.5) / TICKS) * (right - left)), (_, i) => i, () => h("span"), (tick, ms) => {
      setStyle(tick, "left", `${x(ms)}%`);
      setText(tick, tickText(ms, right - left));
    });
    reconcile(this.list, known, (job) => job.id, (job) => h("li", {}, h("a", { href: `#/job/${job.id}` }),
      h("div", { class: "track", "aria-hidden": "true" }, h("i", { class: "now" }), h("i"))), (row, job) => {
      const [link, track] = row.children, name = `${job.label} ${printable(job.tag)}`;
      setText(link, name);
      set(link, "aria-label", `job ${name}, ${job.state}, ${spanText(job, now)}`);
      setStyle(track.firstChild, "left", `${x(now)}%`);
      const bar = track.lastChild;
      set(bar, "class", `span ${job.waits ? "waits" : "runs"}${job.waits && job.about ? " about" : ""}${job.end === null ? " open" : ""}`);
      setStyle(bar, "left", `${x(job.begin)}%`);
      setStyle(bar, "width", `${(x(job.end ?? right) - x(job.begin)).toFixed(2)}%`);
    });
  }
}

export function open(main, frame) {
  let page = 0, more = false, total = null, now = 0;
  let reasons = new Map();  // sentences, by the job's id
  const summary = h("p", { text: "The daemon is being asked." }), timeline = new Timeline();
  const table = new Table("Jobs in the order in which they are expected to start", [
    figure("POS", (job) => job.position ?? "-", 1, "place among the jobs that wait"),
    figure("ID", (job) => job.label),
    column("NAME", (job) => ({ text: job.tag, href: `#/job/${job.id}` }), 0, "long"),
    column("USER", (job) => job.user, 2),
    column("STATE", (job) => ({ text: job.state, class: stateClass(job.state) }), 1),
    figure("PRIO", (job) => job.priority, 3),
    figure("GPUS", (job) => job.gpus_asked, 2),
    figure("MEMORY", (job) => (job.memory === null ? "none" : bytes(job.memory)), 3),
    figure("LIMIT", (job) => (job.time_limit === null ? "none" : duration(job.time_limit)), 3),
    figure("WAITS", (job) => (job.waits ? duration(now - job.submitted_at) : "-"), 2),
    column("START", (job) => when(job.begin, job.waits && job.about, now)),
    column("REASON", (job) => sentence(reasons.get(job.id) ?? job.reason ?? (job.waits ? "-" : job.state)), 0, "sentence"),
  ], (job) => job.id, "No jobs.");
  const change = (to) => () => {
    page = Math.max(0, to());
    poller.begin();
  };
  const choice = select("states", change(() => 0), [["", "that have not ended"], [AT_WORK, "that run or are suspended"],
    [WAITING, "that wait"], ["held", "that are held"], [ENDED, "that have ended"]]);
  const user = h("input", { id: "user", type: "search", size: 12, onchange: change(() => 0) });
  const place = h("span", { role: "status" });
  const pages = () => Math.max(1, Math.ceil(total / SIZE));
  const [first, back, on, last] = [["First", () => 0], ["Previous", () => page - 1], ["Next", () => page + (more ? 1 : 0)], ["Last", () => (total === null ? page : pages() - 1)]]
    .map(([name, to]) => h("button", { text: name, onclick: change(to) }));
  main.append(h("h1", { text: "Queue" }), summary,
    h("p", { class: "row" }, h("label", { for: "states", text: "Jobs" }), choice, h("label", { for: "user", text: "of user" }), user),
    h("nav", { class: "row", "aria-label": "Pages of jobs" }, first, back, place, on, last), table.element, timeline.element);

  function show(jobs) {
    table.show(jobs);
    timeline.show(jobs, now);
    setText(place, `Page ${page + 1}${total === null ? "" : ` of ${pages()}`}`);
    // A button that has the focus keeps it, and says that it does nothing.
    for (const [button, off] of [[first, page === 0], [back, page === 0], [on, !more], [last, !more || total === null]]) set(button, "aria-disabled", off);
  }

  const poller = frame.poll(async (signal) => {
    const filter = `${choice.value && `&states=${choice.value}`}${user.value && `&users=${encodeURIComponent(user.value.trim())}`}`;
    // From the first one on: the API has pages by ids alone.
    const [rows, stats] = await Promise.all([text(`/v1/queue/rows?limit=${(page + 1) * SIZE + 1}${filter}`, signal),
      get(`/v1/stats?since=${new Date().toISOString()}`, signal)]);
    const { running, queued } = stats.total, all = jobsOf(rows);
    now = Date.now();
    total = filter ? null : running + queued;
    page = Math.max(0, Math.min(page, Math.ceil(all.length / SIZE) - 1));
    more = all.length > (page + 1) * SIZE;
    setText(summary, `Jobs: ${running} running, ${queued} queued`);
    const jobs = all.slice(page * SIZE, (page + 1) * SIZE), waiting = jobs.filter((job) => job.waits).map((job) => job.id);
    show(jobs);
    if (waiting.length === 0) return;
    const told = await get(`/v1/queue?states=${WAITING}&jobs=${waiting}`, signal);
    reasons = new Map(told.jobs.filter((job) => job.reason_detail).map((job) => [job.id, job.reason_detail]));
    show(jobs);
  }, EVERY);
  return { event: () => poller.soon() };
}
