/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults - each fault that the device makes on demand is seen by the program that asked for it
 */
#include <sys/socket.h>
#include <sys/un.h>

#include "pair.h"

static void put(uint8_t flags)
{
	queueInline(&queue, at(64), "12345678", 8, flags);
}

/* Two requests succeed, the third fails, and later ones are flushed. */
static void expectThird(uint8_t syndrome)
{
	begin();
	for (int i = 0; i < 5; i++)
		put(SIGNALED);
	queueRing(&queue);
	queueAwait(&queue, 0);
	queueAwait(&queue, 1);
	queueAwaitError(&queue, 2, syndrome);
	queueAwaitError(&queue, 3, 0x05);
	queueAwaitError(&queue, 4, 0x05);
	put(SIGNALED);
	queueRing(&queue);
	queueAwaitError(&queue, 5, 0x05);
}

static void errorOnThird(void)
{
	setenv("MLX5DEV_FAULT", "error=0x22@2", 1);
	expectThird(0x22);
}

static void accessOnThird(void)
{
	setenv("MLX5DEV_FAULT", "access@2", 1);
	expectThird(0x13);
}

static void retryOnThird(void)
{
	setenv("MLX5DEV_FAULT", "retry@2", 1);
	expectThird(0x15);
}

static void rnrOnThird(void)
{
	setenv("MLX5DEV_FAULT", "rnr@2", 1);
	expectThird(0x16);
}

static void qpErrorOnThird(void)
{
	setenv("MLX5DEV_FAULT", "qperror@2", 1);
	expectThird(0x05);
}

static void portDownOnThird(void)
{
	setenv("MLX5DEV_FAULT", "portdown@2", 1);
	expectThird(0x15);
}

/* In a collapsed queue the last error stays. */
static void errorCollapsed(void)
{
	const struct queue_options options = {.collapsed = true};

	setenv("MLX5DEV_FAULT", "error=0x13@1", 1);
	begin();
	queueCreate(&queue, &options);
	queueConnect(&queue, peer.qpn, &options);
	for (int i = 0; i < 3; i++)
		put(SIGNALED);
	queueRing(&queue);
	while (queueEntryOpcode(queue.cq) != 13 || queueEntryCounter(queue.cq) != 2)
		usleep(100);
	EXPECT_EQUAL(queueEntrySyndrome(queue.cq), 0x05);
}

static void doorbellLost(void)
{
	setenv("MLX5DEV_FAULT", "lose@1", 1);
	begin();
	put(SIGNALED);
	queueRing(&queue);
	queueAwait(&queue, 0);
	put(SIGNALED);
	queueRing(&queue);
	usleep(20000);
	EXPECT_EQUAL(queueEntryOpcode(queue.cq + 64), 15);
	/* The next one makes up for it. */
	queueDoorbell(&queue, queue.producer);
	queueAwait(&queue, 1);
}

static void noMore(const char *fault, void (*make)(void))
{
	setenv("MLX5DEV_FAULT", fault, 1);
	hostOpen();
	make();
}

static void makeUars(void)
{
	struct host_uar uar;
	int made = 0;

	while (hostUar(&uar))
		made++;
	/* rdma-core has some for itself, and gives out up to four registers of a page. */
	EXPECT(made > 0 && made <= 32);
}

static void makeRegions(void)
{
	int made = 0;

	while (hostRegister(memory, sizeof(memory), 0, ALL))
		made++;
	EXPECT_EQUAL(made, 3);
}

static void makeUmems(void)
{
	int made = 0;

	while (hostUmem(memory, sizeof(memory)))
		made++;
	EXPECT_EQUAL(made, 3);
}

static void noMoreUars(void)
{
	noMore("no-uar=8", makeUars);
}

static void noMoreRegions(void)
{
	noMore("no-mr=3", makeRegions);
}

static void noMoreUmems(void)
{
	noMore("no-umem=3", makeUmems);
}

static void noMoreQps(void)
{
	setenv("MLX5DEV_FAULT", "no-qp=2", 1);
	begin();
	queuePair(&queue, &peer); /* says so and ends the process */
}

static void noMoreCqs(void)
{
	setenv("MLX5DEV_FAULT", "no-cq=2", 1);
	begin();
	queuePair(&queue, &peer);
}

