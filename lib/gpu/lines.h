/* SPDX-License-Identifier: BSD-3-Clause */
/* lines.h - host memory that kernels look at while they wait, and leave errors in */
#ifndef GIN_LIB_LINES_H
#define GIN_LIB_LINES_H

#include "device.h"

/* One line each way, so that the host's writes and the device's do not meet. */
struct hostLines {
	struct ginAbortLine abort;
	_Alignas(64) struct ginErrorRecord error;
};

/* Zeroed; on a GPU pinned, at the same address for kernels. The device's scope is entered. */
ginResult_t linesAlloc(const struct device *d, struct hostLines **lines);
void linesFree(const struct device *d, struct hostLines *lines);

#endif
