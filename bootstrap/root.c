/* SPDX-License-Identifier: BSD-3-Clause */
/* root.c - the root's thread: accepts and authenticates connections */
#include "root.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/forkguard.h"
#include "lib/base/auth.h"
#include "lib/base/identity.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/base/thread.h"
#include "root_group.h"

#define SILENT_SECONDS 5 /* time limit for a client to prove that it knows the key */
#define TICK_MS 250
#define FULL_MS 10	   /* while a group that is full waits for other clients */
#define STRANGERS_MOST 256 /* clients that have not proved that they know the key */
#define STRANGERS_LEAST 4
#define STRANGER_MS 1000  /* a stranger is closed for a newer one after this time at the earliest */
#define NAMED 3		  /* refused clients that have a log line each; later ones are counted */
#define REPORT_SECONDS 10 /* between two log lines about refused clients */
#define STACK_BYTES (256 << 10)

struct root {
	int listener, poll;
	int once;
	int strangers, most;
	int paused;	  /* all slots are taken: the listener is not polled */
	int full;	  /* a group that is full waits for other clients */
	unsigned named;	  /* refused clients that have a log line each */
	unsigned refused; /* since the last log line */
	uint64_t reported, warned;
	uint8_t key[AUTH_KEY_BYTES];
	char job[BOOTSTRAP_JOB], host[64];
	struct rootClient *clients;
	struct rootGroups groups;
	struct root **handle; /* NULL: the root does not count users */
	int users;	      /* changes under usersLock, as *handle */
	uint64_t busy;	      /* when there was last a user, a client or a communicator */
};

static pthread_mutex_t usersLock = PTHREAD_MUTEX_INITIALIZER;

static void dropStranger(struct root *root, struct rootClient *client)
{
	root->strangers--;
	rootClientDrop(client);
}

/* Logs the first refusal with its address, later ones as a number. */
static void refuse(struct root *root, struct rootClient *client)
{
	char from[64];

	if (root->named == NAMED) {
		root->refused++;
	} else {
		root->named++;
		socketPeer(client->fd, from, sizeof(from));
		logWrite(logWarn, "bootstrap: refused %s, which does not know the key (GIN_SECRET)",
			 from);
		root->reported = clockNow();
	}
	dropStranger(root, client);
}

static void reportRefusals(struct root *root, uint64_t now)
{
	if (!root->refused || now < root->reported + REPORT_SECONDS * SECOND)
		return;
	logWrite(logWarn,
		 "bootstrap: refused %u more connections, which do not know the key (GIN_SECRET)",
		 root->refused);
	root->refused = 0;
	root->reported = now;
}

/* Strangers leave most file descriptors to the program. */
static int mostStrangers(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur / 8 > STRANGERS_MOST)
		return STRANGERS_MOST;
	return files.rlim_cur / 8 < STRANGERS_LEAST ? STRANGERS_LEAST : (int)files.rlim_cur / 8;
}

/* The list begins with the newest client. */
static struct rootClient *oldestStranger(const struct root *root)
{
	struct rootClient *oldest = NULL;

	for (struct rootClient *client = root->clients; client; client = client->next)
		if (client->state == clientProves)
			oldest = client;
	return oldest;
}

/* When all slots are taken, the root accepts nobody until a stranger can be closed. */
static void makeRoom(struct root *root, uint64_t now)
{
	struct rootClient *oldest = root->strangers < root->most ? NULL : oldestStranger(root);

	if (oldest && now >= oldest->since + STRANGER_MS * (SECOND / 1000)) {
		refuse(root, oldest);
		oldest = NULL;
	}
	int pause = oldest != NULL;
	struct epoll_event event = {.events = pause ? 0 : EPOLLIN};
	if (pause != root->paused)
		epoll_ctl(root->poll, EPOLL_CTL_MOD, root->listener, &event);
	root->paused = pause;
}

/* epoll reports the client only when a whole message has arrived: reading it never blocks. */
static int expectBytes(const struct rootClient *client, int bytes)
{
	return setsockopt(client->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

static int pollAdd(const struct root *root, int fd, struct rootClient *client)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};

	return epoll_ctl(root->poll, EPOLL_CTL_ADD, fd, &event);
}

static void addClient(struct root *root, int fd)
{
	struct rootClient *client = calloc(1, sizeof(*client));

	if (!client) {
		close(fd);
		return;
	}
	*client = (struct rootClient){
		.fd = fd, .poll = root->poll, .next = root->clients, .at = &root->clients};
	if (root->clients)
		root->clients->at = &client->next;
	root->clients = client;
	root->strangers++;
	if (expectBytes(client, AUTH_ANSWER_BYTES) ||
	    authChallenge(fd, client->challenge, clockNow()) || pollAdd(root, fd, client)) {
		dropStranger(root, client);
		return;
	}
	client->since = clockNow(); /* the client had no challenge before */
}

