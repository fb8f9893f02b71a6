import{a,b}from"./chunk-13.js";import"./chunk-14.js";import"./chunk-4.js";import"./chunk-5.js";import"./chunk-6.js";import"./chunk-7.js";export{b as Declare,a as Simple};
