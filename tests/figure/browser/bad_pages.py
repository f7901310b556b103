"""Small pages that each have one fault, and one page that has none."""

GOOD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Page</title><style>
:root{{--ink:#222;--paper:#fff}}
@media(prefers-color-scheme:dark){{:root{{--ink:#eee;--paper:#111}}}}
:root:has(#light:checked){{--ink:#222;--paper:#fff}} :root:has(#dark:checked){{--ink:#eee;--paper:#111}}
@media print{{:root{{--ink:#222;--paper:#fff}}}}
html{{background:var(--paper);color:var(--ink)}} a,summary{{color:inherit}} svg{{width:200px;display:block}} svg text,rect{{fill:var(--ink)}}
.skip{{position:absolute;top:8px;left:8px;transform:translateY(-5rem)}} .skip:focus{{transform:none}}
body{{margin:8px}} input{{position:absolute;opacity:0}} :focus-visible,input:focus-visible+span{{outline:3px solid}}
</style></head><body><a class="skip" href="#main">Skip</a><header><label><input type="radio" name="c" id="auto" checked><span>Auto</span></label>
<label><input type="radio" name="c" id="light"><span>Light</span></label><label><input type="radio" name="c" id="dark"><span>Dark</span></label><h1>Page</h1></header>
<main id="main" tabindex="-1"><h2>Part</h2><p>Words.</p>{body}
<svg role="img" viewBox="0 0 100 60" aria-labelledby="t d"><title id="t">Name</title><desc id="d">What it shows</desc>{drawing}</svg>
<details><summary>More</summary><p>Hidden words.</p></details></main>
<script>addEventListener('beforeprint', () => {{ for (const d of document.querySelectorAll('details')) d.open = true; }});</script></body></html>"""

DRAWING = '<rect width="9" height="9"/><rect y="10" width="9" height="9"/><rect y="20" width="9" height="9"/><text x="20" y="20" font-size="10">ab</text><text x="20" y="50" font-size="10">cd</text>'


def page(body="", drawing=DRAWING):
    return GOOD.format(body=body, drawing=drawing)


def pages():
    """Name of each page: its HTML, and words of the problem that must be found; None: there is none."""
    return {
        "good": (page(), None),
        "clipped_text": (page('<p style="width:60px;white-space:nowrap;overflow:hidden">Words that do not fit in it</p>'), "overflows: p"),
        "clipped_below": (page('<p style="height:10px;overflow:hidden">Words<br>that<br>do<br>not<br>fit</p>'), "is cut off below"),
        "too_wide": (page('<p style="width:1600px">Wide</p>'), "the page overflows sideways"),
        "outside_left": (page('<p style="margin-left:-80px;width:100px">Outside</p>'), "text at or beyond the page's edge"),
        "scroll_box_outside": (page('<div tabindex="0" role="region" aria-label="Box" style="overflow-x:auto;margin-left:-8px"><p>Words</p></div>'), "scroll box at the page's edge"),
        "empty_figure": (page(drawing=""), "figure has 0 elements"),
        "flat_figure": (page().replace("display:block}", "display:block;height:3px}"), "figure is empty"),
        "nameless_figure": (page().replace('aria-labelledby="t d"', ""), "without title and description"),
        "text_outside_figure": (page(drawing=DRAWING + '<text x="80" y="40" font-size="10">too far right</text>'), "text leaves figure"),
        "mark_outside_figure": (page(drawing=DRAWING + '<rect x="95" y="5" width="20" height="5"/>'), "rect leaves figure"),
        "overlapping_texts": (page(drawing=DRAWING + '<text x="22" y="22" font-size="10">on top</text>'), "texts overlap"),
        "small_text": (page(drawing=DRAWING + '<text x="60" y="50" font-size="3">tiny</text>'), "text is too small"),
        "console_error": (page("<script>console.error('broken')</script>"), "console.error: broken"),
        "exception": (page("<script>throw new Error('thrown')</script>"), "exception: Error: thrown"),
        "external_request": (page('<img alt="" src="http://127.0.0.1:9/x.png" width="1" height="1">'), "network request: http://127.0.0.1:9/x.png"),
        "faint_text": (page('<p style="color:#808080">Faint</p>'), "contrast"),
        "one_scheme": (page().replace("prefers-color-scheme:dark", "prefers-color-scheme:none"), "preferred colour scheme"),
        "heading_skips": (page("<h4>Deep</h4>"), "heading skips a level"),
        "id_twice": (page('<p id="t">Words</p>'), "id twice"),
        "table_without_caption": (page("<table><tr><th scope=col>A</th></tr></table>"), "table without a caption"),
        "no_skip_link": (page().replace('<a class="skip" href="#main">Skip</a>', ""), "the first Tab does not show the skip link"),
        "lost_skip_link": (page().replace('href="#main"', 'href="#nowhere"'), "the skip link does not lead to the content"),
        "unreachable": (page('<a href="#main" onfocus="this.blur()">A link</a>'), "Tab does not reach"),
        "dead_switch": (page().replace("#dark:checked", "#none:checked"), "the colour switch does not work"),
        "closed_in_print": (page().replace("beforeprint", "never"), "prints details closed"),
        "dark_print": (page().replace("@media print", "@media none"), "prints dark"),
    }
