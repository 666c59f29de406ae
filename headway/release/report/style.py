"""The look of the report: one column, system fonts, two schemes. Colours differ in lightness too, for those who do not see hues."""

STYLE = """
:root{--ink:#1b1f24;--soft:#5b6570;--line:#dfe3e8;--paper:#fff;--wash:#f6f7f9;--good:#146c43;--bad:#b3261e;--warn:#8a5a00;--open:#0b5394;
--against:#b3261e;--proof:#1a7f5a;--users:#0b5394;--copies:#b9cfe4}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ec;--soft:#9aa4ae;--line:#343b43;--paper:#15181c;--wash:#1c2025;--good:#5ec998;--bad:#ff8a80;
--warn:#e6b450;--open:#7fb6ea;--against:#ff8a80;--proof:#5ec998;--users:#7fb6ea;--copies:#33506b}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:820px;margin:0 auto;padding:40px 24px 64px}
header{border-top:6px solid var(--tone);padding-top:20px}
.good{--tone:var(--good)}.bad{--tone:var(--bad)}.warn{--tone:var(--warn)}.open{--tone:var(--open)}
.place{margin:0;color:var(--soft);letter-spacing:.02em}
h1{margin:.1em 0 .1em;font-size:40px;line-height:1.15;color:var(--tone);letter-spacing:-.02em}
.verdict{font-size:19px;margin:.2em 0 .8em}
h2{font-size:20px;margin:44px 0 12px;padding-bottom:6px;border-bottom:1px solid var(--line)}
h3{font-size:16px;margin:26px 0 2px}
small,.quiet{color:var(--soft);font-weight:400;font-size:13.5px}
.quiet{margin:0 0 6px}
.figures{display:flex;flex-wrap:wrap;gap:10px;margin-top:18px}
.figures div{background:var(--wash);border-radius:8px;padding:10px 16px;flex:1 1 120px}
.figures b{display:block;font-size:20px;font-variant-numeric:tabular-nums;letter-spacing:-.01em}
.figures span{color:var(--soft);font-size:13px}
.caveats{margin:22px 0 0;padding:12px 16px 12px 34px;background:var(--wash);border-left:4px solid var(--warn);border-radius:0 8px 8px 0}
svg{display:block;width:100%;height:auto;background:var(--wash);border-radius:8px}
svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
.grid{stroke:var(--line)}.bound{stroke:var(--ink);stroke-dasharray:5 4;opacity:.7}.moment{stroke:var(--soft);opacity:.35;stroke-dasharray:1 3}
polyline{fill:none;stroke-width:2;stroke-linejoin:round}
polyline.against{stroke:var(--against);stroke-width:2.5}polyline.proof{stroke:var(--proof)}
polygon.users{fill:var(--users);opacity:.85}polygon.copies{fill:var(--copies);opacity:.8}
.legend{color:var(--soft);font-size:13.5px;margin:8px 0}
.legend i{display:inline-block;width:14px;height:10px;border-radius:2px;margin:0 2px 0 10px;background:var(--c)}
.legend i:first-child{margin-left:0}
.legend .users{--c:var(--users)}.legend .copies{--c:var(--copies)}.legend .against{--c:var(--against)}.legend .proof{--c:var(--proof)}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:left;vertical-align:top;padding:6px 10px 6px 0;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:500}
td{overflow-wrap:anywhere}
td:nth-child(1) code,.story td{overflow-wrap:normal}
.story td:nth-child(1),.story td:nth-child(2){white-space:nowrap;font-variant-numeric:tabular-nums;color:var(--soft)}
.story td:nth-child(4){color:var(--soft);font-size:13px;white-space:nowrap;padding-right:0}
.story tr.bad td:nth-child(3){color:var(--bad)}.story tr.warn td:nth-child(3){color:var(--warn)}
.facts th{width:36%}
code{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;background:var(--wash);border-radius:4px;padding:1px 4px}
footer{margin-top:48px;color:var(--soft);font-size:13px;overflow-wrap:anywhere}
@media print{main{max-width:none;padding:0}section{break-inside:avoid-page}}
"""
