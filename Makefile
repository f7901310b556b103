# The front door: set up, build, run. All else is CMake's; see CMakePresets.json.
.SILENT:
.NOTPARALLEL:
.PHONY: help demo test bench gpu clean

help:
	echo 'make demo    set up, build, and run the command on a shipped capture'
	echo 'make test    set up, build, and run every test that needs no GPU'
	echo 'make bench   set up, build, and run the benchmarks'
	echo 'make gpu     build the programs for a GPU machine, in build/gpu (needs nvcc)'
	echo 'make clean   remove build/'
	echo
	echo 'Set-up installs missing Debian or Ubuntu packages: as root, or with $$SUDO (default sudo; empty: never).'

# One build folder for all but gpu. It keeps the tests and benchmarks that it has, else nothing would be left
# to reuse when `make demo` comes between two `make test`; a new one gets none, so that the demo needs no test library.
keep_tests = $(if $(wildcard build/release/tests/CTestTestfile.cmake),,-DSTICKYBIT_TESTS=OFF)
keep_bench = $(if $(wildcard build/release/tests/bench/cmake_install.cmake),,-DSTICKYBIT_BENCH=OFF)

# $(call configure,<preset>,<options>): errors and warnings are printed, the rest goes to build/configure.log.
configure = mkdir -p build && echo 'stickybit: configuring $(1) ...' && cmake --preset $(1) $(2) >build/configure.log

demo:
	sh cmake/dependencies.sh demo
	$(call configure,release,$(keep_tests) $(keep_bench))
	cmake --build --preset release --target stickybit_command
	sh cmake/demo.sh build/release/bin/stickybit

test:
	sh cmake/dependencies.sh test
	$(call configure,release,-DSTICKYBIT_TESTS=ON $(keep_bench) $$(sh cmake/python_venv.sh))
	cmake --build --preset release
	ctest --preset release

bench:
	sh cmake/dependencies.sh bench
	$(call configure,release,-DSTICKYBIT_BENCH=ON $(keep_tests))
	cmake --build --preset release --target bench

# NVIDIA's installer does not put nvcc into PATH.
gpu: export PATH := $(PATH):/usr/local/cuda/bin
gpu:
	sh cmake/dependencies.sh gpu
	$(call configure,cuda)
	cmake --build --preset cuda

clean:
	rm -rf build
