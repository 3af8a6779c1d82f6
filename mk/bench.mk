# SPDX-License-Identifier: BSD-3-Clause
#
# bench.mk - builds and runs the measurements; results go to bench/results

BENCHES := $(addprefix $(BUILD)/bench/start/,start $(if $(PMIX),pmix)) $(BUILD)/bench/proxy/idle

.PHONY: benches bench-start bench-idle bench-gpunetio bench-ofi

benches: $(BENCHES)

$(BUILD)/bench/start/start: bench/start/start.c $(BUILD)/bench/start/stage.o $(LINKS)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -o $@ $< $(BUILD)/bench/start/stage.o $(LDFLAGS_ALL) $(LINKGIN)

$(BUILD)/bench/start/pmix: bench/start/pmix.c $(BUILD)/bench/start/stage.o
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(subst -I/,-isystem /,$(shell pkg-config --cflags pmix)) -o $@ $< \
		$(BUILD)/bench/start/stage.o $(LDFLAGS_ALL) $(shell pkg-config --libs pmix)

# Measures the start of jobs. BENCH="-r 3 2 4 8": 3 repetitions, with 2, 4 and 8 ranks.
bench-start: lib benches
	$(Q)BUILD=$(BUILD) bench/start/run $(BENCH)

$(BUILD)/bench/proxy/idle: bench/proxy/idle.cc $(LINKS)
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_ALL) -o $@ $< $(LDFLAGS_ALL) $(LINKGIN)

$(BUILD)/bench/ofi/ofi: bench/ofi/ofi.cc bench/ofi/provider.h $(LINKS)
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_ALL) $(subst -I/,-isystem /,$(shell $(PKG_CONFIG) --cflags libfabric)) -o $@ $< \
		$(LDFLAGS_ALL) $(LINKGIN) $(shell $(PKG_CONFIG) --libs libfabric)

# Raw sockets with the system calls of libfabric's providers, one by one.
$(BUILD)/bench/ofi/steps: bench/ofi/steps.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -o $@ $<

# Measures the proxy's network beside raw sockets.
bench-ofi:
	$(Q)bench/ofi/run $(BENCH)

# Measures an idle proxy thread: CPU time, and time to wake up.
bench-idle: lib $(BUILD)/bench/proxy/idle
	$(Q)$(BUILD)/bench/proxy/idle

# Linked with libcuda: it measures copy engines by the driver API.
$(BUILD)/bench/proxy/proxy: bench/proxy/proxy.cu $(wildcard bench/proxy/*.cuh include/gin/* include/gin/*/*) $(LINKS)
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -o $@ $< -L$(BUILD) -lgin -lcuda \
		-Xlinker -rpath$(comma)'$$ORIGIN/../..' -Xcompiler -pthread

# Measure how GPU threads that poll host memory slow down copies (one GPU), and copies by few threads (two GPUs).
$(BUILD)/bench/host_loads $(BUILD)/bench/copy_flight: $(BUILD)/bench/%: bench/%.cu
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -o $@ $< -lcuda

# Measure the steps of a signal and a wait, and of a message of GinPackets. Two GPUs.
$(BUILD)/bench/signal_steps $(BUILD)/bench/packet_steps: $(BUILD)/bench/%: bench/%.cu bench/two_gpus.cuh \
		$(wildcard include/gin/* include/gin/*/*)
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -o $@ $<

# Takes a put of 8 bytes with a signal apart, for the guest of test/guest/run.
$(BUILD)/bench/verbs/steps: bench/verbs/steps.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) -O2 -Wall -Wextra -o $@ $< -libverbs -pthread

# GPUNETIO is the folder of GPUNetIO's headers; bench/gpunetio/run finds it.
$(BUILD)/bench/gpunetio/gpunetio: bench/gpunetio/gpunetio.cu $(wildcard bench/gpunetio/*.cuh include/gin/* include/gin/*/*)
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -isystem $(GPUNETIO) -o $@ $<

# Compares posting to a NIC's queue with GPUNetIO. One GPU, no NIC.
bench-gpunetio:
	$(Q)bench/gpunetio/run $(BENCH)

# Compares puts by threads with puts by copy engines. Two GPUs; bench/engine/run calls it.
$(BUILD)/bench/engine/engine: bench/engine/engine.cu bench/proxy/rank.cuh $(wildcard include/gin/* include/gin/*/*) $(LINKS)
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -o $@ $< -L$(BUILD) -lgin -lcuda \
		-Xlinker -rpath$(comma)'$$ORIGIN/../..' -Xcompiler -pthread

# What copy engines and loopback TCP do by themselves. One GPU; bench/bounce/run calls it.
$(BUILD)/bench/bounce/limits: bench/bounce/limits.cu
# What a copy by a copy engine takes without a library. Two GPUs.
$(BUILD)/bench/engine/limit: bench/engine/limit.cu
$(BUILD)/bench/bounce/limits $(BUILD)/bench/engine/limit:
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -o $@ $< -lcuda
