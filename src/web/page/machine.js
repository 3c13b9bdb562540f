// The machine: each GPU with who holds its memory, its figures and its last hour; turns of jobs that share; jobs at work.
import { get } from "./api.js";
import { Table, h, hide, reconcile, section, set, setStyle, setText } from "./dom.js";
import { AT_WORK, UNKNOWN, bytes, command, duration, gpuNumber, gpusOf, number, printable, sentence, stateClass, time } from "./format.js";
import { Plot } from "./plot.js";
import { makeStrip, showStrip, stripKeys } from "./strip.js";

const FIGURES_EVERY = 2_000, HISTORY_EVERY = 15_000, COUNTS_EVERY = 10_000, HOUR = 3_600_000;  // ms
const COLORS = 7;        // of jobs, in style.css
const MOST_HOLDERS = 8;  // named in a GPU's list
const MOST_STRIPS = 16;  // of a GPU
const ROWS = 100;        // of the table of jobs

// Who has memory on the GPU, the greatest first, then what is free: [{key, label, size, job, kind}]. A size that is not
// known is null.
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

class GpuCard {
  constructor(gpu) {
    const label = `GPU ${gpuNumber(gpu)}`;
    const bar = (title) => {
      const figure = h("span"), element = h("div", { class: "bar", role: "img" });
      return [figure, element, h("p", { class: "line" }, h("span", { text: title }), figure)];
    };
    const [memory, memoryBar, memoryLine] = bar("Memory"), [use, useBar, useLine] = bar("Utilization");
    const [name, health, power, temperature] = ["span", "span", "dd", "dd"].map((kind) => h(kind));
    const reasons = h("p", { class: "warning", hidden: "" }), holders = h("ul", { class: "holders" }), load = h("i");
    useBar.append(load);
    useBar.classList.add("load");
    name.className = "dim";
    Object.assign(this, { label, memory, memoryBar, use, useBar, load, name, health, power, temperature, reasons, holders });
    this.plot = new Plot(label, [{ name: "memory", color: "--memory" }, { name: "utilization", color: "--use", dash: [5, 2] }],
      (value) => `${Math.round(value)}%`, "6rem");
    this.element = h("article", { class: "gpu", "aria-label": label }, h("h3", {}, label, name, health), reasons,
      memoryLine, memoryBar, holders, useLine, useBar,
      h("dl", {}, h("dt", { text: "Power" }), power, h("dt", { text: "Temperature" }), temperature), this.plot.element);
  }

  update(gpu, advice) {
    const { state, reasons } = gpu.health, healthy = state === "healthy", load = gpu.utilization.gpu;
    setText(this.name, printable(gpu.mig?.profile ?? gpu.name.replace(/^NVIDIA /, "")));
    setText(this.health, healthy ? state : `! ${state}`);
    set(this.health, "class", healthy ? "good" : state === "unhealthy" ? "bad" : "warning");
    const told = [...reasons, advice, gpu.split ? "It is split into instances (MIG)." : ""].filter(Boolean);
    setText(this.reasons, sentence(told.join("; ")));
    hide(this.reasons, told.length === 0);
    setText(this.use, number(load, "%"));
    setStyle(this.load, "width", `${load ?? 0}%`);
    set(this.useBar, "aria-label", `Utilization of ${this.label}: ${number(load, "%")}`);
    setText(this.power, number(gpu.power_w, " W"));
    setText(this.temperature, number(gpu.temperature_c, " °C"));
    this.#showMemory(gpu);
  }

  #showMemory(gpu) {
    const [holders, others] = gpu.memory ? holdersOf(gpu) : [[], []];
    const figure = gpu.memory ? `${bytes(gpu.memory.used)}/${bytes(gpu.memory.total)}` : UNKNOWN;
    setText(this.memory, figure);
    reconcile(this.memoryBar, [...holders, ...others].filter(({ size }) => size > 0), ({ key }) => key, () => h("i"), (element, one) => {
      set(element, "class", one.kind);
      setStyle(element, "flex-grow", (one.size / gpu.memory.total).toFixed(4));
      set(element, "title", `${printable(one.label)}: ${bytes(one.size)}`);
    });
    const more = holders.splice(MOST_HOLDERS), listed = [...holders, ...others];
    if (more.length > 0)
      listed.splice(MOST_HOLDERS, 0, { key: "more", label: `${more.length} more`, size: more.reduce((sum, { size }) => sum + size, 0), kind: "other" });
    reconcile(this.holders, listed, ({ key }) => key, ({ job }) =>
      h("li", {}, h("i"), h(job != null ? "a" : "span", { href: job != null ? `#/job/${job}` : null }), h("span")), (element, one) => {
      const [swatch, name, size] = element.children;
      set(swatch, "class", `swatch ${one.kind}`);
      setText(name, printable(one.label));
      setText(size, bytes(one.size));
    });
    set(this.memoryBar, "aria-label", [`Memory of ${this.label}: ${figure}`,
      ...listed.map((one) => `${printable(one.label)} ${bytes(one.size)}`)].join("; "));
  }

  showHistory(history) {
    const total = history.memory_limit;
    const memory = history.memory.mean.map((value) => (value == null || !total ? null : (value / total) * 100));
    return this.plot.show(history, [memory, history.utilization.mean], 100, Date.parse(history.until) - HOUR);
  }
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
    { title: "ID", right: true, cell: (job) => job.id },
    { title: "NAME", name: "long", cell: (job) => ({ text: job.tag, href: `#/job/${job.id}`, title: job.tag }) },
    { title: "USER", rank: 1, cell: (job) => job.user },
    { title: "STATE", cell: (job) => ({ text: job.state, class: stateClass(job.state) }) },
    { title: "GPU", cell: (job) => gpusOf(job, gpus) },
    { title: "GPU%", right: true, rank: 2, help: "utilization of the whole GPU", cell: (job) => number(utilizationOf(job, gpus), "%") },
    { title: "MEMORY", right: true, cell: (job) => bytes(job.memory.used) },
    { title: "LIMIT", right: true, rank: 2, cell: (job) => (job.memory.limit == null ? "none" : bytes(job.memory.limit)) },
    { title: "PEAK", right: true, rank: 3, cell: (job) => bytes(job.memory.peak) },
    { title: "TIME", right: true, rank: 1, cell: (job) => duration(job.started_at && now - time(job.started_at)) },
    { title: "COMMAND", rank: 3, name: "longest", cell: (job) => ({ text: command(job.command), title: command(job.command) }) },
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
    const first = gpus === null;
    gpus = list.gpus;
    now = Date.now();
    reconcile(grid, gpus, (gpu) => gpu.uuid, (gpu) => {
      cards.set(gpu.uuid, new GpuCard(gpu));
      return cards.get(gpu.uuid).element;
    }, (_, gpu) => cards.get(gpu.uuid).update(gpu, gpu.health.state === "healthy" ? "" : advice.get(gpu.uuid)));
    for (const [uuid, card] of cards) {
      if (gpus.some((gpu) => gpu.uuid === uuid)) continue;
      card.plot.close();
      cards.delete(uuid);
    }
    turns.update(share);
    table.show(jobs.slice(0, ROWS));
    hide(more, jobs.length <= ROWS);
    if (first) history.begin();
  }, FIGURES_EVERY);

  const history = frame.poll((signal) => Promise.all([turns.showHistory(signal), ...[...cards].map(async ([uuid, card]) =>
    card.showHistory(await get(`/v1/history?gpu=${uuid}&points=120`, signal)))]), HISTORY_EVERY);

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
    close: () => cards.forEach((card) => card.plot.close()),
  };
}
