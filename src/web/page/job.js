// One job: what may be done with it, its facts, why it waits, runs or ended, its history, and the end of its log.
import { ApiError, act, get } from "./api.js";
import { h, hide, reconcile, section, set, setText } from "./dom.js";
import { ENDED, WAITING, bytes, command, duration, gpusOf, local, printable, sentence, stateClass, time, used, when } from "./format.js";
import { Log } from "./log.js";
import { Plot } from "./plot.js";
import { makeStrip, showStrip, stripKeys } from "./strip.js";

const EVERY = 3_000, HISTORY_EVERY = 10_000;  // ms

const RUNS = ["starting", "running", "suspended"];
// [route and verb, the states in which it is offered, what it means].
const ACTIONS = [
  ["suspend", ["running"], "It leaves its GPUs; its data is kept in the machine's memory."],
  ["resume", ["suspended"], "It comes back to a GPU as soon as there is room."],
  ["hold", ["queued"], "It does not start before it is released."],
  ["release", ["held"], "It may start as soon as there is room."],
  ["restart", [...RUNS, ...ENDED], "If it runs, it is stopped first."],
  ["cancel", [...WAITING, ...RUNS], "A job that waits leaves the queue; one that runs is stopped."],
  ["end", [...WAITING, ...RUNS, "stopping", ...ENDED], "If it runs, it is stopped first. Then it is forgotten: it leaves the lists, and its log is deleted."],
];

function placeOf(job, gpus) {
  const { memory } = job, numbers = gpusOf(job, gpus);
  return [numbers === "-" ? "not yet on a GPU" : numbers === "none" ? "no GPU" : `GPU ${numbers}`,
    `${bytes(memory.used)} used${memory.limit == null ? ", no limit" : ` of ${bytes(memory.limit)}`}, peak ${bytes(memory.peak)}` +
      (memory.host == null ? "" : `, ${bytes(memory.host)} in host memory`),
    `priority ${job.priority}${job.share ? ", shares" : ""}`, job.restarts > 0 && `started again ${job.restarts} times`];
}

function timesOf(job) {
  const started = time(job.started_at), ended = time(job.ended_at), { queue } = job;
  return [`submitted ${local(time(job.submitted_at))}`, started && `started ${local(started)}`, ended && `ended ${local(ended)}`,
    started && `ran ${duration((ended ?? Date.now()) - started)}`,
    queue?.estimated_start && WAITING.includes(job.state) && `starts ${when(time(queue.estimated_start), queue.estimate_presumed)}`];
}

const queueOf = (queue) => [`wants ${queue.gpus.count} GPU${queue.gpus.count === 1 ? "" : "s"}`,
  queue.time_limit_s == null ? "no time limit" : `time limit ${duration(queue.time_limit_s * 1000)}`,
  queue.project && `project ${queue.project}`, queue.position && `place ${queue.position}`,
  queue.begin && `not before ${local(time(queue.begin))}`, queue.array_id && `task ${queue.array_task} of array ${queue.array_id}`,
  queue.depends?.list?.length > 0 && queue.depends.list.map((one) => `${one.kind ?? "afterok"}:${one.job}`).join(", "),
  queue.attempts > 1 && `${queue.attempts} runs`];

// [name, text or parts of it, class]; what is null is left out.
function factsOf(job, gpus) {
  const why = job.reason ?? (job.signal != null ? `signal ${job.signal}` : job.exit_code ? `exit ${job.exit_code}` : job.state);
  const kind = stateClass(job.state), { kubernetes } = job;
  return [["state", why === job.state ? why : `${job.state} (${why})`, kind], ["user", job.user], ["place", placeOf(job, gpus)],
    ["times", timesOf(job)],
    ["energy", job.energy_j == null && job.cost == null ? null : used(job.energy_j, job.cost, job.currency)], ["queue", job.queue && queueOf(job.queue)],
    ["container", kubernetes && `${kubernetes.namespace}/${kubernetes.pod}/${kubernetes.container}`],
    ["command", command(job.command)], ["directory", job.directory], ["reason", job.reason_detail, kind],
    ["refused", ENDED.includes(job.state) ? null : job.refusal?.message, "warning"], ...job.notes.map((note) => ["note", note])]
    .filter(([, text]) => text).map(([name, text, more]) => [name, Array.isArray(text) ? text.filter(Boolean).join("; ") : text, more]);
}

