/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_control.c - the messages of the control plane, as the sockets of parent and children bring
 * them
 *
 * An input is a list of steps: bytes arrive on a link, this rank begins and ends collectives, time
 * passes, a link ends. The test reads this rank's messages as a peer does: headers with a known
 * type and a possible length. A collective that succeeds has the bytes of this rank in its result.
 */
/* LINK: -Wl,--wrap=send,--wrap=sendmsg,--wrap=recv,--wrap=shutdown,--wrap=close,--wrap=epoll_ctl */
#include "fuzz.h"

#include "fake_sockets.h"

#include "lib/base/clock.h"
#include "lib/control/internal.h"

#include <pthread.h>
#include <sys/eventfd.h>

/* Rank and number of ranks: without links, at the top, in the middle, below all. */
static const struct {
	int rank, nRanks;
} seats[] = {{0, 1}, {0, 2}, {0, 3}, {1, 20}, {1, 40}, {2, 3}, {0, 40}, {17, 20}, {1, 3}};

static struct control c;
static struct identity ranks[64];
static int far[CONTROL_LINKS]; /* the peers' ends of the links */
static struct buffer sent[CONTROL_LINKS];
static int failures;

static void failed(void *arg, int rank, ginResult_t result)
{
	(void)arg;
	EXPECT(rank >= -1 && rank < c.nRanks && result > ginSuccess && result <= ginErrorAbi);
	failures++;
	EXPECT(failures <= c.nRanks + 1);
}

static void openLink(int rank)
{
	int fds[2];

	fakePair(fds);
	far[c.links] = fds[1];
	sent[c.links].used = 0;
	c.link[c.links++] = (struct controlLink){.fd = fds[0], .rank = rank};
}

static void openControl(int rank, int nRanks)
{
	static int wake = -1; /* of all inputs */

	if (wake < 0)
		wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c = (struct control){.rank = rank,
			     .nRanks = nRanks,
			     .subtree = 1,
			     .ranks = ranks,
			     .listener = -1,
			     .wake = wake,
			     .news = {.fd = -1},
			     .onFailure = failed,
			     .lock = PTHREAD_MUTEX_INITIALIZER,
			     .changed = PTHREAD_COND_INITIALIZER,
			     .connected = 1};
	failures = 0;
	EXPECT(c.wake >= 0);
	c.gather.arrived = calloc(1, controlBytes(nRanks));
	EXPECT(c.gather.arrived != NULL);
	c.failed = c.gather.arrived + nRanks;
	c.gone = c.failed + nRanks;
	c.link = c.tree;
	c.room = CONTROL_LINKS;
	controlGatherReset(&c);
	if (rank)
		openLink(controlParent(rank));
	for (int r = rank + 1; r < nRanks; r++) {
		int top = r;
		while (top > rank)
			top = controlParent(top);
		c.subtree += top == rank;
		if (controlParent(r) == rank)
			openLink(r);
	}
}

