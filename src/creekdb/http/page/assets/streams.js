// One event stream to each replica, reopened whenever it breaks.

const RETRY_MS = 700;
const SILENT_MS = 6000; // a replica sends a keepalive every two seconds

let token = "";
try { token = sessionStorage.getItem("creek-token") ?? ""; } catch { /* no storage in a private window */ }

export function useToken(text) {
  token = text;
  try { sessionStorage.setItem("creek-token", text); } catch { /* no storage in a private window */ }
}

export const hasToken = () => Boolean(token);

export const credentials = () => (token ? { Authorization: `Bearer ${token}` } : {});

/** Follow a replica. Handlers: `about(data)`, `now(data)`, `lost(status)` with status 0 if it is unreachable. */
export function follow(address, handlers) {
  const connect = async () => {
    let status = 0;
    try {
      status = await read(address, handlers);
    } catch { /* the replica is down, or unreachable for this browser */ }
    handlers.lost(status);
    setTimeout(connect, RETRY_MS);
  };
  connect();
}

async function read(address, handlers) {
  const stop = new AbortController();
  let watchdog = setTimeout(() => stop.abort(), SILENT_MS);
  const response = await fetch(`${address}/watch`, { headers: credentials(), signal: stop.signal });
  if (!response.ok) return response.status;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return 0;
    clearTimeout(watchdog);
    watchdog = setTimeout(() => stop.abort(), SILENT_MS);
    const blocks = (text + value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const match = /^event: (\w+)\ndata: (.*)$/.exec(block);
      if (match) handlers[match[1]]?.(JSON.parse(match[2]));
    }
  }
}
