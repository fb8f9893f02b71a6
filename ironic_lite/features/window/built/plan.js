import{c as a,d as b}from"./chunk-11.js";import"./chunk-12.js";import"./chunk-9.js";import"./chunk-3.js";import"./chunk-4.js";import"./chunk-5.js";export{b as Plan,a as VerbDialog};