static void slow(void)
{
	setenv("MLX5DEV_SLOW_US", "20000", 1);
	begin();
	for (int i = 0; i < 5; i++)
		put(SIGNALED);
	queueRing(&queue);
	queueAwait(&queue, 0);
	/* Four times 20 ms are before it. */
	EXPECT_EQUAL(queueEntryOpcode(queue.cq + 4 * 64), 15);
	for (uint32_t i = 1; i < 5; i++)
		queueAwait(&queue, i);
}

/* A process that is asked from outside. */
static void control(const char *word, const char *expected)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	char answer[256];

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control.%d", getenv("MLX5DEV_DIR"),
		 (int)getpid());
	EXPECT(!connect(fd, (struct sockaddr *)&address, sizeof(address)));
	EXPECT(send(fd, word, strlen(word), 0) > 0);
	ssize_t length = recv(fd, answer, sizeof(answer) - 1, 0);
	EXPECT(length > 0);
	answer[length] = 0;
	EXPECT_HAS(answer, expected);
	close(fd);
}

static void portDownByControl(void)
{
	begin();
	put(SIGNALED);
	queueRing(&queue);
	queueAwait(&queue, 0);
	control("portdown", "ok");
	put(SIGNALED);
	queueRing(&queue);
	queueAwaitError(&queue, 1, 0x15);
	control("nonsense", "is not known");
}

static void removeByControl(void)
{
	begin();
	control("remove", "ok");
	put(SIGNALED);
	queueRing(&queue);
	usleep(20000);
	EXPECT_EQUAL(queueEntryOpcode(queue.cq), 15);
	if (getenv("LD_PRELOAD"))
		EXPECT(!hostRegister(memory, sizeof(memory), 0, ALL));
}

static void qpErrorByControl(void)
{
	char word[32];

	begin();
	snprintf(word, sizeof(word), "error=0x14:%u", queue.qpn);
	control(word, "ok");
	queueNop(&peer, SIGNALED);
	queueRing(&peer);
	queueAwait(&peer, 0);
	put(SIGNALED);
	queueRing(&queue);
	queueAwaitError(&queue, 0, 0x14);
}

/* Errors that the device finds by itself. */
static void wrongKey(void)
{
	begin();
	queueInline(&queue, (struct range){64, key ^ 1}, "12345678", 8, SIGNALED);
	queueRing(&queue);
	queueAwaitError(&queue, 0, 0x13);
}

static void outOfBounds(void)
{
	begin();
	queueInline(&queue, at(BUFFER - 4), "12345678", 8, SIGNALED);
	queueRing(&queue);
	queueAwaitError(&queue, 0, 0x13);
}

static void longerThanRegion(void)
{
	uint32_t own;

	begin();
	own = hostRegister(memory, 4, 0, ALL);
	queueInline(&queue, (struct range){0, own}, "12345678", 8, SIGNALED);
	queueRing(&queue);
	queueAwaitError(&queue, 0, 0x13);
}

static void noRight(void)
{
	uint32_t own;

	begin();
	own = hostRegister(memory, sizeof(memory), 0, IBV_ACCESS_LOCAL_WRITE);
	queueInline(&queue, (struct range){64, own}, "12345678", 8, SIGNALED);
	queueRing(&queue);
	queueAwaitError(&queue, 0, 0x13);
}

static void otherDomain(void)
{
	uint32_t other;

	begin();
	other = hostRegisterElsewhere(memory, sizeof(memory), 0, ALL);
	queueInline(&queue, (struct range){64, other}, "12345678", 8, SIGNALED);
	queueRing(&queue);
	queueAwaitError(&queue, 0, 0x13);
}

static void wrongLocalKey(void)
{
	begin();
	queueWrite(&queue, at(64), (struct range){0, key ^ 1}, 8, SIGNALED);
	queueRing(&queue);
	queueAwaitError(&queue, 0, 0x04);
}

static void unalignedAtomic(void)
{
	begin();
	queueAtomic(&queue, FETCH_ADD, at(68), at(0), 1, 0, SIGNALED);
	queueRing(&queue);
	queueAwaitError(&queue, 0, 0x12);
}

static void notMapped(void)
{
	uint8_t *nothing = (uint8_t *)0x10000;

	begin();
	EXPECT(!hostRegister(nothing, 4096, 0, ALL) && !hostUmem(nothing, 4096));
}

