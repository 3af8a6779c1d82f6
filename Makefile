# SPDX-License-Identifier: BSD-3-Clause
#
# libgin. `make demo` and `make check` install the Debian or Ubuntu packages that they need. `make help` prints this:
#
# Targets
#   all              the library, the tools and the examples (default)
#   lib              the library and its plug-ins
#   demo             ranks exchange data by put and signal: on GPUs when there are any, else on host threads
#   check            the tests for a change, 3 to 6 minutes on two CPUs
#   check-all        all tests that need no GPU, or those of GROUPS
#   check-gpu        tests with kernels, or those of PARTS: needs nvcc and GPUs
#   check-long       repetitions of tests that depend on chance, for hours
#   check-faults     jobs in which something goes wrong, for SECONDS: mk/fuzz.mk
#   fuzz             what reads bytes of others, by libFuzzer: mk/fuzz.mk
#   check-mutations  breaks every ordering and check once: a test has to fail
#   check-system     short for check-all GROUPS=system: jobs over several hosts, and Slurm
#   check-rdma       on the RDMA NICs of this machine; never run on a NIC
#   check-mlx5dev    short for check-all GROUPS="gdaki verbs mlx5dev perftest": on the software mlx5 device
#   tools examples tests tests-gpu benches mlx5dev    parts of the build
#   install uninstall                                 mk/install.mk lists the folders to set
#   dist             a source archive of HEAD in BUILD
#   deps deps-check deps-check-all                    install the packages of demo, check, check-all
#   man              writes the table of environment variables into its page
#   abi              writes the committed layouts, symbols and what Python knows of them anew, after an intended change
#   bench            measurements beside NVSHMEM, on two GPUs or more
#   bench-idle bench-gpunetio bench-ofi   other measurements: mk/bench.mk
#   ep check-ep bench-ep   expert parallelism, its tests, its measurements: products/ep/ep.mk
#   bitcode          device functions for Triton and others: products/bitcode/bitcode.mk
#   nccl nccl-tests  kernels written for NCCL's device API: products/nccl/nccl.mk
#   symm symm-tests        symmetric memory for PyTorch: products/symm/symm.mk
#   python check-python    what python/ needs, its tests: products/python/python.mk
#   version clean help
#
# Variables
#   BUILD=build      where results go
#   V=1              print commands
#   DEPS=0           install no packages
#   GROUPS="..."     groups of check-all: the files of test/groups
#   PARTS="..."      parts of check-gpu: direct proxy gdaki faults nccl ep ep_python symm python python_compilers litmus installed sanitizers; by name only: four
#   SLOTS=3          tests that check and check-all run at a time
#   PYPI=1           check-all gets compilers of kernels and torch from Python's package index, 5 GB in ~/.cache/libgin
#   CUDA=0           use no nvcc
#   CUDA_HOME=       folder of the CUDA toolkit; else mk/find-cuda looks for it
#   NVTX_INCLUDE=    folder with nvtx3/, NVTX's headers; else that of the CUDA toolkit
#   NVCC_CCBIN=      host compiler of nvcc, where g++ is too new
#   ARCH=sm_90       GPUs that nvcc compiles for
#   SAN=thread       a sanitizer: thread, or address,undefined
#   WERROR=1         warnings are errors
#   OPT=-O2 NVCCOPT=-O3 CFLAGS= CXXFLAGS= NVCCFLAGS= LDFLAGS=     flags of compilers
#   PREFIX=/usr/local DESTDIR=                        where make install puts files

VERSION := $(shell awk '/define GIN_VERSION_(MAJOR|MINOR|PATCH) / {v = v dot $$3; dot = "."} \
	END {print v}' include/gin.h)
SOVERSION := 0

BUILD ?= build
CUDA ?= 1
V ?= 0
WERROR ?= 0
SAN ?=

Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-6s %s\n' $(1) $(2))

PKG_CONFIG ?= pkg-config
FIND_CUDA := CUDA='$(CUDA)' CUDA_HOME='$(CUDA_HOME)' NVCC='$(NVCC)' NVCC_CCBIN='$(NVCC_CCBIN)' \
	mk/find-cuda
