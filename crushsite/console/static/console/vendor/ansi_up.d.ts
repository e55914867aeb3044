export { AnsiUp } from "ansi_up";
