try{document.documentElement.dataset.theme=localStorage.getItem("baton.theme")??"auto"}catch{}var e=()=>{import("/console/console.js")};document.hidden?e():requestAnimationFrame(()=>setTimeout(e));
