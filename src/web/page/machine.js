// The machine: each GPU with who holds its memory, its figures and its last hour; turns of jobs that share; jobs at work.
import { get } from "./api.js";
import { Table, column, figure, h, hide, reconcile, section, set, setStyle, setText } from "./dom.js";
import { AT_WORK, UNKNOWN, bytes, command, duration, gpuNumber, gpusOf, number, printable, sentence, stateClass, time } from "./format.js";
import { Plot } from "./plot.js";
import { makeStrip, showStrip, stripKeys } from "./strip.js";

const FIGURES_EVERY = 2_000, HISTORY_EVERY = 15_000, COUNTS_EVERY = 10_000, HOUR = 3_600_000;  // ms
const COLORS = 7;        // of jobs, in style.css
const MOST_READ = 8;     // of who has a GPU's memory, in the text for a screen reader
const MOST_STRIPS = 16;  // of a GPU
const ROWS = 100;        // of the table of jobs

// Who has memory on the GPU, the greatest first, and the rest of it: [{key, label, size or null, job, kind}] of each.
function holdersOf({ memory, processes }) {
  const holders = new Map();
  for (const process of processes) {
    const { job, pid } = process, key = job != null ? `job ${job}` : `pid ${pid}`;
    const label = job != null ? `${key} ${process.tag ?? ""}` : process.gpuman ? "gpuman"
      : `${key} ${process.name ?? ""} of ${process.user ?? UNKNOWN}, no job`;
    const before = holders.get(key);
    const size = process.memory == null || before?.size === null ? null : process.memory + (before?.size ?? 0);
    holders.set(key, { key, label, job, size, kind: "other" });
  }
  const list = [...holders.values()].sort((a, b) => b.size - a.size || (a.key < b.key ? -1 : 1));
  let before = null;
  for (const holder of list) {
    if (holder.job == null) continue;
    const color = holder.job % COLORS;
    before = color === before ? (color + 1) % COLORS : color;  // beside each other they differ
    holder.kind = `job${before}`;
  }
  const rest = memory.used - list.reduce((sum, { size }) => sum + size, 0);
  if (rest > memory.total / 1000) list.push({ key: "rest", label: "of no known process", size: rest, kind: "other" });
  return [list, [{ key: "free", label: "free", size: memory.free, kind: "free" },
    { key: "driver", label: "reserved by the driver", size: memory.reserved, kind: "reserved" }].filter(({ size }) => size > 0)];
}

function makeCard(gpu) {
  const label = `GPU ${gpuNumber(gpu)}`;
  const [name, health, memory, use] = ["dim", null, null, null].map((kind) => h("span", { class: kind }));
  const [memoryBar, useBar] = ["bar", "bar load"].map((kind) => h("div", { class: kind, role: "img" }));
  const [power, temperature, load] = ["dd", "dd", "i"].map((kind) => h(kind));
  const reasons = h("p", { class: "warning" }), list = h("ul", { class: "holders" });
  useBar.append(load);
  const plot = new Plot(label, [{ name: "memory", color: "--memory" }, { name: "utilization", color: "--use", dash: [5, 2] }],
    (value) => `${Math.round(value)}%`, "6rem");
  const line = (title, figure) => h("p", { class: "line" }, h("span", { text: title }), figure);
  const element = h("article", { class: "gpu", "aria-label": label }, h("h3", {}, label, name, health), reasons,
    line("Memory", memory), memoryBar, list, line("Utilization", use), useBar,
    h("dl", {}, h("dt", { text: "Power" }), power, h("dt", { text: "Temperature" }), temperature), plot.element);

  function update(now, advice) {
    const { state } = now.health, healthy = state === "healthy", percent = now.utilization.gpu;
    setText(name, printable(now.mig?.profile ?? now.name.replace(/^NVIDIA /, "")));
    setText(health, healthy ? state : `! ${state}`);
    set(health, "class", healthy ? "good" : state === "unhealthy" ? "bad" : "warning");
    const told = [...now.health.reasons, advice, now.split && "It is split into instances (MIG)."].filter(Boolean);
    setText(reasons, sentence(told.join("; ")));
    hide(reasons, told.length === 0);
    setText(use, number(percent, "%"));
    setStyle(load, "width", `${percent ?? 0}%`);
    set(useBar, "aria-label", `Utilization of ${label}: ${number(percent, "%")}`);
    setText(power, number(now.power_w, " W"));
    setText(temperature, number(now.temperature_c, " °C"));
    showMemory(now);
  }

  function showMemory(now) {
    const [holders, others] = now.memory ? holdersOf(now) : [[], []], all = [...holders, ...others];
    const figure = now.memory ? `${bytes(now.memory.used)}/${bytes(now.memory.total)}` : UNKNOWN;
    const paint = (part, { kind }) => setStyle(part, "background", `var(--${kind})`);
    setText(memory, figure);
    reconcile(memoryBar, all.filter(({ size }) => size > 0), ({ key }) => key, () => h("i"), (part, one) => {
      paint(part, one);
      setStyle(part, "flex-grow", (one.size / now.memory.total).toFixed(4));
      set(part, "title", `${printable(one.label)}: ${bytes(one.size)}`);
    });
    reconcile(list, all, ({ key }) => key, ({ job }) => h("li", {}, h("i", { class: "swatch" }),
      job == null ? h("span") : h("a", { href: `#/job/${job}` }), h("span")), (row, one) => {
      paint(row.firstChild, one);
      setText(row.children[1], printable(one.label));
      setText(row.lastChild, bytes(one.size));
    });
    set(memoryBar, "aria-label", [`Memory of ${label}: ${figure}`,
      ...[...others, ...holders.slice(0, MOST_READ)].map((one) => `${printable(one.label)} ${bytes(one.size)}`)].join("; "));
  }

  function showHistory(history) {
    const used = history.memory.mean.map((value) => (value == null || !history.memory_limit ? null : (value / history.memory_limit) * 100));
    return plot.show(history, [used, history.utilization.mean], 100, Date.parse(history.until) - HOUR);
  }
  return { element, update, showHistory, close: () => plot.close() };
}

