// What screen readers read aloud: one polite and one urgent region, which the page's frame contains.

/** @param {string} text @param {{urgent?: boolean}} [options] */
export function announce(text, { urgent = false } = {}) {
  const region = document.getElementById(urgent ? "announce-urgent" : "announce-polite");
  if (!region) return;
  // The same text twice is read twice only if the region's content changes.
  region.textContent = region.textContent === text ? `${text}\u00a0` : text;
}
