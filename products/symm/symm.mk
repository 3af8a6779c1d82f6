# SPDX-License-Identifier: BSD-3-Clause
#
# symm.mk - libgin-symm.so: what PyTorch's symmetric memory needs, without PyTorch
#
#   make symm          the library, and with nvcc the kernel of GPUs
#   make symm-tests    its tests on host threads
#
# SYMM_ARCH="90 100" chooses the architectures of the kernel; the newest one comes as PTX, too.

SYMM_LIB := $(BUILD)/libgin-symm.so.$(SOVERSION)
SYMM_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard products/symm/lib/*.c)) $(BUILD)/products/symm/kernels/host.o
SYMM_TESTS := $(patsubst %.cc,$(BUILD)/%,$(wildcard products/symm/test/*.cc))

.PHONY: symm symm-tests

symm: lib $(SYMM_LIB)

symm-tests: $(SYMM_TESTS)

$(BUILD)/products/symm/kernels/host.o: products/symm/kernels/host.cc
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_ALL) -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti -fno-threadsafe-statics -c -o $@ $<

# The kernel where there is nvcc; a build with a sanitizer is for host threads.
ifneq ($(NVCC)$(SAN),$(SAN))
SYMM_ARCHS = $(or $(SYMM_ARCH),$(filter $(patsubst sm_%,%,$(shell $(NVCC) --list-gpu-code)),80 90 100 120))
SYMM_NEWEST = $(lastword $(SYMM_ARCHS))
SYMM_GENCODE = $(foreach arch,$(SYMM_ARCHS),-gencode arch=compute_$(arch)$(comma)code=sm_$(arch)) \
	-gencode arch=compute_$(SYMM_NEWEST)$(comma)code=compute_$(SYMM_NEWEST)
SYMM_FATBIN := $(BUILD)/products/symm/kernels/kernels.fatbin

$(SYMM_FATBIN): products/symm/kernels/kernels.cu $(wildcard products/symm/kernels/*.h products/symm/kernels/*.cuh) $(BUILD)/nvcc-used
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) -std=c++17 -O3 -lineinfo -Iinclude -I. $(SYMM_GENCODE) $(NVCCFLAGS) -fatbin -o $@ $<
endif

$(BUILD)/products/symm/lib/kernels.o: products/symm/lib/kernels.S $(SYMM_FATBIN) $(BUILD)/nvcc-used
	@mkdir -p $(@D)
	$(call say,AS,$<)
	$(Q)$(CC) -c $(if $(SYMM_FATBIN),-DSYMM_FATBIN='"$(SYMM_FATBIN)"') -o $@ $<

$(SYMM_LIB): $(SYMM_OBJ) $(BUILD)/products/symm/lib/kernels.o $(LINKS) products/symm/lib/libgin-symm.map
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -o $@ $(SYMM_OBJ) $(BUILD)/products/symm/lib/kernels.o $(LDFLAGS_ALL) \
		-Wl,-soname,$(@F) -Wl,--version-script,products/symm/lib/libgin-symm.map \
		$(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,-z,relro,-z,now,-z,nodelete -L$(BUILD) -lgin -pthread -ldl

$(SYMM_TESTS): $(BUILD)/%: %.cc $(SYMM_LIB) $(LINKS)
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_ALL) -Itest/common -Iproducts/symm/include $(TESTFLAGS) -o $@ $< $(LDFLAGS_ALL) \
		-L$(BUILD) -l:libgin-symm.so.$(SOVERSION) $(LINKGIN)

# The library's objects in a program, over a CUDA driver for them alone.
SYMM_FAKE := $(BUILD)/products/symm/test/fake/libcuda.so.1

symm-tests: $(BUILD)/products/symm/test/fake/gpu

$(SYMM_FAKE): products/symm/test/fake/driver.c products/symm/test/fake/driver.h products/symm/lib/driver.h
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CFLAGS_ALL)) -shared -o $@ $< -Wl,-soname,libcuda.so.1

$(BUILD)/products/symm/test/fake/gpu: products/symm/test/fake/gpu.cc products/symm/test/rig.h $(SYMM_OBJ) $(SYMM_FAKE) $(LINKS)
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_ALL) -Itest/common -Iproducts/symm/include $(TESTFLAGS) -o $@ $< $(SYMM_OBJ) $(SYMM_FAKE) \
		$(LDFLAGS_ALL) $(LINKGIN) -Wl,-rpath,'$$ORIGIN' -Wl,-rpath,'$$ORIGIN/../../../..'