// What a sharing job does, in the words of gpuman top.
function doesOf({ resting, suspended, waits_for: waitsFor, gate, activity }) {
  if (resting?.units > 1) return `closing ${resting.at_rest} of ${resting.units}`;
  if (suspended) return "suspended";
  if (waitsFor) return `waits for ${waitsFor}`;
  return gate !== "open" ? gate : activity === "idle" ? "idle" : "runs";
}

function headingOf(gpu) {
  const how = gpu.handing_over ? "being handed over" : gpu.exclusive ? "turns, also among jobs that fit together"
    : gpu.contended ? "turns" : "everybody runs";
  let text = `GPU ${gpuNumber(gpu)}: ${how}; ${bytes(gpu.demand)} wanted of ${bytes(gpu.capacity)}`;
  if (gpu.contended || gpu.hand_overs > 0) {
    text += `; quantum ${duration(gpu.quantum * 1000)}`;
    if (gpu.quantum_left != null) text += `, ${duration(gpu.quantum_left * 1000)} left`;
    text += `; ${gpu.hand_overs} hand-overs, ${number(gpu.moving_share * 100, "%", 1)} of the time moving`;
  }
  return text;
}

// The jobs that share GPUs, each with its turns over the last hour.
class Turns {
  strips = new Map();  // by job

  constructor() {
    this.list = h("div");
    this.element = section("turns", "Turns on shared GPUs, the last hour", stripKeys(), this.list);
    hide(this.element, true);
  }

  update(share) {
    const gpus = share.gpus.filter((gpu) => gpu.jobs.length > 0), shown = new Map();
    hide(this.element, gpus.length === 0);
    reconcile(this.list, gpus, (gpu) => gpu.uuid, () => h("div", {}, h("h3"), h("ul", { class: "turns" })), (element, gpu) => {
      setText(element.firstChild, headingOf(gpu));
      reconcile(element.lastChild, gpu.jobs.slice(0, MOST_STRIPS), (job) => job.id, (job) =>
        h("li", {}, h("a", { href: `#/job/${job.id}`, text: `${job.id} ${printable(job.tag)}` }), h("span"), h("span", { class: "dim" }), makeStrip()), (row, job) => {
        const [, does, had, strip] = row.children;
        setText(does, doesOf(job));
        set(does, "class", job.in_run_set ? "good" : job.waits_for ? "warning" : null);
        setText(had, `${bytes(job.memory.resident + job.memory.pinned)} on GPU, had ${duration(job.had_turn * 1000)}`);
        shown.set(job, strip);
      });
    });
    this.strips = shown;
  }

