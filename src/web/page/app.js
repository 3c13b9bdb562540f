// The frame around the pages: which one is shown, the events, and whether the daemon answers.
import { noServer } from "./api.js";
import { h, hide, set, setText } from "./dom.js";
import { clock, printable, sentence } from "./format.js";
import { Poller, followEvents } from "./live.js";

const NEWS_EVERY = 4_000;      // ms between two announcements to a screen reader
const WITHOUT_EVENTS = 3_000;  // ms between two requests while there is no stream of events

const ROUTES = [
  [/^#?\/?$/, () => import("./machine.js"), "Machine"],
  [/^#\/queue$/, () => import("./queue.js"), "Queue"],
  [/^#\/job\/([^/]+)$/, () => import("./job.js"), "Job"],
  [/^#\/people$/, () => import("./people.js"), "People"],
];

const [main, problemLine, link, news] = ["main", "problem", "link", "news"].map((id) => document.getElementById(id));

let page = null;  // {event(event), close()}
let pollers = [];
const problems = new Map();  // why the figures are old, by poller
let answered = null;         // when the daemon answered last

function showState() {
  const live = events.connected, [problem] = problems.values();
  setText(link, problem ? "no answer" : live ? "live" : answered ? "asks every few seconds" : "connecting");
  set(link, "class", problem ? "bad" : live ? "good" : null);
  hide(problemLine, !problem);
  const old = answered ? `These are old figures, of ${clock(answered)}: ` : "";
  setText(problemLine, problem ? old + sentence(problem.sentence) : "");
}

// What a page is given. Pollers end with it.
const frame = {
  poll(run, every) {
    const poller = new Poller(run, () => (events.connected ? every : Math.min(every, WITHOUT_EVENTS)), (error) => {
      if (error) problems.set(poller, error);
      else problems.delete(poller);
      answered = error ? answered : Date.now();
      showState();
    });
    pollers.push(poller);
    return poller;
  },
  title: (text) => (document.title = `${printable(text)} - gpuman`),
};

let newest = null;
const events = followEvents((event) => {
  if (newest === null)
    setTimeout(() => {
      setText(news, newest);
      newest = null;
    }, NEWS_EVERY);
  newest = sentence(event.tag ? `${event.tag}: ${event.message}` : event.message);
  page?.event(event);
}, showState);

// What follows "#/job/"; as it stands where it is no percent-encoded text.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

let routes = 0;
async function route(focus) {
  const { hash } = location, mine = ++routes;
  const found = ROUTES.find(([pattern]) => pattern.test(hash));
  pollers.forEach((poller) => poller.close());
  pollers = [];
  page?.close?.();
  page = answered = null;
  problems.clear();
  for (const item of document.querySelectorAll("nav a"))
    set(item, "aria-current", item.getAttribute("href") === (ROUTES[0] === found ? "#/" : hash) ? "page" : null);
  showState();
  const [pattern, load, title] = found ?? [/$/, null, "No such page"];
  const module = await load?.().catch(() => null);
  if (mine !== routes) return;  // gone on meanwhile
  if (found && !module) {
    main.replaceChildren();
    problems.set("page", noServer());
    return showState();
  }
  main.replaceChildren(...(found ? [] : [h("h1", { text: title }), h("a", { href: "#/", text: "Go to the machine" })]));
  frame.title(title);
  page = module?.open(main, frame, decoded(hash.match(pattern)[1] ?? "")) ?? null;
  scrollTo(0, 0);
  // A reader of the screen goes on at the new page.
  if (focus) main.focus({ preventScroll: true });
}
document.querySelector(".skip").addEventListener("click", (click) => {
  click.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => route(true));
route(false);
