export const SESSION = {
  "session.untitled": "New session",
  "session.conversation": "Conversation",
  "session.missing": "This session does not exist, or you may not read it.",
  "session.empty": "Send the first prompt.",
  "session.empty_hint": "Write in plain words what should be done in this folder. You see each step here, and the agent waits for your permission before it runs or changes what could do harm.",
  "session.earlier": "Earlier messages",
  "session.latest": "To the newest message",
  "session.you": "You",
};
