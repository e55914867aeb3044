// Prints the words of all replies of a workspace: `node follow.ts URL WORKSPACE [TOKEN]`.

import process from "node:process";
import { streamEvents } from "../src/index.ts";

const [url = "http://127.0.0.1:22787", workspace = "", token] = process.argv.slice(2);

for await (const item of streamEvents({ url, workspace, ...(token ? { token } : {}) })) {
  if (item.kind === "text" && item.partKind === "text") process.stdout.write(item.text);
  else if (item.kind === "event" && item.event.type === "run.finished") {
    console.log(`\n[${item.event.data.run.outcome}]`);
  } else if (item.kind === "lost") console.error(`\n[connection lost: ${item.reason}]`);
}
