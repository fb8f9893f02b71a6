// DOM elements are written as html`<p>text</p>`, components as h(Component, { props }).
import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

export const html = htm.bind(h);
