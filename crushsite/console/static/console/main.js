// The console's first module.

import "./core/toasts.js";
import { watchKeys } from "./core/keys.js";
import { followLinks } from "./core/routes.js";
import { watchTheme } from "./core/theme.js";
import "./app.js";

watchTheme();
watchKeys();
followLinks();
