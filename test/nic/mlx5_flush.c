/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mlx5_flush.c - the network verbs: which flush of GPU memory a message or a read waits for
 *
 * The queue pair is this test's.
 */
/* PACKAGES: libmlx5 libibverbs */
#include "backends/proxy/verbs/flush.c"
#include "expect.h"

enum { RECEIVES = 2 };

static struct fabric fabric;
static struct fabricRegion gpu;
static struct verbsPeer self, peer;
static struct verbsHeld room[RECEIVES];
static struct fabricEnd end;
static int posted, answer, news;

int verbsFail(char *why, const char *reason)
{
	(void)why, (void)reason;
	return fabricFailed;
}

int verbsPairOpen(struct fabricEnd *e, void *pair, uint64_t *out, char *why)
{
	(void)e, (void)pair, (void)out, (void)why;
	return fabricFailed;
}

int verbsPairConnect(struct fabricEnd *e, uint64_t to, const void *address, const void *theirs,
		     char *why)
{
	(void)e, (void)to, (void)address, (void)theirs, (void)why;
	return fabricFailed;
}

void verbsPeerHasNews(struct verbsPeer *p)
{
	EXPECT(p == &peer);
	news++;
}

int verbsPostFlush(struct fabricEnd *e, const struct fabricRegion *region, void *to)
{
	EXPECT(e == &end && region == &gpu && to == self.message[0]);
	posted += answer == fabricOk;
	return answer;
}

static void begin(void)
{
	static unsigned char message[1][VERBS_MESSAGE];

	memset(&fabric, 0, sizeof(fabric));
	atomic_store(&fabric.gpu, &gpu);
	atomic_store(&fabric.gpuWindows, 1);
	self = (struct verbsPeer){.end = &end, .message = message};
	peer = (struct verbsPeer){.end = &end};
	end = (struct fabricEnd){
		.fabric = &fabric, .self = &self, .room = 1, .receives = RECEIVES, .held = room};
	posted = news = 0;
	answer = fabricOk;
}

static void hold(uint32_t index)
{
	const struct verbsHeld message = {.peer = &peer, .index = index};

	EXPECT(verbsHolds(&end));
	verbsHold(&end, &message);
}

/* Takes the next message that waited for a flush; it must be `index`. */
static void take(uint32_t index)
{
	const struct verbsHeld *ready = verbsHeldReady(&end);

	EXPECT(ready && ready->peer == &peer && ready->index == index);
	end.firstHeld++;
}

/* A message that arrives during a flush waits for the next flush. */
static void laterMessage(void)
{
	begin();
	hold(0);
	verbsFlushTurn(&end);
	EXPECT_EQUAL(posted, 1);
	hold(1);
	verbsFlushTurn(&end); /* one flush at a time */
	EXPECT_EQUAL(posted, 1);
	EXPECT(!verbsHeldReady(&end));
	verbsFlushDone(&end);
	take(0);
	EXPECT(!verbsHeldReady(&end));
	verbsFlushTurn(&end);
	EXPECT_EQUAL(posted, 2);
	EXPECT(!verbsHeldReady(&end));
	verbsFlushDone(&end);
	take(1);
	EXPECT(!verbsHeldReady(&end));
	verbsFlushTurn(&end); /* nothing waits */
	EXPECT_EQUAL(posted, 2);
}

/* As laterMessage() for reads into GPU memory, whose peers wait. */
static void laterRead(void)
{
	begin();
	EXPECT_EQUAL(verbsFlushOf(&end), 1);
	EXPECT_EQUAL(verbsFlushOf(&end), 1);
	verbsFlushTurn(&end);
	EXPECT_EQUAL(verbsFlushOf(&end), 2);
	end.waiting = &peer;
	verbsFlushDone(&end);
	EXPECT_EQUAL(end.flushed, 1);
	EXPECT_EQUAL(news, 1);
	EXPECT(!end.waiting);
	verbsFlushTurn(&end);
	EXPECT_EQUAL(posted, 2);
	verbsFlushDone(&end);
	EXPECT_EQUAL(end.flushed, 2);
}

/* A flush that the queue pair refuses is tried again. */
static void refused(void)
{
	begin();
	hold(0);
	answer = fabricBusy;
	verbsFlushTurn(&end);
	EXPECT_EQUAL(end.flushBegun, 0);
	answer = fabricOk;
	verbsFlushTurn(&end);
	verbsFlushDone(&end);
	take(0);
	EXPECT_EQUAL(posted, 1);
}

/*
 * Without windows in GPU memory, a message waits only if an earlier one does. Nothing waits for a
 * dead queue pair.
 */
static void order(void)
{
	begin();
	atomic_store(&fabric.gpuWindows, 0);
	EXPECT(!verbsHolds(&end));
	atomic_store(&fabric.gpuWindows, 1);
	hold(0);
	atomic_store(&fabric.gpuWindows, 0);
	hold(1);
	self.isDead = 1;
	take(0);
	take(1);
	EXPECT(!verbsHolds(&end));
	end.self = NULL;
	atomic_store(&fabric.gpuWindows, 1);
	EXPECT(!verbsHolds(&end));
}

int main(void)
{
	laterMessage();
	laterRead();
	refused();
	order();
	return 0;
}
