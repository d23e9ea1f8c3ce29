// The address of a view: `#page/argument?filter`. What is in it can be kept as a bookmark and sent to others.

/** The view that the address names. */
export function where() {
  const [path, query] = location.hash.slice(1).split("?");
  const [page, argument] = path.split("/");
  return { page, argument, query: new URLSearchParams(query || "") };
}

/** Writes the filter of a page into the address, without a new entry of the history. */
export function setQuery(page, values) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (value) query.set(key, value);
  }
  const text = query.toString();
  history.replaceState(null, "", text ? `#${page}?${text}` : `#${page}`);
}
