/* SPDX-License-Identifier: BSD-3-Clause */
/* shrink.h - memory that outlives its communicator, and transfers that verify it */
#ifndef GIN_TEST_SHRINK_H
#define GIN_TEST_SHRINK_H

#include "bootstrap.h"

/* Memory in windows of the first communicator, which is never deregistered. */
struct Memory {
	char *ptr;
	size_t bytes;
	ginWindow_t window;

	void open(Rank &r, int flags = 0)
	{
		void *at = nullptr;
		bytes = static_cast<size_t>(r.nRanks) * EXCHANGE_BYTES;
		CHECK(ginMemAlloc(r.comm, bytes, &at));
		ptr = static_cast<char *>(at);
		CHECK(ginWindowRegister(r.comm, at, bytes, flags, &window));
	}

	/* The new communicator's handle replaces the old one. */
	void follow(Rank &r)
	{
		ginWindow_t old = window;
		void *at = nullptr;
		CHECK(ginWindowInherited(r.comm, old, &window));
		EXPECT(window.table != old.table);
		CHECK(ginWindowPointer(r.comm, window, &at));
		EXPECT(at == ptr);
	}
};

struct Memories {
	Memory inbox, outbox, source; /* the source's window is local */

	void open(Rank &r)
	{
		inbox.open(r);
		outbox.open(r);
		source.open(r, GIN_WINDOW_LOCAL);
	}

	void follow(Rank &r)
	{
		for (Memory *m : {&inbox, &outbox, &source})
			m->follow(r);
	}

	void free()
	{
		for (Memory *m : {&inbox, &outbox, &source})
			CHECK(ginMemFree(nullptr, m->ptr));
	}
};

inline void putAll(Rank &r, Memory &inbox, Memory &outbox, uint32_t tag)
{
	size_t bytes = static_cast<size_t>(r.nRanks) * EXCHANGE_BYTES;
	std::vector<unsigned char> due(inbox.bytes, 0x5a), seen(inbox.bytes, 0x5a), out(bytes);
	Results results(r, 1);

	for (size_t i = 0; i < bytes; i++) {
		int peer = static_cast<int>(i / EXCHANGE_BYTES);
		out[i] = exchangedByte(tag, r.rank, peer, i % EXCHANGE_BYTES);
		due[i] = exchangedByte(tag, peer, r.rank, i % EXCHANGE_BYTES);
	}
	copyBytes(r, outbox.ptr, out.data(), bytes);
	copyBytes(r, inbox.ptr, seen.data(), inbox.bytes);
	Device device(r, 1, 1);
	launch(r, 1, 1, PutToAll{device.dc, inbox.window, outbox.window, results.words});
	EXPECT(results.all(ginSuccess));
	copyBytes(r, seen.data(), inbox.ptr, inbox.bytes);
	EXPECT(seen == due);
}

/* Every pair of ranks, by windows of each kind, and by new windows. */
inline void verify(Rank &r, Memories &m, uint32_t tag)
{
	putAll(r, m.inbox, m.outbox, tag);
	putAll(r, m.inbox, m.source, tag + 1);
	exchange(r, tag + 2);
}

#endif
