export { diffWordsWithSpace, structuredPatch } from "diff";
