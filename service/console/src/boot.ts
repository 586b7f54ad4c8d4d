// What a page runs first: the colors that were chosen, and then the console, once the frame of the page has been painted. A
// window that nobody sees paints nothing, and waits for nothing.
try {
  document.documentElement.dataset['theme'] = localStorage.getItem('baton.theme') ?? 'auto';
} catch {
  /* a browser that keeps nothing */
}
// @ts-expect-error: it is a file of the service, beside this one
const begin = (): void => void import('/console/console.js');
if (document.hidden) begin();
else requestAnimationFrame(() => setTimeout(begin));

export {};
