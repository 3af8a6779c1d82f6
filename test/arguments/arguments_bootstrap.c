/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * arguments_bootstrap.c - unique ids, names and splits: every wrong argument on one rank
 * or on all; nothing leaks, and the next call works
 */
#include "arguments.h"

#include "bootstrap/bootstrap.h"
#include "bootstrap/root.h"
#include "lib/base/net/identity.h"

#include <limits.h>
#include <sys/resource.h>
#include <sys/socket.h>

static const ginConfig_t host = {
	.size = sizeof(ginConfig_t), .device = GIN_DEVICE_NONE, .nRanks = 1};

/* Roots are threads of this process: their descriptors close soon, not at once. */
static void expectFilesSoon(int files)
{
	for (int i = 0; i < 20000 && countFiles() > files; i++)
		usleep(1000);
	EXPECT(countFiles() <= files);
}

#define EXPECT_NO_RANK(config, id, rank, nRanks, result, ...)                                      \
	do {                                                                                       \
		ginComm_t noComm = POISON;                                                         \
		int files = countFiles();                                                          \
		EXPECT_FAILS(ginCommInitRank(config, id, rank, nRanks, &noComm), result,           \
			     "ginCommInitRank", __VA_ARGS__);                                      \
		EXPECT(noComm == POISON);                                                          \
		expectFilesSoon(files);                                                            \
	} while (0)

static ginUniqueId_t newId(void)
{
	ginUniqueId_t id;

	EXPECT_SUCCESS(ginGetUniqueId(&id));
	return id;
}

static void expectMet(ginComm_t comm, const char *how)
{
	ginCommInfo_t info = GIN_COMM_INFO_INIT;

	EXPECT_SUCCESS(ginCommQuery(comm, &info));
	EXPECT_TEXT(info.bootstrap, how);
}

static void expectAlone(const ginConfig_t *config, const ginUniqueId_t *id)
{
	ginComm_t comm = NULL;

	EXPECT_SUCCESS(ginCommInitRank(config, id, 0, 1, &comm));
	EXPECT_EQUAL(sizeOf(comm), 1);
	expectMet(comm, "unique id");
	expectWorks(comm);
	closeComm(comm);
}

static int neverCalled(void *arg, const void *in, void *out, size_t bytes)
{
	(void)in;
	(void)out;
	(void)bytes;
	EXPECT(arg != arg);
	return 0;
}

/* No rank has come to the id's root meanwhile: it still serves. */
static void badArguments(void)
{
	int files = countFiles();
	ginUniqueId_t id = newId();
	ginConfig_t config = host;

	EXPECT_FAILS(ginGetUniqueId(NULL), ginErrorInvalidArgument, "ginGetUniqueId: id is NULL");
	EXPECT_FAILS(ginCommInitRank(&host, &id, 0, 1, NULL), ginErrorInvalidArgument,
		     "ginCommInitRank: comm is NULL");
	EXPECT_FAILS(ginCommInitRank(NULL, NULL, 0, 1, NULL), ginErrorInvalidArgument, "is NULL");
	EXPECT_NO_RANK(&host, NULL, 0, 1, ginErrorInvalidArgument, "id is NULL");
	config.allgather = neverCalled;
	EXPECT_NO_RANK(&config, &id, 0, 1, ginErrorInvalidArgument, "config.allgather is set",
		       "give only one of them");
	config = host;
	config.size = 0;
	EXPECT_NO_RANK(&config, &id, 0, 1, ginErrorInvalidArgument, "config.size is 0",
		       "GIN_CONFIG_INIT");
	config.size = 4097;
	EXPECT_NO_RANK(&config, &id, 0, 1, ginErrorInvalidArgument, "config.size is 4097");
	expectAlone(&host, &id);
	expectFilesSoon(files);
}

static void badRanks(void)
{
	static const int pairs[][2] = {{-1, 2}, {2, 2},	      {0, 0},	    {0, -1},
				       {1, 1},	{INT_MAX, 2}, {0, INT_MIN}, {INT_MIN, INT_MAX}};
	ginUniqueId_t id = newId();
	char words[96];

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		snprintf(words, sizeof(words), "rank is %d and nRanks %d: rank must be",
			 pairs[i][0], pairs[i][1]);
		EXPECT_NO_RANK(&host, &id, pairs[i][0], pairs[i][1], ginErrorInvalidArgument,
			       words);
	}
	EXPECT_NO_RANK(&host, &id, 0, INT_MAX, ginErrorInvalidArgument,
		       "nRanks is 2147483647: at most 1048576");
	EXPECT_NO_RANK(&host, &id, 0, ROOT_RANKS + 1, ginErrorInvalidArgument,
		       "nRanks is 1048577: at most 1048576");
	EXPECT_NO_RANK(&host, &id, ROOT_RANKS, ROOT_RANKS, ginErrorInvalidArgument, "must be 0 to");
	expectAlone(NULL, &id);
}

