// Requests to the daemon, by way of the server of `gpuman web`, and what went wrong with them in plain English.

// The secret of the link comes behind "#", so it is in no request's address. It stays in the storage of the tab, which
// pages of other ports cannot read.
const SECRET = "gpuman secret", LINK = /^#secret=([0-9a-f]+)$/;
const given = location.hash.match(LINK);
if (given) {
  sessionStorage.setItem(SECRET, given[1]);
  history.replaceState(null, "", "/");
}
const secret = sessionStorage.getItem(SECRET) ?? "";
// A new link in a tab that has an old one.
addEventListener("hashchange", () => LINK.test(location.hash) && location.reload());

const AGAIN = "Run the command again that printed the link, gpuman web or gpuman web --everybody.";

// `away`: the daemon did not answer; else the words are its own.
export class ApiError extends Error {
  constructor(message, hint, { away = false, code } = {}) {
    super(message);
    Object.assign(this, { hint, away, code });
  }

  get sentence() {
    const end = /[.!?]$/.test(this.message) ? "" : ".";
    return `${this.message}${end}${this.hint ? ` ${this.hint}` : ""}`;
  }
}

export const noServer = () => new ApiError("gpuman web does not answer", AGAIN, { away: true });
const noDaemon = () => new ApiError("gpumand does not answer", "gpuman doctor looks for the reason.", { away: true });

async function errorOf(answer) {
  const { status } = answer;
  const error = await answer.json().then((told) => told.error, () => null);
  // The daemon's own 403 has a code.
  if (status === 401 || (status === 403 && error?.code !== "permission_denied"))
    return new ApiError("This link is no longer valid", AGAIN, { away: true });
  const away = status >= 502 && status <= 504;
  if (error?.message) return new ApiError(error.message, error.hint, { away, code: error.code });
  if (away) return noDaemon();
  return new ApiError(`The answer was ${status} ${answer.statusText}`.trim());
}

// The answer, when its headers have come.
async function open(path, { method, body, signal } = {}) {
  let answer;
  try {
    answer = await fetch(path, { method, signal, cache: "no-store", body: body && JSON.stringify(body),
      headers: { Authorization: `Bearer ${secret}`, ...(body && { "Content-Type": "application/json" }) } });
  } catch (error) {
    throw error.name === "AbortError" ? error : error.name === "TimeoutError" ? noDaemon() : noServer();
  }
  if (!answer.ok) throw await errorOf(answer);
  return answer;
}

const broken = (error) => {
  throw error.name === "AbortError" ? error
    : error.name === "TimeoutError" ? noDaemon() : new ApiError("The answer broke off", null, { away: true });
};

const PATIENCE = 30_000;  // ms for an answer
const patient = (signal) => AbortSignal.any([AbortSignal.timeout(PATIENCE), ...(signal ? [signal] : [])]);
export const get = async (path, signal) => (await open(path, { signal: patient(signal) })).json().catch(broken);
export const text = async (path, signal) => (await open(path, { signal: patient(signal) })).text().catch(broken);

// The answer, and the note that came with it.
export async function act(method, path, body) {
  const answer = await open(path, { method, body });
  return { value: await answer.json().catch(broken), note: answer.headers.get("Gpuman-Note") ?? "" };
}

// Calls began(headers), then take(bytes) with each piece of the answer; what comes until take() is done is the next piece.
export async function stream(path, signal, began, take) {
  const answer = await open(path, { signal });
  began(answer.headers);
  const reader = answer.body.getReader();
  for (;;) {
    const { done, value } = await reader.read().catch(broken);
    if (done) return;
    await take(value);
  }
}
