/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_mirror.cc - threads that find another thread at the word of a mirror see the value that was
 * looked up last, a smaller one, too
 */
#include <gin_device.cuh>

#include <initializer_list>

#include "expect.h"

int main()
{
	uint64_t word = 0;
	ginMirroredWord watch = {&word, {}, 0};

	for (uint64_t value : {uint64_t{5}, uint64_t{3}, UINT64_MAX, uint64_t{0}, uint64_t{7}}) {
		word = value;
		EXPECT(ginMirroredLook(&watch) == value);
		word = value + 1;
		ginMirrorCome(&watch.mirror.looking); /* the other thread */
		EXPECT(ginMirroredLook(&watch) == value);
		EXPECT(ginMirrorLeave(&watch.mirror.looking) == 2);
	}
	return 0;
}
