// SPDX-License-Identifier: BSD-3-Clause
// traced_alltoall - the example alltoall, whose calls write records: for test/tools/gin_trace
#define GIN_TRACE
#include "../../examples/alltoall.cu"
