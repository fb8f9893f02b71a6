import{a,b}from"./chunk-6.js";import"./chunk-5.js";export{b as ErasureList,a as EvidencePage};
