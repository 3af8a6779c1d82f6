# SPDX-License-Identifier: BSD-3-Clause
#
# python.mk - what the Python package of python/ needs besides the library
#
#   make python         libgin-ffi.so: the device calls of host threads as symbols, which check their arguments
#   make check-python   the tests of the package
#   make wheel          a wheel for other machines, in BUILD/wheel

FFI := $(BUILD)/libgin-ffi.so.$(SOVERSION)

.PHONY: python check-python

python: lib $(FFI)

$(FFI): products/python/native/ffi.cc
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) $(CXXFLAGS_ALL) -fPIC -shared -fvisibility=hidden -fvisibility-inlines-hidden -fno-exceptions \
		-fno-rtti -DGIN_DEVICE_CHECKS -Wl,-soname,$(@F) $(if $(SAN),,-Wl$(comma)-z$(comma)defs) $(TESTFLAGS) -o $@ $< $(LDFLAGS_ALL) -pthread

check-python: deps-check-all
	$(Q)test/run check-all python

# A wheel for other machines, in BUILD/wheel.
PYTHON ?= python3
.PHONY: wheel
wheel:
	@mkdir -p $(BUILD)/wheel
	$(Q)LIBGIN_WHEEL=portable LIBGIN_BUILD=$(BUILD) $(PYTHON) -c 'import sys; sys.path.insert(0, "products/python"); \
		import build_wheel; print(build_wheel.build_wheel("$(BUILD)/wheel"))'
