export const TEXT = {
  "diff.label": "Changes of {path}",
  "diff.empty": "No lines differ.",
  "diff.added": "added:",
  "diff.removed": "removed:",
  "diff.pick": "Comment on line {line}",
  "diff.pick_removed": "Comment on the removed line {line}",
  "diff.show_all": "Show {n} more {n|line|lines}",
};
