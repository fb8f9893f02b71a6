import{c as a,d as b}from"./chunk-12.js";import"./chunk-13.js";import"./chunk-10.js";import"./chunk-3.js";import"./chunk-4.js";import"./chunk-5.js";export{b as Plan,a as VerbDialog};
