import{a,b}from"./chunk-10.js";import"./chunk-6.js";import"./chunk-7.js";export{b as ErasureList,a as EvidencePage};
