import{useEffect as _u}from"./vendor/hooks.js";import{h as hs,render as Eu}from"./vendor/preact.js";import{useEffect as Hl,useState as ql}from"./vendor/hooks.js";import{h as he}from"./vendor/preact.js";var ys="1.115",ge={enroll:"stable",verifying:"busy",manageable:"stable",available:"stable",active:"stable",error:"stable",inspecting:"busy","inspect wait":"wait","inspect failed":"fail",cleaning:"busy","clean wait":"wait","clean hold":"held","clean failed":"fail",deploying:"busy","wait call-back":"wait","deploy hold":"held","deploy failed":"fail",deleting:"busy",adopting:"busy","adopt failed":"fail",rescue:"stable",rescuing:"busy","rescue wait":"wait","rescue failed":"fail",unrescuing:"busy","unrescue failed":"fail",servicing:"busy","service wait":"wait","service hold":"held","service failed":"fail"},Se=[{target:"active",erases:!0,from:["available","deploy failed"]},{target:"deploy",alias:!0,erases:!0,from:["available","deploy failed"]},{target:"rebuild",erases:!0,from:["active","error","deploy failed"]},{target:"deleted",erases:!0,from:["active","error","wait call-back","deploy failed","rescue","rescue wait","rescue failed","unrescue failed","service wait","service failed"]},{target:"undeploy",alias:!0,erases:!0,from:["active","error","wait call-back","deploy failed","rescue","rescue wait","rescue failed","unrescue failed","service wait","service failed"]},{target:"manage",from:["enroll","available","inspect failed","clean failed","adopt failed"]},{target:"provide",erases:!0,from:["manageable","clean failed"]},{target:"cleaned",alias:!0,erases:!0,from:["manageable","clean failed"]},{target:"available",from:["clean failed"]},{target:"inspect",from:["manageable","inspect failed"]},{target:"abort",from:["inspect wait","clean wait","clean hold","wait call-back","deploy hold","rescue wait","service wait","service hold","service failed"]},{target:"clean",needs:["clean_steps","runbook"],erases:!0,from:["manageable"]},{target:"adopt",from:["manageable","adopt failed"]},{target:"rescue",needs:["rescue_password"],from:["active","rescue","rescue failed","unrescue failed","service failed"]},{target:"unrescue",from:["rescue","rescue failed","unrescue failed"]},{target:"unhold",from:["clean hold","deploy hold","service hold"]},{target:"service",needs:["service_steps","runbook"],erases:!0,from:["active","service hold","service failed"]},{target:"retry",erases:!0,from:["clean failed","deploy failed","service failed"]}],ws="pass_?(word|wd|phrase|code)|pswd|admin_?pass|(^|[_-])pass$|secret|token|credential|authorization|(api|private|access|auth|priv|encryption|encrypted|kg)_?key|fernetkey|sslkey|sshkey|rabbitcookie";import{useState as Rt}from"./vendor/hooks.js";import{h as B}from"./vendor/preact.js";import{useEffect as ma,useLayoutEffect as Ki,useRef as ha,useState as Nn}from"./vendor/hooks.js";import{h as ut}from"./vendor/preact.js";import{signal as Vi}from"./vendor/signals.js";import{useEffect as da,useState as Ao}from"./vendor/hooks.js";import{h as Ie}from"./vendor/preact.js";import Ni from"./vendor/htm.js";import{h as Mi}from"./vendor/preact.js";import{signal as Di}from"./vendor/signals.js";import{signal as ve}from"./vendor/signals.js";import{effect as Ur,signal as tn}from"./vendor/signals.js";var Fr="/v1/nodes";function Zn(e){let[t="",n=""]=(/^#(\/v1\/.*)/s.exec(e)?.[1]??Fr).split(/\?(.*)/s),o=new URLSearchParams,s=history.state?{sel:history.state}:{};for(let[r,l]of new URLSearchParams(n))r.startsWith("~")?s[r.slice(1)]=l:o.append(r,l);let a=t.split("/").slice(2).filter(Boolean).map(Hr);return{path:t,parts:a,query:o,view:s}}function Hr(e){try{return decodeURIComponent(e)}catch{return e}}var S=tn(Zn(location.hash));addEventListener("popstate",()=>S.value=Zn(location.hash));var qr=5550;function v(...e){return["/v1",...e.map(encodeURIComponent)].join("/")}function N(e,t={},n={}){let o=new URLSearchParams(t);for(let[a,r]of Object.entries(n))r&&r.length<qr&&o.append(`~${a}`,r);let s=o.toString().replaceAll("%7E","~");return`#${e}${s?`?${s}`:""}`}function be(e={}){let{path:t,query:n}=S.value,o=Object.entries(e).filter(([s])=>!n.has(s));return N(t,new URLSearchParams([...n,...o])).slice(1)}function q(e,{replace:t,sel:n}={}){history[t?"replaceState":"pushState"](n,"",e),S.value=Zn(e)}function V(e,t){let{path:n,query:o,view:s}=S.value,a=new URLSearchParams(o),r={...s};for(let[l,u]of Object.entries(e))l.startsWith("~")?r[l.slice(1)]=u:u?a.set(l,u):a.delete(l);q(N(n,a,r),{...t,sel:r.sel})}var _s="ironic-lite",ks={theme:"auto",utc:!1,keys:!0,plain:!1,views:{}};function Es(){try{return{...ks,...JSON.parse(localStorage.getItem(_s)??"{}")}}catch{return{...ks}}}var E=tn(Es());function Je(e){E.value={...E.value,...e}}addEventListener("storage",()=>E.value=Es());Ur(()=>{let{theme:e}=E.value;document.documentElement.dataset.theme=e;try{localStorage.setItem(_s,JSON.stringify(E.value))}catch{}});var It=tn(!1),Ts=matchMedia("(max-width: 720px)"),Cs=()=>It.value=Ts.matches;Ts.addEventListener("change",Cs);Cs();var Xn=0,xe=tn(Date.now());function As(e){let t=e?Date.parse(e):NaN;!isNaN(t)&&Math.abs(t-Date.now()-Xn)>1500&&(Xn=t-Date.now())}setInterval(()=>{document.hidden||(xe.value=Date.now()+Xn)},1e3);var Ss=[[86400,"d"],[3600,"h"],[60,"min"]];function G(e){if(e===null)return"";let t=Math.max(0,Math.round(e));for(let[n,[o,s]]of Ss.entries()){if(t<o)continue;let a=Ss[n+1],r=a?Math.floor(t%o/a[0]):0;return`${Math.floor(t/o)} ${s}${r&&a?` ${r} ${a[1]}`:""}`}return e<10?`${e.toFixed(1)} s`:`${t} s`}function Pt(e){return e?Math.max(0,(xe.value-Date.parse(e))/1e3):0}var jr={hour:"2-digit",minute:"2-digit",hourCycle:"h23"},Wr={year:"numeric",month:"short",day:"numeric",timeZoneName:"short"},xs=new Map;function Os(e,t,n){let o=new Date(e);if(isNaN(o.getTime()))return e;let s=JSON.stringify([t,n]),a=xs.get(s)??new Intl.DateTimeFormat(void 0,{...jr,...n,...t&&{timeZone:"UTC"}});return xs.set(s,a),a.format(o)}var Ls=e=>({second:"2-digit",.../\.\d/.test(e)&&{fractionalSecondDigits:3}}),Ye=(e,t)=>Os(e,t,{...Wr,...Ls(e)}),Kr=12*3600*1e3,mt=(e,t,n)=>Os(e,t,n?Ls(e):Date.parse(e)-xe.value>Kr?{weekday:"short"}:{});import{signal as zr}from"./vendor/signals.js";import{signal as Rs}from"./vendor/signals.js";var Vr=8*3600*1e3,ht=new BroadcastChannel("ironic-lite-login"),Ae=null,Xe=0,Gr=60*1e3,Bt=0,Ze=Rs(null),Oe=Rs("");function Qn(){return eo()&&nn(),Ae?{[Ae.name]:Ae.value}:{}}var eo=()=>Ae&&Date.now()-Xe>Vr;function Ns(e,t){e?.value!==Ae?.value&&Bt++,Ae=e,Xe=t,Oe.value=e?e.user:"",e&&(Ze.value=null)}function Ms(e,t){let n=new TextEncoder().encode(`${e}:${t}`),o=`Basic ${btoa(String.fromCharCode(...n))}`;to({name:"Authorization",value:o,user:e})}function Ds(e){to({name:"X-Auth-Token",value:e.trim(),user:"token"})}function to(e){Ns(e,Date.now()),ht.postMessage({kind:"login",held:Ae,usedAt:Xe})}function nn(){to(null)}function Is(){nn(),ht.postMessage({kind:"out"}),location.reload()}function Ps(e){Ze.value=e}function Bs(){if(!(Date.now()-Xe<Gr)){if(eo())return nn();Xe=Date.now(),ht.postMessage({kind:"used"})}}addEventListener("keydown",Bs,!0);addEventListener("pointerdown",Bs,!0);ht.onmessage=({data:e})=>{if(e.kind==="login")return Ns(e.held,e.usedAt);if(e.kind==="out")return location.reload();if(eo())return nn();e.kind==="used"&&(Xe=Date.now()),e.kind==="who"&&Ae&&ht.postMessage({kind:"login",held:Ae,usedAt:Xe})};ht.postMessage({kind:"who"});var Jr=500,Le=class extends Error{status=0;request="";address="";retryAfter=0;constructor(t,n){super(t),Object.assign(this,n)}};function Yr(e){let t=Re(e),{faultstring:n,description:o}=Re(t?.error_message??"")??t??{};return n??o??e.slice(0,Jr)}function Re(e){try{return e.trim()?JSON.parse(e):void 0}catch{return null}}function Ut(e,t,n){return new Le(Yr(t)||`${e.status} ${e.statusText}`,{status:e.status,request:e.headers.get(Us)??"",retryAfter:Number(e.headers.get("Retry-After"))||0,address:n})}var sn=zr(null),so=new URL("..",document.baseURI).href.replace(/\/$/,""),Us="X-OpenStack-Request-Id",oo="omit";async function Qe(e,t,{body:n,headers:o,signal:s}={}){let a=so+t;try{let r=await fetch(a,{method:e,cache:"no-store",redirect:"manual",referrerPolicy:"no-referrer",credentials:oo,signal:s??null,body:n===void 0?null:JSON.stringify(n),headers:{...n!==void 0&&{"Content-Type":"application/json"},"X-OpenStack-Ironic-API-Version":ys,...Qn(),...o}});return sn.value=null,As(r.headers.get("Date")),r}catch(r){throw s?.aborted?r:(sn.value??=new Date,new Le(`No answer from ${a}. Is the service up?`,{address:a}))}}async function _e(e,t,n={}){let o=Bt,s=await Qe(e,t,n);if(s.type==="opaqueredirect"||Xr(s))return Zr(e,t,n);let a=await s.text();if(s.status===401&&o<Bt)return _e(e,t,n);if(s.status===401)return Qr(s,e,t,n);if(!s.ok&&!n.accepts?.includes(s.status))throw Ut(s,a,e+" "+t);let r=s.headers.get("Content-Type")?.includes("json");return{status:s.status,body:r&&a?JSON.parse(a):a||null,tag:s.headers.get("ETag")??"",link:s.headers.get("Link")??""}}function Xr(e){return e.status<404&&!e.headers.has(Us)&&!!e.headers.get("Content-Type")?.includes("html")}function Zr(e,t,n){return oo==="same-origin"?(location.reload(),new Promise(()=>{})):(oo="same-origin",_e(e,t,n))}function Qr(e,t,n,o){let s=e.headers.get("WWW-Authenticate")??"";return Ps(/^basic/i.test(s)?"basic":"keystone"),new Promise(a=>{let r=Ze.subscribe(l=>{l===null&&(queueMicrotask(()=>r()),a(_e(t,n,o)))})})}var no=new Map;async function an(e){let t=Bt,n=no.get(t)??W("/v1/whoami").then(({body:s})=>s.rules,()=>null);no.set(t,n);let o=await n;return o||no.delete(t),!o||o.includes(e)}var W=(e,t)=>_e("GET",e,{signal:t});async function*$t(e,t,n){let o=e||void 0;for(;o;){let{body:s}=await W(o,n);yield s[t],o=s.next&&gt(s.next)}}function gt(e){let{pathname:t,search:n}=new URL(e,so);return t.slice(t.indexOf("/v1"))+n}function et(){return crypto.getRandomValues(new Uint32Array(4)).join("-")}var ei=3,ti="respond-async, wait=10";async function rn({method:e,path:t,body:n,tag:o,key:s,onWait:a}){let r={"Idempotency-Key":s??et()};o&&(r["If-Match"]=o);for(let l=1;;l+=1)try{return await _e(e,t,{headers:r,body:n})}catch(u){let c=u instanceof Le?ni(u):null;if(c===null||l===ei)throw u;Fs(u)&&(r.Prefer=ti),a?.(c,u.message),await oe(c*1e3)}}var Ee=({status:e})=>!e||e>=500,Fs=e=>e instanceof Le&&e.status===409&&e.retryAfter>0;function ni(e){return!e.status||e.status===503||Fs(e)?e.retryAfter||1:null}function Hs(e){let t=/<([^>]+)>\s*;\s*rel="?monitor"?/.exec(e);return t?.[1]?gt(t[1]):null}var ln=new RegExp(ws,"i");function on(e){return`'${e.replaceAll("'","'\\''")}'`}function oi(e){let t=[];return on(JSON.stringify(e,function(o,s){let a=o==="value"?String(this.path).replace(/.*\//,""):o;return typeof s!="string"||!s||!ln.test(a)?s:(t.push(a.toUpperCase().replace(/[^A-Z0-9]/g,"_")),`${t.length-1}`)})).replaceAll(/\\u0001(\d+)\\u0001/g,(o,s)=>`'"$${t[s]}"'`)}function si(){let[e]=Object.keys(Qn());return e==="Authorization"?['-u "$USER"']:e?['-H "X-Auth-Token: $OS_TOKEN"']:[]}function Fe(e,t,{body:n,headers:o={},stream:s=!1,file:a,each:r}={}){let l=["curl",s?"-sN":"-sS",...si()];a&&l.push("-fo",a),/[?&]wait=/.test(t)&&l.push("--retry","5"),e!=="GET"&&l.push("-X",e);let u={...o};n!==void 0&&(u["Content-Type"]="application/json");for(let[d,p]of Object.entries(u))l.push("-H",on(`${d}: ${p}`));l.push(`"$api"${on(t).replace("{node}",`'"$node"'`)}`),n!==void 0&&l.push("-d",oi(n));let c=l.join(" ");return`api=${on(so)}
${r?`for node in ${r.join(" ")}; do ${c}; done`:c}`}var oe=e=>new Promise(t=>setTimeout(t,e));import{signal as ro}from"./vendor/signals.js";var io=ro(!1),[,ai=""]=/\/a\/([^/]+)\//.exec(import.meta.url)??[];async function ri(){try{let e=await fetch(new URL("./",document.baseURI),{method:"HEAD",cache:"no-store"}),t=e.headers.get("ETag");e.ok&&t&&(io.value=!t.includes(ai))}catch{}}var lo=4;async function co(e){if(!navigator.locks)return ui(e);for(let t=0;t<lo;t+=1){let n=await ii(`ironic-lite-stream-${t}`);if(n)return n}return null}var ii=e=>new Promise(t=>{let n=o=>o?new Promise(s=>t(()=>s(null))):t(null);navigator.locks.request(e,{ifAvailable:!0},n).catch(()=>t(null))}),li=80,uo=Math.random(),un=0,Ne=new Set,dn=new Map,po=new BroadcastChannel("ironic-lite-streams");po.onmessage=({data:e})=>{e.kind==="ask"?vt():(dn.set(e.me,e),ci())};addEventListener("pagehide",()=>{Ne.clear(),un=0,vt()});var vt=()=>po.postMessage({kind:"have",me:uo,streams:Ne.size,claims:un});function ci(){let e=0;for(let[n,o]of dn)n<uo&&(e+=o.streams);let t=Math.min(Ne.size,e+Ne.size-lo);for(let n of[...Ne].slice(0,Math.max(0,t)))Ne.delete(n),n();t>0&&vt()}async function ui(e){un+=1,dn.clear(),vt(),po.postMessage({kind:"ask"}),await oe(li);let t=Ne.size;for(let[s,a]of dn)t+=a.streams+(s<uo?a.claims:0);un-=1;let n=()=>e(),o=t<lo;return o&&Ne.add(n),vt(),o?()=>{Ne.delete(n),vt()}:null}var fo=ro("none"),ao=new Map;function bt(e,t){t?ao.set(e,t):ao.delete(e);let n=new Set(ao.values()),o=["stream","wait","poll","again"].find(s=>n.has(s));fo.value=o??(n.size?"off":"none")}var mo=ro(0),di=5e3,pi=2e4,fi=15,yt=5e3,mi=1e4,cn=500,hi=3e4,$i=1e4,gi=1e4,He=class{constructor(t,n,o,s={}){this.cursor=t,this.onEvents=n,this.onGap=o,this.filter=s,this.way="stream",this.pause=cn,this.lost=!1,this.abort=new AbortController,this.rest=new AbortController,this.onHide=()=>this.hide(),document.addEventListener("visibilitychange",this.onHide),this.run()}stop(){this.abort.abort(),this.rest.abort(),clearTimeout(this.hiding),document.removeEventListener("visibilitychange",this.onHide),bt(this)}hide(){clearTimeout(this.hiding),document.hidden&&(this.hiding=setTimeout(()=>this.rest.abort(),gi))}async run(){for(;!this.abort.signal.aborted;)try{if(this.rest.signal.aborted&&await this.seen(),this.abort.signal.aborted)return;await this.more(),this.pause=cn}catch(t){if(this.abort.signal.aborted)return;this.rest.signal.aborted||await this.failed(t)}}async seen(){for(;document.hidden&&!this.abort.signal.aborted;)await new Promise(t=>document.addEventListener("visibilitychange",t,{once:!0}));this.rest=new AbortController}async more(){if(this.way==="poll")return this.page("poll");if(this.way==="stream"&&this.onGap&&!await an("baremetal:event:list_all"))return this.again();let{rest:t}=this,n=await co(()=>t.abort());if(!n)return this.page("poll");try{await(this.way==="stream"?this.stream():this.page("wait"))}finally{n()}}async again(){this.abort.signal.aborted||bt(this,"again"),await oe(mi),this.abort.signal.aborted||this.onGap?.()}async failed(t){let n=t instanceof Le?t:null;if(t instanceof pn){this.way=this.way==="stream"?"wait":"poll";return}this.way==="wait"&&n?.status===504&&(this.way="poll"),bt(this,"off"),this.lost=!0;let o=(n?.retryAfter??0)*1e3;await oe(Math.max(o,this.pause*(.5+Math.random()))),this.pause=Math.min(hi,this.pause*2)}path(t){return`/v1/events?${new URLSearchParams({...this.filter,since:this.cursor,...t})}`}async stream(){let t=new AbortController,n=()=>t.abort(),o=AbortSignal.any([this.abort.signal,this.rest.signal]);if(o.aborted)return;o.addEventListener("abort",n);let s=setTimeout(n,di),a=!1,r=performance.now();try{let l=await Qe("GET",this.path({follow:"true"}),{signal:t.signal});if(l.status===401)return bt(this,"off"),void await W(this.path({limit:"1"}),o);if(!l.ok||!l.body)throw Ut(l,"","");for await(let u of ho(l.body))clearTimeout(s),s=setTimeout(n,pi),a=!0,this.pause=cn,this.abort.signal.aborted||bt(this,"stream"),this.take(u.map(c=>JSON.parse(c)));if(this.lost=!0,performance.now()-r<cn)throw new Le("no stream")}catch(l){throw!a&&t.signal.aborted&&!o.aborted?new pn:l}finally{clearTimeout(s),o.removeEventListener("abort",n),t.abort()}}async page(t){let n=t==="wait"?{wait:String(fi)}:{limit:"1000"},o=AbortSignal.any([this.abort.signal,this.rest.signal]),{body:s}=await W(this.path(n),o);bt(this,t),s.trimmed&&this.onGap?.(),this.take([...s.events,{cursor:s.cursor}]),t==="poll"&&await oe(yt)}take(t){this.lost&&ri(),this.lost=!1,mo.value=performance.now();let n=t.filter(s=>s.kind),o=t.at(-1);o&&(this.cursor=o.cursor),t.some(s=>s.trimmed)||n.length>$i?this.onGap?.():n.length&&this.onEvents(n)}};function wt(e,t,n){let o=new AbortController,s=()=>o.abort(),a=()=>{W(e,o.signal).then(({body:r})=>{if(o.signal.aborted)return;let l=t(r);s=()=>l.stop()},r=>{o.signal.aborted||(n?.(r),Ee(r)&&setTimeout(a,yt))})};return a(),()=>s()}var pn=class extends Error{};async function*ho(e){let t=e.pipeThrough(new TextDecoderStream).getReader(),n="";for(;;){let{value:o,done:s}=await t.read();if(s)return;let a=(n+o).split(`
`);n=a.pop()??"",a.length&&(yield a.filter(Boolean))}}var bi=["uuid","name","provision_state","target_provision_state","provision_updated_at","power_state","maintenance","fault","resource_class","driver","conductor_group","conductor","owner","lessee","shard","retired","protected","instance_name","instance_uuid","data_state"],vi=1e3,$n=2e4,yi=150,go=1e3,wi=50,ki=5e3,Ks=1e4,Si=3e3,xi=2e3,_i=5e3,Ei=/^(provision|fault|overdue|step|stop)/,ae=new Map,gn=ve(0),bn=ve(0),kt=ve("loading"),vn=ve(null),bo=ve(!1),yn=ve(null),Vs=ve(new Map),Gs=ve(new Map),So=ve(new Map),xo=ve(new Map),k={heard:{count:0},nodes:ae,tick:gn,slowTick:bn,status:kt,counts:vn,narrow:bo,failure:yn,under:Vs,failed:Gs,overdue:So,holds:xo},qs=!1,vo=!1,tt=new Set,hn=0,zs=0,Js=0,Ys=-1/0,fn=0,mn=0,Ft="",yo=0,wn=e=>ge[e.provision_state]??"stable";function Ht(){if(fn)return;let e=()=>{cancelAnimationFrame(fn),clearTimeout(t),fn=0,gn.value+=1};fn=requestAnimationFrame(e);let t=setTimeout(e,wi)}setInterval(()=>{js!==gn.value&&(bn.value=js=gn.value)},1e3);var js=0;async function kn(){qs||(qs=!0,wt("/v1/events?since=now",({cursor:e})=>(nt(),new He(e,Ti,()=>nt())),e=>yn.value=e))}async function nt(){let e=++mn,t=new Set;try{let n=await Xs(),o=n?Ft?`${wo()}&${Ft}`:"":wo();for await(let s of $t(o,"nodes")){if(e!==mn)return;for(let a of s)t.add(ea(a).uuid);if(kt.value==="loading"&&(bn.value+=1),Ht(),t.size>$n)break}bo.value=n&&(!Ft||t.size>$n),bo.value&&t.clear(),kt.value=n?"partial":"whole",yn.value=null}catch(n){if(e!==mn)return;yn.value=n,setTimeout(()=>e===mn&&nt(),ki);return}for(let n of ae.keys())t.has(n)||ae.delete(n);bn.value+=1,Ht(),await ta()}async function Xs(){let{body:e}=await W("/v1/stats/nodes?by=provision_state"),t=e.of>$n,n=e.counts.map(o=>[o.provision_state,o.count]);return vn.value=t?new Map(n):null,clearTimeout(yo),t&&(yo=setTimeout(Zs,Ks)),t}function Zs(){let e=()=>yo=setTimeout(Zs,Ks),t=String([...vn.value??[]]);document.hidden?e():Xs().then(n=>{(!n||String([...vn.value??[]])!==t)&&nt()},e)}function Qs(e){Ft!==e&&(Ft=e,kt.value==="partial"&&nt())}var wo=()=>`/v1/nodes?limit=${vi}&fields=${bi.join(",")}`;function ea(e){delete e.links;let t=ae.get(e.uuid);return t?.name!==e.name&&(vo=!0),e.text=ia(e),t?Object.assign(t,e):ae.set(e.uuid,e),e}function Ti(e){for(let t of e){if(!t.node)continue;k.heard.count+=1;let n=ae.get(t.node);t.kind==="node_deleted"?ae.delete(t.node):n&&t.kind==="provision"&&t.after?(n.provision_state=t.after,n.provision_updated_at=t.at,n.text=ia(n)):n&&t.kind==="power"&&t.after&&(n.power_state=t.after),(n||kt.value!=="partial")&&tt.add(t.node),t.kind.startsWith("hold_")?Js||=setTimeout(na,100):Ei.test(t.kind)&&(zs||=setTimeout(ta,Math.max(xi,Ys+_i-performance.now())))}hn||=setTimeout(ko,go),Ht()}async function ko(){if(hn=0,tt.size>Si)return tt.clear(),nt();let e=[...tt].slice(0,yi);if(e.length){for(let t of e)tt.delete(t);tt.size&&(hn=setTimeout(ko,go));try{let{body:t}=await W(`${wo()}&uuid=${e.join(",")}`),n=new Set(e);for(let o of t.nodes)n.delete(ea(o).uuid);for(let o of n)ae.delete(o);kt.value==="whole"&&ae.size>$n&&nt(),Ht()}catch{for(let t of e)tt.add(t);hn||=setTimeout(ko,5*go)}}}var Ci="uuid,node_uuid,verb,state,place,eta,stop",Ai=[[Vs,`state=running,waiting&fields=${Ci}`],[Gs,"state=failed,aborted&latest=true"],[So,"overdue=true"]];async function ta(){zs=0,Ys=performance.now(),await Promise.allSettled([...Ai.map(([e,t])=>Oi(e,t)),na()]),Ht()}async function Oi(e,t){let n=new Map;for await(let o of $t(`/v1/runs?limit=1000&${t}`,"runs"))for(let s of o)n.set(s.node_uuid,s);e.value=n}async function na(){Js=0;let e=new Map;for await(let t of $t("/v1/holds?limit=1000","holds"))for(let n of t)e.set(n.node_uuid,[...e.get(n.node_uuid)??[],n]);xo.value=e}var Li=new Intl.Collator(void 0,{numeric:!0});function oa(){if(vo){let e=[...ae.values()].sort((t,n)=>Li.compare(t.name??t.uuid,n.name??n.uuid));ae.clear();for(let t of e)ae.set(t.uuid,t);vo=!1}return[...ae.values()]}var _o=["stable","busy","wait","held","fail"];function sa(e){return So.value.has(e.uuid)?0:wn(e)==="fail"?1:e.fault?2:xo.value.has(e.uuid)?3:7-_o.indexOf(wn(e))}var ot=ve(new Set);S.subscribe(({view:{sel:e}})=>{ot.value=new Set(e?e.split(","):[])});var Eo=e=>V({"~sel":[...e].join(",")},{replace:!0}),Sn=()=>ot.value.size&&Eo(new Set),xn=()=>[...ot.value].flatMap(e=>ae.get(e)??[]),aa=e=>/^(true|1|yes|on|t|y)$/i.test(e),qe=(e,t,n)=>String(e[n]??"")===t,Ws=(e,t,n)=>!!e[n]===aa(t),$o=(e,t,n)=>t.split(",").includes(e[n]),ra={provision_state:$o,shard:$o,uuid:$o,resource_class:qe,driver:qe,conductor:qe,owner:qe,lessee:qe,fault:qe,instance_uuid:qe,data_state:qe,conductor_group:(e,t)=>String(e.conductor_group??"").toLowerCase()===t.toLowerCase(),maintenance:Ws,retired:Ws,associated:(e,t)=>!!e.instance_uuid===aa(t)},Ri=["name","uuid","provision_state","resource_class","conductor","instance_name"],ia=e=>Ri.map(t=>e[t]).join(`
`).toLowerCase();function _n(e,t){let n=[...e].flatMap(([s,a])=>{let r=ra[s];return r?[l=>r(l,a,s)]:[]}),o=t.toLowerCase().split(/\s+/).filter(Boolean);return s=>n.every(a=>a(s))&&o.every(a=>s.text.includes(a))}function En(e){return[...e.keys()].filter(t=>!(t in ra))}var i=Ni.bind(Mi),la=4096,Ii=/\u001b\[[0-9;?]*[ -/]*[@-~]/g,Pi=/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;function U(e){let t=typeof e=="string"?e:e==null?"":JSON.stringify(e);return(t.length>la?`${t.slice(0,la)} \u2026`:t).replace(Ii,"").replace(Pi,o=>`\u2039U+${o.charCodeAt(0).toString(16).toUpperCase().padStart(4,"0")}\u203A`)}var h=e=>i`<bdi>${U(e)}</bdi>`,M=({name:e,uuid:t})=>e??t,je=e=>[...e].reduce((t,n)=>t+n,0),P=(e,t="node")=>`${e} ${t}${e===1?"":"s"}`,Te=e=>N(v("nodes",M(e))),ye=(e,t)=>i`<a href=${N(e)}>${h(t)}</a>`,ue=e=>ye(v("nodes",M(e)),M(e)),_=e=>t=>e(t.target.value),F=(e,{class:t,key:n,...o})=>i`<label class=${t} key=${n}>${e} <input ...${o} /></label>`,st=(e,t,n)=>i`<label class="block"
  ><input type="checkbox" checked=${n} onInput=${o=>t(o.target.checked)} /> ${e}</label
>`,j=(e,t,n,o)=>i`<label>${e} <select onChange=${_(n)}>
    ${o.map(s=>{let[a,r]=Array.isArray(s)?s:[s,s];return i`<option value=${a} selected=${a===t}>${U(r)}</option>`})}
  </select></label>`;function le({at:e,ago:t=!1}){if(!e)return null;let{utc:n}=E.value;return i`<time datetime=${e} title=${Ye(e,n)}
    >${G(Pt(e))}${t?" ago":""}</time
  >`}var K=e=>e&&i`<time datetime=${e} title=${Ye(e,!0)}>${Ye(e,E.value.utc)}</time>`,To={stable:"\u25CF",busy:"\u25D0",wait:"\u25D4",held:"\u25A0",fail:"\u25B2"},Bi={done:"\u2713",complete:"\u2713",erased:"\u2713",partial:"\u25B2",failed:"\u25B2",aborted:"\xD7",running:"\u25D0",waiting:"\u25D4",held:"\u25A0",pending:"\u25CB",kept:"\u21B7",waived:"\u293C",skipped:"\u293C",starting:"\u25CC",paused:"\u25A0",refused:"\xD7",ok:"\u2713",warning:"!",unknown:"?"},Ui={active:"Deploy",deleted:"Undeploy",unhold:"Go on",available:"Make available",rebooting:"Reboot","soft power off":"Shut down","soft rebooting":"Reboot softly"},at=/erase/,qt=e=>Se.some(t=>t.target===e&&t.erases),Me={provide:"makes it available, with automated cleaning",clean:"runs the steps that you choose",active:"installs an instance",deleted:"removes the instance, with automated cleaning",manage:"takes it into management; cleaning needs this",available:"makes it available WITHOUT cleaning",inspect:"reads the hardware",rebuild:"installs the instance again",adopt:"takes over a machine that is in use",service:"runs the steps that you choose beside the instance",rescue:"boots a ramdisk for repairs",unrescue:"boots the instance again",retry:"goes on where the run has failed",abort:"ends the run",unhold:"goes on with the next step"},D=e=>Ui[e]??e.charAt(0).toUpperCase()+e.slice(1),ua={data:"DESTROYS DATA",volumes:"destroys volumes",settings:"changes settings",firmware:"changes firmware",keys:"changes keys"},Tn={erase:"what may erase the disks",use:"deploy, rebuild and allocations",verbs:"every verb",power:"power changes",forget:"deletion of the node"},z=(e,t={})=>U(e).replace(/\b[\da-f]{8}-[\da-f-]{27}\b/g,n=>n===t.uuid?M(t):k.nodes.get(n)?.name??n).replace(/(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) UTC/g,(n,o,s)=>Ye(`${o}T${s}Z`,E.value.utc)).replace(/,( just now| \d+ \w+ ago)|, whose last heartbeat came [^,]*,| for \d+ \w+(?=, at step |\. The conductor )/g,"").replace(/(?<=batch )[\w-]{36} \((.*?)\)/g,"$1").replace(/ Possible (targets )?now: [^.]*\.$/,"").replace(/with DELETE \S+maintenance/,'by "End maintenance\u2026"').replace(/Node \S+ is held \(([\w-]+).*?\): /g,"Held ($1): ").replace(/(held \([\w-]+\), which blocks) ([a-z, ]+):/g,(n,o,s)=>`${o} ${s.split(", ").map(a=>Tn[a]??a).join(", ")}:`).replace(/It blocks (\S+), and so .*?\. End the hold with DELETE \S+ first\./g,(n,o)=>`It blocks ${Tn[o]??o}. Press "Lift hold\u2026" on the page of the node first.`),We="Overdue: past its deadline, or longer than 15 minutes and than 3 times what 9 of 10 such steps took.",Cn=e=>e&&i`${at.test(e.failure?.step)&&e.data_state!=="clean"&&"The disks may be partly erased. "}${e.do&&i`<strong>${h(z(e.do))}</strong>`}`;function xt({ends_at:e,late_at:t=e},n=e===t){let o=a=>mt(a,E.value.utc),s=`at the latest ${o(t)}`;return xe.value<Date.parse(e)?`~${o(e)}${n?"":`, ${s}`}`:xe.value<Date.parse(t)?s:`late by ${G(Pt(t))}`}var jt=["clean","dirty","unknown"],rt=[...Object.keys(ge).filter(e=>ge[e]==="fail"),"error"],An=e=>[...e].map(([t,n])=>i`<button
  class="pressed" onClick=${()=>V({[t]:""})}>
  ${n===rt.join()?"failed":i`${t}: ${h(n)}`} <span aria-label="remove">×</span></button>`),it=({error:e})=>e?.cause?.text??e?.text;function Wt({stop:e,place:t}={}){if(!e||e.progress==="done")return"";let n=e.after==null||e.after===t?.ordinal?"this step":`step ${e.after+1}`;return`${e.how==="abort"?"is aborted":"stops"} after ${n}`}var ee=e=>`${e.interface}.${e.step}`;function Kt(e){let{power:t,target:n}=e.request??{};return e.name??`${D(t??n??"batch")} \xB7 ${P(je(e.waves))}`}function De({state:e}){let t=ge[e??""]??"stable";return i`<span class=${`state ${t}`}
    ><span class="sign" aria-hidden="true">${To[t]}</span>${h(e)}</span
  >`}function X({result:e,word:t=!0}){return i`<span class=${`result ${e}`}
    ><span class="sign" aria-hidden="true">${Bi[e]??"\u25CB"}</span>${t?` ${e}`:i`<span class="unseen">${e}</span>`}</span
  >`}var St=Di([]),Fi=8e3,Hi=4,qi=1e3,ca=0;function H(e,t=""){St.value=[...St.value.filter(n=>n.to),{text:e,to:t}].slice(-Hi),clearTimeout(ca),ca=setTimeout(()=>_t(n=>!n.to),Fi)}var _t=e=>St.value=St.value.filter(t=>!e(t));async function Ce(e){let t=navigator.clipboard?.writeText(e).then(()=>!0,()=>!1);await Promise.race([t,oe(qi)])||ji(e)?H("Copied."):H(`The browser forbids this page to copy. Copy it yourself: ${e}`,location.hash)}function ji(e){let t=document.activeElement,n=document.createElement("textarea");n.value=e,n.className="unseen",(document.querySelector("dialog[open]")??document.body).append(n),n.select();let o=document.execCommand("copy");return n.remove(),t?.focus(),o}function I({method:e="GET",path:t,body:n,headers:o,stream:s,each:a,label:r="curl"}){Oe.value;let l=Fe(e,t,{body:n,headers:o,stream:s,each:a});return i`<button
    type="button"
    class="quiet curl"
    title=${l}
    aria-label=${`Copy as curl: ${e} ${t}`}
    onClick=${()=>Ce(l)}
  >
    <span aria-hidden="true">${">_"}</span> ${r}
  </button>`}var lt=1e4,Co={body:null,tag:"",fault:null};function R(e,{again:t,each:n=0}={}){let[o,s]=Ao(Co),[a,r]=Ao(0),l=()=>r(u=>u+1);return da(()=>{if(e===null)return;let u=new AbortController,c=0;return W(e,u.signal).then(({body:d,tag:p})=>s({body:d,tag:p,fault:null,from:e}),d=>{if(u.signal.aborted)return;let p=Ee(d);s(f=>({...p&&f.from===e?f:Co,fault:d,from:e})),p&&(c=setInterval(()=>document.hidden||l(),yt))}),()=>{clearInterval(c),u.abort()}},[e,a,t]),da(()=>{if(!n)return;let u=setInterval(()=>document.hidden||l(),n);return()=>clearInterval(u)},[n]),{...o.from===e?o:Co,reload:l}}var Pe=(e,t)=>e&&Ie(de,{fault:e,path:t});function de({fault:e,path:t}){return i`<div class="fault" role="alert">
    <p>
      <span class="sign" aria-hidden="true">▲</span> ${h(z(e.message))}
    </p>
    <p class="small">
      ${e.status?`HTTP ${e.status}`:"No answer"} ${e.address}
      ${e.request&&i`<button class="quiet" onClick=${()=>Ce(e.request)}>
        ${h(e.request)}
      </button>`}
      ${t&&Ie(I,{path:t})}
    </p>
  </div>`}function pe({rows:e=5}){return i`<div class="skeleton" aria-label="Loading">
    ${Array.from({length:e},()=>i`<div />`)}
  </div>`}function re({path:e,again:t,each:n=0,draw:o,absent:s}){let[a,r]=Ao({from:e,at:e}),l=a.from===e?a.at:e,{body:u,fault:c}=R(l,{again:t,each:n});if(s&&c?.status===404)return i`<p role="status">${s}</p>`;if(!u)return Pe(c,l)??Ie(pe,{});let d=u.next?gt(u.next):e;return i`${Pe(c,l)}<p class="tools">${Ie(I,{path:l})}</p>
    ${o(u)}
    ${d!==l&&i`<button onClick=${()=>r({from:e,at:d})}>${u.next?"Next":"First"} page</button>`}`}function Ke({head:e,rows:t,label:n}){return t.length?i`<div class="scroll" tabindex="0" role="region" aria-label=${n}>
    <table>
      <thead>
        <tr>${e.map(o=>i`<th scope="col">${o}</th>`)}</tr>
      </thead>
      <tbody>
        ${t.map(o=>i`<tr>${o.map((s,a)=>i`<td data-label=${e[a]}>${Wi(s)}</td>`)}</tr>`)}
      </tbody>
    </table>
  </div>`:i`<p>There are none.</p>`}var fe=({label:e,head:t,of:n,row:o,...s})=>Ie(re,{...s,draw:a=>Ie(Ke,{label:e,head:t,rows:a[n].map(o)})}),Et="Copy",On=(...e)=>Ie(I,{path:v(...e)}),Wi=e=>e===""?null:typeof e=="string"?h(e):e;function me({of:e}){if(e===null||typeof e!="object")return i`<code>${h(e??"null")}</code>`;if(Array.isArray(e)&&e.length&&e.every(n=>typeof n=="string"))return i`<code>${h(e.join(", "))}</code>`;let t=Object.entries(e);return t.length?i`<dl class="tree">
    ${t.map(([n,o])=>i`<dt>${h(n)}</dt>
        <dd>${Ie(me,{of:o})}</dd>`)}
  </dl>`:i`<code>${Array.isArray(e)?"[]":"{}"}</code>`}var pa=["ok","unknown","warning","failed"],Ln=({checks:e})=>i`<ul class="checks">
  ${e.sort((t,n)=>pa.indexOf(n.status)-pa.indexOf(t.status)).map(t=>i`<li>
    ${Ie(X,{result:t.status,word:!1})} <strong>${t.name}</strong>
    <span class="small">${h(t.where??"")}</span> ${h(t.text)}
    ${t.do&&i`<p class="do">${h(t.do)}</p>`}
  </li>`)}
</ul>`;var Tt=Vi(null);function J(e){Tt.value=e}function Ve(){Tt.value=null}var fa="";S.subscribe(e=>{Ve(),e.path!==fa&&(fa=e.path,document.querySelectorAll(".menu").forEach(t=>t.removeAttribute("open")),_t(t=>!t.to))});var Mn=()=>!!document.querySelector("dialog[open]");function $a(){let e=Tt.value;return e&&ut(Gi,{key:e,draw:e})}function Gi({draw:e}){let t=ha(null);return Ki(()=>{let o=t.current;return o?.showModal(),()=>o?.close()},[]),i`<dialog ref=${t} aria-labelledby="dialog-title" onClose=${()=>Tt.value===e&&Ve()}>
    ${e()}
  </dialog>`}function Dn({name:e,children:t}){let n=({currentTarget:r})=>{r.open=!1,r.firstElementChild.focus()};return i`<details class="menu" onKeyDown=${r=>{r.key!=="Escape"||!r.currentTarget.open||(r.stopPropagation(),n(r))}} onFocusOut=${({relatedTarget:r,currentTarget:l})=>{l.contains(r)||(l.open=!1)}} onClickCapture=${r=>r.target.closest("button")&&n(r)}>
    <summary>${e}</summary><div>${t}</div>
  </details>`}var Rn={body:null,tag:""},zi=1e3;function Ji(e,t,n){let[o,s]=Nn(Rn);return ma(()=>{let a=new AbortController,r=async()=>{let{body:l,tag:u}=await W(e,a.signal);s({body:l,tag:u}),!(!t||!l.reservation)&&(await oe(zi),a.signal.aborted||await r())};return e&&r().catch(l=>a.signal.aborted||n(l)),()=>a.abort()},[e]),[o,s]}function ie({of:e,waits:t=!1,seen:n,...o},s,a=r=>r){let r=ha(et()),l={busy:!1,fault:null,now:Rn},[u,c]=Nn(l),[d,p]=Ji(n?void 0:e,t,O=>c({...l,fault:O})),f=n??d,m=e?{...o,tag:f.tag}:o,$=async O=>{let w=Tt.value;c({...l,busy:!0});try{let T=await rn({...m,...O&&{tag:O},key:r.current});r.current=et(),c(l),Tt.value===w&&Ve(),s(T)}catch(T){let b=T;b.status&&(r.current=et());let C=e&&b.status===412?await W(e).catch(()=>Rn):Rn;c({busy:!1,fault:a(b),now:C})}};ma(()=>c(O=>O.fault?l:O),[JSON.stringify(o.body)]);let y={"Idempotency-Key":r.current};m.tag&&(y["If-Match"]=m.tag);let g=u.now.body&&ut(Xi,{seen:f.body??{},now:u.now.body,onMine:()=>(p(u.now),void $(u.now.tag)),onTheirs:()=>(c(l),Ve())}),A=t?f.body?.reservation:null;return{...u,choice:g,holder:A,known:!g&&(!e||!!f.tag&&!A),send:()=>$(m.tag),request:{...m,headers:y}}}var Yi=/_at$|^(links|reservation)$/;function Oo({seen:e,now:t}){let n=s=>h(s??"null"),o=Object.keys(t).filter(s=>s in e&&!Yi.test(s)&&JSON.stringify(e[s])!==JSON.stringify(t[s]));return i`<dl class="tree" aria-label="What has changed">
    ${o.map(s=>i`<dt>${s}</dt><dd>${n(e[s])} → ${n(t[s])}</dd>`)}
  </dl>`}function Xi({seen:e,now:t,onMine:n,onTheirs:o}){return i`${ut(Oo,{seen:e,now:t})}
    <div class="actions"><button type="button" onClick=${n}>Use mine</button>
      <button type="button" onClick=${o}>Take theirs</button></div>`}function te(e){let{title:t,note:n,fault:o,request:s,button:a,danger:r,ready:l=!0,known:u=!0,busy:c,send:d,more:p}=e,f=l&&u&&!c;return i`<form method="dialog" onSubmit=${$=>{$.preventDefault(),f&&d?.()}}>
    <header class="dialog-head">
      <h2 id="dialog-title">${U(t)}</h2>
      ${n&&i`<span class="small">${n}</span>`}
    </header>
    ${e.children} ${o&&ut(de,{fault:o})} ${e.choice}
    ${e.holder&&i`<p role="status">${h(e.holder)} works on this node. The window waits for it.</p>`}
    <footer>
      ${s&&ut(I,s)}
      <button type="button" autofocus onClick=${Ve}>${d?"Cancel":"Close"}</button>
      ${p}
      ${d&&a&&i`<button class=${r?"danger":"primary"} disabled=${!f}>${a}</button>`}
    </footer>
  </form>`}function ga(){J(()=>ut(Zi,{}))}function Zi(){let[e,t]=Nn(""),[n,o]=Nn({}),s=R("/v1/drivers"),a=(s.body?.drivers??[]).map(f=>f.name),r=e||a[0],l=R(r?v("drivers",r,"properties"):null),u=Object.entries(l.body??{}),c=ie({method:"POST",path:"/v1/nodes",body:{...n,driver:r}},f=>{q(Te(f.body)),H("The node is enrolled.")}),d=f=>_(m=>o({...n,driver_info:ct(n.driver_info??{},f,m)})),p={...c,fault:c.fault??s.fault??l.fault,title:"Enroll a machine",button:"Enroll",ready:!!r};return ut(te,p,i`
    <div class="form-grid">
      ${F("Name",{autocomplete:"off",onInput:_(f=>o(ct(n,"name",f)))})}
      ${j("Driver",r,f=>(t(f),o(ct(n,"driver_info",""))),a)}
      ${u.filter(([,f])=>/required/i.test(f)).map(([f,m])=>F(f,{key:f,title:m,type:ln.test(f)?"password":"text",autocomplete:ln.test(f)?"new-password":"off",onInput:d(f)}))}
    </div>`)}function ct(e,t,n){let{[t]:o,...s}=e;return n?{...s,[t]:n}:s}import{useState as Lo}from"./vendor/hooks.js";import{h as Ct}from"./vendor/preact.js";var ba={freeze:["freeze: no changes",["verbs","power","forget"],"abort, maintenance, changes of fields"],legal:["legal: keep the data",["erase","forget"],"power changes, inspect, manage, rescue"],hardware:["hardware: no new user",["use"],"everything else: ERASING by clean, provide or undeploy, power changes, deletion of the node"]},va="no login",Ro=e=>e.map(t=>Tn[t]??t).join("; "),No={kind:"freeze",reason:""};function Mo({body:e,onChange:t}){let n=E.value.utc?"Z":"",o=_(r=>t(ct(e,"until",r&&new Date(r+n).toISOString()))),[,s=[],a]=ba[e.kind]??[];return i`<div class="form-grid">
    ${j("Kind",e.kind,r=>t({...e,kind:r}),Object.entries(ba).map(([r,[l]])=>[r,l]))}
    ${F("Reason",{required:!0,value:e.reason,onInput:_(r=>t({...e,reason:r}))})}
    ${F(`Until (optional${n&&", UTC"})`,{type:"datetime-local",onInput:o})}
  </div>
  <p role="status"><strong>Blocks</strong> ${Ro(s)}. <strong>Still allows</strong> ${a}.</p>`}function In(e){J(()=>Ct(Qi,e))}function Qi({own:e,name:t,reload:n}){let[o,s]=Lo(No),a=ie({method:"POST",path:`${e}/holds`,body:o,of:e},()=>{H(`${t} is held.`),n?.()}),r=`Hold ${t}`;return Ct(te,{...a,title:r,button:r,ready:!!o.reason},Ct(Mo,{body:o,onChange:s}))}function Be(e){J(()=>Ct(el,e))}function el({own:e,name:t,reload:n,holds:o,chosen:s=o[0]?.uuid}){let[a,r]=Lo(s),[l,u]=Lo(""),c=o.find(g=>g.uuid===a)??{},d=o.filter(g=>g!==c),p=d.flatMap(g=>g.blocks);p.includes("verbs")&&p.push("use","erase");let f=(c.blocks??[]).filter(g=>!p.includes(g)),m=new URLSearchParams({reason:l}),y={...ie({method:"DELETE",path:`${e}/holds/${a}?${m}`,of:e},()=>{H(`The hold (${c.kind}) of ${t} is lifted.`),n?.()}),title:`Lift a hold of ${t}`,button:"Lift the hold",ready:!!l};return Ct(te,y,i`
    ${o.length>1&&i`<div class="form-grid">
      ${j("Hold",a,r,o.map(g=>[g.uuid,`${g.kind}: ${g.reason}`]))}</div>`}
    <p>■ <strong>${h(c.kind)}: ${h(c.reason)}</strong><br />
      Held by ${h(c.created_by??va)} since ${K(c.created_at)}
      ${c.until?i`, until ${K(c.until)}`:""}.</p>
    <p>${f.length>0&&`Allowed again: ${Ro(f)}. `}${d.length>0&&i`Still blocked by: ${h(d.map(g=>`${g.kind}: ${g.reason}`).join("; "))}. `}Nothing starts by itself.</p>
    ${F("Reason to lift it",{class:"block",required:!0,value:l,onInput:_(u)})}`)}function ya({own:e,why:t,reload:n,turn:o}){let s=t.name??t.node,a=r=>i`<button
    onClick=${()=>Be({own:e,name:s,reload:n,holds:t.holds,chosen:r.uuid})}>Lift…</button>`;return Ct(fe,{path:`${e}/holds?ended=true`,again:o,label:"Holds",of:"holds",head:["Kind","Reason","Blocks","Since","Until","By","Lifted"],row:r=>[r.kind,r.reason,Ro(r.blocks),K(r.created_at),K(r.until),r.created_by??va,r.ended_at?tl(r):a(r)]})}var tl=({ended_at:e,ended_by:t,end_reason:n,until:o})=>i`${K(e)}
  ${t?i` by ${h(t)}`:!n&&o?", its time was over":""}
  ${n&&i`: ${h(n)}`}`;import{useEffect as Sa,useLayoutEffect as xa,useRef as al,useState as we}from"./vendor/hooks.js";import{h as Z}from"./vendor/preact.js";import{useState as wa}from"./vendor/hooks.js";var nl={clean:"clean_steps",service:"service_steps",active:"deploy_steps",rebuild:"deploy_steps"},ol=[["Erase all disks",{interface:"deploy",step:"erase_devices"}],["Erase metadata only",{interface:"deploy",step:"erase_devices_metadata"}]];function Pn(e,t){let n=Se.find(s=>s.target===e)?.needs??[],o=n.some(s=>t[s]?.length);return!n.length||o?"":n.includes("runbook")?"Add at least one step, or choose a runbook.":"Enter a password."}function Bn({node:e,target:t,onChange:n}){let o=nl[t],[s,a]=wa(""),[r,l]=wa(""),u=o==="clean_steps"&&e,{body:c}=R(u?`${v("nodes",e)}/cleaning/steps`:null),d=R(o&&o!=="deploy_steps"?"/v1/runbooks":null).body?.runbooks??[],p=Re(s);if(!o)return null;let f=w=>{a(w),l("");let T=Re(w);T!==null&&n(T?{[o]:T}:{})},m=Array.isArray(p)?p:[],$=w=>f(w.length?`[${w.map(T=>JSON.stringify(T)).join(`,
 `)}]`:""),y=w=>$([...m,w]),g=Array.isArray(c)?c:[],A=({target:w})=>{let T=g[w.selectedIndex-1];w.selectedIndex=0,T&&y(sl(T))},O=w=>{a(""),l(w),n(w?{runbook:w}:{})};return i`<div class="actions">
      ${t==="clean"&&ol.map(([w,T])=>i`<button type="button" onClick=${()=>y(T)}>${w}</button>`)}
      ${g.length>0&&i`<label>Add a step <select onChange=${A}>
        <option value="">choose…</option>
        ${g.map(w=>i`<option>${ee(w)}</option>`)}
      </select></label>`}
      ${d.length>0&&j("Runbook",r,O,[["","none"],...d.map(w=>[w.name,w.name])])}
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
    ${p===null&&i`<span class="wrong" role="alert">This is not JSON.</span>`}`}var sl=({interface:e,step:t,args:n=[]})=>{let o=n.filter(a=>a.required),s=o.map(a=>[a.name,null]);return{interface:e,step:t,...o.length&&{args:Object.fromEntries(s)}}};function dt(e,t){J(()=>Z(il,{node:e,target:t}))}var At=e=>Se.filter(({alias:t,from:n})=>!t&&n.some(o=>e.has(o))).map(({target:t})=>t);function Io(e,t){let n=new Set([e,...e.steps].flatMap(o=>o.destroys??["unknown"]));return n.has("data")||n.has("volumes")?"name":n.has("unknown")?"unknown":n.size||e.restarts&&t==="active"?"tick":"none"}var ka=2e3,rl=["active","rebuild"];function il({node:e,target:t}){let[n,o]=we({}),s=Pn(t,n)||(ll(n)?"Say why the step is left out.":""),a=cl(e,s?null:{target:t,...n}),r=M(e),l=v("nodes",e.uuid),u=R(l,{each:ka}),c=al(null);u.body&&(c.current??=u);let d=c.current&&u.body&&c.current.tag!==u.tag&&u.tag===a.tag,p=ul(e,{target:t,...n},a,u.reload);Sa(()=>{u.tag&&a.tag&&u.tag!==a.tag&&!p.busy&&!p.fault&&a.again()},[u.tag]);let f=t==="abort",m=R(f||t==="available"?`${l}/why`:null,{each:ka}).body,$=t==="available"&&m?.data_state!=="clean",y=f&&!m?.verbs.some(b=>b.target===t&&b.after)?String(m?.run?.title):"",g=a.body?$?"name":f&&(!m||at.test(y))?"tick":Io(a.body,e.provision_state):null,[A,O]=we(!1);xa(()=>O(!1),[a.count,g]);let w=a.body?.accepted&&(g==="none"||A),T={...p,title:`${D(t)} ${r}`,note:Me[t]??"",fault:p.fault??a.fault,ready:w,danger:g==="name"||g==="unknown",button:a.body?.accepted&&`${D(t)} ${r}`,request:{...p.request,path:v("nodes",r,"states","provision")}};return Z(te,T,i`
    ${e.maintenance&&i`<p class="wrong">▲ ${h(r)} is in maintenance${e.maintenance_reason&&i`: ${h(e.maintenance_reason)}`}.</p>`}
    ${u.body&&rl.includes(t)&&i`<p>Image: ${h(u.body.instance_info?.image_source??"none")}</p>`}
    ${$&&m&&i`<p class="wrong">Its disks are not erased (data: ${m.data_state}). The next user may read them.</p>`}
    ${_a(y)}
    ${Z(fl,{node:e,target:t,onChange:o})}
    ${s&&i`<p role="status">${s}</p>`}
    ${!s&&!a.body&&!a.fault&&Z(pe,{rows:3})}
    ${a.body&&Z(Bo,{plan:a.body})}
    ${Z(I,{method:"POST",path:v("nodes",r,"plan"),body:{target:t,...n},label:"plan as curl"})}
    ${a.body?.accepted&&Z(Ot,{kind:g,name:r,onSure:O,key:a.count,...$&&{does:"leaves the data on"}})}
    ${p.note&&i`<p role="status">${p.note}</p>`}
    ${d&&i`<p role="status">The node has changed: this is the new plan.</p>
      ${Z(Oo,{seen:c.current?.body,now:u.body})}`}`)}var Vt="An erase that is aborted leaves the disks partly erased.",_a=e=>at.test(e)&&i`<p class="wrong">${h(e)} is under way. ${Vt}</p>`,ll=({retry:e})=>!!e?.waive?.some(t=>!t.reason);function cl(e,t){let n={body:null,tag:"",fault:null,count:0,text:""},[o,s]=we(n),[a,r]=we(0),l=t?JSON.stringify(t):"";return Sa(()=>{if(!l)return;let c=new AbortController,d=setTimeout(()=>{_e("POST",v("nodes",e.uuid,"plan"),{body:JSON.parse(l),accepts:[422],signal:c.signal}).then(({body:p,tag:f})=>s(m=>({body:p,tag:f,fault:null,count:m.count+1,text:l})),p=>!c.signal.aborted&&s({...n,fault:p,text:l}))},150);return()=>{clearTimeout(d),c.abort()}},[l,a]),{...o.text===l?o:{...n,count:o.count},again:()=>r(c=>c+1)}}function ul(e,t,n,o){let[s,a]=we(""),r={method:"PUT",path:v("nodes",e.uuid,"states","provision"),body:t,tag:n.tag,onWait:(c,d)=>a(pl(c,d))};return{...ie(r,({link:c})=>{let d=`${D(t.target)} of ${M(e)}`,p=Hs(c);p&&q(N(p)),H(`${d} is accepted.`),p&&Po(p,d)},c=>(a(""),c.status!==412?c:(n.again(),o(),null))),note:s}}var dl=1e4;async function Po(e,t){for(let n=1e3;;n=Math.min(dl,n*1.2)){if(await oe(n),document.hidden)continue;let{body:o,status:s}=await W(e).catch(r=>r);if(s===403||s===404)return;if(!o?.ended_at&&o?.state!=="paused")continue;let a=z(it(o));return H(`${t}: ${o.state}. ${a}`,S.value.path===e?"":N(e))}}var pl=(e,t)=>`${U(t)} The window tries again in ${e} s.`;function fl({node:e,target:t,onChange:n}){return t==="retry"?Z(vl,{node:e,onChange:n}):t==="rescue"?Z(ml,{onChange:n}):Z(Bn,{node:e.uuid,target:t,onChange:n})}function ml({onChange:e}){return F("Password of the rescue ramdisk",{class:"block",type:"password",autocomplete:"new-password",onInput:_(t=>e({rescue_password:t}))})}function Bo({plan:e}){let t=ge[e.leads_to]?`leads to ${e.leads_to}`:"",n=[Ea(e.seconds," \u2013 "),e.restarts?P(e.restarts,"restart"):"",e.ramdisk?"boots the ramdisk":"",t,e.incomplete].filter(Boolean);return i`<ol class="plan">
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
  </li>`}var bl=e=>ua[e]??e;function Ot({kind:e,name:t,onSure:n,what:o="name of the node",on:s=t,does:a="may destroy the data on"}){let[r,l]=we("");if(e==="none")return null;let u=e==="unknown"?"has effects that are not known on":a;if(e==="tick")return st("I have read what changes.",n);let c=_(d=>{l(d),n(d===t)});return i`<label class="block danger"
    >This ${u} ${h(s)}. Type the ${o}:
    <input autocomplete="off" spellcheck="false" value=${r} onInput=${c} />
  </label>`}function vl({node:e,onChange:t}){let n=v("nodes",e.uuid),o=R(`${n}/why`),s=R(o.body?.run?`${n}/runs/${o.body.run.uuid}`:null),[a,r]=we({from:"",waive:"",reason:"",force:!1}),l=d=>{let p={...a,...d};r(p),t(yl(p))},u=s.body?.steps??[],c=u.findIndex(d=>d.state==="failed"||d.state==="aborted");return i`<details>
    <summary>Begin earlier, or leave a step out</summary>
    <div class="form-grid">
      ${Do("Begin with","the step that failed",u.slice(0,Math.max(0,c)),a.from,d=>l({from:d}))}
      ${Do("Leave out","no step",u.slice(Math.max(0,c)),a.waive,d=>l({waive:d}))}
      ${a.waive&&F("Reason",{required:!0,onInput:_(d=>l({reason:d}))})}
    </div>
    ${st("Repeat a step although it may have ended on the machine.",d=>l({force:d}))}
  </details>`}function yl({from:e,waive:t,reason:n,force:o}){let s={...e&&{from:Number(e)},...t&&{waive:[{ordinal:Number(t),reason:n}]},...o&&{force:o}};return Object.keys(s).length?{retry:s}:{}}var Do=(e,t,n,o,s)=>j(e,o,s,[["",t],...n.map(a=>[String(a.ordinal),`${a.ordinal+1} ${ee(a)}`])]),wl={hold:"wait there, until Go on or Abort",abort:"abort the run"};function Un(e){J(()=>Z(kl,e))}function kl({own:e,name:t,reload:n}){let[o,s]=we("hold"),[a,r]=we(""),[l,u]=we(""),[c,d]=we(!1),p=R(`${e}/runs/current`).body,f=(p?.steps??[]).filter(w=>!w.ended_at),m={how:o,...l&&{after:Number(l)},...a&&{reason:a}},[$]=f,y=o==="abort"&&!l&&$?.state==="waiting"&&$.abortable?ee($):"",g=at.test(y)?"tick":"none";xa(()=>d(!1),[g]);let A=ie({method:"PUT",path:`${e}/runs/${p?.uuid}/stop`,body:m,of:e},()=>{H(`The run of ${t} stops at its next step.`),n?.()}),O=`Stop the run of ${t}`;return Z(te,{...A,title:O,button:O,ready:p&&(c||g==="none")},i`
    <p>${y?`${y} ends at once.`:"The step under way ends first."}</p>
    ${Object.entries(wl).map(([w,T])=>i`<label class="block"
        ><input type="radio" name="how" checked=${o===w} onInput=${()=>s(w)} /> ${T}</label
      >`)}
    ${Do("Stop after","the step under way",f,l,u)}
    ${F("Reason",{class:"block",onInput:_(r)})}
    ${_a(y)} ${Z(Ot,{kind:g,name:t,onSure:d})}`)}var Gt=[["power on","Starts"],["power off","At once cuts the power of"],["rebooting","At once restarts"],["soft power off","Shuts down"],["soft rebooting","Restarts"]],Aa=/active|rescu|servic/,Lt=(e,t)=>e.orders.find(n=>n.order===t);function Ge({refused:e,onClick:t,children:n,primary:o,hint:s,now:a}){let r=e?z(e.text):s;return i`<button
    class=${o&&!e?"primary":""}
    aria-disabled=${e?"true":void 0}
    aria-current=${a?"true":void 0}
    title=${r}
    onClick=${()=>e?H(String(r)):t()}
  >
    ${a&&i`<span aria-hidden="true">● </span>`}${n}
    ${e&&i`<span class="unseen"> refused: ${r}</span>`}
  </button>`}function Oa({why:e,node:t,reload:n}){let o=t??{uuid:e.node,name:e.name,provision_state:e.provision_state,maintenance:e.maintenance},s=At(new Set([e.provision_state])),a=p=>p.target==="retry"&&!p.refused,r=e.verbs.filter(p=>s.includes(p.target)).sort((p,f)=>Number(a(f))-Number(a(p))),l=v("nodes",e.node),u=p=>Ue({...p,of:l,reload:n}),c=e.name??e.node,{holds:d}=e;return i`<div class="actions" role="group" aria-label="Acts on this node">
    ${r.map((p,f)=>B(_l,{key:p.target,one:p,node:o,first:f===0}))}
    ${Sl(e.run)&&i`<button onClick=${()=>Un({own:l,name:c,reload:n})}>Stop at the next step…</button>
      ${e.run.stop?.progress==="asked"&&i`<button onClick=${()=>u({title:`Withdraw the stop of ${c}`,kind:"none",method:"DELETE",button:"Withdraw",path:`${l}/runs/${e.run.uuid}/stop`,waits:!1,says:"The run then goes on with its next step."})}>Stop is requested: withdraw…</button>`}`}
    ${B(Dn,{name:"Power"},Gt.map(p=>{let{refused:f,targets:m}=Lt(e,"power")??{},$=D(p[0]),y=m?.includes(p[0])?null:{text:`${$} is not possible now.`};return B(Ge,{refused:f??y,onClick:()=>Uo(o,p,n)},`${$}\u2026`)}))}
    <button onClick=${()=>In({own:l,name:c,reload:n,holds:d})}>Hold…</button>
    ${d.length>0&&i`<button onClick=${()=>Be({own:l,name:c,reload:n,holds:d})}>Lift hold…</button>`}
    <button onClick=${()=>J(()=>B(Tl,{own:l,name:c,now:e.data_state,reload:n}))}>Data…</button>
    ${t&&B(Ge,{refused:Lt(e,"maintenance")?.refused,onClick:()=>Fo(t,n)},t.maintenance?"End maintenance\u2026":"Maintenance\u2026")}
    ${B(Ge,{refused:Lt(e,"delete")?.refused,onClick:()=>u({title:`Delete ${c}`,kind:"name",name:c,method:"DELETE",path:l,button:`Delete ${c}`,then:"#/v1/nodes",says:Aa.test(e.provision_state)&&"An instance is running on it.",does:"makes the service forget"})},"Delete\u2026")}
  </div>`}function Uo(e,[t,n],o){let s=D(t),a=Aa.test(e.provision_state),r=M(e),l=v("nodes",e.uuid);Ue({title:`${s}: ${r}`,kind:a&&t!=="power on"?"tick":"none",says:`${n} ${r}${a?"; an instance is running on it":""}.`,method:"PUT",path:`${l}/states/power`,body:{target:t},button:`${s} ${r}`,of:l,reload:o})}function Fo(e,t){let n=v("nodes",e.uuid),o=M(e),s=e.maintenance,a=`${s?"End":"Set"} maintenance`;Ue({title:`${a}: ${o}`,kind:"none",method:s?"DELETE":"PUT",path:`${n}/maintenance`,button:a,of:n,reload:t,explained:!s,done:`${o} is ${s?"out of":"in"} maintenance.`})}var Sl=e=>["running","waiting"].includes(e?.state),xl=["retry","manage","unhold"];function _l({one:e,node:t,first:n}){let{refused:o,target:s}=e,a=()=>dt(t,s),r=`${Me[s]??""}; leads to ${e.leads_to}`;return B(Ge,{refused:o,onClick:a,hint:r,primary:n&&xl.includes(s)},`${D(s)}\u2026`)}var Ue=e=>J(()=>B(El,e));function El(e){let{title:t,kind:n,button:o,reload:s,then:a,method:r,of:l,says:u,explained:c,waits:d=!0,done:p=`${t}: accepted.`}=e,[f,m]=Rt(!1),[$,y]=Rt(""),g=c?{reason:$}:e.body,A=ie({method:r,path:e.path,body:g,of:l,waits:d},()=>{a?q(a):s?.(),H(p)});return B(te,{...A,title:t,button:o,danger:n==="name",ready:n==="none"||f},i`
    ${u&&i`<p>${h(u)}</p>`} ${c&&F("Reason",{class:"block",onInput:_(y)})}
    ${B(Ot,{...e,onSure:m})}`)}function Tl({own:e,name:t,now:n,reload:o}){let[s,a]=Rt({data_state:n??jt[0],reason:""}),r=ie({method:"PUT",path:`${e}/data_state`,body:s,of:e},()=>{H(`The data on ${t} is declared ${s.data_state}.`),o()}),l=`Data on ${t}`;return B(te,{...r,title:l,button:"Declare",ready:!!s.reason},i`
    <p>This proves no erasure. The history shows who declared it.</p>
    <div class="form-grid">
      ${j("State",s.data_state,u=>a({...s,data_state:u}),jt)}
      ${F("Reason",{required:!0,onInput:_(u=>a({...s,reason:u}))})}
    </div>`)}var La={boot_mode:["Boot mode","states/boot_mode",e=>({target:e}),"boots in the mode %"],secure_boot:["Secure boot","states/secure_boot",e=>({target:e}),"boots with secure boot %"],console:["Console","states/console",e=>({enabled:e}),"has its console switched %"],boot_device:["Next boot","management/boot_device",e=>({boot_device:e}),"boots from % once"],nmi:["Interrupt","management/inject_nmi",()=>({}),"is interrupted, which may stop its system"]},Ra="UnsupportedDriverExtension";function Na({own:e,why:t,turn:n,...o}){let[s,a]=Rt(0),r=()=>(a(C=>C+1),o.reload()),l=R(`${e}/management/boot_device/supported`).body,u=R(`${e}/states`,{again:n}),c=t.orders.filter(C=>C.order in La),d=C=>Lt(t,C)?.refused?.code===Ra,p=R(d("boot_device")?null:`${e}/management/boot_device`,{again:s}),f=R(d("vmedia")?null:`${e}/vmedia`,{again:s}),{boot_mode:m,secure_boot:$,console_enabled:y}=u.body??{},{boot_device:g,persistent:A}=p.body??{},O={boot_mode:m,secure_boot:$,console:y,boot_device:g},w=Lt(t,"vmedia"),T=Lt(t,"indicators"),b=t.name??t.node;return i`<dl class="tree orders">
      ${c.map(C=>B(Cl,{one:C,own:e,name:b,reload:r,now:O[C.order],note:C.order==="boot_device"&&g?A?"at each start":"at the next start":"",targets:{boot_device:l?.supported_boot_devices??[],nmi:["send NMI"]}[C.order]??C.targets}))}
      ${w&&B(Ll,{one:w,own:e,name:b,reload:r})}
      ${T&&B(Al,{refused:T.refused,own:e,reload:r,turn:s})}
    </dl>
    ${B(Ca,{name:"States",path:`${e}/states`,of:u})}
    ${!d("vmedia")&&B(Ca,{name:"Virtual media",path:`${e}/vmedia`,of:f})}`}function Ca({name:e,path:t,of:{body:n,fault:o}}){return i`<details open=${e==="States"}>
    <summary>${e}</summary>
    ${o&&B(de,{fault:o,path:t})} ${!o&&!n&&B(pe,{})}
    ${n&&i`<p class="tools">${B(I,{path:t})}</p> ${B(me,{of:n})}`}
  </details>`}function Cl({one:e,own:t,name:n,targets:o,reload:s,now:a,note:r}){let[l,u,c,d]=La[e.order],p=m=>({true:"on",false:"off"})[String(m)]??m,f=m=>Ue({title:`${l}: ${p(m)}`,kind:"tick",method:"PUT",path:`${t}/${u}`,says:`${n} ${d.replace("%",p(m))}.`,body:c(m),button:`${l}: ${p(m)}`,of:t,reload:s});return i`<dt>${l}</dt>
    <dd class="actions">
      ${o.map(m=>B(Ge,{refused:e.refused,now:m===a,onClick:()=>f(m)},`${p(m)}\u2026`))}
      ${r&&i`<span class="small">${r}</span>`}
      ${e.refused&&i`<span class="small">${h(e.refused.text)}</span>`}
    </dd>`}function Al({refused:e,own:t,reload:n,turn:o}){let s=e?.code===Ra?null:`${t}/management/indicators`,{body:a,fault:r}=R(s,{again:o});return i`<dt>Lamps</dt>
    <dd>
      ${a?.indicators.map(l=>B(Ol,{key:l.name,lamp:l,refused:e,own:t,reload:n,turn:o}))}
      ${a?.indicators.length===0&&i`<span class="small">The machine has none.</span>`}
      ${r&&B(de,{fault:r,path:s??""})}
      ${e&&i`<span class="small">${h(e.text)}</span>`}
    </dd>`}function Ol({lamp:e,refused:t,own:n,reload:o,turn:s}){let a=`${n}/management/indicators/${encodeURIComponent(e.name)}`,{body:r}=R(a,{again:s}),l=e.readonly?{text:`The machine alone switches ${e.name}.`}:null,u=c=>Ue({title:`Lamp ${e.name}: ${c}`,kind:"none",method:"PUT",path:a,body:{state:c},button:`Lamp: ${c}`,of:n,reload:o});return i`<div class="actions" role="group" aria-label=${`Lamp ${U(e.name)}`}>
    ${h(e.name)} <strong>${r?U(r.state??"unknown"):"\u2026"}</strong>
    ${e.states.map(c=>B(Ge,{refused:t??l,now:r?.state===c,onClick:()=>u(c)},`${c}\u2026`))}
  </div>`}function Ll({one:e,own:t,name:n,reload:o}){let[s,a]=Rt(""),[r,l]=Rt(e.targets[0]),u=()=>Ue({title:`Insert into the ${r}`,kind:"tick",method:"POST",path:`${t}/vmedia`,says:`${n} gets ${s} in its ${r}.`,body:{device_type:r,image_url:s},button:"Insert",of:t,reload:o}),c=()=>Ue({title:"Eject all virtual drives",kind:"tick",method:"DELETE",path:`${t}/vmedia`,says:`${n} loses the images in all its virtual drives.`,button:"Eject",of:t,reload:o}),d=s?null:{text:"Enter the address of an image first."};return i`<dt>Virtual media</dt>
    <dd class="actions">
      ${j("Drive",r,l,e.targets)}
      <input
        aria-label="Address of an image"
        placeholder="https://…/image.iso"
        onInput=${_(a)}
      />
      ${B(Ge,{refused:e.refused??d,onClick:u},"Insert\u2026")}
      ${B(Ge,{refused:e.refused,onClick:c},"Eject\u2026")}
      ${e.refused&&i`<span class="small">${h(e.refused.text)}</span>`}
    </dd>`}import{useEffect as Rl,useLayoutEffect as Nl,useRef as Ml,useState as ne}from"./vendor/hooks.js";import{h as se}from"./vendor/preact.js";var Ho="number of nodes",Dl=50,Il=4,qo={Batch:e=>Ma(e),Power:e=>Ma(e,Fn),Hold:e=>J(()=>se(Fl,{nodes:e})),Maintenance:e=>J(()=>se(Ul,{nodes:e}))};function Ua({shown:e}){let t=ot.value;if(!t.size)return i`<p class="bulk">Select nodes to act on many of them.</p>`;let n=e.filter(s=>t.has(s.uuid)).length,o=t.size-n;return i`<div class="bulk" role="region" aria-label="Selected nodes">
    <span>${t.size} selected${o?`, ${o} of them hidden by the filter`:""}</span>
    ${Object.entries(qo).map(([s,a])=>i`<button onClick=${()=>a(xn())}>${s}…</button>`)}
    ${se(I,{path:`/v1/nodes?uuid=${[...t].slice(0,150).join(",")}`})}
    <button class="quiet" onClick=${Sn}>Clear <kbd>Esc</kbd></button>
  </div>`}function Ma(e,t=At(new Set(e.map(n=>n.provision_state)))){J(()=>se(Fa,{of:Pl(e),nodes:e,count:e.length,offered:t,example:e[0]?.uuid}))}function jo({uuid:e,counts:t},n,o,s){let a={nodes:{batch:e,result:n},expect:t[n]},r=o.filter(l=>l.result===n);J(()=>se(Fa,{of:a,count:t[n],names:r.map(M),offered:[s],example:r[0]?.uuid}))}var Da={"all at once":["100%"],"canary: one, then all":[1,"100%"],"canary: one, 10 %, all":[1,"10%","100%"]},Ia=20,Pa=e=>e.length?`: ${e.slice(0,Ia).join(", ")}${e.length>Ia?" \u2026":""}`:"",Fn=Gt.map(([e])=>e);function Pl(e){let t=e.map(M),{parts:n,query:o}=S.value,s=n.length===1&&o.size>0&&!En(o).length;if(t.length<=Dl||!s)return{nodes:t};let a=new Set(e.map(u=>u.uuid)),r=[...k.nodes.values()].filter(_n(o,""));return r.length===a.size&&r.every(u=>a.has(u.uuid))?{nodes:Object.fromEntries(o),expect:r.length}:{nodes:t}}function Fa({of:e,count:t,offered:n,nodes:o=[],names:s=o.map(M),example:a}){let r=P(t),l=`Batch of ${r}`,[u,c]=ne(n.length===1?n[0]??"":""),[d,p]=ne({}),[f,m]=ne(t>1?"canary: one, then all":"all at once"),[$,y]=ne(8),[g,A]=ne(0),[O,w]=ne(""),[T,b]=ne(""),[C,Nt]=ne(null),[Jn,x]=ne(null),[Nr,$s]=ne(!1),Qt={...T?{nodes:[T,...s.filter(Q=>Q!==T)]}:e,request:Fn.includes(u)?{power:u}:{target:u,...d},waves:Da[f],concurrency:$,max_failures:g,...O&&{name:O}},en=JSON.stringify(Qt),[Mr,Dr]=ne(""),Ir=async()=>{try{let{body:Q}=await _e("POST","/v1/batches?plan=true",{body:Qt}),{uuid:Dt}=Q.first_wave[0],vs=qt(u)&&Dt!==Q.refused.first[0]?.uuid&&await _e("POST",v("nodes",Dt,"plan"),{body:Qt.request,accepts:[422]}).catch(()=>null);Nt({...Q,sample:vs&&vs.body}),Dr(en),x(null)}catch(Q){Nt(null),x(Q)}};Rl(()=>x(null),[en]);let gs=u?Pn(u,d):"Choose a request.",bs=ie({method:"POST",path:"/v1/batches",body:Qt},Q=>{let Dt=v("batches",Q.body.uuid);q(N(Dt)),H(`The batch of ${r} has begun.`),Po(Dt,l)}),Mt=C&&Mr===en,Yn=o.filter(Q=>Q.provision_state==="active"),ft=Wo(u,Yn.length>0),Pr=ft==="name"?`${u==="available"?"Leaves":C?.sample&&Io(C.sample,"")===ft?"Destroys":"May destroy"} the data on ${r}${Pa(s)}.`:u==="abort"?`Abort ends the runs of ${r}. ${Vt}`:`${D(u)} interrupts the instances on ${P(Yn.length)}${Pa(Yn.map(M))}.`;Nl(()=>$s(!1),[en,C]);let Br={...bs,fault:bs.fault??Jn,ready:!!Mt&&(ft==="none"||Nr),title:l,danger:ft==="name",button:Mt?`${D(u)} ${r}`:"",more:i`<button type="button" disabled=${!!gs} onClick=${()=>Ir()}>Plan</button>`};return se(te,Br,i`
    <div class="form-grid">
      ${j("Request",u,Q=>(c(Q),p({})),[["","choose\u2026"],...n.map(Q=>[Q,D(Q)])])}
      ${j("Waves",f,m,Object.keys(Da))}
      ${o.length>1&&f.startsWith("canary")&&j("Canary, goes first",T,b,[["","the first of the list"],...s])}
      ${F("Name (optional)",{onInput:_(w)})}
      ${Ba("At the same time",$,y,1)}
      ${Ba("Failures allowed",g,A,0)}
    </div>
    <p role="status">
      ${gs} ${Me[u]&&`${D(u)} ${Me[u]}.`}
      ${n.includes("manage")&&!n.includes("clean")&&" To clean, use Manage first; the page of its batch then has the button Clean\u2026"}
    </p>
    ${se(Bn,{key:u,node:a,target:u,onChange:p})}
    ${Mt&&se(Bl,{plan:C})}
    ${Mt&&ft!=="none"&&i`<p><strong>${h(Pr)}</strong></p>`}
    ${Mt&&se(Ot,{key:C,kind:ft,name:String(t),what:Ho,on:r,onSure:$s})}`)}function Wo(e,t){return qt(e)||e==="available"?"name":e==="abort"||t&&e!=="power on"?"tick":"none"}var Ba=(e,t,n,o)=>F(e,{type:"number",min:o,value:t,onInput:_(s=>n(Number(s)))});function Bl({plan:e}){let{waves:t,concurrency:n,failures_left:o,refused:s,first_wave:a,sample:r}=e;return i`<p role="status">
    ${t.length>1?i`<strong>${h(M(a[0]))} goes first, alone</strong>, then ${[...t.slice(1,-1),`the other ${t.at(-1)}`].join(", then ")}`:P(t[0])}, at most ${n} at once.
    ${o?` The batch pauses after more than ${P(o,"failure")}.`:" The first failure pauses the batch."}
  </p>
    ${s.count>0&&i`<p class="wrong">${s.count} of them would refuse the request now:</p>
      <ul>
        ${s.first.map(l=>i`<li>
            ${h(M(l))}: ${h(z(l.text,l))}
          </li>`)}
      </ul>`}
    ${r?.accepted&&i`<p>On ${h(M(a[0]))}:</p> ${se(Bo,{plan:r})}`}`}function Ha(e,t){let[n,o]=ne(new Map),[s,a]=ne(!1),r=Ml(new Map),l=async()=>{a(!0);let p=[...e],f=new Map,m=async()=>{for(let $=p.shift();$;$=p.shift()){let y=t($),g=JSON.stringify(y),A=r.current.get(g)??et();r.current.set(g,A);let O=await rn({...y,key:A}).then(()=>"done",w=>(w.status&&r.current.delete(g),w.message));f.set($.uuid,O),o(new Map(f))}};await Promise.all(Array.from({length:Il},m)),a(!1),H(`${[...f.values()].filter($=>$==="done").length} of ${e.length} done.`)},u=t({uuid:"{node}"}),c={...u,path:decodeURIComponent(u.path),each:e.map(p=>p.uuid)},d=!s&&n.size&&[...n.values()].every(p=>p==="done");return{results:n,busy:s,send:d?void 0:l,request:c}}function qa({nodes:e,results:t}){if(!t.size)return null;let n=e.filter(o=>(t.get(o.uuid)??"done")!=="done");return i`<p>${t.size} of ${e.length} answered, ${n.length} refused.</p>
    <ul>
      ${n.map(o=>i`<li class="wrong">
          ${h(M(o))}: ${h(z(t.get(o.uuid),o))}
        </li>`)}
    </ul>`}function Ul({nodes:e}){let[t,n]=ne(""),[o,s]=ne(!0),a=Ha(e,l=>({method:o?"PUT":"DELETE",path:v("nodes",l.uuid,"maintenance"),...o?{body:{reason:t}}:{}})),r={...a,title:`Maintenance of ${P(e.length)}`,button:`Set maintenance ${o?"on":"off"}`};return se(te,r,i`
    ${j("Maintenance",o?"on":"off",l=>s(l==="on"),["on","off"])}
    ${F("Reason",{class:"block",onInput:_(n)})}
    ${se(qa,{nodes:e,results:a.results})}`)}function Fl({nodes:e}){let[t,n]=ne(No),o=Ha(e,r=>({method:"POST",path:v("nodes",r.uuid,"holds"),body:t})),s=`Hold ${P(e.length)}`,a={...o,title:s,button:s,ready:!!t.reason};return se(te,a,i`${se(Mo,{body:t,onChange:n})}
    ${se(qa,{nodes:e,results:o.results})}`)}var jl=2e3,Wl="uuid,name,state,wave,waves,counts,requester,created_at,ended_at,request",Ko=["done","aborted"];function ja(){return S.value.parts[1]?he(Kl,{key:S.value.parts[1]}):i`<h1>Batches</h1>
    <p>Select nodes on the page Fleet, then press Batch.</p>
    ${he(fe,{path:`/v1/batches?limit=200&fields=${Wl}`,each:lt,label:"Batches",of:"batches",head:["Batch","Request","State","Wave","Nodes","By","Made","Ended",Et],row:e=>[ye(v("batches",e.uuid),Kt(e)),Wa(e.request),he(X,{result:e.state}),`${e.wave+1} of ${e.waves.length}`,Ka(e.counts),e.requester,K(e.created_at),K(e.ended_at),On("batches",e.uuid)]})}`}function Wa({power:e,target:t,...n}){let s=Object.values(n).filter(Array.isArray).flat().filter(a=>a?.step).map(ee);return[D(e??t??""),n.runbook,...s].filter(Boolean).join(", ")}var Ka=e=>Object.entries(e).filter(([,t])=>t).map(([t,n])=>`${n} ${t}`).join(", ");function Kl(){let e=v("batches",S.value.parts[1]??""),[t,n]=ql(!1),{body:o,fault:s,reload:a}=R(e,{each:t?0:jl});if(Hl(()=>n(!!o?.ended_at),[o]),!o)return Pe(s,e)??he(pe,{});let r=o.counts.failed+o.counts.refused;return i`${Pe(s,e)}<header class="node-head">
      <h1>${h(Kt(o))}</h1>
      ${he(X,{result:o.state})} ${o.request&&i`<span>${h(Wa(o.request))}</span>`}
      <span>wave ${o.wave+1} of ${o.waves.length}</span>
      <span>${Ka(o.counts)}</span> ${he(I,{path:`${e}?wait=50&until=done`})}
    </header>
    ${o.paused_by&&i`<p class="says">Paused: ${h(o.paused_by)}. Left to do: ${P(o.counts.pending)}.</p>`}
    ${!Ko.includes(o.state)&&he(Vl,{own:e,batch:o,reload:a})} ${he(Gl,{own:e,batch:o})}
    ${!Ko.includes(o.state)&&i`<p>
      ${r} failed or refused; ${P(o.failures_left,"more failure")} allowed.
      ${o.eta&&` ${xt({ends_at:o.eta})}`}
    </p>`}
    ${he(zl,{own:e,batch:o})}`}function Vl({own:e,batch:t,reload:n}){let{pending:o}=t.counts,s=P(o),{power:a,target:r}=t.request??{},l=a??r,u=Fn.includes(l)||Se.some(p=>p.target===l&&p.from.includes("active")),c=(p,f,m,$)=>()=>Ue({title:p.replace(/\w+/,"$& this batch"),kind:m,method:"PUT",path:`${e}/state`,body:f,of:e,says:$,name:String(o),what:Ho,on:s,button:p,reload:n}),d=t.paused_by?`Paused: ${t.paused_by}. `:"";return i`<div class="actions">
    ${t.state==="running"?i`<button onClick=${c("Pause",{target:"pause"},"none",`Nothing starts on ${s} until you resume it.`)}>Pause…</button>`:i`<button onClick=${c("Resume",{target:"resume"},l?Wo(l,u):"name",`${d}${l?D(l):"The request"} goes on with ${s}.`)}>Resume…</button>`}
    <button onClick=${c("Abort",{target:"abort"},"tick",`Skips ${s}.`)}>Abort…</button>
    <button onClick=${c("Abort with its runs",{target:"abort",runs:"abort"},"tick",`Skips ${s}; runs under way end as soon as they can. ${Vt}`)}>
      Abort with its runs…
    </button>
  </div>`}function Gl({own:e,batch:t}){let{pending:n,starting:o,running:s,skipped:a,failed:r,refused:l}=t.counts,u=r+l,{body:c}=R(u?`${e}/nodes?limit=1000&result=failed,refused`:null,{again:u}),d=je(t.waves)-n-o-s-a,p=0;return i`<ol class="waves">
    ${t.waves.map((f,m)=>{let $=Math.max(0,Math.min(f,d-p));p+=f;let y=c?.nodes.filter(A=>A.wave===m).length,g=c?.next&&y?" or more":"";return i`<li class=${y?"failed":""} aria-current=${m===t.wave?"step":void 0}>
        wave ${m+1} <progress aria-label=${`wave ${m+1}`} max=${f} value=${$} /> ${y&&!g?`${$-y} done, ${y} failed`:`${$}/${f}${g&&`, ${y} or more failed`}`}
      </li>`})}
  </ol>`}function zl({own:e,batch:t}){let n=S.value.query.get("result")??"",o=`${e}/nodes?limit=500${n?`&result=${encodeURIComponent(n)}`:""}`,s=a=>i`<div class="filters">
      ${["",...Object.keys(t.counts).filter(r=>t.counts[r]||r===n)].map(r=>i`<a
          class="button"
          aria-current=${r===n?"true":void 0}
          href=${N(e,r?{result:r}:{})}
          >${r||"all"} ${r?t.counts[r]:""}</a
        >`)}
      ${t.counts.failed>0&&i`<button onClick=${()=>jo(t,"failed",a.nodes,"retry")}>Retry the failed…</button>`}
      ${Ko.includes(t.state)&&t.request?.target==="manage"&&t.counts.done>0&&i`<button onClick=${()=>jo(t,"done",a.nodes,"clean")}>Clean the managed…</button>`}
    </div>
    ${he(Ke,{label:"Nodes of the batch",head:["Node","Wave","Result","Error","Begun","Ended","Run"],rows:a.nodes.map(r=>Jl(r,qt(t.request?.target)))})}`;return he(re,{path:o,again:JSON.stringify(t.counts),draw:s})}var Jl=(e,t)=>[ue(e),e.wave+1,he(X,{result:e.result}),z(e.error?.text??e.error,e),K(e.started_at),K(e.ended_at),e.run&&i`${ye(v("nodes",e.uuid,"runs",e.run),"run")}
    ${t&&i` ${ye(v("nodes",e.uuid,"erasures"),"erasures")}`}`];import{h as ce}from"./vendor/preact.js";var Va={partial:"not all disks",failed:"not erased",unknown:"no report"},Yl=e=>i`${ce(X,{result:e.result})}${Va[e.result]?`: ${Va[e.result]}`:""}`,Ga=({by:e})=>i`<span class=${e?"":"result failed"}>${e?"signed; not checked here":"\u2717 NOT signed"}</span>`;function za(){let{parts:e,query:t,view:n}=S.value;if(e[1])return i`<h1>Erasure record</h1>
      ${ce(re,{path:S.value.path,draw:s=>ce(Ql,{record:s})})}`;let o=n.q??"";return i`<h1>Erasures</h1>
    <div class="filters">
      ${F("Part of a name or serial number",{type:"search",value:o,onInput:_(s=>V({"~q":s},{replace:!0}))})}
      ${An(t)}
      <a href=${N("/v1/nodes",{retired:"true",data_state:"dirty"})}>retired and dirty nodes</a>
    </div>
    ${ce(re,{path:be({limit:"1000"}),absent:"There is no such node, and no record of it.",draw:s=>ce(Xl,{body:s,words:o})})}`}function Xl({body:e,words:t}){let n=t.trim().toLowerCase(),o=e.erasures.filter(a=>[a.node_name,a.node_uuid,...a.serials??[]].some(r=>String(r??"").toLowerCase().includes(n))),s=n&&e.next;return i`${(o.length>0||!n)&&ce(Vo,{body:{erasures:o}})}
    ${n&&i`<p role="status">
      ${P(o.length||"No","record")} of ${s?"the newest ":""}${e.erasures.length} with ${h(t)}. <button onClick=${()=>V({"~q":""})}>Clear the search</button>
      ${s&&i` <button onClick=${()=>V({"~q":"",serial:t.trim()})}>Search all records for this serial number</button>`}
    </p>`}`}function Vo({body:e}){return ce(Ke,{label:"Erasures",head:["At","Node","Result","Signature of the record","Level","Disks","Record"],rows:e.erasures.map(t=>[K(t.at),ue({name:t.node_name,uuid:t.node_uuid}),Yl(t),ce(Ga,{by:t.key}),t.level,(t.serials??[]).join(", "),i`<a href=${N(v("erasures",t.uuid))}>show
        <span class="unseen"> the record of ${U(t.node_name??t.node_uuid)}</span></a>`])})}function Zl({result:e,disks:t,not_erased:n,not_known:o,error:s,level:a,node:r}){let l=`${P(t.length,"disk")} of ${M(r)}`;if(e==="complete")return`${l} erased, at the level ${a}.`;if(e==="partial")return`${n.length} of ${l} NOT erased.`;let u=s??o;return`The erasure of ${M(r)} ${e==="failed"?"FAILED":"is NOT KNOWN"}${u?`: ${u}`:""}.`}function Ql({record:e}){let{uuid:t,issuer:n,disks:o,result:s,issued_at:a,node:r}=e,l=v("erasures",t),u=n?.key,c=`erasure-${t.slice(0,8)}`,d=[[`${c}.json`,l],...u?[[`${c}.sig`,`${l}/signature`],["evidence-key.pem",v("erasures","keys",u)]]:[]],p=d.flatMap(([m,$])=>Fe("GET",$,{file:m}).split(`
`)),f=`openssl pkeyutl -verify -pubin -inkey evidence-key.pem -rawin -in ${c}.json -sigfile ${c}.sig`;return i`<p class="says">${ce(X,{result:s})} ${h(Zl(e))}</p>
    <p>${ce(Ga,{by:u})} · ${K(a)} · ${ue(r)}. This is evidence of what the ramdisk did, and no certificate.</p>
    ${o.length>0&&ce(Ke,{label:"Disks",head:["Disk","Serial number","Result","Level","Method","Reason"],rows:o.map(m=>[m.name,m.serial,ce(X,{result:m.result}),m.level,m.method,m.why])})}
    <h2>Check it</h2>
    <div class="actions">
      ${d.map(([m,$])=>i`<button onClick=${()=>ec($,m)}>Download ${m}</button>`)}
    </div>
    ${u?i`<p>In a shell:</p>
          <pre tabindex="0">${[...new Set(p),f].join(`
`)}</pre>
          <p>Compare the key with your own copy. <code>baremetal erasure verify --node ${U(M(r))} --key FILE</code> also finds missing records.</p>`:i`<p>It is not signed (no <code>[conductor]evidence_key_file</code>), so nobody can prove that it was not changed.</p>`}
    <details><summary>All fields</summary>${ce(me,{of:e})}</details>`}async function ec(e,t){let n=await Qe("GET",e).catch(()=>null);if(!n?.ok)return H(`${t} could not be read.`);let o=document.createElement("a");o.href=URL.createObjectURL(await n.blob()),o.download=t,o.click(),setTimeout(()=>URL.revokeObjectURL(o.href),1e4)}import{useEffect as Yt,useMemo as rr,useRef as gc,useState as ns}from"./vendor/hooks.js";import{h as $e}from"./vendor/preact.js";import{useEffect as zo,useRef as tc,useState as Yo}from"./vendor/hooks.js";import{h as Ja}from"./vendor/preact.js";var Ya=5,nc=50,Jo=3e4,oc=5e3;function Xo(e){let{error:t,code:n}=k.failed.value.get(e.uuid)??{};return t?.cause?.text??t?.text??n??""}function Za({brief:e}){let[t,n]=Yo(!1),o=Xa("baremetal:conductor:get","/v1/conductors","conductors").filter(b=>!b.alive),s=Xa("baremetal:batch:list","/v1/batches?state=paused&fields=uuid,name,waves,request,paused_by","batches");k.slowTick.value;let a=Go(b=>wn(b)==="fail"),r=Go(b=>k.overdue.value.has(b.uuid)),l=Go(b=>k.holds.value.has(b.uuid),b=>k.holds.value.get(b.uuid)?.[0].created_at),u=t?1/0:e?0:Ya,c=tc(new Map).current,d=b=>c.get(Qa(b)),p=[],f=[];for(let b of a.slice(0,t?u:nc)){if(p.length>=u)break;(d(b)?.waits_for?.what==="retry"?f:p).push(b)}let m=r.slice(0,u);sc(c,[...p,...f,...m]);let $=k.counts.value,y=$?je(rt.map(b=>$.get(b)??0)):a.length,g=k.overdue.value.size,A=k.holds.value.size,O=[y&&i`<a href=${N("/v1/nodes",{provision_state:rt.join()})}>▲ ${y} failed</a> `,g&&i`<a href="#/v1/runs?overdue=true">◷ ${g} overdue</a> `,A&&i`<a href="#/v1/nodes?held=true">■ ${A} held</a> `,s.length&&i`<a href="#/v1/batches">■ ${s.length} paused</a> `,o.length&&i`<a href="#/v1/doctor">! ${P(o.length,"conductor")} down</a>`].filter(Boolean);if(!O.length)return i`<p class="attention none">Nothing needs attention.</p>`;let w=b=>ac(b,d(b)),T=[["Needs a person",[...m.map(b=>rc(b,d(b))),...p.map(w),...s.map(b=>i`<li>${ye(v("batches",b.uuid),Kt(b))}
        <span class="says">■ This batch is paused: ${h(b.paused_by)}.</span></li>`),...o.map(b=>i`<li>${ye(v("conductors",b.hostname),b.hostname)}
        <span class="says">! This conductor gives no sign of life.</span>
        <a class="button" href="#/v1/doctor">Doctor</a></li>`)]],["Goes on by itself",f.slice(0,u).map(w)],["Held",l.slice(0,u).map(ic)]];return i`<section class="attention" aria-labelledby="attention-title">
    <h2 id="attention-title">Needs attention</h2>
    <span class="counts">${O}</span>
    ${(e||Math.max(a.length,r.length,l.length)>Ya)&&i`<button class="quiet" onClick=${()=>n(!t)}>${t?"show fewer":"show all"}</button>`}
    ${(t||!e)&&i`<div>
      ${m.length>0&&i`<p class="small">${We}</p>`}
      ${T.map(([b,C])=>C.length>0&&i`<h3>${b}</h3><ul aria-label=${b}>${C}</ul>`)}
    </div>`}
  </section>`}function Go(e,t=n=>n.provision_updated_at){return[...k.nodes.values()].filter(e).sort((n,o)=>String(t(o)).localeCompare(String(t(n))))}function Xa(e,t,n){let[o,s]=Yo(!1);return zo(()=>{an(e).then(s)},[]),R(o?t:null,{each:Jo}).body?.[n]??[]}var Qa=({uuid:e,provision_state:t,provision_updated_at:n,maintenance:o})=>[e,t,n,o,Wt(k.under.value.get(e)),k.under.value.get(e)?.place?.ordinal,k.holds.value.get(e)?.length].join();function sc(e,t){let[,n]=Yo({}),o=new Set(t.map(Qa));zo(()=>()=>e.clear(),[]),zo(()=>{for(let s of e.keys())o.has(s)||e.delete(s);for(let s of o){let a=l=>{if(e.get(s)===l){if(l.says&&document.hidden)return void setTimeout(a,Jo,l);W(v("nodes",s.slice(0,36),"why")).then(({body:u})=>{e.get(s)===l&&e.set(s,u),n({}),u.waits_for?.what==="retry"&&setTimeout(a,Jo,u)},u=>Ee(u)&&setTimeout(a,oc,l))}};if(e.has(s))continue;let r={};e.set(s,r),a(r)}})}var Zo=(e,t,n,o,s,a,r)=>i`<li key=${e.uuid}>
  ${ue(e)} ${Ja(De,{state:e.provision_state})}
  <span class="says" title=${o}>${n} ${h(o)} <b>${Wt(k.under.value.get(e.uuid))}</b> ${Cn(s)}</span> ${Ja(le,{at:t})}
  ${a&&i`<button onClick=${r}>${a}…</button>`}
  <a class="button" href=${Te(e)}>Why</a>
</li>`,er=(e,...t)=>t.find(n=>e?.verbs?.some(o=>o.target===n&&!o.refused))??"";function ac(e,t){let n=er(t,"retry",t?.run?.verb,"manage"),o=t?.says?z(t.says):Xo(e);return Zo(e,e.provision_updated_at,"",o,t,n&&D(n),()=>dt(e,n))}function rc(e,t){let n=er(t,"abort");return Zo(e,e.provision_updated_at,i`<b>◷ Overdue</b>`,z(t?.says),t,t?.run&&D(n||"stop"),()=>n?dt(e,n):Un({own:v("nodes",e.uuid),name:M(e)}))}function ic(e){let t=k.holds.value.get(e.uuid)??[],n=t.map(o=>`${o.kind}: ${o.reason}`).join("; ");return Zo(e,t[0]?.created_at,i`<b class="held-mark">■ HELD</b>`,n,void 0,"Lift hold",()=>Be({own:v("nodes",e.uuid),name:M(e),holds:t}))}import{useEffect as or,useLayoutEffect as lc,useRef as tr,useState as Hn}from"./vendor/hooks.js";import{h as Qo}from"./vendor/preact.js";var Jt=()=>It.value?56:28,nr=8,zt=500;function sr(e){let{rows:t,columns:n,id:o,label:s,selected:a,onSelect:r}=e,l=tr(null),[u,c]=Hn(0),d=tr({pointed:!1,focused:!1}),p=b=>{Object.assign(d.current,b),e.onHold?.(d.current.pointed||d.current.focused)},f=mc(l,t.length);or(()=>{l.current&&(l.current.scrollTop=0),c(0)},[e.view]);let m=E.value.plain?f.page*zt:f.first,$=E.value.plain?m+zt:f.last,y=Math.min(u,Math.max(0,t.length-1)),g=b=>{let C=Math.max(0,Math.min(t.length-1,b));c(C),hc(l.current,C)},A=b=>$c(b,{...e,at:y,move:g}),O=t.slice(m,$),w=n.map(b=>b.width??"1fr").join(" "),T={"--columns":r?`32px ${w}`:w};return i`<div class="grid-frame" style=${T}>
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
      onPointerEnter=${()=>p({pointed:!0})}
      onPointerLeave=${()=>p({pointed:!1})}
      onFocusIn=${()=>p({focused:!0})}
      onFocusOut=${()=>p({focused:!1})}
    >
      ${Qo(dc,{columns:n,select:!!r,sort:e.sort,onSort:e.onSort})}
      <div class="body" role="rowgroup" style=${cc(t.length)}>
        <div role="presentation" style=${uc(m)}>
          ${O.map((b,C)=>Qo(pc,{key:o(b),row:b,columns:n,label:s,index:m+C,active:m+C===y,checked:a?.has(o(b)),onOpen:e.onOpen,onFocus:()=>c(m+C),onCheck:r&&(()=>r(es(a,o(b))))}))}
        </div>
      </div>
    </div>
    ${E.value.plain&&t.length>zt&&Qo(fc,{view:f,rows:t.length})}
  </div>`}var cc=e=>E.value.plain?{}:{height:`${e*Jt()}px`},uc=e=>E.value.plain?{}:{transform:`translateY(${e*Jt()}px)`};function es(e,t){let n=new Set(e);return n.delete(t)||n.add(t),n}function dc({columns:e,select:t,sort:n,onSort:o}){return i`<div class="row head" role="row" aria-rowindex="1">
    ${t&&i`<span role="columnheader"><span class="unseen">Selected</span></span>`}
    ${e.map(s=>{let a=n===s.key?"ascending":n===`-${s.key}`?"descending":"none";return i`<span role="columnheader" aria-sort=${a} class=${`${s.key}${s.wide?" wide":""}`}>
        ${o?i`<button class="quiet" tabindex="-1" onClick=${()=>o(s.key)}>
              ${s.title}${a==="ascending"?" \u2191":a==="descending"?" \u2193":""}
            </button>`:s.title}
      </span>`})}
  </div>`}function pc({row:e,columns:t,label:n,index:o,active:s,checked:a,onOpen:r,onFocus:l,onCheck:u}){return i`<div
    class=${`row${s?" active":""}${a?" checked":""}`}
    role="row"
    id=${`row-${n}-${o}`}
    aria-rowindex=${o+2}
    aria-selected=${u?String(!!a):void 0}
    onClick=${l}
    onDblClick=${()=>r(e)}
  >
    ${u&&i`<span role="gridcell"
      ><input type="checkbox" tabindex="-1" aria-label=${`Select ${U(e.name??e.uuid)}`} checked=${!!a} onClick=${u}
    /></span>`}
    ${t.map(c=>i`<span role="gridcell" class=${`cell ${c.key}${c.wide?" wide":""}`}
          >${c.cell(e)}</span
        >`)}
  </div>`}function fc({view:e,rows:t}){let n=Math.ceil(t/zt);return i`<div class="pager">
    <button disabled=${e.page===0} onClick=${()=>e.setPage(e.page-1)}>Before</button>
    Page ${e.page+1} of ${n}
    <button disabled=${e.page+1>=n} onClick=${()=>e.setPage(e.page+1)}>
      Next
    </button>
  </div>`}function mc(e,t){let[n,o]=Hn(0),[s,a]=Hn(600),[r,l]=Hn(0);lc(()=>{let f=e.current;if(!f)return;let m=new ResizeObserver(()=>a(f.clientHeight));return m.observe(f),()=>m.disconnect()},[]),or(()=>{r*zt>=t&&l(0)},[t]);let u=Jt(),c=Math.max(0,Math.floor(n/u)-nr),d=f=>o(f.currentTarget.scrollTop),p=Math.min(t,Math.ceil((n+s)/u)+nr);return{first:Math.min(c,Math.max(0,t-1)),last:p,page:r,setPage:l,onScroll:d}}function hc(e,t){if(!e||E.value.plain)return;let n=t*Jt(),o=e.clientHeight-2*Jt();n<e.scrollTop?e.scrollTop=n:n>e.scrollTop+o&&(e.scrollTop=n-o)}function $c(e,{rows:t,at:n,move:o,id:s,selected:a,onSelect:r,onOpen:l,onCopy:u}){let c=t[n],d=E.value.keys&&!e.ctrlKey&&!e.metaKey,p={ArrowDown:()=>{e.shiftKey&&c&&r&&r(new Set([...a??[],s(c)])),o(n+1)},ArrowUp:()=>o(n-1),PageDown:()=>o(n+20),PageUp:()=>o(n-20),Home:()=>o(0),End:()=>o(t.length-1),Enter:()=>c&&l(c),...d&&u&&{c:()=>c&&u(c)}," ":()=>c&&r?.(es(a,s(c))),...d&&{j:()=>o(n+1),k:()=>o(n-1)},...d&&{x:()=>c&&r?.(es(a,s(c)))}};if((e.ctrlKey||e.metaKey)&&e.key==="a"&&r){r(new Set(t.map(s))),e.preventDefault();return}let f=p[e.key];!f||e.target.tagName==="INPUT"||(f(),e.preventDefault(),e.stopPropagation())}var os=[{key:"name",title:"Name",width:"minmax(9rem, 1fr)",cell:ue},{key:"provision_state",title:"State",width:"minmax(12.5rem, 1fr)",cell:yc},{key:"provision_updated_at",title:"Since",width:"6rem",cell:wc},{key:"under",title:"Under way",width:"minmax(10rem, 1.8fr)",cell:Sc,wide:!0},{key:"power_state",title:"Power",width:"5rem",cell:kc},{key:"resource_class",title:"Class",width:"7rem",cell:qn("resource_class"),wide:!0},{key:"conductor",title:"Conductor",width:"7rem",cell:qn("conductor"),wide:!0},{key:"data_state",title:"Data",width:"5rem",cell:qn("data_state"),wide:!0}],bc=["driver","owner","lessee","shard","conductor_group","fault","instance_name"],ir=e=>os.find(t=>t.key===e)??{key:e,title:e.replaceAll("_"," "),cell:qn(e),wide:!0},lr=e=>e?e.split(",").map(ir):os;function vc(){let e=lr(S.value.view.cols).map(n=>n.key),t=[...os,...bc.map(ir)];return $e(Dn,{name:"Columns"},t.map(({key:n,title:o})=>st(o,()=>{let s=t.map(a=>a.key).filter(a=>e.includes(a)!==(a===n));V({"~cols":s.join(",")},{replace:!0})},e.includes(n))))}function yc(e){return i`${$e(De,{state:e.provision_state})}
    ${k.overdue.value.has(e.uuid)&&i` <strong class="danger" title=${We}>overdue</strong>`}
    ${k.holds.value.has(e.uuid)&&i` <strong class="held-mark">■ HELD</strong>`}`}function wc(e){return $e(le,{at:e.provision_updated_at})}function kc(e){return h(String(e.power_state??"").replace("power ",""))}function qn(e){return t=>h(t[e]??"")}function Sc(e){let t=k.holds.value.get(e.uuid),n=k.under.value.get(e.uuid);if(n){let{place:s,eta:a}=n;return i`${h(s?`${s.ordinal+1}/${s.of} ${ee(s)}`:n.verb)}
      <span>${Wt(n)||a&&!k.overdue.value.has(e.uuid)&&xt(a,!0)}</span>`}if(t)return h(`${t[0].kind}: ${t[0].reason}`);let o=e.maintenance&&`maintenance${e.fault?`: ${e.fault}`:""}`;return h([Xo(e),o].filter(Boolean).join("; "))}function cr(){let{query:e,view:t}=S.value,n=t.q??"",o=t.sort??"need",s=ot.value,[a,r]=ns(!1);Yt(()=>{kn()},[]),Yt(()=>{let p=f=>f.key==="Escape"&&!Mn()&&f.target.type!=="search"&&Sn();return addEventListener("keydown",p),()=>removeEventListener("keydown",p)},[]),Yt(()=>Qs(e.toString()),[e.toString()]);let{given:l,fault:u}=Tc(e),c=Cc(e,n,o,a,l),d=u??k.failure.value;return k.tick.value,i`<h1 class="unseen">Fleet</h1>
    ${$e(Za,{brief:!!(e.size||n)})} ${$e(Lc,{words:n})} ${$e(Rc,{})}
    ${d&&$e(de,{fault:d})}
    ${$e(sr,{rows:c.shown,columns:lr(t.cols),id:p=>p.uuid,label:"Nodes",view:`${e}|${n}`,selected:s,onSelect:Eo,onHold:r,sort:o,onSort:p=>V({"~sort":o===p?`-${p}`:p},{replace:!0}),onCopy:p=>Ce(Fe("GET",v("nodes",M(p)))),onOpen:p=>q(Te(p))})}
    ${!c.shown.length&&!d&&l!==ts&&k.status.value!=="loading"&&(e.size||n)&&i`<p role="status">No node matches. <button onClick=${dr}>Clear filters</button></p>`}
    ${$e(Ua,{shown:c.shown})}
    <p class="footer" role="note">${Ec(c,o)}</p>
    ${$e(_c,{})}`}var xc=1e4;function _c(){let[e,t]=ns("");return Yt(()=>{let n=k.heard.count,o=setInterval(()=>{let s=k.heard.count-n;n+=s,t(s?`${P(s,"change")} in 10 seconds`:"")},xc);return()=>clearInterval(o)},[]),i`<div class="unseen" role="status" aria-label="Changes">${e}</div>`}function ur(){let e=k.counts.value;return e?je(e.values()):k.nodes.size}function Ec(e,t){let n=ur(),o=k.status.value==="loading"?" \xB7 loading":"",s=k.narrow.value?" \xB7 narrow the filter to see rows":o,a=e.waiting?` \xB7 ${e.waiting} changes wait while you are here`:"",r=t==="need"?"need":t.replace(/^-/,"");return`${e.shown.length} of ${n} \xB7 sorted by ${r}${s}${a}`}var ts=new Set;function Tc(e){let[t,n]=ns({}),o=En(e).length?e.toString():"";return Yt(()=>{if(!o)return;let s=new AbortController,a=async()=>{let u=new Set,c=`/v1/nodes?${o}&fields=uuid&limit=1000`;for await(let d of $t(c,"nodes",s.signal))for(let p of d)u.add(p.uuid);return{given:u,text:o}},r=()=>document.hidden||a().then(n,u=>s.signal.aborted||n(c=>({...Ee(u)&&c.text===o?c:{given:ts,text:o},fault:u})));r();let l=setInterval(r,lt);return()=>{clearInterval(l),s.abort()}},[o]),o?t.text===o?t:{given:ts}:{given:null}}function Cc(e,t,n,o,s){let a=k.slowTick.value,r=[k.overdue.value,k.holds.value],l=e.toString(),u=gc({key:"",rows:[],turn:0});return rr(()=>{let c=`${l}|${t}|${n}|${s?.size}`,d=u.current;if(o&&d.key===c&&d.rows.length)return{shown:d.rows.map(y=>k.nodes.get(y.uuid)??y),waiting:a-d.turn};let p=_n(e,t),f=oa().filter($=>p($)&&(s===null||s.has($.uuid))),m=Ac(f,n);return u.current={key:c,rows:m,turn:a},{shown:m,waiting:0}},[a,l,t,n,o,s,...r])}function Ac(e,t){let n=t.startsWith("-")?-1:1,o=t.replace(/^-/,"");if(o==="name")return n<0?e.reverse():e;let s=o==="need"||o==="under",a=e.map(r=>({node:r,first:s?sa(r):String(r[o]??"")}));return a.sort((r,l)=>r.first<l.first?-n:r.first>l.first?n:0),a.map(r=>r.node)}function Oc(e){let{key:t,currentTarget:n}=e;if(t==="Escape"&&!n.value)n.blur();else if(t==="Enter"||t==="ArrowDown")document.querySelector(".grid").focus();else return;e.preventDefault(),e.stopPropagation()}function Lc({words:e}){let{query:t}=S.value;return i`<div class="filters">
    <input
      id="filter"
      type="search"
      aria-label="Filter by name, state, class or conductor"
      placeholder="/ filter"
      value=${e}
      onInput=${_(n=>V({"~q":n},{replace:!0}))}
      onKeyDown=${Oc}
    />
    ${An(t)}
    ${j("Data",t.get("data_state")??"",n=>V({data_state:n}),[["","any"],...jt])}
    ${!It.value&&$e(vc,{})} <button onClick=${ga}>Enroll…</button>
    ${$e(I,{path:N("/v1/nodes",t).slice(1),label:"curl of these"})}
  </div>`}function Rc(){let e=k.slowTick.value,t=rr(()=>{let a=new Map(k.counts.value??[]);for(let r of k.counts.value?[]:k.nodes.values()){let l=r.provision_state;a.set(l,(a.get(l)??0)+1)}return[...a].sort(([r],[l])=>ar(r)-ar(l))},[e,k.counts.value]),n=(S.value.query.get("provision_state")??"").split(",").filter(Boolean),o=(a,r)=>{let l=r?n.filter(c=>c!==a):[],u=n.includes(a)?l:[...l,a];V({provision_state:u.join(",")})},s=t.filter(([a])=>rt.includes(a));return i`<div class="chips" role="group" aria-label="States">
    <button aria-pressed=${!S.value.query.size&&!S.value.view.q} onClick=${dr}>
      all ${ur()}
    </button>
    ${s.length>1&&i`<button onClick=${()=>V({provision_state:rt.join()})}>
      ▲ failed ${je(s.map(([,a])=>a))}
    </button>`}
    ${t.map(([a,r])=>{let l=ge[a]??"stable";return i`<button
        class=${`state ${l}`}
        aria-pressed=${n.includes(a)}
        onClick=${u=>o(a,u.shiftKey)}
      >
        <span class="sign" aria-hidden="true">${To[l]}</span> ${a} ${r}
      </button>`})}
  </div>`}var dr=()=>{let{view:e}=S.value;q(N("/v1/nodes",{},{...e,q:""}),{sel:e.sel})},ar=e=>-_o.indexOf(ge[e]??"stable");import{useEffect as yr,useState as Vn}from"./vendor/hooks.js";import{h as Y}from"./vendor/preact.js";import{useEffect as $r,useRef as gr,useState as Kn}from"./vendor/hooks.js";import{h as L}from"./vendor/preact.js";import{useEffect as ss,useMemo as Nc,useRef as pr,useState as Xt}from"./vendor/hooks.js";import{h as ke}from"./vendor/preact.js";var Mc=40;function Wn({run:e,why:t}){let n=e.steps??[],o=Math.max(1,...n.map(fr)),s=R(e.retry_of&&e.state==="failed"?v("runs",e.retry_of):null).body;return i`<div class="run">
    <p class="run-head">
      ${ke(X,{result:e.state})} <strong>${h(D(e.verb))}</strong>
      ${e.requester&&i` · ${h(e.requester)}`}${" \xB7 "}
      ${e.ended_at?i`${G((Date.parse(e.ended_at)-Date.parse(e.started_at))/1e3)}, ended ${ke(le,{at:e.ended_at,ago:!0})}`:i`for ${ke(le,{at:e.started_at})}`}
      ${e.eta&&!n.some(a=>a.overdue)&&i` · ${xt(e.eta)}`}
      ${e.retry_of&&i` · <a href=${N(v("runs",e.retry_of))}>retry of an earlier run</a>`}
    </p>
    ${s&&i`<p class="wrong" role="status">The retry failed again, with ${it(s)===it(e)?"the same":"another"} cause.</p>`}
    ${e.error&&!n.length&&i`<p class="wrong">${h(e.error.text)}</p>`}
    <ol class="steps" aria-label="Steps">
      ${n.map(a=>ke(Dc,{key:a.ordinal,step:a,longest:o,own:v("nodes",e.node_uuid,"runs",e.uuid)}))}
    </ol>
    ${t?.waits_for&&ke(Pc,{waits:t.waits_for})}
  </div>`}var fr=e=>e.ended_at||!e.started_at?e.duration_seconds??0:Pt(e.started_at);function Dc({step:e,longest:t,own:n}){let o=e.done_in?"kept":e.waiver?"waived":e.state,s=fr(e),a={width:`${Math.max(.3,s/t*Mc)}%`},r=e.usual_seconds;return i`<li class=${o} id=${`step-${e.ordinal}`}>
    ${ke(X,{result:o,word:!1})}
    <span class="step">${h(ee(e))}</span>
    ${e.done_in?i`<a href=${N(v("runs",e.done_in))}>done in an earlier run</a>`:e.started_at?i`<span class="bar-frame"><span class="bar-of-time" style=${a} /> ${G(s)}</span>`:i`<span>not reached</span>`}
    ${e.attempt>1?i`<span>attempt ${e.attempt}</span>`:""}
    ${e.overdue&&i`<span class="danger">◷ overdue</span>`}
    ${r&&i`<span class="small usual">usual ${G(r.p50)}</span>`}
    ${e.overdue&&i`<p class="small">${We}</p>`}
    ${e.waiver&&i`<p class="small">waived: ${h(e.waiver.reason??e.waiver)}</p>`}
    ${e.ended_at&&at.test(e.step)&&i`<a href=${`#${n.replace(/runs.*/,"erasures")}`}>erasures</a>`}
    ${e.error&&ke(Ic,{error:e.error,log:N(`${n}/log`,{},{line:e.ended_at??e.started_at})})}
  </li>`}function Ic({error:e,log:t}){let n=e.cause??e;return i`<p class="wrong">
    ${h(n.text)} <code class="small">${n.code}</code> <a href=${t}>log at this line</a>
  </p>`}function Pc({waits:e}){let t=Math.max(0,(Date.parse(e.given_up_at)-xe.value)/1e3);return i`<p class="waits">
    ◔ Waits for the ${e.what}, for ${ke(le,{at:e.since})} now${e.last_sign_at&&i`, last sign ${ke(le,{at:e.last_sign_at,ago:!0})}`}${e.given_up_at&&i`; given up in ${G(t)}`}.
  </p>`}var Bc=2e4,Uc=/^(\S+) (\S+)\s+(.*)$/,Fc=/^\S+ failed/;function mr({path:e,live:t}){let[n,o]=Hc(`${e}/log`,t),[s,a]=Xt(""),[r,l]=Xt(""),u=pr(null),[c,d]=Xt(!0),p=Nc(()=>[...new Set(n.map(x=>x.source))],[n]),f=n.filter(x=>!s||x.source===s),m=x=>r&&x.text.toLowerCase().includes(r),$=f.filter(m),{line:y}=S.value.view,g=f.filter(x=>Number(y)?x.number===Number(y):y&&x.at>=y),A=g.find(x=>Fc.test(x.text))??g[0],O=A?A.number:0,w=x=>x&&V({"~line":String(x.number)},{replace:!0}),T=()=>w($.find(x=>x.number>O)??$[0]),b=()=>w($.findLast(x=>x.number<O)??$.at(-1));ss(()=>{O&&(d(!1),document.getElementById(`line-${O}`)?.scrollIntoView({block:"center"}))},[O]);let C=pr(0);c&&(C.current=n.length);let Nt=n.length-C.current;ss(()=>{c&&u.current&&(u.current.scrollTop=u.current.scrollHeight)},[n,c]);let Jn=()=>{let x=u.current;x&&d(x.scrollTop+x.clientHeight>x.scrollHeight-20)};return i`<div class="filters">
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
      ${p.map(x=>i`<button
          aria-pressed=${s===x}
          onClick=${()=>a(s===x?"":x)}
        >
          ${U(x)}
        </button>`)}
      ${ke(I,{path:`${e}/log`,stream:t})}
      ${!c&&i`<button onClick=${()=>d(!0)}>
        ${Nt>0?P(Nt,"new line"):"To the end"}
      </button>`}
    </div>
    <div class="log" ref=${u} onScroll=${Jn} tabindex="0" role="log" aria-label="Log of the run">
      ${f.map(x=>i`<div class=${m(x)?"hit":""} id=${`line-${x.number}`}
          aria-current=${x===A?"true":void 0}>
          <a href=${N(`${e}/log`,{},{line:String(x.number)})}><time
            title=${Ye(x.at,!0)}>${mt(x.at,E.value.utc,!0)}</time></a> <span class="source">${U(x.source)}</span> ${U(x.text)}
        </div>`)}
      ${!n.length&&!o&&i`<p>No line yet.</p>`}
    </div>${Pe(o,`${e}/log`)}`}function Hc(e,t){let[n,o]=Xt([]),[s,a]=Xt(null);return ss(()=>{let r=new AbortController,l=()=>{qc(e,t,r.signal,o,a)},u=()=>{r.abort(),r=new AbortController,document.hidden||l()};return o([]),a(null),l(),t&&document.addEventListener("visibilitychange",u),()=>{r.abort(),document.removeEventListener("visibilitychange",u)}},[e,t]),[n,s]}async function qc(e,t,n,o,s){let a=0;for(;;){let r=new AbortController,l=t?await co(()=>r.abort()):null,u=AbortSignal.any([n,r.signal]),c=t;try{let d=0,p=[],f=await jc(e+(l?"?follow=true":""),u);s(null);for await(let m of ho(f))p=[...p,...m.map($=>Wc($,d+=1))].slice(-Bc),d>=a&&o(p),a=Math.max(a,d),await oe(50)}catch(d){if(n.aborted)return;r.signal.aborted||(s(d),c=Ee(d))}finally{l?.()}if(!c||(await oe(yt),n.aborted))return}}async function jc(e,t){let n=await Qe("GET",e,{signal:t});if(!n.ok||!n.body)throw Ut(n,await n.text(),`GET ${e}`);return n.body}function Wc(e,t){let[,n="",o="",s=e]=Uc.exec(e)??[];return{number:t,at:n,source:o,text:s}}var jn=["enroll","manageable","available","active","rescue"];function hr({why:e}){let t=e.provision_state,n=Se.find(a=>a.target===e.run?.verb)?.from??[],o=jn.findIndex(a=>n.includes(a)),s=jn.toSpliced(o<0?jn.length:o+1,0,...jn.includes(t)?[]:[t]);return i`<ol class="machine" aria-label="States">
      ${s.map(a=>i`<li aria-current=${a===t?"step":void 0}>
        ${ke(De,{state:a})}</li>`)}
    </ol>
    <ul class="machine" aria-label="Verbs">
      ${e.verbs.map(a=>a.refused?"":i`<li>
        <strong>${D(a.target)}</strong> → ${a.leads_to}: ${Me[a.target]}</li>`)}
    </ul>`}var as={runs:"Runs",log:"Log",states:"BMC",ports:"Ports",inventory:"Inventory",fields:"Fields",history:"History",holds:"Holds",erasures:"Erasures"},Kc=2e3;function br(){let{parts:e}=S.value,t=e[1]??"",n=v("nodes",t),[o,s]=Kn(0),[a,r]=Kn(""),[l,u]=Kn(""),c=l===n,d=R(c||a===n?null:`${n}/why`,{again:o}),p=gr("");p.current=d.body?.node??p.current,$r(()=>{d.fault?.status===403&&r(n),d.fault?.status===404&&p.current&&W(v("nodes",p.current)).then(({body:A})=>S.value.parts[1]===t&&q(Te(A),{replace:!0}),A=>{A.status===404&&u(n)})},[d.fault]);let f=R(c?null:n,{again:o}),m=()=>s(A=>A+1);Jc(t,d.body?.node??f.body?.uuid,m,()=>u(n));let $=R(zc(n,d.body,e),{again:o,each:d.body&&Gc(d.body)?Kc:0});if(c)return i`<p role="status">This node has been deleted.</p>`;if(a===n&&f.body)return L(Yc,{node:f.body,own:n});let y=Pe(d.fault,`${n}/why`);if(!d.body)return y??L(pe,{rows:8});let g=Vc(e,S.value.view.tab);return i`${y} ${L(Xc,{why:d.body,node:f.body,own:n,reload:m})}
    ${L(Oa,{why:d.body,node:f.body,reload:m})}
    ${d.body.provision_state==="enroll"&&L(Zc,{own:n})}
    ${g!=="log"&&L(hr,{why:d.body})}
    ${$.body&&g==="runs"&&L(Wn,{run:$.body,why:d.body})}
    ${d.body.failure&&g==="runs"&&L(Qc,{failure:d.body.failure})}
    ${L(eu,{own:n,tab:g,run:$.body})}
    <section aria-label=${as[g]??g}>${tu(g,{own:n,node:f,why:d.body,run:$,reload:m,turn:o})}</section>`}function Vc(e,t){return e[4]==="log"?"log":t||(e[2]&&e[2]!=="why"?e[2]:"runs")}var Gc=e=>["busy","wait"].includes(e.kind);function zc(e,t,n){return n[2]==="runs"&&n[3]?`${e}/runs/${encodeURIComponent(n[3])}`:t?.run?`${e}/runs/${t.run.uuid}`:null}function Jc(e,t,n,o){let s=gr({onEvent:n,onDeleted:o});s.current={onEvent:n,onDeleted:o},$r(()=>{if(!t)return;let a=0,r=()=>{a||=setTimeout(()=>{a=0,s.current.onEvent()},300)},l=c=>c.some(d=>d.kind==="node_deleted")?(clearTimeout(a),u(),s.current.onDeleted()):r(),u=wt("/v1/events?since=now",c=>(r(),new He(c.cursor,l,r,{node:t})));return()=>{clearTimeout(a),u()}},[e,t])}function Yc({node:e,own:t}){return i`<header class="node-head">
      <h1>${h(e.name??e.uuid)}</h1>
      ${L(De,{state:e.provision_state})}
      <span class="small">${L(le,{at:e.provision_updated_at})}</span>
      ${e.power_state&&i`<span class="tag">${h(e.power_state)}</span>`} ${L(I,{path:t})}
    </header>
    <p class="says">You may see this node, but not why it is in its state, and not its runs.</p>
    ${L(me,{of:vr(e)})}`}function Xc({why:e,node:t,own:n,reload:o}){let s=e.name??e.node,a=[e.maintenance&&`maintenance${e.maintenance.fault?`: ${e.maintenance.fault}`:""}`,e.data_state&&`data: ${e.data_state}`,t?.power_state,t?.retired&&"retired",t?.protected&&"protected",e.lock&&`locked by ${e.lock.host}${e.lock.for?` for ${e.lock.for}`:""}`].filter(Boolean);return i`<header class="node-head">
      <h1>${h(s)}</h1>
      ${L(De,{state:e.provision_state})} <span class="small">${L(le,{at:e.since})}</span>
      ${e.holds.map(r=>i`<button
        class="tag held-mark" title="Lift this hold…" onClick=${()=>Be({own:n,name:s,reload:o,holds:[r]})}
        >■ HELD (${r.kind}): ${h(r.reason)}</button>`)}
      ${a.map(r=>i`<span class="tag">${h(r)}</span>`)}
      ${L(I,{path:`${n}/why`})}
      <button class="quiet" onClick=${()=>Ce(location.href)}>copy link</button>
      <a href=${N("/v1/doctor",{node:e.name??e.node})}>doctor</a>
    </header>
    <p class="says">${h(z(e.says))} ${Cn(e)} ${e.batch&&ye(v("batches",e.batch.uuid),e.batch.name??"batch")}</p>`}function Zc({own:e}){let n=(R(`/v1/doctor?node=${e.split("/").pop()}`).body?.checks??[]).filter(o=>o.where?.startsWith("node "));return n.length>0&&i`<section aria-label="Checks before Manage">${L(Ln,{checks:n})}</section>`}function Qc({failure:e}){let t=e.evidence?.find(n=>n.kind==="log");return i`<section class="evidence" aria-label="Failure">
    ${e.evidence?.filter(n=>n.text).map(n=>i`<p>${n.kind}: ${h(n.text)}</p>`)}
    ${t?.tail?.length>0&&i`<pre>${t.tail.map(n=>i`${h(n)}${`
`}`)}</pre>`}
    ${t&&i`<a href=${`#${gt(t.href)}`}>the whole log</a>`}
  </section>`}function eu({own:e,tab:t,run:n}){let o=s=>s==="log"&&n?N(`${e}/runs/${n.uuid}/log`):["fields","log"].includes(s)?N(e,{},{tab:s}):N(`${e}/${s}`);return i`<select class="parts" aria-label="Part of the node" onChange=${_(s=>q(s))}>
      ${Object.entries(as).map(([s,a])=>i`<option value=${o(s)} selected=${t===s}>${a}</option>`)}
    </select>
    <nav class="tabs" aria-label="Parts of the node">
    ${Object.entries(as).map(([s,a],r)=>i`<a
          href=${o(s)}
          aria-current=${t===s?"page":void 0}
          data-key=${r+1}
          >${a}</a
        >`)}
  </nav>`}function tu(e,t){let{own:n,run:o,why:s}=t;if(e==="log")return o.body?L(mr,{path:`${n}/runs/${o.body.uuid}`,live:!o.body.ended_at}):i`<p>This node has no run.</p>`;let a={runs:nu,states:Na,ports:ou,inventory:su,fields:au,history:lu,holds:ya,erasures:cu}[e];return a?L(a,{...t,uuid:s.node}):i`<p>There is no page for this path.</p>`}var rs=e=>[ye(v("nodes",e.node_uuid,"runs",e.uuid),D(e.verb)+(e.retry_of?", retry":"")),L(X,{result:e.state}),K(e.started_at),e.duration_seconds==null?L(le,{at:e.started_at}):G(e.duration_seconds),e.requester,it(e),On("nodes",e.node_uuid,"runs",e.uuid)],is=["Verb","Result","Begun","Took","By","Error",Et];function nu({own:e,turn:t}){return L(fe,{path:`${e}/runs?limit=50`,again:t,label:"Runs",head:is,of:"runs",row:rs})}function ou({own:e}){return L(fe,{path:`${e}/ports?detail=true`,label:"Ports",of:"ports",head:["Address","Name","PXE","Physical network","Switch"],row:t=>[i`<code>${h(t.address)}</code>`,t.name,t.pxe_enabled?"yes":"no",t.physical_network,t.local_link_connection?.switch_id]})}function su({own:e}){return L(re,{path:`${e}/inventory`,absent:"Not inspected yet.",draw:t=>L(me,{of:t})})}function au({node:e,own:t,reload:n}){let[o,s]=Kn(""),a=Re(o),r=Array.isArray(a)?a:null,l={method:"PATCH",path:t,body:r,of:t,seen:e},{fault:u,busy:c,send:d,request:p,choice:f}=ie(l,()=>{s(""),H("The node is changed."),n()});return e.body?i`<details>
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
      ${u&&L(de,{fault:u})} ${f}
      ${r&&L(I,p)}
      <button disabled=${!r||c} onClick=${()=>d()}>Send the patch</button>
    </details>
    <p class="tools">${L(I,{path:t})}</p>
    ${L(me,{of:vr(e.body)})}`:L(pe,{})}var ru=(e,t)=>String(t??"").split("/").slice(1).map(n=>n.replaceAll("~1","/").replaceAll("~0","~")).reduce((n,o)=>n?.[o],e)??"nothing",vr=e=>Object.fromEntries(Object.entries(e).filter(([,t])=>!iu(t))),iu=e=>Array.isArray(e)&&e[0]?.href!==void 0;function lu({own:e,turn:t}){return L(fe,{path:`${e}/history?limit=100&sort_dir=desc`,again:t,label:"History",of:"history",head:["At","Severity","Event"],row:n=>[K(n.created_at),n.severity,n.event]})}function cu({own:e}){return L(re,{path:`${e}/erasures`,draw:t=>L(Vo,{body:t})})}var us=e=>[S.value.query.get(e)??"",t=>V({[e]:t.trim()})],ls=(e,t,n)=>j(t,...us(e),[["","all"],...n]);function ze(e,t){let[n,o]=us(e);return F(t,{value:n,onChange:_(o)})}function wr(){let{parts:e}=S.value;return e[1]?i`<h1>Run</h1>
      ${Y(re,{path:S.value.path,each:lt,draw:t=>Y(Wn,{run:t})})}`:i`<h1>Runs</h1>
    <div class="filters">
      ${ls("state","Result",["running","waiting","done","failed","aborted"])}
      ${ls("latest","Latest of each node",["true"])}
      ${ls("overdue","Overdue",["true"])}
      ${ze("verb","Verb")} ${ze("node","Node")}
      ${ze("code","Code of the cause")}
      ${ze("since","Begun since")} ${ze("before","Begun before")}
    </div>
    ${S.value.query.has("overdue")&&i`<p class="small">${We}</p>`}
    ${Y(fe,{path:be({limit:"200"}),each:lt,label:"Runs",head:["Node",...is],of:"runs",row:t=>[ue({name:t.node_name,uuid:t.node_uuid}),...rs(t)]})}`}var uu=500;function kr(){let[e,t]=Vn(null),[n,o]=Vn(null),[s,a]=Vn(!1),{query:r}=S.value,l=r.toString(),u=`/v1/events?${new URLSearchParams([...r,["limit","100"]])}`;return yr(()=>{t(null),a(!1)},[l]),yr(()=>{if(s)return;o(null);let c=Object.fromEntries(r),d=p=>t(f=>[...p.reverse(),...f??[]].slice(0,uu));return wt(u,p=>(o(null),t(p.events.reverse()),new He(p.cursor,d,null,c)),o)},[l,s]),i`<h1>Events</h1>
    <div class="filters">
      ${ze("node","Node")} ${ze("kind","Kinds")}
      ${j("Show",...us("since"),[["","newest"],["0","all that are kept"]])}
      <button aria-pressed=${s} onClick=${()=>a(!s)}>Pause</button>
      ${Y(I,{path:be({since:"now",follow:"true"}),stream:!0})}
    </div>
    ${n?Y(de,{fault:n,path:u}):e?Y(Ke,{label:"Events",head:["At","Node","Kind","Event","Change","By",Et],rows:e.map(c=>[K(c.at),c.node&&ue({name:c.name,uuid:c.node}),c.kind,c.data?.step??c.event??(c.node?null:c.data?.name),c.after&&`${c.before??""} \u2192 ${c.after}`,c.requester??c.conductor,Y(I,{path:`/v1/events?${new URLSearchParams({kind:c.kind,...c.node&&{node:c.node}})}`})])}):Y(pe,{})}`}function Sr(){return i`<h1>Steps</h1>
    ${Y(fe,{path:be(),label:"Steps",of:"steps",head:["Step","Kind","Driver","Class","Count","Failed","Usual","90 %","Longest","Codes"],row:e=>[ee(e),e.kind,e.driver,e.resource_class,e.count,e.failed,G(e.p50),G(e.p90),G(e.longest),Object.entries(e.codes).map(([t,n])=>i`<code>${t} ${n}</code> `)]})}`}function xr(){let e=({status:t,checks:n})=>i`<p>${Y(X,{result:t})}</p> ${Y(Ln,{checks:n})}`;return i`<h1>Doctor</h1>
    <div class="filters">${ze("node","Also examine the node")}</div>
    ${Y(re,{path:be(),draw:e})}
    <h2>Conductors</h2>
    ${Y(fe,{path:"/v1/conductors?detail=true",label:"Conductors",of:"conductors",head:["Host","Group","Alive","Last sign"],row:t=>[t.hostname,t.conductor_group,t.alive?"yes":"\u25B2 no",K(t.updated_at)]})}`}function _r(){return i`<h1>${h(S.value.path)}</h1>
    ${Y(re,{path:be(),draw:e=>Y(me,{of:e})})}`}var cs=(e,t)=>st(t,n=>Je({[e]:n}),E.value[e]);function du(){let[e,t]=Vn(JSON.stringify(E.value.views)),n=Re(e),o=Object.fromEntries(Object.entries(n??{}).filter(([,s])=>typeof s=="string"&&s.startsWith("#/v1/")));return i`<details>
    <summary>Export and import</summary>
    <label class="block"
      >Saved views, as JSON
      <textarea rows="3" spellcheck="false" value=${e} onInput=${_(t)} />
    </label>
    <button disabled=${!n} onClick=${()=>Je({views:{...E.value.views,...o}})}>Import</button>
  </details>`}function Er(){let{views:e}=E.value;return i`<h1>Settings</h1>
    ${cs("utc","Show times in UTC")} ${cs("keys","Shortcuts of one character")}
    ${cs("plain","Plain tables of 500 rows, for screen readers and find-in-page")}
    <h2>Saved views</h2>
    ${!Object.keys(e).length&&i`<p>There are none. Press Find, then "Save this view".</p>`}
    <ul>
      ${Object.entries(e).map(([t,n])=>i`<li>
          <a href=${n}>${h(t)}</a>
          <button class="quiet" onClick=${()=>Je({views:ct(e,t,"")})}>remove</button>
        </li>`)}
    </ul>
    ${Y(du,{})}
    <h2>Who am I</h2>
    ${Y(re,{path:"/v1/whoami",draw:t=>Y(me,{of:t})})}
    ${Oe.value&&i`<button onClick=${()=>(q("#/v1/nodes"),Is())}>Log out</button>`}`}import{useEffect as Cr,useRef as pu,useState as Gn}from"./vendor/hooks.js";import{h as pt}from"./vendor/preact.js";var zn=[["f","Fleet","/v1/nodes"],["r","Runs","/v1/runs"],["b","Batches","/v1/batches"],["e","Events","/v1/events"],["v","Erasures","/v1/erasures"],["s","Steps","/v1/stats/steps"],["d","Doctor","/v1/doctor"]];function Ar({children:e}){let{path:t}=S.value,[n,o]=Gn(!1);Cr(()=>o(!1),[t]);let s=zn.find(([,,r])=>ds(t,r))?.[1]??"Menu";return i`<a class="skip" href="#main-content" onClick=${fu}>Skip to the content</a>
    <header class=${n?"bar open":"bar"} onKeyDown=${r=>{r.key!=="Escape"||!n||(o(!1),r.stopPropagation())}}>
      <a class="brand" href="#/v1/nodes">ironic-lite</a>
      <button class="pages" aria-expanded=${String(n)} aria-controls="pages" onClick=${()=>o(!n)}>
        <span aria-hidden="true">☰</span> ${s}
      </button>
      <nav id="pages" aria-label="Pages">
        ${zn.map(([,r,l])=>i`<a href=${`#${l}`} aria-current=${ds(t,l)}>${r}</a>`)}
      </nav>
      ${pt(hu,{})}
      <button class="quiet" onClick=${ms} aria-keyshortcuts="Control+K">Find…</button>
      <span class="tools">
        ${pt(I,{path:be()})}
        <button class="quiet" onClick=${Lr} aria-label="Help and shortcuts">?</button>
        <button class="quiet" onClick=${fs} aria-label=${`Theme: ${E.value.theme}`}>
          ${{auto:"\u25D1",light:"\u2600",dark:"\u263E"}[E.value.theme]}
        </button>
        <a href="#/v1/whoami" aria-current=${ds(t,"/v1/whoami")}>${Oe.value||"settings"}</a>
      </span>
    </header>
    ${pt($u,{})}
    <main id="main-content" tabindex="-1">${e}</main>
    <div class="live" role="status" aria-live="polite">
      ${St.value.map(r=>i`<p>
        ${U(r.text)} ${r.to&&i`${r.to!==location.hash&&i`<a href=${r.to} onClick=${Tr(r)}>Show</a>`}
          <button class="quiet" aria-label="Close this message" onClick=${Tr(r)}>×</button>`}
      </p>`)}
    </div>
    ${Ze.value&&pt(gu,{kind:Ze.value})} ${pt($a,{})}`}var Tr=e=>()=>_t(t=>t===e);function fu(e){e.preventDefault(),document.getElementById("main-content")?.focus()}var ds=(e,t)=>e===t||e.startsWith(`${t}/`)?"page":void 0;function fs(){Je({theme:{auto:"light",light:"dark",dark:"auto"}[E.value.theme]})}var mu=15;function hu(){xe.value;let e=sn.value;if(e){let s=mt(e.toISOString(),E.value.utc);return i`<span class="connection off">○ offline since ${s}</span>`}let t=(performance.now()-mo.value)/1e3,n=`\u25CF live${t>mu?`, ${G(t)} old`:""}`;return i`<span class="connection">${{stream:n,wait:n,poll:"\u25CC every 5 s",again:"\u25CC every 10 s",off:"\u25CB offline"}[fo.value]}</span>`}function $u(){let e=location.protocol==="http:"&&!/^(localhost|127\.|\[::1)/.test(location.hostname);return i`${io.value&&i`<p class="notice" role="status"><button onClick=${()=>location.reload()}>Reload: new version</button></p>`}
    ${e&&Oe.value&&i`<p class="notice">This connection is not encrypted: the login is readable on the way.</p>`}`}function gu({kind:e}){let[t,n]=Gn(""),o=r=>{r.preventDefault();let l=r.target.elements.secret,u=l.value;l.value="",e==="basic"?Ms(t,u):Ds(u)},s=pu(null),a=()=>s.current?.showModal();return Cr(a,[]),i`<dialog class="login" aria-label="Log in" ref=${s} onClose=${a}>
    <form onSubmit=${o}>
      ${Oe.value&&i`<p class="wrong" role="alert">This login is refused, or has expired.</p>`}
      <p>
        ${e==="basic"?"This service wants a user name and a password (http_basic).":i`This service wants a Keystone token: <code>openstack token issue -f value -c id</code>`}
      </p>
      ${e==="basic"&&F("User",{name:"user",autocomplete:"username",autofocus:!0,onInput:_(n)})}
      ${F(e==="basic"?"Password":"Token",{name:"secret",type:"password",autocomplete:"current-password"})}
      <button class="primary">Log in</button> <span class="small">kept in memory only</span>
    </form>
  </dialog>`}var Or=20;function ms(){kn(),J(()=>pt(ku,{}))}function bu(e){let t=e.toLowerCase(),n=zn.map(([,r,l])=>({label:r,hint:"page",act:()=>q(`#${l}`)})),o=Object.entries(E.value.views).map(([r,l])=>({label:r,hint:"saved view",act:()=>q(l)})),s=[{label:"Save this view",hint:"setting",act:wu},{label:"Next theme",hint:"setting",act:fs},{label:"Settings",hint:"page",act:()=>q("#/v1/whoami")}];return[...[...yu(),...n,...o,...s].filter(r=>r.label.toLowerCase().includes(t)),...vu(t)].slice(0,Or)}function vu(e){if(!e)return[];let t=[];for(let n of k.nodes.values()){let o=String(M(n));if(!(!o.toLowerCase().includes(e)&&!n.uuid.startsWith(e))&&(t.push({label:o,hint:n.provision_state,act:()=>q(Te(n))}),t.length===Or))break}return t}function yu(){let[e,t]=S.value.parts,n=xn(),o=(c,d)=>([p,f])=>({label:`${p} ${d}`,hint:c,act:f});if(e==="nodes"&&!t&&n.length)return Object.entries(qo).map(([c,d])=>o("act",P(n.length))([c,()=>d(n)]));let s=e==="nodes"&&[...k.nodes.values()].find(c=>c.name===t||c.uuid===t);if(!t||!s)return[];let a=v("nodes",s.uuid),r=k.holds.value.get(s.uuid)??[],l=At(new Set([s.provision_state])).map(c=>[D(c),()=>dt(s,c)]),u=[["Hold",()=>In({own:a,name:t,holds:r})],...r.length?[["Lift hold of",()=>Be({own:a,name:t,holds:r})]]:[],[s.maintenance?"End maintenance of":"Maintenance of",()=>Fo(s)],...Gt.map(c=>[D(c[0]),()=>Uo(s,c)])];return[...l.map(o("verb",t)),...u.map(o("act",t))]}function wu(){let e=decodeURIComponent(location.hash.slice(1));Je({views:{...E.value.views,[e]:location.hash}}),H(`Saved: ${e}`)}function ku(){let[e,t]=Gn(""),[n,o]=Gn(0);k.tick.value;let s=bu(e),a=Math.min(n,s.length-1),r=u=>{Ve(),u?.act()},l=u=>{let c={ArrowDown:1,ArrowUp:-1}[u.key];if(c)o(Math.max(0,Math.min(s.length-1,a+c)));else if(u.key==="Enter")r(s[a]);else return;u.preventDefault()};return i`<div class="palette">
    <h2 id="dialog-title" class="unseen">Find</h2>
    <input
      autofocus
      role="combobox"
      aria-expanded="true"
      aria-controls="palette-list"
      aria-activedescendant=${`palette-${a}`}
      aria-label="Pages, nodes and verbs"
      placeholder="Pages, nodes, verbs"
      onInput=${_(u=>(t(u),o(0)))}
      onKeyDown=${l}
    />
    <button class="quiet" onClick=${Ve}>Close</button>
    <ul id="palette-list" role="listbox" aria-label="Found">
      ${s.map((u,c)=>i`<li
          id=${`palette-${c}`}
          role="option"
          aria-selected=${String(c===a)}
          onClick=${()=>r(u)}
        >
          ${h(u.label)} <span class="small">${u.hint}</span>
        </li>`)}
    </ul>
    ${!s.length&&i`<p role="status">No match.</p>`}
  </div>`}var Su=[["Ctrl-K  :","find pages, nodes, verbs"],["/","filter or search"],["g then f r b e v s d","pages"],["j k \u2191 \u2193 Home End","row"],["x Shift-\u2193 Ctrl-A","select"],["Enter  Esc","open; close or clear"],["c  y","copy the page or the row as curl, copy the address"],["1 \u2013 9  w l","tab of a node; its run, its log"],["n  N","next, previous line that is searched in a log"],[".","acts on a node"],["t  ?","theme, help"]];function Lr(){J(()=>pt(te,{title:"Shortcuts"},i`<dl class="help">
        ${Su.map(([e,t])=>i`<dt><kbd>${e}</kbd></dt><dd>${t}</dd>`)}
      </dl>`))}var Zt=e=>document.querySelector(e),ps=0,xu={":":ms,"/":()=>Zt("input[type=search]")?.focus(),"?":Lr,t:fs,Escape:()=>_t(()=>!0),y:()=>Ce(location.href),w:()=>Zt('[data-key="1"]')?.click(),l:()=>Zt('[data-key="2"]')?.click(),".":()=>Zt(".actions button")?.focus(),c:()=>Ce(Fe("GET",be())),g:()=>{ps=performance.now()}};addEventListener("keydown",e=>{if((e.ctrlKey||e.metaKey)&&e.key.toLowerCase()==="k")return e.preventDefault(),ms();let t=e.target.closest("input, textarea, select");if(Mn()||t||!E.value.keys||e.ctrlKey||e.metaKey||e.altKey)return;if(performance.now()-ps<1500){ps=0;let o=zn.find(([s])=>s===e.key);if(o)return q(`#${o[2]}`)}if(/^[1-9nN]$/.test(e.key))return Zt(`[data-key="${e.key}"]`)?.click();let n=xu[e.key];if(n)return e.preventDefault(),n()});var Tu={runs:wr,batches:ja,events:kr,erasures:za,stats:Sr,doctor:xr,whoami:Er};function Cu(){let{parts:e}=S.value,[t="nodes",n]=e,o=t==="nodes"?n?br:cr:Tu[t]??_r;return _u(()=>{scrollTo(0,0),document.activeElement===document.body&&document.getElementById("main-content")?.focus()},[t,n]),document.title=`${U(n??t)} \xB7 ironic-lite`,hs(Ar,{children:hs(o,{key:n??t})})}var Rr=document.getElementById("window");Rr.replaceChildren();Eu(hs(Cu,{}),Rr);
