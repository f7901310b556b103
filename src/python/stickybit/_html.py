"""Fragments for notebooks."""

from __future__ import annotations

from html import escape as _escape


def escape(text: str) -> str:
    return _escape(text, quote=True)


def preformatted(text: str) -> str:
    return f'<pre style="line-height:1.25;overflow-x:auto">{escape(text)}</pre>'
