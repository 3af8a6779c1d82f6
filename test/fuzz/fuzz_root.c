/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_root.c - messages that a root reads: answers to its challenge, and requests of processes
 * that have proved the key
 *
 * An input is a list of steps: ranks come, leave, or miss, and time passes. Each rank gets one
 * reply at most, and it is the entries of its own communicator, or a sentence. At the end every
 * connection is closed.
 */
/* LINK: -Wl,--wrap=send,--wrap=sendmsg,--wrap=recv,--wrap=shutdown,--wrap=close,--wrap=epoll_ctl */
#include "fuzz.h"

#include "fake_sockets.h"

#include "bootstrap/meeting.h"
#include "bootstrap/root_group.h"
#include "lib/base/net/auth.h"
#include "lib/base/clock.h"

#define VISITORS 48
#define RANKS_MOST 300 /* of a request: more cost time, and find nothing */
#define SECONDS 20

/* The other side of a connection to the root. */
struct visitor {
	int fd;
	struct rootRequest request; /* as the root reads it */
	int isTold, isOver;
	uint16_t replyBytes;
	struct rootReply reply;
};

static struct visitor visitor[VISITORS];
static int visitors, rawVisitors;
static struct rootGroups groups;
static struct rootKey keys[2];

/* The data of a rank of this communicator. */
static void fillEntry(const struct rootRequest *request, uint32_t rank, struct bootstrapEntry *out)
{
	uint32_t numbers[] = {request->generation, rank};

	memset(out, 0, sizeof(*out));
	out->magic = 7;
	snprintf(out->host, sizeof(out->host), "host%u", rank);
	memcpy(out->data, request->name, sizeof(request->name));
	memcpy(out->data + sizeof(request->name), numbers, sizeof(numbers));
}

static void fillRequest(struct fuzzInput *in, struct rootRequest *request)
{
	uint8_t name = fuzzByte(in), refuses = fuzzByte(in);

	memset(request, 0, sizeof(*request));
	request->nRanks = fuzzByte(in) % 20;
	request->rank = fuzzByte(in) % 20;
	request->parent = fuzzByte(in) % 20;
	request->generation = name >> 4 & 3;
	request->pid = name & 8 ? (uint32_t)getpid() : 1;
	snprintf(request->name, sizeof(request->name), "%.*s", name & 3, "abc");
	fillEntry(request, request->rank, &request->entry);
	request->entry.magic += refuses == 255;
	if (refuses <= 250)
		return;
	snprintf(request->entry.refusal, sizeof(request->entry.refusal), "refused");
	request->entry.refused = refuses - 252;
}

/* Bytes of the input replace some of the request. */
static void changeRequest(struct fuzzInput *in, struct rootRequest *request)
{
	uint16_t at = fuzzShort(in), bytes = fuzzShort(in) % 2048;
	struct fuzzInput part;

	at %= sizeof(*request);
	part = fuzzPart(in, bytes < sizeof(*request) - at ? bytes : sizeof(*request) - at);
	memcpy((char *)request + at, part.at, part.left);
	if (request->nRanks <= ROOT_RANKS)
		request->nRanks %= RANKS_MOST;
}

static struct rootClient *newClient(int fd, const struct rootRequest *request,
				    struct rootClient **list)
{
	struct rootClient *client = calloc(1, sizeof(*client));

	EXPECT(client != NULL);
	*client = (struct rootClient){.fd = fd,
				      .poll = -1,
				      .state = clientAsks,
				      .request = *request,
				      .next = *list,
				      .at = list};
	if (*list)
		(*list)->at = &client->next;
	*list = client;
	return client;
}

static void come(struct fuzzInput *in, struct rootClient **list, int isRaw)
{
	struct visitor *v = &visitor[visitors];
	int fds[2];

	if (visitors == VISITORS)
		return;
	fillRequest(in, &v->request);
	if (isRaw)
		changeRequest(in, &v->request);
	fakePair(fds);
	struct rootClient *client = newClient(fds[0], &v->request, list);
	client->rank = v->request.rank % 20;
	client->key = &keys[isRaw && v->request.pid % 5 == 0];
	v->fd = fds[1];
	v->isTold = v->isOver = v->replyBytes = 0;
	visitors++;
	rawVisitors += isRaw;
	if (rootRequestBound(&client->request, client->rank))
		rootGroupsAdd(&groups, client);
	else
		rootClientDrop(client);
}

