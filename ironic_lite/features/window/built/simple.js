import{a,b}from"./chunk-9.js";import"./chunk-10.js";import"./chunk-3.js";import"./chunk-4.js";import"./chunk-5.js";export{b as Declare,a as Simple};
