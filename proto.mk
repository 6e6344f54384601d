# Targets for the contract in protos/. Included by the Makefile.

PYTHON ?= python3
VENV := .venv
INSTALLED := $(VENV)/hitherto-installed
PROTO_VENV := .venv-proto
# Stubs demand at least the runtime they were generated for, so they are made with an older generator than
# the one we run on; grpcio-tools 1.76 needs protobuf 6 and therefore an environment of its own.
PROTO_TOOLS := grpcio-tools==1.76.0 mypy-protobuf==5.1.0
PROTO_READY := $(PROTO_VENV)/tools-installed

# An environment in the folder $(1) with the packages $(2). uv takes a sixth of the time of pip, which does it where
# uv is not installed yet or does not know the package index that pip is set to.
define environment
{ $(VENV)/bin/uv venv --quiet --clear --python "$(PYTHON)" $(1) && \
	$(VENV)/bin/uv pip install --quiet --python $(1)/bin/python $(2); } 2> /dev/null || \
{ "$(PYTHON)" -m venv $(1) && \
	$(1)/bin/python -m pip install --quiet --disable-pip-version-check $(2); }
endef

.PHONY: proto check-proto lint-proto breaking

$(PROTO_READY): proto.mk | $(INSTALLED)
	$(call environment,$(PROTO_VENV),$(PROTO_TOOLS))
	touch $@

proto: $(PROTO_READY) ## Generate the Python and Go stubs and docs/api.md from protos/
	$(PROTO_VENV)/bin/python -m tools.generate_protos write
	$(VENV)/bin/python -m tools.generate_go write

check-proto: $(PROTO_READY) ## Fail if generated files do not match protos/
	$(PROTO_VENV)/bin/python -m tools.generate_protos check
	$(VENV)/bin/python -m tools.generate_go check

lint-proto: ## Lint protos/, check their format and build the module
	$(VENV)/bin/buf build
	$(VENV)/bin/buf lint
	$(VENV)/bin/buf format --diff --exit-code

breaking: ## Fail if protos/ breaks clients of the main branch
	@if git rev-parse --verify --quiet main:buf.yaml >/dev/null 2>&1; then \
		$(VENV)/bin/buf breaking --against '.git#branch=main'; \
	else \
		echo "breaking: no contract on a branch named main to compare with; nothing checked"; \
	fi
