// SPDX-License-Identifier: BSD-3-Clause
// traced_ring - the example ring, whose calls write records: for test/tools/gin_trace
#define GIN_TRACE
#include "../../examples/ring.cu"
