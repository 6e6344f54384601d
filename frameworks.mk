# Agent frameworks that the development environment cannot hold. Included by the Makefile.

# strands-agents excludes our version of mcp, google-adk ours of websockets and opentelemetry, litellm ours of
# certifi, and crewai ours of openai and mcp. Each has an environment of its own with the client, as its users have;
# tests/e2e/test_frameworks.py runs in it.
FRAMEWORK_VENVS := .venv-strands .venv-google-adk .venv-litellm .venv-crewai

.PHONY: lock-frameworks environments

.venv-%/installed: tests/frameworks/%.lock pyproject.toml | $(INSTALLED)
	$(BIN)/python -m uv venv --quiet --clear --python "$(PYTHON)" .venv-$*
	$(BIN)/python -m uv pip install --quiet --python .venv-$*/bin/python -r $< -e '.[$*]'
	@touch $@

environments: install $(FRAMEWORK_VENVS:%=%/installed) ## Make what tests use besides .venv: environments, client packages
	$(MAKE) --no-print-directory $(DOCS_READY)
	$(BIN)/python -m tests.e2e.client_packages

lock-frameworks: install ## Resolve again what the tests of frameworks in environments of their own install
	echo 'strands-agents[openai]' | $(COMPILE) --upgrade --python-version 3.11 --extra strands \
		--output-file tests/frameworks/strands.lock pyproject.toml -
	$(COMPILE) --upgrade --python-version 3.11 --extra google-adk \
		--output-file tests/frameworks/google-adk.lock pyproject.toml
	$(COMPILE) --upgrade --python-version 3.11 --extra litellm \
		--output-file tests/frameworks/litellm.lock pyproject.toml
	$(COMPILE) --upgrade --python-version 3.11 --extra crewai \
		--output-file tests/frameworks/crewai.lock pyproject.toml
