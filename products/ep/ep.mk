# SPDX-License-Identifier: BSD-3-Clause
#
# ep.mk - libgin-ep.so: expert parallelism on libgin's public API
#
#   make ep          the library, and with nvcc the kernels of GPUs
#   make check-ep    its tests on host threads
#   make bench-ep    measurements, on GPUs; BENCH=ht: of high throughput, beside its limits and DeepEP
#
# EP_ARCH="90 100" chooses the architectures of the kernels; the newest one comes as PTX, too.
# EP_TRACE=1 adds kernels that write records: they run in a process that has GIN_TRACE (docs/observe.md).
# A build folder that has them keeps them.

EP_LIB := $(BUILD)/libgin-ep.so.$(VERSION)
EP_LINKS := $(BUILD)/libgin-ep.so.$(SOVERSION) $(BUILD)/libgin-ep.so
EP_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard products/ep/lib/*.c)) $(BUILD)/products/ep/kernels/host.o \
	$(BUILD)/products/ep/lib/kernels.o
EP_HEADERS := $(wildcard products/ep/kernels/*.cuh products/ep/kernels/*.h products/ep/kernels/ht/* \
	products/ep/include/*.h include/gin/* include/gin/*/*)
EP_TESTS := $(patsubst %.cc,$(BUILD)/%,$(wildcard products/ep/test/*.cc))

PYTHON ?= python3
EP_PYTHON_INCLUDE := $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null)
EP_NATIVE := $(if $(wildcard $(EP_PYTHON_INCLUDE)/Python.h),$(BUILD)/gin_ep/_native.abi3.so)
EP_NATIVE_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard products/ep/python/native/*.c))

.PHONY: ep ep-tests check-ep bench-ep

ep: lib $(EP_LIB) $(EP_LINKS) $(EP_NATIVE)
	$(if $(EP_NATIVE),,@echo "gin_ep's native module is not built: $(PYTHON) has no Python.h (Debian's python3-dev).")

ep-tests: $(EP_TESTS)

$(BUILD)/products/ep/lib/range.o: CPPFLAGS += $(NVTX_FLAGS)

# With AddressSanitizer the kernels take g++ 8 s without optimization, 20 s with it.
$(BUILD)/products/ep/kernels/host.o: products/ep/kernels/host.cc
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_ALL) -fPIC -fvisibility=hidden -fno-exceptions -fno-rtti \
		-fno-threadsafe-statics $(if $(findstring address,$(SAN)),-O0) -c -o $@ $<

# Kernels where there is nvcc; a build with a sanitizer is for host threads.
ifneq ($(NVCC)$(SAN),$(SAN))
EP_ARCHS = $(or $(EP_ARCH),$(filter $(patsubst sm_%,%,$(shell $(NVCC) --list-gpu-code)),80 90 100 120))
EP_NEWEST = $(lastword $(EP_ARCHS))
EP_GENCODE = $(foreach arch,$(EP_ARCHS),-gencode arch=compute_$(arch)$(comma)code=sm_$(arch)) \
	-gencode arch=compute_$(EP_NEWEST)$(comma)code=compute_$(EP_NEWEST)
EP_FATBIN := $(BUILD)/products/ep/kernels/kernels.fatbin
EP_WRITES := $(BUILD)/products/ep/kernels/traced.fatbin
EP_TRACED := $(if $(EP_TRACE),$(EP_WRITES),$(wildcard $(EP_WRITES)))

$(EP_FATBIN): EP_KERNEL_FLAGS := -lineinfo
$(EP_WRITES): EP_KERNEL_FLAGS := -DGIN_TRACE
$(EP_FATBIN) $(EP_WRITES): products/ep/kernels/kernels.cu $(EP_HEADERS) $(BUILD)/nvcc-used
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) -std=c++17 -O3 -Iinclude -I. $(EP_KERNEL_FLAGS) $(EP_GENCODE) $(NVCCFLAGS) -fatbin -o $@ $<
endif

$(BUILD)/products/ep/lib/kernels.o: products/ep/lib/kernels.S $(EP_FATBIN) $(EP_TRACED) $(BUILD)/nvcc-used
	@mkdir -p $(@D)
	$(call say,AS,$<)
	$(Q)$(CC) -c $(if $(EP_FATBIN),-DEP_FATBIN='"$(EP_FATBIN)"') $(if $(EP_TRACED),-DEP_TRACED='"$(EP_TRACED)"') -o $@ $<

$(EP_LIB): $(EP_OBJ) $(LINKS) products/ep/lib/libgin-ep.map
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -o $@ $(EP_OBJ) $(LDFLAGS_ALL) -Wl,-soname,libgin-ep.so.$(SOVERSION) \
		-Wl,--version-script,products/ep/lib/libgin-ep.map $(if $(SAN),,-Wl$(comma)-z$(comma)defs) \
		-Wl,-z,relro,-z,now,-z,nodelete -L$(BUILD) -lgin -pthread -ldl -lm

# The functions of libgin-ep come by bind(), those of Python from the process.
$(EP_NATIVE_OBJ): CPPFLAGS += -isystem $(EP_PYTHON_INCLUDE) -Iproducts/ep/include

$(EP_NATIVE): $(EP_NATIVE_OBJ)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -o $@ $(EP_NATIVE_OBJ) $(LDFLAGS_ALL) -Wl,-z,relro,-z,now

$(EP_LINKS): $(EP_LIB)
	$(Q)ln -sf $(notdir $(EP_LIB)) $@

LINKEP = -L$(BUILD) -lgin-ep $(LINKGIN)

$(EP_TESTS): $(BUILD)/%: %.cc $(EP_LINKS) $(LINKS)
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_ALL) -Itest/common -Iproducts/ep/include $(TESTFLAGS) -o $@ $< $(LDFLAGS_ALL) $(LINKEP)

# It compares the addresses of kernels with the sizes of the library.
$(BUILD)/products/ep/test/layout: $(BUILD)/products/ep/lib/layout.o
$(BUILD)/products/ep/test/layout: private LDFLAGS += $(BUILD)/products/ep/lib/layout.o

# The tests with memory of a GPU.
$(patsubst %,%_gpu,$(filter-out %/layout,$(EP_TESTS))): $(BUILD)/%_gpu: %.cc $(EP_LINKS) $(LINKS) $(BUILD)/nvcc-used
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -Itest/common -Iproducts/ep/include $(TESTFLAGS) -MD -MP -MF $@.d -MT $@ -x cu -o $@ $< \
		-L$(BUILD) -lgin-ep -lgin -Xlinker -rpath,'$$ORIGIN/../../..' -Xcompiler -pthread

$(BUILD)/bench/ep/ep $(BUILD)/bench/ep/ht: $(BUILD)/%: %.cu $(wildcard bench/ep/*.cuh) $(EP_LINKS) $(LINKS) $(BUILD)/nvcc-used
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -Itest/common -Iproducts/ep/include -o $@ $< -L$(BUILD) -lgin-ep -lgin \
		-Xlinker -rpath,'$$ORIGIN/../..' -Xcompiler -pthread

# BENCH=ht: high throughput. On one GPU two ranks share it.
bench-ep:
	$(Q)bench/ep/run $(BENCH)

check-ep: deps-check
	$(Q)test/run check-all ep

EP_EXAMPLES := $(patsubst %.c,$(BUILD)/%,$(wildcard products/ep/examples/*.c))

ep: $(EP_EXAMPLES)

$(EP_EXAMPLES): $(BUILD)/%: %.c $(EP_LINKS) $(LINKS)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -Iproducts/ep/include -o $@ $< $(LDFLAGS_ALL) $(LINKEP)
