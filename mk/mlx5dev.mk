# SPDX-License-Identifier: BSD-3-Clause
#
# mlx5dev.mk - the software mlx5 device, test/mlx5dev: to preload, and to link in

MLX5DEV_SRC := $(wildcard test/mlx5dev/*.c)
MLX5DEV_OBJ := $(MLX5DEV_SRC:%.c=$(BUILD)/%.o)
MLX5DEV := $(BUILD)/test/mlx5dev/libmlx5dev

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
