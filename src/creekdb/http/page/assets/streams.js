// One stream to each replica. It is opened again whenever it breaks: replicas are killed here.

const RETRY_MS = 700;
const SILENT_MS = 6000; // a replica gives a sign of life every two seconds

let token = "";
try { token = sessionStorage.getItem("creek-token") ?? ""; } catch { /* a private window */ }

export function useToken(text) {
  token = text;
  try { sessionStorage.setItem("creek-token", text); } catch { /* a private window */ }
}

export const hasToken = () => Boolean(token);

export const credentials = () => (token ? { Authorization: `Bearer ${token}` } : {});

/** `hears.about(data)`, `hears.now(data)`, `hears.lost(status)`; `status` is 0 when nobody is there. */
export function follow(address, hears) {
  const turn = async () => {
    let status = 0;
    try {
      status = await read(address, hears);
    } catch { /* it is down, or cut off from this browser */ }
    hears.lost(status);
    setTimeout(turn, RETRY_MS);
  };
  turn();
}

async function read(address, hears) {
  const stop = new AbortController();
  let watch = setTimeout(() => stop.abort(), SILENT_MS);
  const response = await fetch(`${address}/watch`, { headers: credentials(), signal: stop.signal });
  if (!response.ok) return response.status;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return 0;
    clearTimeout(watch);
    watch = setTimeout(() => stop.abort(), SILENT_MS);
    const blocks = (text + value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const found = /^event: (\w+)\ndata: (.*)$/.exec(block);
      if (found) hears[found[1]]?.(JSON.parse(found[2]));
    }
  }
}
