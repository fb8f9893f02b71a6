import{a,b,c,d,e}from"./chunk-6.js";import"./chunk-2.js";import"./chunk-3.js";import"./chunk-4.js";import"./chunk-5.js";export{b as HoldForm,c as HoldOne,e as Holds,d as Lift,a as NEW_HOLD};
