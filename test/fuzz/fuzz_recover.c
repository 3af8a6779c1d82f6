/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_recover.c - the datagrams by which ranks agree which of them go on
 *
 * An input is a list of steps: this rank begins, agrees, exchanges, ends; datagrams of other ranks
 * arrive, with a right hash or without. No call waits: config.poll ends it. A team that is agreed
 * has this rank in it, and no rank twice.
 */
#include "fuzz.h"

#include "recover_datagram.h"

#include <pthread.h>

#define RANKS 5
#define ENTRY 64

static const uint8_t fuzzKey[AUTH_KEY_BYTES] = "a key";
static struct identity identities[RANKS];
static struct control c;
static int isIn; /* between recoverBegin() and recoverEnd() */
static int isAgreed;
static uint64_t number;		/* of the last datagram */
static struct recoverTeam team; /* if isAgreed, and before the next agreement */

static int endsNow(void *arg)
{
	(void)arg;
	return 1;
}

static void openRank(int rank)
{
	static const struct netAddress loopback = {.family = AF_INET, .bytes = {127, 0, 0, 1}};
	uint16_t port;

	c = (struct control){.rank = rank,
			     .nRanks = RANKS,
			     .ranks = identities,
			     .lock = PTHREAD_MUTEX_INITIALIZER,
			     .changed = PTHREAD_COND_INITIALIZER,
			     .interrupt = {.poll = endsNow}};
	memcpy(c.key, fuzzKey, sizeof(c.key));
	c.failed = calloc(RANKS, 1);
	EXPECT(c.failed != NULL);
	EXPECT_SUCCESS(recoverOpen(&c, &loopback, &port));
	EXPECT_SUCCESS(recoverTables(&c));
	for (int r = 0; r < RANKS; r++) { /* whatever is sent comes to this rank's own socket */
		identities[r] = (struct identity){.hostId = 1, .addresses = 1, .loopback = 1};
		identities[r].recoverPort = port;
	}
}

static void receive(const void *datagram, size_t bytes)
{
	union datagramAddress from;
	static const struct netAddress loopback = {.family = AF_INET, .bytes = {127, 0, 0, 1}};
	uint8_t *copy = malloc(bytes + !bytes); /* a datagram ends where its memory ends */

	EXPECT(copy &&
	       !datagramAddress(c.recovery->fd, &loopback, identities[0].recoverPort, &from));
	memcpy(copy, datagram, bytes);
	pthread_mutex_lock(&c.lock);
	recoverTake(&c, copy, bytes, &from);
	pthread_mutex_unlock(&c.lock);
	free(copy);
}

/* A datagram whose numbers are often right. */
static void receiveMade(struct fuzzInput *in)
{
	static struct recoverDatagram d;
	uint8_t odd = fuzzByte(in), set = fuzzByte(in);

	d.h = (struct recoverHeader){.number = ++number,
				     .magic = RECOVER_MAGIC,
				     .rank = odd % 8,
				     .to = (uint32_t)c.rank,
				     .via = set % 4,
				     .attempt = c.recovery->attempt +
						(odd & 64 ? fuzzByte(in) % 4 : 0),
				     .finished = odd & 128 ? fuzzByte(in) : 0,
				     .entryBytes = ENTRY,
				     .phase = fuzzByte(in) % 4,
				     .asks = odd >> 3 & 1,
				     .entries = odd >> 4 & 3,
				     .refused = set >> 7};
	d.out[0] = odd & 64 ? set : c.recovery->out[0];
	if (odd & 8)
		d.h.entryBytes = fuzzShort(in) % (RECOVER_ENTRY + 8);
	size_t bytes = RECOVER_BARE + (size_t)d.h.entries * d.h.entryBytes;
	if (bytes > sizeof(d))
		return;
	memset(d.entries, 0, sizeof(d.entries));
	fuzzTake(in, d.entries, ENTRY);
	recoverSign(fuzzKey, &d, bytes);
	receive(&d, bytes);
}

static void receiveRaw(struct fuzzInput *in, int isSigned)
{
	static struct recoverDatagram d;
	uint16_t bytes = fuzzShort(in) % 512;

	bytes = (uint16_t)fuzzTake(in, &d, bytes);
	if (isSigned && bytes > sizeof(d.h.hash))
		recoverSign(fuzzKey, &d, bytes);
	receive(&d, bytes);
}

static void agree(void)
{
	isAgreed = 0;
	free(team.members);
	team = (struct recoverTeam){0};
	if (recoverAgree(&c, &team) != ginSuccess)
		return;
	EXPECT(team.nRanks >= 1 && team.nRanks <= RANKS && team.members[team.rank] == c.rank);
	for (int i = 1; i < team.nRanks; i++)
		EXPECT(team.members[i] > team.members[i - 1]);
	isAgreed = 1;
}

static void exchange(uint8_t what)
{
	uint8_t mine[ENTRY] = {1}, root[ENTRY], parents[ENTRY];
	const struct recoverEntries e = {.mine = mine,
					 .bytes = ENTRY,
					 .refused = what >> 3 & 1,
					 .root = root,
					 .parents = parents};
	char why[SENTENCE_BYTES];

	if (recoverExchange(&c, &team, &e) == ginSuccess)
		recoverLost(&c, why);
	isAgreed = 0;
}

static void begin(uint8_t what)
{
	int exclude[RANKS], excludes = 0;

	for (int r = 0; r < RANKS; r++)
		if (r != c.rank && what >> (3 + r) & 1)
			exclude[excludes++] = r;
	EXPECT_SUCCESS(recoverBegin(&c, exclude, excludes));
	isIn = 1;
}

static void step(struct fuzzInput *in)
{
	uint8_t what = fuzzByte(in);

	switch (what % 8) {
	case 0:
		if (!isIn)
			begin(what);
		break;
	case 1:
		if (isIn)
			agree();
		break;
	case 2:
		if (isAgreed)
			exchange(what);
		break;
	case 3:
		if (isIn && what >= 128)
			recoverEnd(&c, what >> 3 & 1);
		isIn = isIn && what < 128;
		isAgreed = isAgreed && isIn;
		break;
	case 4:
		receiveRaw(in, what & 8);
		break;
	default:
		receiveMade(in);
	}
}

static void fuzzOne(struct fuzzInput *in)
{
	errorQuiet(1);
	setenv("GIN_TIMEOUT", "5", 1);
	openRank(fuzzByte(in) % RANKS);
	isIn = isAgreed = 0;
	for (int steps = 0; in->left && steps < 60; steps++)
		step(in);
	if (isIn)
		recoverEnd(&c, 0);
	free(team.members);
	team = (struct recoverTeam){0};
	recoverClose(&c);
	free(c.failed);
}
