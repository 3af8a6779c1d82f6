/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * misuse - work requests and attributes that hardware punishes by an error completion, by a refused
 * command, or by never completing
 */
#include "pair.h"

enum { PORT_OF_4096 = 5, PORT_OF_256 = 1, HALF = BUFFER / 2, PAGE = 4096 };
enum {
	LOCAL_LENGTH = 0x01,
	LOCAL_PROTECTION = 0x04,
	REMOTE_INVALID = 0x12,
	REMOTE_ACCESS = 0x13,
	RETRIES_EXCEEDED = 0x15,
};

/* Two connected queue pairs whose ends may differ. */
static void beginWith(struct queue_options ours, struct queue_options theirs)
{
	hostOpen();
	key = hostRegister(memory, sizeof(memory), 0, ALL);
	EXPECT(key);
	queueCreate(&queue, &ours);
	queueCreate(&peer, &theirs);
	queueConnect(&queue, peer.qpn, &ours);
	queueConnect(&peer, queue.qpn, &theirs);
}

static void expectDone(void)
{
	uint32_t last = queue.producer - 1;

	queueRing(&queue);
	queueAwait(&queue, last);
}

static void expectError(uint8_t syndrome)
{
	uint32_t last = queue.producer - 1;

	queueRing(&queue);
	queueAwaitError(&queue, last, syndrome);
}

static struct range with(unsigned int access)
{
	uint32_t other = hostRegister(memory, sizeof(memory), 0, access);

	EXPECT(other);
	return (struct range){PAGE, other};
}

static void remoteEnd(void)
{
	begin();
	queueInline(&queue, at(BUFFER - 8), "12345678", 8, SIGNALED);
	expectDone();
	queueInline(&queue, at(BUFFER - 7), "12345678", 8, SIGNALED);
	expectError(REMOTE_ACCESS);
}

static void localEnd(void)
{
	begin();
	queueWrite(&queue, at(0), at(BUFFER - 8), 8, SIGNALED);
	expectDone();
	queueWrite(&queue, at(0), at(BUFFER - 7), 8, SIGNALED);
	expectError(LOCAL_PROTECTION);
}

/* The right to write does not matter. */
static void atomicRight(void)
{
	begin();
	queueAtomic(&queue, FETCH_ADD, with(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC),
		    at(0), 1, 0, SIGNALED);
	expectDone();
	queueAtomic(&queue, FETCH_ADD,
		    with(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ),
		    at(0), 1, 0, SIGNALED);
	expectError(REMOTE_ACCESS);
}

static void readIntoReadOnly(void)
{
	begin();
	queueRead(&queue, at(0), with(0), 8, SIGNALED);
	expectError(LOCAL_PROTECTION);
}

static void resultIntoReadOnly(void)
{
	begin();
	queueAtomic(&queue, FETCH_ADD, at(0), with(0), 1, 0, SIGNALED);
	expectError(LOCAL_PROTECTION);
}

static void post16Reads(void)
{
	for (uint32_t i = 0; i < 16; i++)
		queueRead(&queue, at(HALF), at(64 * i), 64, i == 15 ? SIGNALED : 0);
	queueRing(&queue);
}

/* The requester itself delays requests beyond its limit. */
static void readsOfOne(void)
{
	beginWith((struct queue_options){.oneRead = true},
		  (struct queue_options){.answersOne = true});
	post16Reads();
	queueAwait(&queue, 15);
}

static void readsTooMany(void)
{
	beginWith((struct queue_options){.oneRead = false},
		  (struct queue_options){.answersOne = true});
	post16Reads();
	queueAwaitError(&queue, 1, REMOTE_INVALID);
}

static void mtuDiffers(void)
{
	beginWith((struct queue_options){.mtu = PORT_OF_4096},
		  (struct queue_options){.mtu = PORT_OF_256});
	queueWrite(&queue, at(0), at(HALF), 256, SIGNALED);
	expectDone();
	queueWrite(&queue, at(0), at(HALF), 257, SIGNALED);
	expectError(REMOTE_INVALID);
}