// Resolves to whether the user said yes.
const ask = (question, yes, details) => new Promise((resolve) => {
  const dialog = h("dialog", { "aria-labelledby": "question", onclose: () => {
    dialog.remove();
    resolve(dialog.returnValue === "yes");
  } }, h("h2", { id: "question", text: question }), ...details.map((text) => h("p", { text })),
  h("p", { class: "row" }, ...[["No", "no"], [yes, "yes"]].map(([text, value]) =>
    h("button", { text, class: value, onclick: () => dialog.close(value) }))));
  document.body.append(dialog);
  dialog.showModal();
});

const dryCancel = async (id) => (await act("POST", "/v1/cancellations", { jobs: [String(id)], dry_run: true })).value;

// Why the job does not obey the caller; null: it does. A cancellation that does nothing is refused like others; from a
// page for everybody all of them are.
async function whyNot(id) {
  try {
    const [row] = (await dryCancel(id)).jobs;
    return row.error_code === "permission_denied" ? row.error : null;
  } catch (error) {
    if (error.code === "permission_denied") return error.sentence;
    throw error;
  }
}

// Buttons for what the caller may do.
class Actions {
  // `page`: {again(), pause(yes), leave()}: what the page asks about the job.
  constructor(page) {
    this.page = page;
    this.buttons = h("p", { class: "row" });
    this.said = h("p", { role: "status" });
  }

  async update(job) {
    this.job = job;
    if (this.refused === undefined) {
      const why = await whyNot(job.id);
      this.refused = why !== null;
      if (this.refused) this.#say(why);
    }
    reconcile(this.buttons, ACTIONS.filter(([, states]) => !this.refused && states.includes(job.state)), ([verb]) => verb, (action) =>
      h("button", { text: action[0][0].toUpperCase() + action[0].slice(1), onclick: () => this.#do(action) }),
    (button) => set(button, "aria-disabled", this.busy));
  }

  async #do([verb, , means]) {
    if (this.busy) return;
    this.busy = true;
    const { id, tag, user } = this.job, details = [means], ends = verb === "end";
    try {
      if (verb === "cancel" || (ends && !ENDED.includes(this.job.state))) {
        const lost = (await dryCancel(id)).dependents.filter(({ cancelled }) => cancelled).length;
        if (lost > 0) details.push(`Jobs that wait for it and are cancelled too: ${lost}.`);
      }
      if (!(await ask(`${verb} job ${id} '${printable(tag)}' of ${printable(user)}?`, `Yes, ${verb}`, details))) return;
      this.update(this.job);
      this.#say(`${verb}: the daemon is at it …`);
      if (ends) this.page.pause(true);
      const { value, note } = await (ends ? act("DELETE", `/v1/jobs/${id}`) : act("POST", `/v1/jobs/${id}/${verb}`));
      this.#say(`${verb}: done, job ${id} is ${ends ? "gone" : value.state}. ${note}`);
      if (!ends) return;
      this.page.leave();
      this.buttons.remove();
    } catch (error) {
      if (ends) this.page.pause(false);
      if (!(error instanceof ApiError)) throw error;
      this.#say(`${verb}: ${error.sentence}`, "bad");
    } finally {
      this.busy = false;
      this.page.again();
    }
  }

  #say(text, kind) {
    setText(this.said, sentence(text));
    set(this.said, "class", kind);
  }
}

