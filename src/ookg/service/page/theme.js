// Loaded before the first paint, so that a stored choice never flashes in the other colours.
try {
  const stored = localStorage.getItem("ookg-theme");
  if (stored === "light" || stored === "dark") document.documentElement.dataset.theme = stored;
} catch {
  // Storage may be forbidden; then the system's colours it is.
}
