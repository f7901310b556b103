#!/usr/bin/env python3
"""Reads each SVG file of a folder with an XML parser that is not ours; status 1 if one is not well-formed, not named, or has odd numbers."""
import pathlib
import re
import sys
import xml.etree.ElementTree as tree

SVG = "{http://www.w3.org/2000/svg}"


def problems(path):
    """What is wrong with one file."""
    try:
        root = tree.parse(path).getroot()
    except tree.ParseError as error:
        return [str(error)]
    found = [] if root.tag == SVG + "svg" else ["the root is no svg"]
    ids = [e.get("id") for e in root.iter() if e.get("id")]
    found += [f"id twice: {i}" for i in ids if ids.count(i) > 1]
    found += [f"names no element: {i}" for i in root.get("aria-labelledby", "missing").split() if i not in ids]
    for e in root.iter():
        for name in ("x", "y", "x1", "x2", "y1", "y2", "width", "height", "points", "d", "font-size", "stroke-width"):
            if re.search(r"[^-+0-9., eMhvHzL\d]|nan|inf", e.get(name, "")):
                found.append(f"{e.tag}: {name}={e.get(name)[:60]}")
    return found


def main(folder):
    files = sorted(pathlib.Path(folder).glob("*.svg"))
    bad = 0
    for path in files:
        found = problems(path)
        bad += bool(found)
        print(f"{path.name}: {found or 'well-formed'}")
    return 1 if bad or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
