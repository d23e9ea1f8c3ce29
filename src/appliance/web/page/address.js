// The address of a view: `#page/argument?filter`. What is in it can be kept as a bookmark and sent to others.

/** The view that the address names. */
export function where() {
  const [path, query] = location.hash.slice(1).split("?");
  const [page, ...rest] = path.split("/");
  let argument = rest.length > 0 ? rest.join("/") : undefined;
  try {
    argument = argument && decodeURIComponent(argument);
  } catch {
    // A link that was cut within a letter.
  }
  return { page, argument, query: new URLSearchParams(query || "") };
}

function hashOf(page, argument, query) {
  const path = argument ? `${page}/${encodeURIComponent(argument)}` : page;
  const text = query.toString();
  return text ? `#${path}?${text}` : `#${path}`;
}

function put(page, argument, query, isNew) {
  const hash = hashOf(page, argument, query);
  if (isNew) history.pushState({ isOpened: true }, "", hash);
  else history.replaceState(history.state, "", hash);
  markTab(page);
}

/** Marks the tab of the page that is shown. It leads back to the filter or the source, not to the event that was open. */
export function markTab(page) {
  const { argument, query } = where();
  for (const link of document.querySelectorAll("#tabs a")) {
    const isShown = link.hash.split(/[/?]/)[0] === `#${page}`;
    if (isShown) link.setAttribute("href", hashOf(page, page === "events" ? null : argument, query));
    link.toggleAttribute("aria-current", isShown);
    if (isShown) link.setAttribute("aria-current", "page");
  }
}

/** Writes the filter of a page into the address, without a new entry of the history. */
export function setQuery(page, values) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (value) query.set(key, value);
  }
  put(page, where().argument, query);
}

/** Writes what is open on a page into the address; null: nothing is. The browser's way back leads to the page without it. */
export function setArgument(page, argument) {
  const isOpened = Boolean(history.state?.isOpened);
  if (!argument && isOpened) history.back();
  else put(page, argument, where().query, argument && !isOpened && !where().argument);
}
