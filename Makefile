# The commands of the README. Each installs what is missing, builds, and runs; a second call is quick.
PRESET ?= dev
JOBS ?= $(shell nproc)
TARGET ?= all
SETUP ?= dev

.PHONY: demo demo-ranks ranks-long test random soak bench setup build packages docs symbols format lint clean

setup:
	@scripts/setup $(SETUP)

build: setup
	@test -f build/$(PRESET)/build.ninja || cmake --preset $(PRESET)
	@cmake --build build/$(PRESET) -j $(JOBS) --target $(TARGET)

test:
	@$(MAKE) --no-print-directory build SETUP=test
	@ctest --test-dir build/$(PRESET) --output-on-failure -j $(JOBS)

# Random programs in every mode, and how many were refused, by reason. make random PROGRAMS=100000 SEED=1
random:
	@$(MAKE) --no-print-directory build SETUP=test TARGET=test_random
	@GLOG_minloglevel=3 OMP_WAIT_POLICY=passive ENCORE_PROGRAMS=$(or $(PROGRAMS),10000) ENCORE_FIRST_SEED=$(or $(SEED),1) \
	  build/$(PRESET)/tests/test_random --gtest_filter='-Soak.*'

# Random programs within budgets for so long, in one process of which nothing may grow. make soak MINUTES=20
soak:
	@$(MAKE) --no-print-directory build SETUP=test TARGET=test_random
	@GLOG_minloglevel=3 OMP_WAIT_POLICY=passive ENCORE_SOAK_MINUTES=$(or $(MINUTES),20) build/$(PRESET)/tests/test_random --gtest_filter='Soak.*'

# make demo BUDGET=300MiB MODEL=gpt STEPS=200
demo:
	@$(MAKE) --no-print-directory build SETUP=demo PRESET=release TARGET=demo
	@scripts/with_blas build/release/examples/demo/demo --report build/demo/report.html \
	  $(if $(BUDGET),--budget '$(BUDGET)') $(if $(MODEL),--model '$(MODEL)') $(if $(STEPS),--steps '$(STEPS)')

# A GPT on ranks that loses one and is resumed: the same bits as undisturbed. make demo-ranks RANKS=2 BUDGET=96MiB STEPS=30
demo-ranks:
	@$(MAKE) --no-print-directory build SETUP=test PRESET=release TARGET=ranks_train
	@RANKS='$(or $(RANKS),2)' BUDGET='$(or $(BUDGET),96MiB)' STEPS='$(or $(STEPS),30)' examples/ranks/demo build/release

# Many ranks at length: the Reducer's bits in every mode after 50 steps, peaks over 1,000, and random kills, stops and throws.
# make ranks-long FAULTS=200 RANKS=2,3,4,8 SEED=1
ranks-long:
	@$(MAKE) --no-print-directory build SETUP=test TARGET=dist_worker
	@python3 tests/dist/long_test.py build/$(PRESET)/tests/dist_worker oracle $(if $(RANKS),--ranks $(RANKS))
	@python3 tests/dist/long_test.py build/$(PRESET)/tests/dist_worker steady
	@python3 tests/dist/long_test.py build/$(PRESET)/tests/dist_worker storm --faults $(or $(FAULTS),200) --seed $(or $(SEED),1)

bench:
	@$(MAKE) --no-print-directory build SETUP=bench PRESET=measured
	@bench/run build/measured

# libencore0, libencore-dev and encore, in build/packages
packages:
	@$(MAKE) --no-print-directory build SETUP=test PRESET=debian
	@cpack --config build/debian/CPackConfig.cmake -B build/packages
	@rm -rf build/packages/_CPack_Packages

# The site, in build/docs/html
docs: setup
	@scripts/docs

# After a change of what the libraries export
symbols:
	@$(MAKE) --no-print-directory build TARGET=renew_symbols

format:
	@git ls-files '*.h' '*.cpp' | xargs clang-format -i

# clang-tidy can read clang's precompiled header only, and takes half a minute a file. make lint FILES=src/run/*.cpp
lint:
	@$(MAKE) --no-print-directory build PRESET=clang TARGET=encore_pch
	@ls $(or $(FILES),$(shell git ls-files 'src/*.cpp')) | xargs -P $(JOBS) -n 1 clang-tidy -p build/clang --quiet

clean:
	@rm -rf build
