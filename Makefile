# The commands of the README. Each installs what is missing, builds, and runs; a second call is quick.
PRESET ?= dev
JOBS ?= $(shell nproc)

.PHONY: demo test bench setup build format lint clean

setup:
	@scripts/setup

build: setup
	@test -f build/$(PRESET)/build.ninja || cmake --preset $(PRESET)
	@cmake --build build/$(PRESET) -j $(JOBS)

test: build
	@ctest --test-dir build/$(PRESET) --output-on-failure -j $(JOBS)

demo:
	@$(MAKE) --no-print-directory build PRESET=release
	@scripts/with_blas build/release/examples/train_twice

bench:
	@$(MAKE) --no-print-directory build PRESET=release
	@bench/run build/release

format:
	@git ls-files '*.h' '*.cpp' | xargs clang-format -i

lint: build
	@git ls-files 'src/*.cpp' | xargs -P $(JOBS) -n 1 clang-tidy -p build/$(PRESET) --quiet

clean:
	@rm -rf build
