import{a,b}from"./chunk-15.js";import"./chunk-5.js";import"./chunk-6.js";import"./chunk-7.js";import"./chunk-8.js";import"./chunk-9.js";export{b as Declare,a as Simple};