/* Pauses when no file descriptor is left: clients that get their replies free theirs. */
static void acceptClient(struct root *root)
{
	int fd = socketAccept(root->listener, clockNow());

	if (fd >= 0) {
		addClient(root, fd);
		return;
	}
	if (errno != EMFILE && errno != ENFILE)
		return; /* the client has disconnected already */
	if (!root->warned || clockNow() > root->warned + REPORT_SECONDS * SECOND) {
		root->warned = clockNow();
		logWrite(logWarn, "bootstrap: no file descriptor left for ranks that connect: "
				  "raise ulimit -n on the host of rank 0");
	}
	usleep(TICK_MS * 1000);
}

static int validRequest(struct rootClient *client)
{
	struct rootRequest *request = &client->request;

	request->name[sizeof(request->name) - 1] = '\0';
	request->job[sizeof(request->job) - 1] = '\0';
	request->entry.host[sizeof(request->entry.host) - 1] = '\0';
	request->entry.refusal[sizeof(request->entry.refusal) - 1] = '\0';
	return request->rank == client->rank && request->nRanks <= ROOT_RANKS &&
	       request->rank < request->nRanks && request->parent <= request->rank;
}

static void authenticate(struct root *root, struct rootClient *client)
{
	if (authAnswer(client->fd, root->key, client->challenge, &client->rank, clockNow()) ||
	    expectBytes(client, sizeof(client->request))) {
		refuse(root, client);
		return;
	}
	client->state = clientAsks;
	root->strangers--;
}

/* The client of another job fails alone. */
static int isOtherJob(const struct root *root, struct rootClient *client)
{
	const struct rootRequest *request = &client->request;
	char why[BOOTSTRAP_WHY];

	if (!root->job[0] || !request->job[0] || !strcmp(root->job, request->job))
		return 0;
	snprintf(why, sizeof(why),
		 "rank %u (host %.63s, pid %u) is of job %s, but the root at this port (host %s, "
		 "pid %d) is of job %s: each job needs a port of its own",
		 request->rank, request->entry.host, request->pid, request->job, root->host,
		 (int)getpid(), root->job);
	logWrite(logWarn, "bootstrap: %s", why);
	rootClientFail(client, -1, why);
	return 1;
}

static void readRequest(struct root *root, struct rootClient *client)
{
	char byte;
	int ended = recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;

	if (!ended &&
	    !socketReceive(client->fd, &client->request, sizeof(client->request), clockNow()) &&
	    validRequest(client)) {
		if (!isOtherJob(root, client))
			rootGroupsAdd(&root->groups, client);
		return;
	}
	uint32_t rank = client->rank;
	logWrite(logWarn, "bootstrap: rank %u disconnected, or sent an invalid request", rank);
	rootClientDrop(client);
	if (ended)
		rootGroupsMiss(&root->groups, rank);
}

/* The client has sent a message, or has disconnected. */
static void serve(struct root *root, struct rootClient *client)
{
	if (client->state == clientWaits || client->state == clientJoins)
		rootGroupsHear(&root->groups, client);
	else if (client->state == clientProves)
		authenticate(root, client);
	else
		readRequest(root, client);
}

/*
 * Only a client that has not proved that it knows the key can be silent: a rank may be stopped for
 * any time. A client whose proof has arrived is not silent, even if the root has not read the
 * proof: the root's process may have been stopped.
 */
static int isSilent(const struct rootClient *client, uint64_t now)
{
	struct pollfd ready = {.fd = client->fd, .events = POLLIN};

	return client->state == clientProves && now > client->since + SILENT_SECONDS * SECOND &&
	       poll(&ready, 1, 0) == 0;
}

static void dropSilent(struct root *root, uint64_t now)
{
	for (struct rootClient *client = root->clients, *next; client; client = next) {
		next = client->next;
		if (isSilent(client, now))
			refuse(root, client);
	}
}

/* Connections whose ranks are not known yet, where another job may use this port. */
static int othersCome(const struct root *root)
{
	struct pollfd ready = {.fd = root->listener, .events = POLLIN};

	if (!root->handle || root->job[0])
		return 0;
	for (const struct rootClient *client = root->clients; client; client = client->next)
		if (client->state == clientProves || client->state == clientAsks)
			return 1;
	return poll(&ready, 1, 0) > 0;
}

static int waitMs(const struct root *root)
{
	if (root->full)
		return FULL_MS;
	return root->clients || root->groups.list || root->handle ? TICK_MS : -1;
}

