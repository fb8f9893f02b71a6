/** The little of a browser that modules of state and wire touch when they are imported. */
const listeners = new EventTarget();

Object.assign(globalThis, {
  location: { hash: "", href: "http://127.0.0.1:6385/ui/", protocol: "http:", hostname: "127.0.0.1" },
  history: { state: null, pushState() {}, replaceState() {} },
  addEventListener: listeners.addEventListener.bind(listeners),
  document: {
    baseURI: "http://127.0.0.1:6385/ui/",
    hidden: false,
    documentElement: { dataset: {} },
    addEventListener() {},
    removeEventListener() {},
    querySelector: () => null,
    querySelectorAll: () => [],
  },
  matchMedia: () => ({ matches: false, addEventListener() {} }),
  requestAnimationFrame: (draw: () => void) => setTimeout(draw),
  cancelAnimationFrame: clearTimeout,
});
