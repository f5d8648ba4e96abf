"""Mermaid blocks become SVG inside the page when the site is built: no script, no other host, no second file.

mermaidx runs the real Mermaid in a small JavaScript engine. The colours are taken out and come from
`static/site.css`, so that they follow the light and the dark theme.
"""

from __future__ import annotations

import re

import mermaidx
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

__all__ = ["Diagrams", "drawn", "setup"]

CLOSE = {"nodeSpacing": 25, "rankSpacing": 30, "padding": 8, "diagramPadding": 4}
"""Distances in a flow chart, in pixels."""


class Diagrams(SphinxPostTransform):
    """Replaces each block of the language `mermaid` by its drawing; one that is no diagram is an error."""

    default_priority = 200
    formats = ("html",)

    def run(self, **_: object) -> None:
        """Draw the blocks of one page."""
        blocks = [
            node for node in self.document.findall(nodes.literal_block) if node.get("language") == "mermaid"
        ]
        for number, block in enumerate(blocks, 1):
            picture = f'<figure class="diagram">{drawn(block.astext(), f"diagram-{number}")}</figure>'
            block.replace_self(nodes.raw("", picture, format="html"))


def drawn(text: str, name: str) -> str:
    """The SVG of a diagram, without colours; `name` keeps its ids apart from those of others on the page.

    Raises what mermaidx raises where the text is no diagram.
    """
    svg = str(mermaidx.render(text, theme="neutral", config={"flowchart": CLOSE}).svg())
    svg = re.sub(r"<style>.*?</style>", "", svg, flags=re.DOTALL)
    # As wide as the column, at most of its natural size; it scrolls where its words could not be read.
    svg = re.sub(r"max-width: ([\d.]+px);", r"max-width: \1; min-width: min(\1, 44rem);", svg, count=1)
    return svg.replace("my-svg", name)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_post_transform(Diagrams)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
