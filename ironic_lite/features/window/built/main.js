import{useEffect as _u}from"./vendor/hooks.js";import{h as fs,render as Eu}from"./vendor/preact.js";import{useEffect as Hl,useState as ql}from"./vendor/hooks.js";import{h as he}from"./vendor/preact.js";var bs="1.115",ge={enroll:"stable",verifying:"busy",manageable:"stable",available:"stable",active:"stable",error:"stable",inspecting:"busy","inspect wait":"wait","inspect failed":"fail",cleaning:"busy","clean wait":"wait","clean hold":"held","clean failed":"fail",deploying:"busy","wait call-back":"wait","deploy hold":"held","deploy failed":"fail",deleting:"busy",adopting:"busy","adopt failed":"fail",rescue:"stable",rescuing:"busy","rescue wait":"wait","rescue failed":"fail",unrescuing:"busy","unrescue failed":"fail",servicing:"busy","service wait":"wait","service hold":"held","service failed":"fail"},Se=[{target:"active",erases:!0,from:["available","deploy failed"]},{target:"deploy",alias:!0,erases:!0,from:["available","deploy failed"]},{target:"rebuild",erases:!0,from:["active","error","deploy failed"]},{target:"deleted",erases:!0,from:["active","error","wait call-back","deploy failed","rescue","rescue wait","rescue failed","unrescue failed","service wait","service failed"]},{target:"undeploy",alias:!0,erases:!0,from:["active","error","wait call-back","deploy failed","rescue","rescue wait","rescue failed","unrescue failed","service wait","service failed"]},{target:"manage",from:["enroll","available","inspect failed","clean failed","adopt failed"]},{target:"provide",erases:!0,from:["manageable","clean failed"]},{target:"cleaned",alias:!0,erases:!0,from:["manageable","clean failed"]},{target:"available",from:["clean failed"]},{target:"inspect",from:["manageable","inspect failed"]},{target:"abort",from:["inspect wait","clean wait","clean hold","wait call-back","deploy hold","rescue wait","service wait","service hold","service failed"]},{target:"clean",needs:["clean_steps","runbook"],erases:!0,from:["manageable"]},{target:"adopt",from:["manageable","adopt failed"]},{target:"rescue",needs:["rescue_password"],from:["active","rescue","rescue failed","unrescue failed","service failed"]},{target:"unrescue",from:["rescue","rescue failed","unrescue failed"]},{target:"unhold",from:["clean hold","deploy hold","service hold"]},{target:"service",needs:["service_steps","runbook"],erases:!0,from:["active","service hold","service failed"]},{target:"retry",erases:!0,from:["clean failed","deploy failed","service failed"]}],vs="pass_?(word|wd|phrase|code)|pswd|admin_?pass|(^|[_-])pass$|secret|token|credential|authorization|(api|private|access|auth|priv|encryption|encrypted|kg)_?key|fernetkey|sslkey|sshkey|rabbitcookie";import{useState as Lt}from"./vendor/hooks.js";import{h as B}from"./vendor/preact.js";import{useEffect as ma,useLayoutEffect as Ki,useRef as ha,useState as Rn}from"./vendor/hooks.js";import{h as ct}from"./vendor/preact.js";import{signal as Vi}from"./vendor/signals.js";import{useEffect as da,useState as To}from"./vendor/hooks.js";import{h as De}from"./vendor/preact.js";import Ni from"./vendor/htm.js";import{h as Mi}from"./vendor/preact.js";import{signal as Di}from"./vendor/signals.js";import{signal as ve}from"./vendor/signals.js";import{effect as Ur,signal as tn}from"./vendor/signals.js";var Fr="/v1/nodes";function Xn(e){let[t="",n=""]=(/^#(\/v1\/.*)/s.exec(e)?.[1]??Fr).split(/\?(.*)/s),o=new URLSearchParams,s=history.state?{sel:history.state}:{};for(let[r,l]of new URLSearchParams(n))r.startsWith("~")?s[r.slice(1)]=l:o.append(r,l);let a=t.split("/").slice(2).filter(Boolean).map(Hr);return{path:t,parts:a,query:o,view:s}}function Hr(e){try{return decodeURIComponent(e)}catch{return e}}var S=tn(Xn(location.hash));addEventListener("popstate",()=>S.value=Xn(location.hash));var qr=5550;function v(...e){return["/v1",...e.map(encodeURIComponent)].join("/")}function N(e,t={},n={}){let o=new URLSearchParams(t);for(let[a,r]of Object.entries(n))r&&r.length<qr&&o.append(`~${a}`,r);let s=o.toString().replaceAll("%7E","~");return`#${e}${s?`?${s}`:""}`}function be(e={}){let{path:t,query:n}=S.value,o=Object.entries(e).filter(([s])=>!n.has(s));return N(t,new URLSearchParams([...n,...o])).slice(1)}function q(e,{replace:t,sel:n}={}){history[t?"replaceState":"pushState"](n,"",e),S.value=Xn(e)}function V(e,t){let{path:n,query:o,view:s}=S.value,a=new URLSearchParams(o),r={...s};for(let[l,c]of Object.entries(e))l.startsWith("~")?r[l.slice(1)]=c:c?a.set(l,c):a.delete(l);q(N(n,a,r),{...t,sel:r.sel})}var Ss="ironic-lite",ys={theme:"auto",utc:!1,keys:!0,plain:!1,views:{}};function xs(){try{return{...ys,...JSON.parse(localStorage.getItem(Ss)??"{}")}}catch{return{...ys}}}var E=tn(xs());function ze(e){E.value={...E.value,...e}}addEventListener("storage",()=>E.value=xs());Ur(()=>{let{theme:e}=E.value;document.documentElement.dataset.theme=e;try{localStorage.setItem(Ss,JSON.stringify(E.value))}catch{}});var Dt=tn(!1),_s=matchMedia("(max-width: 720px)"),Es=()=>Dt.value=_s.matches;_s.addEventListener("change",Es);Es();var Yn=0,xe=tn(Date.now());function Ts(e){let t=e?Date.parse(e):NaN;!isNaN(t)&&Math.abs(t-Date.now()-Yn)>1500&&(Yn=t-Date.now())}setInterval(()=>{document.hidden||(xe.value=Date.now()+Yn)},1e3);var ws=[[86400,"d"],[3600,"h"],[60,"min"]];function G(e){if(e===null)return"";let t=Math.max(0,Math.round(e));for(let[n,[o,s]]of ws.entries()){if(t<o)continue;let a=ws[n+1],r=a?Math.floor(t%o/a[0]):0;return`${Math.floor(t/o)} ${s}${r&&a?` ${r} ${a[1]}`:""}`}return e<10?`${e.toFixed(1)} s`:`${t} s`}function It(e){return e?Math.max(0,(xe.value-Date.parse(e))/1e3):0}var jr={hour:"2-digit",minute:"2-digit",hourCycle:"h23"},Wr={year:"numeric",month:"short",day:"numeric",timeZoneName:"short"},ks=new Map;function Cs(e,t,n){let o=new Date(e);if(isNaN(o.getTime()))return e;let s=JSON.stringify([t,n]),a=ks.get(s)??new Intl.DateTimeFormat(void 0,{...jr,...n,...t&&{timeZone:"UTC"}});return ks.set(s,a),a.format(o)}var As=e=>({second:"2-digit",.../\.\d/.test(e)&&{fractionalSecondDigits:3}}),Je=(e,t)=>Cs(e,t,{...Wr,...As(e)}),Kr=12*3600*1e3,ft=(e,t,n)=>Cs(e,t,n?As(e):Date.parse(e)-xe.value>Kr?{weekday:"short"}:{});import{signal as zr}from"./vendor/signals.js";import{signal as Os}from"./vendor/signals.js";var Vr=8*3600*1e3,mt=new BroadcastChannel("ironic-lite-login"),Ae=null,Ye=0,Gr=60*1e3,Pt=0,Xe=Os(null),Oe=Os("");function Zn(){return Qn()&&nn(),Ae?{[Ae.name]:Ae.value}:{}}var Qn=()=>Ae&&Date.now()-Ye>Vr;function Ls(e,t){e?.value!==Ae?.value&&Pt++,Ae=e,Ye=t,Oe.value=e?e.user:"",e&&(Xe.value=null)}function Rs(e,t){let n=new TextEncoder().encode(`${e}:${t}`),o=`Basic ${btoa(String.fromCharCode(...n))}`;eo({name:"Authorization",value:o,user:e})}function Ns(e){eo({name:"X-Auth-Token",value:e.trim(),user:"token"})}function eo(e){Ls(e,Date.now()),mt.postMessage({kind:"login",held:Ae,usedAt:Ye})}function nn(){eo(null)}function Ms(){nn(),mt.postMessage({kind:"out"}),location.reload()}function Ds(e){Xe.value=e}function Is(){if(!(Date.now()-Ye<Gr)){if(Qn())return nn();Ye=Date.now(),mt.postMessage({kind:"used"})}}addEventListener("keydown",Is,!0);addEventListener("pointerdown",Is,!0);mt.onmessage=({data:e})=>{if(e.kind==="login")return Ls(e.held,e.usedAt);if(e.kind==="out")return location.reload();if(Qn())return nn();e.kind==="used"&&(Ye=Date.now()),e.kind==="who"&&Ae&&mt.postMessage({kind:"login",held:Ae,usedAt:Ye})};mt.postMessage({kind:"who"});var Jr=500,Le=class extends Error{status=0;request="";address="";retryAfter=0;constructor(t,n){super(t),Object.assign(this,n)}};function Yr(e){let t=Re(e),{faultstring:n,description:o}=Re(t?.error_message??"")??t??{};return n??o??e.slice(0,Jr)}function Re(e){try{return e.trim()?JSON.parse(e):void 0}catch{return null}}function Bt(e,t,n){return new Le(Yr(t)||`${e.status} ${e.statusText}`,{status:e.status,request:e.headers.get(Ps)??"",retryAfter:Number(e.headers.get("Retry-After"))||0,address:n})}var sn=zr(null),oo=new URL("..",document.baseURI).href.replace(/\/$/,""),Ps="X-OpenStack-Request-Id",no="omit";async function Ze(e,t,{body:n,headers:o,signal:s}={}){let a=oo+t;try{let r=await fetch(a,{method:e,cache:"no-store",redirect:"manual",referrerPolicy:"no-referrer",credentials:no,signal:s??null,body:n===void 0?null:JSON.stringify(n),headers:{...n!==void 0&&{"Content-Type":"application/json"},"X-OpenStack-Ironic-API-Version":bs,...Zn(),...o}});return sn.value=null,Ts(r.headers.get("Date")),r}catch(r){throw s?.aborted?r:(sn.value??=new Date,new Le(`No answer from ${a}. Is the service up?`,{address:a}))}}async function _e(e,t,n={}){let o=Pt,s=await Ze(e,t,n);if(s.type==="opaqueredirect"||Xr(s))return Zr(e,t,n);let a=await s.text();if(s.status===401&&o<Pt)return _e(e,t,n);if(s.status===401)return Qr(s,e,t,n);if(!s.ok&&!n.accepts?.includes(s.status))throw Bt(s,a,e+" "+t);let r=s.headers.get("Content-Type")?.includes("json");return{status:s.status,body:r&&a?JSON.parse(a):a||null,tag:s.headers.get("ETag")??"",link:s.headers.get("Link")??""}}function Xr(e){return e.status<404&&!e.headers.has(Ps)&&!!e.headers.get("Content-Type")?.includes("html")}function Zr(e,t,n){return no==="same-origin"?(location.reload(),new Promise(()=>{})):(no="same-origin",_e(e,t,n))}function Qr(e,t,n,o){let s=e.headers.get("WWW-Authenticate")??"";return Ds(/^basic/i.test(s)?"basic":"keystone"),new Promise(a=>{let r=Xe.subscribe(l=>{l===null&&(queueMicrotask(()=>r()),a(_e(t,n,o)))})})}var to=new Map;async function an(e){let t=Pt,n=to.get(t)??W("/v1/whoami").then(({body:s})=>s.rules,()=>null);to.set(t,n);let o=await n;return o||to.delete(t),!o||o.includes(e)}var W=(e,t)=>_e("GET",e,{signal:t});async function*ht(e,t,n){let o=e||void 0;for(;o;){let{body:s}=await W(o,n);yield s[t],o=s.next&&$t(s.next)}}function $t(e){let{pathname:t,search:n}=new URL(e,oo);return t.slice(t.indexOf("/v1"))+n}function Qe(){return crypto.getRandomValues(new Uint32Array(4)).join("-")}var ei=3,ti="respond-async, wait=10";async function rn({method:e,path:t,body:n,tag:o,key:s,onWait:a}){let r={"Idempotency-Key":s??Qe()};o&&(r["If-Match"]=o);for(let l=1;;l+=1)try{return await _e(e,t,{headers:r,body:n})}catch(c){let u=c instanceof Le?ni(c):null;if(u===null||l===ei)throw c;Bs(c)&&(r.Prefer=ti),a?.(u,c.message),await oe(u*1e3)}}var Ee=({status:e})=>!e||e>=500,Bs=e=>e instanceof Le&&e.status===409&&e.retryAfter>0;function ni(e){return!e.status||e.status===503||Bs(e)?e.retryAfter||1:null}function Us(e){let t=/<([^>]+)>\s*;\s*rel="?monitor"?/.exec(e);return t?.[1]?$t(t[1]):null}var ln=new RegExp(vs,"i");function on(e){return`'${e.replaceAll("'","'\\''")}'`}function oi(e){let t=[];return on(JSON.stringify(e,function(o,s){let a=o==="value"?String(this.path).replace(/.*\//,""):o;return typeof s!="string"||!s||!ln.test(a)?s:(t.push(a.toUpperCase().replace(/[^A-Z0-9]/g,"_")),`${t.length-1}`)})).replaceAll(/\\u0001(\d+)\\u0001/g,(o,s)=>`'"$${t[s]}"'`)}function si(){let[e]=Object.keys(Zn());return e==="Authorization"?['-u "$USER"']:e?['-H "X-Auth-Token: $OS_TOKEN"']:[]}function Ue(e,t,{body:n,headers:o={},stream:s=!1,file:a,each:r}={}){let l=["curl",s?"-sN":"-sS",...si()];a&&l.push("-fo",a),/[?&]wait=/.test(t)&&l.push("--retry","5"),e!=="GET"&&l.push("-X",e);let c={...o};n!==void 0&&(c["Content-Type"]="application/json");for(let[p,d]of Object.entries(c))l.push("-H",on(`${p}: ${d}`));l.push(`"$api"${on(t).replace("{node}",`'"$node"'`)}`),n!==void 0&&l.push("-d",oi(n));let u=l.join(" ");return`api=${on(oo)}
${r?`for node in ${r.join(" ")}; do ${u}; done`:u}`}var oe=e=>new Promise(t=>setTimeout(t,e));import{signal as ro}from"./vendor/signals.js";var io=ro(!1),[,ai=""]=/\/a\/([^/]+)\//.exec(import.meta.url)??[];async function ri(){try{let e=await fetch(new URL("./",document.baseURI),{method:"HEAD",cache:"no-store"}),t=e.headers.get("ETag");e.ok&&t&&(io.value=!t.includes(ai))}catch{}}var Fs=4;async function lo(){if(!navigator.locks)return ci();for(let e=0;e<Fs;e+=1){let t=await ii(`ironic-lite-stream-${e}`);if(t)return t}return null}var ii=e=>new Promise(t=>{let n=o=>o?new Promise(s=>t(()=>s(null))):t(null);navigator.locks.request(e,{ifAvailable:!0},n).catch(()=>t(null))}),li=80,Hs=Math.random(),bt=0,un=0,ao=new Map,co=new BroadcastChannel("ironic-lite-streams");co.onmessage=({data:e})=>{e.kind==="ask"?Ut():ao.set(e.me,e)};addEventListener("pagehide",()=>{bt=un=0,Ut()});var Ut=()=>co.postMessage({kind:"have",me:Hs,streams:bt,claims:un});async function ci(){un+=1,ao.clear(),Ut(),co.postMessage({kind:"ask"}),await oe(li);let e=bt;for(let[n,o]of ao)e+=o.streams+(n<Hs?o.claims:0);un-=1;let t=e<Fs;return t&&(bt+=1),Ut(),t?ui:null}function ui(){bt=Math.max(0,bt-1),Ut()}var uo=ro("none"),so=new Map;function gt(e,t){t?so.set(e,t):so.delete(e);let n=new Set(so.values()),o=["stream","wait","poll","again"].find(s=>n.has(s));uo.value=o??(n.size?"off":"none")}var po=ro(0),di=5e3,pi=2e4,fi=15,vt=5e3,mi=1e4,cn=500,hi=3e4,$i=1e4,gi=1e4,Fe=class{constructor(t,n,o,s={}){this.cursor=t,this.onEvents=n,this.onGap=o,this.filter=s,this.way="stream",this.pause=cn,this.lost=!1,this.abort=new AbortController,this.rest=new AbortController,this.onHide=()=>this.hide(),document.addEventListener("visibilitychange",this.onHide),this.run()}stop(){this.abort.abort(),this.rest.abort(),clearTimeout(this.hiding),document.removeEventListener("visibilitychange",this.onHide),gt(this)}hide(){clearTimeout(this.hiding),document.hidden&&(this.hiding=setTimeout(()=>this.rest.abort(),gi))}async run(){for(;!this.abort.signal.aborted;)try{if(this.rest.signal.aborted&&await this.seen(),this.abort.signal.aborted)return;await this.more(),this.pause=cn}catch(t){if(this.abort.signal.aborted)return;this.rest.signal.aborted||await this.failed(t)}}async seen(){for(;document.hidden&&!this.abort.signal.aborted;)await new Promise(t=>document.addEventListener("visibilitychange",t,{once:!0}));this.rest=new AbortController}async more(){if(this.way==="poll")return this.page("poll");if(this.way==="stream"&&this.onGap&&!await an("baremetal:event:list_all"))return this.again();let t=await lo();if(!t)return this.page("poll");try{await(this.way==="stream"?this.stream():this.page("wait"))}finally{t()}}async again(){this.abort.signal.aborted||gt(this,"again"),await oe(mi),this.abort.signal.aborted||this.onGap?.()}async failed(t){let n=t instanceof Le?t:null;if(t instanceof dn){this.way=this.way==="stream"?"wait":"poll";return}this.way==="wait"&&n?.status===504&&(this.way="poll"),gt(this,"off"),this.lost=!0;let o=(n?.retryAfter??0)*1e3;await oe(Math.max(o,this.pause*(.5+Math.random()))),this.pause=Math.min(hi,this.pause*2)}path(t){return`/v1/events?${new URLSearchParams({...this.filter,since:this.cursor,...t})}`}async stream(){let t=new AbortController,n=()=>t.abort(),o=AbortSignal.any([this.abort.signal,this.rest.signal]);if(o.aborted)return;o.addEventListener("abort",n);let s=setTimeout(n,di),a=!1,r=performance.now();try{let l=await Ze("GET",this.path({follow:"true"}),{signal:t.signal});if(l.status===401)return gt(this,"off"),void await W(this.path({limit:"1"}),o);if(!l.ok||!l.body)throw Bt(l,"","");for await(let c of fo(l.body))clearTimeout(s),s=setTimeout(n,pi),a=!0,this.pause=cn,this.abort.signal.aborted||gt(this,"stream"),this.take(c.map(u=>JSON.parse(u)));if(this.lost=!0,performance.now()-r<cn)throw new Le("no stream")}catch(l){throw!a&&t.signal.aborted&&!o.aborted?new dn:l}finally{clearTimeout(s),o.removeEventListener("abort",n),t.abort()}}async page(t){let n=t==="wait"?{wait:String(fi)}:{limit:"1000"},o=AbortSignal.any([this.abort.signal,this.rest.signal]),{body:s}=await W(this.path(n),o);gt(this,t),s.trimmed&&this.onGap?.(),this.take([...s.events,{cursor:s.cursor}]),t==="poll"&&await oe(vt)}take(t){this.lost&&ri(),this.lost=!1,po.value=performance.now();let n=t.filter(s=>s.kind),o=t.at(-1);o&&(this.cursor=o.cursor),t.some(s=>s.trimmed)||n.length>$i?this.onGap?.():n.length&&this.onEvents(n)}};function yt(e,t,n){let o=new AbortController,s=()=>o.abort(),a=()=>{W(e,o.signal).then(({body:r})=>{if(o.signal.aborted)return;let l=t(r);s=()=>l.stop()},r=>{o.signal.aborted||(n?.(r),Ee(r)&&setTimeout(a,vt))})};return a(),()=>s()}var dn=class extends Error{};async function*fo(e){let t=e.pipeThrough(new TextDecoderStream).getReader(),n="";for(;;){let{value:o,done:s}=await t.read();if(s)return;let a=(n+o).split(`
`);n=a.pop()??"",a.length&&(yield a.filter(Boolean))}}var bi=["uuid","name","provision_state","target_provision_state","provision_updated_at","power_state","maintenance","fault","resource_class","driver","conductor_group","conductor","owner","lessee","shard","retired","protected","instance_name","instance_uuid","data_state"],vi=1e3,hn=2e4,yi=150,ho=1e3,wi=50,ki=5e3,Ks=1e4,Si=3e3,xi=2e3,_i=5e3,Ei=/^(provision|fault|overdue|step|stop)/,ae=new Map,$n=ve(0),gn=ve(0),wt=ve("loading"),bn=ve(null),$o=ve(!1),vn=ve(null),Vs=ve(new Map),Gs=ve(new Map),wo=ve(new Map),ko=ve(new Map),k={heard:{count:0},nodes:ae,tick:$n,slowTick:gn,status:wt,counts:bn,narrow:$o,failure:vn,under:Vs,failed:Gs,overdue:wo,holds:ko},qs=!1,go=!1,et=new Set,mn=0,zs=0,Js=0,Ys=-1/0,pn=0,fn=0,Ft="",bo=0,yn=e=>ge[e.provision_state]??"stable";function Ht(){if(pn)return;let e=()=>{cancelAnimationFrame(pn),clearTimeout(t),pn=0,$n.value+=1};pn=requestAnimationFrame(e);let t=setTimeout(e,wi)}setInterval(()=>{js!==$n.value&&(gn.value=js=$n.value)},1e3);var js=0;async function wn(){qs||(qs=!0,yt("/v1/events?since=now",({cursor:e})=>(tt(),new Fe(e,Ti,()=>tt())),e=>vn.value=e))}async function tt(){let e=++fn,t=new Set;try{let n=await Xs(),o=n?Ft?`${vo()}&${Ft}`:"":vo();for await(let s of ht(o,"nodes")){if(e!==fn)return;for(let a of s)t.add(ea(a).uuid);if(wt.value==="loading"&&(gn.value+=1),Ht(),t.size>hn)break}$o.value=n&&(!Ft||t.size>hn),$o.value&&t.clear(),wt.value=n?"partial":"whole",vn.value=null}catch(n){if(e!==fn)return;vn.value=n,setTimeout(()=>e===fn&&tt(),ki);return}for(let n of ae.keys())t.has(n)||ae.delete(n);gn.value+=1,Ht(),await ta()}async function Xs(){let{body:e}=await W("/v1/stats/nodes?by=provision_state"),t=e.of>hn,n=e.counts.map(o=>[o.provision_state,o.count]);return bn.value=t?new Map(n):null,clearTimeout(bo),t&&(bo=setTimeout(Zs,Ks)),t}function Zs(){let e=()=>bo=setTimeout(Zs,Ks),t=String([...bn.value??[]]);document.hidden?e():Xs().then(n=>{(!n||String([...bn.value??[]])!==t)&&tt()},e)}function Qs(e){Ft!==e&&(Ft=e,wt.value==="partial"&&tt())}var vo=()=>`/v1/nodes?limit=${vi}&fields=${bi.join(",")}`;function ea(e){delete e.links;let t=ae.get(e.uuid);return t?.name!==e.name&&(go=!0),e.text=ia(e),t?Object.assign(t,e):ae.set(e.uuid,e),e}function Ti(e){for(let t of e){if(!t.node)continue;k.heard.count+=1;let n=ae.get(t.node);t.kind==="node_deleted"?ae.delete(t.node):n&&t.kind==="provision"&&t.after?(n.provision_state=t.after,n.provision_updated_at=t.at,n.text=ia(n)):n&&t.kind==="power"&&t.after&&(n.power_state=t.after),(n||wt.value!=="partial")&&et.add(t.node),t.kind.startsWith("hold_")?Js||=setTimeout(na,100):Ei.test(t.kind)&&(zs||=setTimeout(ta,Math.max(xi,Ys+_i-performance.now())))}mn||=setTimeout(yo,ho),Ht()}async function yo(){if(mn=0,et.size>Si)return et.clear(),tt();let e=[...et].slice(0,yi);if(e.length){for(let t of e)et.delete(t);et.size&&(mn=setTimeout(yo,ho));try{let{body:t}=await W(`${vo()}&uuid=${e.join(",")}`),n=new Set(e);for(let o of t.nodes)n.delete(ea(o).uuid);for(let o of n)ae.delete(o);wt.value==="whole"&&ae.size>hn&&tt(),Ht()}catch{for(let t of e)et.add(t);mn||=setTimeout(yo,5*ho)}}}var Ci="uuid,node_uuid,verb,state,place,eta,stop",Ai=[[Vs,`state=running,waiting&fields=${Ci}`],[Gs,"state=failed,aborted&latest=true"],[wo,"overdue=true"]];async function ta(){zs=0,Ys=performance.now(),await Promise.allSettled([...Ai.map(([e,t])=>Oi(e,t)),na()]),Ht()}async function Oi(e,t){let n=new Map;for await(let o of ht(`/v1/runs?limit=1000&${t}`,"runs"))for(let s of o)n.set(s.node_uuid,s);e.value=n}async function na(){Js=0;let e=new Map;for await(let t of ht("/v1/holds?limit=1000","holds"))for(let n of t)e.set(n.node_uuid,[...e.get(n.node_uuid)??[],n]);ko.value=e}var Li=new Intl.Collator(void 0,{numeric:!0});function oa(){if(go){let e=[...ae.values()].sort((t,n)=>Li.compare(t.name??t.uuid,n.name??n.uuid));ae.clear();for(let t of e)ae.set(t.uuid,t);go=!1}return[...ae.values()]}var So=["stable","busy","wait","held","fail"];function sa(e){return wo.value.has(e.uuid)?0:yn(e)==="fail"?1:e.fault?2:ko.value.has(e.uuid)?3:7-So.indexOf(yn(e))}var nt=ve(new Set);S.subscribe(({view:{sel:e}})=>{nt.value=new Set(e?e.split(","):[])});var xo=e=>V({"~sel":[...e].join(",")},{replace:!0}),kn=()=>nt.value.size&&xo(new Set),Sn=()=>[...nt.value].flatMap(e=>ae.get(e)??[]),aa=e=>/^(true|1|yes|on|t|y)$/i.test(e),He=(e,t,n)=>String(e[n]??"")===t,Ws=(e,t,n)=>!!e[n]===aa(t),mo=(e,t,n)=>t.split(",").includes(e[n]),ra={provision_state:mo,shard:mo,uuid:mo,resource_class:He,driver:He,conductor:He,owner:He,lessee:He,fault:He,instance_uuid:He,data_state:He,conductor_group:(e,t)=>String(e.conductor_group??"").toLowerCase()===t.toLowerCase(),maintenance:Ws,retired:Ws,associated:(e,t)=>!!e.instance_uuid===aa(t)},Ri=["name","uuid","provision_state","resource_class","conductor","instance_name"],ia=e=>Ri.map(t=>e[t]).join(`
`).toLowerCase();function xn(e,t){let n=[...e].flatMap(([s,a])=>{let r=ra[s];return r?[l=>r(l,a,s)]:[]}),o=t.toLowerCase().split(/\s+/).filter(Boolean);return s=>n.every(a=>a(s))&&o.every(a=>s.text.includes(a))}function _n(e){return[...e.keys()].filter(t=>!(t in ra))}var i=Ni.bind(Mi),la=4096,Ii=/\u001b\[[0-9;?]*[ -/]*[@-~]/g,Pi=/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;function U(e){let t=typeof e=="string"?e:e==null?"":JSON.stringify(e);return(t.length>la?`${t.slice(0,la)} \u2026`:t).replace(Ii,"").replace(Pi,o=>`\u2039U+${o.charCodeAt(0).toString(16).toUpperCase().padStart(4,"0")}\u203A`)}var h=e=>i`<bdi>${U(e)}</bdi>`,M=({name:e,uuid:t})=>e??t,qe=e=>[...e].reduce((t,n)=>t+n,0),P=(e,t="node")=>`${e} ${t}${e===1?"":"s"}`,Te=e=>N(v("nodes",M(e))),ye=(e,t)=>i`<a href=${N(e)}>${h(t)}</a>`,ue=e=>ye(v("nodes",M(e)),M(e)),_=e=>t=>e(t.target.value),F=(e,{class:t,key:n,...o})=>i`<label class=${t} key=${n}>${e} <input ...${o} /></label>`,ot=(e,t,n)=>i`<label class="block"
  ><input type="checkbox" checked=${n} onInput=${o=>t(o.target.checked)} /> ${e}</label
>`,j=(e,t,n,o)=>i`<label>${e} <select onChange=${_(n)}>
    ${o.map(s=>{let[a,r]=Array.isArray(s)?s:[s,s];return i`<option value=${a} selected=${a===t}>${U(r)}</option>`})}
  </select></label>`;function le({at:e,ago:t=!1}){if(!e)return null;let{utc:n}=E.value;return i`<time datetime=${e} title=${Je(e,n)}
    >${G(It(e))}${t?" ago":""}</time
  >`}var K=e=>e&&i`<time datetime=${e} title=${Je(e,!0)}>${Je(e,E.value.utc)}</time>`,_o={stable:"\u25CF",busy:"\u25D0",wait:"\u25D4",held:"\u25A0",fail:"\u25B2"},Bi={done:"\u2713",complete:"\u2713",erased:"\u2713",partial:"\u25B2",failed:"\u25B2",aborted:"\xD7",running:"\u25D0",waiting:"\u25D4",held:"\u25A0",pending:"\u25CB",kept:"\u21B7",waived:"\u293C",skipped:"\u293C",starting:"\u25CC",paused:"\u25A0",refused:"\xD7",ok:"\u2713",warning:"!",unknown:"?"},Ui={active:"Deploy",deleted:"Undeploy",unhold:"Go on",available:"Make available",rebooting:"Reboot","soft power off":"Shut down","soft rebooting":"Reboot softly"},st=/erase/,qt=e=>Se.some(t=>t.target===e&&t.erases),Ne={provide:"makes it available, with automated cleaning",clean:"runs the steps that you choose",active:"installs an instance",deleted:"removes the instance, with automated cleaning",manage:"takes it into management; cleaning needs this",available:"makes it available WITHOUT cleaning",inspect:"reads the hardware",rebuild:"installs the instance again",adopt:"takes over a machine that is in use",service:"runs the steps that you choose beside the instance",rescue:"boots a ramdisk for repairs",unrescue:"boots the instance again",retry:"goes on where the run has failed",abort:"ends the run",unhold:"goes on with the next step"},D=e=>Ui[e]??e.charAt(0).toUpperCase()+e.slice(1),ua={data:"DESTROYS DATA",volumes:"destroys volumes",settings:"changes settings",firmware:"changes firmware",keys:"changes keys"},En={erase:"what may erase the disks",use:"deploy, rebuild and allocations",verbs:"every verb",power:"power changes",forget:"deletion of the node"},z=(e,t={})=>U(e).replace(/\b[\da-f]{8}-[\da-f-]{27}\b/g,n=>n===t.uuid?M(t):k.nodes.get(n)?.name??n).replace(/(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/g,(n,o,s)=>Je(`${o}T${s}Z`,E.value.utc)).replace(/,( just now| \d+ \w+ ago)|, whose last heartbeat came [^,]*,| for \d+ \w+(?=, at step |\. The conductor )/g,"").replace(/(?<=batch )[\w-]{36} \((.*?)\)/g,"$1").replace(/ Possible (targets )?now: [^.]*\.$/,"").replace(/with DELETE \S+maintenance/,'by "End maintenance\u2026"').replace(/Node \S+ is held \(([\w-]+).*?\): /g,"Held ($1): ").replace(/(held \([\w-]+\), which blocks) ([a-z, ]+):/g,(n,o,s)=>`${o} ${s.split(", ").map(a=>En[a]??a).join(", ")}:`).replace(/It blocks (\S+), and so .*?\. End the hold with DELETE \S+ first\./g,(n,o)=>`It blocks ${En[o]??o}. Press "Lift hold\u2026" on the page of the node first.`),je="Overdue: past its deadline, or longer than 15 minutes and than 3 times what 9 of 10 such steps took.",Tn=e=>e&&i`${st.test(e.failure?.step)&&e.data_state!=="clean"&&"The disks may be partly erased. "}${e.do&&i`<strong>${h(z(e.do))}</strong>`}`;function St({ends_at:e,late_at:t=e},n=e===t){let o=a=>ft(a,E.value.utc),s=`at the latest ${o(t)}`;return xe.value<Date.parse(e)?`~${o(e)}${n?"":`, ${s}`}`:xe.value<Date.parse(t)?s:`late by ${G(It(t))}`}var jt=["clean","dirty","unknown"],at=[...Object.keys(ge).filter(e=>ge[e]==="fail"),"error"],Cn=e=>[...e].map(([t,n])=>i`<button
  class="pressed" onClick=${()=>V({[t]:""})}>
  ${n===at.join()?"failed":i`${t}: ${h(n)}`} <span aria-label="remove">×</span></button>`),rt=({error:e})=>e?.cause?.text??e?.text;function Wt({stop:e,place:t}={}){if(!e||e.progress==="done")return"";let n=e.after==null||e.after===t?.ordinal?"this step":`step ${e.after+1}`;return`${e.how==="abort"?"is aborted":"stops"} after ${n}`}var ee=e=>`${e.interface}.${e.step}`;function Kt(e){let{power:t,target:n}=e.request??{};return e.name??`${D(t??n??"batch")} \xB7 ${P(qe(e.waves))}`}function Me({state:e}){let t=ge[e??""]??"stable";return i`<span class=${`state ${t}`}
    ><span class="sign" aria-hidden="true">${_o[t]}</span>${h(e)}</span
  >`}function X({result:e,word:t=!0}){return i`<span class=${`result ${e}`}
    ><span class="sign" aria-hidden="true">${Bi[e]??"\u25CB"}</span>${t?` ${e}`:i`<span class="unseen">${e}</span>`}</span
  >`}var kt=Di([]),Fi=8e3,Hi=4,qi=1e3,ca=0;function H(e,t=""){kt.value=[...kt.value.filter(n=>n.to),{text:e,to:t}].slice(-Hi),clearTimeout(ca),ca=setTimeout(()=>xt(n=>!n.to),Fi)}var xt=e=>kt.value=kt.value.filter(t=>!e(t));async function Ce(e){let t=navigator.clipboard?.writeText(e).then(()=>!0,()=>!1);await Promise.race([t,oe(qi)])||ji(e)?H("Copied."):H(`The browser forbids this page to copy. Copy it yourself: ${e}`,location.hash)}function ji(e){let t=document.activeElement,n=document.createElement("textarea");n.value=e,n.className="unseen",(document.querySelector("dialog[open]")??document.body).append(n),n.select();let o=document.execCommand("copy");return n.remove(),t?.focus(),o}function I({method:e="GET",path:t,body:n,headers:o,stream:s,each:a,label:r="curl"}){Oe.value;let l=Ue(e,t,{body:n,headers:o,stream:s,each:a});return i`<button
    type="button"
    class="quiet curl"
    title=${l}
    aria-label=${`Copy as curl: ${e} ${t}`}
    onClick=${()=>Ce(l)}
  >
    <span aria-hidden="true">${">_"}</span> ${r}
  </button>`}var it=1e4,Eo={body:null,tag:"",fault:null};function R(e,{again:t,each:n=0}={}){let[o,s]=To(Eo),[a,r]=To(0),l=()=>r(c=>c+1);return da(()=>{if(e===null)return;let c=new AbortController,u=0;return W(e,c.signal).then(({body:p,tag:d})=>s({body:p,tag:d,fault:null,from:e}),p=>{if(c.signal.aborted)return;let d=Ee(p);s(f=>({...d&&f.from===e?f:Eo,fault:p,from:e})),d&&(u=setInterval(()=>document.hidden||l(),vt))}),()=>{clearInterval(u),c.abort()}},[e,a,t]),da(()=>{if(!n)return;let c=setInterval(()=>document.hidden||l(),n);return()=>clearInterval(c)},[n]),{...o.from===e?o:Eo,reload:l}}var Ie=(e,t)=>e&&De(de,{fault:e,path:t});function de({fault:e,path:t}){return i`<div class="fault" role="alert">
    <p>
      <span class="sign" aria-hidden="true">▲</span> ${h(z(e.message))}
    </p>
    <p class="small">
      ${e.status?`HTTP ${e.status}`:"No answer"} ${e.address}
      ${e.request&&i`<button class="quiet" onClick=${()=>Ce(e.request)}>
        ${h(e.request)}
      </button>`}
      ${t&&De(I,{path:t})}
    </p>
  </div>`}function pe({rows:e=5}){return i`<div class="skeleton" aria-label="Loading">
    ${Array.from({length:e},()=>i`<div />`)}
  </div>`}function re({path:e,again:t,each:n=0,draw:o,absent:s}){let[a,r]=To({from:e,at:e}),l=a.from===e?a.at:e,{body:c,fault:u}=R(l,{again:t,each:n});if(s&&u?.status===404)return i`<p role="status">${s}</p>`;if(!c)return Ie(u,l)??De(pe,{});let p=c.next?$t(c.next):e;return i`${Ie(u,l)}<p class="tools">${De(I,{path:l})}</p>
    ${o(c)}
    ${p!==l&&i`<button onClick=${()=>r({from:e,at:p})}>${c.next?"Next":"First"} page</button>`}`}function We({head:e,rows:t,label:n}){return t.length?i`<div class="scroll" tabindex="0" role="region" aria-label=${n}>
    <table>
      <thead>
        <tr>${e.map(o=>i`<th scope="col">${o}</th>`)}</tr>
      </thead>
      <tbody>
        ${t.map(o=>i`<tr>${o.map((s,a)=>i`<td data-label=${e[a]}>${Wi(s)}</td>`)}</tr>`)}
      </tbody>
    </table>
  </div>`:i`<p>There are none.</p>`}var fe=({label:e,head:t,of:n,row:o,...s})=>De(re,{...s,draw:a=>De(We,{label:e,head:t,rows:a[n].map(o)})}),_t="Copy",An=(...e)=>De(I,{path:v(...e)}),Wi=e=>e===""?null:typeof e=="string"?h(e):e;function me({of:e}){if(e===null||typeof e!="object")return i`<code>${h(e??"null")}</code>`;if(Array.isArray(e)&&e.length&&e.every(n=>typeof n=="string"))return i`<code>${h(e.join(", "))}</code>`;let t=Object.entries(e);return t.length?i`<dl class="tree">
    ${t.map(([n,o])=>i`<dt>${h(n)}</dt>
        <dd>${De(me,{of:o})}</dd>`)}
  </dl>`:i`<code>${Array.isArray(e)?"[]":"{}"}</code>`}var pa=["ok","unknown","warning","failed"],On=({checks:e})=>i`<ul class="checks">
  ${e.sort((t,n)=>pa.indexOf(n.status)-pa.indexOf(t.status)).map(t=>i`<li>
    ${De(X,{result:t.status,word:!1})} <strong>${t.name}</strong>
    <span class="small">${h(t.where??"")}</span> ${h(t.text)}
    ${t.do&&i`<p class="do">${h(t.do)}</p>`}
  </li>`)}
</ul>`;var Et=Vi(null);function J(e){Et.value=e}function Ke(){Et.value=null}var fa="";S.subscribe(e=>{Ke(),e.path!==fa&&(fa=e.path,document.querySelectorAll(".menu").forEach(t=>t.removeAttribute("open")),xt(t=>!t.to))});var Nn=()=>!!document.querySelector("dialog[open]");function $a(){let e=Et.value;return e&&ct(Gi,{key:e,draw:e})}function Gi({draw:e}){let t=ha(null);return Ki(()=>{let o=t.current;return o?.showModal(),()=>o?.close()},[]),i`<dialog ref=${t} aria-labelledby="dialog-title" onClose=${()=>Et.value===e&&Ke()}>
    ${e()}
  </dialog>`}function Mn({name:e,children:t}){let n=({currentTarget:r})=>{r.open=!1,r.firstElementChild.focus()};return i`<details class="menu" onKeyDown=${r=>{r.key!=="Escape"||!r.currentTarget.open||(r.stopPropagation(),n(r))}} onFocusOut=${({relatedTarget:r,currentTarget:l})=>{l.contains(r)||(l.open=!1)}} onClickCapture=${r=>r.target.closest("button")&&n(r)}>
    <summary>${e}</summary><div>${t}</div>
  </details>`}var Ln={body:null,tag:""},zi=1e3;function Ji(e,t,n){let[o,s]=Rn(Ln);return ma(()=>{let a=new AbortController,r=async()=>{let{body:l,tag:c}=await W(e,a.signal);s({body:l,tag:c}),!(!t||!l.reservation)&&(await oe(zi),a.signal.aborted||await r())};return e&&r().catch(l=>a.signal.aborted||n(l)),()=>a.abort()},[e]),[o,s]}function ie({of:e,waits:t=!1,seen:n,...o},s,a=r=>r){let r=ha(Qe()),l={busy:!1,fault:null,now:Ln},[c,u]=Rn(l),[p,d]=Ji(n?void 0:e,t,O=>u({...l,fault:O})),f=n??p,m=e?{...o,tag:f.tag}:o,$=async O=>{let w=Et.value;u({...l,busy:!0});try{let T=await rn({...m,...O&&{tag:O},key:r.current});r.current=Qe(),u(l),Et.value===w&&Ke(),s(T)}catch(T){let b=T;b.status&&(r.current=Qe());let C=e&&b.status===412?await W(e).catch(()=>Ln):Ln;u({busy:!1,fault:a(b),now:C})}};ma(()=>u(O=>O.fault?l:O),[JSON.stringify(o.body)]);let y={"Idempotency-Key":r.current};m.tag&&(y["If-Match"]=m.tag);let g=c.now.body&&ct(Xi,{seen:f.body??{},now:c.now.body,onMine:()=>(d(c.now),void $(c.now.tag)),onTheirs:()=>(u(l),Ke())}),A=t?f.body?.reservation:null;return{...c,choice:g,holder:A,known:!g&&(!e||!!f.tag&&!A),send:()=>$(m.tag),request:{...m,headers:y}}}var Yi=/_at$|^(links|reservation)$/;function Co({seen:e,now:t}){let n=s=>h(s??"null"),o=Object.keys(t).filter(s=>s in e&&!Yi.test(s)&&JSON.stringify(e[s])!==JSON.stringify(t[s]));return i`<dl class="tree" aria-label="What has changed">
    ${o.map(s=>i`<dt>${s}</dt><dd>${n(e[s])} → ${n(t[s])}</dd>`)}
  </dl>`}function Xi({seen:e,now:t,onMine:n,onTheirs:o}){return i`${ct(Co,{seen:e,now:t})}
    <div class="actions"><button type="button" onClick=${n}>Use mine</button>
      <button type="button" onClick=${o}>Take theirs</button></div>`}function te(e){let{title:t,note:n,fault:o,request:s,button:a,danger:r,ready:l=!0,known:c=!0,busy:u,send:p,more:d}=e,f=l&&c&&!u;return i`<form method="dialog" onSubmit=${$=>{$.preventDefault(),f&&p?.()}}>
    <header class="dialog-head">
      <h2 id="dialog-title">${U(t)}</h2>
      ${n&&i`<span class="small">${n}</span>`}
    </header>
    ${e.children} ${o&&ct(de,{fault:o})} ${e.choice}
    ${e.holder&&i`<p role="status">${h(e.holder)} works on this node. The window waits for it.</p>`}
    <footer>
      ${s&&ct(I,s)}
      <button type="button" autofocus onClick=${Ke}>${p?"Cancel":"Close"}</button>
      ${d}
      ${p&&a&&i`<button class=${r?"danger":"primary"} disabled=${!f}>${a}</button>`}
    </footer>
  </form>`}function ga(){J(()=>ct(Zi,{}))}function Zi(){let[e,t]=Rn(""),[n,o]=Rn({}),s=R("/v1/drivers"),a=(s.body?.drivers??[]).map(f=>f.name),r=e||a[0],l=R(r?v("drivers",r,"properties"):null),c=Object.entries(l.body??{}),u=ie({method:"POST",path:"/v1/nodes",body:{...n,driver:r}},f=>{q(Te(f.body)),H("The node is enrolled.")}),p=f=>_(m=>o({...n,driver_info:lt(n.driver_info??{},f,m)})),d={...u,fault:u.fault??s.fault??l.fault,title:"Enroll a machine",button:"Enroll",ready:!!r};return ct(te,d,i`
    <div class="form-grid">
      ${F("Name",{autocomplete:"off",onInput:_(f=>o(lt(n,"name",f)))})}
      ${j("Driver",r,f=>(t(f),o(lt(n,"driver_info",""))),a)}
      ${c.filter(([,f])=>/required/i.test(f)).map(([f,m])=>F(f,{key:f,title:m,type:ln.test(f)?"password":"text",autocomplete:ln.test(f)?"new-password":"off",onInput:p(f)}))}
    </div>`)}function lt(e,t,n){let{[t]:o,...s}=e;return n?{...s,[t]:n}:s}import{useState as Ao}from"./vendor/hooks.js";import{h as Tt}from"./vendor/preact.js";var ba={freeze:["freeze: no changes",["verbs","power","forget"],"abort, maintenance, changes of fields"],legal:["legal: keep the data",["erase","forget"],"power changes, inspect, manage, rescue"],hardware:["hardware: no new user",["use"],"everything else: ERASING by clean, provide or undeploy, power changes, deletion of the node"]},va="no login",Oo=e=>e.map(t=>En[t]??t).join("; "),Lo={kind:"freeze",reason:""};function Ro({body:e,onChange:t}){let n=E.value.utc?"Z":"",o=_(r=>t(lt(e,"until",r&&new Date(r+n).toISOString()))),[,s=[],a]=ba[e.kind]??[];return i`<div class="form-grid">
    ${j("Kind",e.kind,r=>t({...e,kind:r}),Object.entries(ba).map(([r,[l]])=>[r,l]))}
    ${F("Reason",{required:!0,value:e.reason,onInput:_(r=>t({...e,reason:r}))})}
    ${F(`Until (optional${n&&", UTC"})`,{type:"datetime-local",onInput:o})}
  </div>
  <p role="status"><strong>Blocks</strong> ${Oo(s)}. <strong>Still allows</strong> ${a}.</p>`}function Dn(e){J(()=>Tt(Qi,e))}function Qi({own:e,name:t,reload:n}){let[o,s]=Ao(Lo),a=ie({method:"POST",path:`${e}/holds`,body:o,of:e},()=>{H(`${t} is held.`),n?.()}),r=`Hold ${t}`;return Tt(te,{...a,title:r,button:r,ready:!!o.reason},Tt(Ro,{body:o,onChange:s}))}function Pe(e){J(()=>Tt(el,e))}function el({own:e,name:t,reload:n,holds:o,chosen:s=o[0]?.uuid}){let[a,r]=Ao(s),[l,c]=Ao(""),u=o.find(g=>g.uuid===a)??{},p=o.filter(g=>g!==u),d=p.flatMap(g=>g.blocks);d.includes("verbs")&&d.push("use","erase");let f=(u.blocks??[]).filter(g=>!d.includes(g)),m=new URLSearchParams({reason:l}),y={...ie({method:"DELETE",path:`${e}/holds/${a}?${m}`,of:e},()=>{H(`The hold (${u.kind}) of ${t} is lifted.`),n?.()}),title:`Lift a hold of ${t}`,button:"Lift the hold",ready:!!l};return Tt(te,y,i`
    ${o.length>1&&i`<div class="form-grid">
      ${j("Hold",a,r,o.map(g=>[g.uuid,`${g.kind}: ${g.reason}`]))}</div>`}
    <p>■ <strong>${h(u.kind)}: ${h(u.reason)}</strong><br />
      Held by ${h(u.created_by??va)} since ${K(u.created_at)}
      ${u.until?i`, until ${K(u.until)}`:""}.</p>
    <p>${f.length>0&&`Allowed again: ${Oo(f)}. `}${p.length>0&&i`Still blocked by: ${h(p.map(g=>`${g.kind}: ${g.reason}`).join("; "))}. `}Nothing starts by itself.</p>
    ${F("Reason to lift it",{class:"block",required:!0,value:l,onInput:_(c)})}`)}function ya({own:e,why:t,reload:n,turn:o}){let s=t.name??t.node,a=r=>i`<button
    onClick=${()=>Pe({own:e,name:s,reload:n,holds:t.holds,chosen:r.uuid})}>Lift…</button>`;return Tt(fe,{path:`${e}/holds?ended=true`,again:o,label:"Holds",of:"holds",head:["Kind","Reason","Blocks","Since","Until","By","Lifted"],row:r=>[r.kind,r.reason,Oo(r.blocks),K(r.created_at),K(r.until),r.created_by??va,r.ended_at?tl(r):a(r)]})}var tl=({ended_at:e,ended_by:t,end_reason:n,until:o})=>i`${K(e)}
  ${t?i` by ${h(t)}`:!n&&o?", its time was over":""}
  ${n&&i`: ${h(n)}`}`;import{useEffect as Sa,useLayoutEffect as xa,useRef as al,useState as we}from"./vendor/hooks.js";import{h as Z}from"./vendor/preact.js";import{useState as wa}from"./vendor/hooks.js";var nl={clean:"clean_steps",service:"service_steps",active:"deploy_steps",rebuild:"deploy_steps"},ol=[["Erase all disks",{interface:"deploy",step:"erase_devices"}],["Erase metadata only",{interface:"deploy",step:"erase_devices_metadata"}]];function In(e,t){let n=Se.find(s=>s.target===e)?.needs??[],o=n.some(s=>t[s]?.length);return!n.length||o?"":n.includes("runbook")?"Add at least one step, or choose a runbook.":"Enter a password."}function Pn({node:e,target:t,onChange:n}){let o=nl[t],[s,a]=wa(""),[r,l]=wa(""),c=o==="clean_steps"&&e,{body:u}=R(c?`${v("nodes",e)}/cleaning/steps`:null),p=R(o&&o!=="deploy_steps"?"/v1/runbooks":null).body?.runbooks??[],d=Re(s);if(!o)return null;let f=w=>{a(w),l("");let T=Re(w);T!==null&&n(T?{[o]:T}:{})},m=Array.isArray(d)?d:[],$=w=>f(w.length?`[${w.map(T=>JSON.stringify(T)).join(`,
 `)}]`:""),y=w=>$([...m,w]),g=Array.isArray(u)?u:[],A=({target:w})=>{let T=g[w.selectedIndex-1];w.selectedIndex=0,T&&y(sl(T))},O=w=>{a(""),l(w),n(w?{runbook:w}:{})};return i`<div class="actions">
      ${t==="clean"&&ol.map(([w,T])=>i`<button type="button" onClick=${()=>y(T)}>${w}</button>`)}
      ${g.length>0&&i`<label>Add a step <select onChange=${A}>
        <option value="">choose…</option>
        ${g.map(w=>i`<option>${ee(w)}</option>`)}
      </select></label>`}
      ${p.length>0&&j("Runbook",r,O,[["","none"],...p.map(w=>[w.name,w.name])])}
    </div>
    ${m.length>0&&i`<ol class="chosen" aria-label="Chosen steps">
      ${m.map((w,T)=>i`<li>
        ${h(ee(w))} <button type="button" class="quiet" aria-label=${`Remove ${U(ee(w))}`}
          onClick=${()=>$(m.filter((b,C)=>C!==T))}>×</button>
      </li>`)}
    </ol>`}
    <details>
      <summary>${o==="deploy_steps"?"More steps":"Steps"}, as JSON</summary>
      <textarea
        rows="4"
        spellcheck="false"
        aria-label="Steps, as JSON"
        placeholder='[{"interface": "deploy", "step": "erase_devices"}]'
        value=${s}
        onInput=${_(f)}
      />
    </details>
    ${d===null&&i`<span class="wrong" role="alert">This is not JSON.</span>`}`}var sl=({interface:e,step:t,args:n=[]})=>{let o=n.filter(a=>a.required),s=o.map(a=>[a.name,null]);return{interface:e,step:t,...o.length&&{args:Object.fromEntries(s)}}};function ut(e,t){J(()=>Z(il,{node:e,target:t}))}var Ct=e=>Se.filter(({alias:t,from:n})=>!t&&n.some(o=>e.has(o))).map(({target:t})=>t);function Mo(e,t){let n=new Set([e,...e.steps].flatMap(o=>o.destroys??["unknown"]));return n.has("data")||n.has("volumes")?"name":n.has("unknown")?"unknown":n.size||e.restarts&&t==="active"?"tick":"none"}var ka=2e3,rl=["active","rebuild"];function il({node:e,target:t}){let[n,o]=we({}),s=In(t,n)||(ll(n)?"Say why the step is left out.":""),a=cl(e,s?null:{target:t,...n}),r=M(e),l=v("nodes",e.uuid),c=R(l,{each:ka}),u=al(null);c.body&&(u.current??=c);let p=u.current&&c.body&&u.current.tag!==c.tag&&c.tag===a.tag,d=ul(e,{target:t,...n},a,c.reload);Sa(()=>{c.tag&&a.tag&&c.tag!==a.tag&&!d.busy&&!d.fault&&a.again()},[c.tag]);let f=t==="abort",m=R(f||t==="available"?`${l}/why`:null,{each:ka}).body,$=t==="available"&&m?.data_state!=="clean",y=f&&!m?.verbs.some(b=>b.target===t&&b.after)?String(m?.run?.title):"",g=a.body?$?"name":f&&(!m||st.test(y))?"tick":Mo(a.body,e.provision_state):null,[A,O]=we(!1);xa(()=>O(!1),[a.count,g]);let w=a.body?.accepted&&(g==="none"||A),T={...d,title:`${D(t)} ${r}`,note:Ne[t]??"",fault:d.fault??a.fault,ready:w,danger:g==="name"||g==="unknown",button:a.body?.accepted&&`${D(t)} ${r}`,request:{...d.request,path:v("nodes",r,"states","provision")}};return Z(te,T,i`
    ${e.maintenance&&i`<p class="wrong">▲ ${h(r)} is in maintenance${e.maintenance_reason&&i`: ${h(e.maintenance_reason)}`}.</p>`}
    ${c.body&&rl.includes(t)&&i`<p>Image: ${h(c.body.instance_info?.image_source??"none")}</p>`}
    ${$&&m&&i`<p class="wrong">Its disks are not erased (data: ${m.data_state}). The next user may read them.</p>`}
    ${_a(y)}
    ${Z(fl,{node:e,target:t,onChange:o})}
    ${s&&i`<p role="status">${s}</p>`}
    ${!s&&!a.body&&!a.fault&&Z(pe,{rows:3})}
    ${a.body&&Z(Io,{plan:a.body})}
    ${Z(I,{method:"POST",path:v("nodes",r,"plan"),body:{target:t,...n},label:"plan as curl"})}
    ${a.body?.accepted&&Z(At,{kind:g,name:r,onSure:O,key:a.count,...$&&{does:"leaves the data on"}})}
    ${d.note&&i`<p role="status">${d.note}</p>`}
    ${p&&i`<p role="status">The node has changed: this is the new plan.</p>
      ${Z(Co,{seen:u.current?.body,now:c.body})}`}`)}var Vt="An erase that is aborted leaves the disks partly erased.",_a=e=>st.test(e)&&i`<p class="wrong">${h(e)} is under way. ${Vt}</p>`,ll=({retry:e})=>!!e?.waive?.some(t=>!t.reason);function cl(e,t){let n={body:null,tag:"",fault:null,count:0,text:""},[o,s]=we(n),[a,r]=we(0),l=t?JSON.stringify(t):"";return Sa(()=>{if(!l)return;let u=new AbortController,p=setTimeout(()=>{_e("POST",v("nodes",e.uuid,"plan"),{body:JSON.parse(l),accepts:[422],signal:u.signal}).then(({body:d,tag:f})=>s(m=>({body:d,tag:f,fault:null,count:m.count+1,text:l})),d=>!u.signal.aborted&&s({...n,fault:d,text:l}))},150);return()=>{clearTimeout(p),u.abort()}},[l,a]),{...o.text===l?o:{...n,count:o.count},again:()=>r(u=>u+1)}}function ul(e,t,n,o){let[s,a]=we(""),r={method:"PUT",path:v("nodes",e.uuid,"states","provision"),body:t,tag:n.tag,onWait:(u,p)=>a(pl(u,p))};return{...ie(r,({link:u})=>{let p=`${D(t.target)} of ${M(e)}`,d=Us(u);d&&q(N(d)),H(`${p} is accepted.`),d&&Do(d,p)},u=>(a(""),u.status!==412?u:(n.again(),o(),null))),note:s}}var dl=1e4;async function Do(e,t){for(let n=1e3;;n=Math.min(dl,n*1.2)){if(await oe(n),document.hidden)continue;let{body:o,status:s}=await W(e).catch(r=>r);if(s===403||s===404)return;if(!o?.ended_at&&o?.state!=="paused")continue;let a=z(rt(o));return H(`${t}: ${o.state}. ${a}`,S.value.path===e?"":N(e))}}var pl=(e,t)=>`${U(t)} The window tries again in ${e} s.`;function fl({node:e,target:t,onChange:n}){return t==="retry"?Z(vl,{node:e,onChange:n}):t==="rescue"?Z(ml,{onChange:n}):Z(Pn,{node:e.uuid,target:t,onChange:n})}function ml({onChange:e}){return F("Password of the rescue ramdisk",{class:"block",type:"password",autocomplete:"new-password",onInput:_(t=>e({rescue_password:t}))})}function Io({plan:e}){let t=ge[e.leads_to]?`leads to ${e.leads_to}`:"",n=[Ea(e.seconds," \u2013 "),e.restarts?P(e.restarts,"restart"):"",e.ramdisk?"boots the ramdisk":"",t,e.incomplete].filter(Boolean);return i`<ol class="plan">
      ${e.steps.map((o,s)=>Z(gl,{step:o,faults:hl(e,s)}))}
    </ol>
    <p class="small">${n.map((o,s)=>i`${s?" \xB7 ":""}${h(o)}`)}</p>
    ${e.faults.filter(o=>!/_steps\/\d+/.test(o.path??"")).map(o=>Z(Ta,{fault:o}))}`}var Ea=(e,t)=>e&&[...new Set([G(e.p50),G(e.p90)])].join(t),hl=(e,t)=>e.faults.filter(n=>new RegExp(`_steps/${t}(/|$)`).test(n.path??""));function Ta({fault:e}){return i`<p class="wrong">
    <span aria-hidden="true">✗</span> ${e.path&&i`<code>${h(e.path)}</code>: `}
    ${h(z(e.text))}
  </p>`}var $l={bmc:"through the BMC",agent:"in the ramdisk"};function gl({step:e,faults:t}){let n=e.destroys===null?["effects unknown"]:e.destroys.map(bl),o=e.usual_seconds;return i`<li>
    <span class="step">${h(ee(e))}</span>
    <span class="small">${$l[e.by]??e.by}</span>
    <span class=${e.destroys?.includes("data")?"danger":""}>${n.join(", ")}</span>
    <span>${e.restarts?P(e.restarts,"restart"):""}</span>
    <span>
      ${o?`usually ${Ea(o,", 9 of 10 within ")} (${o.samples} measured)`:""}
    </span>
    ${t.map(s=>Z(Ta,{fault:s}))}
  </li>`}var bl=e=>ua[e]??e;function At({kind:e,name:t,onSure:n,what:o="name of the node",on:s=t,does:a="may destroy the data on"}){let[r,l]=we("");if(e==="none")return null;let c=e==="unknown"?"has effects that are not known on":a;if(e==="tick")return ot("I have read what changes.",n);let u=_(p=>{l(p),n(p===t)});return i`<label class="block danger"
    >This ${c} ${h(s)}. Type the ${o}:
    <input autocomplete="off" spellcheck="false" value=${r} onInput=${u} />
  </label>`}function vl({node:e,onChange:t}){let n=v("nodes",e.uuid),o=R(`${n}/why`),s=R(o.body?.run?`${n}/runs/${o.body.run.uuid}`:null),[a,r]=we({from:"",waive:"",reason:"",force:!1}),l=p=>{let d={...a,...p};r(d),t(yl(d))},c=s.body?.steps??[],u=c.findIndex(p=>p.state==="failed"||p.state==="aborted");return i`<details>
    <summary>Begin earlier, or leave a step out</summary>
    <div class="form-grid">
      ${No("Begin with","the step that failed",c.slice(0,Math.max(0,u)),a.from,p=>l({from:p}))}
      ${No("Leave out","no step",c.slice(Math.max(0,u)),a.waive,p=>l({waive:p}))}
      ${a.waive&&F("Reason",{required:!0,onInput:_(p=>l({reason:p}))})}
    </div>
    ${ot("Repeat a step although it may have ended on the machine.",p=>l({force:p}))}
  </details>`}function yl({from:e,waive:t,reason:n,force:o}){let s={...e&&{from:Number(e)},...t&&{waive:[{ordinal:Number(t),reason:n}]},...o&&{force:o}};return Object.keys(s).length?{retry:s}:{}}var No=(e,t,n,o,s)=>j(e,o,s,[["",t],...n.map(a=>[String(a.ordinal),`${a.ordinal+1} ${ee(a)}`])]),wl={hold:"wait there, until Go on or Abort",abort:"abort the run"};function Bn(e){J(()=>Z(kl,e))}function kl({own:e,name:t,reload:n}){let[o,s]=we("hold"),[a,r]=we(""),[l,c]=we(""),[u,p]=we(!1),d=R(`${e}/runs/current`).body,f=(d?.steps??[]).filter(w=>!w.ended_at),m={how:o,...l&&{after:Number(l)},...a&&{reason:a}},[$]=f,y=o==="abort"&&!l&&$?.state==="waiting"&&$.abortable?ee($):"",g=st.test(y)?"tick":"none";xa(()=>p(!1),[g]);let A=ie({method:"PUT",path:`${e}/runs/${d?.uuid}/stop`,body:m,of:e},()=>{H(`The run of ${t} stops at its next step.`),n?.()}),O=`Stop the run of ${t}`;return Z(te,{...A,title:O,button:O,ready:d&&(u||g==="none")},i`
    <p>${y?`${y} ends at once.`:"The step under way ends first."}</p>
    ${Object.entries(wl).map(([w,T])=>i`<label class="block"
        ><input type="radio" name="how" checked=${o===w} onInput=${()=>s(w)} /> ${T}</label
      >`)}
    ${No("Stop after","the step under way",f,l,c)}
    ${F("Reason",{class:"block",onInput:_(r)})}
    ${_a(y)} ${Z(At,{kind:g,name:t,onSure:p})}`)}var Gt=[["power on","Starts"],["power off","At once cuts the power of"],["rebooting","At once restarts"],["soft power off","Shuts down"],["soft rebooting","Restarts"]],Aa=/active|rescu|servic/,Ot=(e,t)=>e.orders.find(n=>n.order===t);function Ve({refused:e,onClick:t,children:n,primary:o,hint:s,now:a}){let r=e?z(e.text):s;return i`<button
    class=${o&&!e?"primary":""}
    aria-disabled=${e?"true":void 0}
    aria-current=${a?"true":void 0}
    title=${r}
    onClick=${()=>e?H(String(r)):t()}
  >
    ${a&&i`<span aria-hidden="true">● </span>`}${n}
    ${e&&i`<span class="unseen"> refused: ${r}</span>`}
  </button>`}function Oa({why:e,node:t,reload:n}){let o=t??{uuid:e.node,name:e.name,provision_state:e.provision_state,maintenance:e.maintenance},s=Ct(new Set([e.provision_state])),a=d=>d.target==="retry"&&!d.refused,r=e.verbs.filter(d=>s.includes(d.target)).sort((d,f)=>Number(a(f))-Number(a(d))),l=v("nodes",e.node),c=d=>Be({...d,of:l,reload:n}),u=e.name??e.node,{holds:p}=e;return i`<div class="actions" role="group" aria-label="Acts on this node">
    ${r.map((d,f)=>B(_l,{key:d.target,one:d,node:o,first:f===0}))}
    ${Sl(e.run)&&i`<button onClick=${()=>Bn({own:l,name:u,reload:n})}>Stop at the next step…</button>
      ${e.run.stop?.progress==="asked"&&i`<button onClick=${()=>c({title:`Withdraw the stop of ${u}`,kind:"none",method:"DELETE",button:"Withdraw",path:`${l}/runs/${e.run.uuid}/stop`,waits:!1,says:"The run then goes on with its next step."})}>Stop is requested: withdraw…</button>`}`}
    ${B(Mn,{name:"Power"},Gt.map(d=>{let{refused:f,targets:m}=Ot(e,"power")??{},$=D(d[0]),y=m?.includes(d[0])?null:{text:`${$} is not possible now.`};return B(Ve,{refused:f??y,onClick:()=>Po(o,d,n)},`${$}\u2026`)}))}
    <button onClick=${()=>Dn({own:l,name:u,reload:n,holds:p})}>Hold…</button>
    ${p.length>0&&i`<button onClick=${()=>Pe({own:l,name:u,reload:n,holds:p})}>Lift hold…</button>`}
    <button onClick=${()=>J(()=>B(Tl,{own:l,name:u,now:e.data_state,reload:n}))}>Data…</button>
    ${t&&B(Ve,{refused:Ot(e,"maintenance")?.refused,onClick:()=>Bo(t,n)},t.maintenance?"End maintenance\u2026":"Maintenance\u2026")}
    ${B(Ve,{refused:Ot(e,"delete")?.refused,onClick:()=>c({title:`Delete ${u}`,kind:"name",name:u,method:"DELETE",path:l,button:`Delete ${u}`,then:"#/v1/nodes",says:Aa.test(e.provision_state)&&"An instance is running on it.",does:"makes the service forget"})},"Delete\u2026")}
  </div>`}function Po(e,[t,n],o){let s=D(t),a=Aa.test(e.provision_state),r=M(e),l=v("nodes",e.uuid);Be({title:`${s}: ${r}`,kind:a&&t!=="power on"?"tick":"none",says:`${n} ${r}${a?"; an instance is running on it":""}.`,method:"PUT",path:`${l}/states/power`,body:{target:t},button:`${s} ${r}`,of:l,reload:o})}function Bo(e,t){let n=v("nodes",e.uuid),o=M(e),s=e.maintenance,a=`${s?"End":"Set"} maintenance`;Be({title:`${a}: ${o}`,kind:"none",method:s?"DELETE":"PUT",path:`${n}/maintenance`,button:a,of:n,reload:t,explained:!s,done:`${o} is ${s?"out of":"in"} maintenance.`})}var Sl=e=>["running","waiting"].includes(e?.state),xl=["retry","manage","unhold"];function _l({one:e,node:t,first:n}){let{refused:o,target:s}=e,a=()=>ut(t,s),r=`${Ne[s]??""}; leads to ${e.leads_to}`;return B(Ve,{refused:o,onClick:a,hint:r,primary:n&&xl.includes(s)},`${D(s)}\u2026`)}var Be=e=>J(()=>B(El,e));function El(e){let{title:t,kind:n,button:o,reload:s,then:a,method:r,of:l,says:c,explained:u,waits:p=!0,done:d=`${t}: accepted.`}=e,[f,m]=Lt(!1),[$,y]=Lt(""),g=u?{reason:$}:e.body,A=ie({method:r,path:e.path,body:g,of:l,waits:p},()=>{a?q(a):s?.(),H(d)});return B(te,{...A,title:t,button:o,danger:n==="name",ready:n==="none"||f},i`
    ${c&&i`<p>${h(c)}</p>`} ${u&&F("Reason",{class:"block",onInput:_(y)})}
    ${B(At,{...e,onSure:m})}`)}function Tl({own:e,name:t,now:n,reload:o}){let[s,a]=Lt({data_state:n??jt[0],reason:""}),r=ie({method:"PUT",path:`${e}/data_state`,body:s,of:e},()=>{H(`The data on ${t} is declared ${s.data_state}.`),o()}),l=`Data on ${t}`;return B(te,{...r,title:l,button:"Declare",ready:!!s.reason},i`
    <p>This proves no erasure. The history shows who declared it.</p>
    <div class="form-grid">
      ${j("State",s.data_state,c=>a({...s,data_state:c}),jt)}
      ${F("Reason",{required:!0,onInput:_(c=>a({...s,reason:c}))})}
    </div>`)}var La={boot_mode:["Boot mode","states/boot_mode",e=>({target:e}),"boots in the mode %"],secure_boot:["Secure boot","states/secure_boot",e=>({target:e}),"boots with secure boot %"],console:["Console","states/console",e=>({enabled:e}),"has its console switched %"],boot_device:["Next boot","management/boot_device",e=>({boot_device:e}),"boots from % once"],nmi:["Interrupt","management/inject_nmi",()=>({}),"is interrupted, which may stop its system"]},Ra="UnsupportedDriverExtension";function Na({own:e,why:t,turn:n,...o}){let[s,a]=Lt(0),r=()=>(a(C=>C+1),o.reload()),l=R(`${e}/management/boot_device/supported`).body,c=R(`${e}/states`,{again:n}),u=t.orders.filter(C=>C.order in La),p=C=>Ot(t,C)?.refused?.code===Ra,d=R(p("boot_device")?null:`${e}/management/boot_device`,{again:s}),f=R(p("vmedia")?null:`${e}/vmedia`,{again:s}),{boot_mode:m,secure_boot:$,console_enabled:y}=c.body??{},{boot_device:g,persistent:A}=d.body??{},O={boot_mode:m,secure_boot:$,console:y,boot_device:g},w=Ot(t,"vmedia"),T=Ot(t,"indicators"),b=t.name??t.node;return i`<dl class="tree orders">
      ${u.map(C=>B(Cl,{one:C,own:e,name:b,reload:r,now:O[C.order],note:C.order==="boot_device"&&g?A?"at each start":"at the next start":"",targets:{boot_device:l?.supported_boot_devices??[],nmi:["send NMI"]}[C.order]??C.targets}))}
      ${w&&B(Ll,{one:w,own:e,name:b,reload:r})}
      ${T&&B(Al,{refused:T.refused,own:e,reload:r,turn:s})}
    </dl>
    ${B(Ca,{name:"States",path:`${e}/states`,of:c})}
    ${!p("vmedia")&&B(Ca,{name:"Virtual media",path:`${e}/vmedia`,of:f})}`}function Ca({name:e,path:t,of:{body:n,fault:o}}){return i`<details open=${e==="States"}>
    <summary>${e}</summary>
    ${o&&B(de,{fault:o,path:t})} ${!o&&!n&&B(pe,{})}
    ${n&&i`<p class="tools">${B(I,{path:t})}</p> ${B(me,{of:n})}`}
  </details>`}function Cl({one:e,own:t,name:n,targets:o,reload:s,now:a,note:r}){let[l,c,u,p]=La[e.order],d=m=>({true:"on",false:"off"})[String(m)]??m,f=m=>Be({title:`${l}: ${d(m)}`,kind:"tick",method:"PUT",path:`${t}/${c}`,says:`${n} ${p.replace("%",d(m))}.`,body:u(m),button:`${l}: ${d(m)}`,of:t,reload:s});return i`<dt>${l}</dt>
    <dd class="actions">
      ${o.map(m=>B(Ve,{refused:e.refused,now:m===a,onClick:()=>f(m)},`${d(m)}\u2026`))}
      ${r&&i`<span class="small">${r}</span>`}
      ${e.refused&&i`<span class="small">${h(e.refused.text)}</span>`}
    </dd>`}function Al({refused:e,own:t,reload:n,turn:o}){let s=e?.code===Ra?null:`${t}/management/indicators`,{body:a,fault:r}=R(s,{again:o});return i`<dt>Lamps</dt>
    <dd>
      ${a?.indicators.map(l=>B(Ol,{key:l.name,lamp:l,refused:e,own:t,reload:n,turn:o}))}
      ${a?.indicators.length===0&&i`<span class="small">The machine has none.</span>`}
      ${r&&B(de,{fault:r,path:s??""})}
      ${e&&i`<span class="small">${h(e.text)}</span>`}
    </dd>`}function Ol({lamp:e,refused:t,own:n,reload:o,turn:s}){let a=`${n}/management/indicators/${encodeURIComponent(e.name)}`,{body:r}=R(a,{again:s}),l=e.readonly?{text:`The machine alone switches ${e.name}.`}:null,c=u=>Be({title:`Lamp ${e.name}: ${u}`,kind:"none",method:"PUT",path:a,body:{state:u},button:`Lamp: ${u}`,of:n,reload:o});return i`<div class="actions" role="group" aria-label=${`Lamp ${U(e.name)}`}>
    ${h(e.name)} <strong>${r?U(r.state??"unknown"):"\u2026"}</strong>
    ${e.states.map(u=>B(Ve,{refused:t??l,now:r?.state===u,onClick:()=>c(u)},`${u}\u2026`))}
  </div>`}function Ll({one:e,own:t,name:n,reload:o}){let[s,a]=Lt(""),[r,l]=Lt(e.targets[0]),c=()=>Be({title:`Insert into the ${r}`,kind:"tick",method:"POST",path:`${t}/vmedia`,says:`${n} gets ${s} in its ${r}.`,body:{device_type:r,image_url:s},button:"Insert",of:t,reload:o}),u=()=>Be({title:"Eject all virtual drives",kind:"tick",method:"DELETE",path:`${t}/vmedia`,says:`${n} loses the images in all its virtual drives.`,button:"Eject",of:t,reload:o}),p=s?null:{text:"Enter the address of an image first."};return i`<dt>Virtual media</dt>
    <dd class="actions">
      ${j("Drive",r,l,e.targets)}
      <input
        aria-label="Address of an image"
        placeholder="https://…/image.iso"
        onInput=${_(a)}
      />
      ${B(Ve,{refused:e.refused??p,onClick:c},"Insert\u2026")}
      ${B(Ve,{refused:e.refused,onClick:u},"Eject\u2026")}
      ${e.refused&&i`<span class="small">${h(e.refused.text)}</span>`}
    </dd>`}import{useEffect as Rl,useLayoutEffect as Nl,useRef as Ml,useState as ne}from"./vendor/hooks.js";import{h as se}from"./vendor/preact.js";var Uo="number of nodes",Dl=50,Il=4,Fo={Batch:e=>Ma(e),Power:e=>Ma(e,Un),Hold:e=>J(()=>se(Fl,{nodes:e})),Maintenance:e=>J(()=>se(Ul,{nodes:e}))};function Ua({shown:e}){let t=nt.value;if(!t.size)return i`<p class="bulk">Select nodes to act on many of them.</p>`;let n=e.filter(s=>t.has(s.uuid)).length,o=t.size-n;return i`<div class="bulk" role="region" aria-label="Selected nodes">
    <span>${t.size} selected${o?`, ${o} of them hidden by the filter`:""}</span>
    ${Object.entries(Fo).map(([s,a])=>i`<button onClick=${()=>a(Sn())}>${s}…</button>`)}
    ${se(I,{path:`/v1/nodes?uuid=${[...t].slice(0,150).join(",")}`})}
    <button class="quiet" onClick=${kn}>Clear <kbd>Esc</kbd></button>
  </div>`}function Ma(e,t=Ct(new Set(e.map(n=>n.provision_state)))){J(()=>se(Fa,{of:Pl(e),nodes:e,count:e.length,offered:t,example:e[0]?.uuid}))}function Ho({uuid:e,counts:t},n,o,s){let a={nodes:{batch:e,result:n},expect:t[n]},r=o.filter(l=>l.result===n);J(()=>se(Fa,{of:a,count:t[n],names:r.map(M),offered:[s],example:r[0]?.uuid}))}var Da={"all at once":["100%"],"canary: one, then all":[1,"100%"],"canary: one, 10 %, all":[1,"10%","100%"]},Ia=20,Pa=e=>e.length?`: ${e.slice(0,Ia).join(", ")}${e.length>Ia?" \u2026":""}`:"",Un=Gt.map(([e])=>e);function Pl(e){let t=e.map(M),{parts:n,query:o}=S.value,s=n.length===1&&o.size>0&&!_n(o).length;if(t.length<=Dl||!s)return{nodes:t};let a=new Set(e.map(c=>c.uuid)),r=[...k.nodes.values()].filter(xn(o,""));return r.length===a.size&&r.every(c=>a.has(c.uuid))?{nodes:Object.fromEntries(o),expect:r.length}:{nodes:t}}function Fa({of:e,count:t,offered:n,nodes:o=[],names:s=o.map(M),example:a}){let r=P(t),l=`Batch of ${r}`,[c,u]=ne(n.length===1?n[0]??"":""),[p,d]=ne({}),[f,m]=ne(t>1?"canary: one, then all":"all at once"),[$,y]=ne(8),[g,A]=ne(0),[O,w]=ne(""),[T,b]=ne(""),[C,Rt]=ne(null),[zn,x]=ne(null),[Nr,ms]=ne(!1),Qt={...T?{nodes:[T,...s.filter(Q=>Q!==T)]}:e,request:Un.includes(c)?{power:c}:{target:c,...p},waves:Da[f],concurrency:$,max_failures:g,...O&&{name:O}},en=JSON.stringify(Qt),[Mr,Dr]=ne(""),Ir=async()=>{try{let{body:Q}=await _e("POST","/v1/batches?plan=true",{body:Qt}),{uuid:Mt}=Q.first_wave[0],gs=qt(c)&&Mt!==Q.refused.first[0]?.uuid&&await _e("POST",v("nodes",Mt,"plan"),{body:Qt.request,accepts:[422]}).catch(()=>null);Rt({...Q,sample:gs&&gs.body}),Dr(en),x(null)}catch(Q){Rt(null),x(Q)}};Rl(()=>x(null),[en]);let hs=c?In(c,p):"Choose a request.",$s=ie({method:"POST",path:"/v1/batches",body:Qt},Q=>{let Mt=v("batches",Q.body.uuid);q(N(Mt)),H(`The batch of ${r} has begun.`),Do(Mt,l)}),Nt=C&&Mr===en,Jn=o.filter(Q=>Q.provision_state==="active"),pt=qo(c,Jn.length>0),Pr=pt==="name"?`${c==="available"?"Leaves":C?.sample&&Mo(C.sample,"")===pt?"Destroys":"May destroy"} the data on ${r}${Pa(s)}.`:c==="abort"?`Abort ends the runs of ${r}. ${Vt}`:`${D(c)} interrupts the instances on ${P(Jn.length)}${Pa(Jn.map(M))}.`;Nl(()=>ms(!1),[en,C]);let Br={...$s,fault:$s.fault??zn,ready:!!Nt&&(pt==="none"||Nr),title:l,danger:pt==="name",button:Nt?`${D(c)} ${r}`:"",more:i`<button type="button" disabled=${!!hs} onClick=${()=>Ir()}>Plan</button>`};return se(te,Br,i`
    <div class="form-grid">
      ${j("Request",c,Q=>(u(Q),d({})),[["","choose\u2026"],...n.map(Q=>[Q,D(Q)])])}
      ${j("Waves",f,m,Object.keys(Da))}
      ${o.length>1&&f.startsWith("canary")&&j("Canary, goes first",T,b,[["","the first of the list"],...s])}
      ${F("Name (optional)",{onInput:_(w)})}
      ${Ba("At the same time",$,y,1)}
      ${Ba("Failures allowed",g,A,0)}
    </div>
    <p role="status">
      ${hs} ${Ne[c]&&`${D(c)} ${Ne[c]}.`}
      ${n.includes("manage")&&!n.includes("clean")&&" To clean, use Manage first; the page of its batch then has the button Clean\u2026"}
    </p>
    ${se(Pn,{key:c,node:a,target:c,onChange:d})}
    ${Nt&&se(Bl,{plan:C})}
    ${Nt&&pt!=="none"&&i`<p><strong>${h(Pr)}</strong></p>`}
    ${Nt&&se(At,{key:C,kind:pt,name:String(t),what:Uo,on:r,onSure:ms})}`)}function qo(e,t){return qt(e)||e==="available"?"name":e==="abort"||t&&e!=="power on"?"tick":"none"}var Ba=(e,t,n,o)=>F(e,{type:"number",min:o,value:t,onInput:_(s=>n(Number(s)))});function Bl({plan:e}){let{waves:t,concurrency:n,failures_left:o,refused:s,first_wave:a,sample:r}=e;return i`<p role="status">
    ${t.length>1?i`<strong>${h(M(a[0]))} goes first, alone</strong>, then ${[...t.slice(1,-1),`the other ${t.at(-1)}`].join(", then ")}`:P(t[0])}, at most ${n} at once.
    ${o?` The batch pauses after more than ${P(o,"failure")}.`:" The first failure pauses the batch."}
  </p>
    ${s.count>0&&i`<p class="wrong">${s.count} of them would refuse the request now:</p>
      <ul>
        ${s.first.map(l=>i`<li>
            ${h(M(l))}: ${h(z(l.text,l))}
          </li>`)}
      </ul>`}
    ${r?.accepted&&i`<p>On ${h(M(a[0]))}:</p> ${se(Io,{plan:r})}`}`}function Ha(e,t){let[n,o]=ne(new Map),[s,a]=ne(!1),r=Ml(new Map),l=async()=>{a(!0);let d=[...e],f=new Map,m=async()=>{for(let $=d.shift();$;$=d.shift()){let y=t($),g=JSON.stringify(y),A=r.current.get(g)??Qe();r.current.set(g,A);let O=await rn({...y,key:A}).then(()=>"done",w=>(w.status&&r.current.delete(g),w.message));f.set($.uuid,O),o(new Map(f))}};await Promise.all(Array.from({length:Il},m)),a(!1),H(`${[...f.values()].filter($=>$==="done").length} of ${e.length} done.`)},c=t({uuid:"{node}"}),u={...c,path:decodeURIComponent(c.path),each:e.map(d=>d.uuid)},p=!s&&n.size&&[...n.values()].every(d=>d==="done");return{results:n,busy:s,send:p?void 0:l,request:u}}function qa({nodes:e,results:t}){if(!t.size)return null;let n=e.filter(o=>(t.get(o.uuid)??"done")!=="done");return i`<p>${t.size} of ${e.length} answered, ${n.length} refused.</p>
    <ul>
      ${n.map(o=>i`<li class="wrong">
          ${h(M(o))}: ${h(z(t.get(o.uuid),o))}
        </li>`)}
    </ul>`}function Ul({nodes:e}){let[t,n]=ne(""),[o,s]=ne(!0),a=Ha(e,l=>({method:o?"PUT":"DELETE",path:v("nodes",l.uuid,"maintenance"),...o?{body:{reason:t}}:{}})),r={...a,title:`Maintenance of ${P(e.length)}`,button:`Set maintenance ${o?"on":"off"}`};return se(te,r,i`
    ${j("Maintenance",o?"on":"off",l=>s(l==="on"),["on","off"])}
    ${F("Reason",{class:"block",onInput:_(n)})}
    ${se(qa,{nodes:e,results:a.results})}`)}function Fl({nodes:e}){let[t,n]=ne(Lo),o=Ha(e,r=>({method:"POST",path:v("nodes",r.uuid,"holds"),body:t})),s=`Hold ${P(e.length)}`,a={...o,title:s,button:s,ready:!!t.reason};return se(te,a,i`${se(Ro,{body:t,onChange:n})}
    ${se(qa,{nodes:e,results:o.results})}`)}var jl=2e3,Wl="uuid,name,state,wave,waves,counts,requester,created_at,ended_at,request",jo=["done","aborted"];function ja(){return S.value.parts[1]?he(Kl,{key:S.value.parts[1]}):i`<h1>Batches</h1>
    <p>Select nodes on the page Fleet, then press Batch.</p>
    ${he(fe,{path:`/v1/batches?limit=200&fields=${Wl}`,each:it,label:"Batches",of:"batches",head:["Batch","Request","State","Wave","Nodes","By","Made","Ended",_t],row:e=>[ye(v("batches",e.uuid),Kt(e)),Wa(e.request),he(X,{result:e.state}),`${e.wave+1} of ${e.waves.length}`,Ka(e.counts),e.requester,K(e.created_at),K(e.ended_at),An("batches",e.uuid)]})}`}function Wa({power:e,target:t,...n}){let s=Object.values(n).filter(Array.isArray).flat().filter(a=>a?.step).map(ee);return[D(e??t??""),n.runbook,...s].filter(Boolean).join(", ")}var Ka=e=>Object.entries(e).filter(([,t])=>t).map(([t,n])=>`${n} ${t}`).join(", ");function Kl(){let e=v("batches",S.value.parts[1]??""),[t,n]=ql(!1),{body:o,fault:s,reload:a}=R(e,{each:t?0:jl});if(Hl(()=>n(!!o?.ended_at),[o]),!o)return Ie(s,e)??he(pe,{});let r=o.counts.failed+o.counts.refused;return i`${Ie(s,e)}<header class="node-head">
      <h1>${h(Kt(o))}</h1>
      ${he(X,{result:o.state})} ${o.request&&i`<span>${h(Wa(o.request))}</span>`}
      <span>wave ${o.wave+1} of ${o.waves.length}</span>
      <span>${Ka(o.counts)}</span> ${he(I,{path:`${e}?wait=50&until=done`})}
    </header>
    ${o.paused_by&&i`<p class="says">Paused: ${h(o.paused_by)}. Left to do: ${P(o.counts.pending)}.</p>`}
    ${!jo.includes(o.state)&&he(Vl,{own:e,batch:o,reload:a})} ${he(Gl,{own:e,batch:o})}
    ${!jo.includes(o.state)&&i`<p>
      ${r} failed or refused; ${P(o.failures_left,"more failure")} allowed.
      ${o.eta&&` ${St({ends_at:o.eta})}`}
    </p>`}
    ${he(zl,{own:e,batch:o})}`}function Vl({own:e,batch:t,reload:n}){let{pending:o}=t.counts,s=P(o),{power:a,target:r}=t.request??{},l=a??r,c=Un.includes(l)||Se.some(d=>d.target===l&&d.from.includes("active")),u=(d,f,m,$)=>()=>Be({title:d.replace(/\w+/,"$& this batch"),kind:m,method:"PUT",path:`${e}/state`,body:f,of:e,says:$,name:String(o),what:Uo,on:s,button:d,reload:n}),p=t.paused_by?`Paused: ${t.paused_by}. `:"";return i`<div class="actions">
    ${t.state==="running"?i`<button onClick=${u("Pause",{target:"pause"},"none",`Nothing starts on ${s} until you resume it.`)}>Pause…</button>`:i`<button onClick=${u("Resume",{target:"resume"},l?qo(l,c):"name",`${p}${l?D(l):"The request"} goes on with ${s}.`)}>Resume…</button>`}
    <button onClick=${u("Abort",{target:"abort"},"tick",`Skips ${s}.`)}>Abort…</button>
    <button onClick=${u("Abort with its runs",{target:"abort",runs:"abort"},"tick",`Skips ${s}; runs under way end as soon as they can. ${Vt}`)}>
      Abort with its runs…
    </button>
  </div>`}function Gl({own:e,batch:t}){let{pending:n,starting:o,running:s,skipped:a,failed:r,refused:l}=t.counts,c=r+l,{body:u}=R(c?`${e}/nodes?limit=1000&result=failed,refused`:null,{again:c}),p=qe(t.waves)-n-o-s-a,d=0;return i`<ol class="waves">
    ${t.waves.map((f,m)=>{let $=Math.max(0,Math.min(f,p-d));d+=f;let y=u?.nodes.filter(A=>A.wave===m).length,g=u?.next&&y?" or more":"";return i`<li class=${y?"failed":""} aria-current=${m===t.wave?"step":void 0}>
        wave ${m+1} <progress aria-label=${`wave ${m+1}`} max=${f} value=${$} /> ${y&&!g?`${$-y} done, ${y} failed`:`${$}/${f}${g&&`, ${y} or more failed`}`}
      </li>`})}
  </ol>`}function zl({own:e,batch:t}){let n=S.value.query.get("result")??"",o=`${e}/nodes?limit=500${n?`&result=${encodeURIComponent(n)}`:""}`,s=a=>i`<div class="filters">
      ${["",...Object.keys(t.counts).filter(r=>t.counts[r]||r===n)].map(r=>i`<a
          class="button"
          aria-current=${r===n?"true":void 0}
          href=${N(e,r?{result:r}:{})}
          >${r||"all"} ${r?t.counts[r]:""}</a
        >`)}
      ${t.counts.failed>0&&i`<button onClick=${()=>Ho(t,"failed",a.nodes,"retry")}>Retry the failed…</button>`}
      ${jo.includes(t.state)&&t.request?.target==="manage"&&t.counts.done>0&&i`<button onClick=${()=>Ho(t,"done",a.nodes,"clean")}>Clean the managed…</button>`}
    </div>
    ${he(We,{label:"Nodes of the batch",head:["Node","Wave","Result","Error","Begun","Ended","Run"],rows:a.nodes.map(r=>Jl(r,qt(t.request?.target)))})}`;return he(re,{path:o,again:JSON.stringify(t.counts),draw:s})}var Jl=(e,t)=>[ue(e),e.wave+1,he(X,{result:e.result}),z(e.error?.text??e.error,e),K(e.started_at),K(e.ended_at),e.run&&i`${ye(v("nodes",e.uuid,"runs",e.run),"run")}
    ${t&&i` ${ye(v("nodes",e.uuid,"erasures"),"erasures")}`}`];import{h as ce}from"./vendor/preact.js";var Va={partial:"not all disks",failed:"not erased",unknown:"no report"},Yl=e=>i`${ce(X,{result:e.result})}${Va[e.result]?`: ${Va[e.result]}`:""}`,Ga=({by:e})=>i`<span class=${e?"":"result failed"}>${e?"signed; not checked here":"\u2717 NOT signed"}</span>`;function za(){let{parts:e,query:t,view:n}=S.value;if(e[1])return i`<h1>Erasure record</h1>
      ${ce(re,{path:S.value.path,draw:s=>ce(Ql,{record:s})})}`;let o=n.q??"";return i`<h1>Erasures</h1>
    <div class="filters">
      ${F("Part of a name or serial number",{type:"search",value:o,onInput:_(s=>V({"~q":s},{replace:!0}))})}
      ${Cn(t)}
      <a href=${N("/v1/nodes",{retired:"true",data_state:"dirty"})}>retired and dirty nodes</a>
    </div>
    ${ce(re,{path:be({limit:"1000"}),absent:"There is no such node, and no record of it.",draw:s=>ce(Xl,{body:s,words:o})})}`}function Xl({body:e,words:t}){let n=t.trim().toLowerCase(),o=e.erasures.filter(a=>[a.node_name,a.node_uuid,...a.serials??[]].some(r=>String(r??"").toLowerCase().includes(n))),s=n&&e.next;return i`${(o.length>0||!n)&&ce(Wo,{body:{erasures:o}})}
    ${n&&i`<p role="status">
      ${P(o.length||"No","record")} of ${s?"the newest ":""}${e.erasures.length} with ${h(t)}. <button onClick=${()=>V({"~q":""})}>Clear the search</button>
      ${s&&i` <button onClick=${()=>V({"~q":"",serial:t.trim()})}>Search all records for this serial number</button>`}
    </p>`}`}function Wo({body:e}){return ce(We,{label:"Erasures",head:["At","Node","Result","Signature of the record","Level","Disks","Record"],rows:e.erasures.map(t=>[K(t.at),ue({name:t.node_name,uuid:t.node_uuid}),Yl(t),ce(Ga,{by:t.key}),t.level,(t.serials??[]).join(", "),i`<a href=${N(v("erasures",t.uuid))}>show
        <span class="unseen"> the record of ${U(t.node_name??t.node_uuid)}</span></a>`])})}function Zl({result:e,disks:t,not_erased:n,not_known:o,error:s,level:a,node:r}){let l=`${P(t.length,"disk")} of ${M(r)}`;if(e==="complete")return`${l} erased, at the level ${a}.`;if(e==="partial")return`${n.length} of ${l} NOT erased.`;let c=s??o;return`The erasure of ${M(r)} ${e==="failed"?"FAILED":"is NOT KNOWN"}${c?`: ${c}`:""}.`}function Ql({record:e}){let{uuid:t,issuer:n,disks:o,result:s,issued_at:a,node:r}=e,l=v("erasures",t),c=n?.key,u=`erasure-${t.slice(0,8)}`,p=[[`${u}.json`,l],...c?[[`${u}.sig`,`${l}/signature`],["evidence-key.pem",v("erasures","keys",c)]]:[]],d=p.flatMap(([m,$])=>Ue("GET",$,{file:m}).split(`
`)),f=`openssl pkeyutl -verify -pubin -inkey evidence-key.pem -rawin -in ${u}.json -sigfile ${u}.sig`;return i`<p class="says">${ce(X,{result:s})} ${h(Zl(e))}</p>
    <p>${ce(Ga,{by:c})} · ${K(a)} · ${ue(r)}. This is evidence of what the ramdisk did, and no certificate.</p>
    ${o.length>0&&ce(We,{label:"Disks",head:["Disk","Serial number","Result","Level","Method","Reason"],rows:o.map(m=>[m.name,m.serial,ce(X,{result:m.result}),m.level,m.method,m.why])})}
    <h2>Check it</h2>
    <div class="actions">
      ${p.map(([m,$])=>i`<button onClick=${()=>ec($,m)}>Download ${m}</button>`)}
    </div>
    ${c?i`<p>In a shell:</p>
          <pre tabindex="0">${[...new Set(d),f].join(`
`)}</pre>
          <p>Compare the key with your own copy. <code>baremetal erasure verify --node ${U(M(r))} --key FILE</code> also finds missing records.</p>`:i`<p>It is not signed (no <code>[conductor]evidence_key_file</code>), so nobody can prove that it was not changed.</p>`}
    <details><summary>All fields</summary>${ce(me,{of:e})}</details>`}async function ec(e,t){let n=await Ze("GET",e).catch(()=>null);if(!n?.ok)return H(`${t} could not be read.`);let o=document.createElement("a");o.href=URL.createObjectURL(await n.blob()),o.download=t,o.click(),setTimeout(()=>URL.revokeObjectURL(o.href),1e4)}import{useEffect as Yt,useMemo as rr,useRef as gc,useState as es}from"./vendor/hooks.js";import{h as $e}from"./vendor/preact.js";import{useEffect as Vo,useRef as tc,useState as zo}from"./vendor/hooks.js";import{h as Ja}from"./vendor/preact.js";var Ya=5,nc=50,Go=3e4,oc=5e3;function Jo(e){let{error:t,code:n}=k.failed.value.get(e.uuid)??{};return t?.cause?.text??t?.text??n??""}function Za({brief:e}){let[t,n]=zo(!1),o=Xa("baremetal:conductor:get","/v1/conductors","conductors").filter(b=>!b.alive),s=Xa("baremetal:batch:list","/v1/batches?state=paused&fields=uuid,name,waves,request,paused_by","batches");k.slowTick.value;let a=Ko(b=>yn(b)==="fail"),r=Ko(b=>k.overdue.value.has(b.uuid)),l=Ko(b=>k.holds.value.has(b.uuid),b=>k.holds.value.get(b.uuid)?.[0].created_at),c=t?1/0:e?0:Ya,u=tc(new Map).current,p=b=>u.get(Qa(b)),d=[],f=[];for(let b of a.slice(0,t?c:nc)){if(d.length>=c)break;(p(b)?.waits_for?.what==="retry"?f:d).push(b)}let m=r.slice(0,c);sc(u,[...d,...f,...m]);let $=k.counts.value,y=$?qe(at.map(b=>$.get(b)??0)):a.length,g=k.overdue.value.size,A=k.holds.value.size,O=[y&&i`<a href=${N("/v1/nodes",{provision_state:at.join()})}>▲ ${y} failed</a> `,g&&i`<a href="#/v1/runs?overdue=true">◷ ${g} overdue</a> `,A&&i`<a href="#/v1/nodes?held=true">■ ${A} held</a> `,s.length&&i`<a href="#/v1/batches">■ ${s.length} paused</a> `,o.length&&i`<a href="#/v1/doctor">! ${P(o.length,"conductor")} down</a>`].filter(Boolean);if(!O.length)return i`<p class="attention none">Nothing needs attention.</p>`;let w=b=>ac(b,p(b)),T=[["Needs a person",[...m.map(b=>rc(b,p(b))),...d.map(w),...s.map(b=>i`<li>${ye(v("batches",b.uuid),Kt(b))}
        <span class="says">■ This batch is paused: ${h(b.paused_by)}.</span></li>`),...o.map(b=>i`<li>${ye(v("conductors",b.hostname),b.hostname)}
        <span class="says">! This conductor gives no sign of life.</span>
        <a class="button" href="#/v1/doctor">Doctor</a></li>`)]],["Goes on by itself",f.slice(0,c).map(w)],["Held",l.slice(0,c).map(ic)]];return i`<section class="attention" aria-labelledby="attention-title">
    <h2 id="attention-title">Needs attention</h2>
    <span class="counts">${O}</span>
    ${(e||Math.max(a.length,r.length,l.length)>Ya)&&i`<button class="quiet" onClick=${()=>n(!t)}>${t?"show fewer":"show all"}</button>`}
    ${(t||!e)&&i`<div>
      ${m.length>0&&i`<p class="small">${je}</p>`}
      ${T.map(([b,C])=>C.length>0&&i`<h3>${b}</h3><ul aria-label=${b}>${C}</ul>`)}
    </div>`}
  </section>`}function Ko(e,t=n=>n.provision_updated_at){return[...k.nodes.values()].filter(e).sort((n,o)=>String(t(o)).localeCompare(String(t(n))))}function Xa(e,t,n){let[o,s]=zo(!1);return Vo(()=>{an(e).then(s)},[]),R(o?t:null,{each:Go}).body?.[n]??[]}var Qa=({uuid:e,provision_state:t,provision_updated_at:n,maintenance:o})=>[e,t,n,o,Wt(k.under.value.get(e)),k.under.value.get(e)?.place?.ordinal,k.holds.value.get(e)?.length].join();function sc(e,t){let[,n]=zo({}),o=new Set(t.map(Qa));Vo(()=>()=>e.clear(),[]),Vo(()=>{for(let s of e.keys())o.has(s)||e.delete(s);for(let s of o){let a=l=>{if(e.get(s)===l){if(l.says&&document.hidden)return void setTimeout(a,Go,l);W(v("nodes",s.slice(0,36),"why")).then(({body:c})=>{e.get(s)===l&&e.set(s,c),n({}),c.waits_for?.what==="retry"&&setTimeout(a,Go,c)},c=>Ee(c)&&setTimeout(a,oc,l))}};if(e.has(s))continue;let r={};e.set(s,r),a(r)}})}var Yo=(e,t,n,o,s,a,r)=>i`<li key=${e.uuid}>
  ${ue(e)} ${Ja(Me,{state:e.provision_state})}
  <span class="says" title=${o}>${n} ${h(o)} <b>${Wt(k.under.value.get(e.uuid))}</b> ${Tn(s)}</span> ${Ja(le,{at:t})}
  ${a&&i`<button onClick=${r}>${a}…</button>`}
  <a class="button" href=${Te(e)}>Why</a>
</li>`,er=(e,...t)=>t.find(n=>e?.verbs?.some(o=>o.target===n&&!o.refused))??"";function ac(e,t){let n=er(t,"retry",t?.run?.verb,"manage"),o=t?.says?z(t.says):Jo(e);return Yo(e,e.provision_updated_at,"",o,t,n&&D(n),()=>ut(e,n))}function rc(e,t){let n=er(t,"abort");return Yo(e,e.provision_updated_at,i`<b>◷ Overdue</b>`,z(t?.says),t,t?.run&&D(n||"stop"),()=>n?ut(e,n):Bn({own:v("nodes",e.uuid),name:M(e)}))}function ic(e){let t=k.holds.value.get(e.uuid)??[],n=t.map(o=>`${o.kind}: ${o.reason}`).join("; ");return Yo(e,t[0]?.created_at,i`<b class="held-mark">■ HELD</b>`,n,void 0,"Lift hold",()=>Pe({own:v("nodes",e.uuid),name:M(e),holds:t}))}import{useEffect as or,useLayoutEffect as lc,useRef as tr,useState as Fn}from"./vendor/hooks.js";import{h as Xo}from"./vendor/preact.js";var Jt=()=>Dt.value?56:28,nr=8,zt=500;function sr(e){let{rows:t,columns:n,id:o,label:s,selected:a,onSelect:r}=e,l=tr(null),[c,u]=Fn(0),p=tr({pointed:!1,focused:!1}),d=b=>{Object.assign(p.current,b),e.onHold?.(p.current.pointed||p.current.focused)},f=mc(l,t.length);or(()=>{l.current&&(l.current.scrollTop=0),u(0)},[e.view]);let m=E.value.plain?f.page*zt:f.first,$=E.value.plain?m+zt:f.last,y=Math.min(c,Math.max(0,t.length-1)),g=b=>{let C=Math.max(0,Math.min(t.length-1,b));u(C),hc(l.current,C)},A=b=>$c(b,{...e,at:y,move:g}),O=t.slice(m,$),w=n.map(b=>b.width??"1fr").join(" "),T={"--columns":r?`32px ${w}`:w};return i`<div class="grid-frame" style=${T}>
    <div
      class=${E.value.plain?"grid plain":"grid"}
      role="grid"
      aria-label=${s}
      aria-rowcount=${t.length+1}
      aria-multiselectable=${r?"true":void 0}
      tabindex="0"
      ref=${l}
      aria-activedescendant=${t.length?`row-${s}-${y}`:void 0}
      onKeyDown=${A}
      onScroll=${f.onScroll}
      onPointerEnter=${()=>d({pointed:!0})}
      onPointerLeave=${()=>d({pointed:!1})}
      onFocusIn=${()=>d({focused:!0})}
      onFocusOut=${()=>d({focused:!1})}
    >
      ${Xo(dc,{columns:n,select:!!r,sort:e.sort,onSort:e.onSort})}
      <div class="body" role="rowgroup" style=${cc(t.length)}>
        <div role="presentation" style=${uc(m)}>
          ${O.map((b,C)=>Xo(pc,{key:o(b),row:b,columns:n,label:s,index:m+C,active:m+C===y,checked:a?.has(o(b)),onOpen:e.onOpen,onFocus:()=>u(m+C),onCheck:r&&(()=>r(Zo(a,o(b))))}))}
        </div>
      </div>
    </div>
    ${E.value.plain&&t.length>zt&&Xo(fc,{view:f,rows:t.length})}
  </div>`}var cc=e=>E.value.plain?{}:{height:`${e*Jt()}px`},uc=e=>E.value.plain?{}:{transform:`translateY(${e*Jt()}px)`};function Zo(e,t){let n=new Set(e);return n.delete(t)||n.add(t),n}function dc({columns:e,select:t,sort:n,onSort:o}){return i`<div class="row head" role="row" aria-rowindex="1">
    ${t&&i`<span role="columnheader"><span class="unseen">Selected</span></span>`}
    ${e.map(s=>{let a=n===s.key?"ascending":n===`-${s.key}`?"descending":"none";return i`<span role="columnheader" aria-sort=${a} class=${`${s.key}${s.wide?" wide":""}`}>
        ${o?i`<button class="quiet" tabindex="-1" onClick=${()=>o(s.key)}>
              ${s.title}${a==="ascending"?" \u2191":a==="descending"?" \u2193":""}
            </button>`:s.title}
      </span>`})}
  </div>`}function pc({row:e,columns:t,label:n,index:o,active:s,checked:a,onOpen:r,onFocus:l,onCheck:c}){return i`<div
    class=${`row${s?" active":""}${a?" checked":""}`}
    role="row"
    id=${`row-${n}-${o}`}
    aria-rowindex=${o+2}
    aria-selected=${c?String(!!a):void 0}
    onClick=${l}
    onDblClick=${()=>r(e)}
  >
    ${c&&i`<span role="gridcell"
      ><input type="checkbox" tabindex="-1" aria-label=${`Select ${U(e.name??e.uuid)}`} checked=${!!a} onClick=${c}
    /></span>`}
    ${t.map(u=>i`<span role="gridcell" class=${`cell ${u.key}${u.wide?" wide":""}`}
          >${u.cell(e)}</span
        >`)}
  </div>`}function fc({view:e,rows:t}){let n=Math.ceil(t/zt);return i`<div class="pager">
    <button disabled=${e.page===0} onClick=${()=>e.setPage(e.page-1)}>Before</button>
    Page ${e.page+1} of ${n}
    <button disabled=${e.page+1>=n} onClick=${()=>e.setPage(e.page+1)}>
      Next
    </button>
  </div>`}function mc(e,t){let[n,o]=Fn(0),[s,a]=Fn(600),[r,l]=Fn(0);lc(()=>{let f=e.current;if(!f)return;let m=new ResizeObserver(()=>a(f.clientHeight));return m.observe(f),()=>m.disconnect()},[]),or(()=>{r*zt>=t&&l(0)},[t]);let c=Jt(),u=Math.max(0,Math.floor(n/c)-nr),p=f=>o(f.currentTarget.scrollTop),d=Math.min(t,Math.ceil((n+s)/c)+nr);return{first:Math.min(u,Math.max(0,t-1)),last:d,page:r,setPage:l,onScroll:p}}function hc(e,t){if(!e||E.value.plain)return;let n=t*Jt(),o=e.clientHeight-2*Jt();n<e.scrollTop?e.scrollTop=n:n>e.scrollTop+o&&(e.scrollTop=n-o)}function $c(e,{rows:t,at:n,move:o,id:s,selected:a,onSelect:r,onOpen:l,onCopy:c}){let u=t[n],p=E.value.keys&&!e.ctrlKey&&!e.metaKey,d={ArrowDown:()=>{e.shiftKey&&u&&r&&r(new Set([...a??[],s(u)])),o(n+1)},ArrowUp:()=>o(n-1),PageDown:()=>o(n+20),PageUp:()=>o(n-20),Home:()=>o(0),End:()=>o(t.length-1),Enter:()=>u&&l(u),...p&&c&&{c:()=>u&&c(u)}," ":()=>u&&r?.(Zo(a,s(u))),...p&&{j:()=>o(n+1),k:()=>o(n-1)},...p&&{x:()=>u&&r?.(Zo(a,s(u)))}};if((e.ctrlKey||e.metaKey)&&e.key==="a"&&r){r(new Set(t.map(s))),e.preventDefault();return}let f=d[e.key];!f||e.target.tagName==="INPUT"||(f(),e.preventDefault(),e.stopPropagation())}var ts=[{key:"name",title:"Name",width:"minmax(9rem, 1fr)",cell:ue},{key:"provision_state",title:"State",width:"minmax(12.5rem, 1fr)",cell:yc},{key:"provision_updated_at",title:"Since",width:"6rem",cell:wc},{key:"under",title:"Under way",width:"minmax(10rem, 1.8fr)",cell:Sc,wide:!0},{key:"power_state",title:"Power",width:"5rem",cell:kc},{key:"resource_class",title:"Class",width:"7rem",cell:Hn("resource_class"),wide:!0},{key:"conductor",title:"Conductor",width:"7rem",cell:Hn("conductor"),wide:!0},{key:"data_state",title:"Data",width:"5rem",cell:Hn("data_state"),wide:!0}],bc=["driver","owner","lessee","shard","conductor_group","fault","instance_name"],ir=e=>ts.find(t=>t.key===e)??{key:e,title:e.replaceAll("_"," "),cell:Hn(e),wide:!0},lr=e=>e?e.split(",").map(ir):ts;function vc(){let e=lr(S.value.view.cols).map(n=>n.key),t=[...ts,...bc.map(ir)];return $e(Mn,{name:"Columns"},t.map(({key:n,title:o})=>ot(o,()=>{let s=t.map(a=>a.key).filter(a=>e.includes(a)!==(a===n));V({"~cols":s.join(",")},{replace:!0})},e.includes(n))))}function yc(e){return i`${$e(Me,{state:e.provision_state})}
    ${k.overdue.value.has(e.uuid)&&i` <strong class="danger" title=${je}>overdue</strong>`}
    ${k.holds.value.has(e.uuid)&&i` <strong class="held-mark">■ HELD</strong>`}`}function wc(e){return $e(le,{at:e.provision_updated_at})}function kc(e){return h(String(e.power_state??"").replace("power ",""))}function Hn(e){return t=>h(t[e]??"")}function Sc(e){let t=k.holds.value.get(e.uuid),n=k.under.value.get(e.uuid);if(n){let{place:s,eta:a}=n;return i`${h(s?`${s.ordinal+1}/${s.of} ${ee(s)}`:n.verb)}
      <span>${Wt(n)||a&&!k.overdue.value.has(e.uuid)&&St(a,!0)}</span>`}if(t)return h(`${t[0].kind}: ${t[0].reason}`);let o=e.maintenance&&`maintenance${e.fault?`: ${e.fault}`:""}`;return h([Jo(e),o].filter(Boolean).join("; "))}function cr(){let{query:e,view:t}=S.value,n=t.q??"",o=t.sort??"need",s=nt.value,[a,r]=es(!1);Yt(()=>{wn()},[]),Yt(()=>{let d=f=>f.key==="Escape"&&!Nn()&&f.target.type!=="search"&&kn();return addEventListener("keydown",d),()=>removeEventListener("keydown",d)},[]),Yt(()=>Qs(e.toString()),[e.toString()]);let{given:l,fault:c}=Tc(e),u=Cc(e,n,o,a,l),p=c??k.failure.value;return k.tick.value,i`<h1 class="unseen">Fleet</h1>
    ${$e(Za,{brief:!!(e.size||n)})} ${$e(Lc,{words:n})} ${$e(Rc,{})}
    ${p&&$e(de,{fault:p})}
    ${$e(sr,{rows:u.shown,columns:lr(t.cols),id:d=>d.uuid,label:"Nodes",view:`${e}|${n}`,selected:s,onSelect:xo,onHold:r,sort:o,onSort:d=>V({"~sort":o===d?`-${d}`:d},{replace:!0}),onCopy:d=>Ce(Ue("GET",v("nodes",M(d)))),onOpen:d=>q(Te(d))})}
    ${!u.shown.length&&!p&&l!==Qo&&k.status.value!=="loading"&&(e.size||n)&&i`<p role="status">No node matches. <button onClick=${dr}>Clear filters</button></p>`}
    ${$e(Ua,{shown:u.shown})}
    <p class="footer" role="note">${Ec(u,o)}</p>
    ${$e(_c,{})}`}var xc=1e4;function _c(){let[e,t]=es("");return Yt(()=>{let n=k.heard.count,o=setInterval(()=>{let s=k.heard.count-n;n+=s,t(s?`${P(s,"change")} in 10 seconds`:"")},xc);return()=>clearInterval(o)},[]),i`<div class="unseen" role="status" aria-label="Changes">${e}</div>`}function ur(){let e=k.counts.value;return e?qe(e.values()):k.nodes.size}function Ec(e,t){let n=ur(),o=k.status.value==="loading"?" \xB7 loading":"",s=k.narrow.value?" \xB7 narrow the filter to see rows":o,a=e.waiting?` \xB7 ${e.waiting} changes wait while you are here`:"",r=t==="need"?"need":t.replace(/^-/,"");return`${e.shown.length} of ${n} \xB7 sorted by ${r}${s}${a}`}var Qo=new Set;function Tc(e){let[t,n]=es({}),o=_n(e).length?e.toString():"";return Yt(()=>{if(!o)return;let s=new AbortController,a=async()=>{let c=new Set,u=`/v1/nodes?${o}&fields=uuid&limit=1000`;for await(let p of ht(u,"nodes",s.signal))for(let d of p)c.add(d.uuid);return{given:c,text:o}},r=()=>document.hidden||a().then(n,c=>s.signal.aborted||n(u=>({...Ee(c)&&u.text===o?u:{given:Qo,text:o},fault:c})));r();let l=setInterval(r,it);return()=>{clearInterval(l),s.abort()}},[o]),o?t.text===o?t:{given:Qo}:{given:null}}function Cc(e,t,n,o,s){let a=k.slowTick.value,r=[k.overdue.value,k.holds.value],l=e.toString(),c=gc({key:"",rows:[],turn:0});return rr(()=>{let u=`${l}|${t}|${n}|${s?.size}`,p=c.current;if(o&&p.key===u&&p.rows.length)return{shown:p.rows.map(y=>k.nodes.get(y.uuid)??y),waiting:a-p.turn};let d=xn(e,t),f=oa().filter($=>d($)&&(s===null||s.has($.uuid))),m=Ac(f,n);return c.current={key:u,rows:m,turn:a},{shown:m,waiting:0}},[a,l,t,n,o,s,...r])}function Ac(e,t){let n=t.startsWith("-")?-1:1,o=t.replace(/^-/,"");if(o==="name")return n<0?e.reverse():e;let s=o==="need"||o==="under",a=e.map(r=>({node:r,first:s?sa(r):String(r[o]??"")}));return a.sort((r,l)=>r.first<l.first?-n:r.first>l.first?n:0),a.map(r=>r.node)}function Oc(e){let{key:t,currentTarget:n}=e;if(t==="Escape"&&!n.value)n.blur();else if(t==="Enter"||t==="ArrowDown")document.querySelector(".grid").focus();else return;e.preventDefault(),e.stopPropagation()}function Lc({words:e}){let{query:t}=S.value;return i`<div class="filters">
    <input
      id="filter"
      type="search"
      aria-label="Filter by name, state, class or conductor"
      placeholder="/ filter"
      value=${e}
      onInput=${_(n=>V({"~q":n},{replace:!0}))}
      onKeyDown=${Oc}
    />
    ${Cn(t)}
    ${j("Data",t.get("data_state")??"",n=>V({data_state:n}),[["","any"],...jt])}
    ${!Dt.value&&$e(vc,{})} <button onClick=${ga}>Enroll…</button>
    ${$e(I,{path:N("/v1/nodes",t).slice(1),label:"curl of these"})}
  </div>`}function Rc(){let e=k.slowTick.value,t=rr(()=>{let a=new Map(k.counts.value??[]);for(let r of k.counts.value?[]:k.nodes.values()){let l=r.provision_state;a.set(l,(a.get(l)??0)+1)}return[...a].sort(([r],[l])=>ar(r)-ar(l))},[e,k.counts.value]),n=(S.value.query.get("provision_state")??"").split(",").filter(Boolean),o=(a,r)=>{let l=r?n.filter(u=>u!==a):[],c=n.includes(a)?l:[...l,a];V({provision_state:c.join(",")})},s=t.filter(([a])=>at.includes(a));return i`<div class="chips" role="group" aria-label="States">
    <button aria-pressed=${!S.value.query.size&&!S.value.view.q} onClick=${dr}>
      all ${ur()}
    </button>
    ${s.length>1&&i`<button onClick=${()=>V({provision_state:at.join()})}>
      ▲ failed ${qe(s.map(([,a])=>a))}
    </button>`}
    ${t.map(([a,r])=>{let l=ge[a]??"stable";return i`<button
        class=${`state ${l}`}
        aria-pressed=${n.includes(a)}
        onClick=${c=>o(a,c.shiftKey)}
      >
        <span class="sign" aria-hidden="true">${_o[l]}</span> ${a} ${r}
      </button>`})}
  </div>`}var dr=()=>{let{view:e}=S.value;q(N("/v1/nodes",{},{...e,q:""}),{sel:e.sel})},ar=e=>-So.indexOf(ge[e]??"stable");import{useEffect as yr,useState as Kn}from"./vendor/hooks.js";import{h as Y}from"./vendor/preact.js";import{useEffect as $r,useRef as gr,useState as Wn}from"./vendor/hooks.js";import{h as L}from"./vendor/preact.js";import{useEffect as ns,useMemo as Nc,useRef as pr,useState as Xt}from"./vendor/hooks.js";import{h as ke}from"./vendor/preact.js";var Mc=40;function jn({run:e,why:t}){let n=e.steps??[],o=Math.max(1,...n.map(fr)),s=R(e.retry_of&&e.state==="failed"?v("runs",e.retry_of):null).body;return i`<div class="run">
    <p class="run-head">
      ${ke(X,{result:e.state})} <strong>${h(D(e.verb))}</strong>
      ${e.requester&&i` · ${h(e.requester)}`}${" \xB7 "}
      ${e.ended_at?i`${G((Date.parse(e.ended_at)-Date.parse(e.started_at))/1e3)}, ended ${ke(le,{at:e.ended_at,ago:!0})}`:i`for ${ke(le,{at:e.started_at})}`}
      ${e.eta&&!n.some(a=>a.overdue)&&i` · ${St(e.eta)}`}
      ${e.retry_of&&i` · <a href=${N(v("runs",e.retry_of))}>retry of an earlier run</a>`}
    </p>
    ${s&&i`<p class="wrong" role="status">The retry failed again, with ${rt(s)===rt(e)?"the same":"another"} cause.</p>`}
    ${e.error&&!n.length&&i`<p class="wrong">${h(e.error.text)}</p>`}
    <ol class="steps" aria-label="Steps">
      ${n.map(a=>ke(Dc,{key:a.ordinal,step:a,longest:o,own:v("nodes",e.node_uuid,"runs",e.uuid)}))}
    </ol>
    ${t?.waits_for&&ke(Pc,{waits:t.waits_for})}
  </div>`}var fr=e=>e.ended_at||!e.started_at?e.duration_seconds??0:It(e.started_at);function Dc({step:e,longest:t,own:n}){let o=e.done_in?"kept":e.waiver?"waived":e.state,s=fr(e),a={width:`${Math.max(.3,s/t*Mc)}%`},r=e.usual_seconds;return i`<li class=${o} id=${`step-${e.ordinal}`}>
    ${ke(X,{result:o,word:!1})}
    <span class="step">${h(ee(e))}</span>
    ${e.done_in?i`<a href=${N(v("runs",e.done_in))}>done in an earlier run</a>`:e.started_at?i`<span class="bar-frame"><span class="bar-of-time" style=${a} /> ${G(s)}</span>`:i`<span>not reached</span>`}
    ${e.attempt>1?i`<span>attempt ${e.attempt}</span>`:""}
    ${e.overdue&&i`<span class="danger">◷ overdue</span>`}
    ${r&&i`<span class="small usual">usual ${G(r.p50)}</span>`}
    ${e.overdue&&i`<p class="small">${je}</p>`}
    ${e.waiver&&i`<p class="small">waived: ${h(e.waiver.reason??e.waiver)}</p>`}
    ${e.ended_at&&st.test(e.step)&&i`<a href=${`#${n.replace(/runs.*/,"erasures")}`}>erasures</a>`}
    ${e.error&&ke(Ic,{error:e.error,log:N(`${n}/log`,{},{line:e.ended_at??e.started_at})})}
  </li>`}function Ic({error:e,log:t}){let n=e.cause??e;return i`<p class="wrong">
    ${h(n.text)} <code class="small">${n.code}</code> <a href=${t}>log at this line</a>
  </p>`}function Pc({waits:e}){let t=Math.max(0,(Date.parse(e.given_up_at)-xe.value)/1e3);return i`<p class="waits">
    ◔ Waits for the ${e.what}, for ${ke(le,{at:e.since})} now${e.last_sign_at&&i`, last sign ${ke(le,{at:e.last_sign_at,ago:!0})}`}${e.given_up_at&&i`; given up in ${G(t)}`}.
  </p>`}var Bc=2e4,Uc=/^(\S+) (\S+)\s+(.*)$/,Fc=/^\S+ failed/;function mr({path:e,live:t}){let[n,o]=Hc(`${e}/log`,t),[s,a]=Xt(""),[r,l]=Xt(""),c=pr(null),[u,p]=Xt(!0),d=Nc(()=>[...new Set(n.map(x=>x.source))],[n]),f=n.filter(x=>!s||x.source===s),m=x=>r&&x.text.toLowerCase().includes(r),$=f.filter(m),{line:y}=S.value.view,g=f.filter(x=>Number(y)?x.number===Number(y):y&&x.at>=y),A=g.find(x=>Fc.test(x.text))??g[0],O=A?A.number:0,w=x=>x&&V({"~line":String(x.number)},{replace:!0}),T=()=>w($.find(x=>x.number>O)??$[0]),b=()=>w($.findLast(x=>x.number<O)??$.at(-1));ns(()=>{O&&(p(!1),document.getElementById(`line-${O}`)?.scrollIntoView({block:"center"}))},[O]);let C=pr(0);u&&(C.current=n.length);let Rt=n.length-C.current;ns(()=>{u&&c.current&&(c.current.scrollTop=c.current.scrollHeight)},[n,u]);let zn=()=>{let x=c.current;x&&p(x.scrollTop+x.clientHeight>x.scrollHeight-20)};return i`<div class="filters">
      <input
        type="search"
        aria-label="Search the log"
        placeholder="/ search"
        onInput=${_(x=>l(x.toLowerCase()))}
        onKeyDown=${x=>x.key==="Enter"&&T()}
      />
      ${r&&i`<span>${P($.length,"line")}</span>
        <button data-key="N" title="N" onClick=${b}>Previous</button>
        <button data-key="n" title="n" onClick=${T}>Next</button>`}
      ${d.map(x=>i`<button
          aria-pressed=${s===x}
          onClick=${()=>a(s===x?"":x)}
        >
          ${U(x)}
        </button>`)}
      ${ke(I,{path:`${e}/log`,stream:t})}
      ${!u&&i`<button onClick=${()=>p(!0)}>
        ${Rt>0?P(Rt,"new line"):"To the end"}
      </button>`}
    </div>
    <div class="log" ref=${c} onScroll=${zn} tabindex="0" role="log" aria-label="Log of the run">
      ${f.map(x=>i`<div class=${m(x)?"hit":""} id=${`line-${x.number}`}
          aria-current=${x===A?"true":void 0}>
          <a href=${N(`${e}/log`,{},{line:String(x.number)})}><time
            title=${Je(x.at,!0)}>${ft(x.at,E.value.utc,!0)}</time></a> <span class="source">${U(x.source)}</span> ${U(x.text)}
        </div>`)}
      ${!n.length&&!o&&i`<p>No line yet.</p>`}
    </div>${Ie(o,`${e}/log`)}`}function Hc(e,t){let[n,o]=Xt([]),[s,a]=Xt(null);return ns(()=>{let r=new AbortController,l=()=>{qc(e,t,r.signal,o,a)},c=()=>{r.abort(),r=new AbortController,document.hidden||l()};return o([]),a(null),l(),t&&document.addEventListener("visibilitychange",c),()=>{r.abort(),document.removeEventListener("visibilitychange",c)}},[e,t]),[n,s]}async function qc(e,t,n,o,s){let a=0;for(;;){let r=t?await lo():null,l=t;try{let c=0,u=[],p=await jc(e+(r?"?follow=true":""),n);s(null);for await(let d of fo(p))u=[...u,...d.map(f=>Wc(f,c+=1))].slice(-Bc),c>=a&&o(u),a=Math.max(a,c),await oe(50)}catch(c){if(n.aborted)return;s(c),l=Ee(c)}finally{r?.()}if(!l||(await oe(vt),n.aborted))return}}async function jc(e,t){let n=await Ze("GET",e,{signal:t});if(!n.ok||!n.body)throw Bt(n,await n.text(),`GET ${e}`);return n.body}function Wc(e,t){let[,n="",o="",s=e]=Uc.exec(e)??[];return{number:t,at:n,source:o,text:s}}var qn=["enroll","manageable","available","active","rescue"];function hr({why:e}){let t=e.provision_state,n=Se.find(a=>a.target===e.run?.verb)?.from??[],o=qn.findIndex(a=>n.includes(a)),s=qn.toSpliced(o<0?qn.length:o+1,0,...qn.includes(t)?[]:[t]);return i`<ol class="machine" aria-label="States">
      ${s.map(a=>i`<li aria-current=${a===t?"step":void 0}>
        ${ke(Me,{state:a})}</li>`)}
    </ol>
    <ul class="machine" aria-label="Verbs">
      ${e.verbs.map(a=>a.refused?"":i`<li>
        <strong>${D(a.target)}</strong> → ${a.leads_to}: ${Ne[a.target]}</li>`)}
    </ul>`}var os={runs:"Runs",log:"Log",states:"BMC",ports:"Ports",inventory:"Inventory",fields:"Fields",history:"History",holds:"Holds",erasures:"Erasures"},Kc=2e3;function br(){let{parts:e}=S.value,t=e[1]??"",n=v("nodes",t),[o,s]=Wn(0),[a,r]=Wn(""),[l,c]=Wn(""),u=l===n,p=R(u||a===n?null:`${n}/why`,{again:o}),d=gr("");d.current=p.body?.node??d.current,$r(()=>{p.fault?.status===403&&r(n),p.fault?.status===404&&d.current&&W(v("nodes",d.current)).then(({body:A})=>S.value.parts[1]===t&&q(Te(A),{replace:!0}),A=>{A.status===404&&c(n)})},[p.fault]);let f=R(u?null:n,{again:o}),m=()=>s(A=>A+1);Jc(t,p.body?.node??f.body?.uuid,m,()=>c(n));let $=R(zc(n,p.body,e),{again:o,each:p.body&&Gc(p.body)?Kc:0});if(u)return i`<p role="status">This node has been deleted.</p>`;if(a===n&&f.body)return L(Yc,{node:f.body,own:n});let y=Ie(p.fault,`${n}/why`);if(!p.body)return y??L(pe,{rows:8});let g=Vc(e,S.value.view.tab);return i`${y} ${L(Xc,{why:p.body,node:f.body,own:n,reload:m})}
    ${L(Oa,{why:p.body,node:f.body,reload:m})}
    ${p.body.provision_state==="enroll"&&L(Zc,{own:n})}
    ${g!=="log"&&L(hr,{why:p.body})}
    ${$.body&&g==="runs"&&L(jn,{run:$.body,why:p.body})}
    ${p.body.failure&&g==="runs"&&L(Qc,{failure:p.body.failure})}
    ${L(eu,{own:n,tab:g,run:$.body})}
    <section aria-label=${os[g]??g}>${tu(g,{own:n,node:f,why:p.body,run:$,reload:m,turn:o})}</section>`}function Vc(e,t){return e[4]==="log"?"log":t||(e[2]&&e[2]!=="why"?e[2]:"runs")}var Gc=e=>["busy","wait"].includes(e.kind);function zc(e,t,n){return n[2]==="runs"&&n[3]?`${e}/runs/${encodeURIComponent(n[3])}`:t?.run?`${e}/runs/${t.run.uuid}`:null}function Jc(e,t,n,o){let s=gr({onEvent:n,onDeleted:o});s.current={onEvent:n,onDeleted:o},$r(()=>{if(!t)return;let a=0,r=()=>{a||=setTimeout(()=>{a=0,s.current.onEvent()},300)},l=u=>u.some(p=>p.kind==="node_deleted")?(clearTimeout(a),c(),s.current.onDeleted()):r(),c=yt("/v1/events?since=now",u=>(r(),new Fe(u.cursor,l,r,{node:t})));return()=>{clearTimeout(a),c()}},[e,t])}function Yc({node:e,own:t}){return i`<header class="node-head">
      <h1>${h(e.name??e.uuid)}</h1>
      ${L(Me,{state:e.provision_state})}
      <span class="small">${L(le,{at:e.provision_updated_at})}</span>
      ${e.power_state&&i`<span class="tag">${h(e.power_state)}</span>`} ${L(I,{path:t})}
    </header>
    <p class="says">You may see this node, but not why it is in its state, and not its runs.</p>
    ${L(me,{of:vr(e)})}`}function Xc({why:e,node:t,own:n,reload:o}){let s=e.name??e.node,a=[e.maintenance&&`maintenance${e.maintenance.fault?`: ${e.maintenance.fault}`:""}`,e.data_state&&`data: ${e.data_state}`,t?.power_state,t?.retired&&"retired",t?.protected&&"protected",e.lock&&`locked by ${e.lock.host}${e.lock.for?` for ${e.lock.for}`:""}`].filter(Boolean);return i`<header class="node-head">
      <h1>${h(s)}</h1>
      ${L(Me,{state:e.provision_state})} <span class="small">${L(le,{at:e.since})}</span>
      ${e.holds.map(r=>i`<button
        class="tag held-mark" title="Lift this hold…" onClick=${()=>Pe({own:n,name:s,reload:o,holds:[r]})}
        >■ HELD (${r.kind}): ${h(r.reason)}</button>`)}
      ${a.map(r=>i`<span class="tag">${h(r)}</span>`)}
      ${L(I,{path:`${n}/why`})}
      <button class="quiet" onClick=${()=>Ce(location.href)}>copy link</button>
      <a href=${N("/v1/doctor",{node:e.name??e.node})}>doctor</a>
    </header>
    <p class="says">${h(z(e.says))} ${Tn(e)} ${e.batch&&ye(v("batches",e.batch.uuid),e.batch.name??"batch")}</p>`}function Zc({own:e}){let n=(R(`/v1/doctor?node=${e.split("/").pop()}`).body?.checks??[]).filter(o=>o.where?.startsWith("node "));return n.length>0&&i`<section aria-label="Checks before Manage">${L(On,{checks:n})}</section>`}function Qc({failure:e}){let t=e.evidence?.find(n=>n.kind==="log");return i`<section class="evidence" aria-label="Failure">
    ${e.evidence?.filter(n=>n.text).map(n=>i`<p>${n.kind}: ${h(n.text)}</p>`)}
    ${t?.tail?.length>0&&i`<pre>${t.tail.map(n=>i`${h(n)}${`
`}`)}</pre>`}
    ${t&&i`<a href=${`#${$t(t.href)}`}>the whole log</a>`}
  </section>`}function eu({own:e,tab:t,run:n}){let o=s=>s==="log"&&n?N(`${e}/runs/${n.uuid}/log`):["fields","log"].includes(s)?N(e,{},{tab:s}):N(`${e}/${s}`);return i`<select class="parts" aria-label="Part of the node" onChange=${_(s=>q(s))}>
      ${Object.entries(os).map(([s,a])=>i`<option value=${o(s)} selected=${t===s}>${a}</option>`)}
    </select>
    <nav class="tabs" aria-label="Parts of the node">
    ${Object.entries(os).map(([s,a],r)=>i`<a
          href=${o(s)}
          aria-current=${t===s?"page":void 0}
          data-key=${r+1}
          >${a}</a
        >`)}
  </nav>`}function tu(e,t){let{own:n,run:o,why:s}=t;if(e==="log")return o.body?L(mr,{path:`${n}/runs/${o.body.uuid}`,live:!o.body.ended_at}):i`<p>This node has no run.</p>`;let a={runs:nu,states:Na,ports:ou,inventory:su,fields:au,history:lu,holds:ya,erasures:cu}[e];return a?L(a,{...t,uuid:s.node}):i`<p>There is no page for this path.</p>`}var ss=e=>[ye(v("nodes",e.node_uuid,"runs",e.uuid),D(e.verb)+(e.retry_of?", retry":"")),L(X,{result:e.state}),K(e.started_at),e.duration_seconds==null?L(le,{at:e.started_at}):G(e.duration_seconds),e.requester,rt(e),An("nodes",e.node_uuid,"runs",e.uuid)],as=["Verb","Result","Begun","Took","By","Error",_t];function nu({own:e,turn:t}){return L(fe,{path:`${e}/runs?limit=50`,again:t,label:"Runs",head:as,of:"runs",row:ss})}function ou({own:e}){return L(fe,{path:`${e}/ports?detail=true`,label:"Ports",of:"ports",head:["Address","Name","PXE","Physical network","Switch"],row:t=>[i`<code>${h(t.address)}</code>`,t.name,t.pxe_enabled?"yes":"no",t.physical_network,t.local_link_connection?.switch_id]})}function su({own:e}){return L(re,{path:`${e}/inventory`,absent:"Not inspected yet.",draw:t=>L(me,{of:t})})}function au({node:e,own:t,reload:n}){let[o,s]=Wn(""),a=Re(o),r=Array.isArray(a)?a:null,l={method:"PATCH",path:t,body:r,of:t,seen:e},{fault:c,busy:u,send:p,request:d,choice:f}=ie(l,()=>{s(""),H("The node is changed."),n()});return e.body?i`<details>
      <summary>Change fields</summary>
      <label class="block"
        >JSON Patch (RFC 6902)
        <textarea
          rows="3"
          spellcheck="false"
          placeholder='[{"op": "replace", "path": "/resource_class", "value": "gpu"}]'
          value=${o}
          onInput=${_(s)}
        />
      </label>
      <ul>${r?.map(m=>i`<li><code>${h(m?.path)}</code>: ${h(ru(e.body,m?.path))} → ${m?.op==="remove"?"removed":h(m?.value)}</li>`)}</ul>
      ${c&&L(de,{fault:c})} ${f}
      ${r&&L(I,d)}
      <button disabled=${!r||u} onClick=${()=>p()}>Send the patch</button>
    </details>
    <p class="tools">${L(I,{path:t})}</p>
    ${L(me,{of:vr(e.body)})}`:L(pe,{})}var ru=(e,t)=>String(t??"").split("/").slice(1).map(n=>n.replaceAll("~1","/").replaceAll("~0","~")).reduce((n,o)=>n?.[o],e)??"nothing",vr=e=>Object.fromEntries(Object.entries(e).filter(([,t])=>!iu(t))),iu=e=>Array.isArray(e)&&e[0]?.href!==void 0;function lu({own:e,turn:t}){return L(fe,{path:`${e}/history?limit=100&sort_dir=desc`,again:t,label:"History",of:"history",head:["At","Severity","Event"],row:n=>[K(n.created_at),n.severity,n.event]})}function cu({own:e}){return L(re,{path:`${e}/erasures`,draw:t=>L(Wo,{body:t})})}var ls=e=>[S.value.query.get(e)??"",t=>V({[e]:t.trim()})],rs=(e,t,n)=>j(t,...ls(e),[["","all"],...n]);function Ge(e,t){let[n,o]=ls(e);return F(t,{value:n,onChange:_(o)})}function wr(){let{parts:e}=S.value;return e[1]?i`<h1>Run</h1>
      ${Y(re,{path:S.value.path,each:it,draw:t=>Y(jn,{run:t})})}`:i`<h1>Runs</h1>
    <div class="filters">
      ${rs("state","Result",["running","waiting","done","failed","aborted"])}
      ${rs("latest","Latest of each node",["true"])}
      ${rs("overdue","Overdue",["true"])}
      ${Ge("verb","Verb")} ${Ge("node","Node")}
      ${Ge("code","Code of the cause")}
      ${Ge("since","Begun since")} ${Ge("before","Begun before")}
    </div>
    ${S.value.query.has("overdue")&&i`<p class="small">${je}</p>`}
    ${Y(fe,{path:be({limit:"200"}),each:it,label:"Runs",head:["Node",...as],of:"runs",row:t=>[ue({name:t.node_name,uuid:t.node_uuid}),...ss(t)]})}`}var uu=500;function kr(){let[e,t]=Kn(null),[n,o]=Kn(null),[s,a]=Kn(!1),{query:r}=S.value,l=r.toString(),c=`/v1/events?${new URLSearchParams([...r,["limit","100"]])}`;return yr(()=>{t(null),a(!1)},[l]),yr(()=>{if(s)return;o(null);let u=Object.fromEntries(r),p=d=>t(f=>[...d.reverse(),...f??[]].slice(0,uu));return yt(c,d=>(o(null),t(d.events.reverse()),new Fe(d.cursor,p,null,u)),o)},[l,s]),i`<h1>Events</h1>
    <div class="filters">
      ${Ge("node","Node")} ${Ge("kind","Kinds")}
      ${j("Show",...ls("since"),[["","newest"],["0","all that are kept"]])}
      <button aria-pressed=${s} onClick=${()=>a(!s)}>Pause</button>
      ${Y(I,{path:be({since:"now",follow:"true"}),stream:!0})}
    </div>
    ${n?Y(de,{fault:n,path:c}):e?Y(We,{label:"Events",head:["At","Node","Kind","Event","Change","By",_t],rows:e.map(u=>[K(u.at),u.node&&ue({name:u.name,uuid:u.node}),u.kind,u.data?.step??u.event??(u.node?null:u.data?.name),u.after&&`${u.before??""} \u2192 ${u.after}`,u.requester??u.conductor,Y(I,{path:`/v1/events?${new URLSearchParams({kind:u.kind,...u.node&&{node:u.node}})}`})])}):Y(pe,{})}`}function Sr(){return i`<h1>Steps</h1>
    ${Y(fe,{path:be(),label:"Steps",of:"steps",head:["Step","Kind","Driver","Class","Count","Failed","Usual","90 %","Longest","Codes"],row:e=>[ee(e),e.kind,e.driver,e.resource_class,e.count,e.failed,G(e.p50),G(e.p90),G(e.longest),Object.entries(e.codes).map(([t,n])=>i`<code>${t} ${n}</code> `)]})}`}function xr(){let e=({status:t,checks:n})=>i`<p>${Y(X,{result:t})}</p> ${Y(On,{checks:n})}`;return i`<h1>Doctor</h1>
    <div class="filters">${Ge("node","Also examine the node")}</div>
    ${Y(re,{path:be(),draw:e})}
    <h2>Conductors</h2>
    ${Y(fe,{path:"/v1/conductors?detail=true",label:"Conductors",of:"conductors",head:["Host","Group","Alive","Last sign"],row:t=>[t.hostname,t.conductor_group,t.alive?"yes":"\u25B2 no",K(t.updated_at)]})}`}function _r(){return i`<h1>${h(S.value.path)}</h1>
    ${Y(re,{path:be(),draw:e=>Y(me,{of:e})})}`}var is=(e,t)=>ot(t,n=>ze({[e]:n}),E.value[e]);function du(){let[e,t]=Kn(JSON.stringify(E.value.views)),n=Re(e),o=Object.fromEntries(Object.entries(n??{}).filter(([,s])=>typeof s=="string"&&s.startsWith("#/v1/")));return i`<details>
    <summary>Export and import</summary>
    <label class="block"
      >Saved views, as JSON
      <textarea rows="3" spellcheck="false" value=${e} onInput=${_(t)} />
    </label>
    <button disabled=${!n} onClick=${()=>ze({views:{...E.value.views,...o}})}>Import</button>
  </details>`}function Er(){let{views:e}=E.value;return i`<h1>Settings</h1>
    ${is("utc","Show times in UTC")} ${is("keys","Shortcuts of one character")}
    ${is("plain","Plain tables of 500 rows, for screen readers and find-in-page")}
    <h2>Saved views</h2>
    ${!Object.keys(e).length&&i`<p>There are none. Press Find, then "Save this view".</p>`}
    <ul>
      ${Object.entries(e).map(([t,n])=>i`<li>
          <a href=${n}>${h(t)}</a>
          <button class="quiet" onClick=${()=>ze({views:lt(e,t,"")})}>remove</button>
        </li>`)}
    </ul>
    ${Y(du,{})}
    <h2>Who am I</h2>
    ${Y(re,{path:"/v1/whoami",draw:t=>Y(me,{of:t})})}
    ${Oe.value&&i`<button onClick=${()=>(q("#/v1/nodes"),Ms())}>Log out</button>`}`}import{useEffect as Cr,useRef as pu,useState as Vn}from"./vendor/hooks.js";import{h as dt}from"./vendor/preact.js";var Gn=[["f","Fleet","/v1/nodes"],["r","Runs","/v1/runs"],["b","Batches","/v1/batches"],["e","Events","/v1/events"],["v","Erasures","/v1/erasures"],["s","Steps","/v1/stats/steps"],["d","Doctor","/v1/doctor"]];function Ar({children:e}){let{path:t}=S.value,[n,o]=Vn(!1);Cr(()=>o(!1),[t]);let s=Gn.find(([,,r])=>cs(t,r))?.[1]??"Menu";return i`<a class="skip" href="#main-content" onClick=${fu}>Skip to the content</a>
    <header class=${n?"bar open":"bar"} onKeyDown=${r=>{r.key!=="Escape"||!n||(o(!1),r.stopPropagation())}}>
      <a class="brand" href="#/v1/nodes">ironic-lite</a>
      <button class="pages" aria-expanded=${String(n)} aria-controls="pages" onClick=${()=>o(!n)}>
        <span aria-hidden="true">☰</span> ${s}
      </button>
      <nav id="pages" aria-label="Pages">
        ${Gn.map(([,r,l])=>i`<a href=${`#${l}`} aria-current=${cs(t,l)}>${r}</a>`)}
      </nav>
      ${dt(hu,{})}
      <button class="quiet" onClick=${ps} aria-keyshortcuts="Control+K">Find…</button>
      <span class="tools">
        ${dt(I,{path:be()})}
        <button class="quiet" onClick=${Lr} aria-label="Help and shortcuts">?</button>
        <button class="quiet" onClick=${ds} aria-label=${`Theme: ${E.value.theme}`}>
          ${{auto:"\u25D1",light:"\u2600",dark:"\u263E"}[E.value.theme]}
        </button>
        <a href="#/v1/whoami" aria-current=${cs(t,"/v1/whoami")}>${Oe.value||"settings"}</a>
      </span>
    </header>
    ${dt($u,{})}
    <main id="main-content" tabindex="-1">${e}</main>
    <div class="live" role="status" aria-live="polite">
      ${kt.value.map(r=>i`<p>
        ${U(r.text)} ${r.to&&i`${r.to!==location.hash&&i`<a href=${r.to} onClick=${Tr(r)}>Show</a>`}
          <button class="quiet" aria-label="Close this message" onClick=${Tr(r)}>×</button>`}
      </p>`)}
    </div>
    ${Xe.value&&dt(gu,{kind:Xe.value})} ${dt($a,{})}`}var Tr=e=>()=>xt(t=>t===e);function fu(e){e.preventDefault(),document.getElementById("main-content")?.focus()}var cs=(e,t)=>e===t||e.startsWith(`${t}/`)?"page":void 0;function ds(){ze({theme:{auto:"light",light:"dark",dark:"auto"}[E.value.theme]})}var mu=15;function hu(){xe.value;let e=sn.value;if(e){let s=ft(e.toISOString(),E.value.utc);return i`<span class="connection off">○ offline since ${s}</span>`}let t=(performance.now()-po.value)/1e3,n=`\u25CF live${t>mu?`, ${G(t)} old`:""}`;return i`<span class="connection">${{stream:n,wait:n,poll:"\u25CC every 5 s",again:"\u25CC every 10 s",off:"\u25CB offline"}[uo.value]}</span>`}function $u(){let e=location.protocol==="http:"&&!/^(localhost|127\.|\[::1)/.test(location.hostname);return i`${io.value&&i`<p class="notice" role="status"><button onClick=${()=>location.reload()}>Reload: new version</button></p>`}
    ${e&&Oe.value&&i`<p class="notice">This connection is not encrypted: the login is readable on the way.</p>`}`}function gu({kind:e}){let[t,n]=Vn(""),o=r=>{r.preventDefault();let l=r.target.elements.secret,c=l.value;l.value="",e==="basic"?Rs(t,c):Ns(c)},s=pu(null),a=()=>s.current?.showModal();return Cr(a,[]),i`<dialog class="login" aria-label="Log in" ref=${s} onClose=${a}>
    <form onSubmit=${o}>
      ${Oe.value&&i`<p class="wrong" role="alert">This login is refused, or has expired.</p>`}
      <p>
        ${e==="basic"?"This service wants a user name and a password (http_basic).":i`This service wants a Keystone token: <code>openstack token issue -f value -c id</code>`}
      </p>
      ${e==="basic"&&F("User",{name:"user",autocomplete:"username",autofocus:!0,onInput:_(n)})}
      ${F(e==="basic"?"Password":"Token",{name:"secret",type:"password",autocomplete:"current-password"})}
      <button class="primary">Log in</button> <span class="small">kept in memory only</span>
    </form>
  </dialog>`}var Or=20;function ps(){wn(),J(()=>dt(ku,{}))}function bu(e){let t=e.toLowerCase(),n=Gn.map(([,r,l])=>({label:r,hint:"page",act:()=>q(`#${l}`)})),o=Object.entries(E.value.views).map(([r,l])=>({label:r,hint:"saved view",act:()=>q(l)})),s=[{label:"Save this view",hint:"setting",act:wu},{label:"Next theme",hint:"setting",act:ds},{label:"Settings",hint:"page",act:()=>q("#/v1/whoami")}];return[...[...yu(),...n,...o,...s].filter(r=>r.label.toLowerCase().includes(t)),...vu(t)].slice(0,Or)}function vu(e){if(!e)return[];let t=[];for(let n of k.nodes.values()){let o=String(M(n));if(!(!o.toLowerCase().includes(e)&&!n.uuid.startsWith(e))&&(t.push({label:o,hint:n.provision_state,act:()=>q(Te(n))}),t.length===Or))break}return t}function yu(){let[e,t]=S.value.parts,n=Sn(),o=(u,p)=>([d,f])=>({label:`${d} ${p}`,hint:u,act:f});if(e==="nodes"&&!t&&n.length)return Object.entries(Fo).map(([u,p])=>o("act",P(n.length))([u,()=>p(n)]));let s=e==="nodes"&&[...k.nodes.values()].find(u=>u.name===t||u.uuid===t);if(!t||!s)return[];let a=v("nodes",s.uuid),r=k.holds.value.get(s.uuid)??[],l=Ct(new Set([s.provision_state])).map(u=>[D(u),()=>ut(s,u)]),c=[["Hold",()=>Dn({own:a,name:t,holds:r})],...r.length?[["Lift hold of",()=>Pe({own:a,name:t,holds:r})]]:[],[s.maintenance?"End maintenance of":"Maintenance of",()=>Bo(s)],...Gt.map(u=>[D(u[0]),()=>Po(s,u)])];return[...l.map(o("verb",t)),...c.map(o("act",t))]}function wu(){let e=decodeURIComponent(location.hash.slice(1));ze({views:{...E.value.views,[e]:location.hash}}),H(`Saved: ${e}`)}function ku(){let[e,t]=Vn(""),[n,o]=Vn(0);k.tick.value;let s=bu(e),a=Math.min(n,s.length-1),r=c=>{Ke(),c?.act()},l=c=>{let u={ArrowDown:1,ArrowUp:-1}[c.key];if(u)o(Math.max(0,Math.min(s.length-1,a+u)));else if(c.key==="Enter")r(s[a]);else return;c.preventDefault()};return i`<div class="palette">
    <h2 id="dialog-title" class="unseen">Find</h2>
    <input
      autofocus
      role="combobox"
      aria-expanded="true"
      aria-controls="palette-list"
      aria-activedescendant=${`palette-${a}`}
      aria-label="Pages, nodes and verbs"
      placeholder="Pages, nodes, verbs"
      onInput=${_(c=>(t(c),o(0)))}
      onKeyDown=${l}
    />
    <button class="quiet" onClick=${Ke}>Close</button>
    <ul id="palette-list" role="listbox" aria-label="Found">
      ${s.map((c,u)=>i`<li
          id=${`palette-${u}`}
          role="option"
          aria-selected=${String(u===a)}
          onClick=${()=>r(c)}
        >
          ${h(c.label)} <span class="small">${c.hint}</span>
        </li>`)}
    </ul>
    ${!s.length&&i`<p role="status">No match.</p>`}
  </div>`}var Su=[["Ctrl-K  :","find pages, nodes, verbs"],["/","filter or search"],["g then f r b e v s d","pages"],["j k \u2191 \u2193 Home End","row"],["x Shift-\u2193 Ctrl-A","select"],["Enter  Esc","open; close or clear"],["c  y","copy the page or the row as curl, copy the address"],["1 \u2013 9  w l","tab of a node; its run, its log"],["n  N","next, previous line that is searched in a log"],[".","acts on a node"],["t  ?","theme, help"]];function Lr(){J(()=>dt(te,{title:"Shortcuts"},i`<dl class="help">
        ${Su.map(([e,t])=>i`<dt><kbd>${e}</kbd></dt><dd>${t}</dd>`)}
      </dl>`))}var Zt=e=>document.querySelector(e),us=0,xu={":":ps,"/":()=>Zt("input[type=search]")?.focus(),"?":Lr,t:ds,Escape:()=>xt(()=>!0),y:()=>Ce(location.href),w:()=>Zt('[data-key="1"]')?.click(),l:()=>Zt('[data-key="2"]')?.click(),".":()=>Zt(".actions button")?.focus(),c:()=>Ce(Ue("GET",be())),g:()=>{us=performance.now()}};addEventListener("keydown",e=>{if((e.ctrlKey||e.metaKey)&&e.key.toLowerCase()==="k")return e.preventDefault(),ps();let t=e.target.closest("input, textarea, select");if(Nn()||t||!E.value.keys||e.ctrlKey||e.metaKey||e.altKey)return;if(performance.now()-us<1500){us=0;let o=Gn.find(([s])=>s===e.key);if(o)return q(`#${o[2]}`)}if(/^[1-9nN]$/.test(e.key))return Zt(`[data-key="${e.key}"]`)?.click();let n=xu[e.key];if(n)return e.preventDefault(),n()});var Tu={runs:wr,batches:ja,events:kr,erasures:za,stats:Sr,doctor:xr,whoami:Er};function Cu(){let{parts:e}=S.value,[t="nodes",n]=e,o=t==="nodes"?n?br:cr:Tu[t]??_r;return _u(()=>{scrollTo(0,0),document.activeElement===document.body&&document.getElementById("main-content")?.focus()},[t,n]),document.title=`${U(n??t)} \xB7 ironic-lite`,fs(Ar,{children:fs(o,{key:n??t})})}var Rr=document.getElementById("window");Rr.replaceChildren();Eu(fs(Cu,{}),Rr);
