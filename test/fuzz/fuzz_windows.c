/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_windows.c - messages in which ranks describe themselves and their parts of windows
 *
 * Rank 0 of three registers a window with offers of the input's, and with the descriptors that the
 * input chooses. A part that rank 0 maps begins in the mapping. Identities, bounce offers and blobs
 * of the proxy are read, too.
 */
/* NEEDS: libgin-weak.so */
#include "fuzz.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>

#include "backends/peermem/internal.h"
#include "backends/proxy/network/choice/choice.h"
#include "bootstrap/meeting.h"
#include "lib/base/net/identity.h"
#include "lib/gpu/memory.h"

#define RANKS 3
#define BYTES 8192

static struct identity identities[RANKS];
static const struct device device = {.ordinal = GIN_DEVICE_NONE, .numaNode = -1};
static struct backendHost host;
static int handle[RANKS]; /* the descriptor from each rank; -1: none */
static int files[2];	  /* of one page and of two, for all inputs: a file takes long to make */
static unsigned exchanges, mostExchanges, announced;

/* Each piece of memory that is announced costs one exchange. */
static ginResult_t exchange(void *core, int fd, const uint8_t *to, const uint8_t *from, int *fds)
{
	(void)core, (void)fd, (void)to;
	EXPECT(++exchanges <= announced);
	if (exchanges > mostExchanges)
		return fail(ginErrorSystem, "no more exchanges");
	for (int r = 0; r < RANKS; r++)
		fds[r] = from[r] && handle[r] >= 0 ? fcntl(handle[r], F_DUPFD_CLOEXEC, 3) : -1;
	return ginSuccess;
}

static int serves(const void *of, int rank)
{
	(void)of;
	return rank < RANKS;
}

/* Each piece takes an exchange, also after a failure. Too many pieces are refused at once. */
static void limitPieces(struct peermemOffer *out)
{
	const uint64_t most = mostExchanges == UINT_MAX ? 64 : 4;

	for (int i = 0; out->kind == memoryVmm && i < DEVICE_RUNS; i++)
		if (out->run[i].count <= PEERMEM_PIECES_MOST)
			out->run[i].count %= most;
}

/* A valid offer, except for the bytes that the input changes. */
static void fillOffer(struct fuzzInput *in, const struct peermemOffer *right,
		      struct peermemOffer *out)
{
	uint8_t what = fuzzByte(in), at = fuzzByte(in), bytes = fuzzByte(in);
	struct fuzzInput part;

	*out = *right;
	out->base += what;
	if (what & 1)
		out->kind = fuzzByte(in) % 7;
	if (what & 2)
		out->offset = fuzzShort(in) * (what & 8 ? 1ul << 40 : 1);
	if (what & 4)
		out->span = fuzzShort(in) * (what & 8 ? 1ul << 40 : 1);
	if (what & 16)
		out->isFirst ^= 1;
	if (out->kind == memoryVmm)
		for (int i = 0; i < DEVICE_RUNS; i++)
			out->run[i] = (struct deviceRun){4096, fuzzByte(in)};
	if (what & 128) {
		at %= sizeof(*out);
		part = fuzzPart(in, bytes < sizeof(*out) - at ? bytes : sizeof(*out) - at);
		memcpy((char *)out + at, part.at, part.left);
	}
	limitPieces(out);
}

/* How many exchanges the offers need: one, or one for each piece of the largest right offer. */
static unsigned exchangesFor(const struct peermemOffer *offer)
{
	uint64_t most = 1;

	for (int r = 1; r < RANKS; r++) {
		const struct deviceRun *run = offer[r].run;
		uint64_t pieces = 0, isWrong = offer[r].kind != memoryVmm;
		for (int i = 0; i < DEVICE_RUNS; i++)
			isWrong |= run[i].count > PEERMEM_PIECES_MOST;
		for (int i = 0; i < DEVICE_RUNS && run[i].count; i++)
			pieces += run[i].count;
		if (!isWrong && pieces <= PEERMEM_PIECES_MOST && pieces > most)
			most = pieces;
	}
	return (unsigned)most;
}

static void expectPart(const struct peermemWindow *w, int rank, const struct peermemOffer *offer)
{
	const char *at = peermemAddress(w, rank);

	if (!w->peer[rank].import || !at)
		return;
	EXPECT(peermemKind(w, rank) == memoryShared && offer->offset <= offer->span);
	for (uint64_t i = offer->offset; i < offer->span; i += 4096)
		(void)*(volatile const char *)(at + i - offer->offset);
}

static void makeFiles(void)
{
	for (int i = 0; i < 2; i++) {
		files[i] = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		EXPECT(files[i] >= 0 && !ftruncate(files[i], (i + 1) * 4096) &&
		       !fcntl(files[i], F_ADD_SEALS, F_SEAL_SHRINK));
	}
}

static void chooseHandles(uint8_t what)
{
	uint8_t sizes = what >> 2 * RANKS;

	for (int r = 0; r < RANKS; r++, what >>= 2, sizes >>= 1)
		handle[r] = what & 1 ? files[!(sizes & 1)] : -1;
}

