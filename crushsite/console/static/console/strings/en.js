// The console's texts. `{name}` is a value, `{count|one|other}` chooses by a number.
// The texts of settings and usage load with those pages (app.js).
// Keys begin with the room that uses them; `help_texts` of the server are not repeated here.

import { BOARD } from "./en_board.js";
import { CARDS } from "./en_cards.js";
import { CHANGES } from "./en_changes.js";
import { COMPOSER } from "./en_composer.js";
import { FIND } from "./en_find.js";
import { QUEUE } from "./en_queue.js";
import { SESSION } from "./en_session.js";
import { SHARED } from "./en_shared.js";
import { TEXT } from "./en_text.js";
import { TOOLS } from "./en_tools.js";

export const ENGLISH = {
  ...SHARED,
  ...BOARD,
  ...CARDS,
  ...CHANGES,
  ...COMPOSER,
  ...FIND,
  ...QUEUE,
  ...SESSION,
  ...TEXT,
  ...TOOLS,
};