static void badNames(void)
{
	ginConfig_t config = host;
	ginComm_t comm = POISON;
	ginUniqueId_t id = newId();
	char name[5000];

	memset(name, 'n', sizeof(name));
	config.name = name;
	for (size_t length = 48; length < sizeof(name); length *= 10) {
		char words[64];
		name[length] = '\0';
		snprintf(words, sizeof(words), "config.name has %zu characters: at most 47",
			 length);
		EXPECT_FAILS(ginCommInit(&config, &comm), ginErrorInvalidArgument, "ginCommInit",
			     words);
		EXPECT_NO_RANK(&config, &id, 0, 1, ginErrorInvalidArgument, words);
		name[length] = 'n';
	}
	EXPECT(comm == POISON);
	name[47] = '\0';
	closeComm(openComm(&config));
	expectAlone(&config, &id);
}

/* Bytes that are no id, or an id with wrong bytes. */
static void badIds(void)
{
	ginUniqueId_t good = newId(), id = {{0}};
	struct rootContact contact;

	EXPECT_NO_RANK(&host, &id, 0, 1, ginErrorInvalidArgument,
		       "id is not from ginGetUniqueId(): give every rank all bytes of it");
	for (size_t i = 0; i < 8; i++) {
		id = good;
		id.bytes[i] ^= 1;
		EXPECT_NO_RANK(&host, &id, 0, 1, ginErrorInvalidArgument,
			       "give every rank all bytes of it");
	}
	for (size_t i = 0; i < sizeof(contact.key); i++) {
		id = good;
		id.bytes[offsetof(struct rootContact, key) + i] ^= 1;
		EXPECT_NO_RANK(&host, &id, 0, 1, ginErrorBootstrap, "another secret",
			       "the id belongs to another job");
	}
	rootFromId((const uint8_t *)good.bytes, &contact);
	contact.hostId ^= 1;
	contact.addresses = 0;
	rootToId(&contact, (uint8_t *)id.bytes);
	EXPECT_NO_RANK(&host, &id, 0, 1, ginErrorBootstrap,
		       "no connection to the process that made the id", "0 addresses");
	contact.addresses = UINT16_MAX; /* more than there is room for, and no bytes of them */
	contact.port = 1;
	memcpy(id.bytes, &contact, offsetof(struct rootContact, address));
	EXPECT_NO_RANK(&host, &id, 0, 1, ginErrorBootstrap,
		       "no connection to the process that made the id", "port 1");
	expectAlone(&host, &good);
}

/* How many of `wanted` addresses does an id hold? The first one is of IPv6 if `v6`, or all are. */
static unsigned heldBy(unsigned wanted, int v6, int all)
{
	struct rootContact contact = {
		.magic = ROOT_MAGIC, .port = 7, .addresses = (uint16_t)wanted};
	struct rootContact back;
	uint8_t id[ROOT_ID_BYTES + 32], poison[32];

	for (unsigned i = 0; i < wanted; i++) {
		int is6 = v6 && (all || !i);
		contact.address[i].family = is6 ? AF_INET6 : AF_INET;
		memset(contact.address[i].bytes, (int)i + 1, is6 ? 16 : 4);
	}
	memset(id, 0xa5, sizeof(id));
	memset(poison, 0xa5, sizeof(poison));
	rootToId(&contact, id);
	EXPECT(!memcmp(id + ROOT_ID_BYTES, poison, sizeof(poison)));
	rootFromId(id, &back);
	EXPECT_EQUAL(back.port, 7);
	EXPECT(!memcmp(back.address, contact.address, back.addresses * sizeof(back.address[0])));
	return back.addresses;
}

static void addressesOfIds(void)
{
	EXPECT_EQUAL(heldBy(0, 0, 0), 0);
	EXPECT_EQUAL(heldBy(ROOT_ADDRESSES, 0, 0), ROOT_ADDRESSES);
	EXPECT_EQUAL(heldBy(ROOT_ADDRESSES, 1, 0), 16);
	EXPECT_EQUAL(heldBy(ROOT_ADDRESSES, 1, 1), 5);
}

