#include "base/html.h"

#include "base/buf.h"

void html_text(struct buf *b, const char *s)
{
    for (; *s; s++) {
        if (*s == '<')
            (void) buf_str(b, "&lt;");
        else if (*s == '>')
            (void) buf_str(b, "&gt;");
        else if (*s == '&')
            (void) buf_str(b, "&amp;");
        else if (*s == '"')
            (void) buf_str(b, "&quot;");
        else if ((unsigned char) *s >= ' ')
            (void) buf_char(b, *s);
    }
}

const char html_style[] =
    ":root{--ink:#1c2733;--dim:#667485;--line:#dfe5ec;--page:#f6f8fa;"
    "--card:#fff;--used:#2f6fd0;--free:#cfd8e3;--frag:#efa536;"
    "--waste:#d4453c;--best:#147a45}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e4e9ef;--dim:#93a1b1;"
    "--line:#2e3843;--page:#12171d;--card:#1a2129;--used:#5b97ee;"
    "--free:#3a4653;--frag:#e9a53d;--waste:#ee6a60;--best:#5cc98f}}"
    "*{box-sizing:border-box}body{margin:0;background:var(--page);"
    "color:var(--ink);font:15px/1.5 system-ui,sans-serif}"
    "main{max-width:1600px;margin:0 auto;padding:28px 20px 60px}"
    "h1{font-size:24px;margin:0}h2{font-size:17px;margin:0 0 2px}"
    "h3{font-size:13px;font-weight:600;margin:14px 0 2px}"
    "p{margin:2px 0 16px;color:var(--dim)}"
    ".card{background:var(--card);border:1px solid var(--line);"
    "border-radius:10px;padding:16px 18px;margin:0 0 18px}"
    ".side{display:grid;gap:18px;"
    "grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr))}"
    ".side .card{margin:0}.scroll{overflow-x:auto}"
    "table{border-collapse:collapse;width:100%;"
    "font-variant-numeric:tabular-nums}"
    "th,td{text-align:right;padding:5px 10px;white-space:nowrap;"
    "border-bottom:1px solid var(--line)}"
    "th{font-weight:600;color:var(--dim);font-size:13px}"
    "th:first-child,td:first-child{text-align:left;font-weight:600}"
    "tr:last-child td{border-bottom:0}.best{color:var(--best);"
    "font-weight:700}"
    "svg,canvas{display:block;width:100%;height:auto}"
    "canvas{image-rendering:pixelated;border-radius:4px;height:210px;"
    "margin-bottom:6px}"
    "text{font:11px system-ui,sans-serif;fill:var(--dim)}"
    ".key{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:13px;"
    "color:var(--dim)}.key i{display:inline-block;width:11px;height:11px;"
    "border-radius:3px;margin-right:6px;vertical-align:-1px}"
    "@media print{body{background:#fff}}";
