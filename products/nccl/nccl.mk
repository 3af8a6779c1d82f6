# SPDX-License-Identifier: BSD-3-Clause
#
# nccl.mk - libgin-nccl.so, and the headers of kernels written for NCCL's device API
#
#   make nccl        the library, and BUILD/nccl_home: a folder that can stand as NCCL_HOME
#
# BUILD/nccl_home/abi has a libnccl.so.2 with NCCL's own symbols, for programs that exist already; no search path has it.
#
# BUILD/nccl_home/include has nccl.h, nccl_device.h and nccl_device/, which include libgin's headers;
# BUILD/nccl_home/lib has libnccl.so, which is libgin-nccl.so. The installed folder is LIBDIR/gin-nccl.

NCCL_LIB := $(BUILD)/libgin-nccl.so.$(VERSION)
NCCL_LINKS := $(BUILD)/libgin-nccl.so.$(SOVERSION) $(BUILD)/libgin-nccl.so
NCCL_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard products/nccl/lib/*.c))
NCCL_INCLUDE := products/nccl/include
NCCL_HEADERS := $(patsubst $(NCCL_INCLUDE)/gin/compat/%,%,$(wildcard $(NCCL_INCLUDE)/gin/compat/*.h $(NCCL_INCLUDE)/gin/compat/*/*.h))
NCCL_ABI := $(BUILD)/nccl_home/abi/libnccl.so.2
NCCL_ABI_OBJ := $(BUILD)/products/nccl/abi/version.o
NCCL_TREE := $(BUILD)/nccl_home/include/nccl.h
NCCL_TESTS := $(patsubst %.cc,$(BUILD)/%,$(wildcard products/nccl/test/*.cc))

.PHONY: nccl nccl-tests

nccl: lib $(NCCL_LIB) $(NCCL_LINKS) $(NCCL_TREE) $(NCCL_ABI)

nccl-tests: $(NCCL_TESTS)

$(NCCL_OBJ) $(NCCL_ABI_OBJ): CPPFLAGS += -I$(NCCL_INCLUDE)

$(NCCL_LIB): $(NCCL_OBJ) $(LINKS) products/nccl/lib/libgin-nccl.map
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -o $@ $(NCCL_OBJ) $(LDFLAGS_ALL) -Wl,-soname,libgin-nccl.so.$(SOVERSION) \
		-Wl,--version-script,products/nccl/lib/libgin-nccl.map $(if $(SAN),,-Wl$(comma)-z$(comma)defs) \
		-Wl,-z,relro,-z,now,-z,nodelete -L$(BUILD) -lgin -pthread -ldl

$(NCCL_LINKS): $(NCCL_LIB)
	$(Q)ln -sf $(notdir $(NCCL_LIB)) $@

# Each symbol ginNcclNAME gets the names ncclNAME and pncclNAME. libgin.so is two folders above, here and where it is
# installed.
$(NCCL_ABI): $(NCCL_OBJ) $(NCCL_ABI_OBJ) $(LINKS) products/nccl/abi/libnccl.map products/nccl/nccl.mk
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -o $@ $(NCCL_OBJ) $(NCCL_ABI_OBJ) $(LDFLAGS_ALL) -Wl,-soname,libnccl.so.2 \
		$$(nm --defined-only $(NCCL_OBJ) | \
			sed -n 's/.* T ginNccl\(.*\)/-Wl,--defsym,nccl\1=ginNccl\1 -Wl,--defsym,pnccl\1=ginNccl\1/p') \
		-Wl,--version-script,products/nccl/abi/libnccl.map -Wl,-rpath,'$$ORIGIN/../..' \
		$(if $(SAN),,-Wl$(comma)-z$(comma)defs) -Wl,-z,relro,-z,now,-z,nodelete -L$(BUILD) -lgin -pthread -ldl

# nccl-forward FOLDER [UP/]: files that include the headers in FOLDER/UP/gin/compat, by paths relative to themselves
nccl-forward = products/nccl/forward $(1) "$(2)" $(NCCL_HEADERS)

# nccl-links FOLDER INCLUDE LIB PLUGINDIR PLUGINS: links to libgin's headers, libraries and plug-ins, all relative. libgin.so looks
# for a plug-in in the folder that it was loaded from. libnccl.so is a script of the linker, which names both libraries:
# programs that link with -lnccl alone, or with the path of libnccl.so, as CMake does, find libgin.so, too.
nccl-links = ln -sfn $(2)/gin.h $(1)/include/gin.h && ln -sfn $(2)/gin_device.cuh $(1)/include/gin_device.cuh && \
	ln -sfn $(2)/gin $(1)/include/gin && mkdir -p $(1)/lib && \
	for link in libgin-nccl.so libgin-nccl.so.$(SOVERSION) libnccl.so.2; do \
		ln -sfn $(3)/libgin-nccl.so.$(SOVERSION) $(1)/lib/$$link || exit; done && \
	for link in libgin.so libgin.so.$(SOVERSION); do \
		ln -sfn $(3)/libgin.so.$(SOVERSION) $(1)/lib/$$link || exit; done && \
	$(foreach plugin,$(notdir $(5)),ln -sfn $(4)/$(plugin) $(1)/lib/$(plugin) && )\
	echo 'INPUT(libgin-nccl.so libgin.so)' >$(1)/lib/libnccl.so

nccl-up = $(shell realpath -m --relative-to=$(BUILD)/nccl_home/include $(1))

$(NCCL_TREE): products/nccl/nccl.mk products/nccl/forward $(NCCL_HEADERS:%=$(NCCL_INCLUDE)/gin/compat/%)
	$(call say,TREE,$(BUILD)/nccl_home)
	$(Q)$(call nccl-forward,$(BUILD)/nccl_home/include,$(call nccl-up,$(NCCL_INCLUDE))/) && \
		$(call nccl-links,$(BUILD)/nccl_home,$(call nccl-up,include),../..,../..,$(PMIX) $(RDMA) $(OFI) $(STREAM))

# The run path of a program does not lead its libraries to theirs: the tests name libgin.so, too.
LINKNCCL = -L$(BUILD) -Wl,--no-as-needed -lgin-nccl $(LINKGIN)

$(NCCL_TESTS): $(BUILD)/%: %.cc $(NCCL_LINKS) $(LINKS) $(NCCL_TREE)
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(CXXFLAGS_ALL) -I$(BUILD)/nccl_home/include -I$(NCCL_INCLUDE) -Itest/common $(TESTFLAGS) -o $@ $< $(LDFLAGS_ALL) $(LINKNCCL)

# A CUDA driver for libgin-nccl.so alone, beside which libgin.so has none.
NCCL_FAKE := $(BUILD)/products/nccl/test/fake/libcuda.so.1

$(NCCL_FAKE): products/nccl/test/fake/driver.c products/nccl/test/fake/driver.h products/nccl/lib/driver.h
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out -MMD -MP,$(CFLAGS_ALL)) -shared -o $@ $< -Wl,-soname,libcuda.so.1 -pthread

$(BUILD)/products/nccl/test/streams: $(NCCL_FAKE)
$(BUILD)/products/nccl/test/streams: private LDFLAGS += $(NCCL_FAKE) -Wl,-rpath,'$$ORIGIN/fake'

# The tests with kernels.
$(patsubst %,%_gpu,$(filter-out %/streams,$(NCCL_TESTS))): $(BUILD)/%_gpu: %.cc $(NCCL_LINKS) $(LINKS) $(NCCL_TREE) $(BUILD)/nvcc-used
	@mkdir -p $(@D)
	$(call say,NVCC,$<)
	$(Q)$(NVCC) $(NVCCFLAGS_ALL) -I$(BUILD)/nccl_home/include -I$(NCCL_INCLUDE) -Itest/common $(TESTFLAGS) -MD -MP -MF $@.d -MT $@ -x cu -o $@ $< \
		-L$(BUILD) -Xlinker --no-as-needed -lgin-nccl -lgin -Xlinker -rpath,'$$ORIGIN/../../..' -Xcompiler -pthread
