# SPDX-License-Identifier: BSD-3-Clause
#
# libgin. `make demo` and `make check` set up what they need; see README.md.
#
#   V=1         show commands          BUILD=dir   where results go (build)
#   CUDA=0      no nvcc                CUDA_HOME=  where the toolkit is
#   DEPS=0      never install packages WERROR=1    warnings are errors
#   SAN=thread  or address,undefined   ARCH=sm_90  what nvcc compiles for

VERSION := 0.1.0
SOVERSION := 0

BUILD ?= build
CUDA ?= 1
CUDA_HOME ?= /usr/local/cuda
V ?= 0
WERROR ?= 0
SAN ?=

Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-6s %s\n' $(1) $(2))

NVCC ?= $(if $(filter 0,$(CUDA)),,$(firstword $(wildcard $(CUDA_HOME)/bin/nvcc) \
	$(shell command -v nvcc 2>/dev/null)))
GPUS := $(shell nvidia-smi -L 2>/dev/null | grep -c '^GPU')
ARCH ?= $(if $(filter 0,$(GPUS)),sm_90,native)

WARN := -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
OPT ?= -O2 -g
CFLAGS_ALL = -std=gnu11 -D_GNU_SOURCE $(OPT) -fPIC -fvisibility=hidden $(WARN) $(SANFLAGS) \
	-Iinclude -MMD -MP $(CFLAGS)
CXXFLAGS_ALL = -std=c++17 $(OPT) $(WARN) $(SANFLAGS) -Iinclude -MMD -MP $(CXXFLAGS)
NVCCFLAGS_ALL = -std=c++17 -O3 -lineinfo -arch=$(ARCH) -Iinclude \
	-Xcompiler -Wall,-Wextra$(if $(filter 1,$(WERROR)),$(comma)-Werror) $(NVCCFLAGS)
comma := ,
LDFLAGS_ALL = $(SANFLAGS) $(LDFLAGS)
LINKGIN = -L$(BUILD) -lgin -Wl,-rpath,'$$ORIGIN/..' -Wl,-rpath,'$$ORIGIN/../..' -pthread -ldl

LIB_SRC := $(wildcard lib/*.c backends/*/*.c) $(filter-out bootstrap/pmix.c,$(wildcard bootstrap/*.c))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o)
LIB := $(BUILD)/libgin.so.$(VERSION)
LINKS := $(BUILD)/libgin.so.$(SOVERSION) $(BUILD)/libgin.so
# Without PMIx the library is whole; ranks then need config.allgather.
PMIX := $(if $(shell pkg-config --exists pmix 2>/dev/null && echo yes),$(BUILD)/libgin-pmix.so)

# What is named mpi needs MPI's compiler; the library does not.
MPICXX := $(shell command -v mpicxx 2>/dev/null)
CXX_ALONE := $(CXX)
without_mpi = $(filter-out $(if $(MPICXX),,%/mpi.cu %/mpi.cc),$(1))

EXAMPLES := $(patsubst examples/%.cu,$(BUILD)/examples/%,$(call without_mpi,$(wildcard examples/*.cu)))
TESTS_C := $(patsubst test/%.c,$(BUILD)/test/%,$(wildcard test/*.c))
TESTS_CC := $(patsubst test/%.cc,$(BUILD)/test/%,$(call without_mpi, \
	$(wildcard test/*.cc test/port/*.cc)))
# The same sources with kernels.
TESTS_GPU := $(patsubst test/%.cc,$(BUILD)/test/%_gpu,$(filter-out test/nvrtc.cc test/mpi.cc, \
	$(wildcard test/*.cc test/port/*.cc)))

.PHONY: all lib examples tests tests-gpu deps deps-check demo check check-long check-mutations \
	check-gpu clean
.DELETE_ON_ERROR:

all: lib examples

lib: $(LIB) $(LINKS) $(PMIX)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -c -o $@ $<

$(LIB): $(LIB_OBJ) lib/libgin.map
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -o $@ $(LIB_OBJ) $(LDFLAGS_ALL) -Wl,-soname,libgin.so.$(SOVERSION) \
		-Wl,--version-script,lib/libgin.map $(if $(SAN),,-Wl$(comma)-z$(comma)defs) \
		-Wl,-z,relro,-z,now,-z,nodelete -pthread -ldl

$(LINKS): $(LIB)
	$(Q)ln -sf $(notdir $(LIB)) $@

$(BUILD)/libgin-pmix.so: bootstrap/pmix.c bootstrap/bootstrap.h bootstrap/plugin.map
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CFLAGS_ALL)) $(subst -I/,-isystem /,$(shell pkg-config --cflags pmix)) \
		-shared -o $@ $< $(LDFLAGS_ALL) -Wl,--version-script,bootstrap/plugin.map \
		$(shell pkg-config --libs pmix) -pthread

# Its compiler is a wrapper around ours.
%/mpi: export OMPI_CXX = $(CXX_ALONE)
%/mpi: export MPICH_CXX = $(CXX_ALONE)
%/mpi: override CXX = $(MPICXX)
%/mpi: NVCCFLAGS += -ccbin $(MPICXX)

# Examples are one source for kernels and host threads: nvcc makes both, g++ the latter alone.
examples: $(EXAMPLES)

$(BUILD)/examples/%: examples/%.cu $(LINKS)
	@mkdir -p $(@D)
ifneq ($(NVCC)$(SAN),$(SAN))
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -MD -MP -MF $@.d -MT $@ -o $@ $< -L$(BUILD) -lgin \
		-Xlinker -rpath,'$$ORIGIN/..' -Xcompiler -pthread
else
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_ALL) -o $@ -x c++ $< $(LDFLAGS_ALL) $(LINKGIN)
endif

tests: $(TESTS_C) $(TESTS_CC)

$(TESTS_C): $(BUILD)/test/%: test/%.c $(LINKS) $(LIB_OBJ)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -Ilib -Wno-pedantic -o $@ $< $(LIB_OBJ) $(LDFLAGS_ALL) -pthread -ldl

$(TESTS_CC): $(BUILD)/test/%: test/%.cc $(LINKS)
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_ALL) $(TESTFLAGS) -o $@ $< $(LDFLAGS_ALL) $(LINKGIN)

tests-gpu: $(TESTS_GPU)

$(BUILD)/test/%_gpu: test/%.cc $(LINKS)
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) $(TESTFLAGS) -MD -MP -MF $@.d -MT $@ -x cu -o $@ $< -L$(BUILD) \
		-lgin -Xlinker -rpath,'$$ORIGIN/..' -Xlinker -rpath,'$$ORIGIN/../..' \
		-Xcompiler -pthread

deps deps-check: deps%:
	$(Q)DEPS=$(DEPS) tools/install-deps $(if $(filter deps-check,$@),check,demo)

demo:
	$(Q)DEPS=$(DEPS) tools/install-deps demo
	$(Q)$(MAKE) --no-print-directory all
	$(Q)examples/demo $(BUILD)

check:
	$(Q)DEPS=$(DEPS) tools/install-deps check
	$(Q)test/run check

check-long:
	$(Q)DEPS=$(DEPS) tools/install-deps check
	$(Q)test/run check-long

check-mutations:
	$(Q)DEPS=$(DEPS) tools/install-deps check
	$(Q)test/mutations

check-gpu:
	$(Q)test/run check-gpu

clean:
	$(Q)rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
