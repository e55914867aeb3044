// Corrects what Swagger UI's own markup tells screen readers, whenever it has drawn something.

const HEADINGS = [
  ["h3.opblock-tag", "2"],
  ["section.models > h4", "2"],
];

function correct() {
  for (const [selector, level] of HEADINGS) {
    for (const heading of document.querySelectorAll(`${selector}:not([aria-level="${level}"])`)) {
      heading.setAttribute("aria-level", level);
    }
  }
  // What stands above the landmark of the operations is a landmark of its own.
  const about = document.querySelector(".information-container:not([role])");
  about?.setAttribute("aria-label", "About");
  about?.setAttribute("role", "region");
  // A link inside of a button: the button opens the same operation, and sets the same address.
  for (const link of document.querySelectorAll("button.opblock-summary-control a[href]")) {
    link.removeAttribute("href");
  }
}

new MutationObserver(correct).observe(document.getElementById("swagger-ui"), { childList: true, subtree: true });