/* An id serves one communicator, even one that fails. */
static void usedIds(void)
{
	ginUniqueId_t id = newId();

	expectAlone(&host, &id);
	EXPECT_NO_RANK(&host, &id, 0, 1, ginErrorBootstrap, "each id serves one communicator");
	id = newId();
	EXPECT_NO_RANK(&host, &id, 1, 2, ginErrorTimeout,
		       "rank 0 did not come within 1 s (GIN_TIMEOUT)");
	EXPECT_NO_RANK(&host, &id, 0, 2, ginErrorTimeout, "rank 0 did not come within 1 s");
}

static void badEnvironment(void)
{
	ginUniqueId_t id = {{0}}, none = id;

	setenv("GIN_BOOTSTRAP", "udp", 1);
	EXPECT_FAILS(ginGetUniqueId(&id), ginErrorInvalidArgument,
		     "ginGetUniqueId: GIN_BOOTSTRAP=udp");
	EXPECT(!memcmp(&id, &none, sizeof(id)));
}

/* One id on all ranks, which are threads. */
static ginUniqueId_t sharedId(const ginConfig_t *config)
{
	ginUniqueId_t mine = {{0}}, all[RANKS_MOST];

	if (config->rank == config->nRanks - 1)
		mine = newId();
	EXPECT(!config->allgather(config->allgatherArg, &mine, all, sizeof(mine)));
	return all[config->nRanks - 1];
}

static void expectSharedWorks(const ginConfig_t *config)
{
	ginUniqueId_t id = sharedId(config);
	ginComm_t comm = NULL;

	EXPECT_SUCCESS(ginCommInitRank(&host, &id, config->rank, config->nRanks, &comm));
	EXPECT_EQUAL(rankOf(comm), config->rank);
	expectWorks(comm);
	closeComm(comm);
}

/* Three ranks say 0, 1, 1; or 0 of 3, 1 of 3, 2 of 4; or one has no such GPU. */
static int badRankOfOne(const ginConfig_t *config)
{
	int rank = config->rank, last = rank == 2;
	ginUniqueId_t id = sharedId(config);
	ginConfig_t mine = host;
	ginComm_t comm = POISON;

	EXPECT_FAILS(ginCommInitRank(&host, &id, rank - last, 3, &comm), ginErrorBootstrap,
		     "two processes say that they are rank 1");
	id = sharedId(config);
	EXPECT_FAILS(ginCommInitRank(&host, &id, rank, 3 + last, &comm), ginErrorBootstrap,
		     "all must say the same");
	id = sharedId(config);
	mine.device = last ? 1000 : GIN_DEVICE_NONE;
	EXPECT_FAILS(ginCommInitRank(&mine, &id, rank, 3, &comm), ginErrorInvalidArgument,
		     "rank 2: config.device is 1000");
	EXPECT(comm == POISON);
	expectSharedWorks(config);
	return 0;
}

static int badSplits(const ginConfig_t *config)
{
	static const int colors[] = {-2, INT_MIN, -1000};
	ginComm_t comm = openComm(config), part = POISON;
	int odd = config->rank == 1;

	EXPECT_FAILS(ginCommSplit(NULL, 0, 0, &part), ginErrorInvalidArgument,
		     "ginCommSplit: comm is NULL");
	int files = countFiles();
	for (size_t i = 0; i < sizeof(colors) / sizeof(colors[0]); i++) {
		char words[64];
		snprintf(words, sizeof(words), "rank 1: color is %d", colors[i]);
		EXPECT_FAILS(ginCommSplit(comm, odd ? colors[i] : 0, 0, &part),
			     ginErrorInvalidArgument, words, "GIN_NO_COLOR");
	}
	EXPECT_FAILS(ginCommSplit(comm, 0, 0, odd ? NULL : &part), ginErrorInvalidArgument,
		     "rank 1: part is NULL");
	EXPECT(part == POISON);
	if (!ranksTest.asThreads)
		EXPECT_EQUAL(countFiles(), files);
	EXPECT_SUCCESS(ginCommSplit(comm, odd, 0, &part));
	EXPECT_EQUAL(sizeOf(part), odd ? 1 : 2);
	expectMet(part, "split");
	expectWorks(part);
	closeComm(part);
	expectWorks(comm);
	return closeComm(comm);
}

/* One rank cannot make its part: no rank gets a part, of any color. */
static int noDescriptorOfOne(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config), part = POISON;
	int next = dup(0);
	struct rlimit files;

	close(next);
	EXPECT(!getrlimit(RLIMIT_NOFILE, &files));
	if (config->rank == 1)
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)next, files.rlim_max});
	EXPECT_FAILS(ginCommSplit(comm, 0, 0, &part), ginErrorSystem, "rank 1: ", "ulimit -n");
	EXPECT(part == POISON);
	setrlimit(RLIMIT_NOFILE, &files);
	EXPECT_SUCCESS(ginCommSplit(comm, GIN_NO_COLOR, 0, &part));
	EXPECT(!part);
	EXPECT_SUCCESS(ginCommSplit(comm, 0, 0, &part));
	expectWorks(part);
	closeComm(part);
	expectWorks(comm);
	return closeComm(comm);
}

