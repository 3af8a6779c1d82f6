/* SPDX-License-Identifier: BSD-3-Clause */
/* range.h - shows calls of the host to profilers, by NVTX */
#ifndef GIN_EP_RANGE_H
#define GIN_EP_RANGE_H

int epRangeBegin(const char *name);
void epRangeEnd(const int *range);

/* From here to the end of the function: a range with its name. */
#define EP_RANGE()                                                                                 \
	const int range __attribute__((cleanup(epRangeEnd), unused)) = epRangeBegin(__func__)

#endif