  showHistory(signal) {
    return Promise.all([...this.strips].map(async ([job, strip]) => {
      const history = await get(`/v1/history?job=${job.id}&since=1h&points=240`, signal);
      showStrip(strip, `Turns of job ${job.id} ${job.tag}`, history, Date.parse(history.until) - HOUR);
    }));
  }
}

function utilizationOf(job, gpus) {
  const own = gpus.filter((gpu) => gpu.utilization.gpu != null && gpu.processes.some((process) => process.job === job.id));
  return own.length === 0 ? null : own.reduce((sum, gpu) => sum + gpu.utilization.gpu, 0) / own.length;
}

export function open(main, frame) {
  let gpus = null, now = 0;
  const cards = new Map();
  const summary = h("p", { text: "The daemon is being asked." }), grid = h("div", { class: "gpus" }), turns = new Turns();
  const table = new Table("Jobs that run or are suspended", [
    figure("ID", (job) => (job.queue?.array_id == null ? job.id : `${job.queue.array_id}_${job.queue.array_task}`)),
    column("NAME", (job) => ({ text: job.tag, href: `#/job/${job.id}` }), 0, "long"),
    column("USER", (job) => job.user, 1),
    column("STATE", (job) => ({ text: job.state, class: stateClass(job.state) })),
    column("GPU", (job) => gpusOf(job, gpus)),
    figure("GPU%", (job) => number(utilizationOf(job, gpus), "%"), 2, "utilization of the whole GPU"),
    figure("MEMORY", (job) => bytes(job.memory.used)),
    figure("LIMIT", (job) => (job.memory.limit == null ? "none" : bytes(job.memory.limit)), 2),
    figure("PEAK", (job) => bytes(job.memory.peak), 3),
    figure("TIME", (job) => duration(job.started_at && now - time(job.started_at)), 1),
    column("COMMAND", (job) => command(job.command), 3, "longest"),
  ], (job) => job.id, "No job runs.");
  const more = h("a", { href: "#/queue", text: "The queue has all of them.", hidden: "" });
  main.append(h("h1", { text: "Machine" }), summary, grid, turns.element, section("jobs", "Jobs", table.element, more));

  const figures = frame.poll(async (signal) => {
    const [list, share, { jobs }] = await Promise.all([get("/v1/gpus", signal), get("/v1/share", signal),
      get(`/v1/queue?states=${AT_WORK}&limit=${ROWS + 1}`, signal)]);
    const ill = list.gpus.some((gpu) => gpu.health.state !== "healthy");
    const advice = new Map(ill ? (await get("/v1/health", signal)).gpus.map((gpu) => [gpu.uuid, gpu.advice]) : []);
    if (list.gpus.length === 0) {
      const { driver_error: error } = await get("/v1/status?limit=1", signal);
      setText(summary, `No GPUs: ${sentence(error ?? "the driver shows none")}`);
    }
    gpus = list.gpus;
    now = Date.now();
    reconcile(grid, gpus, (gpu) => gpu.uuid, (gpu) => {
      cards.set(gpu.uuid, makeCard(gpu));
      return cards.get(gpu.uuid).element;
    }, (_, gpu) => cards.get(gpu.uuid).update(gpu, gpu.health.state === "healthy" ? "" : advice.get(gpu.uuid)));
    for (const [uuid, card] of cards) {
      if (gpus.some((gpu) => gpu.uuid === uuid)) continue;
      card.close();
      cards.delete(uuid);
    }
    turns.update(share);
    table.show(jobs.slice(0, ROWS));
    hide(more, jobs.length <= ROWS);
    history ??= frame.poll(showHistory, HISTORY_EVERY);
  }, FIGURES_EVERY);

  let history = null;
  const showHistory = (signal) => Promise.all([turns.showHistory(signal), ...[...cards].map(async ([uuid, card]) =>
    card.showHistory(await get(`/v1/history?gpu=${uuid}&points=120`, signal)))]);

  const counts = frame.poll(async (signal) => {
    // Of no time: what runs and waits now.
    const { total } = await get(`/v1/stats?since=${new Date().toISOString()}`, signal);
    if (gpus?.length !== 0) setText(summary, `Jobs: ${total.running} running, ${total.queued} queued`);
  }, COUNTS_EVERY);

  return {
    event() {
      figures.soon();
      counts.soon();
    },
    close: () => cards.forEach((card) => card.close()),
  };
}
