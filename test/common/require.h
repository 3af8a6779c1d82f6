/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * require.h - assertions of C++ tests that use the device header alone; a failure ends the process
 */
#ifndef GIN_TEST_REQUIRE_H
#define GIN_TEST_REQUIRE_H

#include <stdio.h>
#include <unistd.h>

#define EXPECT(condition) require(condition, #condition, __LINE__)

inline void require(bool ok, const char *what, int line)
{
	if (ok)
		return;
	fprintf(stderr, "line %d: %s\n", line, what);
	_exit(1);
}

#endif