export function open(main, frame, name) {
  const path = `/v1/jobs/${encodeURIComponent(name)}`;
  let job = null, log = null, history = null, paused = false;
  const title = h("h1", { text: `Job ${printable(name)}` }), asking = () => [poller, history, log?.poller].filter(Boolean);
  const actions = new Actions({
    again: () => poller.begin(),
    // While the job goes away, to ask for it would show that it is not there.
    pause(yes) {
      paused = yes;
      for (const one of asking()) yes ? one.end() : one.begin();
    },
    leave: () => asking().forEach((one) => one.close()),
  });
  const facts = h("dl", { class: "facts" });
  const because = h("p", { class: "because" }), story = h("ol", { class: "story" }), advice = h("ul"), toDo = h("h3", { text: "What to do", hidden: "" });
  const memory = new Plot("Memory", [{ name: "memory", color: "--memory" }], bytes, "7rem");
  const use = new Plot("Utilization", [{ name: "utilization", color: "--use" }], (value) => `${Math.round(value)}%`, "5rem");
  const strip = makeStrip(), nothing = h("p", { class: "dim", text: "Nothing is recorded yet." });
  const plots = h("div", { class: "plots", hidden: "" }, memory.element, stripKeys(), strip, use.element);
  const logs = section("log", "The end of its log");
  main.append(title, actions.buttons, actions.said, facts, section("why", "Why", because, story, toDo, advice),
    section("history", "History", nothing, plots), logs);

  function showStory(told) {
    setText(because, sentence(told.because));
    const steps = told.story.map((step) => [local(time(step.at)),
      sentence(step.text) + (step.times > 1 ? ` (${step.times} times, the last at ${local(time(step.last))})` : "")]);
    if (told.left_out > 0) steps.splice(told.left_out_after, 0, ["", `… ${told.left_out} more …`]);
    reconcile(story, steps, (_, i) => i, () => h("li", {}, h("time"), h("span")), (row, [at, text]) => {
      setText(row.firstChild, at);
      setText(row.lastChild, text);
    });
    reconcile(advice, told.advice, (_, i) => i, () => h("li"), (row, text) => setText(row, sentence(text)));
    hide(toDo, told.advice.length === 0);
  }

  const poller = frame.poll(async (signal) => {
    const [shown, told, { gpus }] = await Promise.all([get(path, signal), get(`${path}/why`, signal), get("/v1/gpus", signal)]);
    const before = job;
    job = shown;
    frame.title(`Job ${job.id} ${job.tag}`);
    setText(title, `Job ${job.id} ${printable(job.tag)}`);
    reconcile(facts, factsOf(job, gpus), ([fact], i) => fact + i, () => h("div", {}, h("dt"), h("dd")), (row, [fact, text, kind]) => {
      setText(row.firstChild, fact);
      setText(row.lastChild, sentence(text));
      set(row.lastChild, "class", kind || null);
    });
    showStory(told);
    if (before?.started_at !== job.started_at || !log) {
      log?.close();
      log = new Log(job.id, () => ENDED.includes(job.state));
      logs.append(log.element);
      if (job.started_at) history ??= frame.poll(showHistory, HISTORY_EVERY);
    }
    await actions.update(job);
  }, EVERY);

  async function showHistory(signal) {
    const figures = await get(`/v1/history?job=${job.id}&points=300`, signal);
    const recorded = figures.recorded.some((part) => part > 0);
    hide(nothing, recorded);
    hide(plots, !recorded);
    if (!recorded) return;
    const most = Math.max(1, figures.memory_limit ?? 0, ...figures.memory.max);
    showStrip(strip, "What the job did", figures);
    await memory.show(figures, [figures.memory.mean], most);
    await use.show(figures, [figures.utilization.mean], 100);
  }

  return {
    event: (event) => !paused && event.job === job?.id && poller.soon(),
    close() {
      log?.close();
      memory.close();
      use.close();
    },
  };
}
