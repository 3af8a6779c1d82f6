// SPDX-License-Identifier: BSD-3-Clause
// shift.h - for examples that show how to start ranks: each rank puts data to its neighbour once
#ifndef GIN_EXAMPLES_SHIFT_H
#define GIN_EXAMPLES_SHIFT_H

#include "launch.h"

// The kernel. All threads of one block run operator().
struct Shift {
	ginDevComm dc;
	ginWindow_t inbox, outbox;
	size_t bytes;
	ginResult_t *result;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		int right = static_cast<int>((dc.rank + 1) % dc.nRanks);

		// All threads copy. The signal becomes visible after the bytes.
		ginResult_t status = gin.put(right, inbox, 0, outbox, 0, bytes, GinSignalInc{0},
					     GinNone{}, GinCta{});
		// After this wait, the left neighbour's bytes are in the inbox.
		if (status == ginSuccess)
			status = gin.waitSignal(0, 1, GinCta{});
		if (ginThreadIndex() == 0)
			*result = status;
	}
};

inline unsigned char shiftedByte(int rank, size_t i)
{
	return static_cast<unsigned char>(i * 7 + i / 251 + static_cast<size_t>(rank) * 31 + 1);
}

// Collective. Puts bytes to the right neighbour, and compares the bytes from the left neighbour.
// Returns the number of wrong bytes.
inline size_t shiftOnce(const Rank &r, size_t bytes)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	std::vector<unsigned char> data(bytes, 0x5a);
	ginResult_t *result = resultWord<ginResult_t>(r);
	ginDevComm dc;
	size_t wrong = 0;

	Window in = registerCopy(r, data);
	for (size_t i = 0; i < bytes; i++)
		data[i] = shiftedByte(r.rank, i);
	Window out = registerCopy(r, data);
	CHECK(ginDevCommCreate(r.comm, &want, &dc));
	launch(r, 1, r.device < 0 ? GIN_HOST_WARP : 256,
	       Shift{dc, in.window, out.window, bytes, result});
	check(*result == ginSuccess, ginGetErrorString(*result));
	copyBytes(r, data.data(), in.ptr, bytes);
	for (size_t i = 0; i < bytes; i++)
		wrong += data[i] != shiftedByte((r.rank + r.nRanks - 1) % r.nRanks, i);
	CHECK(ginDevCommDestroy(r.comm, &dc));
	freeWindow(r, in);
	freeWindow(r, out);
	return wrong;
}

#endif
