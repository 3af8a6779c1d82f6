/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * proxy_fabric.c - libgin-ofi.so by the calls of fabric.h, between two fabrics of this process
 *
 * The receiver has two endpoints, as with two threads of the proxy. A receiver of plain writes gets
 * no event: only the descriptor of arm() shows that data comes.
 */
/* NEEDS: libgin-ofi.so */
#include <dlfcn.h>
#include <poll.h>

#include "backends/proxy/network/fabric.h"
#include "expect.h"
#include "files.h"

#define BYTES 65536u
#define TURNS 100000

static const struct fabricCalls *calls;

struct side {
	struct fabric *fabric;
	struct fabricEnd *end[2];
	unsigned char address[2][FABRIC_ADDRESS];
	char *memory;
	struct fabricRegion *region;
	struct fabricKey key;
	int done, messages; /* events of the endpoints */
	int fails, failed;  /* transfers may fail; how many have */
};

/*
 * The native provider over TCP: libfabric 2 calls it tcp, which libfabric 1 takes for tcp;ofi_rxm.
 */
static const char *nativeProvider(void)
{
	const struct fabricWanted net = {
		.provider = "net", .interface = "lo", .address = "127.0.0.1"};
	struct fabricAbout about;
	char why[FABRIC_WHY];

	return calls->probe(&net, &about, why) ? "tcp" : "net";
}

/* Ends the process with 77 where libfabric lacks the provider. */
static void openSide(const char *provider, int ends, struct side *s)
{
	const struct fabricWanted want = {
		.provider = provider, .interface = "lo", .address = "127.0.0.1"};
	struct fabricAbout about;
	char why[FABRIC_WHY] = "";

	*s = (struct side){.memory = calloc(1, BYTES)};
	if (calls->probe(&want, &about, why)) {
		printf("%s: %s\n", provider, why);
		exit(77);
	}
	EXPECT_EQUAL(calls->open(&want, &s->fabric, why), fabricOk);
	for (int i = 0; i < ends; i++)
		EXPECT_EQUAL(calls->endOpen(s->fabric, &s->end[i], s->address[i], why), fabricOk);
	EXPECT_EQUAL(calls->memoryAdd(s->fabric, s->memory, BYTES, &s->region, &s->key, why),
		     fabricOk);
}

static void closeSide(struct side *s)
{
	for (int i = 0; i < 2; i++)
		if (s->end[i])
			calls->endClose(s->end[i]);
	calls->memoryRemove(s->region);
	calls->close(s->fabric);
	free(s->memory);
}

static void pollEnd(struct side *s, int i)
{
	struct fabricEvent event[8];
	int count = 0;

	if (s->end[i]) {
		calls->submit(s->end[i]);
		count = calls->poll(s->end[i], event, 8);
	}
	for (int e = 0; e < count; e++) {
		EXPECT(s->fails || (event[e].kind != fabricLost && !event[e].error));
		s->failed += event[e].kind == fabricDone && event[e].error;
		s->done += event[e].kind == fabricDone;
		s->messages += event[e].kind == fabricMessage;
		EXPECT(event[e].kind != fabricImmediate);
	}
}

static void pollSide(struct side *s)
{
	pollEnd(s, 0);
	pollEnd(s, 1);
}

struct pair {
	struct side from, to;
	uint64_t peer; /* endpoint 0 of `to` */
	int done;
};

static void openPair(const char *provider, struct pair *p)
{
	char why[FABRIC_WHY];

	openSide(provider, 1, &p->from);
	openSide(provider, 2, &p->to);
	EXPECT_EQUAL(calls->connect(p->from.end[0], p->to.address[0], &p->peer, why), fabricOk);
	memset(p->from.memory, 1, BYTES);
	p->done = 0;
}

static void closePair(struct pair *p)
{
	closeSide(&p->from);
	closeSide(&p->to);
}

static void beginWrite(struct pair *p, uint8_t isCovered)
{
	const struct fabricPiece piece = {p->from.memory, BYTES, p->to.key, isCovered};
	int result;

	do {
		result = calls->write(p->from.end[0], p->peer, &piece, NULL, p);
		pollSide(&p->from);
		pollSide(&p->to);
	} while (result == fabricBusy);
	EXPECT_EQUAL(result, fabricOk);
}

static void awaitWrite(struct pair *p)
{
	for (p->done++; p->from.done < p->done;) {
		pollSide(&p->from);
		pollSide(&p->to);
	}
}

static void data(const char *provider)
{
	struct pair p;

	openPair(provider, &p);
	beginWrite(&p, 0);
	awaitWrite(&p);
	EXPECT(!memcmp(p.from.memory, p.to.memory, BYTES));
	for (int round = 1; round <= 20; round++) {
		p.from.memory[BYTES - 1] = (char)(round + 1);
		beginWrite(&p, 1);
		EXPECT_EQUAL(calls->send(p.from.end[0], p.peer, "hello", 5), fabricOk);
		while (p.to.messages < round)
			pollSide(&p.to), pollSide(&p.from);
		EXPECT_EQUAL(p.to.memory[BYTES - 1], round + 1);
		awaitWrite(&p);
	}
	closePair(&p);
}

/* Waits until the receiver has nothing to do, and returns its descriptor. */
static int quietEnd(struct pair *p)
{
	for (int turn = 0; turn < TURNS; turn++) {
		pollSide(&p->from);
		pollSide(&p->to);
		struct pollfd wake = {.fd = calls->arm(p->to.end[0], 1), .events = POLLIN};
		if (wake.fd >= 0 && poll(&wake, 1, 0) == 0)
			return wake.fd;
	}
	return -1;
}