static void wrongPsn(void)
{
	const struct queue_options options = {.sendPsn = 1};

	begin();
	queueCreate(&queue, &options);
	queueCreate(&peer, &options);
	queueConnect(&queue, peer.qpn, &options);
	queueConnect(&peer, queue.qpn, &options);
	put(SIGNALED);
	queueRing(&queue);
	queueAwaitError(&queue, 0, 0x15);
}

static void peerGone(void)
{
	begin();
	queueDestroy(&peer);
	put(SIGNALED);
	queueRing(&queue);
	queueAwaitError(&queue, 0, 0x15);
}

static void maskedInPlainMode(void)
{
	const struct queue_options options = {.atomicMode = 1};

	begin();
	queueCreate(&queue, &options);
	queueCreate(&peer, &options);
	queueConnect(&queue, peer.qpn, &options);
	queueConnect(&peer, queue.qpn, &options);
	queueAtomic(&queue, FETCH_ADD, at(64), at(0), 1, 0, SIGNALED);
	queueRing(&queue);
	queueAwait(&queue, 0);
	queueAtomic(&queue, MASKED_FETCH_ADD, at(64), at(0), 1, 0, SIGNALED);
	queue.wq[64] = 0x09;
	queueRing(&queue);
	queueAwaitError(&queue, 1, 0x12);
}

static void noAtomics(void)
{
	setenv("MLX5DEV_PROFILE", "cx7,ib,noatomics", 1);
	begin();
	queueAtomic(&queue, FETCH_ADD, at(64), at(0), 1, 0, SIGNALED);
	queueRing(&queue);
	queueAwaitError(&queue, 0, 0x13);
}

/* A device that polls may not have seen the doorbell yet. */
static void destroyedAtOnce(void)
{
	begin();
	queueNop(&queue, SIGNALED);
	queueRing(&queue);
	queueDestroy(&queue);
	usleep(20000);
}

static const struct fault {
	const char *name;
	void (*body)(void);
	const char *refused; /* the process says this and ends, or NULL */
} faults[] = {
	{"any syndrome on the third", errorOnThird, NULL},
	{"remote access on the third", accessOnThird, NULL},
	{"retries exceeded on the third", retryOnThird, NULL},
	{"RNR retries exceeded on the third", rnrOnThird, NULL},
	{"the QP in error before the third", qpErrorOnThird, NULL},
	{"the port down before the third", portDownOnThird, NULL},
	{"errors in a collapsed queue", errorCollapsed, NULL},
	{"a doorbell lost", doorbellLost, NULL},
	{"no more doorbell pages", noMoreUars, NULL},
	{"no more regions", noMoreRegions, NULL},
	{"no more umems", noMoreUmems, NULL},
	{"no more queue pairs", noMoreQps, "CREATE_QP is refused: status 0xf"},
	{"no more completion queues", noMoreCqs, "CREATE_CQ is refused: status 0xf"},
	{"a slow device", slow, NULL},
	{"the port down, by control", portDownByControl, NULL},
	{"the device removed, by control", removeByControl, NULL},
	{"one QP's error, by control", qpErrorByControl, NULL},
	{"wrong key", wrongKey, NULL},
	{"out of bounds", outOfBounds, NULL},
	{"longer than the region", longerThanRegion, NULL},
	{"no right", noRight, NULL},
	{"another protection domain", otherDomain, NULL},
	{"wrong local key", wrongLocalKey, NULL},
	{"unaligned atomic", unalignedAtomic, NULL},
	{"memory that is not there", notMapped, NULL},
	{"wrong PSN", wrongPsn, NULL},
	{"the peer gone", peerGone, NULL},
	{"masks in atomic_mode 1", maskedInPlainMode, NULL},
	{"atomics on a device without", noAtomics, NULL},
	{"a queue destroyed after its doorbell", destroyedAtOnce, NULL},
};

static void provoke(const struct fault *fault)
{
	char text[8192];
	int status = childRun(fault->body, text, sizeof(text));

	expectThat(status == (fault->refused ? 1 : 0), __FILE__, __LINE__,
		   "%s: status %d; it said \"%s\"", fault->name, status, text);
	if (fault->refused)
		EXPECT_HAS(text, fault->refused);
	printf("ok: %s\n", fault->name);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		provoke(&faults[i]);
	return 0;
}