override NVCC := $(shell $(FIND_CUDA) nvcc)
ifndef ARCH
ARCH = $(eval ARCH := $(shell $(FIND_CUDA) arch))$(ARCH)
endif

WARN := -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror)
SANFLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer)
OPT ?= -O2 $(if $(SAN),-g1,-g)
CFLAGS_ALL = -std=gnu11 -D_GNU_SOURCE $(OPT) -fPIC -fvisibility=hidden $(WARN) $(SANFLAGS) \
	-Iinclude -I. -MMD -MP $(CPPFLAGS) $(CFLAGS)
CXXFLAGS_ALL = -std=c++17 $(OPT) $(WARN) $(SANFLAGS) -Iinclude -I. -MMD -MP \
	$(CPPFLAGS) $(CXXFLAGS)
NVCCOPT ?= -O3
NVCCFLAGS_ALL = -std=c++17 $(NVCCOPT) -lineinfo -arch=$(ARCH) -Iinclude -I. \
	-Xcompiler -Wall,-Wextra$(if $(filter 1,$(WERROR)),$(comma)-Werror -Werror cross-execution-space-call) \
	$(NVCCFLAGS)
comma := ,
space := $(subst ,, )
define newline


endef
LDFLAGS_ALL = $(SANFLAGS) $(LDFLAGS)
LINKGIN = -L$(BUILD) -lgin $(foreach up,.. ../.. ../../..,-Wl$(comma)-rpath$(comma)'$$ORIGIN/$(up)') -pthread -ldl

# Without hwloc the library is whole, but does not know which CPUs are near to a GPU.
HWLOC := $(shell $(PKG_CONFIG) --exists hwloc 2>/dev/null && echo yes)
HWLOC_LIBS := $(if $(HWLOC),$(shell $(PKG_CONFIG) --libs hwloc))

# Headers alone, for ranges in profilers: of the CUDA toolkit, also where nvcc is not used.
NVTX_INCLUDE ?= $(patsubst %/nvtx3/nvToolsExt.h,%,$(firstword $(wildcard $(addsuffix /include/nvtx3/nvToolsExt.h,\
	$(CUDA_HOME) $(CUDA_PATH) /usr/local/cuda /usr))))
NVTX_FLAGS := $(addprefix -idirafter ,$(NVTX_INCLUDE))

LIB_SRC := $(filter-out bootstrap/pmix.c lib/gpu/cpus_$(if $(HWLOC),none,hwloc).c, \
	$(wildcard lib/*.c lib/*/*.c lib/*/*/*.c backends/*/*.c backends/proxy/network/*.c backends/proxy/network/*/*.c backends/proxy/words/*.c bootstrap/*.c))
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/%.o)
LIB := $(BUILD)/libgin.so.$(VERSION)
LINKS := $(BUILD)/libgin.so.$(SOVERSION) $(BUILD)/libgin.so
# Without PMIx the library is whole: ranks then find each other by TCP or config.allgather.
PMIX := $(if $(shell $(PKG_CONFIG) --exists pmix 2>/dev/null && echo yes),$(BUILD)/libgin-pmix.so)

# What mlx5 devices read and write, in words; libgin.so is without it.
MLX5_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard mlx5/*.c))

# Without libibverbs and libmlx5 the library is whole: GPU threads then write no work requests of a NIC.
VERBS := $(shell $(PKG_CONFIG) --exists libmlx5 libibverbs 2>/dev/null && echo yes)
VERBS_LIBS := $(if $(VERBS),$(shell $(PKG_CONFIG) --libs libmlx5 libibverbs))
NIC_OBJ := $(if $(VERBS),$(patsubst %.c,$(BUILD)/%.o,$(wildcard backends/rdma/nic/*.c backends/proxy/verbs/*.c)))
RDMA := $(if $(VERBS),$(BUILD)/libgin-rdma.so)

# Without libfabric the library is whole: the proxy then has no network.
OFI := $(if $(shell $(PKG_CONFIG) --exists libfabric 2>/dev/null && echo yes),$(BUILD)/libgin-ofi.so)

# Device calls, as kernels where there is nvcc: the self-test, and calls that a host puts on a stream.
SELFTEST := $(BUILD)/libgin-selftest.so
STREAM := $(BUILD)/libgin-stream.so

# A tool NAME is the C files, or the CUDA files, of tools/NAME. One that asks hwloc is left out where there
# is no hwloc.
tool-sources = $(wildcard tools/$(1)/*.c)
tool-objects = $(patsubst tools/%.c,$(BUILD)/tools/obj/%.o,$(call tool-sources,$(1))) \
	$(if $(filter gin_mlx5dump,$(1)),$(MLX5_OBJ)) $(if $(filter gin_info,$(1)),$(BUILD)/bootstrap/launcher.o)
TOOL_NAMES := $(sort $(foreach source,$(wildcard tools/*/*.c),$(notdir $(patsubst %/,%,$(dir $(source))))))
HWLOC_TOOLS := $(foreach tool,$(TOOL_NAMES),\
	$(if $(shell grep -l 'hwloc\.h' /dev/null $(wildcard tools/$(tool)/*.[ch])),$(tool)))
TOOLS := $(filter-out $(if $(HWLOC),,$(HWLOC_TOOLS)),$(TOOL_NAMES))

# Tools that are one source for kernels and host threads, as the examples are.
TOOLS_CU := $(patsubst tools/%/,$(BUILD)/tools/%,$(sort $(dir $(wildcard tools/*/*.cu))))

