export { Lexer, Marked, Parser, Renderer } from "marked";