/* Memory of this rank, which inputs do not change. */
static const struct memory *ownMemory(void)
{
	static struct memory memory;
	void *own = NULL;

	if (!memory.bytes) {
		makeFiles();
		EXPECT_SUCCESS(memoryAllocHost(&device, BYTES, &own));
		EXPECT_SUCCESS(memoryDescribe(&device, own, BYTES, &memory));
	}
	return &memory;
}

static void registerWindow(struct fuzzInput *in)
{
	static uint8_t offers[RANKS][BACKEND_OFFER];
	const struct peermemPeers peers = {serves, NULL};
	struct peermem *peermem = NULL;
	struct peermemWindow *w = NULL;
	struct peermemOffer offer[RANKS];

	memset(offers, 0, sizeof(offers));
	EXPECT_SUCCESS(peermemOpen(&host, "fuzz", &peers, &peermem));
	EXPECT_SUCCESS(peermemOffer(peermem, ownMemory(), offers[0], &w));
	memcpy(&offer[0], offers[0], sizeof(offer[0]));
	chooseHandles(fuzzByte(in));
	for (int r = 1; r < RANKS; r++) {
		fillOffer(in, &offer[0], &offer[r]);
		memcpy(offers[r], &offer[r], sizeof(offer[r]));
	}
	exchanges = 0;
	announced = exchangesFor(offer);
	if (peermemRegister(peermem, ginSuccess, offers[0], BACKEND_OFFER, w) == ginSuccess)
		for (int r = 1; r < RANKS; r++)
			expectPart(w, r, &offer[r]);
	peermemDeregister(peermem, w);
	peermemClose(peermem);
}

static void readIdentity(struct fuzzInput *in)
{
	static struct identity all[8];
	uint32_t index[8];

	for (int r = 0; r < 8; r++) {
		fuzzTake(in, &all[r], sizeof(all[r]));
		identityBound(&all[r]);
		EXPECT(all[r].addresses <= IDENTITY_ADDRESSES);
		EXPECT(memchr(all[r].host, '\0', sizeof(all[r].host)) != NULL);
	}
	EXPECT_SUCCESS(identityCount(all, 8, index));
	for (int r = 0; r < 8; r++)
		EXPECT(index[r] <= (uint32_t)r);
}

static void readBlobs(struct fuzzInput *in)
{
	static const struct identity identity;
	static const struct backendHost alone = {.nRanks = 1, .ranks = &identity};
	static struct proxyBlob mine;
	struct proxyBlob *theirs = malloc(sizeof(*theirs));
	char why[BACKEND_WHY];

	if (!mine.hasSearched) { /* loads the plug-in */
		EXPECT(networkProbe(&mine, why));
		EXPECT_SUCCESS(networkSearch(&alone, &mine));
	}

	EXPECT(theirs != NULL);
	fuzzTake(in, theirs, sizeof(*theirs));
	if (fuzzByte(in) & 1) { /* as close as it can be */
		memcpy(theirs->plugin, mine.plugin, sizeof(mine.plugin));
		theirs->hasNetwork = 1;
		theirs->networkKind = mine.networkKind;
	}
	networkReaches(&mine, theirs, why);
	EXPECT(strlen(why) < sizeof(why));
	free(theirs);
}

/* The root's reply, and the entry of a rank in it. */
static void readReply(struct fuzzInput *in)
{
	static struct rootReply reply;
	struct bootstrapEntry own = {.magic = 7};
	char why[BOOTSTRAP_WHY] = "";

	fuzzTake(in, &reply, sizeof(reply));
	int result = meetingRead(&reply, why);
	EXPECT(!result == !why[0]);
	reply.root.magic = fuzzByte(in) & 1 ? 7 : 8;
	bootstrapCheckEntry(&own, &reply.root, 0, why);
	EXPECT(strlen(why) < sizeof(why));
}

/*
 * May this input take long? libFuzzer keeps the inputs that do, and changes them most, so a sum
 * over the whole input decides: few of the changed ones may take long, too.
 */
static int isLong(struct fuzzInput in)
{
	uint8_t sum = 0;

	while (in.left)
		sum = (uint8_t)(sum * 31 + fuzzByte(&in));
	return sum == 23;
}

static void fuzzOne(struct fuzzInput *in)
{
	const int takesLong = isLong(*in);
	uint8_t what = fuzzByte(in);

	mostExchanges = takesLong ? UINT_MAX : 10;
	errorQuiet(1);
	setenv("GIN_TRANSPORT", "weak", 1);
	for (int r = 0; r < RANKS; r++)
		identities[r] = (struct identity){
			.hostId = 1, .processId = {1, (uint64_t)(what & 64 && r == 2 ? 0 : r)}};
	host = (struct backendHost){.nRanks = RANKS,
				    .ranks = identities,
				    .device = &device,
				    .exchangeHandles = exchange,
				    .core = &host};
	if (what % 8 == 0)
		readIdentity(in);
	else if (what % 8 == 1)
		readBlobs(in);
	else if (what % 8 == 2)
		readReply(in);
	else
		registerWindow(in);
}