#define NAME_63 "a-name-of-63-characters-and-the-64th-is-the-first-of-another-me"

/* As ranksAllgather(), but rank 0's host has no NUL, and no process has its port. */
static int spoilHost(void *arg, const void *in, void *out, size_t bytes)
{
	struct identity first;
	struct bootstrapEntry *all = out;
	int result = ranksAllgather(arg, in, out, bytes);

	EXPECT_EQUAL(bytes, sizeof(*all));
	memcpy(&first, all->data, sizeof(first));
	memcpy(first.host, NAME_63 "x", sizeof(first.host));
	first.port = 1;
	memcpy(all->data, &first, sizeof(first));
	return result;
}

static int hostWithoutEnd(const ginConfig_t *config)
{
	ginConfig_t host = hostConfig(config);
	ginComm_t comm = NULL;

	if (config->rank)
		host.allgather = spoilHost;
	ginResult_t result = ginCommInit(&host, &comm);
	EXPECT_EQUAL(result, config->rank ? ginErrorBootstrap : ginErrorTimeout);
	if (config->rank)
		EXPECT_HAS(ginGetLastError(), "rank 0 (host " NAME_63 ", port 1,");
	return 0;
}

/* An identity as a peer that knows the secret may send it. */
static void boundedIdentity(void)
{
	struct identity received;

	memset(&received, 'x', sizeof(received));
	identityBound(&received);
	EXPECT_EQUAL(strlen(received.host), sizeof(received.host) - 1);
	EXPECT_EQUAL(received.addresses, IDENTITY_ADDRESSES);
	EXPECT_EQUAL(received.port, 'x' << 8 | 'x');
	memcpy(received.host, "a\n\033[2J\377", 8);
	identityBound(&received);
	EXPECT_TEXT(received.host, "a??[2J?");
}

/*
 * The entry of a rank that refuses, without any NUL, is the last thing before a page that is not
 * there.
 */
static void refusalWithoutEnd(void)
{
	const struct bootstrapEntry mine = {.magic = IDENTITY_MAGIC};
	struct bootstrapEntry *entry;
	char why[BOOTSTRAP_WHY];
	char *pages =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	EXPECT(pages != MAP_FAILED && !mprotect(pages + PAGE, PAGE, PROT_NONE));
	entry = (struct bootstrapEntry *)(void *)(pages + PAGE - sizeof(*entry));
	memset(entry, 'r', sizeof(*entry));
	entry->magic = mine.magic;
	entry->refused = ginErrorSystem;
	EXPECT_EQUAL(bootstrapCheckEntry(&mine, entry, 1, why), ginErrorSystem);
	EXPECT_EQUAL(strlen(why), BOOTSTRAP_WHY - 1);
}

static int comeAndGo(const ginConfig_t *config)
{
	int files = countFiles();

	for (int i = 0; i < 3; i++) {
		ginComm_t comm = openComm(config), part = NULL;
		EXPECT_SUCCESS(ginCommSplit(comm, config->rank % 2, 0, &part));
		expectWorks(part);
		closeComm(i % 2 ? comm : part);
		closeComm(i % 2 ? part : comm);
		expectSharedWorks(config);
		expectFilesSoon(files);
	}
	return 0;
}

int main(void)
{
	prepareTests();
	expectChild("wrong arguments", badArguments);
	expectChild("wrong ranks", badRanks);
	expectChild("names that are too long", badNames);
	expectChild("wrong ids", badIds);
	expectChild("addresses of ids", addressesOfIds);
	expectChild("a wrong environment", badEnvironment);
	runThreads("one wrong rank", 3, badRankOfOne);
	runForks("one wrong rank", 3, badRankOfOne);
	runThreads("wrong splits", 3, badSplits);
	runForks("wrong splits", 3, badSplits);
	runForks("a split that fails on one rank", 3, noDescriptorOfOne);
	runForks("nothing stays open", 4, comeAndGo);
	setenv("GIN_TIMEOUT", "1", 1);
	expectChild("ids that were used", usedIds);
	expectChild("an identity without end", boundedIdentity);
	expectChild("a refusal without end", refusalWithoutEnd);
	runForks("a host's name without end", 2, hostWithoutEnd);
	return expectFailures != 0;
}
