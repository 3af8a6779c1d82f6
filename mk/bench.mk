# SPDX-License-Identifier: BSD-3-Clause
#
# bench.mk - builds and runs the measurements; results go to bench/results

BENCHES := $(BUILD)/bench/proxy/idle

.PHONY: benches bench-idle bench-gpunetio bench-ofi

benches: $(BENCHES)

$(BUILD)/bench/proxy/idle: bench/proxy/idle.cc $(LINKS)
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_ALL) -o $@ $< $(LDFLAGS_ALL) $(LINKGIN)

$(BUILD)/bench/ofi/ofi: bench/ofi/ofi.cc bench/ofi/provider.h $(LINKS)
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_ALL) $(subst -I/,-isystem /,$(shell $(PKG_CONFIG) --cflags libfabric)) -o $@ $< \
		$(LDFLAGS_ALL) $(LINKGIN) $(shell $(PKG_CONFIG) --libs libfabric)

# Measures the proxy's network next to raw sockets.
bench-ofi:
	$(Q)bench/ofi/run $(BENCH)

# Measures an idle proxy thread: CPU time, and time to wake up.
bench-idle: lib $(BUILD)/bench/proxy/idle
	$(Q)$(BUILD)/bench/proxy/idle

# Linked with libcuda: it measures copy engines by the driver API.
BENCH_HARNESS := examples/launch.h test/common/harness.h test/common/ranks.h bench/proxy/rank.cuh

$(BUILD)/bench/proxy/proxy: bench/proxy/proxy.cu $(wildcard bench/proxy/*.cuh include/gin/* include/gin/*/*) $(BENCH_HARNESS) $(LINKS)
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -o $@ $< -L$(BUILD) -lgin -lcuda \
		-Xlinker -rpath$(comma)'$$ORIGIN/../..' -Xcompiler -pthread

# GPUNETIO is the folder of GPUNetIO's headers; bench/gpunetio/run finds it.
$(BUILD)/bench/gpunetio/gpunetio: bench/gpunetio/gpunetio.cu $(wildcard bench/gpunetio/*.cuh include/gin/* include/gin/*/*)
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -isystem $(GPUNETIO) -o $@ $<

# Compares posting to a NIC's queue with GPUNetIO. One GPU, no NIC.
bench-gpunetio:
	$(Q)bench/gpunetio/run $(BENCH)

# Compares puts by threads with puts by copy engines. Two GPUs; bench/engine/run calls it.
$(BUILD)/bench/engine/engine: bench/engine/engine.cu $(BENCH_HARNESS) $(wildcard include/gin/* include/gin/*/*) $(LINKS)
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -o $@ $< -L$(BUILD) -lgin -lcuda \
		-Xlinker -rpath$(comma)'$$ORIGIN/../..' -Xcompiler -pthread
