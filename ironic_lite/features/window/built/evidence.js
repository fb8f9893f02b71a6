import{a,b}from"./chunk-7.js";import"./chunk-5.js";export{b as ErasureList,a as EvidencePage};
