export const SESSION = {
  "session.untitled": "New session",
  "session.conversation": "Conversation",
  "session.empty": "Send the first prompt.",
  "session.earlier": "Earlier messages",
  "session.latest": "To the newest message",
  "session.you": "You",
};
