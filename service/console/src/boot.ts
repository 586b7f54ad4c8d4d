// First script of a page: sets the chosen colors, and loads the console after the frame of the page has been painted. A
// hidden window is never painted, so it loads the console immediately.
try {
  document.documentElement.dataset['theme'] = localStorage.getItem('baton.theme') ?? 'auto';
} catch {
  /* The browser does not allow storage. */
}
// @ts-expect-error: the service serves this file from the same directory
const begin = (): void => void import('/console/console.js');
if (document.hidden) begin();
else requestAnimationFrame(() => setTimeout(begin));

export {};
