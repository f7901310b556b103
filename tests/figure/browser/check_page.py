#!/usr/bin/env python3
"""Opens HTML files in Chromium without a window and checks that a person can use them.

At 1280 and 400 pixels, light and dark: nothing on the console, no network request, every figure there and filled, no text clipped, overflowing,
overlapping or too faint, headings and tables in order. By keyboard: the skip link, the colour switch, details and scroll boxes. Printing opens
details. Prints one line a problem; status 1 if there is one. Where there is no browser it says "SKIPPED: " and why.
"""
import argparse
import base64
import pathlib
import sys
import tempfile

import bad_pages
import devtools

CHECKS = pathlib.Path(__file__).with_name("checks.js").read_text(encoding="utf-8")
WIDTHS = (1280, 400)
BACKGROUND = "getComputedStyle(document.documentElement).backgroundColor"
TAB, ENTER, RIGHT = ("Tab", 9), ("Enter", 13, "\r"), ("ArrowRight", 39)


def messages(browser, url):
    """What the console and the network saw since the last call."""
    found = []
    for event in browser.events:
        method, p = event["method"], event["params"]
        if method == "Runtime.consoleAPICalled":
            found.append("console." + p["type"] + ": " + " ".join(str(a.get("value", a.get("description"))) for a in p["args"]))
        elif method == "Runtime.exceptionThrown":
            found.append("exception: " + p["exceptionDetails"].get("exception", {}).get("description", p["exceptionDetails"]["text"]))
        elif method == "Log.entryAdded":
            found.append("log: " + p["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            asked = p["request"]["url"]
            if asked.split("#")[0] != url and not asked.startswith("data:"):
                found.append("network request: " + asked)
    browser.events.clear()
    return found


def screenshot(browser, path, width):
    """The whole page. The window is made as high as it first: what lies outside a window may not be drawn yet."""
    height = min(16000, int(browser.call("Page.getLayoutMetrics")["cssContentSize"]["height"]) + 1)
    browser.resize(width, height)
    path.write_bytes(base64.b64decode(browser.call("Page.captureScreenshot", format="png")["data"]))
    browser.resize(width)


def is_dark(colour):
    return sum(float(part) for part in colour[colour.index("(") + 1:-1].split(",")[:3]) < 384


def check_keyboard(browser, url):
    """Tab reaches everything that can be used; keys use it."""
    problems = []
    browser.show(url, 1280, False)
    goals = browser.evaluate("""(window.goals = [...document.querySelectorAll('a[href],summary,[tabindex="0"]')].filter(e => e.checkVisibility())).length""")
    reached, radios = set(), False
    for press in range(goals + 12):
        browser.press(*TAB)
        at = browser.evaluate("""(() => { const e = document.activeElement, b = e.getBoundingClientRect(), s = getComputedStyle(e.type === 'radio' ? e.nextElementSibling : e);
            return {goal: goals.indexOf(e), radio: e.type === 'radio', skip: e.className === 'skip', seen: b.top >= 0 && b.left >= 0 && b.width > 0,
                    outline: parseFloat(s.outlineWidth) > 0 && s.outlineStyle !== 'none', body: e === document.body} })()""")
        if press == 0 and not (at["skip"] and at["seen"]):
            problems.append("the first Tab does not show the skip link")
        if at["body"]:
            break
        if not at["outline"]:
            problems.append(f"focus cannot be seen after {press + 1} Tab")
        radios = radios or at["radio"]
        reached.add(at["goal"])
    problems += [f"Tab does not reach: {browser.evaluate(f'goals[{i}].outerHTML.slice(0, 80)')}" for i in range(goals) if i not in reached]
    if not radios:
        return problems + ["Tab does not reach the colour switch"]
    browser.evaluate("document.querySelector('input[type=radio]').focus()")
    for wanted in (False, True):  # auto, then light, then dark
        browser.press(*RIGHT)
        if is_dark(browser.evaluate(BACKGROUND)) != wanted:
            problems.append("the colour switch does not work: " + ("dark" if wanted else "light"))
    if browser.evaluate("!!document.querySelector('a.skip')"):
        browser.evaluate("document.querySelector('a.skip').focus()")
        browser.press(*ENTER)
        if not browser.evaluate("document.activeElement.tagName === 'MAIN'"):
            problems.append("the skip link does not lead to the content")
    if browser.evaluate("!!document.querySelector('summary')"):
        browser.evaluate("document.querySelector('summary').focus()")
        browser.press(*ENTER)
        if not browser.evaluate("document.querySelector('summary').parentElement.open"):
            problems.append("Enter does not open details")
    return problems


def check_print(browser, url):
    """Printed pages show what details hold, in light colours, and are not wider than the paper."""
    browser.show(url, 700, True)
    browser.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    problems = []
    if is_dark(browser.evaluate(BACKGROUND)):
        problems.append("prints dark")
    browser.evaluate("dispatchEvent(new Event('beforeprint'))")
    if browser.evaluate("[...document.querySelectorAll('details')].some(d => !d.lastElementChild.checkVisibility())"):
        problems.append("prints details closed")
    if browser.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
        problems.append("prints wider than the paper")
    return ["print: " + p for p in problems]


def check_file(browser, path, options):
    """Every problem of one file, each with where it was seen."""
    url = pathlib.Path(path).resolve().as_uri()
    browser.open_tab()
    problems = []
    for width in WIDTHS:
        for dark in (False, True):
            where = f"{width} px, {'dark' if dark else 'light'}: "
            browser.show(url, width, dark)
            if options.screenshots:
                name = f"{pathlib.Path(path).stem}_{width}_{'dark' if dark else 'light'}.png"
                screenshot(browser, pathlib.Path(options.screenshots) / name, width)
            found = browser.evaluate(f"({CHECKS})({options.least_elements})")
            figures = browser.evaluate("document.querySelectorAll('svg[role=img]').length")
            if figures < options.figures:
                found.append(f"{figures} figures, expected {options.figures} or more")
            if is_dark(browser.evaluate(BACKGROUND)) != dark:
                found.append("does not follow the preferred colour scheme")
            problems += [where + words for words in found + messages(browser, url)]
    problems += ["keyboard: " + words for words in check_keyboard(browser, url)] + check_print(browser, url)
    return problems + messages(browser, url)


def self_test(browser, options):
    """Every bad page is found bad for its own reason, and the good one good."""
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (html, expected) in bad_pages.pages().items():
            path = pathlib.Path(folder) / f"{name}.html"
            path.write_text(html, encoding="utf-8")
            problems = check_file(browser, path, options)
            right = any(expected in p for p in problems) if expected else not problems
            print(f"{'ok  ' if right else 'FAIL'} {name}: expected {expected or 'no problem'}" + ("" if right else f", found {problems}"))
            failures += not right
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--screenshots", metavar="DIR", help="write a picture of each file at each width and scheme")
    parser.add_argument("--figures", type=int, default=0, help="how many figures a file must have at least")
    parser.add_argument("--least-elements", type=int, default=5, help="how many drawn elements a figure must have at least")
    parser.add_argument("--self-test", action="store_true", help="check pages that are known to be bad")
    options = parser.parse_args()
    path = devtools.find_browser()
    if path is None:
        print("SKIPPED: no browser of", *devtools.NAMES)
        return 0
    if options.screenshots:
        pathlib.Path(options.screenshots).mkdir(parents=True, exist_ok=True)
    failures = 0
    with devtools.Browser(path) as browser:
        if options.self_test:
            failures += self_test(browser, options)
        for file in options.files:
            problems = check_file(browser, file, options)
            failures += len(problems)
            print(f"{file}: {len(problems)} problems", *problems, sep="\n  ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
