// Requests to the server that this page came from. All addresses are relative to the page's own.

// `status` is null if no answer came: the server is gone.
export class RequestError extends Error {
  constructor(message, status = null) {
    super(message);
    this.status = status;
  }
}

async function request(path, options, read) {
  let response;
  try {
    response = await fetch(path, options);
    if (response.ok) return await read(response);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError("The server does not answer.");
  }
  const answer = await response.json().catch(() => null);
  throw new RequestError(answer?.error ?? `The server answered ${response.status}.`, response.status);
}

export const getJson = (path, options = {}) => request(path, { cache: "no-store", ...options }, each => each.json());

export const getBytes = path => request(path, { cache: "no-store" }, each => each.arrayBuffer());

export const postJson = (path, document) => request(path, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(document),
}, each => each.json());

export const pictureOf = (at, large = false) => `picture/${at}${large ? "?large" : ""}`;
