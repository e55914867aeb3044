// Prints each item of a workspace's log and stream as one line of JSON, from the first event on:
// `node items.ts URL WORKSPACE CLIENT_ID PATH`. The tests run it through a kill of the server.

import process from "node:process";
import { streamEvents } from "../src/index.ts";

const [url = "", workspace = "", clientId = "", path = ""] = process.argv.slice(2);

function reopen(): Promise<Response> {
  const body = JSON.stringify({ path, client_id: clientId });
  return fetch(new URL("/v1/workspaces", url), { method: "POST", body });
}

for await (const item of streamEvents({ url, workspace, clientId, reopen, after: 0 })) {
  console.log(JSON.stringify(item));
}