static void messageTooLong(void)
{
	const struct queue_options options = {.messageLog = 10};

	beginWith(options, options);
	queueWrite(&queue, at(0), at(HALF), 1024, SIGNALED);
	expectDone();
	queueWrite(&queue, at(0), at(HALF), 1025, SIGNALED);
	expectError(LOCAL_LENGTH);
}

static void messageTooLongForPeer(void)
{
	beginWith((struct queue_options){.messageLog = 30},
		  (struct queue_options){.messageLog = 10});
	queueWrite(&queue, at(0), at(HALF), 1025, SIGNALED);
	expectError(REMOTE_INVALID);
}

static void beginDropping(struct queue_options options)
{
	setenv("MLX5DEV_FAULT", "drop@0", 1);
	beginWith(options, options);
	queueInline(&queue, at(64), "12345678", 8, SIGNALED);
}

static void dropped(void)
{
	beginDropping((struct queue_options){.mtu = 0});
	expectDone();
}

static void droppedWithoutRetries(void)
{
	beginDropping((struct queue_options){.noRetries = true});
	expectError(RETRIES_EXCEEDED);
}

static void droppedWithoutTimeout(void)
{
	beginDropping((struct queue_options){.noTimeout = true});
	queueRing(&queue);
	usleep(100000);
	EXPECT_EQUAL(queueEntryOpcode(queue.cq), 15);
}

static void beginRoce(struct queue_options options)
{
	setenv("MLX5DEV_PROFILE", "cx7,roce", 1);
	beginWith(options, options);
}

static void noHops(void)
{
	beginRoce((struct queue_options){.noHops = true});
}

static void mtuOverPort(void)
{
	beginRoce((struct queue_options){.mtu = PORT_OF_4096});
}

static void readsOverDevice(void)
{
	setenv("MLX5DEV_PROFILE", "cx7,ib,reads=4", 1);
	beginWith((struct queue_options){.answersOne = true},
		  (struct queue_options){.answersOne = true});
}

static void answersOverDevice(void)
{
	setenv("MLX5DEV_PROFILE", "cx7,ib,reads=4", 1);
	beginWith((struct queue_options){.oneRead = true}, (struct queue_options){.oneRead = true});
}

static const struct rule {
	const char *name;
	void (*body)(void);
	const char *refusal; /* of a command, or NULL */
} rules[] = {
	{"a remote region's end", remoteEnd, NULL},
	{"a local region's end", localEnd, NULL},
	{"atomics need the right to do atomics", atomicRight, NULL},
	{"a READ into memory that is read-only", readIntoReadOnly, NULL},
	{"an atomic's result into memory that is read-only", resultIntoReadOnly, NULL},
	{"one READ at a time", readsOfOne, NULL},
	{"more READs than the peer answers", readsTooMany, NULL},
	{"path MTUs differ", mtuDiffers, NULL},
	{"a message is over log_msg_max", messageTooLong, NULL},
	{"a message is over the peer's log_msg_max", messageTooLongForPeer, NULL},
	{"a packet is lost", dropped, NULL},
	{"a packet is lost, no retries", droppedWithoutRetries, NULL},
	{"a packet is lost, no ACK timeout", droppedWithoutTimeout, NULL},
	{"hop limit 0", noHops, "INIT2RTR is refused: status 0x3"},
	{"path MTU over the port's", mtuOverPort, "INIT2RTR is refused: status 0x3"},
	{"READs over the device's, responder", answersOverDevice,
	 "INIT2RTR is refused: status 0x3"},
	{"READs over the device's, requester", readsOverDevice, "RTR2RTS is refused: status 0x3"},
};

static void check(const struct rule *rule)
{
	char text[8192];
	int status = childRun(rule->body, text, sizeof(text));

	expectThat(status == (rule->refusal != NULL), __FILE__, __LINE__,
		   "%s: status %d; it said \"%s\"", rule->name, status, text);
	if (rule->refusal)
		EXPECT_HAS(text, rule->refusal);
	printf("ok: %s\n", rule->name);
}

int main(void)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
		check(&rules[i]);
	return 0;
}