# Examples and tests named mpi need MPI; the library does not. Debian's openmpi-bin has mpicxx without mpi.h.
MPICXX := $(shell mpicxx -E -x c++ -include mpi.h /dev/null >/dev/null 2>&1 && command -v mpicxx)
CXX_ALONE := $(CXX)
without_mpi = $(filter-out $(if $(MPICXX),,%/mpi.cu %/mpi.cc),$(1))

EXAMPLES := $(patsubst examples/%.cu,$(BUILD)/examples/%,$(call without_mpi,$(wildcard examples/*.cu)))

.PHONY: all lib tools examples man deps deps-check deps-check-all demo bench abi version clean help always
.DELETE_ON_ERROR:
.SECONDARY:

all: lib tools examples

lib: $(LIB) $(LINKS) $(PMIX) $(RDMA) $(OFI) $(STREAM)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -c -o $@ $<

$(BUILD)/lib/base/range.o: CPPFLAGS += $(NVTX_FLAGS)
$(BUILD)/lib/gpu/cpus_hwloc.o: CPPFLAGS += $(shell $(PKG_CONFIG) --cflags hwloc)

$(LIB): $(LIB_OBJ) lib/libgin.map
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -o $@ $(LIB_OBJ) $(LDFLAGS_ALL) -Wl,-soname,libgin.so.$(SOVERSION) \
		-Wl,--version-script,lib/libgin.map $(if $(SAN),,-Wl$(comma)-z$(comma)defs) \
		-Wl,-z,relro,-z,now,-z,nodelete -pthread -ldl $(HWLOC_LIBS)

$(LINKS): $(LIB)
	$(Q)ln -sf $(notdir $(LIB)) $@

$(BUILD)/libgin-pmix.so: bootstrap/pmix.c bootstrap/bootstrap.h bootstrap/pmix.map
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CFLAGS_ALL)) $(subst -I/,-isystem /,$(shell $(PKG_CONFIG) --cflags pmix)) \
		-shared -o $@ $< $(LDFLAGS_ALL) -Wl,--version-script,bootstrap/pmix.map \
		$(shell $(PKG_CONFIG) --libs pmix) -pthread

$(NIC_OBJ): CPPFLAGS += $(subst -I/,-isystem /,$(shell $(PKG_CONFIG) --cflags libmlx5 libibverbs))

$(BUILD)/libgin-rdma.so: $(NIC_OBJ) $(MLX5_OBJ) backends/rdma/nic/rdma.map
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -o $@ $(NIC_OBJ) $(MLX5_OBJ) $(LDFLAGS_ALL) \
		$(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,-z,relro,-z,now \
		-Wl,--version-script,backends/rdma/nic/rdma.map $(VERBS_LIBS) -pthread

# libgin.so or gin_info has loaded libgin.so before them.
$(SELFTEST): lib/selftest/selftest.cu lib/selftest/selftest.h
$(STREAM): lib/stream/stream.cu lib/stream/stream.h
$(SELFTEST) $(STREAM): $(BUILD)/nvcc-used $(LINKS)
	$(call say,$(cu),$(filter %.cu,$^))
ifneq ($(NVCC)$(SAN),$(SAN))
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -shared -Xcompiler -fPIC,-fvisibility=hidden -MD -MP -MF $@.d -MT $@ -o $@ $(filter %.cu,$^) \
		-L$(BUILD) -lgin -Xcompiler -pthread
else
	$(Q)$(CXX) $(CXXFLAGS_ALL) -MF $@.d -fPIC -shared -fvisibility=hidden -fvisibility-inlines-hidden -fno-exceptions \
		-fno-rtti -o $@ -x c++ $(filter %.cu,$^) -x none $(LDFLAGS_ALL) -L$(BUILD) -lgin -pthread
endif

OFI_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard backends/proxy/ofi/*.c))

$(OFI_OBJ): CPPFLAGS += $(subst -I/,-isystem /,$(shell $(PKG_CONFIG) --cflags libfabric))

$(BUILD)/libgin-ofi.so: $(OFI_OBJ) backends/proxy/ofi/ofi.map
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -o $@ $(OFI_OBJ) $(LDFLAGS_ALL) $(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,-z,relro,-z,now \
		-Wl,--version-script,backends/proxy/ofi/ofi.map $(shell $(PKG_CONFIG) --libs libfabric) -pthread

tools: $(TOOLS:%=$(BUILD)/tools/%) $(SELFTEST)
	$(foreach tool,$(filter-out $(TOOLS),$(TOOL_NAMES)), \
		$(call say,SKIP,"tools/$(tool): there is no hwloc (libhwloc-dev)")$(newline))

$(BUILD)/tools/obj/%.o: tools/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(if $(HWLOC_TOOLS),$(shell $(PKG_CONFIG) --cflags hwloc)) -c -o $@ $<

# link-tool NAME PROGRAM RPATH
link-tool = $(CC) -o $(2) $(call tool-objects,$(1)) $(LDFLAGS_ALL) -L$(BUILD) -lgin -pthread \
	$(if $(filter $(1),$(HWLOC_TOOLS)),$(HWLOC_LIBS)) \
	$(if $(3),-Wl$(comma)-rpath$(comma)$(3))

$(TOOLS:%=$(BUILD)/tools/%): $(BUILD)/tools/%: $(LINKS)
	$(call say,LINK,$@)
	$(Q)$(call link-tool,$*,$@,'$$ORIGIN/..')
$(foreach tool,$(TOOLS),$(eval $(BUILD)/tools/$(tool): $(call tool-objects,$(tool))))

# Which nvcc, if any: with another one, programs are made anew, and whether it takes the host compiler
# is seen first.
$(BUILD)/nvcc-used: always
	@mkdir -p $(@D)
	@echo '$(NVCC) $(ARCH)' | cmp -s - $@ || \
		{ $(if $(NVCC),$(FIND_CUDA) try &&) echo '$(NVCC) $(ARCH)' >$@; }

# Its compiler is a wrapper around ours.
%/mpi: export OMPI_CXX = $(CXX_ALONE)
%/mpi: export MPICH_CXX = $(CXX_ALONE)
%/mpi: override CXX = $(MPICXX)
%/mpi: NVCCFLAGS += -ccbin $(MPICXX)

# Examples are one source for kernels and host threads: nvcc makes both, g++ the latter alone.
examples: $(EXAMPLES)

tools: $(TOOLS_CU)

# cu-compile FROM TO, cu-link FROM TO RPATH: with kernels where there is nvcc
ifneq ($(NVCC)$(SAN),$(SAN))
cu-compile = $(NVCC) $(NVCCFLAGS_ALL) -MD -MP -MF $(2).d -MT $(2) -c -o $(2) $(1)
cu-link = $(NVCC) $(NVCCFLAGS_ALL) -o $(2) $(1) -L$(BUILD) -lgin \
	$(if $(3),-Xlinker -rpath$(comma)$(3)) -Xcompiler -pthread
cu = NVCC
else
cu-compile = $(CXX) $(CXXFLAGS_ALL) -c -o $(2) -x c++ $(1)
cu-link = $(CXX) -o $(2) $(1) $(LDFLAGS_ALL) -L$(BUILD) -lgin \
	$(if $(3),-Wl$(comma)-rpath$(comma)$(3)) -pthread -ldl
cu = CXX
endif

$(BUILD)/%.cu.o: %.cu $(BUILD)/nvcc-used
	@mkdir -p $(@D)
	$(call say,$(cu),$<)
	$(Q)$(call cu-compile,$<,$@)

$(EXAMPLES) $(BUILD)/bench/limits: $(BUILD)/%: $(BUILD)/%.cu.o $(LINKS)
	$(Q)$(call cu-link,$<,$@,'$$ORIGIN/..')

# cu-objects PROGRAM: of a tool
cu-objects = $(patsubst tools/%,$(BUILD)/tools/obj/%.o,$(wildcard tools/$(notdir $(1))/*.cu))

$(BUILD)/tools/obj/%.cu.o: tools/%.cu $(BUILD)/nvcc-used
	@mkdir -p $(@D)
	$(call say,$(cu),$<)
	$(Q)$(call cu-compile,$<,$@)

$(foreach tool,$(TOOLS_CU),$(eval $(tool): $(call cu-objects,$(tool))))
$(TOOLS_CU): $(LINKS)
	$(Q)$(call cu-link,$(call cu-objects,$@),$@,'$$ORIGIN/..')

# NVSHMEM's wheels have no libnvshmem_host.so.
$(BUILD)/bench/nvshmem_perf: bench/nvshmem/nvshmem_perf.cu
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -rdc=true -I$(NVSHMEM_HOME)/include -MD -MP -MF $@.d -MT $@ -o $@ $< \
		-L$(NVSHMEM_HOME)/lib -lnvshmem_device -l:libnvshmem_host.so.3 \
		-Xlinker -rpath,$(NVSHMEM_HOME)/lib -Xcompiler -pthread

deps:
	$(Q)DEPS=$(DEPS) mk/install-deps demo

deps-check deps-check-all: deps-%:
	$(Q)DEPS=$(DEPS) mk/install-deps $*

# What the table of environment variables says goes into the page.
man: $(BUILD)/test/unit_param
	$(Q)$< --list | awk -f man/environ.awk - man/man7/gin_environ.7 >$(BUILD)/gin_environ.7
	$(Q)cmp -s $(BUILD)/gin_environ.7 man/man7/gin_environ.7 || cp $(BUILD)/gin_environ.7 man/man7/gin_environ.7

demo: deps
	$(Q)$(MAKE) --no-print-directory lib $(BUILD)/examples/ring $(filter $(BUILD)/tools/gin_info,$(TOOLS:%=$(BUILD)/tools/%))
	$(Q)examples/demo $(BUILD)

# Beside NVSHMEM, on two GPUs or more.
bench:
	$(Q)bench/run

abi:
	$(Q)test/lint/abi/check --rewrite

include mk/install.mk

version:
	@echo $(VERSION)

help:
	@sed -n '/^# Targets$$/,/^$$/s/^# \{0,1\}//p' Makefile

clean:
	$(Q)rm -rf $(BUILD)

include mk/test.mk
include mk/bench.mk
include products/ep/ep.mk
include products/symm/symm.mk
include products/nccl/nccl.mk
include products/bitcode/bitcode.mk
include products/python/python.mk
include mlx5/dev.mk
include mk/fuzz.mk
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
