/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * processes - queue pairs made by DEVX in several processes: each writes to each, and one dies
 */
#include <infiniband/verbs.h>
#include <signal.h>
#include <sys/mman.h>

#include "expect.h"
#include "queue.h"

enum { PROCESSES = 3, ROUNDS = 500, BUFFER = 1 << 14, SECONDS = 60 };
enum {
	ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
	      IBV_ACCESS_REMOTE_ATOMIC
};

/* Where what comes from a process goes, its counter, and where what is sent to it is. */
enum { INBOX = 0, INBOX_BYTES = 1024, COUNTER = 4096, OUTBOX = 8192, RESULT = 12288 };

static uint8_t memory[BUFFER] __attribute__((aligned(4096)));
static struct queue queues[PROCESSES];

/* Facts that all processes exchange. */
static struct shared {
	uint32_t qpns[PROCESSES][PROCESSES], keys[PROCESSES];
	int arrived;
} * shared;

static void barrier(int number)
{
	__atomic_add_fetch(&shared->arrived, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&shared->arrived, __ATOMIC_ACQUIRE) < number * PROCESSES)
		usleep(100);
}

static void connectAll(int self)
{
	const struct queue_options options = {0};

	hostOpen();
	shared->keys[self] = hostRegister(memory, sizeof(memory), 0, ALL);
	for (int peer = 0; peer < PROCESSES; peer++) {
		queueCreate(&queues[peer], &options);
		shared->qpns[self][peer] = queues[peer].qpn;
	}
	barrier(1);
	for (int peer = 0; peer < PROCESSES; peer++)
		queueConnect(&queues[peer], shared->qpns[peer][self], &options);
	barrier(2);
}

static uint8_t expected(int from, int to, uint32_t round, uint32_t at)
{
	return (uint8_t)(from * 31 + to * 17 + (int)round + (int)at);
}

static void put(int self, int peer, uint32_t round)
{
	struct queue *queue = &queues[peer];
	uint32_t own = shared->keys[self], other = shared->keys[peer];
	uint8_t *source = memory + OUTBOX + peer * INBOX_BYTES;

	for (uint32_t i = 0; i < INBOX_BYTES; i++)
		source[i] = expected(self, peer, round, i);
	queueWrite(queue, (struct range){(uint64_t)(INBOX + self * INBOX_BYTES), other},
		   (struct range){(uint64_t)(source - memory), own}, INBOX_BYTES, 0);
	queueAtomic(queue, FETCH_ADD, (struct range){(uint64_t)(COUNTER + 8 * self), other},
		    (struct range){RESULT, own}, 1, 0, SIGNALED);
	queueRing(queue);
	queueAwait(queue, 2 * round + 1);
}

static void awaitAll(int self, uint32_t round)
{
	for (int peer = 0; peer < PROCESSES; peer++) {
		const uint64_t *counter = (uint64_t *)(void *)(memory + COUNTER + 8 * peer);

		while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < round + 1)
			sched_yield();
		for (uint32_t i = 0; i < INBOX_BYTES; i++)
			EXPECT_EQUAL(memory[INBOX + peer * INBOX_BYTES + (int)i],
				     expected(peer, self, round, i));
	}
}

/* The last one dies while the others have work for it. */
static void dies(int self)
{
	struct queue *queue = &queues[PROCESSES - 1];

	if (self == PROCESSES - 1)
		kill(getpid(), SIGKILL);
	for (uint32_t round = ROUNDS;; round++) {
		uint64_t value = round;

		queueInline(queue, (struct range){INBOX, shared->keys[PROCESSES - 1]}, &value,
			    sizeof(value), SIGNALED);
		queueRing(queue);
		const uint8_t *entry = queueNext(queue);
		if (queueEntryOpcode(entry) == 0)
			continue;
		EXPECT_EQUAL(queueEntrySyndrome(entry), 0x15);
		return;
	}
}

static int process(int self)
{
	alarm(SECONDS);
	connectAll(self);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		for (int peer = 0; peer < PROCESSES; peer++)
			put(self, peer, round);
		awaitAll(self, round);
		barrier(3 + (int)round);
	}
	dies(self);
	return 0;
}

int main(void)
{
	pid_t children[PROCESSES];
	int status, failed = 0;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	EXPECT(shared != MAP_FAILED);
	for (int i = 0; i < PROCESSES; i++)
		if ((children[i] = fork()) == 0)
			exit(process(i));
	for (int i = 0; i < PROCESSES; i++) {
		EXPECT(waitpid(children[i], &status, 0) == children[i]);
		bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
		failed |= i == PROCESSES - 1 ? !killed : status;
	}
	printf("%d processes, %d rounds; the death of one %s\n", PROCESSES, ROUNDS,
	       failed ? "or something else went wrong" : "was seen");
	return failed != 0;
}
