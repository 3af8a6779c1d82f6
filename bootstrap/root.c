/* SPDX-License-Identifier: BSD-3-Clause */
/* root.c - the root's thread: accepts and authenticates connections */
#include "root_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/net/auth.h"
#include "lib/base/clock.h"
#include "lib/base/forkguard.h"
#include "lib/base/log.h"

#define SILENT_SECONDS 5 /* time limit for a client to prove that it knows the key */
#define TICK_MS 250
#define FULL_MS 10	  /* while a full group waits for connections in progress */
#define STRANGER_MS 1000  /* a stranger is closed for a newer one after this time at the earliest */
#define NAMED 3		  /* refused clients that have a log line each; later ones are counted */
#define REPORT_SECONDS 10 /* between two log lines about refused clients */

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

int rootPoll(const struct root *root, int fd, struct rootClient *client)
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
	    authChallenge(fd, client->challenge, clockNow()) || rootPoll(root, fd, client)) {
		dropStranger(root, client);
		return;
	}
	client->since = clockNow(); /* the client had no challenge before */
}

/* Pauses when no file descriptor is left: clients that get their replies free descriptors. */
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

static int findKey(struct root *root, struct rootClient *client)
{
	struct authKey *found = NULL;

	pthread_mutex_lock(&rootLock);
	int failed = authAnswerAny(client->fd, root->keys, client->challenge, &client->rank, &found,
				   clockNow());
	root->groups.otherKey |= failed && errno == EACCES;
	client->key = (struct rootKey *)found;
	if (client->key)
		client->key->isUsed = 1;
	pthread_mutex_unlock(&rootLock);
	return failed;
}

static void authenticate(struct root *root, struct rootClient *client)
{
	if (findKey(root, client) || expectBytes(client, sizeof(client->request))) {
		refuse(root, client);
		return;
	}
	client->state = clientAsks;
	root->strangers--;
}

/* A client of another job fails without failing its group. */
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
	    rootRequestBound(&client->request, client->rank)) {
		if (!isOtherJob(root, client))
			rootGroupsAdd(&root->groups, client);
		return;
	}
	const struct rootKey *key = client->key;
	uint32_t rank = client->rank;
	logWrite(logWarn, "bootstrap: rank %u disconnected, or sent an invalid request", rank);
	rootClientDrop(client);
	if (ended)
		rootGroupsMiss(&root->groups, key, rank);
}

/* The client has sent a message, or has disconnected. */
static void serve(struct root *root, struct rootClient *client)
{
	if (client->state >= clientWaits)
		rootGroupsHear(&root->groups, client);
	else if (client->state == clientProves)
		authenticate(root, client);
	else
		readRequest(root, client);
}

/*
 * Only a client that has not proved that it knows the key can be silent: a rank may be stopped for
 * any length of time. A client whose proof has arrived is not silent, even if the root has not read
 * the proof: the root's process may have been stopped.
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

/* Are there connections whose ranks are not known yet, where another job may use this port? */
static int othersCome(const struct root *root)
{
	struct pollfd ready = {.fd = root->listener, .events = POLLIN};

	if (!root->groups.mayMix || root->job[0])
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
	return root->clients || root->groups.list || root->linger ? TICK_MS : -1;
}

static void dropClientsOf(struct root *root, const struct rootKey *key)
{
	for (struct rootClient *client = root->clients, *next; client; client = next) {
		next = client->next;
		if (client->key == key)
			rootClientDrop(client);
	}
}

void rootKeyDrop(struct root *root, struct authKey **at)
{
	struct authKey *key = *at;

	*at = key->next;
	free(((struct rootKey *)key)->givenUp);
	free(key);
	__atomic_fetch_sub(&root->users, 1, __ATOMIC_RELAXED);
}

/* Unique ids whose communicators are complete, or have failed. */
static void dropDone(struct root *root)
{
	if (!root->groups.someDone)
		return;
	root->groups.someDone = 0;
	pthread_mutex_lock(&rootLock);
	for (struct authKey **at = &root->keys; *at;) {
		const struct rootKey *key = (const struct rootKey *)*at;
		if (key->isDone) {
			dropClientsOf(root, key);
			rootKeyDrop(root, at);
		} else {
			at = &(*at)->next;
		}
	}
	pthread_mutex_unlock(&rootLock);
}

static void tellGivenUp(struct root *root)
{
	if (!__atomic_load_n(&root->someGivenUp, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&rootLock);
	for (struct authKey *auth = root->keys; auth; auth = auth->next) {
		struct rootKey *key = (struct rootKey *)auth;
		if (key->givenUp && !key->hasTold)
			rootGroupsGiveUp(&root->groups, key, key->givenUp);
		key->hasTold = key->givenUp != NULL;
	}
	root->someGivenUp = 0;
	pthread_mutex_unlock(&rootLock);
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
	tellGivenUp(root);
	dropDone(root);
}

static void closeListener(struct root *root)
{
	if (root->listener < 0)
		return;
	shutdown(root->listener, SHUT_RDWR); /* for the reason in rootClientDrop() */
	forkGuardClose(root->listener);
	root->listener = -1;
}

void rootFree(struct root *root)
{
	rootUnlink(root);
	rootGroupsFree(&root->groups);
	while (root->clients)
		rootClientDrop(root->clients);
	if (root->poll >= 0)
		close(root->poll);
	closeListener(root);
	while (root->keys)
		rootKeyDrop(root, &root->keys);
	free(root);
}

/* After 1, rootUse() finds no root, and the port is free. */
static int isUnused(struct root *root)
{
	uint64_t now = clockNow();

	if (!root->handle)
		return 0;
	if (__atomic_load_n(&root->users, __ATOMIC_RELAXED) || root->clients || root->groups.list) {
		root->busy = now;
		return 0;
	}
	if (now < root->busy + root->linger * SECOND)
		return 0;
	pthread_mutex_lock(&rootLock);
	int ends = !root->users;
	if (ends) {
		closeListener(root);
		*root->handle = NULL;
	}
	pthread_mutex_unlock(&rootLock);
	return ends;
}

void *rootThread(void *arg)
{
	struct root *root = arg;

	while (!isUnused(root))
		step(root);
	rootFree(root);
	return NULL;
}
