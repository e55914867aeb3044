// What the console's JSDoc comments name: objects of the REST interface and of streams, and classes of
// its own modules. The comments cannot import them: the names of files in imports get a hash.

import type { components } from "../typescript/src/openapi.ts";
import type * as Events from "../typescript/src/events.ts";
import type * as Calls from "../../crushsite/console/static/console/tools/call_state.js";
import type * as Comments from "../../crushsite/console/static/console/changes/comments.js";
import type * as Diffs from "../../crushsite/console/static/console/text/diff_lines.js";
import type * as Elements from "../../crushsite/console/static/console/core/element.js";
import type * as Feeds from "../../crushsite/console/static/console/stream/session_feed.js";
import type * as Messages from "../../crushsite/console/static/console/stream/open_message.js";
import type * as Routes from "../../crushsite/console/static/console/core/routes.js";
import type * as Sections from "../../crushsite/console/static/console/settings/sections.js";
import type * as States from "../../crushsite/console/static/console/stream/session_state.js";
import type * as Kinds from "../../crushsite/console/static/console/tools/catalogue.js";
import type * as Strings from "../../crushsite/console/static/console/core/strings.js";
import type { SETTINGS } from "../../crushsite/console/static/console/strings/en_settings.js";
import type { USAGE } from "../../crushsite/console/static/console/strings/en_usage.js";
import type * as Usage from "../../crushsite/console/static/console/usage/figures.js";

declare global {
  type Schemas = components["schemas"];

  type Message = Events.Message;
  type MessagePart = Events.Message["parts"][number];
  type PermissionRequest = Events.PermissionRequest;
  type Run = Events.Run;
  type Session = Events.Session;

  type CallHeader = { id: string; name: string };
  /** A part of an open message: what is fixed in `data`, and the text so far. */
  type OpenPart = { type: string; data: Record<string, any>; text: string; length: number };
  type DiffLine = Diffs.DiffLine;
  type LineComment = Comments.LineComment;
  type DiffPair = Diffs.DiffPair;
  type Hunk = Diffs.Hunk;
  type OpenMessage = Messages.OpenMessage;
  type SessionFeed = Feeds.SessionFeed;
  type SessionState = States.SessionState;
  /** A permission request or a batch of questions, with its answer once there is one. */
  type WaitingItem = {
    kind: "approval" | "questions";
    id: string;
    workspaceId: string;
    data: Record<string, any>;
    resolution: Record<string, any> | null;
  };
  type PageElement = Elements.PageElement;
  type Place = Routes.Place;
  type SettingsPart = Sections.Section;
  type StringKey = Strings.Key;
  /** Of rooms whose texts load with their pages. */
  type LaterStringKey = keyof typeof SETTINGS | keyof typeof USAGE;

  type Call = Calls.Call;
  type CallState = Calls.CallState;
  type Kind = Kinds.Kind;
  type UsageGroup = Usage.Group;
  type UsageMeasure = Usage.Measure;
}
