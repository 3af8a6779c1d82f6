# SPDX-License-Identifier: BSD-3-Clause
#
# test.mk - builds the tests of the core, and calls what runs tests
#
# A C file of TEST_DIRS is linked with the objects of the library. A C++ file uses libgin.so, and is the source of a
# program with kernels, NAME_gpu, too. The programs lie in BUILD/test; those of TEST_TREES in BUILD/test/port and so on.
# A test states what else it takes, in lines of its own:
#
#   /* COMPILE: -O0 */                   flags of the compiler, not for NAME_gpu. -O0: to optimize the program takes
#                                        2 to 18 s, and does not make it faster. -O1: with -O0 it
#                                        takes several times as long, also in the guest of test/guest;
#                                        or an unused function has a call that is not linked.
#   /* LINK: -Wl,--wrap=malloc */        flags of the linker
#   /* PACKAGES: libmlx5 libibverbs */   packages of pkg-config, without which the test is left out
#   /* HEADERS: libfabric */             packages from which it takes headers only
#   /* NEEDS: libgin-weak.so */          files in BUILD that it opens or runs. A plug-in that is not built is no error.

TEST_DIRS := $(addprefix test/,unit arguments semantics proxy gdaki nic launch gpu fuzz)
TEST_TREES := $(addprefix test/,port system faults)
vpath %.c $(TEST_DIRS)
vpath %.cc $(TEST_DIRS) test
test-sources = $(wildcard $(2:%=%/*.$(1)))
TEST_SOURCES := $(call test-sources,c,$(TEST_DIRS)) $(call test-sources,cc,$(TEST_DIRS) $(TEST_TREES))

# Makes variables of the lines: test/nic/mlx5_devx.c.PACKAGES += libmlx5 libibverbs
TEST_LINES := $(shell grep -HE '^/\* (COMPILE|LINK|PACKAGES|HEADERS|NEEDS): .* \*/$$' $(TEST_SOURCES) | \
	sed -E 's|^([^:]*):/\* ([A-Z]*): (.*) \*/|\1.\2 += \3;|')
$(eval $(subst ;,$(newline),$(TEST_LINES)))

TEST_PACKAGES := $(if $(VERBS),libmlx5 libibverbs) $(if $(OFI),libfabric)
TEST_PLUGINS := $(RDMA) $(OFI) $(BUILD)/libgin-selftest.so $(BUILD)/libgin-stream.so $(BUILD)/libgin-weak.so \
	$(BUILD)/test/fake/libcuda.so.1 $(TOOLS:%=$(BUILD)/tools/%)
# test-FUNCTION SOURCE: the source, if its packages are there; what it needs; its flags
test-built = $(if $(filter-out $(TEST_PACKAGES),$($(1).PACKAGES) $($(1).HEADERS)),,$(1))
test-needs = $(filter $($(1).NEEDS:%=$(BUILD)/%),$(TEST_PLUGINS))
test-pkg-config = $(if $(strip $(2)),$(subst -I/,-isystem /,$(shell $(PKG_CONFIG) $(1) $(2))))
test-compile = $($(1).COMPILE) $(call test-pkg-config,--cflags,$($(1).PACKAGES) $($(1).HEADERS))
test-link = $($(1).LINK) $(call test-pkg-config,--libs,$($(1).PACKAGES))
test-rpath = $(if $(filter %.so,$($(1).NEEDS)),-Wl$(comma)-rpath$(comma)'$$ORIGIN/..')
# test-program SOURCE, test-programs SOURCES
test-program = $(BUILD)/test/$(basename $(if $(filter $(TEST_TREES:%=%/%),$(1)),$(1:test/%=%),$(notdir $(1))))
test-programs = $(foreach source,$(1),$(if $(call test-built,$(source)),$(call test-program,$(source))))

TESTS_C := $(call test-programs,$(filter-out %/record.c,$(filter %.c,$(TEST_SOURCES))))
TESTS_CC := $(call test-programs,$(call without_mpi,$(filter %.cc,$(TEST_SOURCES))))
# The same sources with kernels.
TESTS_GPU := $(addsuffix _gpu,$(filter-out $(addprefix $(BUILD)/test/,nvrtc mpi selftest unit_% perf_% traced_%), \
	$(call test-programs,$(call test-sources,cc,$(TEST_DIRS) test/port) test/faults/soak.cc)))

.PHONY: tests tests-gpu check check-all check-mlx5dev check-rdma check-long check-mutations check-system check-gpu

tests: $(TESTS_C) $(TESTS_CC) $(BUILD)/test/fake/libcuda.so.1 $(BUILD)/libgin-weak.so

tests-gpu: $(TESTS_GPU)

$(foreach source,$(TEST_SOURCES),$(if $($(source).NEEDS),\
	$(eval $(call test-program,$(source)): $(call test-needs,$(source)))))

$(TESTS_C): $(BUILD)/test/%: %.c $(LINKS) $(LIB_OBJ) $(MLX5_OBJ)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -Itest/common -Wno-pedantic $(TESTFLAGS) $(call test-compile,$<) -o $@ $< $(LIB_OBJ) $(MLX5_OBJ) \
		$(LDFLAGS_ALL) $(call test-link,$<) $(call test-rpath,$<) -pthread -ldl $(HWLOC_LIBS)

test-cc = $(CXX) $(CXXFLAGS_ALL) -Itest/common $(TESTFLAGS) $(call test-compile,$<) -o $@ $< \
	$(LDFLAGS_ALL) $(call test-link,$<) $(LINKGIN)

$(TESTS_CC): $(BUILD)/test/%: %.cc $(LINKS)
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(test-cc)

# The example of a page.
$(BUILD)/pages/%.h: man/man3/%.3 man/example.awk
	@mkdir -p $(@D)
	$(Q)awk -f man/example.awk $< >$@

$(BUILD)/test/unit_pages: $(BUILD)/pages/GinPackets.h

# With the toolkit's <cuda.h>, from CUDA_INCLUDE. It uses nothing of the library.
$(BUILD)/test/unit_cuda_abi_toolkit: unit_cuda_abi.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -I$(CUDA_INCLUDE) -o $@ $<

# With warps of 32 host threads. libgin.so does not know how many a warp has.
$(BUILD)/test/semantics_warp32: private override TESTFLAGS += -DGIN_HOST_WARP=32u
$(BUILD)/test/semantics_warp32: semantics.cc $(LINKS)
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(test-cc)

$(TESTS_GPU): $(BUILD)/test/%_gpu: %.cc $(LINKS) $(BUILD)/nvcc-used
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -Itest/common $(TESTFLAGS) -MD -MP -MF $@.d -MT $@ -x cu -o $@ $< \
		-L$(BUILD) -lgin -Xlinker -rpath,'$$ORIGIN/..' -Xlinker -rpath,'$$ORIGIN/../..' -Xcompiler -pthread

# A network that is as weak as it may be, for the proxy: GIN_TRANSPORT=weak. A test that has libgin in itself looks
# for it in its own folder.
$(BUILD)/libgin-weak.so: test/fabric/weak.c backends/proxy/network/fabric.h
	@mkdir -p $(@D)/test
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CFLAGS_ALL)) -shared -o $@ $< $(LDFLAGS_ALL) -pthread
	$(Q)ln -sf ../$(@F) $(@D)/test/$(@F)

# A CUDA driver that answers questions only.
$(BUILD)/test/fake/libcuda.so.1: $(wildcard test/fake/*.c) lib/gpu/cuda.h
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out -MMD -MP $(SANFLAGS),$(CFLAGS_ALL)) -shared -o $@ $(wildcard test/fake/*.c) \
		-Wl,-soname,libcuda.so.1

# Words of GROUPS are files of test/groups; all of them by default.
check-all check-long check-mutations check-system check-mlx5dev: deps-check-all

check: deps-check
	$(Q)test/run check

check-all:
	$(Q)test/run check-all $(GROUPS)

check-system:
	$(Q)test/run check-all system

check-rdma:
	$(Q)test/run check-all rdma

check-mlx5dev:
	$(Q)test/run check-all gdaki verbs mlx5dev perftest

check-long:
	$(Q)test/run check-long

check-mutations:
	$(Q)test/mutations

check-gpu:
	$(Q)test/run check-gpu $(PARTS)
