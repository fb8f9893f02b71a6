import{a,b}from"./chunk-9.js";import"./chunk-6.js";import"./chunk-7.js";export{b as ErasureList,a as EvidencePage};
