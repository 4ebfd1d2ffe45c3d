// Answers of a server by HTTP to the requests of the store. URLs are relative to the document.
const session = Math.random().toString(36).slice(2); // each document counts its tasks
const post = (event, request) =>
  fetch(`answers/${event}?session=${session}`, { method: "POST", body: JSON.stringify(request) });
const postForJson = async (event, request) => (await post(event, request)).json();

export const ask = (request) => postForJson("ask", request);
export const act = (request) => postForJson("act", request);
export const save = (request) => postForJson("save", request);
export const cancel = (request) => post("cancel", request);

// The messages of a task arrive as lines of JSON.
export async function* start(request) {
  const { body } = await post("start", request);
  let rest = "";
  for await (const part of body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + part).split("\n");
    rest = lines.pop();
    yield* lines.map((line) => JSON.parse(line));
  }
}

// Send a file to the server, which returns its `path`.
export const upload = async (file) =>
  (await fetch("answers/upload", { method: "POST", body: file, headers: { name: file.name } })).json();
