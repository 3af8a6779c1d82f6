# SPDX-License-Identifier: BSD-3-Clause
#
# bitcode.mk - libgin_device.bc: the functions of gin_functions(3) for Triton and other compilers of kernels
#
#   make bitcode            needs clang and LLVM 16 to 19, no CUDA toolkit
#   make bitcode-checks     libgin_device_checks.bc, whose functions check their arguments
#
# LLVM=/usr/lib/llvm-16/bin names the folder of the tools.

BITCODE := $(BUILD)/libgin_device.bc
BITCODE_CHECKS := $(BUILD)/libgin_device_checks.bc

.PHONY: bitcode bitcode-checks

bitcode: $(BITCODE)

bitcode-checks: $(BITCODE_CHECKS)

$(BITCODE_CHECKS): OPTIONS = -c
$(BITCODE) $(BITCODE_CHECKS): products/bitcode/build products/bitcode/outline.awk products/bitcode/functions.cu $(wildcard include/gin/* include/gin/*/*)
	$(call say,LLVM,$@)
	$(Q)LLVM='$(LLVM)' products/bitcode/build $(OPTIONS) $@
