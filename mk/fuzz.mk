# SPDX-License-Identifier: BSD-3-Clause
#
# fuzz.mk - targets of libFuzzer
#
#   make fuzz SECONDS=60        fuzzes each target for SECONDS; TARGETS="root control": some targets
#   make check-faults SECONDS=60    processes die, stop, lie and lack things: test/faults/run; KINDS="kill stop": some kinds
#
# test/fuzz/run builds the targets with clang; as ordinary tests they are $(BUILD)/test/fuzz_NAME.

FUZZ_TARGETS := $(patsubst test/fuzz/fuzz_%.c,$(BUILD)/fuzz/%,$(foreach source,$(wildcard test/fuzz/fuzz_*.c),\
	$(call test-built,$(source))))

.PHONY: fuzz fuzz-targets fuzz-record check-faults

fuzz:
	$(Q)test/fuzz/run $(or $(SECONDS),60) $(TARGETS)

check-faults: lib $(BUILD)/test/faults/life $(BUILD)/test/faults/soak $(BUILD)/test/faults/deaths $(if $(VERBS),mlx5dev)
	$(Q)test/faults/run --build $(BUILD) --seconds $(or $(SECONDS),60) $(KINDS)

# What kernels read, on host threads.
FUZZ_TARGETS_CC := $(patsubst test/fuzz/fuzz_%.cc,$(BUILD)/fuzz/%,$(wildcard test/fuzz/fuzz_*.cc))

$(FUZZ_TARGETS_CC): $(BUILD)/fuzz/%: test/fuzz/fuzz_%.cc
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_ALL) -DGIN_FUZZ -fsanitize=fuzzer -Itest/common -o $@ $< $(LDFLAGS_ALL) -pthread

fuzz-targets: $(FUZZ_TARGETS) $(FUZZ_TARGETS_CC)

fuzz-record: $(BUILD)/fuzz/record

$(FUZZ_TARGETS): $(BUILD)/fuzz/%: test/fuzz/fuzz_%.c $(LINKS) $(LIB_OBJ) $(MLX5_OBJ) $(BUILD)/libgin-weak.so
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -DGIN_FUZZ -fsanitize=fuzzer -Itest/common $(call test-compile,$<) -o $@ $< \
		$(LIB_OBJ) $(MLX5_OBJ) $(LDFLAGS_ALL) $(call test-link,$<) $(call test-rpath,$<) -pthread -ldl $(HWLOC_LIBS)

# Real exchanges, recorded for test/fuzz/seeds.
$(BUILD)/fuzz/record: test/fuzz/record.c test/faults/life.cc $(LINKS) $(LIB_OBJ) $(MLX5_OBJ)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CFLAGS_ALL)) -c -o $@.o $<
	$(Q)$(CXX) $(filter-out -MMD -MP,$(CXXFLAGS_ALL)) -Itest/common $(TESTFLAGS) -o $@ test/faults/life.cc $@.o \
		$(LIB_OBJ) $(MLX5_OBJ) $(LDFLAGS_ALL) $(call test-link,$<) -Wl,-rpath,'$$ORIGIN/..' -pthread -ldl $(HWLOC_LIBS)
