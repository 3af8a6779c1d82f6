# SPDX-License-Identifier: BSD-3-Clause
#
# bench.mk - measurements; results go to bench/results

BENCHES := $(addprefix $(BUILD)/bench/start/,start $(if $(PMIX),pmix))

.PHONY: benches bench-start

benches: $(BENCHES)

$(BUILD)/bench/start/start: bench/start/start.c $(BUILD)/bench/start/stage.o $(LINKS)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) -o $@ $< $(BUILD)/bench/start/stage.o $(LDFLAGS_ALL) $(LINKGIN)

$(BUILD)/bench/start/pmix: bench/start/pmix.c $(BUILD)/bench/start/stage.o
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS_ALL) $(subst -I/,-isystem /,$(shell pkg-config --cflags pmix)) -o $@ $< \
		$(BUILD)/bench/start/stage.o $(LDFLAGS_ALL) $(shell pkg-config --libs pmix)

# What it costs to start. BENCH="-r 3 2 4 8": repetitions and numbers of ranks.
bench-start: lib benches
	$(Q)BUILD=$(BUILD) bench/start/run $(BENCH)