/* The client of a visitor that waits or joins; NULL: there is none. */
static struct rootClient *anyClient(uint8_t which)
{
	for (struct rootGroup *g = groups.list; g; g = g->next)
		for (uint32_t r = 0; r < g->first.nRanks; r++)
			if (g->client[r] && !which--)
				return g->client[r];
	return NULL;
}

/* A visitor has joined the others, or ends. */
static void leave(uint8_t which)
{
	struct rootClient *client = anyClient(which % 32);

	for (int i = 0; i < visitors && client && which & 32; i++) {
		struct rootRequest *mine = &visitor[i].request;
		if (mine->rank == client->rank && visitor[i].fd >= 0 &&
		    !strncmp(mine->name, client->request.name, sizeof(mine->name)))
			send(visitor[i].fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	}
	if (client)
		rootGroupsHear(&groups, client);
}

static void expectOwn(const struct visitor *v)
{
	struct bootstrapEntry due;

	fillEntry(&v->request, 0, &due);
	EXPECT(!memcmp(&due, &v->reply.root, sizeof(due)));
	fillEntry(&v->request, v->request.parent, &due);
	EXPECT(!memcmp(&due, &v->reply.parent, sizeof(due)));
}

static void readReply(struct visitor *v)
{
	char why[BOOTSTRAP_WHY] = "";

	EXPECT(memchr(v->reply.why, '\0', sizeof(v->reply.why)) != NULL);
	int result = meetingRead(&v->reply, why);
	EXPECT(!result == !why[0]);
	EXPECT(!v->isOver && (result || !v->isTold)); /* a second reply fails the communicator */
	v->isTold = 1;
	v->isOver = result != 0;
	if (!result && !rawVisitors)
		expectOwn(v);
}

/* Reads the replies. Returns whether the connection has ended. */
static int drain(struct visitor *v)
{
	ssize_t got;

	while ((got = recv(v->fd, (char *)&v->reply + v->replyBytes,
			   sizeof(v->reply) - v->replyBytes, MSG_DONTWAIT)) > 0) {
		v->replyBytes = (uint16_t)(v->replyBytes + got);
		if (v->replyBytes < sizeof(v->reply))
			continue;
		readReply(v);
		v->replyBytes = 0;
	}
	return got == 0 || errno != EAGAIN;
}

/* A proof of a key, of which the input changes some bytes: only the right one is taken. */
static void answer(struct fuzzInput *in)
{
	struct authKey other = {.bytes = "another key"}, key = {"the right key", &other};
	uint64_t challenge[2] = {fuzzWord(in), 3}, proof = 1;
	uint8_t bytes[AUTH_ANSWER_BYTES];
	uint32_t rank;

	fuzzTake(in, bytes, sizeof(bytes));
	EXPECT(!authRead(bytes, &key, challenge, &rank, &proof));
	EXPECT(!proof);
}

static void step(struct fuzzInput *in, struct rootClient **list)
{
	uint8_t what = fuzzByte(in);

	switch (what % 8) {
	case 0:
	case 1:
	case 2:
		come(in, list, 0);
		break;
	case 3:
		come(in, list, 1);
		break;
	case 4:
		leave(what >> 3);
		break;
	case 5:
		rootGroupsMiss(&groups, &keys[0], what >> 3);
		break;
	case 6:
		if (what & 64)
			answer(in);
		rootGroupsComplete(&groups, what >> 3 & 1);
		break;
	default:
		rootGroupsTick(&groups, clockNow() + (what >> 3) * SECOND);
	}
}

static void fuzzOne(struct fuzzInput *in)
{
	struct rootClient *list = NULL;

	groups = (struct rootGroups){.seconds = SECONDS, .mayMix = fuzzByte(in) & 1};
	keys[0] = keys[1] = (struct rootKey){.isUsed = 1};
	keys[1].isId = 1;
	visitors = rawVisitors = 0;
	for (int steps = 0; in->left && steps < 150; steps++) {
		step(in, &list);
		for (int i = 0; i < visitors && steps % 16 == 15; i++)
			drain(&visitor[i]);
	}
	rootGroupsTick(&groups, clockNow() + 3 * SECONDS * SECOND);
	rootGroupsFree(&groups);
	EXPECT(!list);
	for (int i = 0; i < visitors; i++) {
		EXPECT(drain(&visitor[i]));
		close(visitor[i].fd);
	}
	fakeReset();
}
