"""How Sphinx builds the site from `docs/`; `make docs` runs it. Names in lower case are Sphinx' own."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path

from hermes_messages import JsonValue

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs_site.reference import aliases

# A recursive alias names itself, which autodoc looks up in modules that do not import it.
vars(builtins)["JsonValue"] = JsonValue

project = "Hermes Layers"
author = "The Hermes Layers authors"
html_title = project

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "docs_site.diagrams",
    "docs_site.reference",
    "docs_site.repository_links",
]
source_suffix = {".md": "markdown"}

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
# Docstrings write names in single backticks; those that the reference knows become links.
default_role = "py:obj"

add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = aliases(Path(__file__).parents[2] / "docs" / "reference")
autodoc_preserve_defaults = True
autodoc_use_type_comments = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "github-dark"
