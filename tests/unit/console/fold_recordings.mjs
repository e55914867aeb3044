// Folds recorded connections as the console does. Reads a list of recordings, writes a list of states.
//     node fold_recordings.mjs SESSION_STATE_MODULE < recordings.json > states.json

import { readFileSync } from "node:fs";

const { SessionState } = await import(process.argv[2]);

function folded({ session, snapshot, connections }) {
  const state = new SessionState(session, snapshot);
  for (const items of connections) {
    state.reconnected();
    for (const item of items) state.apply(item);
  }
  return {
    number: state.number,
    title: state.session?.title ?? null,
    messages: [...state.messages.values()].map((each) => each.toMessage()),
    runs: [...state.runs.values()],
    queue: state.queue.map((run) => run.key),
    is_busy: state.isBusy,
    permissions: [...state.permissions.keys()],
    questions: [...state.questions.keys()],
    outputs: Object.fromEntries(state.outputs),
  };
}

process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(folded)));