/* The brief pause of a receiver ends when data comes. */
static void wakes(const char *provider)
{
	struct pair p;

	openPair(provider, &p);
	for (int i = 0; i < 10; i++) {
		beginWrite(&p, 0);
		awaitWrite(&p);
		struct pollfd wake = {.fd = quietEnd(&p), .events = POLLIN};
		EXPECT(wake.fd >= 0);
		const struct fabricPiece piece = {p.from.memory, BYTES, p.to.key, 0};
		EXPECT_EQUAL(calls->write(p.from.end[0], p.peer, &piece, NULL, &p), fabricOk);
		calls->submit(p.from.end[0]);
		EXPECT_EQUAL(poll(&wake, 1, 5000), 1);
		awaitWrite(&p);
	}
	closePair(&p);
}

#define WRITES 100u

/* Many writes of unequal length, to unequal places, without a submit(). */
static void writeMany(struct pair *p)
{
	for (uint32_t i = 0; i < WRITES; i++) {
		struct fabricPiece piece = {p->from.memory + 600 * i, 1 + 5 * i, p->to.key, 0};
		piece.remote.address += 600 * i;
		EXPECT_EQUAL(calls->write(p->from.end[0], p->peer, &piece, NULL, p), fabricOk);
	}
}

static void expectMany(const struct pair *p)
{
	for (uint32_t i = 0; i < WRITES; i++)
		EXPECT(!memcmp(p->from.memory + 600 * i, p->to.memory + 600 * i, 1 + 5 * i));
}

/* Writes to two receivers in turn, without a message between them. */
static void twoPeers(const char *provider)
{
	struct pair p;
	struct side other;
	uint64_t peer[2];
	char why[FABRIC_WHY];

	openPair(provider, &p);
	openSide(provider, 1, &other);
	peer[0] = p.peer;
	EXPECT_EQUAL(calls->connect(p.from.end[0], other.address[0], &peer[1], why), fabricOk);
	for (uint32_t i = 0; i < 2 * WRITES;) {
		struct fabricPiece piece = {p.from.memory + 8 * i, 8, i % 2 ? other.key : p.to.key,
					    0};
		piece.remote.address += 8 * i;
		memset(p.from.memory + 8 * i, (int)i + 1, 8);
		if (calls->write(p.from.end[0], peer[i % 2], &piece, NULL, &p) == fabricOk)
			i++;
		else
			pollSide(&p.from), pollSide(&p.to), pollSide(&other);
	}
	while (p.from.done < (int)(2 * WRITES))
		pollSide(&p.from), pollSide(&p.to), pollSide(&other);
	for (uint32_t i = 0; i < 2 * WRITES; i++) {
		const struct side *to = i % 2 ? &other : &p.to, *apart = i % 2 ? &p.to : &other;
		EXPECT_EQUAL((unsigned char)to->memory[8 * i], i + 1);
		EXPECT_EQUAL(apart->memory[8 * i], 0);
	}
	closeSide(&other);
	closePair(&p);
}

/* Endpoints leave no descriptors. */
static void leaks(const char *provider)
{
	struct side s;
	int first = 0;

	openSide(provider, 1, &s);
	for (int i = 0; i < 10; i++) {
		char why[FABRIC_WHY];
		calls->endClose(s.end[0]);
		first = i ? first : countFiles();
		EXPECT_EQUAL(countFiles(), first);
		EXPECT_EQUAL(calls->endOpen(s.fabric, &s.end[0], s.address[0], why), fabricOk);
	}
	closeSide(&s);
}

/* A message follows all writes, and each write is done once. */
static void many(const char *provider)
{
	struct pair p;

	openPair(provider, &p);
	beginWrite(&p, 0);
	awaitWrite(&p);
	for (int round = 1; round <= 10; round++) {
		memset(p.from.memory, round + 1, BYTES);
		writeMany(&p);
		EXPECT_EQUAL(calls->send(p.from.end[0], p.peer, "hello", 5), fabricOk);
		while (p.to.messages < round)
			pollSide(&p.to), pollSide(&p.from);
		expectMany(&p);
		for (p.done += WRITES; p.from.done < p.done;)
			pollSide(&p.from), pollSide(&p.to);
	}
	for (int turn = 0; turn < 1000; turn++)
		pollSide(&p.from), pollSide(&p.to);
	EXPECT_EQUAL(p.from.done, p.done);
	closePair(&p);
}

/* The receiver is closed: no write of a batch is reported as successful, and none is forgotten. */
static void manyFail(const char *provider)
{
	struct pair p;

	openPair(provider, &p);
	beginWrite(&p, 0);
	awaitWrite(&p);
	for (int i = 0; i < 2; i++) {
		calls->endClose(p.to.end[i]);
		p.to.end[i] = NULL;
	}
	p.from.fails = 1;
	writeMany(&p);
	for (p.done += WRITES; p.from.done < p.done;)
		pollSide(&p.from);
	EXPECT_EQUAL(p.from.failed, (int)WRITES);
	closePair(&p);
}

int main(void)
{
	void *plugin = dlopen("libgin-ofi.so", RTLD_NOW);

	if (!plugin) {
		printf("%s\n", dlerror());
		return 77;
	}
	calls = dlsym(plugin, FABRIC_SYMBOL);
	EXPECT(calls && calls->size == sizeof(*calls));
	const char *native = nativeProvider();
	data(native);
	data("tcp;ofi_rxm");
	wakes(native);
	leaks(native);
	leaks("tcp;ofi_rxm");
	twoPeers(native);
	twoPeers("tcp;ofi_rxm");
	many(native);
	many("tcp;ofi_rxm");
	manyFail(native);
	manyFail("tcp;ofi_rxm");
	return 0;
}
