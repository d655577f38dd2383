// Where the site is opened from a folder, a browser does not let a page read another one. So the search shows its results
// without the lines around them, instead of failing to fetch these. It does nothing where a server hands out the pages.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