/* Handles one event only: handling it may free clients that other events point to. */
static void step(struct root *root)
{
	struct epoll_event event;
	int ready = epoll_wait(root->poll, &event, 1, waitMs(root));

	if (ready > 0 && event.data.ptr)
		serve(root, event.data.ptr);
	else if (ready > 0)
		acceptClient(root);
	uint64_t now = clockNow();
	root->full = rootGroupsFull(&root->groups) &&
		     rootGroupsComplete(&root->groups, othersCome(root));
	dropSilent(root, now);
	makeRoom(root, now);
	reportRefusals(root, now);
	rootGroupsTick(&root->groups, now);
}

static void closeListener(struct root *root)
{
	if (root->listener < 0)
		return;
	shutdown(root->listener, SHUT_RDWR); /* for the reason in rootClientDrop() */
	forkGuardClose(root->listener);
	root->listener = -1;
}

static void freeRoot(struct root *root)
{
	rootGroupsFree(&root->groups);
	while (root->clients)
		rootClientDrop(root->clients);
	if (root->poll >= 0)
		close(root->poll);
	closeListener(root);
	free(root);
}

/*
 * After 1, rootUse() finds no root, and the port is free. The lock is taken once only, because a
 * forked child would find it taken.
 */
static int isUnused(struct root *root)
{
	uint64_t now = clockNow();

	if (!root->handle)
		return 0;
	if (__atomic_load_n(&root->users, __ATOMIC_RELAXED) || root->clients || root->groups.list)
		root->busy = now;
	if (now <= root->busy + ROOT_LINGER * SECOND)
		return 0;
	pthread_mutex_lock(&usersLock);
	int ends = !root->users;
	if (ends) {
		closeListener(root);
		*root->handle = NULL;
	}
	pthread_mutex_unlock(&usersLock);
	return ends;
}

static void *rootThread(void *arg)
{
	struct root *root = arg;

	while (!(root->once && root->groups.done) && !isUnused(root))
		step(root);
	freeRoot(root);
	return NULL;
}

static void setHandle(struct root **handle, struct root *root)
{
	pthread_mutex_lock(&usersLock);
	if (handle)
		*handle = root;
	pthread_mutex_unlock(&usersLock);
}

static int startRoot(int listener, const uint8_t key[AUTH_KEY_BYTES], const char *job, int once,
		     unsigned seconds, struct root **handle)
{
	struct root *root = calloc(1, sizeof(*root));
	pthread_t thread;

	if (!root) {
		close(listener);
		return -1;
	}
	*root = (struct root){.listener = listener,
			      .once = once,
			      .most = mostStrangers(),
			      .handle = handle,
			      .users = 1,
			      .busy = clockNow(),
			      .groups = {.seconds = seconds}};
	forkGuard(listener);
	memcpy(root->key, key, sizeof(root->key));
	snprintf(root->job, sizeof(root->job), "%s", job);
	gethostname(root->host, sizeof(root->host) - 1);
	root->poll = fileAboveStandard(epoll_create1(EPOLL_CLOEXEC));
	if (root->poll < 0 || pollAdd(root, listener, NULL))
		goto failed;
	setHandle(handle, root);
	errno = threadStartSized(&thread, "gin-root", STACK_BYTES, rootThread, root);
	if (errno)
		goto failed;
	pthread_detach(thread);
	return 0;

failed:;
	int reason = errno;
	setHandle(handle, NULL);
	freeRoot(root);
	errno = reason;
	return -1;
}

int rootStart(int listener, const uint8_t key[AUTH_KEY_BYTES], const char *job, int once,
	      unsigned seconds)
{
	return startRoot(listener, key, job, once, seconds, NULL);
}

int rootStartUsed(int listener, const uint8_t key[AUTH_KEY_BYTES], const char *job,
		  unsigned seconds, struct root **handle)
{
	return startRoot(listener, key, job, 0, seconds, handle);
}

int rootUse(struct root **handle)
{
	pthread_mutex_lock(&usersLock);
	int runs = *handle != NULL;
	if (runs)
		__atomic_fetch_add(&(*handle)->users, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&usersLock);
	return runs;
}

void rootRelease(struct root **handle)
{
	pthread_mutex_lock(&usersLock);
	if (*handle)
		__atomic_fetch_sub(&(*handle)->users, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&usersLock);
}

int rootMake(struct rootContact *contact, const char *ifname, int once, unsigned seconds, char *why)
{
	struct rootContact made = {.magic = ROOT_MAGIC, .hostId = identityHostId()};
	int listener = socketListen(NULL, &made.port);

	int failed = listener < 0 || randomBytes(made.key, sizeof(made.key));
	if (failed && listener >= 0)
		close(listener);
	if (failed || rootStart(listener, made.key, "", once, seconds)) {
		snprintf(why, BOOTSTRAP_WHY, "cannot listen for the other ranks: %m");
		return -1;
	}
	made.addresses = (uint16_t)socketAddresses(ifname, made.address, ROOT_ADDRESSES);
	*contact = made;
	return 0;
}