/* Checks the messages that the peer reads. */
static void readSent(int i)
{
	static uint8_t bytes[FAKE_ROOM];
	ssize_t got;

	while ((got = recv(far[i], bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		EXPECT(!bufferAppend(&sent[i], bytes, (size_t)got));
	if (!sent[i].used)
		return;
	size_t at = 0;
	while (sent[i].used - at >= sizeof(struct controlHeader)) {
		struct controlHeader header;
		memcpy(&header, sent[i].data + at, sizeof(header));
		struct controlLink whole = {.in = {sent[i].data + at, sizeof(header), 0}};
		size_t bytes = controlMessageBytes(&c, &whole);
		EXPECT(bytes && header.type >= controlUp && header.type <= controlColumns);
		EXPECT(header.type != controlUp || (c.rank && i == 0));
		if (sent[i].used - at < bytes)
			break;
		at += bytes;
	}
	memmove(sent[i].data, sent[i].data + at, at ? sent[i].used - at : 0);
	sent[i].used -= at;
}

static void closeControl(void)
{
	for (int i = 0; i < c.links; i++) {
		struct controlLink *link = &c.link[i];
		if (link->fd >= 0)
			close(link->fd);
		close(far[i]);
		bufferFree(&link->in);
		bufferFree(&sent[i]);
		controlDropParts(link);
	}
	fakeReset();
	bufferFree(&c.gather.entries);
	bufferFree(&c.result);
	free(c.gather.arrived);
}

/* As receive() and readLink() in thread.c. */
static void arrive(struct controlLink *link, struct fuzzInput bytes)
{
	while (link->fd >= 0) {
		size_t whole = controlMessageBytes(&c, link), missing = whole - link->in.used;
		if (!whole) {
			controlDropLink(&c, link);
			bufferTrim(&link->in);
			return;
		}
		if (missing) {
			uint8_t *room = bufferRoom(&link->in, missing + 1);
			EXPECT(room != NULL);
			if (!bytes.left)
				return;
			link->in.used +=
				fuzzTake(&bytes, room, missing < bytes.left ? missing : bytes.left);
			continue;
		}
		controlTake(&c, link);
	}
}

#define RARE 0xfc /* the bytes from here on make long messages, which take long */
#define LONG 4095 /* bytes of a rank in a long message */

/* Entries with numbers that are often right. Each has its rank, and a byte as data. */
static void addEntries(struct fuzzInput *in, struct buffer *out, int first)
{
	uint8_t count = fuzzByte(in) % 24, fill = fuzzByte(in);
	uint16_t bytes = fuzzShort(in) & (fill >= RARE ? LONG : 255);
	static const uint8_t zeros[CONTROL_BYTES];

	for (int i = 0; i < count; i++) {
		uint8_t odd = fuzzByte(in);
		struct controlEntry entry = {.rank = (uint32_t)(first + i + (odd >> 7)),
					     .result = odd & 1 ? odd >> 2 & 15 : 0,
					     .bytes = bytes + (odd >> 1 & 1),
					     .retired = fill};
		EXPECT(!bufferAppend(out, &entry, sizeof(entry)));
		EXPECT(!bufferAppend(out, zeros, entry.bytes));
	}
}

/* A message whose header is often right. */
static void arriveMade(struct controlLink *link, struct fuzzInput *in)
{
	uint8_t type = fuzzByte(in), odd = fuzzByte(in), call = fuzzByte(in), round = fuzzByte(in);
	struct controlHeader header = {.type = type % 8,
				       .seq = c.gather.seq + (odd & 3 ? 0 : odd >> 2),
				       .rank = (int8_t)odd,
				       .result = type >> 4,
				       .round = round};
	struct buffer message = {0};
	uint16_t bytes, mask = odd >= RARE ? LONG : 255;

	EXPECT(!bufferAppend(&message, &header, sizeof(header)));
	if (header.type == controlUp || header.type == controlDown) {
		addEntries(in, &message, link->rank);
	} else {
		header.block = fuzzShort(in) & mask;
		bytes = fuzzShort(in) & mask;
		size_t most = (size_t)bytes * (type & 8 ? (size_t)c.nRanks : 1);
		uint8_t *room = bufferRoom(&message, most + 1);
		EXPECT(room != NULL);
		memset(room, call, most);
		message.used += most;
	}
	header.bytes = message.used - sizeof(header);
	snprintf(header.call, sizeof(header.call), "call%u", call % 3);
	memcpy(message.data, &header, sizeof(header));
	arrive(link, (struct fuzzInput){message.data, message.used});
	bufferFree(&message);
}

/* This rank begins a collective, if it has ended the one before. */
static int isCalling;
static struct controlRound calling;
static uint8_t *own; /* what this rank passes */
static size_t ownBytes;

static void call(struct fuzzInput *in)
{
	uint8_t what = fuzzByte(in), number = fuzzByte(in);
	static const char *const names[] = {"call0", "call1", "call2"};
	ginResult_t mine = what & 8 ? ginErrorSystem : ginSuccess, result;

	if (isCalling)
		return;
	calling = (struct controlRound){.call = names[what % 3], .block = 0};
	ownBytes = number * (size_t)(what >> 4);
	size_t passed = ownBytes;
	if (what & 4) {
		calling.block = 1 + number;
		calling.round = (what >> 4) % controlRounds(c.nRanks, calling.block);
		ownBytes = controlRowBytes(c.nRanks, calling.block, calling.round);
		passed = (size_t)c.nRanks * calling.block;
	}
	own = malloc(passed + 1);
	EXPECT(own != NULL);
	memset(own, number, passed);
	if (mine != ginSuccess)
		failAs(mine, "this rank has failed");
	if (calling.block)
		result = controlBeginRound(&c, &calling, mine, own);
	else
		result = controlBegin(&c, &calling, mine, own, ownBytes);
	isCalling = result == ginSuccess;
	if (!isCalling)
		free(own);
}

/* As call(), with a name and numbers of the input. */
static void callNamed(struct fuzzInput *in)
{
	static char name[CONTROL_CALL];
	uint16_t bytes, block;

	if (isCalling)
		return;
	fuzzTake(in, name, sizeof(name));
	name[sizeof(name) - 1] = '\0';
	bytes = fuzzShort(in);
	block = fuzzShort(in) % 2048;
	calling = (struct controlRound){.call = name, .block = block};
	ownBytes = block ? controlRowBytes(c.nRanks, block, 0) : bytes;
	own = calloc(1, block ? (size_t)c.nRanks * block : (size_t)bytes + 1);
	EXPECT(own != NULL);
	ginResult_t result = block ? controlBeginRound(&c, &calling, ginSuccess, own)
				   : controlBegin(&c, &calling, ginSuccess, own, ownBytes);
	isCalling = result == ginSuccess;
	if (!isCalling)
		free(own);
}

static const uint8_t guard[4096] = {1, 2, 3, 4, 5, 6, 7, 8}; /* noticed without a sanitizer, too */

/*
 * Ends it, if that does not wait. `out` has the bytes that the caller of the collective provides.
 */
static void endCall(void)
{
	size_t each = calling.block ? calling.block : ownBytes;

	if (!isCalling || (c.done != c.called && !c.broken))
		return;
	size_t room = (size_t)c.nRanks * each;
	uint8_t *out = malloc(room + sizeof(guard));
	EXPECT(out != NULL);
	memcpy(out + room, guard, sizeof(guard));
	ginResult_t result = controlEnd(&c, &calling, out, ownBytes);
	EXPECT(result >= ginSuccess && result <= ginErrorAbi);
	if (result == ginSuccess && !calling.block && c.rank == 0)
		EXPECT(!memcmp(out, own, ownBytes));
	EXPECT(!memcmp(out + room, guard, sizeof(guard)));
	isCalling = 0;
	free(out);
	free(own);
}

static void step(struct fuzzInput *in)
{
	uint8_t what = fuzzByte(in);
	struct controlLink *link = c.links ? &c.link[(what >> 3) % c.links] : NULL;

	switch (what % 8) {
	case 0:
		call(in);
		break;
	case 1:
		callNamed(in);
		break;
	case 2:
		endCall();
		break;
	case 3:
		if (!c.broken)
			controlGatherTick(&c, clockNow() + (what >> 3) * 40 * SECOND);
		break;
	case 4:
	case 5:
		if (link)
			arrive(link, fuzzPart(in, fuzzShort(in)));
		break;
	case 6:
		if (link)
			arriveMade(link, in);
		break;
	default:
		if (link && link->fd >= 0 && what >= 224)
			controlDropLink(&c, link);
		else if (link && link->fd >= 0)
			arriveMade(link, in);
	}
}

static void fuzzOne(struct fuzzInput *in)
{
	uint8_t seat = fuzzByte(in) % (sizeof(seats) / sizeof(seats[0]));

	openControl(seats[seat].rank, seats[seat].nRanks);
	errorScope("fuzz", c.rank);
	isCalling = 0;
	pthread_mutex_lock(&c.lock);
	for (int steps = 0; in->left && steps < 100; steps++) {
		step(in);
		for (int i = 0; i < c.links; i++) {
			readSent(i);
			if (c.link[i].fd >= 0 && c.link[i].first)
				controlFlush(&c, &c.link[i]);
		}
	}
	pthread_mutex_unlock(&c.lock);
	if (isCalling)
		free(own);
	closeControl();
}
