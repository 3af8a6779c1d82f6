# SPDX-License-Identifier: BSD-3-Clause
#
# mlx5dev.mk - the software mlx5 device, mlx5/dev: to preload, and to link in

MLX5DEV_SRC := $(wildcard $(addprefix mlx5/dev/,device/*.c host/*.c engine/*.c command/*.c uverbs/*.c))
MLX5DEV_OBJ := $(MLX5DEV_SRC:%.c=$(BUILD)/%.o)
MLX5DEV := $(BUILD)/mlx5/dev/libmlx5dev

.PHONY: mlx5dev

# Its headers are of the uverbs ABI: rdma-core's, from libibverbs-dev.
mlx5dev: $(MLX5DEV).so $(MLX5DEV).a

$(MLX5DEV).so: $(MLX5DEV_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -o $@ $^ $(LDFLAGS_ALL) -Wl,-z,defs -pthread -ldl

# With an engine linked in nothing stands in front of libc.
$(MLX5DEV).a: $(filter-out %/preload.o,$(MLX5DEV_OBJ))
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

# A test is a file of its own with what all share, twice: on rdma-core, and with the engine linked in.
MLX5DEV_SHARED := mlx5/dev/tests/queue.c
MLX5DEV_TEST_SRC := $(filter-out %/queue.c %/host_verbs.c %/host_engine.c,$(wildcard mlx5/dev/tests/*.c))
MLX5DEV_VERBS := $(MLX5DEV_TEST_SRC:%.c=$(BUILD)/%)
MLX5DEV_ENGINE := $(patsubst %,%_engine,$(filter-out %/verbs %/receives %/processes,$(MLX5DEV_VERBS)))
mlx5dev-objects = $(patsubst %.c,$(BUILD)/%.o,$(MLX5DEV_SHARED) mlx5/dev/tests/$(1).c)

.PHONY: mlx5dev-tests
mlx5dev-tests: mlx5dev $(MLX5DEV_VERBS) $(MLX5DEV_ENGINE)

$(BUILD)/mlx5/dev/tests/%.o: CFLAGS_ALL += -Itest/common

# With its device: test/mutations runs a changed device.
$(MLX5DEV_VERBS): %: %.o $(call mlx5dev-objects,host_verbs) | $(MLX5DEV).so
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(LDFLAGS_ALL) -lmlx5 -libverbs -ldl

$(MLX5DEV_ENGINE): %_engine: %.o $(call mlx5dev-objects,host_engine) $(MLX5DEV).a
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(LDFLAGS_ALL) -pthread -ldl

# A CUDA driver whose GPU is this host.
MLX5DEV_FAKE := $(BUILD)/mlx5/dev/fake/libcuda.so.1

$(MLX5DEV_FAKE): mlx5/dev/fake/gpu.c mlx5/dev/fake/gpu.h lib/gpu/cuda.h
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out -MMD -MP $(SANFLAGS),$(CFLAGS_ALL)) -shared -o $@ $< -Wl,-soname,libcuda.so.1

MLX5DEV_FAKED := $(addprefix $(BUILD)/mlx5/dev/tests/,gpu_memory gpu_memory_engine)
$(MLX5DEV_FAKED): $(MLX5DEV_FAKE)
$(MLX5DEV_FAKED): private LDFLAGS += -Wl,-rpath,'$$ORIGIN/../fake'

# Threads post by the headers that kernels use; the engine is linked in. One source for host threads
# and, as NAME_gpu, kernels.
MLX5DEV_SENDS := $(patsubst %.cc,$(BUILD)/%,$(wildcard mlx5/dev/tests/send_*.cc))
mlx5dev-tests: $(MLX5DEV_SENDS)

mlx5dev-engine := $(call mlx5dev-objects,host_engine) $(MLX5DEV).a

$(MLX5DEV_SENDS): %: %.o $(mlx5dev-engine)
	$(call say,LINK,$@)
	$(Q)$(CXX) -o $@ $^ $(LDFLAGS_ALL) -pthread -ldl

$(BUILD)/mlx5/dev/tests/send_%.o: mlx5/dev/tests/send_%.cc
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_ALL) -Itest/common -c -o $@ $<

$(MLX5DEV_SENDS:=_gpu): $(BUILD)/%_gpu: %.cc $(mlx5dev-engine) $(BUILD)/nvcc-used
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -Itest/common -MD -MP -MF $@.d -MT $@ -x cu -c -o $@.o $<
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -o $@ $@.o $(mlx5dev-engine) -Xcompiler -pthread

# A kernel posts: for a machine with a GPU.
$(BUILD)/mlx5/dev/tests/gpu: $(BUILD)/mlx5/dev/tests/gpu.cu.o $(call mlx5dev-objects,host_engine) $(MLX5DEV).a
	$(call say,LINK,$@)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -o $@ $^ -Xcompiler -pthread
